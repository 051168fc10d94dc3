//! Request bodies with a deadline, and response bodies that mark their connection as busy.

use std::{
    error::Error,
    fmt,
    future::Future as _,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Sleep, sleep};

use crate::{AnswerBody, connections::Pending};

/// Why a request's body ended early.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The connection failed, or the client sent malformed HTTP.
    #[error(transparent)]
    Connection(#[from] hyper::Error),
    /// The client took too long to send the body.
    #[error("the request's body was not complete after {0:?}")]
    Late(Duration),
}

/// A request body with a deadline for receiving all of it.
pub struct RequestBody {
    inner: Incoming,
    limit: Duration,
    /// Starts when the body is first polled without data available.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl RequestBody {
    pub(crate) fn new(inner: Incoming, limit: Duration) -> Self {
        Self { inner, limit, deadline: None }
    }
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBody").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::from)));
        }
        let limit = self.limit;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(limit)));
        deadline.as_mut().poll(context).map(|()| Some(Err(BodyError::Late(limit))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A response body. Its request is pending until it is dropped.
pub(crate) struct ResponseBody {
    /// `None` for a response that hands its connection over to another protocol.
    inner: Option<AnswerBody>,
    _pending: Pending,
}

impl ResponseBody {
    pub(crate) fn new(inner: Option<AnswerBody>, pending: Pending) -> Self {
        Self { inner, _pending: pending }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut self.inner {
            Some(inner) => Pin::new(inner).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}
