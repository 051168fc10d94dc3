//! The state of a cluster, normalized so that runs can be compared.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use steersman_api::store::{Batch, Entry, Event};
use steersman_apiserver::Catalog;
use steersman_cluster::Cluster;

use crate::{derived::is_derived, oracle::Objects};

/// Annotations that count changes of a pod template, several of which an operator may have combined.
const COUNTERS: [&str; 3] = [
    "deployment.kubernetes.io/revision",
    "deployment.kubernetes.io/revision-history",
    "deprecated.daemonset.template.generation",
];

/// Resources that do not reflect an operator's intent: records, heartbeats, data derived from pods.
const IGNORED: [&str; 9] = [
    "events",
    "leases",
    "nodes",
    "csinodes",
    "endpoints",
    "endpointslices",
    "apiservices",
    "flowschemas",
    "namespaces",
];

/// Resources whose objects built-in controllers create from others.
const WORKLOADS: [&str; 5] =
    ["controllerrevisions.apps", "jobs.batch", "persistentvolumeclaims", "pods", "replicasets.apps"];

/// Maximum number of differences shown of a comparison.
const SHOWN: usize = 6;

/// Objects by `resource.group/namespace/name`, without what differs between runs.
pub(crate) type State = BTreeMap<String, Value>;

/// A change of an object in the store's log.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) key: String,
    pub(crate) verb: &'static str,
    event: Arc<Event>,
}

impl Change {
    /// Returns the object after the change, or its last version if deleted.
    ///
    /// It is parsed lazily, since few are used.
    pub(crate) fn object(&self) -> Value {
        self.event.entry.value()
    }

    /// Returns the object's metadata only, without managedFields.
    pub(crate) fn metadata(&self) -> Value {
        #[derive(Default, Deserialize)]
        struct Part {
            metadata: Value,
        }
        json!({"metadata": self.event.entry.part::<Part>().metadata})
    }
}

/// The tables of a cluster's store that are compared.
#[derive(Debug)]
pub(crate) struct Tables(Vec<Table>);

/// A table of a store, and the `resource.group` of its objects.
#[derive(Debug)]
struct Table {
    storage: Arc<str>,
    name: String,
    /// Whether built-in controllers create such objects from others.
    is_for_workloads: bool,
}

impl Table {
    /// Whether an object in it is derived from another one.
    fn is_derived(&self, entry: &Entry) -> bool {
        self.is_for_workloads && is_derived(entry)
    }
}

impl Tables {
    pub(crate) fn of(catalog: &Catalog) -> Self {
        let mut tables = BTreeMap::new();
        for resource in catalog.resources().filter(|resource| !IGNORED.contains(&resource.plural.as_str())) {
            let name = match resource.group.as_str() {
                "" => resource.plural.clone(),
                group => format!("{}.{group}", resource.plural),
            };
            tables.entry(Arc::clone(&resource.storage)).or_insert(name);
        }
        let table = |(storage, name): (Arc<str>, String)| {
            let is_for_workloads = WORKLOADS.contains(&name.as_str());
            Table { storage, name, is_for_workloads }
        };
        Self(tables.into_iter().map(table).collect())
    }

    /// Returns the changes after a revision, in order.
    pub(crate) fn changes(&self, cluster: &Cluster, after: u64) -> Vec<Change> {
        let mut changes = Vec::new();
        for table in &self.0 {
            for event in events(cluster, &table.storage, after) {
                if !table.is_derived(&event.entry) {
                    let key = format!("{}/{}", table.name, event.entry.key());
                    changes.push(Change { revision: event.revision, key, verb: event.kind.as_str(), event });
                }
            }
        }
        changes.sort_by_key(|change| change.revision);
        changes
    }

    /// Returns the revision of the last relevant change.
    pub(crate) fn last_change(&self, cluster: &Cluster, after: u64) -> u64 {
        let last = |table: &Table| {
            let events = events(cluster, &table.storage, after).into_iter().rev();
            events.map(|event| (event.revision, event)).find(|(_, event)| !table.is_derived(&event.entry))
        };
        self.0.iter().filter_map(last).map(|(revision, _)| revision).max().unwrap_or(after)
    }

