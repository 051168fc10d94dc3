//! Writes of one object: server-side apply as in Helm 4, or a three-way merge as in Helm 3.

use kube::Client;
use kube::api::{
    DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy,
};
use serde_json::{Map, Value, json};

use crate::error::{Error, Result, code};
use crate::merge;
use crate::object::Object;

/// How objects are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteMode {
    /// Server-side apply, as in Helm 4: the release owns the fields that the chart sets. Others are left alone. The
    /// default.
    #[default]
    ServerSide,
    /// A three-way merge of the last manifest, the new one and the live object, as in Helm 3.
    ThreeWay,
    /// Replaces the whole object, as Helm's `--force` does.
    Replace,
}

/// Result of writing an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did not exist.
    Created,
    /// It was changed.
    Changed,
    /// It needed no change.
    Unchanged,
}

/// Field managers that wrote release objects by plain updates. Their fields belong to the release.
const LEGACY_MANAGERS: [&str; 3] = ["helm", "helm-operator", "steer"];

/// Maximum number of attempts on conflicts.
const ATTEMPTS: usize = 5;

/// Writes objects as one field manager.
#[derive(Clone)]
pub(crate) struct Writer {
    pub(crate) client: Client,
    pub(crate) manager: String,
    pub(crate) mode: WriteMode,
    /// Whether all writes are dry runs.
    pub(crate) dry_run: bool,
}

impl Writer {
    fn post(&self) -> PostParams {
        PostParams { field_manager: Some(self.manager.clone()), dry_run: self.dry_run }
    }

    /// Returns the live object; `None` if it or its kind does not exist.
    pub(crate) async fn live(&self, object: &Object) -> Result<Option<DynamicObject>> {
        match object.api(&self.client).get_opt(&object.id.name).await {
            // For a kind that is gone the API server returns only the code.
            Err(error) if code(&error) == Some(404) => Ok(None),
            found => found.map_err(Error::object(&object.id)),
        }
    }

    /// Creates an object. Fails if it exists.
    pub(crate) async fn create(&self, object: &Object) -> Result<DynamicObject> {
        let content = dynamic(&object.content, object)?;
        object.api(&self.client).create(&self.post(), &content).await.map_err(Error::object(&object.id))
    }

    /// Writes an object. `live` is its live state, if it exists; `original` is its state in the last manifest.
    pub(crate) async fn write(
        &self,
        object: &Object,
        original: Option<&Value>,
        live: Option<DynamicObject>,
    ) -> Result<(Outcome, DynamicObject)> {
        let mut live = live;
        for _ in 0..ATTEMPTS {
            let before = live.as_ref().and_then(|live| live.metadata.resource_version.clone());
            match self.attempt(object, original, live.as_ref()).await {
                Ok(now) => {
                    let outcome = match before {
                        None => Outcome::Created,
                        Some(before) if Some(&before) == now.metadata.resource_version.as_ref() => {
                            Outcome::Unchanged
                        }
                        Some(_) => Outcome::Changed,
                    };
                    return Ok((outcome, now));
                }
                Err(Error::Object { source, .. }) if code(&source) == Some(409) => {
                    live = self.live(object).await?;
                }
                Err(error) => return Err(error),
            }
        }
        // The last attempt returns the error.
        let now = self.attempt(object, original, live.as_ref()).await?;
        Ok((Outcome::Changed, now))
    }

    async fn attempt(
        &self,
        object: &Object,
        original: Option<&Value>,
        live: Option<&DynamicObject>,
    ) -> Result<DynamicObject> {
        match (self.mode, live) {
            (WriteMode::ServerSide, live) => match self.apply(object, live).await {
                // Lists with duplicate keys, such as the same environment variable twice, can be created but not
                // applied.
                Err(error) if error.to_string().contains("duplicate entries for key") => {
                    self.three_way(object, original, live).await
                }
                other => other,
            },
            (WriteMode::ThreeWay, live) => self.three_way(object, original, live).await,
            (WriteMode::Replace, None) => self.create(object).await,
            (WriteMode::Replace, Some(live)) => {
                let mut content = object.content.clone();
                merge::strip_nulls(&mut content);
                content["metadata"]["resourceVersion"] = json!(live.metadata.resource_version);
                self.replace(object, &content).await
            }
        }
    }

