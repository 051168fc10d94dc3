//! The aggregation layer's client: extension API servers over HTTPS, as a front proxy, or in the process.

use std::{
    io,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use bytes::Bytes;
use futures::TryStreamExt as _;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use steersman_api::{BoxFuture, http::Body};
use steersman_apiserver::{ApiServiceClient, ApiServiceTarget, ProxyBody};
use steersman_listener::{Peer, Tunnel};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::{
    metrics::MetricsServer,
    services::{Route, Services},
    tls_client::{ClientCertificate, TlsPeer, secure},
};

/// Advice in the error for an APIService without a known server.
const ADVICE: &str = "the address at which the server runs, such as 127.0.0.1:4443";

/// Sends requests to the servers behind APIServices.
#[derive(Debug, Clone)]
pub(crate) struct ApiServers {
    services: Services,
    /// Client certificate that identifies this API server as a front proxy, whose user headers are trusted.
    identity: Arc<RwLock<Option<Arc<ClientCertificate>>>>,
    /// Responds for metrics-server where no other server is known.
    metrics: Arc<OnceLock<MetricsServer>>,
}

impl ApiServers {
    pub(crate) fn new(services: Services, identity: ClientCertificate) -> Self {
        let identity = Arc::new(RwLock::new(Some(Arc::new(identity))));
        Self { services, identity, metrics: Arc::default() }
    }

    /// Registers the cluster's own metrics server.
    pub(crate) fn serve_metrics(&self, server: MetricsServer) {
        // Called once: a cluster has at most one metrics server.
        let _ = self.metrics.set(server);
    }

    /// Returns a copy for another cluster, with that cluster's services.
    pub(crate) fn fork(&self, services: Services) -> Self {
        let identity = self.identity.read().unwrap_or_else(PoisonError::into_inner).clone();
        Self { services, identity: Arc::new(RwLock::new(identity)), metrics: Arc::default() }
    }

    /// Replaces the client certificate from now on. `None`: no certificate is presented.
    pub(crate) fn identify(&self, identity: Option<ClientCertificate>) {
        *self.identity.write().unwrap_or_else(PoisonError::into_inner) = identity.map(Arc::new);
    }

    async fn ask(
        &self,
        target: ApiServiceTarget<'_>,
        mut request: Request<ProxyBody>,
    ) -> Result<Response<Body>, String> {
        forward_for(&mut request);
        if self.services.known(target.service).is_none()
            && let Some(metrics) = self.metrics.get().filter(|metrics| metrics.serves(target))
        {
            return Ok(metrics.answer(&whole(request).await?).map(Body::whole));
        }
        let stream = match self.services.find(target.service, ADVICE)?.open().await? {
            Route::Connection(stream) => stream,
            Route::Handler(handler) => return Ok(handler(whole(request).await?).await.map(Body::whole)),
        };
        let name = format!("{}.{}.svc", target.service.name, target.service.namespace);
        let identity = self.identity.read().unwrap_or_else(PoisonError::into_inner).clone();
        let peer = TlsPeer {
            name: &name,
            ca_bundle: target.ca_bundle,
            insecure: target.insecure,
            identity: identity.as_deref(),
        };
        send(secure(stream, peer).await?, request).await
    }
}

impl ApiServiceClient for ApiServers {
    fn knows(&self, target: ApiServiceTarget<'_>) -> bool {
        self.services.known(target.service).is_some()
            || self.metrics.get().is_some_and(|metrics| metrics.is_behind(target))
    }

    fn send<'a>(
        &'a self,
        target: ApiServiceTarget<'a>,
        request: Request<ProxyBody>,
    ) -> BoxFuture<'a, Result<Response<Body>, String>> {
        Box::pin(self.ask(target, request))
    }
}

/// Buffers the body of a request, for a handler in the process.
async fn whole(request: Request<ProxyBody>) -> Result<Request<Bytes>, String> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
    Ok(Request::from_parts(head, body))
}

/// Appends the client's address to `X-Forwarded-For`.
fn forward_for(request: &mut Request<ProxyBody>) {
    const FORWARDED_FOR: &str = "x-forwarded-for";
    let Some(Peer(peer)) = request.extensions().get().copied() else { return };
    let earlier = request.headers().get(FORWARDED_FOR).and_then(|value| value.to_str().ok());
    let all = match earlier {
        Some(earlier) => format!("{earlier}, {}", peer.ip()),
        None => peer.ip().to_string(),
    };
    if let Ok(all) = HeaderValue::from_str(&all) {
        request.headers_mut().insert(FORWARDED_FOR, all);
    }
}

/// Sends a request over a new connection.
///
/// The connection ends with the response's body, or carries another protocol after status 101.
async fn send(stream: TlsStream<TcpStream>, request: Request<ProxyBody>) -> Result<Response<Body>, String> {
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    tokio::spawn(async move {
        // Errors of the connection are reported to the reader of the response.
        let _ = connection.with_upgrades().await;
    });
    let mut response = sender.send_request(request).await.map_err(|error| error.to_string())?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let upgraded = hyper::upgrade::on(&mut response).await.map_err(|error| error.to_string())?;
        let (head, _) = response.into_parts();
        let mut answer = Response::from_parts(head, Body::whole(""));
        answer.extensions_mut().insert(Tunnel::new(TokioIo::new(upgraded)));
        return Ok(answer);
    }
    Ok(response.map(|body| Body::fallible(body.into_data_stream().map_err(io::Error::other))))
}
