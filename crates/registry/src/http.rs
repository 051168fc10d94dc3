//! Bounded GET requests to chart repositories.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::header;
use reqwest::redirect;

use crate::{Error, urls};

const USER_AGENT: &str = concat!("steersman/", env!("CARGO_PKG_VERSION"));

/// How many redirects are followed, as many as Go's client does.
const MAX_REDIRECTS: usize = 10;

/// What rustls says of an answer that is not TLS.
pub(crate) const NOT_TLS: &str = "InvalidContentType";

/// How to speak to a repository or registry.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Access {
    /// Name for basic authentication. Default: none; it takes both a name and a password.
    pub username: Option<String>,
    /// Password for basic authentication. Default: none.
    pub password: Option<String>,
    /// PEM file with the only authorities to trust. Default: the system's.
    pub ca_file: Option<PathBuf>,
    /// PEM file with the client's certificate. Default: none; it takes both a certificate and a key.
    pub cert_file: Option<PathBuf>,
    /// PEM file with the client certificate's key. Default: none.
    pub key_file: Option<PathBuf>,
    /// Accept any server certificate. Default: no.
    pub insecure_skip_tls_verify: bool,
    /// Speak to OCI registries without TLS. Default: no.
    pub plain_http: bool,
    /// Send the name and password to whatever host the chart is on. Default: only to the repository's own.
    pub pass_credentials: bool,
}

impl Access {
    /// Name and password, if both are there: Helm takes one without the other for none.
    pub(crate) fn basic(&self) -> Option<(&str, &str)> {
        let given = |value: &'_ Option<String>| value.as_deref().is_some_and(|value| !value.is_empty());
        if !given(&self.username) || !given(&self.password) {
            return None;
        }
        self.username.as_deref().zip(self.password.as_deref())
    }

    /// The client's certificate and key, if both are there.
    pub(crate) fn client_certificate(&self) -> Option<(&Path, &Path)> {
        let given =
            |path: &'_ Option<PathBuf>| path.as_deref().is_some_and(|path| !path.as_os_str().is_empty());
        if !given(&self.cert_file) || !given(&self.key_file) {
            return None;
        }
        self.cert_file.as_deref().zip(self.key_file.as_deref())
    }

    /// The PEM text of the authorities to trust instead of the system's.
    pub(crate) fn authorities(&self) -> Result<Option<Vec<u8>>, Error> {
        let Some(path) = self.ca_file.as_deref().filter(|path| !path.as_os_str().is_empty()) else {
            return Ok(None);
        };
        fs::read(path).map(Some).map_err(|_| Error::Tls(format!("can't read CA file: {}", path.display())))
    }
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access")
            .field("username", &self.username)
            .field("password", &self.password.as_ref().map(|_| "<redacted>"))
            .field("ca_file", &self.ca_file)
            .field("cert_file", &self.cert_file)
            .field("key_file", &self.key_file)
            .field("insecure_skip_tls_verify", &self.insecure_skip_tls_verify)
            .field("plain_http", &self.plain_http)
            .field("pass_credentials", &self.pass_credentials)
            .finish()
    }
}

/// The most that is taken from the network.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of an index. Default: 256 MiB; the largest public ones have some 30 MiB.
    pub index: u64,
    /// Bytes of a packed chart, values file or provenance file. Default: 100 MiB, what Helm lets a chart unpack to.
    pub chart: u64,
    /// Time to connect. Default: 30 s.
    pub connect: Duration,
    /// Time for one request, its body included. Default: 120 s, as in Helm.
    pub request: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            index: 256 << 20,
            chart: 100 << 20,
            connect: Duration::from_secs(30),
            request: Duration::from_secs(120),
        }
    }
}

/// GETs `url`. `origin` is the URL that `access` was given for: its name and password go only there.
pub(crate) async fn get(
    url: &str,
    origin: &str,
    access: &Access,
    limits: &Limits,
    max_bytes: u64,
) -> Result<Vec<u8>, Error> {
    let parsed = urls::parse(url)?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(Error::UnsupportedScheme(parsed.scheme().to_owned()));
    }
    let mut request = client(access, limits, Redirects::Follow)?.get(parsed).header(header::ACCEPT, "*/*");
    if let Some((name, password)) = access.basic()
        && (access.pass_credentials || urls::same_service(url, origin))
    {
        request = request.basic_auth(name, Some(password));
    }

    let response = request.send().await.map_err(|error| transport(url, &error))?;
    if response.status() != reqwest::StatusCode::OK {
        return Err(Error::Status { url: url.to_owned(), status: response.status().to_string() });
    }
    read_body(response, url, max_bytes).await
}

