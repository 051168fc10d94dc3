//! The HTTPS listener of the API server.

use std::{net::SocketAddr, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
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
    front_proxy::FrontProxies,
    pki::{self, Authority},
    serving::Serving,
    user_service::UserService,
};

/// The header with a request's audit ID.
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// An open port that does not accept connections yet.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    config: Arc<ServerConfig>,
    pub(crate) address: SocketAddr,
    /// Whether requests without credentials are served, as `system:anonymous`.
    anonymous: bool,
    proxies: Option<FrontProxies>,
}

impl Listener {
    /// Opens a port with a serving certificate of the cluster's CA, which also signs client certificates.
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
        Ok(Self { socket, config, address, anonymous: true, proxies: None })
    }

    /// Opens a port with the given certificates.
    pub(crate) async fn bind_with(serving: &Serving) -> Result<Self, Error> {
        let (socket, address) = open(serving.address).await?;
        let mut authorities = serving.authorities()?;
        let mut proxies = None;
        if let Some(settings) = &serving.request_headers {
            proxies = Some(FrontProxies::new(settings, authorities.clone())?);
            authorities.extend(FrontProxies::authorities(settings)?);
        }
        let config = tls(serving.chain()?, serving.private_key()?, authorities)?;
        Ok(Self { socket, config, address, anonymous: serving.anonymous, proxies })
    }

    /// Serves until the future is dropped.
    pub(crate) async fn serve(self, service: Service, activity: Activity) {
        let Self { socket, config, anonymous, proxies, .. } = self;
        let server = steersman_listener::Listener::new(socket).tls(config);
        server
            .serve(move |certificate| {
                // Dropped with the handler, which lives as long as the connection.
                let connected = activity.begin();
                let names_user =
                    |it: &&CertificateDer<'_>| proxies.as_ref().is_none_or(|all| all.name_client(it));
                let user = certificate.filter(names_user).and_then(pki::user);
                let proxy = proxies.clone().filter(|all| certificate.is_some_and(|it| all.include(it)));
                let service = service.clone();
                move |mut request: Request<_>| {
                    let _ = &connected;
                    let named = proxy.as_ref().and_then(|proxy| proxy.user(request.headers_mut()));
                    let user = named.or_else(|| user.clone());
                    let has_credentials =
                        user.is_some() || request.headers().contains_key(header::AUTHORIZATION);
                    let refused = !anonymous && !has_credentials;
                    let mut service = UserService::maybe(service.clone(), user);
                    let handshake = Handshake::of(&request);
                    let audit_id = audit_id(request.headers());
                    let answer = service.call(request);
                    async move {
                        let mut answer = if refused {
                            unauthorized()
                        } else {
                            match answer.await {
                                Ok(answer) => over_websocket(handshake, answer),
                                Err(never) => match never {},
                            }
                        };
                        if let Some(audit_id) = audit_id {
                            answer.headers_mut().insert(AUDIT_ID, audit_id);
                        }
                        answer
                    }
                }
            })
            .await;
    }
}

/// Returns the audit ID of a request: the client's own, or a random one.
fn audit_id(headers: &HeaderMap) -> Option<HeaderValue> {
    const MAX_LENGTH: usize = 64;
    if let Some(given) = headers.get(AUDIT_ID).filter(|id| !id.is_empty() && id.len() <= MAX_LENGTH) {
        return Some(given.clone());
    }
    // It must be unique, not secret, so no system call for randomness is needed.
    let id = uuid::Builder::from_random_bytes(fastrand::u128(..).to_ne_bytes()).into_uuid();
    HeaderValue::from_str(id.hyphenated().encode_lower(&mut uuid::Uuid::encode_buffer())).ok()
}

async fn open(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    let failed = |error| Error::Port(address, error);
    let socket = TcpListener::bind(address).await.map_err(failed)?;
    let address = socket.local_addr().map_err(failed)?;
    Ok((socket, address))
}

/// Builds a TLS configuration that accepts client certificates signed by the given authorities.
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
    let protocols: &[&[u8]] = if cfg!(feature = "http2") { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(Arc::new(config))
}

fn unauthorized() -> Response<Body> {
    let error = ApiError::unauthorized();
    json_response(error.code, Body::whole(error.to_value().to_string()))
}

/// Sends a watch over a WebSocket if the client requested one. Other responses are returned unchanged.
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
