//! HTTP servers of metrics and probes.

use std::{future::Future, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::Full;
use rustls::{ServerConfig, pki_types::CertificateDer};
use steersman_listener::{Limits, Listener, RequestBody};
use tokio::net::TcpListener;

use crate::error::{Error, Result};

/// A response.
pub(crate) type Answer = Response<Full<Bytes>>;

/// Returns a response with a text body.
pub(crate) fn text(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    answer
}

/// Listens on a port.
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })
}

/// Serves until dropped, over TLS if configured.
pub(crate) async fn serve<F, R>(listener: TcpListener, tls: Option<Arc<ServerConfig>>, handler: F)
where
    F: Fn(Request<RequestBody>) -> R + Send + Sync + 'static,
    R: Future<Output = Answer> + Send + 'static,
{
    let handler = Arc::new(handler);
    let handlers = move |_: Option<&CertificateDer<'_>>| {
        let handler = Arc::clone(&handler);
        move |request| handler(request)
    };
    let mut listener = Listener::new(listener).limits(Limits::small());
    if let Some(tls) = tls {
        listener = listener.tls(tls);
    }
    listener.serve(handlers).await;
}
