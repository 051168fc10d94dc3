//! Test servers: a chart repository and an OCI registry, in this process, on real sockets.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use steersman_registry::{Fetcher, Limits, Paths};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub fn sha256(data: &[u8]) -> String {
    Sha256::digest(data).iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

pub fn basic(name: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
}

/// A directory with Helm's and Docker's files, and a fetcher that uses no others.
pub struct Home {
    pub directory: tempfile::TempDir,
}

impl Home {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub fn paths(&self) -> Paths {
        let root = self.directory.path().to_owned();
        Paths::from_lookup(move |name| (name == "HOME").then(|| root.clone().into_os_string()))
    }

    pub fn write(&self, path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn fetcher(&self) -> Fetcher {
        self.fetcher_limited(Limits::default())
    }

    pub fn fetcher_limited(&self, limits: Limits) -> Fetcher {
        Fetcher::new(self.paths()).with_limits(limits)
    }
}

/// The repository's response for a path.
#[derive(Clone)]
pub enum Page {
    Body(Vec<u8>),
    Redirect(String),
}

/// A path and the `Authorization` header that came with it.
pub type Seen = (String, Option<String>);

/// A chart repository.
#[derive(Clone, Default)]
pub struct Repository {
    pub pages: Arc<Mutex<BTreeMap<String, Page>>>,
    /// The `Authorization` header that requests must have.
    pub required: Option<String>,
    /// Every request.
    pub seen: Arc<Mutex<Vec<Seen>>>,
}

impl Repository {
    pub fn put(&self, path: &str, body: impl Into<Vec<u8>>) {
        self.pages.lock().unwrap().insert(path.into(), Page::Body(body.into()));
    }

    pub fn redirect(&self, path: &str, target: impl Into<String>) {
        self.pages.lock().unwrap().insert(path.into(), Page::Redirect(target.into()));
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Adds an index with one chart whose file is at `url`.
    pub fn put_index(&self, chart: &str, version: &str, url: &str, digest: Option<&str>) {
        let digest = digest.map(|digest| format!("    digest: {digest}\n")).unwrap_or_default();
        let index = format!(
            "apiVersion: v1\nentries:\n  {chart}:\n  - name: {chart}\n    version: {version}\n{digest}    urls: [{url:?}]\n"
        );
        self.put("/index.yaml", index);
    }

    pub fn router(&self) -> Router {
        Router::new().fallback(Self::answer).with_state(self.clone())
    }

    /// Starts serving and returns the URL.
    pub async fn start(&self) -> String {
        format!("http://{}", serve(self.router()).await)
    }

    async fn answer(State(this): State<Self>, request: Request) -> Response {
        let path = request.uri().path().to_owned();
        let authorization = text(request.headers(), header::AUTHORIZATION);
        this.seen.lock().unwrap().push((path.clone(), authorization.clone()));
        if this.required.is_some() && this.required != authorization {
            return StatusCode::UNAUTHORIZED.into_response();
        }
        match this.pages.lock().unwrap().get(&path).cloned() {
            Some(Page::Body(body)) => body.into_response(),
            Some(Page::Redirect(target)) => (StatusCode::FOUND, [(header::LOCATION, target)]).into_response(),
            None => StatusCode::NOT_FOUND.into_response(),
        }
    }
}

/// The authentication that a registry requires.
#[derive(Clone, Default)]
pub enum Login {
    #[default]
    Open,
    Basic(String, String),
    /// Issues tokens for a username and password, or for an identity token.
    Token {
        name: String,
        password: String,
        identity: String,
    },
}

/// Media type and content, by repository and tag or digest.
pub type Manifests = BTreeMap<(String, String), (String, Vec<u8>)>;

/// The pull half of the OCI distribution API.
#[derive(Clone, Default)]
pub struct OciServer {
    pub login: Login,
    pub manifests: Arc<Mutex<Manifests>>,
    pub blobs: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    pub seen: Arc<Mutex<Vec<String>>>,
    pub host: Arc<Mutex<String>>,
}

pub const CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
pub const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
pub const PROVENANCE: &str = "application/vnd.cncf.helm.chart.provenance.v1.prov";
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const TOKEN: &str = "Bearer a-token";

impl OciServer {
    /// Starts serving and returns the host.
    pub async fn start(&self) -> String {
        let host = serve(self.router()).await.to_string();
        *self.host.lock().unwrap() = host.clone();
        host
    }

