//! `AdmissionReview`: encodes requests and decodes responses.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde_json::{Map, Value, json};
use steersman_api::status::{ApiError, quote};

use crate::{
    admission::{Operation, attempt::Attempt},
    auth::review::user_info,
    catalog::Resource,
};

/// Encodes the review sent to a webhook.
pub(super) fn question(
    attempt: &Attempt<'_>,
    resource: &Resource,
    version: &str,
    uid: &str,
    object: &Value,
    old: &Value,
) -> Bytes {
    let request = request(attempt, resource, uid, object, old);
    let api = format!("admission.k8s.io/{version}");
    json!({"kind": "AdmissionReview", "apiVersion": api, "request": request}).to_string().into()
}

/// Builds the `request` of a review, with objects in the version of `resource`.
pub(in crate::admission) fn request(
    attempt: &Attempt<'_>,
    resource: &Resource,
    uid: &str,
    object: &Value,
    old: &Value,
) -> Value {
    let call = attempt.call;
    let kind = |r: &Resource| {
        // A subresource may have its own kind.
        let part = call.subresource.as_deref().and_then(|name| r.subresource(name));
        let (group, version, kind) = match part {
            Some(part) => (&part.group, &part.version, &part.kind),
            None => (&r.group, &r.version, &r.kind),
        };
        json!({"group": group, "version": version, "kind": kind})
    };
    let place = |r: &Resource| json!({"group": r.group, "version": r.version, "resource": r.plural});
    let mut request = Map::new();
    let mut say = |key: &str, value: Value| {
        request.insert(key.into(), value);
    };
    say("uid", uid.into());
    say("kind", kind(resource));
    say("resource", place(resource));
    say("requestKind", kind(&call.resource));
    say("requestResource", place(&call.resource));
    if let Some(part) = &call.subresource {
        say("subResource", part.as_str().into());
        say("requestSubResource", part.as_str().into());
    }
    if !attempt.name().is_empty() {
        say("name", attempt.name().into());
    }
    if !attempt.namespace().is_empty() {
        say("namespace", attempt.namespace().into());
    }
    say("operation", attempt.operation.name().into());
    say("userInfo", user_info(&call.user));
    say("object", object.clone());
    say("oldObject", old.clone());
    say("dryRun", call.write.dry_run.into());
    say("options", options(attempt));
    Value::Object(request)
}

/// Returns the options of the request, with the kind of the operation.
fn options(attempt: &Attempt<'_>) -> Value {
    let mut options = attempt.call.write.object.clone();
    let kind = match attempt.operation {
        Operation::Create => "CreateOptions",
        Operation::Update => "UpdateOptions",
        Operation::Delete => "DeleteOptions",
        Operation::Connect => return Value::Null,
    };
    let options_map = steersman_api::object::ensure(&mut options);
    options_map.insert("kind".into(), kind.into());
    options_map.insert("apiVersion".into(), "meta.k8s.io/v1".into());
    options
}

/// A valid response.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) allowed: bool,
    /// A JSON patch, or empty.
    pub(super) patch: Bytes,
    pub(super) status: Value,
    pub(super) warnings: Vec<String>,
}

impl Answer {
    /// Decodes and validates a response.
    ///
    /// # Errors
    /// If the response is invalid.
    pub(super) fn read(bytes: &[u8], version: &str, uid: &str, mutating: bool) -> Result<Self, String> {
        let review: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let text = |key: &str| review[key].as_str().unwrap_or_default();
        if !review.is_object() {
            return Err("failed to call webhook: couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }".into());
        }
        if text("kind").is_empty() {
            let given = String::from_utf8_lossy(bytes);
            return Err(format!("failed to call webhook: Object 'Kind' is missing in '{given}'"));
        }
        if let Some((_, other)) = text("apiVersion").split_once('/').filter(|(_, other)| *other != version) {
            let kind = text("kind");
            return Err(format!(
                "failed to call webhook: converting ({other}.{kind}) to ({version}.AdmissionReview): unknown conversion"
            ));
        }
        Self::checked(&review, version, uid, mutating)
            .map_err(|why| format!("received invalid webhook response: {why}"))
    }

