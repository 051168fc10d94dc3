//! The server that the API server asks.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use rustls::{ServerConfig, crypto::ring};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_rustls::TlsAcceptor;

use super::{Certificates, Webhooks};
use crate::{
    error::{Error, Result},
    http::{Answer, text},
};

/// Larger than any review: an object and its old state are at most 1.5 MiB each.
const LIMIT: usize = 8 << 20;
/// How long a client may take to shake hands.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Serves webhooks by TLS until it is dropped.
pub(crate) async fn serve(
    listener: TcpListener,
    certificates: Arc<Certificates>,
    webhooks: Webhooks,
) -> Result<()> {
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Certificate(error.to_string()))?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let webhooks = Arc::new(webhooks);
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (acceptor, webhooks) = (acceptor.clone(), Arc::clone(&webhooks));
        connections.spawn(async move {
            let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await else {
                return;
            };
            let service = service_fn(move |request| {
                let webhooks = Arc::clone(&webhooks);
                async move { Ok::<_, Infallible>(answer(&webhooks, request).await) }
            });
            // What goes wrong with a connection concerns its other end alone.
            let _ = auto::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn answer(webhooks: &Webhooks, request: Request<Incoming>) -> Answer {
    if request.method() != Method::POST {
        return text(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "reviews are posted\n");
    }
    let path = request.uri().path().to_owned();
    let Ok(body) =
        Limited::new(request.into_body(), LIMIT).collect().await.map(http_body_util::Collected::to_bytes)
    else {
        return text(StatusCode::PAYLOAD_TOO_LARGE, "text/plain", "too large for a review\n");
    };
    respond(webhooks, &path, &body)
}

fn respond(webhooks: &Webhooks, path: &str, body: &Bytes) -> Answer {
    let Ok(review) = serde_json::from_slice(body) else {
        return text(StatusCode::BAD_REQUEST, "text/plain", "not JSON\n");
    };
    match webhooks.answer(path, &review) {
        Some(answer) => text(StatusCode::OK, "application/json", answer.to_string()),
        None => text(StatusCode::NOT_FOUND, "text/plain", "no such webhook, or not a review\n"),
    }
}
