//! Subresources that are more than a part of the object: scale, binding, eviction.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use steersman_patch::{json_patch, merge_patch};

use super::{answer_value, delete};
use crate::{
    auth::token,
    call::Call,
    decode,
    fields::FieldError,
    http::{Body, json_response},
    object,
    pipeline::{self, Mode, Written},
    status::{ApiError, ApiResult},
};

/// Answers requests to special subresources; `None` leaves the request to the ordinary verbs.
pub(super) async fn special(
    call: &mut Call,
    verb: &str,
    media: &str,
    body: &Bytes,
) -> ApiResult<Option<Response<Body>>> {
    let response = match (call.subresource_name(), verb) {
        ("scale", _) => scale(call, verb, media, body).await?,
        ("binding", "create") => binding(call, media, body).await?,
        ("eviction", "create") => delete::evict(call, media, body).await?,
        ("token", "create") => token::answer_request(call, media, body)?,
        _ => return Ok(None),
    };
    Ok(Some(response))
}

/// Where a resource keeps what `Scale` speaks of.
struct Paths {
    replicas: Vec<String>,
    status: Vec<String>,
    selector: Vec<String>,
}

/// The `Scale` of an object, which is in the version of the request.
pub(crate) fn scale_of(call: &Call, object: &Value) -> Value {
    to_scale(call, &paths(call), object)
}

/// Takes the replicas of a `Scale` over into its object.
pub(crate) fn take_scale(call: &Call, object: &mut Value, scale: &Value) {
    let replicas = object::get(scale, &["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(0);
    set(object, &paths(call).replicas, replicas.into());
}

fn paths(call: &Call) -> Paths {
    let split = |p: &str| p.trim_start_matches('.').split('.').map(str::to_owned).collect::<Vec<_>>();
    if call.resource.custom
        && let Some(entry) = call.core.store.get(crate::crd::RESOURCE, &call.resource.qualified())
    {
        let definition = entry.value();
        let version = definition["spec"]["versions"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|v| v["name"] == call.resource.version.as_str());
        let scale = version.map(|v| v["subresources"]["scale"].clone()).unwrap_or_default();
        let text = |key: &str| split(scale[key].as_str().unwrap_or_default());
        return Paths {
            replicas: text("specReplicasPath"),
            status: text("statusReplicasPath"),
            selector: text("labelSelectorPath"),
        };
    }
    Paths {
        replicas: split("spec.replicas"),
        status: split("status.replicas"),
        selector: split("spec.selector"),
    }
}

fn at<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |v, key| v.get(key))
}

fn to_scale(call: &Call, paths: &Paths, object: &Value) -> Value {
    let mut metadata = serde_json::Map::new();
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(key) {
            metadata.insert(key.into(), value.clone());
        }
    }
    let mut status = json!({"replicas": at(object, &paths.status).and_then(Value::as_i64).unwrap_or(0)});
    let selector = match at(object, &paths.selector) {
        Some(Value::String(text)) => text.clone(),
        Some(selector @ Value::Object(_)) => {
            selector_text(selector, call.resource.plural == "replicationcontrollers")
        }
        _ => String::new(),
    };
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    let mut spec = serde_json::Map::new();
    let replicas = at(object, &paths.replicas).and_then(Value::as_i64).unwrap_or(0);
    if replicas != 0 {
        spec.insert("replicas".into(), replicas.into());
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
}