    /// Returns the cluster's custom resource definitions.
    pub(crate) fn definitions(&self, cluster: &Cluster) -> Vec<Value> {
        let of_definitions = |name: &str| name == "customresourcedefinitions.apiextensions.k8s.io";
        let tables = self.0.iter().filter(|table| of_definitions(&table.name));
        let store = cluster.server().store();
        let all = tables.flat_map(|table| store.snapshot(&table.storage, "", None).entries);
        all.map(|entry| Entry::value(&entry)).collect()
    }

    /// Returns the objects that were written after a revision.
    pub(crate) fn objects(&self, cluster: &Cluster, after: u64) -> Objects {
        let store = cluster.server().store();
        let mut objects = Objects::new();
        for table in &self.0 {
            let snapshot = store.snapshot(&table.storage, "", None);
            for entry in snapshot.entries.iter().filter(|entry| entry.revision() > after) {
                if !table.is_derived(entry) {
                    objects.insert(format!("{}/{}", table.name, entry.key()), Entry::value(entry));
                }
            }
        }
        objects
    }
}

fn events(cluster: &Cluster, table: &str, after: u64) -> Vec<Arc<Event>> {
    let mut events = Vec::new();
    let Ok(mut cursor) = cluster.server().store().follow(table, after) else { return events };
    while let Ok(Batch::Events(more)) = cursor.poll() {
        events.extend(more);
    }
    events
}

/// What the user excludes from comparisons.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ignored {
    /// Patterns of `resource.group/namespace/name`.
    pub(crate) objects: Vec<String>,
    /// Kinds, and paths of their fields.
    pub(crate) fields: Vec<(String, String)>,
}

/// What differs between runs without significance.
#[derive(Debug, Clone, Default)]
pub(crate) struct Masks {
    /// Prefixes of names with a random suffix: `resource.group/namespace/prefix-`.
    prefixes: BTreeSet<String>,
    /// Fields, by the object's key and a path.
    fields: BTreeSet<(String, String)>,
    ignored: Ignored,
}

impl Masks {
    /// Learns from fault-free runs with different seeds.
    pub(crate) fn learn(first: &[Arc<Objects>], others: &[Vec<Arc<Objects>>], ignored: Ignored) -> Self {
        let mut masks = Self { ignored, ..Self::default() };
        let pairs = || others.iter().flat_map(|other| first.iter().zip(other));
        for (one, other) in pairs() {
            let prefix = |key: &String| key.rsplit_once('-').map(|(prefix, _)| format!("{prefix}-"));
            let only = |one: &Objects, other: &Objects| -> BTreeSet<String> {
                one.keys().filter(|key| !other.contains_key(*key)).filter_map(prefix).collect()
            };
            masks.prefixes.extend(only(one, other).intersection(&only(other, one)).cloned());
        }
        for (one, other) in pairs() {
            let (one, other) = (masks.normalize(one), masks.normalize(other));
            for (key, value) in &one {
                if let Some(other) = other.get(key) {
                    let mut paths = Vec::new();
                    compare("", value, other, &mut |path, _, _| paths.push(path.to_owned()));
                    masks.fields.extend(paths.into_iter().map(|path| (key.clone(), path)));
                }
            }
        }
        masks
    }

    /// Whether an object is excluded from comparisons.
    pub(crate) fn ignores(&self, key: &str) -> bool {
        self.ignored.objects.iter().any(|pattern| matches(pattern, key))
    }

    /// Returns the key of an object without the random part of its name.
    pub(crate) fn key(&self, key: &str, object: &Value) -> String {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if let Some(prefix) =
            object["metadata"]["generateName"].as_str().filter(|prefix| name.starts_with(*prefix))
        {
            let place = key.strip_suffix(name).unwrap_or(key);
            return format!("{place}{prefix}*");
        }
        match self.prefixes.iter().find(|prefix| key.starts_with(prefix.as_str())) {
            Some(prefix) => format!("{prefix}*"),
            None => key.to_owned(),
        }
    }

