//! Performs user actions on a cluster.

use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind, TypeMeta},
};
use serde_json::Value;
use steersman_cluster::Cluster;

use crate::{edit::Edit, properties, scenario::Step, state::Tables};

/// Performs a step.
pub(crate) async fn take(cluster: &Cluster, step: &Step) -> Result<(), String> {
    let taken = match step {
        Step::Apply(objects) => {
            let mut taken = Ok(());
            for object in objects {
                taken = taken.and(apply(cluster, object).await);
            }
            taken
        }
        Step::Patch { object, patch } => self::patch(cluster, object, patch, false).await,
        Step::Change(object) => change(cluster, object).await,
        Step::Delete(object) => delete(cluster, object).await,
        Step::Advance(time) => {
            tokio::time::sleep(*time).await;
            Ok(())
        }
    };
    taken.map_err(|error| format!("the user could not {}: {error}", step.describe()))
}

pub(crate) async fn apply(cluster: &Cluster, object: &Value) -> Result<(), String> {
    let (api, name) = api(cluster, object)?;
    let params = PatchParams::apply("simulated-user").force();
    api.patch(&name, &params, &Patch::Apply(object)).await.map(drop).map_err(|error| error.to_string())
}

/// Applies a merge patch to an object, or dry-runs it.
pub(crate) async fn patch(
    cluster: &Cluster,
    object: &Value,
    patch: &Value,
    is_dry_run: bool,
) -> Result<(), String> {
    let (api, name) = api(cluster, object)?;
    let params = PatchParams { dry_run: is_dry_run, ..PatchParams::default() };
    api.patch(&name, &params, &Patch::Merge(patch)).await.map(drop).map_err(|error| error.to_string())
}

/// Makes the first property change that the API server accepts, preferably of a declared property.
async fn change(cluster: &Cluster, object: &Value) -> Result<(), String> {
    let Some(definition) = definition_of(cluster, object) else { return Ok(()) };
    let mut changes = properties::changes(&definition, object);
    changes.retain(|change| change.weight.is_some());
    changes.sort_by_key(|change| change.weight);
    let mut undeclared = properties::undeclared(&definition, object);
    undeclared.sort_by_key(|change| change.weight);
    for change in changes.into_iter().chain(undeclared) {
        if patch(cluster, object, &change.patch, true).await.is_ok() {
            return patch(cluster, object, &change.patch, false).await;
        }
    }
    Ok(())
}

/// Returns the definition of an object's kind.
pub(crate) fn definition_of(cluster: &Cluster, object: &Value) -> Option<Value> {
    let (group, _) = object["apiVersion"].as_str()?.split_once('/')?;
    Tables::of(&cluster.server().catalog()).definitions(cluster).into_iter().find(|definition| {
        definition["spec"]["names"]["kind"] == object["kind"] && definition["spec"]["group"] == group
    })
}

async fn delete(cluster: &Cluster, object: &Value) -> Result<(), String> {
    let (api, name) = api(cluster, object)?;
    match api.delete(&name, &DeleteParams::background()).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => other.map(drop).map_err(|error| error.to_string()),
    }
}

/// Deletes an object by its key, `resource.group/namespace/name`.
pub(crate) async fn delete_key(cluster: &Cluster, key: &str) {
    let Some((api, name)) = api_of_key(cluster, key) else { return };
    // The object may be deleted already.
    let _ = api.delete(&name, &DeleteParams::background()).await;
}

/// Applies a merge patch to an object by its key.
pub(crate) async fn patch_key(cluster: &Cluster, key: &str, patch: &Value) {
    let Some((api, name)) = api_of_key(cluster, key) else { return };
    // It may be deleted by now.
    let _ = api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
}

/// Edits an object by its key, or dry-runs whether the edit is accepted and makes a difference.
pub(crate) async fn edit_key(cluster: &Cluster, key: &str, edit: &Edit, is_dry_run: bool) -> bool {
    let Some((api, name)) = api_of_key(cluster, key) else { return false };
    let Ok(patch) = serde_json::from_value(edit.patch()) else { return false };
    let params = PatchParams { dry_run: is_dry_run, ..PatchParams::default() };
    let edited = api.patch(&name, &params, &Patch::<()>::Json(patch)).await;
    edited.is_ok_and(|object| object.data.pointer(&edit.pointer) == Some(&edit.new))
}

/// Returns an `Api` and the name for an object's key, `resource.group/namespace/name`.
fn api_of_key(cluster: &Cluster, key: &str) -> Option<(Api<DynamicObject>, String)> {
    let mut parts = key.split('/');
    let resource = parts.next()?;
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    let (namespace, name) = match (parts.next(), parts.next()) {
        (Some(namespace), Some(name)) => (Some(namespace), name),
        (name, None) => (None, name?),
        _ => return None,
    };
    let catalog = cluster.server().catalog();
    let found = catalog.resources().find(|resource| resource.group == group && resource.plural == plural)?;
    let gvk = GroupVersionKind::gvk(group, &found.version, &found.kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
    let api = match namespace {
        Some(namespace) => Api::namespaced_with(cluster.client(), namespace, &resource),
        None => Api::all_with(cluster.client(), &resource),
    };
    Some((api, name.to_owned()))
}

/// Returns an `Api` and the name for an object of the scenario.
fn api(cluster: &Cluster, object: &Value) -> Result<(Api<DynamicObject>, String), String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let types = TypeMeta { api_version: text(&object["apiVersion"]), kind: text(&object["kind"]) };
    let gvk = GroupVersionKind::try_from(&types).map_err(|error| error.to_string())?;
    let catalog = cluster.server().catalog();
    let Some(found) = catalog.find_kind(&gvk.group, &gvk.version, &gvk.kind) else {
        return Err(format!("the cluster does not serve {} {}", types.api_version, types.kind));
    };
    let resource = ApiResource::from_gvk_with_plural(&gvk, &found.plural);
    let client = cluster.client();
    let api = if found.namespaced {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
        Api::namespaced_with(client, namespace, &resource)
    } else {
        Api::all_with(client, &resource)
    };
    Ok((api, text(&object["metadata"]["name"])))
}
