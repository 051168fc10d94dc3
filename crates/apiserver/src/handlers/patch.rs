//! Patch requests of all four types.

use std::borrow::Cow;

use bytes::Bytes;
use http::{Response, StatusCode};
use memchr::memmem;
use serde_json::Value;
use steersman_patch::{JsonPatchError, MergePatchError, StrategicError, json_patch, merge_patch};

use steersman_api::{
    fields::FieldError,
    http::{Body, FieldValidation},
    object,
    schema::{
        self, Decoder,
        duplicates::{self, Shape},
    },
    status::{ApiError, ApiResult, Reason},
};

use crate::{
    apply,
    call::{Call, Decoded},
    catalog::split_api_version,
    decode,
    render::answer,
    update::{self, Edit},
    write::Mode,
};

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(super) const APPLY: &str = "application/apply-patch+yaml";

/// A decoded patch.
#[derive(Debug)]
pub(super) struct Patch {
    kind: Kind,
    /// Field errors in the patch itself.
    complaints: Vec<String>,
}

#[derive(Debug)]
enum Kind {
    Json(Bytes),
    Merge(Value),
    Strategic(Value),
}

/// Rejects patch types that custom resources do not support.
pub(super) fn check_custom_media(media: &str) -> ApiResult<()> {
    match media {
        JSON | MERGE | APPLY => Ok(()),
        _ => Err(unsupported_for_custom()),
    }
}

fn unsupported_for_custom() -> ApiError {
    ApiError::unsupported_media_type(&[JSON, MERGE, APPLY])
}

pub(super) async fn patch(
    call: &Call,
    media: &str,
    body: &Bytes,
    warnings: &mut Vec<String>,
) -> ApiResult<Response<Body>> {
    if media == APPLY {
        return apply(call, body, warnings).await;
    }
    let patch = Patch::decode(call, media, body)?;
    let mut complaints = Vec::new();
    let edit = |current: Option<&Value>| {
        let Some(current) = current else { return Err(ApiError::not_found(&call.resource, &call.name)) };
        let (patched, found) = apply_patch(call, &patch, current)?;
        complaints = found;
        Ok(patched)
    };
    let result = update::update(call, Mode::Patch, edit, warnings).await;
    // Only the errors of the last attempt are reported, even if the write itself fails.
    let complained = decode::complain(call, &complaints, warnings);
    let (written, _) = result?;
    complained?;
    answer(call, written, StatusCode::OK).await
}

impl Patch {
    /// Decodes a patch of any type but apply.
    pub(super) fn decode(call: &Call, media: &str, body: &Bytes) -> ApiResult<Self> {
        if call.options.force.is_some() {
            let error = FieldError::forbidden("force", "may not be specified for non-apply patch");
            return Err(ApiError::invalid_kind("meta.k8s.io", "PatchOptions", "", vec![error]));
        }
        let judged = call.write.field_validation != FieldValidation::Ignore;
        match media {
            JSON => Self::json(body, judged),
            MERGE => Self::merge(body, judged),
            STRATEGIC if !call.resource.custom => Self::strategic(body),
            _ if call.resource.custom => Err(unsupported_for_custom()),
            _ => Err(ApiError::unsupported_patch_type()),
        }
    }

    fn json(body: &Bytes, judged: bool) -> ApiResult<Self> {
        let kind = Kind::Json(body.clone());
        if !judged {
            return Ok(Self { kind, complaints: Vec::new() });
        }
        let bad = |why: &str| ApiError::bad_request(format!("error decoding patch: {why}"));
        let (operations, complaints) =
            duplicates::parse(body, Shape::Operations).map_err(|e| bad(&schema::syntax(body, &e)))?;
        check_operations(&operations).map_err(|why| bad(&why))?;
        let complaints = complaints.into_iter().map(|what| format!("json patch {what}")).collect();
        Ok(Self { kind, complaints })
    }

    fn merge(body: &Bytes, judged: bool) -> ApiResult<Self> {
        let bad = |why: &str| ApiError::bad_request(format!("error decoding patch: {why}"));
        let (value, complaints) = match duplicates::parse(body, Shape::Any) {
            Ok(parsed) => parsed,
            Err(_) if !judged => return Err(ApiError::bad_request(MergePatchError.to_string())),
            Err(error) => return Err(bad(&schema::syntax(body, &error))),
        };
        if judged && !value.is_object() && !value.is_null() {
            return Err(bad(&not_a_map(&value)));
        }
        Ok(Self { kind: Kind::Merge(value), complaints })
    }

