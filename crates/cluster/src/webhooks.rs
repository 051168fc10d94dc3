//! How the API server reaches webhooks: by HTTPS, or in the process.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    net::SocketAddr,
    sync::{Arc, PoisonError, RwLock},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
    server::ParsedCertificate,
};
use steersman_api::BoxFuture;
use steersman_apiserver::{WebhookCall, WebhookClient, WebhookTarget};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Where the webhooks of a service are, as an annotation on it.
const ADDRESS: &str = "cluster.steersman.dev/address";

/// Answers may be as long as objects, and a bit longer.
const MAX_ANSWER: usize = 8 << 20;

type Handler = dyn Fn(Request<Bytes>) -> BoxFuture<'static, Response<Bytes>> + Send + Sync;

/// What becomes of writes whose webhooks are behind services of the cluster, where nothing runs.
///
/// It is not about webhooks at URLs, nor about services whose address is known: those are asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WebhookPolicy {
    /// They fail, unless the webhook's own policy ignores it.
    #[default]
    Fail,
    /// They go on with a warning.
    Ignore,
    /// They go on with a warning if the service has pods that are ready, and fail as on a real cluster if it has none.
    Auto,
}

/// What is behind a service.
#[derive(Clone)]
enum Endpoint {
    Address(SocketAddr),
    /// Host and port of a service that stands for a name outside.
    External(String, u16),
    Handler(Arc<Handler>),
}

/// The webhooks that are known to be behind services.
#[derive(Clone, Default)]
pub(crate) struct Webhooks {
    services: Arc<RwLock<BTreeMap<(String, String), Endpoint>>>,
    policy: WebhookPolicy,
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhooks").finish_non_exhaustive()
    }
}

impl Webhooks {
    pub(crate) fn new(policy: WebhookPolicy) -> Self {
        Self { policy, ..Self::default() }
    }

    fn put(&self, namespace: &str, name: &str, endpoint: Endpoint) {
        let mut services = self.services.write().unwrap_or_else(PoisonError::into_inner);
        services.insert((namespace.to_owned(), name.to_owned()), endpoint);
    }

    pub(crate) fn at(&self, namespace: &str, name: &str, address: SocketAddr) {
        self.put(namespace, name, Endpoint::Address(address));
    }

    pub(crate) fn by<F, A>(&self, namespace: &str, name: &str, handler: F)
    where
        F: Fn(Request<Bytes>) -> A + Send + Sync + 'static,
        A: Future<Output = Response<Bytes>> + Send + 'static,
    {
        let handler: Arc<Handler> = Arc::new(move |request| Box::pin(handler(request)));
        self.put(namespace, name, Endpoint::Handler(handler));
    }

    fn endpoint(&self, target: WebhookTarget<'_>) -> Result<Option<Endpoint>, String> {
        let WebhookTarget::Service { name, object, endpoints, .. } = target else { return Ok(None) };
        if let Some(endpoint) = self.known(target) {
            return Ok(Some(endpoint));
        }
        if object.is_none() {
            return Err(format!("service \"{name}\" not found"));
        }
        if endpoints.any_ready() {
            return Err(format!(
                "the pods behind service \"{name}\" are simulated and run nothing: the service's annotation {ADDRESS} can \
                 name the address at which the webhook runs, such as 127.0.0.1:9443, and --webhooks auto leaves it out"
            ));
        }
        Err(format!("no endpoints available for service \"{name}\""))
    }

    /// The webhook behind a service, if it is known where it runs.
    fn known(&self, target: WebhookTarget<'_>) -> Option<Endpoint> {
        let WebhookTarget::Service { namespace, name, port, object, .. } = target else { return None };
        let services = self.services.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(endpoint) = services.get(&(namespace.to_owned(), name.to_owned())) {
            return Some(endpoint.clone());
        }
        let service = object?;
        let address = service["metadata"]["annotations"][ADDRESS].as_str().and_then(|text| text.parse().ok());
        let external = service["spec"]["externalName"].as_str().filter(|name| !name.is_empty());
        address
            .map(Endpoint::Address)
            .or_else(|| external.map(|host| Endpoint::External(host.to_owned(), port)))
    }

