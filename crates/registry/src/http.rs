//! Bounded GET requests to chart repositories.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::header;
use reqwest::redirect;

use crate::{Error, urls};

const USER_AGENT: &str = concat!("steersman/", env!("CARGO_PKG_VERSION"));

/// The maximum number of redirects, the same as Go's client.
const MAX_REDIRECTS: usize = 10;

/// rustls' error for a response that is not TLS.
pub(crate) const NOT_TLS: &str = "InvalidContentType";

/// Credentials and TLS options for a repository or registry.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Access {
    /// Username for basic authentication. Default: none. Only used together with a password.
    pub username: Option<String>,
    /// Password for basic authentication. Default: none.
    pub password: Option<String>,
    /// PEM file with the only certificate authorities to trust. Default: the system's.
    pub ca_file: Option<PathBuf>,
    /// PEM file with the client certificate. Default: none. Only used together with a key.
    pub cert_file: Option<PathBuf>,
    /// PEM file with the client certificate's key. Default: none.
    pub key_file: Option<PathBuf>,
    /// Accept any server certificate. Default: no.
    pub insecure_skip_tls_verify: bool,
    /// Use plain HTTP for OCI registries. Default: no.
    pub plain_http: bool,
    /// Send the username and password to any host that the chart is on. Default: only to the repository's own.
    pub pass_credentials: bool,
}

impl Access {
    /// Returns username and password; None unless both are set, as in Helm.
    pub(crate) fn basic(&self) -> Option<(&str, &str)> {
        let given = |value: &'_ Option<String>| value.as_deref().is_some_and(|value| !value.is_empty());
        if !given(&self.username) || !given(&self.password) {
            return None;
        }
        self.username.as_deref().zip(self.password.as_deref())
    }

    /// Returns the client certificate and key, if both are set.
    pub(crate) fn client_certificate(&self) -> Option<(&Path, &Path)> {
        let given =
            |path: &'_ Option<PathBuf>| path.as_deref().is_some_and(|path| !path.as_os_str().is_empty());
        if !given(&self.cert_file) || !given(&self.key_file) {
            return None;
        }
        self.cert_file.as_deref().zip(self.key_file.as_deref())
    }

    /// Reads the PEM of the certificate authorities to trust instead of the system's.
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

/// Limits on network transfers.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum size of an index in bytes. Default: 256 MiB; the largest public ones have some 30 MiB.
    pub index: u64,
    /// Maximum size of a packed chart, values file or provenance file in bytes. Default: 100 MiB, Helm's limit for
    /// an unpacked chart.
    pub chart: u64,
    /// Connect timeout. Default: 30 s.
    pub connect: Duration,
    /// Timeout of a request, including the response body. Default: 120 s, as in Helm.
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

/// Sends a GET request for `url`. The username and password of `access` are sent to `origin`'s host only.
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

/// Reads a response body of at most `max_bytes`.
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
    // Content-Length is only a hint, so the allocation that it causes is capped.
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

/// The redirect policy of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Redirects {
    /// Follows redirects, without credentials to another host, and never from TLS to plain HTTP.
    Follow,
    /// Returns the redirect as the response.
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

/// Builds a client with the TLS options of `access`.
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

/// Installs ring as the process' crypto provider, unless the program has already chosen one.
fn use_ring() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Returns the innermost cause: the outer errors only repeat that a request failed.
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
