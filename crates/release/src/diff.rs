//! Dry-run diff of an install or upgrade.

use std::collections::HashSet;
use std::fmt;

use futures::future::BoxFuture;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};
use steersman_chart::{Chart, Values};

use crate::deploy::Plan;
use crate::error::{Error, Result};
use crate::object::{Object, ObjectId};
use crate::record::Release;
use crate::releases::{DryRun, Options, Releases};
use crate::write::Writer;

/// Maximum number of concurrent comparisons.
const READS: usize = 8;
/// Maximum depth of the comparison; deeper values are compared as a whole.
const MAX_DEPTH: usize = 64;

/// Changes that an install or upgrade would make.
#[derive(Clone, Debug)]
pub struct Diff {
    /// The revision that it would create.
    pub release: Release,
    /// Every object of the new revision, in install order, then those that would be deleted or kept.
    pub objects: Vec<ObjectChange>,
}

/// Change of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectChange {
    /// The object.
    pub id: ObjectId,
    /// The change.
    pub change: Change,
}

/// What would happen to an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It would be created.
    Added,
    /// It would be deleted.
    Deleted,
    /// It is no longer part of the release, but would stay. Its resource policy keeps it, or the release does not own
    /// it.
    Kept,
    /// These fields would change.
    Changed(Vec<FieldChange>),
    /// It would not change.
    Same,
}

/// A field that would change.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldChange {
    /// Its path, with list items by name where they have one.
    pub path: String,
    /// The current value; `None` if the field does not exist.
    pub before: Option<Value>,
    /// The new value; `None` if the field would be removed.
    pub after: Option<Value>,
}

impl fmt::Display for FieldChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: &Option<Value>| match value {
            None => "(none)".to_owned(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        write!(f, "{} → {}", text(&self.before), text(&self.after))
    }
}

impl Releases {
    /// Returns what an upgrade, or an install if there is no such release, would change in the cluster.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use steersman_chart::{Chart, File, Values};
    /// # let chart = Chart::from_files([
    /// #     File::new("Chart.yaml", "{apiVersion: v2, name: hello, version: 0.1.0}"),
    /// #     File::new("templates/config.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: hello}, data: {text: {{ .Values.text | quote }}}}"),
    /// # ])?;
    /// # let cluster = steersman_cluster::Cluster::start().await?;
    /// # let client = cluster.client();
    /// # let mut values = Values::new();
    /// # values.set("text=one")?;
    /// use steersman_release::{Options, Releases};
    ///
    /// let releases = Releases::new(client, "default");
    /// releases.install("hello", &chart, &values, &Options::default()).await?;
    /// values.set("text=two")?;
    /// let diff = releases.diff("hello", &chart, &values, &Options::default()).await?;
    /// assert_eq!(diff.objects.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if the chart does not render, or if the API server would refuse an object.
    pub fn diff<'a>(
        &'a self,
        name: &'a str,
        chart: &'a Chart,
        values: &'a Values,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Diff>> {
        Box::pin(async move {
            let dry = Options { dry_run: Some(options.dry_run.unwrap_or(DryRun::Server)), ..options.clone() };
            let (release, plan) = match self.upgradable(name).await {
                Ok(revisions) => {
                    let prepared = self.prepare_upgrade(name, chart, values, &dry, revisions).await?;
                    (prepared.release, prepared.plan)
                }
                Err(Error::NotDeployed { .. }) => {
                    let release = self.install(name, chart, values, &dry).await?;
                    let plan = self.plan(&release, &[]).await?;
                    (release, plan)
                }
                Err(error) => return Err(error),
            };
            let objects = self.compare(name, &plan).await?;
            Ok(Diff { release, objects })
        })
    }

    async fn compare(&self, release: &str, plan: &Plan) -> Result<Vec<ObjectChange>> {
        let writer = &Writer { dry_run: true, ..self.writer() };
        let compare = |(target, live): (&Object, &Option<DynamicObject>)| {
            let recorded = plan.originals.iter().filter(|object| plan.recorded.contains(&object.id));
            let original = recorded.rev().find(|object| object.id == target.id);
            let original = original.map(|object| object.content.clone());
            let (target, live) = (target.clone(), live.clone());
            let writer = writer.clone();
            async move { compare_one(&writer, &target, original.as_ref(), live.as_ref()).await }
        };
        let compares: Vec<_> = plan.targets.iter().zip(&plan.live).map(compare).collect();
        let mut compared: Vec<ObjectChange> = stream::iter(compares).buffered(READS).try_collect().await?;
        let wanted: HashSet<&ObjectId> = plan.targets.iter().map(|object| &object.id).collect();
        let mut seen = HashSet::new();
        for object in &plan.originals {
            if wanted.contains(&object.id) || !seen.insert(&object.id) {
                continue;
            }
            if let Some(live) = writer.live(object).await? {
                let content = json!(live);
                let stays =
                    !self.may_delete(&content, release) || (Object { content, ..object.clone() }).is_kept();
                let change = if stays { Change::Kept } else { Change::Deleted };
                compared.push(ObjectChange { id: object.id.clone(), change });
            }
        }
        Ok(compared)
    }
}