    async fn ask(&self, call: WebhookCall<'_>, url: &Uri) -> Result<Response<Bytes>, String> {
        let path = url.path_and_query().map_or("/", |path| path.as_str());
        let host = url.host().unwrap_or_default();
        let request = Request::post(path)
            .header(header::HOST, url.authority().map_or(host, |authority| authority.as_str()))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .body(call.body.clone())
            .map_err(|error| error.to_string())?;
        match self.endpoint(call.target)? {
            Some(Endpoint::Handler(handler)) => Ok(handler(request).await),
            Some(Endpoint::Address(address)) => {
                let stream =
                    TcpStream::connect(address).await.map_err(|error| dial(&address.to_string(), &error))?;
                send(stream, host, call.ca_bundle, request).await
            }
            Some(Endpoint::External(external, port)) => {
                let stream = TcpStream::connect((external.as_str(), port))
                    .await
                    .map_err(|error| dial(&format!("{external}:{port}"), &error))?;
                send(stream, host, call.ca_bundle, request).await
            }
            None => {
                let port = url.port_u16().unwrap_or(443);
                let bare = host.trim_start_matches('[').trim_end_matches(']');
                let stream = TcpStream::connect((bare, port))
                    .await
                    .map_err(|error| dial(&format!("{host}:{port}"), &error))?;
                send(stream, bare, call.ca_bundle, request).await
            }
        }
    }
}

impl WebhookClient for Webhooks {
    fn skips(&self, target: WebhookTarget<'_>) -> Option<String> {
        let WebhookTarget::Service { namespace, name, endpoints, .. } = target else { return None };
        if self.policy == WebhookPolicy::Fail || self.known(target).is_some() {
            return None;
        }
        let skips = self.policy == WebhookPolicy::Ignore || endpoints.any_ready();
        skips.then(|| format!("nothing runs behind service \"{namespace}/{name}\" of this cluster"))
    }

    fn call<'a>(&'a self, call: WebhookCall<'a>) -> BoxFuture<'a, Result<Bytes, String>> {
        Box::pin(async move {
            let text = call.url();
            let url: Uri = text.parse().map_err(|error| format!("parse \"{text}\": {error}"))?;
            let response = self.ask(call, &url).await.map_err(|error| format!("Post \"{text}\": {error}"))?;
            match response.status() {
                StatusCode::OK => Ok(response.into_body()),
                StatusCode::NOT_FOUND => Err("the server could not find the requested resource".into()),
                status if status.is_server_error() => {
                    Err("an error on the server (\"unknown\") has prevented the request from succeeding"
                        .into())
                }
                _ => Err("the server rejected our request for an unknown reason".into()),
            }
        })
    }
}

/// Why there is no connection, as Go words it.
fn dial(address: &str, error: &std::io::Error) -> String {
    let why = match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        _ => error.to_string(),
    };
    format!("dial tcp {address}: {why}")
}

/// Sends one request over a connection of its own.
async fn send(
    stream: TcpStream,
    name: &str,
    ca_bundle: &[u8],
    request: Request<Bytes>,
) -> Result<Response<Bytes>, String> {
    let _ = stream.set_nodelay(true);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Verifier::new(ca_bundle, Arc::clone(&provider))?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
    let stream =
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| distrust(&error))?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let answer = async {
        let response =
            sender.send_request(request.map(Full::new)).await.map_err(|error| error.to_string())?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, MAX_ANSWER).collect().await.map_err(|error| error.to_string())?;
        Ok(Response::from_parts(parts, body.to_bytes()))
    };
    tokio::pin!(answer);
    // The connection must be looked after while the answer is on its way, and ends with it.
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        ended = connection => match ended {
            Ok(()) => answer.await,
            Err(error) => Err(error.to_string()),
        },
    }
}

/// Trusts a bundle of certificates, and also servers that show one of them themselves: certificates that sign
/// themselves are common among webhooks, and Go trusts them, where the verifier of rustls takes no authority for a server.
#[derive(Debug)]
struct Verifier {
    bundle: Vec<CertificateDer<'static>>,
    ordinary: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn new(ca_bundle: &[u8], provider: Arc<CryptoProvider>) -> Result<Self, String> {
        let bundle: Vec<_> = CertificateDer::pem_slice_iter(ca_bundle)
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?;
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(bundle.iter().cloned());
        // Without a bundle no server is trusted.
        let ordinary = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        Ok(Self { bundle, ordinary: ordinary.build().ok(), provider })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.bundle.iter().any(|trusted| trusted.as_ref() == certificate.as_ref()) {
            verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        let Some(ordinary) = &self.ordinary else { return Err(CertificateError::UnknownIssuer.into()) };
        ordinary.verify_server_cert(certificate, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Why a certificate is not trusted, as Go words it.
fn distrust(error: &std::io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let why = match inner {
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "certificate signed by unknown authority".to_owned()
        }
        Some(rustls::Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        )) => "certificate has expired or is not yet valid".to_owned(),
        Some(rustls::Error::InvalidCertificate(why)) => why.to_string(),
        _ => return error.to_string(),
    };
    format!("tls: failed to verify certificate: x509: {why}")
}
