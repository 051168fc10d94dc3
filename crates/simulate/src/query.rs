//! Query parameters of requests, and synthetic responses.

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use kube::{Client, client::Body};
use serde_json::{Value, json};

use crate::target::Target;

/// A response to the operator.
pub(crate) type Answer = Response<UnsyncBoxBody<Bytes, kube::Error>>;

/// The query parameters of a request.
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn of(uri: &Uri) -> Self {
        Self(form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).into_owned().collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn is_watch(&self) -> bool {
        matches!(self.get("watch"), Some("true" | "1"))
    }

    /// Identifies what is watched, independent of the resourceVersion.
    pub(crate) fn identity(&self, target: &Target) -> String {
        let selector = |name| self.get(name).unwrap_or_default().to_owned();
        format!("{target}?{}&{}", selector("labelSelector"), selector("fieldSelector"))
    }

    /// Returns the request with changed parameters.
    fn rewrite(&self, mut request: Request<Body>, drop: &[&str], add: &[(&str, &str)]) -> Request<Body> {
        let kept = self.0.iter().filter(|(key, _)| !drop.contains(&key.as_str()));
        let kept = kept.map(|(key, value)| (key.as_str(), value.as_str()));
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(kept.chain(add.iter().copied()))
            .finish();
        if let Ok(uri) = format!("{}?{query}", request.uri().path()).parse() {
            *request.uri_mut() = uri;
        }
        request
    }

    pub(crate) fn at_revision(&self, request: Request<Body>, revision: u64) -> Request<Body> {
        let revision = revision.to_string();
        let add = [("resourceVersion", revision.as_str()), ("resourceVersionMatch", "Exact")];
        self.rewrite(request, &["resourceVersion", "resourceVersionMatch"], &add)
    }

    /// Returns a watch's initial events as of a stale revision, and the request for the events after it.
    pub(crate) async fn initial_events(
        &self,
        inner: &Client,
        request: Request<Body>,
        revision: u64,
    ) -> Result<(Option<Bytes>, Request<Body>), kube::Error> {
        const OF_WATCHES: [&str; 6] = [
            "watch",
            "sendInitialEvents",
            "allowWatchBookmarks",
            "resourceVersion",
            "resourceVersionMatch",
            "timeoutSeconds",
        ];
        let version = revision.to_string();
        let mut list =
            Request::get(request.uri().clone()).body(Body::empty()).map_err(kube::Error::HttpError)?;
        if let Some(accept) = request.headers().get(header::ACCEPT).and_then(|accept| accept.to_str().ok()) {
            let accept = accept.replace("PartialObjectMetadata;", "PartialObjectMetadataList;");
            if let Ok(accept) = accept.parse() {
                list.headers_mut().insert(header::ACCEPT, accept);
            }
        }
        let exact = [("resourceVersion", version.as_str()), ("resourceVersionMatch", "Exact")];
        let list = self.rewrite(list, &OF_WATCHES, &exact);
        let answer = inner.send(list).await?;
        let follow = self.rewrite(
            request,
            &["sendInitialEvents", "resourceVersionMatch", "resourceVersion"],
            &exact[..1],
        );
        if !answer.status().is_success() {
            return Ok((None, follow));
        }
        let bytes = answer.into_body().collect().await?.to_bytes();
        let list: Value = serde_json::from_slice(&bytes).map_err(kube::Error::SerdeError)?;
        let kind = list["kind"].as_str().unwrap_or_default().trim_end_matches("List").to_owned();
        let types = |mut object: Value| {
            if object["kind"].is_null() {
                object["kind"] = json!(kind);
                object["apiVersion"] = list["apiVersion"].clone();
            }
            object
        };
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let mut events: Vec<Value> =
            items.into_iter().map(|item| json!({"type": "ADDED", "object": types(item)})).collect();
        let end = json!({"resourceVersion": version, "annotations": {"k8s.io/initial-events-end": "true"}});
        events.push(json!({"type": "BOOKMARK", "object": types(json!({"metadata": end}))}));
        let text: String = events.iter().map(|event| format!("{event}\n")).collect();
        Ok((Some(text.into()), follow))
    }
}

pub(crate) fn verb(method: &Method, headers: &http::HeaderMap) -> &'static str {
    let form = headers.get(header::CONTENT_TYPE).and_then(|form| form.to_str().ok()).unwrap_or_default();
    match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::DELETE => "delete",
        _ if form.contains("apply") => "apply",
        _ => "patch",
    }
}

/// Returns a synthetic error response of the API server.
pub(crate) fn refusal(code: u16) -> Answer {
    let (reason, message) = match code {
        409 => (
            "Conflict",
            "the object has been modified; please apply your changes to the latest version and try again",
        ),
        400 => ("BadRequest", "the request's body can't be read"),
        401 => ("Unauthorized", "Unauthorized"),
        410 => ("Expired", "too old resource version"),
        429 => (
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later",
        ),
        503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
        504 => ("Timeout", "request did not complete within the allotted timeout"),
        _ => ("InternalError", "an error on the server has prevented the request from succeeding"),
    };
    let mut answer = failure(code, reason, message);
    if code == 429 {
        answer.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
    }
    answer
}

/// Returns a rejection by admission control.
pub(crate) fn forbidden(message: &str) -> Answer {
    failure(403, "Forbidden", message)
}

fn failure(code: u16, reason: &str, message: &str) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": reason, "code": code, "message": message,
    });
    let body = Full::new(Bytes::from(status.to_string())).map_err(|never| match never {});
    let mut answer = Response::new(body.boxed_unsync());
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    answer
}
