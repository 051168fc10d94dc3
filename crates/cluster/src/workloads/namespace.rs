//! Namespace deletion: deletes the content of terminating namespaces, then finalizes them.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition, NamespaceStatus};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, PropagationPolicy},
    core::DynamicObject,
};

use crate::control_loop::{ControlLoop, Controller, is_not_found};

const FINALIZER: &str = "kubernetes";
/// Delay before content with finalizers or a grace period is checked again.
const AGAIN: Duration = Duration::from_millis(100);

/// The remaining content of a namespace.
#[derive(Default)]
struct Remaining {
    /// Resources, with their number of objects.
    content: Vec<(String, usize)>,
    /// Finalizers, with the number of objects that have them.
    finalizers: std::collections::BTreeMap<String, usize>,
    /// Errors of deletions.
    failures: Vec<String>,
}

pub(super) async fn reconcile(control: &mut ControlLoop, name: &str) -> kube::Result<()> {
    let Some(namespace) = control.caches.namespaces.get("", name) else { return Ok(()) };
    if namespace.metadata.deletion_timestamp.is_none() {
        return Ok(());
    }
    let waiting = namespace.spec.iter().flat_map(|s| s.finalizers.iter().flatten());
    if !waiting.into_iter().any(|f| f == FINALIZER) {
        return Ok(());
    }
    let remaining = delete_content(control, name).await?;
    let mut namespace = Namespace::clone(&namespace);
    update_conditions(control, &mut namespace, &remaining).await?;
    if remaining.content.is_empty() && remaining.failures.is_empty() {
        return finalize(control, namespace).await;
    }
    control.push_after(Controller::Namespace, "", name, AGAIN);
    Ok(())
}

async fn delete_content(control: &mut ControlLoop, namespace: &str) -> kube::Result<Remaining> {
    control.discover().await?;
    let mut remaining = Remaining::default();
    let mut resources: Vec<_> = control.resources.values().filter(|r| r.namespaced).cloned().collect();
    // Pods are deleted first: until they have ended they may need other objects.
    resources.sort_by_key(|r| r.qualified() != "pods");
    for resource in resources {
        if !remaining.content.is_empty() && remaining.content.iter().all(|(name, _)| name == "pods.") {
            break;
        }
        let api: Api<DynamicObject> = Api::namespaced_with(control.client.clone(), namespace, &resource.api);
        // Some resources, such as reviews, can't be listed.
        let Ok(list) = api.list_metadata(&ListParams::default()).await else { continue };
        if list.items.is_empty() {
            continue;
        }
        let options = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        for item in &list.items {
            if item.metadata.deletion_timestamp.is_some() {
                continue;
            }
            if control.is_spent() {
                break;
            }
            control.spend();
            match api.delete(&item.name_any(), &options).await {
                Err(error) if !is_not_found(&error) => remaining.failures.push(error.to_string()),
                _ => {}
            }
        }
        let left = api.list_metadata(&ListParams::default()).await?.items;
        if left.is_empty() {
            continue;
        }
        remaining.content.push((format!("{}.{}", resource.api.plural, resource.api.group), left.len()));
        for finalizer in left.iter().flat_map(|item| item.metadata.finalizers.iter().flatten()) {
            *remaining.finalizers.entry(finalizer.clone()).or_default() += 1;
        }
    }
    Ok(remaining)
}

/// Sets the conditions that say what the namespace waits for.
async fn update_conditions(
    control: &mut ControlLoop,
    namespace: &mut Namespace,
    remaining: &Remaining,
) -> kube::Result<()> {
    let counted = |items: Vec<(String, usize)>, unit: &str| {
        let parts: Vec<String> =
            items.iter().map(|(what, n)| format!("{what} {unit} {n} resource instances")).collect();
        parts.join(", ")
    };
    let finalizers: Vec<(String, usize)> = remaining.finalizers.clone().into_iter().collect();
    let mut wanted = vec![
        (
            "NamespaceDeletionDiscoveryFailure",
            false,
            "ResourcesDiscovered",
            "All resources successfully discovered".to_owned(),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            false,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed".to_owned(),
        ),
    ];
    wanted.push(if remaining.failures.is_empty() {
        (
            "NamespaceDeletionContentFailure",
            false,
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization".to_owned(),
        )
    } else {
        (
            "NamespaceDeletionContentFailure",
            true,
            "ContentDeletionFailed",
            format!(
                "Failed to delete all resource types, {} remaining: {}",
                remaining.failures.len(),
                remaining.failures.join(", ")
            ),
        )
    });
    wanted.push(if remaining.content.is_empty() {
        ("NamespaceContentRemaining", false, "ContentRemoved", "All content successfully removed".to_owned())
    } else {
        (
            "NamespaceContentRemaining",
            true,
            "SomeResourcesRemain",
            format!("Some resources are remaining: {}", counted(remaining.content.clone(), "has")),
        )
    });
    wanted.push(if finalizers.is_empty() {
        (
            "NamespaceFinalizersRemaining",
            false,
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished".to_owned(),
        )
    } else {
        (
            "NamespaceFinalizersRemaining",
            true,
            "SomeFinalizersRemain",
            format!("Some content in the namespace has finalizers remaining: {}", counted(finalizers, "in")),
        )
    });
    let now = control.time();
    let status = namespace.status.get_or_insert_with(NamespaceStatus::default);
    let conditions = status.conditions.get_or_insert_default();
    let before = conditions.clone();
    for (type_, is, reason, message) in wanted {
        let state = if is { "True" } else { "False" };
        match conditions.iter_mut().find(|c| c.type_ == type_) {
            Some(c)
                if c.status == state
                    && c.reason.as_deref() == Some(reason)
                    && c.message.as_deref() == Some(&message) => {}
            Some(c) => {
                c.status = state.into();
                c.reason = Some(reason.into());
                c.message = Some(message);
                c.last_transition_time = Some(now.clone());
            }
            None => conditions.push(NamespaceCondition {
                type_: type_.into(),
                status: state.into(),
                reason: Some(reason.into()),
                message: Some(message),
                last_transition_time: Some(now.clone()),
            }),
        }
    }
    if *conditions != before {
        *namespace = control.update_status(namespace).await?;
    }
    Ok(())
}

async fn finalize(control: &mut ControlLoop, mut namespace: Namespace) -> kube::Result<()> {
    if let Some(finalizers) = namespace.spec.as_mut().and_then(|s| s.finalizers.as_mut()) {
        finalizers.retain(|f| f != FINALIZER);
    }
    let api: Api<Namespace> = Api::all(control.client.clone());
    let params = control.params();
    match api.replace_subresource("finalize", &namespace.name_any(), &params, &namespace).await {
        Err(error) if !is_not_found(&error) => Err(error),
        _ => Ok(()),
    }
}