    pub fn router(&self) -> Router {
        Router::new().fallback(Self::answer).with_state(self.clone())
    }

    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    pub fn blob(&self, kind: &str, data: &[u8]) -> serde_json::Value {
        let digest = format!("sha256:{}", sha256(data));
        self.blobs.lock().unwrap().insert(digest.clone(), data.to_vec());
        serde_json::json!({"mediaType": kind, "digest": digest, "size": data.len()})
    }

    /// Stores a manifest under its digest and a tag, and returns the digest.
    pub fn manifest(&self, repository: &str, tag: &str, kind: &str, manifest: &serde_json::Value) -> String {
        let data = serde_json::to_vec(manifest).unwrap();
        let digest = format!("sha256:{}", sha256(&data));
        let mut manifests = self.manifests.lock().unwrap();
        for name in [tag, &digest] {
            manifests.insert((repository.into(), name.into()), (kind.into(), data.clone()));
        }
        digest
    }

    /// Stores a chart and returns its manifest's digest.
    pub fn push(&self, repository: &str, tag: &str, chart: &[u8], provenance: Option<&[u8]>) -> String {
        let mut layers = vec![self.blob(CHART, chart)];
        layers.extend(provenance.map(|provenance| self.blob(PROVENANCE, provenance)));
        let config = self.blob(CONFIG, b"{}");
        let manifest = serde_json::json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers});
        self.manifest(repository, tag, MANIFEST, &manifest)
    }

    async fn answer(State(this): State<Self>, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().to_owned();
        let query = parts.uri.query().unwrap_or_default().to_owned();
        this.seen.lock().unwrap().push(format!("{} {path}", parts.method));
        let authorization = text(&parts.headers, header::AUTHORIZATION);
        if path == "/token" {
            let body = axum::body::to_bytes(body, 1 << 16).await.unwrap();
            return this.sell_token(authorization.as_deref(), &body);
        }
        if let Some(refusal) = this.refuse(authorization.as_deref()) {
            return refusal;
        }
        let Some(rest) = path.strip_prefix("/v2/") else { return StatusCode::NOT_FOUND.into_response() };
        if rest.is_empty() {
            return "{}".into_response();
        }
        if let Some(repository) = rest.strip_suffix("/tags/list") {
            return this.tags(repository, &query);
        }
        if let Some((_, digest)) = rest.split_once("/blobs/") {
            return match this.blobs.lock().unwrap().get(digest) {
                Some(data) => data.clone().into_response(),
                None => unknown("BLOB_UNKNOWN"),
            };
        }
        let Some((repository, name)) = rest.split_once("/manifests/") else {
            return StatusCode::NOT_FOUND.into_response();
        };
        match this.manifests.lock().unwrap().get(&(repository.into(), name.into())) {
            Some((kind, data)) => {
                let digest = format!("sha256:{}", sha256(data));
                let headers = [("content-type", kind.clone()), ("docker-content-digest", digest)];
                (headers, data.clone()).into_response()
            }
            None => unknown("MANIFEST_UNKNOWN"),
        }
    }