async fn compare_one(
    writer: &Writer,
    target: &Object,
    original: Option<&Value>,
    live: Option<&DynamicObject>,
) -> Result<ObjectChange> {
    let change = match live {
        None => Change::Added,
        Some(live) => {
            let (_, after) = writer.write(target, original, Some(live.clone())).await?;
            let changes = changes(&json!(live), &json!(after));
            if changes.is_empty() { Change::Same } else { Change::Changed(changes) }
        }
    };
    Ok(ObjectChange { id: target.id.clone(), change })
}

/// Returns the fields in which two states of an object differ, without cluster-maintained ones.
pub fn changes(before: &Value, after: &Value) -> Vec<FieldChange> {
    let mut found = Vec::new();
    compare(String::new(), &bare(before), &bare(after), MAX_DEPTH, &mut found);
    found
}

fn bare(object: &Value) -> Value {
    let mut bare = object.clone();
    if let Some(map) = bare.as_object_mut() {
        map.remove("status");
    }
    if let Some(metadata) = bare.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in
            ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"]
        {
            metadata.remove(field);
        }
    }
    bare
}

fn compare(path: String, before: &Value, after: &Value, depth: usize, found: &mut Vec<FieldChange>) {
    if before == after {
        return;
    }
    let deeper = depth.checked_sub(1);
    match (before, after, deeper) {
        (Value::Object(before), Value::Object(after), Some(depth)) => {
            compare_maps(&path, before, after, depth, found);
        }
        (Value::Array(before), Value::Array(after), Some(depth)) => {
            compare_lists(&path, before, after, depth, found);
        }
        _ => found.push(FieldChange { path, before: Some(before.clone()), after: Some(after.clone()) }),
    }
}

fn compare_maps(
    path: &str,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    depth: usize,
    found: &mut Vec<FieldChange>,
) {
    let place = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    for (key, old) in before {
        match after.get(key) {
            Some(new) => compare(place(key), old, new, depth, found),
            None => found.push(FieldChange { path: place(key), before: Some(old.clone()), after: None }),
        }
    }
    for (key, new) in after.iter().filter(|(key, _)| !before.contains_key(*key)) {
        found.push(FieldChange { path: place(key), before: None, after: Some(new.clone()) });
    }
}

