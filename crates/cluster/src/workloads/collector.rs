//! Garbage collection: deletes objects without owners, and carries out foreground deletion and orphaning.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy},
    core::DynamicObject,
};
use serde_json::{Value, json};

use crate::control_loop::{
    ControlLoop, Controller, Deletion, FOREGROUND, GraphNode, MANAGER, ORPHAN, is_not_found,
};

/// The state of an owner reference.
enum OwnerState {
    /// The owner exists.
    Solid,
    /// The owner does not exist.
    Dangling,
    /// The owner exists and waits for its dependents, in foreground deletion.
    WaitingForDependents,
    /// The reference can't be resolved, so nothing is concluded from it.
    Unknown,
}

/// Reconciles the object with `uid`.
pub(super) async fn reconcile(control: &mut ControlLoop, uid: &str) -> kube::Result<()> {
    let Some(node) = control.graph.get(uid).cloned() else { return Ok(()) };
    if node.deleting && node.orphan {
        return orphan(control, uid, &node).await;
    }
    if node.waits_for_dependents() {
        return foreground(control, uid, &node).await;
    }
    if node.deleting || node.owners.is_empty() {
        return Ok(());
    }
    let (mut solid, mut dangling, mut waiting) = (0, Vec::new(), Vec::new());
    for owner in &node.owners {
        match owner_state(control, &node, owner).await? {
            OwnerState::Solid => solid += 1,
            OwnerState::Dangling => dangling.push(owner.uid.clone()),
            OwnerState::WaitingForDependents => waiting.push(owner.uid.clone()),
            OwnerState::Unknown => return Ok(()),
        }
    }
    if solid > 0 {
        dangling.extend(waiting);
        return if dangling.is_empty() { Ok(()) } else { release(control, uid, &node, &dangling).await };
    }
    let policy = if !waiting.is_empty() && !control.graph.dependents(uid).is_empty() {
        PropagationPolicy::Foreground
    } else if node.orphan {
        PropagationPolicy::Orphan
    } else if node.foreground {
        PropagationPolicy::Foreground
    } else {
        PropagationPolicy::Background
    };
    delete(control, uid, &node, policy).await
}

/// Removes the owner reference from the dependents, then the object's `orphan` finalizer.
async fn orphan(control: &mut ControlLoop, uid: &str, node: &GraphNode) -> kube::Result<()> {
    for dependent in control.graph.dependents(uid) {
        if control.is_spent() {
            return Ok(());
        }
        if let Some(other) = control.graph.get(&dependent).cloned() {
            control.spend();
            release(control, &dependent, &other, &[uid.to_owned()]).await?;
        }
    }
    drop_finalizer(control, uid, node, ORPHAN).await
}

/// Removes the object's `foregroundDeletion` finalizer once no dependent blocks it.
async fn foreground(control: &mut ControlLoop, uid: &str, node: &GraphNode) -> kube::Result<()> {
    let mut blocked = false;
    for dependent in control.graph.dependents(uid) {
        let Some(other) = control.graph.get(&dependent) else { continue };
        if !other.owners.iter().any(|o| o.uid == uid && o.block_owner_deletion == Some(true)) {
            continue;
        }
        blocked = true;
        if !other.deleting {
            control.push(Controller::Collect, "", &dependent);
        }
    }
    if blocked { Ok(()) } else { drop_finalizer(control, uid, node, FOREGROUND).await }
}

