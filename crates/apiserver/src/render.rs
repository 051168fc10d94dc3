//! Encodes responses: objects, lists, metadata only, Tables, errors.

use std::collections::HashSet;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};
use steersman_api::{
    http::{Body, Include, Meta, Output, json_response, text_response},
    status::{ApiError, ApiResult, Reason},
    store::Entry,
};
use steersman_gostd::json::RawMessage;
use steersman_patch::apply::unpack;

use crate::{call::Call, catalog::Resource, commit::Written, core::Core};

/// `metadata` of a list.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListMeta {
    pub(crate) revision: u64,
    pub(crate) continue_token: String,
    pub(crate) remaining: Option<usize>,
}

impl ListMeta {
    /// Returns the metadata of a list; custom resources include the continue token even if it is empty.
    pub(crate) fn of_list(&self, custom: bool) -> Value {
        let mut value = self.to_value();
        if custom && self.continue_token.is_empty() {
            value["continue"] = "".into();
        }
        value
    }

    pub(crate) fn to_value(&self) -> Value {
        let mut out = Map::new();
        if self.revision > 0 {
            out.insert("resourceVersion".into(), self.revision.to_string().into());
        }
        if !self.continue_token.is_empty() {
            out.insert("continue".into(), self.continue_token.as_str().into());
        }
        if let Some(remaining) = self.remaining {
            out.insert("remainingItemCount".into(), remaining.into());
        }
        Value::Object(out)
    }
}

/// Encodes the written object in the requested format.
pub(crate) async fn answer(call: &Call, written: Written, code: StatusCode) -> ApiResult<Response<Body>> {
    let bytes = match &written {
        Written::Stored(entry) => bytes(call, entry, entry.revision()),
        Written::Deleted(entry, revision) => bytes(call, entry, *revision),
        Written::Value(_) => None,
    };
    if let Some(bytes) = bytes {
        return Ok(json_response(code, Body::whole(bytes)));
    }
    let served = call.to_served(written.into_value(&call.resource)).await?;
    answer_value(call, served, code)
}

/// Returns a stored object in the requested format, if its bytes can be used directly.
fn bytes(call: &Call, entry: &Entry, revision: u64) -> Option<Bytes> {
    match call.output {
        _ if !call.resource.serves_bytes(entry) => None,
        Output::Object => {
            let mut out = Vec::with_capacity(entry.length());
            entry.write_as(revision, &mut out);
            Some(out.into())
        }
        Output::Metadata(version) => partial_bytes(entry, revision, version).map(Bytes::from),
        Output::MetadataList(_) | Output::Table(_) => None,
    }
}

/// Encodes an object of the request's version in the requested format.
pub(crate) fn answer_value(call: &Call, mut served: Value, code: StatusCode) -> ApiResult<Response<Body>> {
    unpack(&mut served);
    let value = match call.output {
        Output::Object => served,
        Output::Metadata(version) => partial(&served, version),
        Output::MetadataList(_) => {
            let what = call.resource.internal_type(&call.resource.kind);
            return Err(ApiError::new(
                StatusCode::NOT_ACCEPTABLE,
                Reason::NotAcceptable,
                format!(
                    "you requested PartialObjectMetadataList, but the requested object is not a list ({what})"
                ),
            ));
        }
        Output::Table(version) => table(call, &[served], &ListMeta::default(), version)?,
    };
    Ok(json_response(code, Body::whole(value.to_string())))
}

/// Builds a list.
pub(crate) fn list(call: &Call, mut items: Vec<Value>, meta: &ListMeta) -> Value {
    if !call.resource.custom {
        // Items of typed lists omit apiVersion and kind.
        for item in &mut items {
            if let Some(map) = item.as_object_mut() {
                map.remove("apiVersion");
                map.remove("kind");
            }
        }
    }
    json!({
        "kind": call.resource.list_kind,
        "apiVersion": call.resource.api_version(),
        "metadata": meta.of_list(call.resource.custom),
        "items": items,
    })
}

/// Returns an object as `PartialObjectMetadata`.
pub(crate) fn partial(object: &Value, version: Meta) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": version.api_version(),
        "metadata": object.get("metadata").cloned().unwrap_or_default(),
    })
}

/// Returns a stored object as `PartialObjectMetadata`, with metadata copied verbatim from its bytes.
pub(crate) fn partial_bytes(entry: &Entry, revision: u64, version: Meta) -> Option<String> {
    let mut text = Vec::with_capacity(entry.length());
    entry.write_as(revision, &mut text);
    let (_, metadata) =
        RawMessage::new(str::from_utf8(&text).ok()?).fields()?.find(|(key, _)| *key == "\"metadata\"")?;
    let metadata = metadata.get();
    let version = version.api_version();
    Some(format!(
        "{{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"{version}\",\"metadata\":{metadata}}}"
    ))
}

/// Builds a `PartialObjectMetadataList`.
pub(crate) fn partial_list(items: &[Value], meta: &ListMeta, version: Meta) -> Value {
    let items: Vec<Value> = items.iter().map(|item| partial(item, version)).collect();
    json!({
        "kind": "PartialObjectMetadataList",
        "apiVersion": version.api_version(),
        "metadata": meta.to_value(),
        // Unlike in other lists, no items are null here.
        "items": Some(items).filter(|items| !items.is_empty()),
    })
}