    fn strategic(body: &Bytes) -> ApiResult<Self> {
        let (mut value, complaints) = duplicates::parse(body, Shape::Any)
            .map_err(|e| ApiError::bad_request(schema::syntax(body, &e)))?;
        if value.is_null() {
            value = Value::Object(serde_json::Map::new());
        }
        if !value.is_object() {
            return Err(ApiError::bad_request(not_a_map(&value)));
        }
        Ok(Self { kind: Kind::Strategic(value), complaints })
    }

    /// Applies the patch; `strategic` implements strategic merge patches.
    pub(super) fn apply(
        &self,
        current: &Value,
        strategic: impl FnOnce(&Value) -> Option<Result<Value, StrategicError>>,
    ) -> ApiResult<Value> {
        let unprocessable = || {
            ApiError::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                Reason::Invalid,
                "the server rejected our request due to an error in our request",
            )
        };
        let mut patched = match &self.kind {
            Kind::Json(patch) => json_patch(&seen(current, patch), patch).map_err(|e| match e {
                JsonPatchError::Malformed(why) => {
                    let text = match serde_json::from_slice::<serde::de::IgnoredAny>(patch) {
                        Err(e) => schema::syntax(patch, &e),
                        Ok(_) => why,
                    };
                    ApiError::bad_request(text)
                }
                JsonPatchError::TooManyOperations(_) => {
                    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, Reason::RequestEntityTooLarge, e.to_string())
                }
                JsonPatchError::DoesNotApply(_) | JsonPatchError::TestFailed(_) => unprocessable(),
            })?,
            Kind::Merge(patch) => {
                merge_patch(current, patch).map_err(|e| ApiError::bad_request(e.to_string()))?
            }
            Kind::Strategic(patch) => {
                strategic(patch).ok_or_else(unprocessable)?.map_err(|e| strategic_error(&e))?
            }
        };
        object::normalise_numbers(&mut patched);
        Ok(patched)
    }

    /// Returns the decoder for the patched document.
    /// Strategic merge patches convert directly to the object, not through JSON.
    pub(super) fn decoder(&self) -> Decoder {
        if matches!(self.kind, Kind::Strategic(_)) { Decoder::Conversion } else { Decoder::Json }
    }

    /// Returns what errors quote: the patched document or, for a strategic merge patch, the patch.
    pub(super) fn quote(&self, patched: &Value) -> String {
        match &self.kind {
            Kind::Strategic(patch) => go_print(patch),
            Kind::Json(_) | Kind::Merge(_) => apply::shown(patched).to_string(),
        }
    }

    /// Combines the field errors of patch and patched document, and rejects them under strict validation.
    pub(super) fn judge(
        &self,
        validation: FieldValidation,
        quoted: impl FnOnce() -> String,
        found: Vec<String>,
    ) -> ApiResult<Vec<String>> {
        let complaints: Vec<String> = self.complaints.iter().cloned().chain(found).collect();
        if validation == FieldValidation::Strict && !complaints.is_empty() {
            return Err(unreadable(quoted(), format!("strict decoding error: {}", complaints.join(", "))));
        }
        Ok(complaints)
    }
}

/// Returns the error for a patched document that cannot be decoded.
pub(super) fn unreadable(quoted: String, why: impl Into<String>) -> ApiError {
    let error = FieldError::invalid("patch", quoted, why);
    ApiError::invalid_kind("", "", "", vec![error])
}

/// Returns the object as a JSON patch sees it, with `fieldsV1` unpacked if the patch might access it.
fn seen<'v>(object: &'v Value, patch: &[u8]) -> Cow<'v, Value> {
    let looks = |place: &str| memmem::find(patch, place.as_bytes()).is_some();
    // By name, through a parent, or with escapes.
    let may_look = ["managedFields", "\"/metadata\"", "\"\"", "\\", "~"].into_iter().any(looks);
    if may_look { apply::shown(object) } else { Cow::Borrowed(object) }
}

/// Returns the error of Go's decoder for a document that should be an object.
fn not_a_map(value: &Value) -> String {
    format!(
        "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
        decode::go_name(value)
    )
}

