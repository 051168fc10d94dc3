//! Namespace lifecycle: objects are created only in namespaces that exist and are not terminating.

use steersman_api::{
    object,
    status::{ApiError, ApiResult, Cause, Reason},
};

use crate::{catalog::Resource, core::Core};

/// Namespaces that cannot be deleted.
pub(crate) const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Rejects a new object in a namespace that does not exist or is terminating.
pub(crate) fn check_namespace(
    core: &Core,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> ApiResult<()> {
    if namespace.is_empty() || !resource.namespaced || !core.has_plugin("NamespaceLifecycle") {
        return Ok(());
    }
    // Reviews are not stored.
    if resource.group == "authorization.k8s.io" {
        return Ok(());
    }
    let Some(entry) = core.store.get("namespaces", namespace) else {
        let message = format!("namespaces {} not found", steersman_api::status::quote(namespace));
        return Err(ApiError::new(http::StatusCode::NOT_FOUND, Reason::NotFound, message).about(
            "",
            "namespaces",
            namespace,
        ));
    };
    // The phase is a selectable field, so the object need not be parsed.
    if entry.field("status.phase") != Some("Terminating") {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut error = ApiError::forbidden(&resource.group, &resource.plural, name, &why);
    let value = entry.value();
    error.causes.push(Cause {
        reason: "NamespaceTerminating".into(),
        message: format!("namespace {namespace} is being terminated"),
        field: "metadata.namespace".into(),
    });
    debug_assert!(object::is_deleting(&value));
    Err(error)
}
