//! `etcd`: hosts the embedded clusters of the servers that connect to it, in memory.

use std::collections::HashMap;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::{Arc, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use serde_json::json;
use steersman_cluster::{Cluster, Served};
use steersman_listener::{Listener, RequestBody};
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use super::flags::Flags;
use super::link::{MARK, Opened, Registration, SERVERS};
use super::log;
use crate::commands::interruption;

/// The reported version of etcd.
const VERSION: &str = "3.6.8";
const CLUSTER_VERSION: &str = "3.6.0";
/// Maximum size of a registration, with a server's certificates and tokens.
const MAX_REGISTRATION: usize = 4 << 20;

const HELP: &str = "\
Usage:
  etcd [flags]
    Answers /health and /version, and holds the objects of the API servers of steer envtest in memory.

Flags:
  --listen-client-urls 'http://localhost:2379'
    List of URLs to listen on for client traffic. Other flags of etcd are accepted and ignored.";

pub(super) fn run(words: &[String]) -> Result<(), String> {
    if words.iter().any(|word| matches!(word.as_str(), "--version" | "-version")) {
        println!("etcd Version: {VERSION}\nsteer envtest {}", env!("CARGO_PKG_VERSION"));
        return Ok(());
    }
    if words.iter().any(|word| matches!(word.as_str(), "--help" | "-help" | "-h")) {
        println!("{HELP}");
        return Ok(());
    }
    let flags = parse(words);
    let urls = flags.list("listen-client-urls");
    let addresses: Vec<String> = if urls.is_empty() {
        vec!["localhost:2379".to_owned()]
    } else {
        urls.iter().map(|url| address(url)).collect::<Result<_, _>>()?
    };
    let runtime = crate::runtime::multi_thread().map_err(|failure| failure.message().to_owned())?;
    let result = runtime.block_on(serve(&addresses));
    // Open connections must not delay the exit.
    runtime.shutdown_background();
    result
}

/// Parses etcd's flags like Go's package flag, which accepts one dash as well as two. All are accepted.
fn parse(words: &[String]) -> Flags {
    let mut line = Vec::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let Some(name) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else { continue };
        let next_is_value = words.peek().is_some_and(|next| !next.starts_with('-'));
        line.push(match (name.contains('='), next_is_value) {
            (true, _) => format!("--{name}"),
            (false, true) => format!("--{name}={}", words.next().cloned().unwrap_or_default()),
            (false, false) => format!("--{name}=true"),
        });
    }
    // Every flag is known and has a value here.
    Flags::parse("etcd", &line, |_| Some("string")).unwrap_or_default()
}

fn address(url: &str) -> Result<String, String> {
    let rest = url.strip_prefix("http://").ok_or_else(|| {
        format!("--listen-client-urls={url}: the etcd of steer envtest speaks plain http only, as in http://127.0.0.1:2379")
    })?;
    Ok(rest.trim_end_matches('/').to_owned())
}

async fn serve(addresses: &[String]) -> Result<(), String> {
    let interruption = interruption().map_err(|error| format!("cannot wait for signals: {error}"))?;
    let state = Arc::new(State::default());
    let mut tasks = Vec::new();
    for address in addresses {
        let failed = |error: std::io::Error| format!("listen tcp {address}: {error}");
        let socket = TcpListener::bind(address.as_str()).await.map_err(failed)?;
        let local = socket.local_addr().map_err(failed)?;
        log("I", &format_args!("serving client traffic on {local}, objects are kept in memory"));
        let state = Arc::clone(&state);
        tasks.push(tokio::spawn(Listener::new(socket).serve(move |_| {
            let state = Arc::clone(&state);
            move |request| {
                let state = Arc::clone(&state);
                async move { state.answer(request).await }
            }
        })));
    }
    interruption.await;
    Ok(())
}

#[derive(Default)]
struct State {
    /// Clusters, by the prefix of their servers.
    clusters: Mutex<HashMap<String, Cluster>>,
    /// Open ports, by id.
    ports: std::sync::Mutex<Ports>,
}

#[derive(Default)]
struct Ports {
    last: u64,
    open: HashMap<u64, Served>,
}

fn json_answer(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}

fn refuse(status: StatusCode, why: &str) -> Response<Full<Bytes>> {
    json_answer(status, json!({"error": why}).to_string())
}