    async fn replace(&self, object: &Object, content: &Value) -> Result<DynamicObject> {
        let content = dynamic(content, object)?;
        let replaced = object.api(&self.client).replace(&object.id.name, &self.post(), &content).await;
        replaced.map_err(Error::object(&object.id))
    }

    async fn apply(&self, object: &Object, live: Option<&DynamicObject>) -> Result<DynamicObject> {
        if let Some(live) = live.filter(|_| !self.dry_run) {
            self.upgrade_managed_fields(object, live).await?;
        }
        let mut content = object.content.clone();
        if merge::is_built_in(&object.id.group) {
            merge::strip_nulls(&mut content);
        }
        let params = PatchParams { dry_run: self.dry_run, ..PatchParams::apply(&self.manager).force() };
        let applied = object.api(&self.client).patch(&object.id.name, &params, &Patch::Apply(&content)).await;
        applied.map_err(Error::object(&object.id))
    }

    /// Merge-patches an object: its fields are set and its lists replaced, including what others added.
    pub(crate) async fn overwrite(&self, object: &Object) -> Result<DynamicObject> {
        let params = PatchParams {
            field_manager: Some(self.manager.clone()),
            dry_run: self.dry_run,
            ..PatchParams::default()
        };
        let patch = Patch::Merge(&object.content);
        let patched = object.api(&self.client).patch(&object.id.name, &params, &patch).await;
        patched.map_err(Error::object(&object.id))
    }

    /// Transfers fields that legacy managers set by updates to our manager. Otherwise fields that the chart no longer
    /// sets would not be removed.
    async fn upgrade_managed_fields(&self, object: &Object, live: &DynamicObject) -> Result<()> {
        let Some(fields) = live.metadata.managed_fields.as_ref() else { return Ok(()) };
        let Some(fields) = merged_managed_fields(&json!(fields), &self.manager) else { return Ok(()) };
        let patch = json!({
            "metadata": { "managedFields": fields, "resourceVersion": live.metadata.resource_version },
        });
        let api = object.api(&self.client);
        let taken = api.patch_metadata(&object.id.name, &PatchParams::default(), &Patch::Merge(patch)).await;
        taken.map(|_| ()).map_err(Error::object(&object.id))
    }

    async fn three_way(
        &self,
        object: &Object,
        original: Option<&Value>,
        live: Option<&DynamicObject>,
    ) -> Result<DynamicObject> {
        let Some(live) = live else { return self.create(object).await };
        let current = serde_json::to_value(live).unwrap_or_default();
        let original = original.unwrap_or(&current);
        if !merge::is_built_in(&object.id.group) {
            let patch = merge::two_way(original, &object.content);
            if patch.as_object().is_none_or(Map::is_empty) {
                return Ok(live.clone());
            }
            let params = PatchParams {
                field_manager: Some(self.manager.clone()),
                dry_run: self.dry_run,
                ..PatchParams::default()
            };
            let patched =
                object.api(&self.client).patch(&object.id.name, &params, &Patch::Merge(patch)).await;
            return patched.map_err(Error::object(&object.id));
        }
        let mut wanted = object.content.clone();
        merge::strip_nulls(&mut wanted);
        let merged = merge::three_way(original, &wanted, &current);
        if merged == current { Ok(live.clone()) } else { self.replace(object, &merged).await }
    }

    /// Deletes an object. Returns `false` if it did not exist.
    pub(crate) async fn delete(&self, object: &Object, policy: PropagationPolicy) -> Result<bool> {
        let params = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
        self.delete_with(object, &params).await
    }

    /// Deletes an object if it is still the one that was seen.
    pub(crate) async fn delete_seen(
        &self,
        object: &Object,
        live: &DynamicObject,
        policy: PropagationPolicy,
    ) -> Result<bool> {
        let seen = Preconditions { uid: live.metadata.uid.clone(), resource_version: None };
        let params = DeleteParams {
            propagation_policy: Some(policy),
            preconditions: Some(seen),
            ..DeleteParams::default()
        };
        self.delete_with(object, &params).await
    }

