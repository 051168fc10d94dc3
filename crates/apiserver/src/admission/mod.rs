//! Admission: mutating plugins, then validating plugins, between decoding and storing a write.

mod access;
mod attempt;
pub(crate) mod builtin_plugins;
mod certificates;
mod constraints;
pub(crate) mod expression;
mod lifecycle;
mod limits;
mod plugin;
mod pod;
pub(crate) mod policy;
mod quota;
mod reinvocation;
mod values;
pub(crate) mod webhook;

use serde_json::Value;
use steersman_api::status::ApiResult;
use steersman_patch::apply::{pack, unpack};

use crate::{apply, call::Call};

pub(crate) use attempt::Attempt;
pub(crate) use lifecycle::{IMMORTAL, check_namespace};
pub use plugin::{Admission, AdmissionRequest, Operation};
pub(crate) use quota::reserve;
pub use steersman_api::BoxFuture;
pub use webhook::{WebhookCall, WebhookClient, WebhookTarget};

/// Mutating admission: built-in plugins, custom plugins, policies and webhooks.
/// The object is null for a deletion.
pub(crate) async fn mutate(
    attempt: Attempt<'_>,
    object: &mut Value,
    warnings: &mut Vec<String>,
) -> ApiResult<()> {
    mutate_by_builtin_plugins(&attempt, object)?;
    let call = attempt.call;
    // Avoid unpacking an object that no plugin sees.
    if call.core.admission.is_empty() && !webhook::mutates(&attempt) && !policy::mutates(&attempt) {
        return Ok(());
    }
    let old = attempt.old.map(apply::shown);
    let attempt = Attempt { old: old.as_deref(), ..attempt };
    unpack(object);
    let result = mutate_by_plugins(attempt, object, warnings).await;
    pack(object);
    result
}

async fn mutate_by_plugins(
    attempt: Attempt<'_>,
    object: &mut Value,
    warnings: &mut Vec<String>,
) -> ApiResult<()> {
    let request = attempt.request();
    for plugin in &attempt.call.core.admission {
        if plugin.handles(&request) {
            plugin.mutate(&request, object, warnings).await?;
        }
    }
    let mut policies = policy::Mutators::new(attempt);
    let mut hooks = webhook::Mutators::new(attempt);
    let changed = policies.run(object).await? | hooks.run(object, warnings).await?;
    if changed {
        mutate_by_builtin_plugins(&attempt, object)?;
        policies.run(object).await?;
        hooks.run(object, warnings).await?;
    }
    Ok(())
}

/// Runs the built-in mutating plugins.
/// They skip deletions and subresource bodies with their own kind.
fn mutate_by_builtin_plugins(attempt: &Attempt<'_>, object: &mut Value) -> ApiResult<()> {
    if attempt.operation == Operation::Delete || attempt.is_part() {
        return Ok(());
    }
    builtin_plugins::mutate(attempt, object)
}

/// Validating admission. The object is in the version used for validation, or null for a deletion.
pub(crate) async fn validate(
    attempt: Attempt<'_>,
    object: &Value,
    warnings: &mut Vec<String>,
) -> ApiResult<()> {
    builtin_plugins::validate(&attempt, object)?;
    let call = attempt.call;
    if call.core.admission.is_empty() && !webhook::validates(&attempt) && !policy::validates(&attempt) {
        return Ok(());
    }
    // Plugins see the object in the version of the request.
    let mut object = if object.is_null() { Value::Null } else { call.validated_to_served(object.clone())? };
    unpack(&mut object);
    let old = attempt.old.map(apply::shown);
    validate_by_plugins(Attempt { old: old.as_deref(), ..attempt }, &object, warnings).await
}

/// Mutating admission of a subresource body with its own kind.
/// Such bodies are Eviction, Binding, TokenRequest and the options of a connection.
pub(crate) async fn mutate_part(
    call: &Call,
    operation: Operation,
    part: &mut Value,
    warnings: &mut Vec<String>,
) -> ApiResult<()> {
    let attempt = Attempt { call, operation, name: &call.name, hides_name: false, old: None };
    if call.core.admission.is_empty() && !webhook::mutates(&attempt) && !policy::mutates(&attempt) {
        return Ok(());
    }
    mutate_by_plugins(attempt, part, warnings).await
}

/// Validating admission of a subresource body with its own kind.
pub(crate) async fn validate_part(
    call: &Call,
    operation: Operation,
    part: &Value,
    warnings: &mut Vec<String>,
) -> ApiResult<()> {
    let attempt = Attempt { call, operation, name: &call.name, hides_name: false, old: None };
    validate_by_plugins(attempt, part, warnings).await
}

/// Runs custom plugins, policies and webhooks on objects in the version of the request.
async fn validate_by_plugins(
    attempt: Attempt<'_>,
    object: &Value,
    warnings: &mut Vec<String>,
) -> ApiResult<()> {
    let request = attempt.request();
    for plugin in &attempt.call.core.admission {
        if plugin.handles(&request) {
            plugin.validate(&request, object, warnings).await?;
        }
    }
    policy::validate(attempt, object, warnings).await?;
    webhook::validate(attempt, object, warnings).await
}
