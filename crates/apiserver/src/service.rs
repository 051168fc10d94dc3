//! The tower service: one request in, one response out.

use std::{
    convert::Infallible,
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{HeaderValue, Method, Request, Response, header};
use http_body_util::BodyExt as _;
use serde_json::Value;
use steersman_api::{
    http::{Body, Encoding, PROTOBUF},
    protobuf,
    status::ApiError,
};

use crate::{
    core::Core,
    handlers::EventStream,
    pipeline::{self, Outcome},
    render,
};

/// The API server as a tower service, as used by `kube::Client::new` and hyper.
#[derive(Debug, Clone)]
pub struct Service {
    core: Arc<Core>,
}

impl Service {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }
}

impl<B> tower_service::Service<Request<B>> for Service
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let core = Arc::clone(&self.core);
        Box::pin(async move { Ok(answer(core, request).await) })
    }
}

async fn answer<B>(core: Arc<Core>, request: Request<B>) -> Response<Body>
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (parts, body) = request.into_parts();
    let head = parts.method == Method::HEAD;
    let usual = Encoding::of(&parts.headers);
    let mut outcome = Outcome { encoding: usual, flow: None };
    let mut response =
        pipeline::handle(core, parts, body, &mut outcome).await.unwrap_or_else(|error| render::error(&error));
    response = match outcome.encoding {
        Encoding::Json => response,
        Encoding::Yaml => to_yaml(response),
        // Errors remain JSON, unless the client accepts protobuf for everything.
        Encoding::Protobuf if usual != Encoding::Protobuf && !response.status().is_success() => response,
        Encoding::Protobuf => to_protobuf(response),
    };
    if let Some(flow) = outcome.flow {
        flow.add_headers(response.headers_mut());
    }
    if head {
        *response.body_mut() = Body::whole(Bytes::new());
    }
    response
}

fn is_json(response: &Response<Body>) -> bool {
    response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json")
}

/// Re-encodes a JSON response as protobuf; others are unchanged.
/// Objects without a message are rejected.
fn to_protobuf(response: Response<Body>) -> Response<Body> {
    if !is_json(&response) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    if parts.extensions.get::<EventStream>().is_some() {
        let kind = HeaderValue::from_static("application/vnd.kubernetes.protobuf;stream=watch");
        parts.headers.insert(header::CONTENT_TYPE, kind);
        let frames = body.into_data_stream().map(|frame| {
            let event = serde_json::from_slice(&frame?)?;
            let bytes = protobuf::encode_event(&event).ok_or(io::ErrorKind::InvalidData)?;
            Ok(Bytes::from(bytes))
        });
        return Response::from_parts(parts, Body::fallible(frames));
    }
    let bytes = match body.into_whole() {
        Ok(bytes) => bytes,
        Err(stream) => return Response::from_parts(parts, stream),
    };
    let kind = HeaderValue::from_static(PROTOBUF);
    let encode = |value: &Value| protobuf::encode(value).unwrap_or_default();
    let encoded = serde_json::from_slice(&bytes).ok().and_then(|value| protobuf::encode(&value));
    let (mut parts, encoded) = match encoded {
        Some(encoded) => (parts, encoded),
        None => {
            let error = ApiError::not_acceptable(&["application/json"]);
            (render::error(&error).into_parts().0, encode(&error.to_value()))
        }
    };
    parts.headers.insert(header::CONTENT_TYPE, kind);
    Response::from_parts(parts, Body::whole(encoded))
}

