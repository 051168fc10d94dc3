//! A gateway over a cluster, and a plain HTTP client. The cluster is an embedded one with RBAC, or that of
//! `STEERSMAN_TEST_KUBECONFIG` (`make oracle-gateway`).

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use steersman_cluster::{Cluster, User};
use steersman_gateway::{Builder, Gateway};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;

pub(crate) const SHOPS: &str = "/v1/kinds/shops.example.com/namespaces/default/instances";
/// Has all permissions.
pub(crate) const ROOT: &str = "root-token";
/// May do everything with shops in the namespace default.
pub(crate) const EDITOR: &str = "editor-token";
/// May read shops in the namespace default.
pub(crate) const VIEWER: &str = "viewer-token";
/// Authenticated, without permissions.
pub(crate) const STRANGER: &str = "stranger-token";

/// The resources in which tests leave objects, owners first.
const LEFTOVERS: &[&str] = &[
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/apps/v1/namespaces/default/replicasets",
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/secrets",
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/events",
    "/apis/apps/v1/namespaces/default/controllerrevisions",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
];
/// Objects that the cluster itself creates there.
const KEPT: &[&str] = &["kube-root-ca.crt"];

/// The cluster behind the gateway.
pub(crate) enum Backend {
    Embedded(Box<Cluster>),
    /// A real cluster, which the tests use one at a time.
    Outside(Client),
}

pub(crate) struct Place {
    pub(crate) backend: Backend,
    pub(crate) gateway: Gateway,
    pub(crate) address: SocketAddr,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// Returns the JSON body after asserting the status.
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        if self.body.is_empty() { Value::Null } else { self.json() }
    }
}

pub(crate) fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "shops.example.com",
            "annotations": {"steersman.dev/actions": json!([
                {"name": "upgrade", "title": "Upgrade", "value": "spec.version", "confirm": "Pods restart."},
                {"name": "drain", "title": "Drain", "patch": {"spec": {"drain": true}}},
            ]).to_string()},
        },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Shop", "listKind": "ShopList", "plural": "shops", "singular": "shop"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
                    {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
                ],
                "schema": {"openAPIV3Schema": {
                    "type": "object", "description": "A shop",
                    "properties": {
                        "spec": {"type": "object", "properties": {
                            "replicas": {"type": "integer", "minimum": 0, "maximum": 10},
                            "version": {"type": "string", "enum": ["1", "2"]},
                            "paused": {"type": "boolean"}, "drain": {"type": "boolean"},
                            "password": {"type": "string", "format": "password"},
                        }},
                        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    },
                }},
            }],
        },
    })
}

pub(crate) fn shop(name: &str, replicas: i64) -> Value {
    json!({"metadata": {"name": name}, "spec": {"replicas": replicas}})
}

impl Place {
    pub(crate) async fn new() -> Self {
        Self::with(|builder| builder).await
    }

    pub(crate) async fn with(build: impl FnOnce(Builder) -> Builder) -> Self {
        let place = Self::bare(build).await;
        place.define_shops().await;
        place
    }

    /// Starts a gateway for a cluster without custom kinds.
    pub(crate) async fn bare(build: impl FnOnce(Builder) -> Builder) -> Self {
        let (backend, kubeconfig) = match std::env::var_os("STEERSMAN_TEST_KUBECONFIG") {
            Some(path) => Self::outside(Kubeconfig::read_from(path).unwrap()).await,
            None => Self::embedded().await,
        };
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let gateway = build(Gateway::builder(config)).build().unwrap();
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = socket.local_addr().unwrap();
        tokio::spawn(gateway.clone().serve(socket));
        Self { backend, gateway, address }
    }

    async fn embedded() -> (Backend, Kubeconfig) {
        let cluster = Cluster::builder().listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let cluster = cluster.record_access(true).start().await.unwrap();
        let server = cluster.server();
        server.add_token(ROOT, User::named("root", ["system:masters"]));
        for (token, name) in [(EDITOR, "editor"), (VIEWER, "viewer"), (STRANGER, "stranger")] {
            server.add_token(token, User::named(name, []));
        }
        let kubeconfig = Kubeconfig::from_yaml(&cluster.kubeconfig().unwrap()).unwrap();
        (Backend::Embedded(Box::new(cluster)), kubeconfig)
    }