impl State {
    fn ports(&self) -> MutexGuard<'_, Ports> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(self: &Arc<Self>, request: Request<RequestBody>) -> Response<Full<Bytes>> {
        let path = request.uri().path().to_owned();
        match (request.method(), path.as_str()) {
            (&Method::GET, "/health") => {
                json_answer(StatusCode::OK, json!({"health": "true", "reason": ""}).to_string())
            }
            (&Method::GET, "/version") => json_answer(
                StatusCode::OK,
                json!({
                    "etcdserver": VERSION,
                    "etcdcluster": CLUSTER_VERSION,
                    "storage": CLUSTER_VERSION,
                    MARK: env!("CARGO_PKG_VERSION"),
                })
                .to_string(),
            ),
            (&Method::POST, SERVERS) => self.open(request).await,
            (method, path) => match (method, port_number(path)) {
                (&Method::GET, Some(id)) => self.hold(id).await,
                (&Method::DELETE, Some(id)) => self.close(id).await,
                _ => refuse(StatusCode::NOT_FOUND, "not found"),
            },
        }
    }

    /// Opens a port for a request with a JSON body.
    ///
    /// Web pages cannot send JSON cross-origin without a CORS preflight, which is not answered.
    async fn open(&self, request: Request<RequestBody>) -> Response<Full<Bytes>> {
        let is_json =
            request.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
        if !is_json {
            return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json");
        }
        let Ok(body) = Limited::new(request.into_body(), MAX_REGISTRATION).collect().await else {
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, "the registration is too large");
        };
        let registration: Registration = match serde_json::from_slice(&body.to_bytes()) {
            Ok(registration) => registration,
            Err(error) => return refuse(StatusCode::BAD_REQUEST, &format!("invalid registration: {error}")),
        };
        match self.register(&registration).await {
            Ok(opened) => {
                let text = serde_json::to_string(&opened).unwrap_or_default();
                json_answer(StatusCode::OK, text)
            }
            Err(error) => refuse(StatusCode::CONFLICT, &error.to_string()),
        }
    }

    async fn register(&self, registration: &Registration) -> Result<Opened, steersman_cluster::Error> {
        let mut clusters = self.clusters.lock().await;
        let cluster = match clusters.get(&registration.prefix) {
            Some(cluster) => cluster.clone(),
            None => {
                let cluster = Cluster::builder().workloads(registration.workloads).start().await?;
                clusters.insert(registration.prefix.clone(), cluster.clone());
                cluster
            }
        };
        drop(clusters);
        cluster.server().configure(registration.settings());
        for token in &registration.tokens {
            cluster.server().add_token(token.token.clone(), token.user());
        }
        let proxy = registration.proxy_certificate.as_ref();
        cluster.set_proxy_certificate(proxy.map(|it| (it.certificates.as_str(), it.key.as_str())))?;
        let served = cluster.serve(&registration.serving()).await?;
        let address: SocketAddr = served.address();
        let mut ports = self.ports();
        ports.last += 1;
        let id = ports.last;
        ports.open.insert(id, served);
        Ok(Opened { id, address })
    }

    /// Never responds: once the waiting server disconnects, its port is closed.
    async fn hold(self: &Arc<Self>, id: u64) -> Response<Full<Bytes>> {
        let _held = ConnectedPort { state: Arc::clone(self), id };
        pending().await
    }

    /// Closes a port, which is free once this responds.
    async fn close(&self, id: u64) -> Response<Full<Bytes>> {
        let served = self.ports().open.remove(&id);
        match served {
            Some(served) => {
                served.close().await;
                json_answer(StatusCode::OK, json!({}).to_string())
            }
            None => refuse(StatusCode::NOT_FOUND, "no such server"),
        }
    }
}

/// Parses the id of a port from a path.
fn port_number(path: &str) -> Option<u64> {
    path.strip_prefix(SERVERS)?.strip_prefix('/')?.parse().ok()
}

/// A port that is closed on drop, when its server disconnects.
struct ConnectedPort {
    state: Arc<State>,
    id: u64,
}

impl Drop for ConnectedPort {
    fn drop(&mut self) {
        self.state.ports().open.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_one_dash_or_two_and_values_either_way() {
        let words =
            ["-data-dir", "/tmp/x", "--unsafe-no-fsync", "--listen-client-urls=http://a:1,http://b:2"];
        let flags = parse(&words.map(str::to_owned));
        assert_eq!(flags.list("listen-client-urls"), ["http://a:1", "http://b:2"]);
        assert_eq!((flags.get("data-dir"), flags.get("unsafe-no-fsync")), (Some("/tmp/x"), Some("true")));
        assert_eq!(address("http://127.0.0.1:1/").unwrap(), "127.0.0.1:1");
        assert!(address("https://127.0.0.1:1").unwrap_err().contains("plain http"));
    }
}
