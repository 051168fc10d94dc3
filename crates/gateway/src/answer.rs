//! Responses and their bodies.

use std::convert::Infallible;

use bytes::Bytes;
use futures::Stream;
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use serde_json::Value;

/// The body of every response.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

pub(crate) fn bytes(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()).boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

pub(crate) fn json(status: StatusCode, value: &Value) -> Response<Body> {
    bytes(status, "application/json; charset=utf-8", value.to_string())
}

pub(crate) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Full::default().boxed_unsync());
    *response.status_mut() = status;
    response
}

pub(crate) fn stream(
    content_type: &'static str,
    chunks: impl Stream<Item = Bytes> + Send + 'static,
) -> Response<Body> {
    use futures::StreamExt as _;
    let frames = chunks.map(|chunk| Ok::<_, Infallible>(Frame::data(chunk)));
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Responds with one object, whose resourceVersion becomes the `ETag`.
pub(crate) fn object(status: StatusCode, object: &Value, yaml: bool) -> Response<Body> {
    let mut response = match yaml.then(|| steersman_yaml::to_string(object)) {
        Some(Ok(text)) => bytes(status, "application/yaml; charset=utf-8", text),
        _ => json(status, object),
    };
    let version = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    if let Some(tag) = version.and_then(|version| HeaderValue::from_str(&format!("\"{version}\"")).ok()) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}