    /// Cleans up a real cluster, which already accepts the tokens, after the previous test.
    async fn outside(kubeconfig: Kubeconfig) -> (Backend, Kubeconfig) {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig.clone(), &options).await.unwrap();
        let client = Client::try_from(config).unwrap();
        for path in LEFTOVERS {
            let all = || http::Request::get(*path).body(Vec::new()).unwrap();
            loop {
                let list: Value = client.request(all()).await.unwrap();
                let items = list["items"].as_array().unwrap().iter();
                let names: Vec<&str> = items
                    .filter_map(|item| item["metadata"]["name"].as_str())
                    .filter(|name| !KEPT.contains(name))
                    .collect();
                if names.is_empty() {
                    break;
                }
                for name in names {
                    let delete = http::Request::delete(format!("{path}/{name}?gracePeriodSeconds=0"));
                    let _ = client.request::<Value>(delete.body(Vec::new()).unwrap()).await;
                }
            }
        }
        (Backend::Outside(client), kubeconfig)
    }

    /// Returns a client with the administrator's credentials, bypassing the gateway.
    pub(crate) fn client(&self) -> Client {
        match &self.backend {
            Backend::Embedded(cluster) => cluster.client(),
            Backend::Outside(client) => client.clone(),
        }
    }

    /// Returns the embedded cluster; None, with a message, if the tests run on another one.
    pub(crate) fn cluster(&self) -> Option<&Cluster> {
        match &self.backend {
            Backend::Embedded(cluster) => Some(cluster),
            Backend::Outside(_) => {
                eprintln!("SKIPPED: what only the embedded cluster tells");
                None
            }
        }
    }

    async fn define_shops(&self) {
        self.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition()).await;
        for (name, verbs) in [("editor", json!(["*"])), ("viewer", json!(["get", "list", "watch"]))] {
            let role = json!({
                "metadata": {"name": name},
                "rules": [{"apiGroups": ["example.com"], "resources": ["shops"], "verbs": verbs}],
            });
            let binding = json!({
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
            });
            self.create("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", &role).await;
            self.create("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", &binding).await;
        }
        let shops = || http::Request::get("/apis/example.com/v1/shops").body(Vec::new()).unwrap();
        while self.client().request::<Value>(shops()).await.is_err() {
            tokio::task::yield_now().await;
        }
    }

    /// Creates an object in the cluster, bypassing the gateway.
    async fn create(&self, path: &str, object: &Value) {
        let request = http::Request::post(path).header("content-type", "application/json");
        let request = request.body(object.to_string().into_bytes()).unwrap();
        let _: Value = self.client().request(request).await.unwrap();
    }

    /// Sends a request verbatim, and reads the whole response.
    pub(crate) async fn raw(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut stream = self.open(method, path, headers, body).await;
        let (status, headers) = read_head(&mut stream).await;
        let find =
            |name: &str| headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        let mut body = Vec::new();
        if find("transfer-encoding").is_some() {
            while let Some(chunk) = read_chunk(&mut stream).await {
                body.extend(chunk);
            }
        } else if method != "HEAD" {
            let length = find("content-length").map_or(0, |length| length.parse().unwrap());
            body.resize(length, 0);
            stream.read_exact(&mut body).await.unwrap();
        }
        Answer { status, headers, body }
    }

    /// Sends a body that is already chunked, and reads the head of the response.
    pub(crate) async fn chunked(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut stream = self.open(method, path, headers, b"").await;
        let _ = stream.write_all(body).await;
        let (status, headers) = read_head(&mut stream).await;
        Answer { status, headers, body: Vec::new() }
    }

    async fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> BufReader<TcpStream> {
        let socket = TcpSocket::new_v4().unwrap();
        // A small buffer, so that little is held for a client that does not read.
        socket.set_recv_buffer_size(16 << 10).unwrap();
        let mut stream = socket.connect(self.address).await.unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.address);
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() {
            head += &format!("content-length: {}\r\n", body.len());
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
        // A server that refuses a body may close before all of it is sent.
        let _ = stream.write_all(body).await;
        BufReader::new(stream)
    }

    async fn send(&self, token: &str, method: &str, path: &str, kind: &str, body: &Value) -> Answer {
        let authorization = format!("Bearer {token}");
        let headers = [("authorization", authorization.as_str()), ("content-type", kind)];
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.raw(method, path, &headers, &body).await
    }

    pub(crate) async fn get(&self, token: &str, path: &str) -> Answer {
        self.send(token, "GET", path, "application/json", &Value::Null).await
    }

    pub(crate) async fn post(&self, token: &str, path: &str, body: &Value) -> Answer {
        self.send(token, "POST", path, "application/json", body).await
    }

    pub(crate) async fn put(&self, token: &str, path: &str, body: &Value) -> Answer {
        self.send(token, "PUT", path, "application/json", body).await
    }

    pub(crate) async fn patch(&self, token: &str, path: &str, body: &Value) -> Answer {
        self.send(token, "PATCH", path, "application/merge-patch+json", body).await
    }

    pub(crate) async fn delete(&self, token: &str, path: &str) -> Answer {
        self.send(token, "DELETE", path, "application/json", &Value::Null).await
    }

    /// Returns the number of watches of shops that a user has opened, if the cluster counts them.
    pub(crate) fn watches(&self, user: &str) -> Option<u64> {
        let accesses = self.cluster()?.accesses();
        let watches = accesses.iter().filter(|(access, _)| {
            access.user == user && access.verb == "watch" && access.resource == "shops"
        });
        Some(watches.map(|(_, count)| count).sum())
    }

    /// Returns the number of times that a user has read a shop, if the cluster counts them.
    pub(crate) fn reads(&self, user: &str) -> Option<u64> {
        let accesses = self.cluster()?.accesses();
        let reads = accesses
            .iter()
            .filter(|(access, _)| access.user == user && access.verb == "get" && access.resource == "shops");
        Some(reads.map(|(_, count)| count).sum())
    }

    /// Writes an object's status, as its operator would.
    pub(crate) async fn report(&self, name: &str, status: &Value) {
        let path = format!("/apis/example.com/v1/namespaces/default/shops/{name}/status");
        let patch = json!({"status": status}).to_string().into_bytes();
        let request = http::Request::patch(path)
            .header("content-type", "application/merge-patch+json")
            .body(patch)
            .unwrap();
        let _: Value = self.client().request(request).await.unwrap();
    }

    pub(crate) async fn events(&self, token: &str, path: &str, last: Option<&str>) -> Events {
        let authorization = format!("Bearer {token}");
        let mut headers = vec![("authorization", authorization.as_str())];
        headers.extend(last.map(|last| ("last-event-id", last)));
        self.events_with(path, &headers).await
    }

    pub(crate) async fn events_with(&self, path: &str, headers: &[(&str, &str)]) -> Events {
        let headers = [&[("accept", "text/event-stream")], headers].concat();
        let mut stream = self.open("GET", path, &headers, b"").await;
        let (status, headers) = read_head(&mut stream).await;
        assert_eq!(status, 200, "{headers:?}");
        Events { stream, buffer: String::new() }
    }
}