/// Validates the JSON types of the operations in a JSON patch.
fn check_operations(operations: &Value) -> Result<(), String> {
    let list = match operations {
        Value::Array(list) => list,
        Value::Null => return Ok(()),
        other => {
            let name = decode::go_name(other);
            return Err(format!(
                "json: cannot unmarshal {name} into Go value of type []handlers.jsonPatchOp"
            ));
        }
    };
    for operation in list.iter().filter(|operation| !operation.is_null()) {
        if !operation.is_object() {
            let name = decode::go_name(operation);
            return Err(format!("json: cannot unmarshal {name} into Go value of type handlers.jsonPatchOp"));
        }
        for field in ["op", "path", "from"] {
            if let Some(odd) = operation.get(field).filter(|v| !v.is_string() && !v.is_null()) {
                let name = decode::go_name(odd);
                return Err(format!(
                    "json: cannot unmarshal {name} into Go struct field jsonPatchOp.{field} of type string"
                ));
            }
        }
    }
    Ok(())
}

/// Returns the patched object and its field errors.
fn apply_patch(call: &Call, patch: &Patch, current: &Value) -> ApiResult<(Decoded, Vec<String>)> {
    let version = &call.resource.version;
    let mut patched =
        patch.apply(current, |patch| call.resource.strategy.strategic(version, current, patch))?;
    let quoted = || quoted(call, patch, current);
    check_identity(call, quoted, &mut patched, current)?;
    let found = call
        .resource
        .strategy
        .decode(version, &mut patched, patch.decoder())
        .map_err(|why| unreadable(quoted(), why))?;
    let complaints = patch.judge(call.write.field_validation, quoted, found.unknown)?;
    Ok((Decoded { object: patched, emptied: found.emptied }, complaints))
}

/// Returns what errors quote. Called only on errors, as it applies the patch once more.
fn quoted(call: &Call, patch: &Patch, current: &Value) -> String {
    if let Kind::Strategic(patch) = &patch.kind {
        // In the form that the merge leaves it in.
        let strategy = &call.resource.strategy;
        return go_print(&strategy.strategic_remains(&call.resource.version, current, patch));
    }
    let mut patched = patch.apply(current, |_| None).unwrap_or_default();
    keep_type(&mut patched, current);
    patch.quote(&patched)
}

/// Restores apiVersion and kind if the patched object lacks them.
fn keep_type(patched: &mut Value, current: &Value) {
    for field in ["kind", "apiVersion"] {
        if object::text(patched, &[field]).unwrap_or_default().is_empty() {
            object::carry(current, patched, field);
        }
    }
}

/// Converts the error of a strategic merge patch.
fn strategic_error(error: &StrategicError) -> ApiError {
    let message = error.to_string();
    match error {
        StrategicError::Malformed(_) => ApiError::bad_request(message),
        StrategicError::ListOfLists => {
            ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, Reason::Unknown, message)
        }
        StrategicError::Mismatch(_) | StrategicError::Schema(_) => ApiError::unforeseen(message),
    }
}

/// Formats a value as Go prints it.
fn go_print(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_print).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let mut entries: Vec<String> = map.iter().map(|(k, v)| format!("{k}:{}", go_print(v))).collect();
            entries.sort_unstable();
            format!("map[{}]", entries.join(" "))
        }
        other => other.to_string(),
    }
}

/// Checks that a patch does not change the object's identity.
fn check_identity(
    call: &Call,
    quoted: impl FnOnce() -> String,
    patched: &mut Value,
    current: &Value,
) -> ApiResult<()> {
    if !patched.is_object() {
        return Err(ApiError::bad_request("the patched object is not an object"));
    }
    keep_type(patched, current);
    let given = |field: &str| object::text(patched, &[field]).unwrap_or_default();
    let (version, kind) = (given("apiVersion"), given("kind"));
    if call.resource.custom {
        let mut errors = Vec::new();
        if kind != call.resource.kind {
            let detail = format!("must be {}", call.resource.kind);
            errors.push(FieldError::invalid("kind", kind, detail));
        }
        if version != call.resource.api_version() {
            let detail = format!("must be {}", call.resource.api_version());
            errors.push(FieldError::invalid("apiVersion", version, detail));
        }
        if !errors.is_empty() {
            return Err(ApiError::invalid_kind(&call.resource.group, kind, &call.name, errors));
        }
    } else if version != call.resource.api_version() || kind != call.resource.kind {
        let why =
            decode::wrong_conversion(call, patched, version, kind, &call.resource.group, &call.resource.kind);
        return Err(unreadable(quoted(), why));
    }
    decode::check_name(call, patched)
}

