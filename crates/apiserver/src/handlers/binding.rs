//! Bindings: assigns pods to nodes.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use steersman_api::{
    fields::FieldError,
    http::{Body, json_response},
    object,
    status::{ApiError, ApiResult},
};

use crate::{
    admission::{self, Operation},
    call::Call,
    decode, update,
    write::Mode,
};

/// Binds a pod through the legacy `bindings` resource, which names the pod in the body.
pub(super) async fn bind_by_name(
    call: Call,
    media: &str,
    body: &Bytes,
    warnings: &mut Vec<String>,
) -> ApiResult<Response<Body>> {
    let binding = decode::object(&call, media, body, warnings)?.object;
    let catalog = call.core.catalog();
    let pods = catalog
        .find("", "v1", "pods")
        .ok_or_else(|| ApiError::internal("the resource pods is not served"))?;
    let call = Call {
        resource: Arc::clone(pods),
        subresource: Some("binding".to_owned()),
        name: object::name(&binding).to_owned(),
        ..call
    };
    bind_to(&call, binding, warnings).await
}

/// Binds a pod to a node.
pub(super) async fn bind(
    call: &Call,
    media: &str,
    body: &Bytes,
    warnings: &mut Vec<String>,
) -> ApiResult<Response<Body>> {
    let binding = decode::object(call, media, body, warnings)?.object;
    bind_to(call, binding, warnings).await
}

async fn bind_to(call: &Call, mut binding: Value, warnings: &mut Vec<String>) -> ApiResult<Response<Body>> {
    admission::mutate_part(call, Operation::Create, &mut binding, warnings).await?;
    if object::name(&binding) != call.name {
        return Err(ApiError::bad_request("name in URL does not match name in Binding object"));
    }
    let node = object::text(&binding, &["target", "name"]).unwrap_or_default().to_owned();
    let kind = object::text(&binding, &["target", "kind"]).unwrap_or_default();
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
    admission::validate_part(call, Operation::Create, &binding, warnings).await?;
    let now = call.now();
    let assign = |current: Option<&Value>| {
        let Some(current) = current else { return Err(ApiError::not_found(&call.resource, &call.name)) };
        check_preconditions(call, current, &binding)?;
        if let Some(why) = hindrance(current) {
            let mut named = (*call.resource).clone();
            named.plural.push_str("/binding");
            return Err(ApiError::conflict(&named, &call.name, &why));
        }
        let mut next = current.clone();
        object::child(&mut next, "spec").insert("nodeName".into(), node.as_str().into());
        for field in ["annotations", "labels"] {
            let Some(given) = binding["metadata"][field].as_object().filter(|map| !map.is_empty()) else {
                continue;
            };
            let map = object::ensure(object::metadata(&mut next).entry(field).or_insert(Value::Null));
            map.extend(given.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        let status = object::child(&mut next, "status");
        status.remove("nominatedNodeName");
        let conditions = status.entry("conditions").or_insert_with(|| json!([]));
        if let Some(list) = conditions.as_array_mut() {
            list.retain(|c| c["type"] != "PodScheduled");
            list.push(json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now}));
        }
        Ok(next.into())
    };
    update::update(call, Mode::Bind, assign, warnings).await?;
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(json_response(StatusCode::CREATED, Body::whole(status.to_string())))
}

/// Rejects a binding whose uid or resourceVersion does not match the pod.
fn check_preconditions(call: &Call, pod: &Value, binding: &Value) -> ApiResult<()> {
    let uid = object::uid(binding);
    if !uid.is_empty() && uid != object::uid(pod) {
        return Err(update::wrong_uid(call, uid, object::uid(pod)));
    }
    let version = object::meta_text(binding, "resourceVersion");
    if !version.is_empty() && version != object::meta_text(pod, "resourceVersion") {
        return Err(ApiError::modified(&call.resource, &call.name));
    }
    Ok(())
}

/// Returns why a pod cannot be bound to a node, if so.
fn hindrance(pod: &Value) -> Option<String> {
    let name = object::name(pod);
    let assigned = object::text(pod, &["spec", "nodeName"]).unwrap_or_default();
    if object::is_deleting(pod) {
        return Some(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    if !assigned.is_empty() {
        let node = steersman_api::status::quote(assigned);
        return Some(format!("pod {name} is already assigned to node {node}"));
    }
    let gates = pod["spec"]["schedulingGates"].as_array();
    gates
        .is_some_and(|gates| !gates.is_empty())
        .then(|| format!("pod {name} has non-empty .spec.schedulingGates"))
}