    fn checked(review: &Value, version: &str, uid: &str, mutating: bool) -> Result<Self, String> {
        let response = &review["response"];
        if !response.is_object() {
            return Err("webhook response was absent".into());
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let patch = STANDARD.decode(text(&response["patch"])).map_err(|error| error.to_string())?;
        if version == "v1" {
            let given = text(&response["uid"]);
            if given != uid {
                return Err(format!("expected response.uid={}, got {}", quote(uid), quote(&given)));
            }
            let (api, kind) = (text(&review["apiVersion"]), text(&review["kind"]));
            if api != "admission.k8s.io/v1" || kind != "AdmissionReview" {
                let (group, version) = crate::catalog::split_api_version(&api);
                return Err(format!(
                    "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {group}/{version}, Kind={kind}"
                ));
            }
            check_patch(&patch, response.get("patchType"), mutating)?;
        }
        let warnings = response["warnings"].as_array().into_iter().flatten();
        Ok(Self {
            allowed: response["allowed"] == true,
            patch: if mutating { patch.into() } else { Bytes::new() },
            status: response.get("status").cloned().unwrap_or_default(),
            warnings: warnings.filter_map(|w| Some(w.as_str()?.to_owned())).collect(),
        })
    }
}

/// Checks that patch and patch type are set together, and only by mutating webhooks.
fn check_patch(patch: &[u8], kind: Option<&Value>, mutating: bool) -> Result<(), String> {
    let kind = kind.and_then(Value::as_str);
    match (mutating, patch.is_empty(), kind) {
        (false, false, _) => Err("validating webhook may not return response.patch".into()),
        (false, true, Some(_)) => Err("validating webhook may not return response.patchType".into()),
        (true, false, None) => Err("webhook returned response.patch but not response.patchType".into()),
        (true, true, Some(_)) => Err("webhook returned response.patchType but not response.patch".into()),
        (true, false, Some("")) => Err("webhook returned invalid response.patchType of \"\"".into()),
        (true, false, Some(other)) if other != "JSONPatch" => {
            Err(format!("unsupported patch type {}", quote(other)))
        }
        _ => Ok(()),
    }
}

/// Returns the error for a webhook's denial, with the status it returned.
pub(super) fn refusal(hook: &str, status: Value) -> ApiError {
    let denied = format!("admission webhook {} denied the request", quote(hook));
    let text = |key: &str| status[key].as_str().unwrap_or_default().to_owned();
    let message = match (text("message"), text("reason")) {
        (message, _) if !message.is_empty() => format!("{denied}: {message}"),
        (_, reason) if !reason.is_empty() => format!("{denied}: {reason}"),
        _ => format!("{denied} without explanation"),
    };
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).filter(|code| *code >= 400);
    let code =
        code.and_then(|code| http::StatusCode::from_u16(code).ok()).unwrap_or(http::StatusCode::BAD_REQUEST);
    ApiError::passed_on(code, message, status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(response: Value, mutating: bool) -> Result<Answer, String> {
        let review =
            json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
        Answer::read(review.to_string().as_bytes(), "v1", "u", mutating)
    }

    #[test]
    fn answers_must_make_sense() {
        assert!(read(json!({"uid": "u", "allowed": true}), false).unwrap().allowed);
        let invalid = "received invalid webhook response: ";
        assert_eq!(
            read(json!({"uid": "other"}), false).unwrap_err(),
            format!(r#"{invalid}expected response.uid="u", got "other""#)
        );
        assert_eq!(read(Value::Null, true).unwrap_err(), format!("{invalid}webhook response was absent"));
        let patch = json!({"uid": "u", "allowed": true, "patch": "W10=", "patchType": "JSONPatch"});
        assert_eq!(read(patch.clone(), true).unwrap().patch, "[]");
        assert!(read(patch, false).unwrap_err().contains("may not return response.patch"));
        let bare = json!({"uid": "u", "patch": "W10="});
        assert!(read(bare, true).unwrap_err().contains("not response.patchType"));
        assert!(Answer::read(b"nonsense", "v1", "u", true).is_err());
    }

    #[test]
    fn refusals_keep_the_hooks_words() {
        let error = refusal(
            "a.b.c",
            json!({"code": 409, "message": "no", "reason": "Odd", "details": {"name": "x"}}),
        );
        let status = error.to_value();
        assert_eq!(status["message"], r#"admission webhook "a.b.c" denied the request: no"#);
        assert_eq!((&status["reason"], &status["code"]), (&json!("Odd"), &json!(409)));
        assert_eq!(status["details"], json!({"name": "x"}));
        assert_eq!(refusal("h", Value::Null).to_value()["code"], 400);
    }
}