/// A selector object as text.
fn selector_text(selector: &Value, plain: bool) -> String {
    let labels = if plain { Some(selector) } else { selector.get("matchLabels") };
    let mut parts: Vec<String> = labels
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()))
        .collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten().filter(|_| !plain) {
        let key = expression["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> =
            expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        values.sort_unstable();
        parts.push(match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    parts.sort();
    parts.join(",")
}

async fn scale(call: &mut Call, verb: &str, media: &str, body: &Bytes) -> ApiResult<Response<Body>> {
    let paths = paths(call);
    if verb == "get" {
        let object = call.to_served(call.stored()?.value())?;
        if call.resource.custom && at(&object, &paths.replicas).is_none() {
            let path = paths.replicas.join(".");
            return Err(ApiError::internal(format!("the spec replicas field \".{path}\" does not exist")));
        }
        return answer_value(call, to_scale(call, &paths, &object), StatusCode::OK);
    }
    let given = if verb == "update" { Some(decode::object(call, media, body)?) } else { None };
    if let Some(scale) = &given {
        check_name(call, scale)?;
    }
    let media = media.to_owned();
    let (written, _) = pipeline::update(call, Mode::Patch, |call, current| {
        let Some(current) = current else { return Err(ApiError::not_found(&call.resource, &call.name)) };
        let before = to_scale(call, &paths, current);
        let wanted = match &given {
            Some(scale) => scale.clone(),
            None => patched_scale(&before, &media, body)?,
        };
        let version = object::meta_text(&wanted, "resourceVersion");
        if !version.is_empty() && version != object::meta_text(current, "resourceVersion") {
            return Err(ApiError::modified(&call.resource, &call.name));
        }
        let replicas = object::get(&wanted, &["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(0);
        if replicas < 0 {
            let (resource, path) = (&call.resource, paths.replicas.join("."));
            return Err(if resource.custom {
                let why = "should be a non-negative integer";
                let error = FieldError::invalid(format!(".{path}"), replicas, why);
                ApiError::invalid(resource, &call.name, vec![error])
            } else {
                let error = FieldError::invalid(path, replicas, "must be greater than or equal to 0");
                ApiError::invalid_kind("autoscaling", "Scale", &call.name, vec![error])
            });
        }
        let mut next = current.clone();
        set(&mut next, &paths.replicas, replicas.into());
        Ok(next)
    })
    .await?;
    let stored = match written {
        Written::Stored(entry) => entry.value(),
        Written::Value(value) => value,
    };
    let object = call.to_served(stored)?;
    answer_value(call, to_scale(call, &paths, &object), StatusCode::OK)
}

/// A whole object has to say which it is.
fn check_name(call: &Call, given: &Value) -> ApiResult<()> {
    match object::name(given) {
        "" => Err(ApiError::bad_request(decode::no_name(&call.name))),
        name if name != call.name => Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.name
        ))),
        _ => Ok(()),
    }
}

fn patched_scale(before: &Value, media: &str, body: &Bytes) -> ApiResult<Value> {
    let parse = || serde_json::from_slice::<Value>(body).map_err(|e| ApiError::bad_request(e.to_string()));
    match media {
        "application/json-patch+json" => json_patch(before, body)
            .map_err(|e| ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", e.to_string())),
        "application/merge-patch+json"
        | "application/strategic-merge-patch+json"
        | "application/apply-patch+yaml" => {
            merge_patch(before, &parse()?).map_err(|e| ApiError::bad_request(e.to_string()))
        }
        _ => Err(ApiError::unsupported_media_type(&[
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/apply-patch+yaml",
        ])),
    }
}

fn set(value: &mut Value, path: &[String], leaf: Value) {
    let Some((last, head)) = path.split_last() else { return };
    let mut at = value;
    for key in head {
        at = object::ensure(at).entry(key.as_str()).or_insert(Value::Null);
    }
    object::ensure(at).insert(last.clone(), leaf);
}

/// Puts a pod onto a node.
async fn binding(call: &mut Call, media: &str, body: &Bytes) -> ApiResult<Response<Body>> {
    let binding = decode::object(call, media, body)?;
    let node = object::text(&binding, &["target", "name"]).unwrap_or_default().to_owned();
    let kind = object::text(&binding, &["target", "kind"]).unwrap_or_default();
    if !matches!(kind, "" | "Node") {
        return Err(ApiError::unforeseen(format!(
            "target.kind: Unsupported value: {}: supported values: \"Node\", \"<empty>\"",
            crate::status::quote(kind)
        )));
    }
    if node.is_empty() {
        let error = FieldError::required("target.name", "");
        return Err(ApiError::invalid_kind("", "Binding", &call.name, vec![error]));
    }
    let now = call.now();
    pipeline::update(call, Mode::Patch, |call, current| {
        let Some(current) = current else { return Err(ApiError::not_found(&call.resource, &call.name)) };
        let assigned = object::text(current, &["spec", "nodeName"]).unwrap_or_default();
        if !assigned.is_empty() {
            let why = format!("pod {} is already assigned to node {}", call.name, crate::status::quote(assigned));
            let mut named = (*call.resource).clone();
            named.plural.push_str("/binding");
            return Err(ApiError::conflict(&named, &call.name, &why));
        }
        let mut next = current.clone();
        object::child(&mut next, "spec").insert("nodeName".into(), node.as_str().into());
        let status = object::child(&mut next, "status");
        let conditions = status.entry("conditions").or_insert_with(|| json!([]));
        if let Some(list) = conditions.as_array_mut() {
            list.retain(|c| c["type"] != "PodScheduled");
            list.push(json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now}));
        }
        Ok(next)
    })
    .await?;
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(json_response(StatusCode::CREATED, Body::whole(status.to_string())))
}
