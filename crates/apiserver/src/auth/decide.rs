//! Who a request is from, and whether they may.

use http::{HeaderMap, header, request::Parts};
use steersman_api::status::{ApiError, ApiResult};

use super::{Attributes, Decision, User};
use crate::core::Core;

/// Authenticates a request: by its client certificate, by its bearer token, or as the user without credentials.
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

/// The bearer token of a request. An Authorization header of another kind counts as none, as with the real server.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let mut words = text.split(' ');
    let scheme = words.next()?;
    words.next().filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

/// Whether `user` may do what `attributes` say, and why; nothing is done, so the recorder is not told.
pub(crate) fn explain(core: &Core, user: &User, attributes: &Attributes<'_>) -> (bool, String) {
    if core.settings().allow_all {
        return (true, String::new());
    }
    match core.authorizer.authorize(user, attributes) {
        Decision::Allow => (true, core.authorizer.reason(user, attributes)),
        Decision::Deny(reason) => (false, reason),
    }
}

/// Asks the authorizer, and tells the recorder.
pub(crate) fn decide(core: &Core, user: &User, attributes: &Attributes<'_>) -> Decision {
    let decision =
        if core.settings().allow_all { Decision::Allow } else { core.authorizer.authorize(user, attributes) };
    if let Some(recorder) = &core.recorder {
        recorder.record(user, attributes, decision == Decision::Allow);
    }
    decision
}

/// Tells the recorder of a request that is allowed whatever the authorizer says.
pub(crate) fn allow(core: &Core, user: &User, attributes: &Attributes<'_>) {
    if let Some(recorder) = &core.recorder {
        recorder.record(user, attributes, true);
    }
}

/// Refuses what `user` may not do, and tells the recorder.
pub(crate) fn authorize(core: &Core, user: &User, attributes: &Attributes<'_>) -> ApiResult<()> {
    match decide(core, user, attributes) {
        Decision::Allow => Ok(()),
        Decision::Deny(reason) => Err(refuse(user, attributes, &reason)),
    }
}

/// The refusal of what `user` may not do.
pub(super) fn refuse(user: &User, a: &Attributes<'_>, reason: &str) -> ApiError {
    let mut text = describe(user, a);
    if !reason.is_empty() {
        text.push_str(": ");
        text.push_str(reason);
    }
    ApiError::forbidden(a.group, a.resource, a.name, &text)
}

/// The denied action, as the API words it. Markup is escaped, since browsers may show the text.
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