    async fn delete_with(&self, object: &Object, params: &DeleteParams) -> Result<bool> {
        match object.api(&self.client).delete(&object.id.name, params).await {
            Ok(_) => Ok(true),
            Err(error) if code(&error) == Some(404) => Ok(false),
            Err(error) => Err(Error::object(&object.id)(error)),
        }
    }
}

fn dynamic(content: &Value, object: &Object) -> Result<DynamicObject> {
    serde_json::from_value(content.clone())
        .map_err(|error| Error::Manifest(format!("{}: {error}", object.id)))
}

/// Returns the managed fields with those of legacy managers given to `manager`. `None` if they have none.
fn merged_managed_fields(fields: &Value, manager: &str) -> Option<Value> {
    let text =
        |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_legacy = |entry: &Value| {
        let name = text(entry, "manager");
        text(entry, "operation") == "Update"
            && text(entry, "subresource").is_empty()
            && (name == manager || LEGACY_MANAGERS.contains(&name.as_str()))
    };
    let entries = fields.as_array()?;
    if !entries.iter().any(is_legacy) {
        return None;
    }
    let is_ours = |entry: &Value| {
        text(entry, "operation") == "Apply"
            && text(entry, "manager") == manager
            && text(entry, "subresource").is_empty()
    };
    let (taken, mut kept): (Vec<Value>, Vec<Value>) =
        entries.iter().cloned().partition(|entry| is_legacy(entry) || is_ours(entry));
    let mut owned = json!({});
    let mut entry = taken.last()?.clone();
    for one in &taken {
        union(&mut owned, one.get("fieldsV1").unwrap_or(&Value::Null));
    }
    entry["manager"] = json!(manager);
    entry["operation"] = json!("Apply");
    entry["fieldsV1"] = owned;
    kept.push(entry);
    Some(Value::Array(kept))
}

