//! The API behind TLS on a port.

use std::{net::SocketAddr, sync::Arc};

use rustls::{RootCertStore, ServerConfig, pki_types::PrivateKeyDer, server::WebPkiClientVerifier};
use steersman_apiserver::Service;
use tokio::net::TcpListener;
use tower_service::Service as _;

use crate::{
    error::Error,
    pki::{self, Authority},
    user_service::UserService,
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
        let server = steersman_listener::Listener::new(self.socket).tls(self.config);
        server
            .serve(move |certificate| {
                let service = UserService::maybe(service.clone(), certificate.and_then(pki::user));
                move |request| {
                    let answer = service.clone().call(request);
                    async move {
                        match answer.await {
                            Ok(answer) => answer,
                            Err(never) => match never {},
                        }
                    }
                }
            })
            .await;
    }
}