    fn refuse(&self, authorization: Option<&str>) -> Option<Response> {
        let challenge = match &self.login {
            Login::Open => return None,
            Login::Basic(name, password) if authorization == Some(&basic(name, password)) => return None,
            Login::Basic(..) => "Basic realm=\"test\"".to_owned(),
            Login::Token { .. } if authorization == Some(TOKEN) => return None,
            Login::Token { .. } => {
                format!("Bearer realm=\"http://{}/token\",service=\"test\"", self.host.lock().unwrap())
            }
        };
        let errors = r#"{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}"#;
        Some((StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)], errors).into_response())
    }

    fn sell_token(&self, authorization: Option<&str>, body: &Bytes) -> Response {
        let Login::Token { name, password, identity } = &self.login else {
            return StatusCode::NOT_FOUND.into_response();
        };
        let form = String::from_utf8_lossy(body);
        let by_identity = form.contains(&format!("refresh_token={identity}"))
            && form.contains("grant_type=refresh_token")
            && form.contains("scope=repository%3A");
        if authorization == Some(&basic(name, password)) || by_identity {
            return r#"{"token":"a-token","access_token":"a-token"}"#.into_response();
        }
        (StatusCode::UNAUTHORIZED, "wrong name or password").into_response()
    }

    fn tags(&self, repository: &str, query: &str) -> Response {
        let parameter = |name: &str| {
            query
                .split('&')
                .filter_map(|pair| pair.split_once('='))
                .find(|(key, _)| *key == name)
                .map(|p| p.1)
        };
        let last = parameter("last").unwrap_or_default();
        let count = parameter("n").and_then(|n| n.parse().ok()).unwrap_or(usize::MAX);
        let manifests = self.manifests.lock().unwrap();
        let tags = manifests.keys().filter(|(held, name)| held == repository && !name.starts_with("sha256:"));
        let mut tags: Vec<_> = tags.map(|(_, tag)| tag.as_str()).collect();
        if tags.is_empty() {
            return unknown("NAME_UNKNOWN");
        }
        tags.sort_unstable();
        let page: Vec<_> = tags.into_iter().filter(|tag| *tag > last).take(count).collect();
        serde_json::json!({"name": repository, "tags": page}).to_string().into_response()
    }
}

fn unknown(code: &str) -> Response {
    let errors = serde_json::json!({"errors": [{"code": code, "message": "unknown"}]});
    (StatusCode::NOT_FOUND, errors.to_string()).into_response()
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<String> {
    headers.get(name).map(|value| value.to_str().unwrap().to_owned())
}

pub async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}

/// Serves the same bytes in response to every request, and closes the connection.
pub async fn raw(answer: &'static [u8]) -> SocketAddr {
    raw_with(move |mut stream| async move {
        let _ = stream.write_all(answer).await;
    })
    .await
}

/// Serves an endless response.
pub async fn endless() -> SocketAddr {
    raw_with(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        while stream.write_all(&[b' '; 4096]).await.is_ok() {}
    })
    .await
}

async fn raw_with<F: Future<Output = ()> + Send + 'static>(
    answer: impl Fn(TcpStream) -> F + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            tokio::spawn(answer(stream));
        }
    });
    address
}

/// A certificate authority, a server certificate for 127.0.0.1 and a client certificate, as PEM files.
pub struct Certificates {
    pub directory: tempfile::TempDir,
    server: Arc<rustls::ServerConfig>,
}

impl Certificates {
    pub fn new(client_required: bool) -> Self {
        use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
        let _ = rustls::crypto::ring::default_provider().install_default();
        let authority_key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::new(vec![]).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_certificate = authority.self_signed(&authority_key).unwrap();
        let issuer = Issuer::new(authority, authority_key);
        let issue = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let parameters = CertificateParams::new(vec![name.to_owned()]).unwrap();
            (parameters.signed_by(&key, &issuer).unwrap(), key)
        };

        let directory = tempfile::tempdir().unwrap();
        let (client, client_key) = issue("client");
        std::fs::write(directory.path().join("ca.pem"), authority_certificate.pem()).unwrap();
        std::fs::write(directory.path().join("client.pem"), client.pem()).unwrap();
        std::fs::write(directory.path().join("client.key"), client_key.serialize_pem()).unwrap();

        let (server, server_key) = issue("127.0.0.1");
        let builder = rustls::ServerConfig::builder();
        let builder = if client_required {
            let mut roots = rustls::RootCertStore::empty();
            roots.add(authority_certificate.der().clone()).unwrap();
            let verifier = rustls::server::WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        let key = rustls::pki_types::PrivateKeyDer::try_from(server_key.serialize_der()).unwrap();
        let server = builder.with_single_cert(vec![server.der().clone()], key).unwrap();
        Self { directory, server: Arc::new(server) }
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    /// Serves a router with TLS and returns the host.
    pub async fn serve(&self, router: Router) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(self.server.clone());
        tokio::spawn(async move { axum::serve(TlsListener { listener, acceptor }, router).await.unwrap() });
        address
    }
}

struct TlsListener {
    listener: TcpListener,
    acceptor: tokio_rustls::TlsAcceptor,
}

impl axum::serve::Listener for TlsListener {
    type Io = tokio_rustls::server::TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok((stream, address)) = self.listener.accept().await else { continue };
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