async fn owner_state(
    control: &mut ControlLoop,
    node: &GraphNode,
    owner: &OwnerReference,
) -> kube::Result<OwnerState> {
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    let kind = control.resources.values().find(|r| r.api.kind == owner.kind && r.api.group == group).cloned();
    let Some(resource) = kind else { return Ok(OwnerState::Unknown) };
    if resource.namespaced && node.namespace.is_empty() {
        return Ok(OwnerState::Unknown);
    }
    let namespace = if resource.namespaced { node.namespace.as_str() } else { "" };
    if let Some(known) = control.graph.get(&owner.uid) {
        // A reference with another name, kind or namespace is dangling, even if its uid exists.
        if known.namespace == namespace
            && known.name == owner.name
            && *known.resource == *resource.qualified()
        {
            return Ok(if known.waits_for_dependents() {
                OwnerState::WaitingForDependents
            } else {
                OwnerState::Solid
            });
        }
    }
    // The owner's watch may lag behind the dependent's: only the API can tell.
    let api: Api<DynamicObject> = if resource.namespaced {
        Api::namespaced_with(control.client.clone(), namespace, &resource.api)
    } else {
        Api::all_with(control.client.clone(), &resource.api)
    };
    Ok(match api.get_metadata_opt(&owner.name).await? {
        Some(found) if found.metadata.uid.as_deref() == Some(&owner.uid) => {
            let finalizers = found.metadata.finalizers.unwrap_or_default();
            let waits =
                found.metadata.deletion_timestamp.is_some() && finalizers.iter().any(|f| f == FOREGROUND);
            if waits { OwnerState::WaitingForDependents } else { OwnerState::Solid }
        }
        _ => OwnerState::Dangling,
    })
}

fn api(control: &ControlLoop, node: &GraphNode) -> Option<Api<DynamicObject>> {
    let resource = control.resources.get(&*node.resource)?;
    Some(if node.namespace.is_empty() {
        Api::all_with(control.client.clone(), &resource.api)
    } else {
        Api::namespaced_with(control.client.clone(), &node.namespace, &resource.api)
    })
}

async fn delete(
    control: &mut ControlLoop,
    uid: &str,
    node: &GraphNode,
    policy: PropagationPolicy,
) -> kube::Result<()> {
    let Some(api) = api(control, node) else { return Ok(()) };
    // The graph may be stale: if the object was adopted meanwhile, its version differs.
    let Some(found) = api.get_metadata_opt(&node.name).await? else { return Ok(()) };
    if found.metadata.uid.as_deref() != Some(uid) || found.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let options = DeleteParams {
        propagation_policy: Some(policy),
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: found.metadata.resource_version,
        }),
        ..DeleteParams::default()
    };
    if found.metadata.owner_references.unwrap_or_default() != node.owners {
        // The change has not reached the graph yet.
        return Ok(());
    }
    let deletion = Deletion::of(&control.client, api.resource_url(), &node.name, &options).await;
    ignore_not_found(deletion.map(drop))
}

/// Removes the references to `owners`.
async fn release(
    control: &mut ControlLoop,
    uid: &str,
    node: &GraphNode,
    owners: &[String],
) -> kube::Result<()> {
    patch_metadata(control, uid, node, |metadata| {
        let left: Vec<OwnerReference> = metadata
            .owner_references
            .iter()
            .flatten()
            .filter(|o| !owners.contains(&o.uid))
            .cloned()
            .collect();
        json!({"ownerReferences": if left.is_empty() { Value::Null } else { json!(left) }})
    })
    .await
}

async fn drop_finalizer(
    control: &mut ControlLoop,
    uid: &str,
    node: &GraphNode,
    finalizer: &str,
) -> kube::Result<()> {
    patch_metadata(control, uid, node, |metadata| {
        let left: Vec<&String> = metadata.finalizers.iter().flatten().filter(|f| *f != finalizer).collect();
        json!({"finalizers": if left.is_empty() { Value::Null } else { json!(left) }})
    })
    .await
}

/// Sends a merge patch of the metadata, computed from its current state in the API.
async fn patch_metadata(
    control: &mut ControlLoop,
    uid: &str,
    node: &GraphNode,
    patch: impl Fn(&kube::api::ObjectMeta) -> Value,
) -> kube::Result<()> {
    let Some(api) = api(control, node) else { return Ok(()) };
    let Some(found) = api.get_metadata_opt(&node.name).await? else { return Ok(()) };
    if found.metadata.uid.as_deref() != Some(uid) {
        return Ok(());
    }
    let mut metadata = patch(&found.metadata);
    metadata["uid"] = uid.into();
    metadata["resourceVersion"] = json!(found.metadata.resource_version);
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let patch = Patch::Merge(json!({"metadata": metadata}));
    ignore_not_found(api.patch_metadata(&node.name, &params, &patch).await.map(drop))
}

fn ignore_not_found(result: kube::Result<()>) -> kube::Result<()> {
    match result {
        Err(error) if is_not_found(&error) => Ok(()),
        other => other,
    }
}
