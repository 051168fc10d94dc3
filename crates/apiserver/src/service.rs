//! The tower service: one request in, one answer out.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, header};
use serde_json::Value;
use steersman_api::http::{self as wire, Body};

use crate::{
    core::Core,
    pipeline::{self, Outcome},
    render,
};

/// The API server as a tower service, in the shape that `kube::Client::new` and hyper take.
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
    let mut outcome = Outcome { yaml: wire::wants_yaml(&parts.headers), flow: None };
    let mut response =
        pipeline::handle(core, parts, body, &mut outcome).await.unwrap_or_else(|error| render::error(&error));
    if outcome.yaml {
        response = to_yaml(response);
    }
    if let Some(flow) = outcome.flow {
        flow.add_headers(response.headers_mut());
    }
    if head {
        *response.body_mut() = Body::whole(Bytes::new());
    }
    response
}

/// An answer of JSON as YAML; other answers stay what they are.
fn to_yaml(response: Response<Body>) -> Response<Body> {
    let is_json = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    if !is_json {
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
    use http_body_util::BodyExt as _;
    use tower_service::Service as _;

    use super::*;
    use crate::Server;

    /// The media type and the text of an answer.
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

    /// The state of an answer is moved from layer to layer: what only some requests need is on the heap.
    #[test]
    fn the_state_of_an_answer_is_small() {
        let server = Server::default();
        let answering = answer(server.service().core, Request::new(String::new()));
        assert!(size_of_val(&answering) <= 8192, "{} bytes", size_of_val(&answering));
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
