//! The cluster and the gateway, each a separate process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use steersman_bench::{Process, beside_me};
use tempfile::TempDir;

use crate::client::Streams;

const SHOPS: &str = "/apis/example.com/v1/namespaces/default/shops";
/// The startup timeout of a process.
const START: Duration = Duration::from_secs(30);

/// A cluster with shops, and a gateway for it.
pub(crate) struct Lab {
    // Stopped in this order, before their directory is removed.
    gateway: Process,
    _cluster: Process,
    client: Client,
    streams: Streams,
    _directory: TempDir,
}

impl Lab {
    pub(crate) async fn start(steer: Option<&Path>) -> Result<Self, String> {
        // A crypto provider that a library has already installed remains in place.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let steer = match steer {
            Some(path) => path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?,
            None => beside_me("steer")?,
        };
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let path = |name: &str| directory.path().join(name);
        let kubeconfig = path("kubeconfig");
        let mut command = Command::new(&steer);
        command.args(["cluster", "--no-workloads", "--kubeconfig"]).arg(&kubeconfig);
        let cluster = Process::start(&mut command, &path("cluster.log"))?;
        until(&path("cluster.log"), || kubeconfig.exists().then_some(())).await?;
        let read = Kubeconfig::read_from(&kubeconfig).map_err(|error| error.to_string())?;
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
        let client = Client::try_from(config.map_err(|error| error.to_string())?);
        let client = client.map_err(|error| error.to_string())?;
        define(&client).await?;
        let mut command = Command::new(&steer);
        command.args(["serve", "--listen", "127.0.0.1:0", "--kubeconfig"]).arg(&kubeconfig);
        let log = path("gateway.log");
        let gateway = Process::start(&mut command, &log)?;
        let url = until(&log, || address(&log)).await?;
        let streams = Streams {
            client: reqwest::Client::builder().build().map_err(|error| error.to_string())?,
            url: format!("{url}/v1/kinds/shops.example.com/namespaces/default/instances"),
        };
        Ok(Self { gateway, _cluster: cluster, client, streams, _directory: directory })
    }

    /// Returns the gateway's process ID.
    pub(crate) fn gateway(&self) -> u32 {
        self.gateway.id()
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    pub(crate) fn streams(&self) -> Streams {
        self.streams.clone()
    }

    pub(crate) async fn create(&self, name: &str) -> Result<(), String> {
        post(&self.client, SHOPS, &json!({
            "apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": name}, "spec": {"replicas": 1},
        }))
        .await
        .map(drop)
    }

    /// Creates users that may watch shops, and returns their tokens.
    pub(crate) async fn users(&self, count: usize) -> Result<Vec<String>, String> {
        let accounts = "/api/v1/namespaces/default/serviceaccounts";
        let mut tokens = Vec::new();
        for number in 0..count {
            let name = format!("user-{number}");
            post(&self.client, accounts, &json!({"metadata": {"name": name}})).await?;
            let request =
                json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
            let answer = post(&self.client, &format!("{accounts}/{name}/token"), &request).await?;
            tokens.push(answer["status"]["token"].as_str().ok_or("no token was given")?.to_owned());
        }
        Ok(tokens)
    }
}

/// Waits until a program is ready, according to its log.
async fn until<T>(log: &Path, ready: impl Fn() -> Option<T>) -> Result<T, String> {
    let begun = Instant::now();
    loop {
        if let Some(found) = ready() {
            return Ok(found);
        }
        if begun.elapsed() > START {
            return Err(format!("steer does not start: {}", fs::read_to_string(log).unwrap_or_default()));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the address that the gateway has logged.
fn address(log: &PathBuf) -> Option<String> {
    let text = fs::read_to_string(log).ok()?;
    let (line, _) = text.split_once("serving on ")?.1.split_once('\n')?;
    Some(line.split("/?").next().unwrap_or(line).to_owned())
}

/// Defines the kind of shops, which every service account may watch.
async fn define(client: &Client) -> Result<(), String> {
    post(
        client,
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        &json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "shops.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"kind": "Shop", "listKind": "ShopList", "plural": "shops", "singular": "shop"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
                        "status": {"type": "object", "properties": {
                            "number": {"type": "integer"}, "due": {"type": "integer", "format": "int64"},
                        }},
                    }}},
                }],
            },
        }),
    )
    .await?;
    let rules =
        json!([{"apiGroups": ["example.com"], "resources": ["shops"], "verbs": ["get", "list", "watch"]}]);
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({"metadata": {"name": "shops"}, "rules": rules});
    post(client, &format!("{rbac}/clusterroles"), &role).await?;
    let group = "rbac.authorization.k8s.io";
    post(
        client,
        &format!("{rbac}/clusterrolebindings"),
        &json!({
            "metadata": {"name": "shops"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "shops"},
            "subjects": [{"apiGroup": group, "kind": "Group", "name": "system:serviceaccounts"}],
        }),
    )
    .await?;
    let begun = Instant::now();
    loop {
        let list = Request::get(SHOPS).body(Vec::new()).map_err(|error| error.to_string())?;
        match client.request::<Value>(list).await {
            Ok(_) => return Ok(()),
            Err(error) if begun.elapsed() > START => return Err(format!("shops are not served: {error}")),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

async fn post(client: &Client, path: &str, object: &Value) -> Result<Value, String> {
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(object.to_string().into_bytes()).map_err(|error| error.to_string())?;
    client.request(request).await.map_err(|error| format!("{path}: {error}"))
}

/// Updates a shop's status as its operator would.
pub(crate) async fn report(client: &Client, name: &str, number: usize, due: Duration) -> Result<(), String> {
    let patch =
        json!({"status": {"number": number, "due": u64::try_from(due.as_micros()).unwrap_or(u64::MAX)}});
    let request = Request::patch(format!("{SHOPS}/{name}/status"));
    let request = request
        .header("content-type", "application/merge-patch+json")
        .body(patch.to_string().into_bytes())
        .map_err(|error| error.to_string())?;
    client.request::<Value>(request).await.map(drop).map_err(|error| format!("{name}: {error}"))
}
