//! Predicates on the phase and the deletion of objects.

use k8s_openapi::api::core::v1::Pod;
use kube::Resource;

pub(super) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

pub(super) fn is_terminal(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

pub(super) fn is_deleting<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}

/// Whether a pod is neither terminal nor being deleted.
pub(super) fn is_active(pod: &Pod) -> bool {
    !is_terminal(pod) && !is_deleting(pod)
}