    /// Normalizes objects: removes what differs between runs.
    pub(crate) fn normalize(&self, objects: &Objects) -> State {
        let mut words = Replacements::default();
        for (key, object) in objects {
            let normal = self.key(key, object);
            if let Some(uid) = object["metadata"]["uid"].as_str() {
                words.uids.insert(uid.to_owned(), format!("<uid of {normal}>"));
            }
            if normal != *key
                && let (Some(name), Some(short)) =
                    (object["metadata"]["name"].as_str(), normal.rsplit('/').next())
            {
                words.names.insert(name.to_owned(), short.to_owned());
            }
        }
        let mut grouped: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for (key, object) in objects.iter().filter(|(key, _)| !self.ignores(key)) {
            grouped.entry(self.key(key, object)).or_default().push(words.clean(object));
        }
        let mut state = State::new();
        for (key, mut objects) in grouped {
            objects.sort_by_cached_key(Value::to_string);
            let several = objects.len() > 1;
            for (index, object) in objects.into_iter().enumerate() {
                state.insert(if several { format!("{key}#{index}") } else { key.clone() }, object);
            }
        }
        state
    }

    /// Returns the differences between a state and the expected one.
    pub(crate) fn differences(&self, expected: &State, found: &State) -> Vec<String> {
        let mut differences = Vec::new();
        for (key, value) in expected {
            let Some(other) = found.get(key) else {
                if !comes_with_namespace(key) {
                    differences.push(format!("{key} is missing"));
                }
                continue;
            };
            compare("", value, other, &mut |path, expected, found| {
                let base = key.split('#').next().unwrap_or(key);
                let masked = |key: &str| self.fields.contains(&(key.to_owned(), path.to_owned()));
                let ignored = self.ignored.fields.iter().any(|(kind, field)| {
                    value["kind"] == kind.as_str()
                        && (is_in(field, path) || is_in(field, &of_each_item(path)))
                });
                if !ignored && !masked(key) && !masked(base) {
                    differences.push(format!("{key} {path}: expected {expected}, found {found}"));
                }
            });
        }
        let is_left = |key: &&String| !expected.contains_key(*key) && !comes_with_namespace(key);
        differences.extend(found.keys().filter(is_left).map(|key| format!("{key} is left over")));
        let more = differences.len().saturating_sub(SHOWN);
        if more > 0 {
            differences.truncate(SHOWN);
            differences.push(format!("and {more} more"));
        }
        differences
    }
}

/// Whether the cluster creates this object in every namespace, so that it need not be compared.
fn comes_with_namespace(key: &str) -> bool {
    let is_in = |(resource, name): (&str, &str)| {
        key.strip_prefix(resource).and_then(|rest| rest.strip_suffix(name)).is_some()
    };
    [("serviceaccounts/", "/default"), ("configmaps/", "/kube-root-ca.crt")].into_iter().any(is_in)
}

/// Whether a path is a field or is inside of it.
fn is_in(field: &str, path: &str) -> bool {
    path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Replaces list indexes in a path by `[*]`.
fn of_each_item(path: &str) -> String {
    let mut parts = path.split('[');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(']') {
            Some((place, rest)) if place.bytes().all(|byte| byte.is_ascii_digit()) => {
                text += "[*]";
                text += rest;
            }
            _ => {
                text.push('[');
                text += part;
            }
        }
    }
    text
}

/// Strings that are replaced wherever they occur, such as uids.
#[derive(Default)]
struct Replacements {
    uids: BTreeMap<String, String>,
    names: BTreeMap<String, String>,
}

impl Replacements {
    /// Removes counters and generated values of the API server and its controllers from an object.
    fn clean(&self, object: &Value) -> Value {
        let mut object = self.value(object);
        // The storage version of a kind is not the operator's choice.
        if let Some(group) = object["apiVersion"].as_str().and_then(|version| version.split_once('/')) {
            object["apiVersion"] = group.0.into();
        }
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in
                ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink"]
            {
                metadata.remove(field);
            }
            if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
                annotations.retain(|name, _| !COUNTERS.contains(&name.as_str()));
                if annotations.is_empty() {
                    metadata.remove("annotations");
                }
            }
        }
        object
    }

    fn value(&self, value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let kept = fields.iter().filter(|(name, _)| *name != "observedGeneration");
                Value::Object(
                    kept.map(|(name, value)| (name.clone(), self.value(value))).collect::<Map<_, _>>(),
                )
            }
            Value::Array(items) => {
                let mut items: Vec<Value> = items.iter().map(|item| self.value(item)).collect();
                // Conditions are a map by type, and their order depends on which was set first.
                if items.iter().all(|item| item["type"].is_string() && item["status"].is_string()) {
                    items.sort_by_cached_key(|item| item["type"].to_string());
                }
                Value::Array(items)
            }
            Value::String(text) => Value::String(self.text(text)),
            other => other.clone(),
        }
    }

    fn text(&self, text: &str) -> String {
        if let Some(known) = self.uids.get(text).or_else(|| self.names.get(text)) {
            return known.clone();
        }
        if is_uid(text) {
            return "<uid of an object that is gone>".into();
        }
        if is_time(text) {
            return "<time>".into();
        }
        if text.contains(['.', ':']) && text.parse::<IpAddr>().is_ok() {
            return "<address>".into();
        }
        let mut text = text.to_owned();
        for (name, short) in &self.names {
            if text.contains(name.as_str()) {
                text = text.replace(name.as_str(), short);
            }
        }
        text
    }
}