fn compare_lists(path: &str, before: &[Value], after: &[Value], depth: usize, found: &mut Vec<FieldChange>) {
    let Some(key) = ["name", "key", "mountPath", "containerPort", "port", "type"].into_iter().find(|key| {
        let names = |items: &[Value]| {
            let names: HashSet<String> =
                items.iter().filter_map(|item| item.get(key).map(Value::to_string)).collect();
            names.len() == items.len()
        };
        names(before) && names(after)
    }) else {
        if before.len() == after.len() {
            for (index, (old, new)) in before.iter().zip(after).enumerate() {
                compare(format!("{path}[{index}]"), old, new, depth, found);
            }
        } else {
            let (before, after) = (Some(before.to_vec().into()), Some(after.to_vec().into()));
            found.push(FieldChange { path: path.to_owned(), before, after });
        }
        return;
    };
    let place = |item: &Value| match item.get(key) {
        Some(Value::String(name)) => format!("{path}[{name}]"),
        Some(other) => format!("{path}[{other}]"),
        None => path.to_owned(),
    };
    for old in before {
        match after.iter().find(|new| new.get(key) == old.get(key)) {
            Some(new) => compare(place(old), old, new, depth, found),
            None => found.push(FieldChange { path: place(old), before: Some(old.clone()), after: None }),
        }
    }
    for new in after.iter().filter(|new| !before.iter().any(|old| old.get(key) == new.get(key))) {
        found.push(FieldChange { path: place(new), before: None, after: Some(new.clone()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_named_by_where_they_are() {
        let before = json!({ "spec": { "replicas": 2, "containers": [{ "name": "web", "image": "a" }] }, "status": 1 });
        let after = json!({ "spec": { "replicas": 5, "containers": [{ "name": "web", "image": "b" }, { "name": "x" }] } });
        let found: Vec<String> =
            changes(&before, &after).iter().map(|change| format!("{} {change}", change.path)).collect();
        assert_eq!(
            found,
            [
                "spec.containers[web].image a → b",
                "spec.containers[x] (none) → {\"name\":\"x\"}",
                "spec.replicas 2 → 5",
            ]
        );
    }

    fn said(before: Value, after: Value) -> Vec<String> {
        changes(&before, &after).iter().map(|change| format!("{} {change}", change.path)).collect()
    }

    #[test]
    fn what_the_cluster_keeps_for_itself_is_no_change() {
        let object = |number: u64| {
            json!({
                "metadata": {
                    "name": "a", "managedFields": [number], "resourceVersion": number, "generation": number,
                    "uid": number, "creationTimestamp": number, "selfLink": number, "labels": { "x": "1" },
                },
                "status": number,
            })
        };
        assert!(changes(&object(1), &object(2)).is_empty());
        let mut other = object(2);
        other["metadata"]["labels"]["x"] = json!("2");
        assert_eq!(said(object(1), other), ["metadata.labels.x 1 → 2"]);
    }

    #[test]
    fn items_are_named_by_what_tells_them_apart() {
        let cases = [
            (json!([{ "name": "a", "v": 1 }]), json!([{ "name": "a", "v": 2 }]), vec!["l[a].v 1 → 2"]),
            (json!([{ "port": 80, "v": 1 }]), json!([{ "port": 80, "v": 2 }]), vec!["l[80].v 1 → 2"]),
            (
                json!([{ "key": "k" }, { "key": "m" }]),
                json!([{ "key": "k" }]),
                vec!["l[m] {\"key\":\"m\"} → (none)"],
            ),
            (
                json!([{ "type": "t" }]),
                json!([{ "type": "u" }]),
                vec!["l[t] {\"type\":\"t\"} → (none)", "l[u] (none) → {\"type\":\"u\"}"],
            ),
            // A duplicate name identifies nothing, on either side; the next key may.
            (
                json!([{ "name": "a", "key": 1 }, { "name": "a", "key": 2 }]),
                json!([{ "name": "a", "key": 1 }, { "name": "b", "key": 2 }]),
                vec!["l[2].name a → b"],
            ),
            (
                json!([{ "name": "a", "key": 1 }, { "name": "b", "key": 2 }]),
                json!([{ "name": "a", "key": 1 }, { "name": "a", "key": 2 }]),
                vec!["l[2].name b → a"],
            ),
            (json!(["x", "y"]), json!(["x", "z"]), vec!["l[1] y → z"]),
            (json!(["x"]), json!(["x", "z"]), vec!["l [\"x\"] → [\"x\",\"z\"]"]),
            (
                json!([{ "name": "a" }]),
                json!({ "name": "a" }),
                vec!["l [{\"name\":\"a\"}] → {\"name\":\"a\"}"],
            ),
        ];
        for (before, after, expected) in cases {
            assert_eq!(said(json!({ "l": before }), json!({ "l": after })), expected);
        }
    }

    #[test]
    fn fields_that_come_and_go_are_told() {
        assert_eq!(
            said(json!({ "a": null, "b": 1 }), json!({ "b": 1, "c": { "d": true } })),
            ["a null → (none)", "c (none) → {\"d\":true}",]
        );
        assert!(said(json!({ "a": 1 }), json!({ "a": 1 })).is_empty());
    }

    #[test]
    fn what_lies_too_deep_is_one_change() {
        let deep = |leaf: Value, depth: usize| (0..depth).fold(leaf, |value, _| json!({ "a": value }));
        let last = |depth: usize| {
            changes(&deep(json!({ "x": 1 }), depth), &deep(json!({ "x": 2 }), depth)).pop().unwrap()
        };
        assert_eq!(last(63).before, Some(json!(1)));
        assert_eq!(last(64).before, Some(json!({ "x": 1 })));
    }
}
