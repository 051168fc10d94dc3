//! Authenticates requests and authorizes actions.

use http::{HeaderMap, header, request::Parts};
use steersman_api::status::{ApiError, ApiResult};

use super::{Attributes, Decision, User};
use crate::core::Core;

/// Authenticates a request by its client certificate or bearer token, or as the anonymous user.
pub(crate) fn authenticate(core: &Core, request: &Parts) -> ApiResult<User> {
    if let Some(authenticator) = &core.authenticator {
        return authenticator.authenticate(request);
    }
    if let Some(user) = request.extensions.get::<User>() {
        return Ok(user.clone());
    }
    match bearer(&request.headers) {
        Some(token) => core
            .tokens
            .authenticate(&core.store, core.environment.now(), token)
            .map_err(|_| ApiError::unauthorized()),
        None => Ok(core.anonymous.clone()),
    }
}

/// Returns the bearer token of a request.
/// As in the real server, other Authorization headers are ignored.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let mut words = text.split(' ');
    let scheme = words.next()?;
    words.next().filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

/// Returns whether `user` is allowed the action, and why, without notifying the recorder.
pub(crate) fn explain(core: &Core, user: &User, attributes: &Attributes<'_>) -> (bool, String) {
    if core.settings().allow_all {
        return (true, String::new());
    }
    match core.authorizer.authorize(user, attributes) {
        Decision::Allow => (true, core.authorizer.reason(user, attributes)),
        Decision::Deny(reason) => (false, reason),
    }
}

/// Calls the authorizer and notifies the recorder.
pub(crate) fn decide(core: &Core, user: &User, attributes: &Attributes<'_>) -> Decision {
    let decision =
        if core.settings().allow_all { Decision::Allow } else { core.authorizer.authorize(user, attributes) };
    if let Some(recorder) = &core.recorder {
        recorder.record(user, attributes, decision == Decision::Allow);
    }
    decision
}

/// Records a request that is allowed without calling the authorizer.
pub(crate) fn allow(core: &Core, user: &User, attributes: &Attributes<'_>) {
    if let Some(recorder) = &core.recorder {
        recorder.record(user, attributes, true);
    }
}

/// Returns an error if `user` is not allowed the action, and notifies the recorder.
pub(crate) fn authorize(core: &Core, user: &User, attributes: &Attributes<'_>) -> ApiResult<()> {
    match decide(core, user, attributes) {
        Decision::Allow => Ok(()),
        Decision::Deny(reason) => Err(refuse(user, attributes, &reason)),
    }
}

/// Returns the "forbidden" error of an action.
pub(super) fn refuse(user: &User, a: &Attributes<'_>, reason: &str) -> ApiError {
    let mut text = describe(user, a);
    if !reason.is_empty() {
        text.push_str(": ");
        text.push_str(reason);
    }
    ApiError::forbidden(a.group, a.resource, a.name, &text)
}

/// Describes the denied action as the API words it. HTML is escaped, as browsers may show the text.
fn describe(user: &User, a: &Attributes<'_>) -> String {
    use steersman_api::status::quote;
    let name = quote(&user.name);
    let text = if a.is_resource() {
        let resource = if a.subresource.is_empty() {
            a.resource.to_owned()
        } else {
            format!("{}/{}", a.resource, a.subresource)
        };
        let place = if a.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {}", quote(a.namespace))
        };
        let (resource, group) = (quote(&resource), quote(a.group));
        format!("User {name} cannot {} resource {resource} in API group {group} {place}", a.verb)
    } else {
        format!("User {name} cannot {} path {}", a.verb, quote(a.path))
    };
    if text.contains(['&', '<', '>']) {
        return text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    }
    text
}
