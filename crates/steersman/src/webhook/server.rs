//! The server that the API server asks.

use std::{convert::Infallible, sync::Arc, time::Duration};

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
    metrics::Metrics,
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
    metrics: Metrics,
) -> Result<()> {
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Certificate(error.to_string()))?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let state = Arc::new((webhooks, metrics));
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (acceptor, state) = (acceptor.clone(), Arc::clone(&state));
        connections.spawn(async move {
            let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await else {
                return;
            };
            let service = service_fn(move |request| {
                let state = Arc::clone(&state);
                async move { Ok::<_, Infallible>(answer(&state.0, &state.1, request).await) }
            });
            // What goes wrong with a connection concerns its other end alone.
            let _ = auto::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn answer(webhooks: &Webhooks, metrics: &Metrics, request: Request<Incoming>) -> Answer {
    if request.method() != Method::POST {
        return text(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "reviews are posted\n");
    }
    let path = request.uri().path().to_owned();
    let Ok(body) =
        Limited::new(request.into_body(), LIMIT).collect().await.map(http_body_util::Collected::to_bytes)
    else {
        return text(StatusCode::PAYLOAD_TOO_LARGE, "text/plain", "too large for a review\n");
    };
    if !webhooks.serves(&path) {
        return text(StatusCode::NOT_FOUND, "text/plain", "no such webhook\n");
    }
    let reviewing = metrics.review(&path);
    let Some(answer) = serde_json::from_slice(&body).ok().and_then(|review| webhooks.answer(&path, &review))
    else {
        reviewing.ended(400, false);
        return text(StatusCode::BAD_REQUEST, "text/plain", "not a review\n");
    };
    // What webhooks have to say is in the answer; its own status is always the same.
    reviewing.ended(200, answer.pointer("/response/status/code").is_some_and(|code| *code == 500));
    text(StatusCode::OK, "application/json", answer.to_string())
}
