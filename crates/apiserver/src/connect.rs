//! Subresources served by a [`Connector`](crate::Connector): logs, exec, port-forward, proxies.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{Response, StatusCode, header, request::Parts};
use serde_json::{Value, json};
use steersman_api::{
    http::{Body, json_response},
    object,
    status::{ApiError, ApiResult, Reason, quote},
};

use crate::{
    admission::{self, Operation},
    auth::{self, Decision},
    call::Call,
    catalog::Verb,
    connector::Connection,
};

/// Whether a subresource is served by the connector.
pub(crate) fn is_connection(subresource: &str) -> bool {
    matches!(subresource, "log" | "exec" | "attach" | "portforward" | "proxy")
}

/// Authorizes, admits and forwards a request to the connector.
pub(crate) async fn connect(
    call: &Call,
    request: &Parts,
    rest: &str,
    warnings: &mut Vec<String>,
) -> ApiResult<Response<Body>> {
    if call.verb != Verb::Create && matches!(call.subresource_name(), "exec" | "attach" | "portforward") {
        // A WebSocket is opened with GET: read permission must not be enough to run commands.
        if let Decision::Deny(reason) = auth::decide(&call.core, &call.user, &call.attributes(Verb::Create)) {
            let (group, plural) = (&call.resource.group, &call.resource.plural);
            return Err(ApiError::forbidden(group, plural, &call.name, &reason));
        }
    }
    let is_service = call.resource.group.is_empty() && call.resource.plural == "services";
    let object = if is_service { Value::Null } else { call.to_served(call.seen()?.value()).await? };
    if call.subresource_name() != "log" {
        let mut options = connect_options(call, request.uri.query().unwrap_or_default(), rest);
        admission::mutate_part(call, Operation::Connect, &mut options, warnings).await?;
        admission::validate_part(call, Operation::Connect, &options, warnings).await?;
    }
    let object = if is_service { reachable_service(call)? } else { object };
    if call.subresource_name() == "log"
        && let Some(response) = empty_log(&object, request.uri.query().unwrap_or_default())?
    {
        return Ok(response);
    }
    let Some(connector) = &call.core.connector else {
        let part = format!("{}/{}", call.resource.plural, call.subresource_name());
        return Err(ApiError::new(
            StatusCode::NOT_IMPLEMENTED,
            Reason::Unknown,
            format!("{part} is not supported: this server runs no workloads"),
        ));
    };
    let connection = Connection {
        user: &call.user,
        resource: &call.resource,
        subresource: call.subresource_name(),
        rest,
        object: &object,
        request,
    };
    connector.connect(connection).await
}

/// Returns the proxied service, if it has endpoints.
/// The name may include a port, or a scheme and a port.
fn reachable_service(call: &Call) -> ApiResult<Value> {
    let id = call.name.as_str();
    let (name, port) = match id.split(':').collect::<Vec<_>>().as_slice() {
        [name] => (*name, ""),
        [name, port] | ["" | "http" | "https", name, port] => (*name, *port),
        _ => ("", ""),
    };
    if name.is_empty() {
        let why = format!("invalid service request {}", quote(id));
        return Err(ApiError::bad_request(why));
    }
    let unavailable = |why| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, Reason::ServiceUnavailable, why);
    let key = object::key(call.scope(), name);
    let service = || {
        let entry = call.core.store.read(&call.resource.storage, &key);
        entry.map(|entry| entry.value()).ok_or_else(|| ApiError::not_found(&call.resource, name))
    };
    let mut port_name = port.to_owned();
    if let Ok(number) = port.parse::<i64>() {
        let service = service()?;
        let mut ports = service["spec"]["ports"].as_array().into_iter().flatten();
        let Some(found) = ports.find(|port| port["port"] == number) else {
            let why = format!("no service port {number} found for service {}", quote(name));
            return Err(unavailable(why));
        };
        port_name = found["name"].as_str().unwrap_or_default().to_owned();
    }
    let catalog = call.core.catalog();
    let Some(endpoints) = call.core.store.read("endpoints", &key) else {
        let resource = catalog.find("", "v1", "endpoints").unwrap_or(&call.resource);
        return Err(ApiError::not_found(resource, name));
    };
    let endpoints = endpoints.value();
    let Some(subsets) = endpoints["subsets"].as_array().filter(|subsets| !subsets.is_empty()) else {
        return Err(unavailable(format!("no endpoints available for service {}", quote(name))));
    };
    let some = |subset: &Value, list: &str| subset[list].as_array().is_some_and(|list| !list.is_empty());
    let leads = |subset: &Value| {
        let mut ports = subset["ports"].as_array().into_iter().flatten();
        some(subset, "addresses") && ports.any(|p| p["name"].as_str().unwrap_or_default() == port_name)
    };
    if !subsets.iter().any(leads) {
        return Err(unavailable(format!("no endpoints available for service {}", quote(id))));
    }
    service()
}

/// Returns the options of a connection as an object, such as `PodExecOptions`.
fn connect_options(call: &Call, query: &str, rest: &str) -> Value {
    let part = call.subresource.as_deref().and_then(|name| call.resource.subresource(name));
    let kind = part.map_or("", |part| part.kind.as_str());
    let mut options = json!({"kind": kind, "apiVersion": "v1"});
    let mut lists: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        match key.as_ref() {
            // As in all query parameters of the API, every value but an explicit false is true.
            switch @ ("stdin" | "stdout" | "stderr" | "tty")
                if !matches!(value.to_lowercase().as_str(), "false" | "0") =>
            {
                options[switch] = true.into();
            }
            "container" if !value.is_empty() => options["container"] = value.into_owned().into(),
            "command" => lists.entry("command").or_default().push(value.into_owned().into()),
            "ports" => {
                let ports = value.split(',').filter_map(|port| port.trim().parse::<i32>().ok());
                lists.entry("ports").or_default().extend(ports.map(Value::from));
            }
            _ => {}
        }
    }
    for (key, list) in lists {
        options[key] = list.into();
    }
    if call.subresource_name() == "proxy" && !rest.is_empty() {
        options["path"] = rest.into();
    }
    options
}

/// Returns the empty log of an unscheduled pod, if the container exists in the pod.
fn empty_log(pod: &Value, query: &str) -> ApiResult<Option<Response<Body>>> {
    let containers: Vec<&str> = ["containers", "initContainers", "ephemeralContainers"]
        .iter()
        .flat_map(|list| pod["spec"][*list].as_array().into_iter().flatten())
        .filter_map(|container| container["name"].as_str())
        .collect();
    let wanted = form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == "container");
    if let Some((_, wanted)) = wanted.filter(|(_, wanted)| !wanted.is_empty())
        && !containers.contains(&wanted.as_ref())
    {
        let name = object::name(pod);
        return Err(ApiError::bad_request(format!("container {wanted} is not valid for pod {name}")));
    }
    if !object::text(pod, &["spec", "nodeName"]).unwrap_or_default().is_empty() {
        return Ok(None);
    }
    let mut response = json_response(StatusCode::NO_CONTENT, Body::whole(Bytes::new()));
    response.headers_mut().remove(header::CONTENT_TYPE);
    Ok(Some(response))
}
