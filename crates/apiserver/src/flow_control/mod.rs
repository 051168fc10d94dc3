//! API Priority and Fairness, as far as clients can see it.
//! Requests are classified by the stored FlowSchemas, and response headers name the FlowSchema and the
//! PriorityLevelConfiguration. Requests are not queued.

mod learn;

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::Value;
use steersman_api::{object, store::Store};

pub(crate) use learn::learn;

use crate::auth::{Attributes, User, split_account};

const FLOW_SCHEMAS: &str = "flowschemas.flowcontrol.apiserver.k8s.io";
const PRIORITY_LEVELS: &str = "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io";
const CATCH_ALL: &str = "catch-all";
/// Long-running subresources, which are not classified.
const LONG_RUNNING: [&str; 5] = ["attach", "exec", "proxy", "log", "portforward"];

const SCHEMA_HEADER: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const LEVEL_HEADER: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// The classification of a request: the uids of the FlowSchema and of its PriorityLevelConfiguration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flow {
    schema: HeaderValue,
    level: HeaderValue,
}

impl Flow {
    /// Adds both uids to the response headers.
    pub(crate) fn add_headers(self, headers: &mut HeaderMap) {
        headers.insert(SCHEMA_HEADER, self.schema);
        headers.insert(LEVEL_HEADER, self.level);
    }
}

/// The active FlowSchemas.
#[derive(Debug, Default)]
pub(crate) struct FlowControl {
    /// In matching order. Built on first use and after changes.
    schemas: RwLock<Option<Arc<[Schema]>>>,
}