/// Whether a string matches a pattern, in which `*` matches any string.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, tail)) => text.strip_prefix(head).is_some_and(|rest| {
            rest.char_indices().any(|(index, _)| matches(tail, &rest[index..])) || matches(tail, "")
        }),
    }
}

fn is_uid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Whether a string is an API timestamp such as `2000-01-01T00:00:00Z`, with or without a fraction.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 20
        && bytes.len() <= 35
        && bytes.iter().take(19).enumerate().all(|(index, byte)| match index {
            4 | 7 => *byte == b'-',
            10 => *byte == b'T',
            13 | 16 => *byte == b':',
            _ => byte.is_ascii_digit(),
        })
}

/// Calls `differ` with each path at which two values differ, and with both values.
fn compare(path: &str, one: &Value, other: &Value, differ: &mut dyn FnMut(&str, &Value, &Value)) {
    match (one, other) {
        // Most values are equal, and need no paths.
        _ if one == other => {}
        (Value::Object(fields), Value::Object(others)) => {
            let names: BTreeSet<&String> = fields.keys().chain(others.keys()).collect();
            for name in names {
                let (one, other) = (fields.get(name), others.get(name));
                let path = format!("{path}.{name}");
                compare(&path, one.unwrap_or(&Value::Null), other.unwrap_or(&Value::Null), differ);
            }
        }
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            for (index, (one, other)) in items.iter().zip(others).enumerate() {
                compare(&format!("{path}[{index}]"), one, other, differ);
            }
        }
        _ => differ(path, one, other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(list: &[(&str, Value)]) -> Objects {
        list.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
    }

    #[test]
    fn what_the_server_draws_makes_no_difference() {
        let make = |uid: &str, name: &str, at: &str| {
            objects(&[
                (
                    "secrets/default/owner",
                    json!({"metadata": {"name": "owner", "uid": uid, "resourceVersion": uid, "creationTimestamp": at,
                                        "annotations": {"deployment.kubernetes.io/revision": at}}}),
                ),
                (
                    &format!("jobs.batch/default/{name}"),
                    json!({"metadata": {"name": name, "generateName": "job-", "ownerReferences": [{"uid": uid}]},
                           "status": {"at": at, "ip": "10.0.0.1", "observedGeneration": 3, "message": format!("{name} runs")}}),
                ),
            ])
        };
        let one = make("00000000-0000-4000-8000-000000000001", "job-abcde", "2000-01-01T00:00:00Z");
        let other = make("00000000-0000-4000-8000-000000000002", "job-fghij", "2001-01-01T00:00:00.000001Z");
        let masks = Masks::default();
        assert_eq!(masks.normalize(&one), masks.normalize(&other));
    }

    #[test]
    fn an_owner_that_is_gone_makes_a_difference() {
        let child = |uid: &str| {
            objects(&[
                (
                    "secrets/a/owner",
                    json!({"metadata": {"name": "owner", "uid": "00000000-0000-4000-8000-000000000001"}}),
                ),
                (
                    "secrets/a/child",
                    json!({"metadata": {"name": "child", "ownerReferences": [{"uid": uid}]}}),
                ),
            ])
        };
        let masks = Masks::default();
        let live = masks.normalize(&child("00000000-0000-4000-8000-000000000001"));
        let gone = masks.normalize(&child("00000000-0000-4000-8000-000000000009"));
        assert_eq!(masks.differences(&live, &gone).len(), 1);
    }

    #[test]
    fn random_fields_and_names_are_learned() {
        let make = |suffix: &str, password: &str, size: i32| {
            vec![Arc::new(objects(&[(
                &format!("secrets/a/token-{suffix}"),
                json!({"metadata": {"name": format!("token-{suffix}")}, "password": password, "size": size}),
            )]))]
        };
        let (one, other) = (make("x1", "abc", 1), make("y2", "def", 1));
        let masks = Masks::learn(&one, std::slice::from_ref(&other), Ignored::default());
        let state = |objects: &[Arc<Objects>]| masks.normalize(&objects[0]);
        assert_eq!(masks.differences(&state(&one), &state(&make("z3", "ghi", 1))), [""; 0]);
        assert_eq!(
            masks.differences(&state(&one), &state(&make("z3", "ghi", 2))),
            ["secrets/a/token-* .size: expected 1, found 2"]
        );
    }

    #[test]
    fn a_field_of_each_item_is_ignored() {
        let make = |result: i32, reason: &str| {
            let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": reason, "result": {"changed": result}});
            let conditions = [condition("A"), condition("B")];
            objects(&[(
                "shops.example.com/a/one",
                json!({"kind": "Shop", "status": {"conditions": conditions}}),
            )])
        };
        let fields = vec![("Shop".into(), ".status.conditions[*].result".into())];
        let masks = Masks { ignored: Ignored { objects: Vec::new(), fields }, ..Masks::default() };
        let differences =
            |other| masks.differences(&masks.normalize(&make(1, "a")), &masks.normalize(&other));
        assert_eq!(differences(make(2, "a")), [""; 0]);
        assert_eq!(differences(make(1, "b")).len(), 2);
    }

    #[test]
    fn what_comes_with_a_namespace_need_not_be_there() {
        let account = |secrets: Value| {
            let certificate = ("configmaps/a/kube-root-ca.crt", json!({"data": {"ca.crt": "one"}}));
            objects(&[("serviceaccounts/a/default", json!({"imagePullSecrets": secrets})), certificate])
        };
        let masks = Masks::default();
        let state = |objects: &Objects| masks.normalize(objects);
        let (with, without) = (state(&account(json!(["one"]))), state(&objects(&[])));
        assert_eq!(masks.differences(&with, &without), [""; 0]);
        assert_eq!(masks.differences(&without, &with), [""; 0]);
        assert_eq!(masks.differences(&with, &state(&account(json!(["two"])))).len(), 1);
        let other = state(&objects(&[("serviceaccounts/a/other", json!({}))]));
        assert_eq!(masks.differences(&without, &other), ["serviceaccounts/a/other is left over"]);
    }

    #[test]
    fn what_the_user_ignores_is_not_compared() {
        let make = |release: &str, history: &[i32], ready: bool| {
            objects(&[
                (release, json!({"metadata": {"name": "release"}})),
                (
                    "shops.example.com/a/one",
                    json!({"kind": "Shop", "status": {"history": history, "historyMax": history.len(), "ready": ready}}),
                ),
            ])
        };
        let ignored = Ignored {
            objects: vec!["secrets/*/sh.helm.release.v1.*".into()],
            fields: vec![("Shop".into(), ".status.history".into())],
        };
        let one = Arc::new(make("secrets/a/sh.helm.release.v1.one.v1", &[1], true));
        let masks = Masks::learn(&[Arc::clone(&one)], &[vec![Arc::clone(&one)]], ignored);
        let differences = |other| masks.differences(&masks.normalize(&one), &masks.normalize(&other));
        assert_eq!(differences(make("secrets/b/sh.helm.release.v1.one.v2", &[2], true)), [""; 0]);
        assert_eq!(
            differences(make("secrets/a/key", &[2], false)),
            [
                "shops.example.com/a/one .status.ready: expected true, found false",
                "secrets/a/key is left over"
            ]
        );
        assert_eq!(
            differences(make("secrets/a/sh.helm.release.v1.one.v2", &[1, 2], true)),
            ["shops.example.com/a/one .status.historyMax: expected 1, found 2"]
        );
    }
}