async fn apply(call: &Call, body: &Bytes, warnings: &mut Vec<String>) -> ApiResult<Response<Body>> {
    let Intent { object: intent, repeated } = Intent::decode(call, body)?;
    let resource = &call.resource;
    let given = |field: &str| object::text(&intent, &[field]).unwrap_or_default();
    let (version, kind) = (given("apiVersion"), given("kind"));
    let (group, short) = split_api_version(version);
    if kind != resource.kind || group != resource.group || version.is_empty() {
        return Err(ApiError::bad_request(format!("invalid object type: {group}/{short}, Kind={kind}")));
    }
    if !object::get(&intent, &["metadata", "managedFields"]).is_none_or(Value::is_null) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    let known = call.core.catalog().find_kind(group, short, kind).is_some();
    if version != resource.api_version() && !known {
        return Err(ApiError::bad_request(format!("invalid object type: {group}/{short}, Kind={kind}")));
    }
    let mut complaints = Vec::new();
    let edit = Applied { call, intent: &intent, repeated: repeated.as_deref(), complaints: &mut complaints };
    let result = update::update_by(call, Mode::Apply, edit, warnings).await;
    decode::complain(call, &complaints, warnings)?;
    let (written, created) = result?;
    answer(call, written, if created { StatusCode::CREATED } else { StatusCode::OK }).await
}

/// Edit that applies a configuration to the current object.
struct Applied<'a> {
    call: &'a Call,
    intent: &'a Value,
    repeated: Option<&'a str>,
    /// The field errors of the last attempt.
    complaints: &'a mut Vec<String>,
}

impl Edit for Applied<'_> {
    async fn edit(&mut self, current: Option<&Value>) -> ApiResult<Decoded> {
        let call = self.call;
        let applied = apply::apply(call, current, self.intent).await?;
        *self.complaints = judge_repeated(call, self.repeated)?;
        decode::check_name(call, &applied.object)?;
        Ok(applied)
    }
}

/// A decoded apply configuration.
pub(super) struct Intent {
    pub(super) object: Value,
    /// The error of a strict decoder for duplicate keys.
    pub(super) repeated: Option<String>,
}

impl Intent {
    pub(super) fn decode(call: &Call, body: &Bytes) -> ApiResult<Self> {
        if call.options.field_manager.is_empty() {
            let error = FieldError::required("fieldManager", "is required for apply patch");
            return Err(ApiError::invalid_kind("meta.k8s.io", "PatchOptions", "", vec![error]));
        }
        let bad = |why: String| ApiError::bad_request(format!("error decoding YAML: {why}"));
        // Nearly all clients send JSON, which a JSON parser reads much faster.
        let (mut object, repeated) = match duplicates::parse(body, Shape::Any) {
            Ok((object, repeated)) => {
                let judged = !repeated.is_empty() && call.write.field_validation != FieldValidation::Ignore;
                (object, judged.then(|| steersman_yaml::parse_strict(body).err()).flatten())
            }
            Err(_) => decode::any_yaml(call, body)
                .map_err(|e| bad(format!("error converting YAML to JSON: {e}")))?,
        };
        if !object.is_object() && !object.is_null() {
            return Err(bad(format!("error unmarshaling JSON: while decoding JSON: {}", not_a_map(&object))));
        }
        object::normalise_numbers(&mut object);
        let repeated = repeated.map(|e| format!("error converting YAML to JSON: {e}"));
        Ok(Self { object, repeated })
    }
}

/// Returns the warnings about duplicate keys; an error under strict validation.
pub(super) fn judge_repeated(call: &Call, repeated: Option<&str>) -> ApiResult<Vec<String>> {
    match repeated {
        Some(why) if call.write.field_validation == FieldValidation::Strict => {
            Err(ApiError::bad_request(format!("error strict decoding YAML: {why}")))
        }
        repeated => Ok(repeated.map(str::to_owned).into_iter().collect()),
    }
}