/// Field sets are trees: returns the union in `into`.
fn union(into: &mut Value, other: &Value) {
    let (Value::Object(into), Value::Object(other)) = (into, other) else { return };
    for (key, value) in other {
        match into.get_mut(key) {
            Some(there) => union(there, value),
            None => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_forerunner_set_becomes_ours() {
        let fields = json!([
            { "manager": "helm", "operation": "Update", "apiVersion": "v1", "fieldsV1": { "f:data": { "f:a": {} } } },
            { "manager": "kubelet", "operation": "Update", "apiVersion": "v1", "fieldsV1": { "f:data": { "f:b": {} } } },
            { "manager": "helm", "operation": "Apply", "apiVersion": "v1", "fieldsV1": { "f:data": { "f:c": {} } } },
            { "manager": "helm", "operation": "Update", "apiVersion": "v1", "subresource": "status", "fieldsV1": {} },
        ]);
        let merged = merged_managed_fields(&fields, "helm").unwrap();
        let entries = merged.as_array().unwrap();
        assert_eq!(entries.len(), 3);
        assert_eq!(entries[2]["operation"], "Apply");
        assert_eq!(entries[2]["fieldsV1"], json!({ "f:data": { "f:a": {}, "f:c": {} } }));
        assert_eq!(merged_managed_fields(&merged, "helm"), None);
    }

    #[test]
    fn only_updates_of_forerunners_are_taken() {
        let entry = |manager: &str, operation: &str, subresource: &str| {
            let mut entry =
                json!({ "manager": manager, "operation": operation, "fieldsV1": { manager: {} } });
            if !subresource.is_empty() {
                entry["subresource"] = json!(subresource);
            }
            entry
        };
        let merged = |entries: &[Value]| merged_managed_fields(&json!(entries), "boat");
        for forerunner in ["helm", "helm-operator", "steer", "boat"] {
            let merged = merged(&[entry(forerunner, "Update", ""), entry("other", "Update", "")]).unwrap();
            let expected = json!([
                entry("other", "Update", ""),
                { "manager": "boat", "operation": "Apply", "fieldsV1": { forerunner: {} } },
            ]);
            assert_eq!(merged, expected);
        }
        for none in [
            vec![entry("other", "Update", "")],
            vec![entry("helm", "Apply", "")],
            vec![entry("boat", "Apply", "")],
            vec![entry("helm", "Update", "status")],
            Vec::new(),
        ] {
            assert_eq!(merged(&none), None, "{none:?}");
        }
        // Fields that others apply, and those that we apply to a subresource, are kept.
        let kept = [entry("other", "Apply", ""), entry("boat", "Apply", "scale")];
        let found = merged(&[kept[0].clone(), kept[1].clone(), entry("helm", "Update", "")]).unwrap();
        assert_eq!(found.as_array().unwrap()[..2], kept);
        assert_eq!(merged_managed_fields(&json!({}), "boat"), None);
    }

    #[test]
    fn trees_of_fields_are_joined() {
        let mut fields = json!({ "a": { "b": {} } });
        union(&mut fields, &json!({ "a": { "c": {} }, "d": {} }));
        assert_eq!(fields, json!({ "a": { "b": {}, "c": {} }, "d": {} }));
        union(&mut fields, &Value::Null);
        assert_eq!(fields, json!({ "a": { "b": {}, "c": {} }, "d": {} }));
    }

    /// No write mode changes anything in a dry run.
    #[tokio::test]
    async fn a_dry_run_writes_nothing() {
        let cluster = steersman_cluster::Cluster::start().await.unwrap();
        let kinds = crate::Kinds::new(cluster.client());
        let map = |name: &str, data: &str| {
            let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "x": data } });
            crate::resolve(map, "default", &kinds)
        };
        let writer =
            |mode, dry_run| Writer { client: cluster.client(), manager: "boat".into(), mode, dry_run };
        let (there, other) = (map("there", "1").await.unwrap(), map("there", "2").await.unwrap());
        let before = writer(WriteMode::ServerSide, false).create(&there).await.unwrap();
        for mode in [WriteMode::ServerSide, WriteMode::ThreeWay, WriteMode::Replace] {
            let dry = writer(mode, true);
            let (_, now) = dry.write(&other, Some(&there.content), Some(before.clone())).await.unwrap();
            assert_eq!(now.data["data"]["x"], "2", "{mode:?}");
            let (outcome, _) = dry.write(&map("new", "1").await.unwrap(), None, None).await.unwrap();
            assert_eq!(outcome, Outcome::Created);
        }
        let dry = writer(WriteMode::ServerSide, true);
        assert_eq!(dry.overwrite(&other).await.unwrap().data["data"]["x"], "2");
        assert_eq!(dry.live(&there).await.unwrap(), Some(before));
        assert_eq!(dry.live(&map("new", "1").await.unwrap()).await.unwrap(), None);
        // Writes carry the field manager's name.
        let now = writer(WriteMode::ServerSide, false).overwrite(&other).await.unwrap();
        let managers: Vec<_> =
            now.metadata.managed_fields.iter().flatten().map(|entry| entry.manager.as_deref()).collect();
        assert_eq!(managers, [Some("boat")]);
    }

    #[tokio::test]
    async fn a_deletion_says_whether_there_was_anything() {
        let cluster = steersman_cluster::Cluster::start().await.unwrap();
        let kinds = crate::Kinds::new(cluster.client());
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } });
        let map = crate::resolve(map, "default", &kinds).await.unwrap();
        let writer = Writer {
            client: cluster.client(),
            manager: "boat".into(),
            mode: WriteMode::ServerSide,
            dry_run: false,
        };
        let seen = writer.create(&map).await.unwrap();
        assert!(writer.delete(&map, PropagationPolicy::Background).await.unwrap());
        assert!(!writer.delete(&map, PropagationPolicy::Background).await.unwrap());
        assert!(!writer.delete_seen(&map, &seen, PropagationPolicy::Background).await.unwrap());
        let again = writer.create(&map).await.unwrap();
        let refused = writer.delete_seen(&map, &seen, PropagationPolicy::Background).await.unwrap_err();
        assert_eq!(refused.status_code(), Some(409), "it is another one now");
        assert!(writer.delete_seen(&map, &again, PropagationPolicy::Background).await.unwrap());
    }
}
