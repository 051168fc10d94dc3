//! The API behind TLS on a port.

use std::{net::SocketAddr, sync::Arc};

use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use steersman_apiserver::{ApiError, ApiResult, Authenticator, Service, User};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::{error::Error, pki::Authority};

/// Paths that tell nothing about the cluster's content.
const PUBLIC: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// A port that is open, not yet answered on.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    config: Arc<ServerConfig>,
    pub(crate) address: SocketAddr,
}

impl Listener {
    /// Opens a port.
    pub(crate) async fn bind(address: SocketAddr, authority: &Authority) -> Result<Self, Error> {
        let socket = TcpListener::bind(address).await.map_err(|error| Error::Port(address, error))?;
        let address = socket.local_addr().map_err(|error| Error::Port(address, error))?;
        let (chain, key) = authority.server(&[
            address.ip().to_string(),
            "127.0.0.1".to_owned(),
            "10.96.0.1".to_owned(),
            "localhost".to_owned(),
            "kubernetes".to_owned(),
            "kubernetes.default".to_owned(),
            "kubernetes.default.svc".to_owned(),
            "kubernetes.default.svc.cluster.local".to_owned(),
        ])?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, PrivateKeyDer::Pkcs8(key.into()))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { socket, config: Arc::new(config), address })
    }

    /// Answers until it is dropped, and then no longer.
    pub(crate) async fn serve(self, service: Service) {
        let acceptor = TlsAcceptor::from(self.config);
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.socket.accept() => {
                    // Too many open files, or a client that left already: the next one may fare better.
                    let Ok((stream, _)) = accepted else {
                        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                        continue;
                    };
                    let _ = stream.set_nodelay(true);
                    let (acceptor, service) = (acceptor.clone(), TowerToHyperService::new(service.clone()));
                    connections.spawn(async move {
                        let Ok(stream) = acceptor.accept(stream).await else { return };
                        let server = auto::Builder::new(TokioExecutor::new());
                        if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
                            tracing::debug!(error, "a connection ended early");
                        }
                    });
                }
                Some(_) = connections.join_next() => {}
            }
        }
    }
}

/// Knows the users that in-process clients name, and the administrator by a token.
pub(crate) struct Credentials {
    pub(crate) token: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl Authenticator for Credentials {
    fn authenticate(&self, request: &http::request::Parts) -> ApiResult<User> {
        if let Some(user) = request.extensions.get::<User>() {
            return Ok(user.clone());
        }
        let given = request.headers.get(http::header::AUTHORIZATION).map(http::HeaderValue::as_bytes);
        match given.map(|value| value.strip_prefix(b"Bearer ")) {
            Some(Some(token)) if same(token, self.token.as_bytes()) => Ok(User::admin()),
            None if PUBLIC.contains(&request.uri.path()) => Ok(User {
                name: "system:anonymous".into(),
                groups: vec!["system:unauthenticated".into()],
                ..User::default()
            }),
            _ => Err(ApiError::unauthorized()),
        }
    }
}

/// Compares in a time that does not depend on where the difference is.
fn same(given: &[u8], wanted: &[u8]) -> bool {
    given.len() == wanted.len() && given.iter().zip(wanted).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}