/// Builds a Table of objects in the version of the request.
pub(crate) fn table(call: &Call, items: &[Value], meta: &ListMeta, version: Meta) -> ApiResult<Value> {
    let mut meta = meta.clone();
    // The Table of a single object has the object's resourceVersion.
    if meta.revision == 0
        && let [one] = items
    {
        meta.revision = steersman_api::object::meta_text(one, "resourceVersion").parse().unwrap_or_default();
    }
    let form = Form { version, include: call.include()?, header: true };
    Ok(rows(&call.core, &call.resource, items, &meta, form))
}

/// The format of a Table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    pub(crate) version: Meta,
    pub(crate) include: Include,
    /// Whether column definitions are included.
    pub(crate) header: bool,
}

/// Builds a Table without a call.
pub(crate) fn rows(core: &Core, resource: &Resource, items: &[Value], meta: &ListMeta, form: Form) -> Value {
    let columns = resource.strategy.columns(&resource.version);
    let now = core.environment.now();
    let rows: Vec<Value> = items
        .iter()
        .map(|item| {
            let cells = resource.strategy.cells(&resource.version, item, now);
            let mut row = json!({"cells": cells});
            row["object"] = match form.include {
                Include::None => Value::Null,
                Include::Metadata => partial(item, form.version),
                Include::Object => item.clone(),
            };
            row
        })
        .collect();
    let mut table = json!({
        "kind": "Table",
        "apiVersion": form.version.api_version(),
        "metadata": meta.to_value(),
        "columnDefinitions": Value::Null,
        "rows": rows,
    });
    if form.header {
        table["columnDefinitions"] = columns.iter().map(steersman_api::table::Column::to_value).collect();
    }
    table
}

/// Encodes an error as a Status response.
pub(crate) fn error(error: &ApiError) -> Response<Body> {
    let mut response = json_response(error.code, Body::whole(error.to_value().to_string()));
    if let Some(wait) = error.retry_after_seconds
        && matches!(error.code.as_u16(), 429 | 503 | 504)
    {
        response.headers_mut().insert(header::RETRY_AFTER, wait.into());
    }
    response
}

/// Returns the plain text 404 response for unknown paths.
pub(crate) fn not_found() -> Response<Body> {
    text_response(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// Returns the "not found" error for unknown paths below built-in groups.
pub(crate) fn unknown() -> ApiError {
    let message = "the server could not find the requested resource";
    ApiError::new(StatusCode::NOT_FOUND, Reason::NotFound, message)
}

/// Maximum total length of a response's warnings, in characters; beyond it, each is truncated.
const WARNINGS_LIMIT: usize = 4 * 1024;
/// Length of a truncated warning, in characters.
const WARNING_LIMIT: usize = 256;

/// Adds the warning headers to a response.
pub(crate) fn add_warnings(response: &mut Response<Body>, warnings: &[String]) {
    for value in warning_headers(warnings) {
        response.headers_mut().append(header::WARNING, value);
    }
}

/// Returns the warning headers, without duplicates, as many as the limit allows.
fn warning_headers(warnings: &[String]) -> Vec<HeaderValue> {
    let mut heard = HashSet::new();
    let mut fresh = warnings.iter().filter(|text| !text.is_empty() && heard.insert(text.as_str()));
    let (mut whole, mut length) = (Vec::new(), 0);
    for text in fresh.by_ref() {
        let header = warning_header(text);
        length += header.as_ref().map_or(0, |_| text.chars().count());
        whole.push((text, header));
        if length > WARNINGS_LIMIT {
            break;
        }
    }
    if length <= WARNINGS_LIMIT {
        return whole.into_iter().filter_map(|(_, header)| header).collect();
    }
    // The warnings read before the limit was exceeded are all included.
    let told = whole.len();
    let mut headers = Vec::new();
    let mut length = 0;
    for (index, text) in whole.into_iter().map(|(text, _)| text).chain(fresh).enumerate() {
        if index >= told && length >= WARNINGS_LIMIT {
            break;
        }
        let end = text.char_indices().nth(WARNING_LIMIT).map_or(text.len(), |(end, _)| end);
        let text = &text[..end];
        if let Some(header) = warning_header(text) {
            length += text.chars().count();
            headers.push(header);
        }
    }
    headers
}

fn warning_header(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("299 - {}", steersman_api::status::quote(text))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_said_once_and_cut_if_they_are_too_many() {
        let said = |warnings: &[String]| -> Vec<usize> {
            // Excluding `299 - ""`.
            warning_headers(warnings).iter().map(|header| header.len() - 8).collect()
        };
        let long = |start: char| format!("{start}{}", "x".repeat(2047));
        assert_eq!(said(&["a".into(), String::new(), "a".into(), "b".into()]), [1, 1]);
        assert_eq!(said(&[long('a'), long('b')]), [2048, 2048]);
        assert_eq!(said(&[long('a'), long('b'), "c".into(), "c".into()]), [256, 256, 1]);
        let many: Vec<String> = (0..300_000).map(|index| format!("unknown field \"{index:08}\"")).collect();
        let headers = warning_headers(&many);
        assert_eq!(headers.len(), 4096 / 24 + 1);
        assert_eq!(headers[170], r#"299 - "unknown field \"00000170\"""#);
    }
}
