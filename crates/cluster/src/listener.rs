//! The API behind TLS on a port.

use std::{net::SocketAddr, sync::Arc};

use http::{HeaderValue, Response, StatusCode, header};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer},
    server::WebPkiClientVerifier,
};
use steersman_api::{
    http::{Body, json_response},
    status::ApiError,
};
use steersman_apiserver::{EventStream, Service};
use steersman_listener::Handshake;
use tokio::net::TcpListener;
use tower_service::Service as _;

use crate::{
    activity::Activity,
    error::Error,
    pki::{self, Authority},
    serving::Serving,
    user_service::UserService,
};

/// A port that is open, not yet answered on.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    config: Arc<ServerConfig>,
    pub(crate) address: SocketAddr,
    /// Whether requests without credentials are answered.
    anonymous: bool,
}

impl Listener {
    /// Opens a port with a certificate of the cluster's authority, which also vouches for users.
    pub(crate) async fn bind(address: SocketAddr, authority: &Authority) -> Result<Self, Error> {
        let (socket, address) = open(address).await?;
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
        let config = tls(chain, PrivateKeyDer::Pkcs8(key.into()), vec![authority.der()?])?;
        Ok(Self { socket, config, address, anonymous: true })
    }

    /// Opens a port with certificates that are given.
    pub(crate) async fn bind_with(serving: &Serving) -> Result<Self, Error> {
        let (socket, address) = open(serving.address).await?;
        let config = tls(serving.chain()?, serving.private_key()?, serving.authorities()?)?;
        Ok(Self { socket, config, address, anonymous: serving.anonymous })
    }

    /// Answers until it is dropped, and then no longer.
    pub(crate) async fn serve(self, service: Service, activity: Activity) {
        let server = steersman_listener::Listener::new(self.socket).tls(self.config);
        let anonymous = self.anonymous;
        server
            .serve(move |certificate| {
                // Dropped with the handler, which lives as long as the connection.
                let connected = activity.begin();
                let user = certificate.and_then(pki::user);
                let refuses_strangers = !anonymous && user.is_none();
                let service = UserService::maybe(service.clone(), user);
                move |request| {
                    let _ = &connected;
                    let refused = refuses_strangers && !request.headers().contains_key(header::AUTHORIZATION);
                    let handshake = Handshake::of(&request);
                    let answer = service.clone().call(request);
                    async move {
                        if refused {
                            return unauthorized();
                        }
                        match answer.await {
                            Ok(answer) => over_websocket(handshake, answer),
                            Err(never) => match never {},
                        }
                    }
                }
            })
            .await;
    }
}

async fn open(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    let failed = |error| Error::Port(address, error);
    let socket = TcpListener::bind(address).await.map_err(failed)?;
    let address = socket.local_addr().map_err(failed)?;
    Ok((socket, address))
}

/// TLS with a certificate, and users whose certificates lead to one of the authorities.
fn tls(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    authorities: Vec<CertificateDer<'static>>,
) -> Result<Arc<ServerConfig>, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let config = if authorities.is_empty() {
        config.with_no_client_auth()
    } else {
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            roots.add(authority)?;
        }
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .allow_unauthenticated()
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        config.with_client_cert_verifier(clients)
    };
    let mut config = config.with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn unauthorized() -> Response<Body> {
    let error = ApiError::unauthorized();
    json_response(error.code, Body::whole(error.to_value().to_string()))
}

/// Sends the events of a watch over a WebSocket if the client asked for one; other answers stay as they are.
fn over_websocket(
    handshake: Option<Result<Handshake, StatusCode>>,
    answer: Response<Body>,
) -> Response<Body> {
    if answer.extensions().get::<EventStream>().is_none() {
        return answer;
    }
    match handshake {
        None => answer,
        Some(Ok(handshake)) => handshake.accept(answer.into_body()),
        Some(Err(status)) => {
            let mut refusal = Response::new(Body::whole(""));
            *refusal.status_mut() = status;
            refusal.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            refusal
        }
    }
}