async fn read_head(stream: &mut BufReader<TcpStream>) -> (u16, Vec<(String, String)>) {
    let mut line = String::new();
    assert!(stream.read_line(&mut line).await.unwrap() > 0, "the server closed");
    (line.split(' ').nth(1).unwrap().parse().unwrap(), read_lines(stream).await)
}

/// Reads the headers of a request, after its request line.
async fn read_headers(stream: &mut BufReader<TcpStream>) -> Vec<(String, String)> {
    stream.read_line(&mut String::new()).await.unwrap();
    read_lines(stream).await
}

async fn read_lines(stream: &mut BufReader<TcpStream>) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).await.unwrap() > 0, "the other side closed");
        let Some((name, value)) = line.trim_end().split_once(':') else { return headers };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

async fn read_chunk(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut size = String::new();
    stream.read_line(&mut size).await.unwrap();
    let size = usize::from_str_radix(size.trim(), 16).ok()?;
    let mut chunk = vec![0; size + 2];
    stream.read_exact(&mut chunk).await.unwrap();
    chunk.truncate(size);
    (size > 0).then_some(chunk)
}

/// A request received by a test server.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }
}

/// Serves HTTP on this machine. Each request is forwarded to the receiver, and answered with the status and body that `answer`
/// returns.
pub(crate) async fn serve(
    mut answer: impl FnMut() -> (u16, String) + Send + 'static,
) -> (SocketAddr, mpsc::UnboundedReceiver<Got>) {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = socket.local_addr().unwrap();
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = socket.accept().await {
            let mut stream = BufReader::new(stream);
            let headers = read_headers(&mut stream).await;
            let length = headers.iter().find(|(name, _)| name == "content-length");
            let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().unwrap())];
            stream.read_exact(&mut body).await.unwrap();
            let (status, text) = answer();
            let head =
                format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", text.len());
            stream.write_all(format!("{head}{text}").as_bytes()).await.unwrap();
            let _ = sender.send(Got { headers, body });
        }
    });
    (address, receiver)
}

/// An event stream, read frame by frame.
pub(crate) struct Events {
    stream: BufReader<TcpStream>,
    buffer: String,
}

#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) event: String,
    pub(crate) id: Option<String>,
    pub(crate) data: Value,
}

impl Events {
    /// Returns the next frame with data; None at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        let next = tokio::time::timeout(Duration::from_secs(20), self.read());
        next.await.expect("no event came")
    }

    async fn read(&mut self) -> Option<Frame> {
        loop {
            while let Some(end) = self.buffer.find("\n\n") {
                let text: String = self.buffer.drain(..end + 2).collect();
                let field = |name: &str| {
                    text.lines()
                        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned))
                };
                if let Some(data) = field("data") {
                    let data = serde_json::from_str(&data).unwrap();
                    return Some(Frame { event: field("event").unwrap_or_default(), id: field("id"), data });
                }
            }
            let chunk = read_chunk(&mut self.stream).await?;
            self.buffer += &String::from_utf8(chunk).unwrap();
        }
    }

    /// Returns the type and object name of the next change.
    pub(crate) async fn change(&mut self) -> (String, String) {
        let frame = self.next().await.expect("the stream ended");
        assert_eq!(frame.event, "change", "{frame:?}");
        let text = |pointer: &str| frame.data.pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
        (text("/type"), text("/item/object/metadata/name"))
    }
}
