//! TLS connections to servers outside the cluster: webhooks and other API servers.

use std::{io, sync::Arc, time::Duration};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
    server::ParsedCertificate,
};
use tokio::{
    net::{TcpStream, ToSocketAddrs},
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::error::Error;

/// Timeout for opening a connection: the default of Go's transport.
const DIAL_TIMEOUT: Duration = Duration::from_secs(30);

/// A client certificate and its key.
#[derive(Debug)]
pub(crate) struct ClientCertificate {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl ClientCertificate {
    /// Parses a certificate chain and a key from PEM.
    pub(crate) fn from_pem(certificates: &str, key: &str) -> Result<Self, Error> {
        let malformed = |error: rustls::pki_types::pem::Error| {
            Error::from(rustls::Error::General(format!("the client certificate: {error}")))
        };
        let chain = CertificateDer::pem_slice_iter(certificates.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(malformed)?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(malformed)?;
        Ok(Self { chain, key })
    }
}

/// The expected identity of a server, and the client's own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TlsPeer<'a> {
    /// The name that the server's certificate must be valid for.
    pub(crate) name: &'a str,
    /// The authorities that the server's certificate must be signed by, in PEM.
    pub(crate) ca_bundle: &'a [u8],
    /// Whether any certificate is accepted.
    pub(crate) insecure: bool,
    /// The client certificate to present.
    pub(crate) identity: Option<&'a ClientCertificate>,
}

/// Opens a connection to `address`, which error messages call `shown`.
///
/// # Errors
/// Fails with Go's wording of the reason.
pub(crate) async fn dial(address: impl ToSocketAddrs, shown: &str) -> Result<TcpStream, String> {
    let why = match timeout(DIAL_TIMEOUT, TcpStream::connect(address)).await {
        Ok(Ok(stream)) => {
            // Don't delay small messages. A failure to set this is harmless.
            let _ = stream.set_nodelay(true);
            return Ok(stream);
        }
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            "connect: connection refused".to_owned()
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => "i/o timeout".to_owned(),
    };
    Err(format!("dial tcp {shown}: {why}"))
}

/// Starts TLS on a connection, to be used with HTTP/1.1.
///
/// # Errors
/// Fails with Go's wording of why the server is not trusted.
pub(crate) async fn secure(stream: TcpStream, peer: TlsPeer<'_>) -> Result<TlsStream<TcpStream>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Verifier::new(peer.ca_bundle, peer.insecure, Arc::clone(&provider))?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match peer.identity {
        Some(identity) => config
            .with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())
            .map_err(|error| error.to_string())?,
        None => config.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = ServerName::try_from(peer.name.to_owned()).map_err(|error| error.to_string())?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| distrust(&error))
}

/// Verifies servers by a CA bundle, and also accepts a server certificate that is in the bundle.
///
/// Self-signed certificates are common among webhooks. Go accepts them, whereas rustls' verifier does not accept a CA
/// certificate as a server's.
#[derive(Debug)]
struct Verifier {
    bundle: Vec<CertificateDer<'static>>,
    insecure: bool,
    ordinary: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn new(ca_bundle: &[u8], insecure: bool, provider: Arc<CryptoProvider>) -> Result<Self, String> {
        let bundle: Vec<_> = CertificateDer::pem_slice_iter(ca_bundle)
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?;
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(bundle.iter().cloned());
        // Without a bundle no server is trusted.
        let ordinary = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        Ok(Self { bundle, insecure, ordinary: ordinary.build().ok(), provider })
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
        if self.insecure {
            return Ok(ServerCertVerified::assertion());
        }
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

/// Returns Go's wording of why a certificate is not trusted.
fn distrust(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let why = match inner {
        // An authority with the same name but another key is a different one.
        Some(rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        )) => "certificate signed by unknown authority".to_owned(),
        Some(rustls::Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        )) => "certificate has expired or is not yet valid".to_owned(),
        Some(rustls::Error::InvalidCertificate(why)) => why.to_string(),
        _ => return error.to_string(),
    };
    format!("tls: failed to verify certificate: x509: {why}")
}