/// Reads an answer to its end, which must come within `max_bytes`.
pub(crate) async fn read_body(
    mut response: reqwest::Response,
    url: &str,
    max_bytes: u64,
) -> Result<Vec<u8>, Error> {
    let too_large = || Error::TooLarge { url: url.to_owned(), limit: max_bytes };
    let announced = response.content_length().unwrap_or(0);
    if announced > max_bytes {
        return Err(too_large());
    }
    // A server may announce what it does not send: what it announces is only a hint within reason.
    let mut body = Vec::with_capacity(usize::try_from(announced.min(8 << 20)).unwrap_or(0));
    while let Some(chunk) = response.chunk().await.map_err(|error| transport(url, &error))? {
        if (body.len() + chunk.len()) as u64 > max_bytes {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

pub(crate) fn transport(url: &str, error: &reqwest::Error) -> Error {
    Error::Transport { url: url.to_owned(), message: root_cause(error) }
}

/// What a client does about redirects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Redirects {
    /// Follows them, without the credentials where they lead to another host, but not from TLS to plain HTTP.
    Follow,
    /// Takes them for the answer.
    Refuse,
}

impl Redirects {
    fn policy(self) -> redirect::Policy {
        match self {
            Self::Refuse => redirect::Policy::none(),
            Self::Follow => redirect::Policy::custom(|attempt| {
                let came_by_tls = attempt.previous().last().is_some_and(|url| url.scheme() == "https");
                if came_by_tls && attempt.url().scheme() != "https" {
                    return attempt.error("refused to follow a redirect from https to http");
                }
                if attempt.previous().len() > MAX_REDIRECTS {
                    return attempt.error(format!("stopped after {MAX_REDIRECTS} redirects"));
                }
                attempt.follow()
            }),
        }
    }
}

/// A client that trusts, and presents itself, as `access` says.
pub(crate) fn client(
    access: &Access,
    limits: &Limits,
    redirects: Redirects,
) -> Result<reqwest::Client, Error> {
    use_ring();
    let mut builder = reqwest::Client::builder()
        .user_agent(USER_AGENT)
        .redirect(redirects.policy())
        .connect_timeout(limits.connect)
        .timeout(limits.request)
        .tls_danger_accept_invalid_certs(access.insecure_skip_tls_verify);
    if let Some(pem) = access.authorities()? {
        let invalid =
            || Error::Tls(format!("failed to append certificates from file: {}", display(&access.ca_file)));
        let certificates = reqwest::Certificate::from_pem_bundle(&pem).map_err(|_| invalid())?;
        if certificates.is_empty() {
            return Err(invalid());
        }
        builder = builder.tls_certs_only(certificates);
    }
    if let Some((certificate, key)) = access.client_certificate() {
        let invalid = |reason: String| {
            Error::Tls(format!(
                "can't load key pair from cert {} and key {}: {reason}",
                certificate.display(),
                key.display()
            ))
        };
        let mut pem = fs::read(certificate).map_err(|error| invalid(error.to_string()))?;
        pem.push(b'\n');
        pem.extend(fs::read(key).map_err(|error| invalid(error.to_string()))?);
        let identity = reqwest::Identity::from_pem(&pem).map_err(|error| invalid(root_cause(&error)))?;
        builder = builder.identity(identity);
    }
    builder.build().map_err(|error| Error::Tls(root_cause(&error)))
}

/// Makes ring the cryptography of every TLS connection in the process, unless the program has chosen another.
fn use_ring() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The innermost cause: the outer layers only repeat that a request failed.
fn root_cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "timed out".into();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

fn display(path: &Option<PathBuf>) -> String {
    path.as_deref().map(|path| path.display().to_string()).unwrap_or_default()
}
