//! Request and response bodies.

use std::{
    fmt, io,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use http::{HeaderValue, Response, StatusCode, header};
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use crate::status::{ApiError, ApiResult, Reason};

/// Maximum size of a request body in bytes, as in kube-apiserver.
const MAX_BODY: usize = 3 * 1024 * 1024;

/// A response body: complete, or a stream of frames.
pub struct Body(Kind);

enum Kind {
    Whole(Option<Bytes>),
    Frames(Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>),
}

impl Body {
    /// Creates a complete body.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Kind::Whole(Some(bytes.into())))
    }

    /// Returns the bytes of a complete body; returns a stream unchanged as the error.
    pub fn into_whole(self) -> Result<Bytes, Self> {
        match self.0 {
            Kind::Whole(bytes) => Ok(bytes.unwrap_or_default()),
            frames @ Kind::Frames(_) => Err(Self(frames)),
        }
    }

    /// Creates a streamed body.
    pub fn stream(frames: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self::fallible(frames.map(Ok))
    }

    /// Creates a streamed body from a fallible source. An error aborts the response.
    pub fn fallible(frames: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Self {
        Self(Kind::Frames(Box::pin(frames)))
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Whole(_) => "Body::Whole",
            Kind::Frames(_) => "Body::Frames",
        })
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut self.0 {
            Kind::Whole(bytes) => {
                Poll::Ready(bytes.take().filter(|b| !b.is_empty()).map(|b| Ok(Frame::data(b))))
            }
            Kind::Frames(frames) => {
                frames.as_mut().poll_next(cx).map(|next| next.map(|bytes| bytes.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Kind::Whole(bytes) if bytes.as_ref().is_none_or(Bytes::is_empty))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            Kind::Frames(_) => SizeHint::default(),
        }
    }
}

/// Reads a request body, up to the size limit.
pub async fn collect<B>(body: B) -> ApiResult<Bytes>
where
    B: http_body::Body + Send,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match Limited::new(body, MAX_BODY).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(e) if e.is::<LengthLimitError>() => Err(ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            Reason::RequestEntityTooLarge,
            format!("Request entity too large: limit is {MAX_BODY}"),
        )),
        Err(e) => Err(ApiError::bad_request(format!("failed to read request body: {e}"))),
    }
}

/// Builds a JSON response.
pub fn json_response(code: StatusCode, body: Body) -> Response<Body> {
    respond(code, HeaderValue::from_static("application/json"), body)
}

/// Builds a plain text response.
pub fn text_response(code: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    respond(code, HeaderValue::from_static("text/plain; charset=utf-8"), Body::whole(text))
}

fn respond(code: StatusCode, content_type: HeaderValue, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}
