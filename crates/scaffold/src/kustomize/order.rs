//! The legacy order of kustomize's output: kinds that others depend on first, webhooks last.

use super::resource::{Id, Resource};

const FIRST: &[&str] = &[
    "Namespace",
    "ResourceQuota",
    "StorageClass",
    "CustomResourceDefinition",
    "ServiceAccount",
    "PodSecurityPolicy",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
    "ConfigMap",
    "Secret",
    "Endpoints",
    "Service",
    "LimitRange",
    "PriorityClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Deployment",
    "StatefulSet",
    "CronJob",
    "PodDisruptionBudget",
];
const LAST: &[&str] = &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

pub(super) fn sort(resources: &mut [Resource]) {
    resources.sort_by_cached_key(|resource| key(&resource.id()));
}

/// Returns the sort key: the kind's rank, its type, then namespace and name.
///
/// Empty parts have kustomize's placeholders, which sort after letters.
fn key(id: &Id) -> (usize, String, String, String) {
    let place = |list: &[&str]| list.iter().position(|kind| *kind == id.kind);
    let rank = match (place(FIRST), place(LAST)) {
        (Some(index), _) => index,
        (None, Some(index)) => FIRST.len() + 1 + index,
        (None, None) => FIRST.len(),
    };
    let or = |text: &str, placeholder: &str| {
        if text.is_empty() { placeholder.to_owned() } else { text.to_owned() }
    };
    let kind = format!("{}_{}_{}", or(&id.group, "~G"), or(&id.version, "~V"), id.kind);
    (rank, kind, or(&id.namespace, "~X"), or(&id.name, "~N"))
}