#[derive(Debug)]
struct Schema {
    flow: Flow,
    /// Whether it is the catch-all schema, which takes otherwise unmatched requests.
    is_catch_all: bool,
    rules: Vec<Rule>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    matching_precedence: i64,
    priority_level_configuration: Named,
    rules: Vec<Rule>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
    namespace: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Rule {
    subjects: Vec<Subject>,
    resource_rules: Vec<ResourceRule>,
    non_resource_rules: Vec<PathRule>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind")]
enum Subject {
    User {
        user: Named,
    },
    Group {
        group: Named,
    },
    #[serde(rename_all = "camelCase")]
    ServiceAccount {
        service_account: Named,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ResourceRule {
    verbs: Vec<String>,
    api_groups: Vec<String>,
    resources: Vec<String>,
    namespaces: Vec<String>,
    cluster_scope: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PathRule {
    verbs: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    paths: Vec<String>,
}

impl FlowControl {
    /// Copies the schemas for another server.
    pub(crate) fn fork(&self) -> Self {
        Self { schemas: RwLock::new(self.schemas.read().unwrap_or_else(PoisonError::into_inner).clone()) }
    }

    /// Classifies a request by the first matching schema.
    pub(crate) fn classify(&self, store: &Store, user: &User, asked: &Attributes<'_>) -> Option<Flow> {
        if LONG_RUNNING.contains(&asked.subresource) && asked.verb != "watch" {
            return None;
        }
        let known = self.schemas.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(schemas) = &*known {
            return find(schemas, user, asked);
        }
        drop(known);
        // Read under the lock: concurrent writers wait, and then have the schemas read again.
        let mut schemas = self.schemas.write().unwrap_or_else(PoisonError::into_inner);
        find(schemas.get_or_insert_with(|| read(store)), user, asked)
    }

    /// Discards the schemas if they changed, to be read again for the next request.
    pub(crate) fn forget(&self, storage: &str) {
        if matches!(storage, FLOW_SCHEMAS | PRIORITY_LEVELS) {
            *self.schemas.write().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

fn find(schemas: &[Schema], user: &User, asked: &Attributes<'_>) -> Option<Flow> {
    let takes = |schema: &&Schema| schema.rules.iter().any(|rule| rule.takes(user, asked));
    let found = schemas.iter().find(takes).or_else(|| schemas.iter().find(|schema| schema.is_catch_all));
    found.map(|schema| schema.flow.clone())
}

/// Returns the schemas with an existing priority level, by matching precedence.
fn read(store: &Store) -> Arc<[Schema]> {
    let uid = |object: &Value| HeaderValue::from_str(object::meta_text(object, "uid")).ok();
    let levels = store.snapshot(PRIORITY_LEVELS, "", None).entries;
    let levels: BTreeMap<&str, HeaderValue> =
        levels.iter().filter_map(|entry| Some((entry.key(), uid(&entry.value())?))).collect();
    let mut schemas = Vec::new();
    for entry in store.snapshot(FLOW_SCHEMAS, "", None).entries {
        let object = entry.value();
        // Stored objects were validated, so they parse; one that does not would match no request.
        let spec = Spec::deserialize(&object["spec"]).unwrap_or_default();
        let level = levels.get(spec.priority_level_configuration.name.as_str());
        if let (Some(level), Some(schema)) = (level, uid(&object)) {
            let flow = Flow { schema, level: level.clone() };
            schemas.push((
                spec.matching_precedence,
                Schema { flow, is_catch_all: entry.key() == CATCH_ALL, rules: spec.rules },
            ));
        }
    }
    // Snapshots are sorted by name, which breaks ties.
    schemas.sort_by_key(|(precedence, _)| *precedence);
    schemas.into_iter().map(|(_, schema)| schema).collect()
}

/// Whether a list contains a string or a wildcard.
fn has(list: &[String], text: &str) -> bool {
    matches!(list, [all] if all == "*") || list.iter().any(|item| item == text)
}

impl Rule {
    fn takes(&self, user: &User, asked: &Attributes<'_>) -> bool {
        self.subjects.iter().any(|subject| subject.is(user))
            && if asked.is_resource() {
                self.resource_rules.iter().any(|rule| rule.takes(asked))
            } else {
                self.non_resource_rules.iter().any(|rule| rule.takes(asked))
            }
    }
}

impl Subject {
    fn is(&self, user: &User) -> bool {
        match self {
            Self::User { user: wanted } => wanted.name == "*" || wanted.name == user.name,
            Self::Group { group } => group.name == "*" || user.is_in(&group.name),
            Self::ServiceAccount { service_account: wanted } => {
                split_account(&user.name).is_some_and(|(namespace, name)| {
                    wanted.namespace == namespace && (wanted.name == "*" || wanted.name == name)
                })
            }
        }
    }
}

impl ResourceRule {
    fn takes(&self, asked: &Attributes<'_>) -> bool {
        let is_resource = |wanted: &String| match asked.subresource {
            "" => wanted == asked.resource,
            part => wanted.rsplit_once('/') == Some((asked.resource, part)),
        };
        has(&self.verbs, asked.verb)
            && (matches!(&*self.resources, [all] if all == "*") || self.resources.iter().any(is_resource))
            && has(&self.api_groups, asked.group)
            && if asked.namespace.is_empty() {
                self.cluster_scope
            } else {
                has(&self.namespaces, asked.namespace)
            }
    }
}

impl PathRule {
    fn takes(&self, asked: &Attributes<'_>) -> bool {
        has(&self.verbs, asked.verb) && self.paths.iter().any(|path| is_below(path, asked.path))
    }
}

/// Whether a path matches a rule's path or is below it.
fn is_below(rule: &str, path: &str) -> bool {
    let prefix = rule.strip_suffix('*').unwrap_or(rule);
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    rule == "*" || rule == path || path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use steersman_api::store::Entry;

    use super::*;
    use crate::Server;

    /// Returns the name of the schema that a request is classified by.
    fn class(server: &Server, user: &User, asked: &Attributes<'_>) -> String {
        let store = server.store();
        let flow = FlowControl::default().classify(store, user, asked).expect("a class");
        let schemas = store.snapshot(FLOW_SCHEMAS, "", None).entries;
        let has_uid = |entry: &&Arc<Entry>| object::meta_text(&entry.value(), "uid") == flow.schema;
        schemas.iter().find(has_uid).map(|entry| entry.key().to_owned()).expect("a schema")
    }

    #[test]
    fn requests_have_the_class_of_the_first_schema_that_takes_them() {
        let server = Server::default();
        let pods =
            Attributes { verb: "list", resource: "pods", namespace: "default", ..Attributes::default() };
        let lease = Attributes {
            verb: "update",
            group: "coordination.k8s.io",
            resource: "leases",
            namespace: "kube-system",
            ..Attributes::default()
        };
        let path = |path| Attributes { verb: "get", path, ..Attributes::default() };
        let (person, system) = (User::named("ada", []), User::named("system:kube-scheduler", []));
        for (user, asked, expected) in [
            (&User::admin(), &pods, "exempt"),
            (&person, &pods, "global-default"),
            (&User::service_account("default", "x"), &pods, "service-accounts"),
            (&User::service_account("kube-system", "x"), &pods, "kube-system-service-accounts"),
            (&system, &pods, "kube-scheduler"),
            (&system, &lease, "system-leader-election"),
            (&User::anonymous(), &pods, "global-default"),
            (&User { name: "ada".into(), ..User::default() }, &pods, "catch-all"),
            (&person, &path("/readyz/ping"), "probes"),
            (&person, &path("/readyzish"), "global-default"),
        ] {
            assert_eq!(class(&server, user, asked), expected, "{} {asked:?}", user.name);
        }
        let log = Attributes { subresource: "log", ..pods };
        assert_eq!(FlowControl::default().classify(server.store(), &person, &log), None);
    }
}
