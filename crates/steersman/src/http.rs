//! The small servers: metrics and probes.

use std::{future::Future, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::Full;
use rustls::pki_types::CertificateDer;
use steersman_listener::{Limits, Listener, RequestBody};
use tokio::net::TcpListener;

use crate::error::{Error, Result};

/// An answer.
pub(crate) type Answer = Response<Full<Bytes>>;

/// Answers with a text.
pub(crate) fn text(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    answer
}

/// Opens a port.
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })
}

/// Serves until it is dropped.
pub(crate) async fn serve<F, R>(listener: TcpListener, handler: F)
where
    F: Fn(Request<RequestBody>) -> R + Send + Sync + 'static,
    R: Future<Output = Answer> + Send + 'static,
{
    let handler = Arc::new(handler);
    let handlers = move |_: Option<&CertificateDer<'_>>| {
        let handler = Arc::clone(&handler);
        move |request| handler(request)
    };
    Listener::new(listener).limits(Limits::small()).serve(handlers).await;
}
