//! The API behind TLS on a port.

use std::{net::SocketAddr, sync::Arc};

use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use rustls::{RootCertStore, ServerConfig, pki_types::PrivateKeyDer, server::WebPkiClientVerifier};
use steersman_apiserver::Service;
use tokio::{net::TcpListener, task::JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::{
    client::As,
    error::Error,
    pki::{self, Authority},
};

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
        let mut roots = RootCertStore::empty();
        roots.add(authority.der()?)?;
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(clients)
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
                    let (acceptor, service) = (acceptor.clone(), service.clone());
                    connections.spawn(async move {
                        let Ok(stream) = acceptor.accept(stream).await else { return };
                        let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
                        let service = TowerToHyperService::new(As::maybe(service, certificate.and_then(pki::user)));
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
