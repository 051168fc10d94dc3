//! The admission plugins enabled in every server.

use serde_json::{Value, json};

use steersman_api::{
    object,
    schema::quantity,
    status::{ApiError, ApiResult},
};

use super::{Attempt, Operation, certificates, limits, pod};
use crate::call::Call;

/// Runs the mutating plugins, which may change or reject an object before validation.
pub(crate) fn mutate(attempt: &Attempt<'_>, object: &mut Value) -> ApiResult<()> {
    let Attempt { call, operation, .. } = *attempt;
    let creates = operation == Operation::Create && call.subresource.is_none();
    let has = |plugin| call.core.has_plugin(plugin);
    if has("LimitRanger") {
        limits::mutate(attempt, object);
    }
    match (call.resource.group.as_str(), call.resource.plural.as_str()) {
        ("", "pods") => return pod::mutate(attempt, object),
        ("", "persistentvolumes") if creates && has("StorageObjectInUseProtection") => {
            protect(object, "kubernetes.io/pv-protection");
        }
        ("", "persistentvolumeclaims") if creates => {
            if has("StorageObjectInUseProtection") {
                protect(object, "kubernetes.io/pvc-protection");
            }
            if has("DefaultStorageClass") {
                default_storage_class(call, object);
            }
        }
        ("", "nodes") if creates && has("TaintNodesByCondition") => taint(object),
        ("networking.k8s.io", "ingresses") if creates && has("DefaultIngressClass") => {
            default_ingress_class(call, object);
        }
        _ => {}
    }
    Ok(())
}

/// Runs the validating plugins, which reject a valid object that is not allowed in the current state.
pub(crate) fn validate(attempt: &Attempt<'_>, object: &Value) -> ApiResult<()> {
    let Attempt { call, operation, old, .. } = *attempt;
    certificates::validate(attempt, object)?;
    if call.core.has_plugin("LimitRanger") {
        limits::validate(attempt, object)?;
    }
    if call.subresource.is_some() || !matches!(operation, Operation::Create | Operation::Update) {
        return Ok(());
    }
    let refuse =
        |why: &str| ApiError::forbidden(&call.resource.group, &call.resource.plural, attempt.name, why);
    match (call.resource.group.as_str(), call.resource.plural.as_str(), old) {
        ("", "persistentvolumeclaims", Some(old)) if call.core.has_plugin("PersistentVolumeClaimResize") => {
            let size = |claim: &Value| {
                let text = object::text(claim, &["spec", "resources", "requests", "storage"]);
                quantity::nanos(text.unwrap_or_default())
            };
            if size(object) <= size(old) {
                return Ok(());
            }
            if object::text(old, &["status", "phase"]) != Some("Bound") {
                return Err(refuse("Only bound persistent volume claims can be expanded"));
            }
            if !may_grow(call, object, old) {
                return Err(refuse(
                    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
                ));
            }
            Ok(())
        }
        ("scheduling.k8s.io", "priorityclasses", _) if call.core.has_plugin("Priority") => {
            if object.get("globalDefault").and_then(Value::as_bool) != Some(true) {
                return Ok(());
            }
            let Some(other) = pod::default_priority(call) else { return Ok(()) };
            let other = object::name(&other);
            if operation == Operation::Create || other != attempt.name {
                return Err(refuse(&format!(
                    "PriorityClass {other} is already marked as default. Only one default can exist"
                )));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn protect(object: &mut Value, finalizer: &str) {
    let list = object::metadata(object).entry("finalizers").or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut()
        && !list.iter().any(|name| name == finalizer)
    {
        list.push(finalizer.into());
    }
}

fn may_grow(call: &Call, claim: &Value, old: &Value) -> bool {
    let class =
        |claim: &Value| object::text(claim, &["spec", "storageClassName"]).unwrap_or_default().to_owned();
    let name = class(claim);
    if name.is_empty() || name != class(old) {
        return false;
    }
    let entry = call.core.store.get("storageclasses.storage.k8s.io", &name);
    entry
        .is_some_and(|entry| entry.value().get("allowVolumeExpansion").and_then(Value::as_bool) == Some(true))
}

/// Returns the name of the object annotated as the default; of several, the newest.
fn marked(call: &Call, resource: &str, annotation: &str) -> Option<String> {
    let snapshot = call.core.store.snapshot(resource, "", None);
    let classes = snapshot.entries.iter().map(|entry| entry.value());
    let class = classes
        .filter(|class| object::text(class, &["metadata", "annotations", annotation]) == Some("true"))
        .max_by_key(|class| object::meta_text(class, "creationTimestamp").to_owned())?;
    Some(object::name(&class).to_owned())
}

fn default_storage_class(call: &Call, claim: &mut Value) {
    let beta = "volume.beta.kubernetes.io/storage-class";
    if object::get(claim, &["spec", "storageClassName"]).is_some()
        || object::get(claim, &["metadata", "annotations", beta]).is_some()
    {
        return;
    }
    let annotation = "storageclass.kubernetes.io/is-default-class";
    if let Some(name) = marked(call, "storageclasses.storage.k8s.io", annotation) {
        object::child(claim, "spec").insert("storageClassName".into(), name.into());
    }
}

fn default_ingress_class(call: &Call, ingress: &mut Value) {
    let beta = "kubernetes.io/ingress.class";
    if object::get(ingress, &["spec", "ingressClassName"]).is_some()
        || object::get(ingress, &["metadata", "annotations", beta]).is_some()
    {
        return;
    }
    let annotation = "ingressclass.kubernetes.io/is-default-class";
    if let Some(name) = marked(call, "ingressclasses.networking.k8s.io", annotation) {
        object::child(ingress, "spec").insert("ingressClassName".into(), name.into());
    }
}

/// Taints a new node so that no pods are scheduled until it is ready.
fn taint(node: &mut Value) {
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let list = object::child(node, "spec").entry("taints").or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut() {
        let same = |other: &Value| {
            other.get("key") == taint.get("key") && other.get("effect") == taint.get("effect")
        };
        if !list.iter().any(same) {
            list.push(taint);
        }
    }
}