/// Re-encodes a JSON response as YAML; others are unchanged.
fn to_yaml(response: Response<Body>) -> Response<Body> {
    if !is_json(&response) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let bytes = match body.into_whole() {
        Ok(bytes) => bytes,
        Err(stream) => return Response::from_parts(parts, stream),
    };
    let text = serde_json::from_slice::<Value>(&bytes).ok().and_then(|v| steersman_yaml::to_string(&v).ok());
    match text {
        Some(text) => {
            let kind = HeaderValue::from_static("application/yaml");
            parts.headers.insert(header::CONTENT_TYPE, kind);
            Response::from_parts(parts, Body::whole(text))
        }
        None => Response::from_parts(parts, Body::whole(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use tower_service::Service as _;

    use super::*;
    use crate::Server;

    /// Returns the media type and body of a response.
    async fn ask(server: &Server, request: Request<String>) -> (String, String) {
        let answer = server.service().call(request).await.unwrap();
        let media = answer.headers()[header::CONTENT_TYPE].to_str().unwrap().to_owned();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        (media, String::from_utf8_lossy(&bytes).into_owned())
    }

    #[tokio::test]
    async fn answers_are_written_as_the_form_that_was_chosen() {
        let server = Server::default();
        for (accept, expected) in [
            ("application/yaml;as=Unknown, application/json", "application/json"),
            ("application/json;as=Unknown, application/yaml", "application/yaml"),
        ] {
            let request = Request::builder().uri("/api/v1/namespaces/default").header(header::ACCEPT, accept);
            let (media, text) = ask(&server, request.body(String::new()).unwrap()).await;
            assert_eq!(media, expected, "{text}");
        }
    }

    /// The future is moved from layer to layer, so state that only some requests need is boxed.
    #[test]
    fn the_state_of_an_answer_is_small() {
        let server = Server::default();
        let answering = answer(server.service().core, Request::new(String::new()));
        assert!(size_of_val(&answering) <= 8192, "{} bytes", size_of_val(&answering));
    }

    /// Returns the status code and the body of a response, decoded from protobuf.
    async fn ask_protobuf(server: &Server, path: &str) -> (u16, Value) {
        let request = Request::builder().uri(path).header(header::ACCEPT, PROTOBUF);
        let answer = server.service().call(request.body(String::new()).unwrap()).await.unwrap();
        assert_eq!(answer.headers()[header::CONTENT_TYPE], PROTOBUF, "{path}");
        let code = answer.status().as_u16();
        (code, protobuf::decode(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap())
    }

    #[tokio::test]
    async fn a_client_that_takes_nothing_else_gets_protobuf() {
        let server = Server::default();
        let (code, namespace) = ask_protobuf(&server, "/api/v1/namespaces/default").await;
        assert_eq!((code, &namespace["metadata"]["name"]), (200, &"default".into()));
        assert_eq!(namespace["status"]["phase"], "Active");
        let (_, list) = ask_protobuf(&server, "/api/v1/services").await;
        assert_eq!(list["kind"], "ServiceList");
        assert_eq!(list["items"][0]["spec"]["ports"][0]["targetPort"], 6443);
        let (code, status) = ask_protobuf(&server, "/api/v1/namespaces/none").await;
        assert_eq!((code, &status["reason"]), (404, &"NotFound".into()));
        let (_, resources) = ask_protobuf(&server, "/apis/apps/v1").await;
        assert_eq!(resources["resources"][0]["kind"], "ControllerRevision");
        let (code, status) = ask_protobuf(&server, "/version").await;
        assert_eq!((code, &status["reason"]), (406, &"NotAcceptable".into()));
    }

    #[tokio::test]
    async fn events_are_framed_by_their_lengths() {
        let server = Server::default();
        let request = Request::builder()
            .uri("/api/v1/namespaces?watch=true&fieldSelector=metadata.name%3Ddefault")
            .header(header::ACCEPT, PROTOBUF);
        let answer = server.service().call(request.body(String::new()).unwrap()).await.unwrap();
        assert_eq!(answer.headers()[header::CONTENT_TYPE], format!("{PROTOBUF};stream=watch"));
        let bytes = answer.into_body().frame().await.unwrap().unwrap().into_data().unwrap();
        let (length, event) = bytes.split_first_chunk().unwrap();
        assert_eq!(u32::from_be_bytes(*length) as usize, event.len());
        let start = event.windows(4).position(|window| window == b"k8s\0").unwrap();
        assert_eq!(&event[..7], b"\x0a\x05ADDED");
        assert_eq!(protobuf::decode(&event[start..]).unwrap()["metadata"]["name"], "default");
    }

    #[tokio::test]
    async fn refusals_quote_what_a_patch_makes() {
        let server = Server::default();
        let path = "/api/v1/namespaces/default";
        for (media, expected) in [
            (
                "merge-patch+json",
                r#"Invalid value: \"{\\\"apiVersion\\\":\\\"v1\\\",\\\"kind\\\":\\\"Namespace\\\""#,
            ),
            ("strategic-merge-patch+json", r#"Invalid value: \"map[kind: odd:1]\""#),
        ] {
            let request = Request::builder()
                .method("PATCH")
                .uri(format!("{path}?fieldValidation=Strict"))
                .header(header::CONTENT_TYPE, format!("application/{media}"));
            let (_, text) = ask(&server, request.body(r#"{"kind":"","odd":1}"#.into()).unwrap()).await;
            assert!(text.contains(expected), "{text}");
            assert!(text.contains("strict decoding error: unknown field"), "{text}");
        }
    }
}
