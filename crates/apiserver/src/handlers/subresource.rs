//! Subresources that are more than a part of the object: scale, binding, eviction.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use steersman_api::{
    fields::FieldError,
    http::{Body, json_response},
    object,
    status::{ApiError, ApiResult},
};

use super::{delete, scale};
use crate::{
    admission::Operation,
    auth::token,
    call::Call,
    decode,
    pipeline::{self, Mode},
};

/// Answers requests to special subresources; `None` leaves the request to the ordinary verbs.
pub(super) async fn special(
    call: &mut Call,
    verb: &str,
    media: &str,
    body: &Bytes,
) -> ApiResult<Option<Response<Body>>> {
    let response = match (call.subresource_name(), verb) {
        ("scale", _) => scale::scale(call, verb, media, body).await?,
        ("binding", "create") => {
            let binding = decode::object(call, media, body)?;
            bind(call, &binding).await?
        }
        ("eviction", "create") => delete::evict(call, media, body).await?,
        ("token", "create") => token::answer_request(call, media, body).await?,
        _ => return Ok(None),
    };
    Ok(Some(response))
}

/// Puts a pod onto a node by way of the older resource, which names the pod in its body.
pub(super) async fn bind_by_name(call: &mut Call, binding: &Value) -> ApiResult<Response<Body>> {
    let catalog = call.core.catalog();
    let pods = catalog.find("", "v1", "pods").ok_or_else(|| ApiError::internal("there are no pods"))?;
    call.resource = std::sync::Arc::clone(pods);
    call.subresource = Some("binding".to_owned());
    call.name = object::name(binding).to_owned();
    bind(call, binding).await
}

/// Puts a pod onto a node.
async fn bind(call: &mut Call, binding: &Value) -> ApiResult<Response<Body>> {
    let node = object::text(binding, &["target", "name"]).unwrap_or_default().to_owned();
    let kind = object::text(binding, &["target", "kind"]).unwrap_or_default();
    if !matches!(kind, "" | "Node") {
        return Err(ApiError::unforeseen(format!(
            "target.kind: Unsupported value: {}: supported values: \"Node\", \"<empty>\"",
            steersman_api::status::quote(kind)
        )));
    }
    if node.is_empty() {
        let error = FieldError::required("target.name", "");
        return Err(ApiError::invalid_kind("", "Binding", &call.name, vec![error]));
    }
    pipeline::validate_part(call, Operation::Create, binding).await?;
    call.admitted = true;
    let now = call.now();
    pipeline::update(call, Mode::Patch, |call, current| {
        let Some(current) = current else { return Err(ApiError::not_found(&call.resource, &call.name)) };
        let assigned = object::text(current, &["spec", "nodeName"]).unwrap_or_default();
        if !assigned.is_empty() {
            let why = format!("pod {} is already assigned to node {}", call.name, steersman_api::status::quote(assigned));
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
