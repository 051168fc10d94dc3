//! Logs of simulated containers.

use http::{Response, StatusCode, header};
use serde_json::Value;
use steersman_api::{
    BoxFuture,
    http::Body,
    status::{ApiError, ApiResult, Reason},
};
use steersman_apiserver::{Connection, Connector};

use crate::annotations::LOGS;

/// Serves the container subresources of pods: logs from an annotation. `exec` and the like are refused.
#[derive(Debug)]
pub(crate) struct SimulatedContainers;

impl Connector for SimulatedContainers {
    fn connect<'a>(&'a self, connection: Connection<'a>) -> BoxFuture<'a, ApiResult<Response<Body>>> {
        Box::pin(async move {
            if connection.subresource != "log" {
                let what = format!(
                    "{} is not supported: the containers of this cluster are simulated",
                    connection.subresource
                );
                return Err(ApiError::new(StatusCode::NOT_IMPLEMENTED, Reason::NotImplemented, what));
            }
            let text = log(connection.object, connection.request.uri.query().unwrap_or_default())?;
            let mut response = Response::new(Body::whole(text));
            let plain = header::HeaderValue::from_static("text/plain");
            response.headers_mut().insert(header::CONTENT_TYPE, plain);
            Ok(response)
        })
    }
}

fn log(pod: &Value, query: &str) -> ApiResult<String> {
    let option = |name: &str| {
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    };
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let names: Vec<&str> = ["initContainers", "containers", "ephemeralContainers"]
        .iter()
        .flat_map(|list| pod["spec"][*list].as_array().into_iter().flatten())
        .filter_map(|container| container["name"].as_str())
        .collect();
    let own: Vec<&str> = pod["spec"]["containers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|c| c["name"].as_str())
        .collect();
    let container = match (option("container").filter(|c| !c.is_empty()), own.as_slice()) {
        (Some(container), _) if names.contains(&container.as_str()) => container,
        (Some(container), _) => {
            let what = format!("container {container} is not valid for pod {name}");
            return Err(ApiError::bad_request(what));
        }
        (None, [only]) => (*only).to_owned(),
        (None, several) => {
            let choices = several.join(" ");
            let what =
                format!("a container name must be specified for pod {name}, choose one of: [{choices}]");
            return Err(ApiError::bad_request(what));
        }
    };
    if let Some(reason) = waiting_reason(pod, &container) {
        let what = format!("container {container:?} in pod {name:?} is waiting to start: {reason}");
        return Err(ApiError::bad_request(what));
    }
    let text = pod["metadata"]["annotations"][LOGS].as_str().unwrap_or_default();
    let mut lines: Vec<&str> = text.lines().collect();
    if let Some(tail) = option("tailLines").and_then(|n| n.parse::<usize>().ok()) {
        lines.drain(..lines.len().saturating_sub(tail));
    }
    let stamp = match option("timestamps").as_deref() {
        Some("true" | "1") => format!("{} ", pod["status"]["startTime"].as_str().unwrap_or_default()),
        _ => String::new(),
    };
    let mut text: String = lines.iter().flat_map(|line| [stamp.as_str(), line, "\n"]).collect();
    if let Some(limit) = option("limitBytes").and_then(|n| n.parse::<usize>().ok()) {
        let end = (0..=limit.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        text.truncate(end);
    }
    Ok(text)
}

/// Returns the waiting reason of a container that has no logs yet.
fn waiting_reason<'a>(pod: &'a Value, container: &str) -> Option<&'a str> {
    let statuses = ["initContainerStatuses", "containerStatuses"]
        .iter()
        .flat_map(|list| pod["status"][*list].as_array().into_iter().flatten());
    let mut found = None;
    for status in statuses {
        if status["name"] == container {
            found = Some(status);
        }
    }
    match found {
        None => Some("ContainerCreating"),
        // A container that terminated before still has its previous logs.
        Some(status) if status["lastState"]["terminated"].is_object() => None,
        Some(status) => status["state"]["waiting"]["reason"].as_str(),
    }
}
