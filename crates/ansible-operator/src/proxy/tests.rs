use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use steersman::testing::{Cluster, TestEnv, object};
use steersman::{Action, Controller, Operator};
use tokio::sync::mpsc;

use super::*;

#[test]
fn every_write_of_a_dry_run_says_so() {
    let tried =
        |uri: &str| with_dry_run(&uri.parse().unwrap()).map(|uri| uri.to_string()).unwrap_or_default();
    assert_eq!(tried("/api/v1/pods"), "/api/v1/pods?dryRun=All");
    assert_eq!(tried("/api/v1/pods?a=b&dryRun="), "/api/v1/pods?a=b&dryRun=All");
}

/// A cluster with an operator that hands out the contexts of its reconciles.
struct Lab {
    env: TestEnv,
    contexts: mpsc::UnboundedReceiver<(Context, String)>,
    proxy: Proxy,
    watched: Arc<Mutex<HashSet<Kind>>>,
    recent: Arc<Recent>,
}

impl Lab {
    async fn new() -> Self {
        Self::on(TestEnv::start().await.unwrap()).await
    }

    async fn on(mut env: TestEnv) -> Self {
        let (sender, contexts) = mpsc::unbounded_channel();
        let controller = Controller::of_existing::<Secret>(move |secret: Arc<Secret>, context: Context| {
            let uid = secret.metadata.uid.clone().unwrap_or_default();
            let sent = sender.send((context, uid));
            async move { sent.map(|()| Action::await_change()) }
        });
        env.run(Operator::new("lab").controller(controller.labels("watched=yes")));
        let owner = json!({ "metadata": { "name": "owner", "labels": { "watched": "yes" } } });
        env.create(&object::<Secret>(owner)).await.unwrap();
        Self {
            env,
            contexts,
            proxy: Proxy::start().await.unwrap(),
            watched: Arc::default(),
            recent: Arc::default(),
        }
    }

    /// Waits for the next reconcile of the object.
    async fn context(&mut self) -> (Context, String) {
        tokio::time::timeout(Duration::from_secs(30), self.contexts.recv()).await.unwrap().unwrap()
    }

    fn scope(&self, (context, uid): &(Context, String), dry_run: bool) -> Arc<RunScope> {
        Arc::new(RunScope {
            context: context.clone(),
            owner: Owner { kind: Kind::of::<Secret>(), key: context.key().clone(), uid: uid.clone() },
            inject_owner: true,
            watch_dependents: true,
            watch_cluster_scoped: false,
            blacklist: Vec::new(),
            dry_run,
            resources: Resources::default(),
            redactor: Redactor::default(),
            watched: Arc::clone(&self.watched),
            recent: Arc::clone(&self.recent),
            touched: Mutex::default(),
        })
    }
}

/// Builds a client as a run does.
async fn client(kubeconfig: Value) -> Client {
    let kubeconfig = serde_json::from_value(kubeconfig).unwrap();
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    Client::try_from(config).unwrap()
}

fn map(name: &str, data: Value) -> ConfigMap {
    object(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data }))
}

fn owners(map: &ConfigMap) -> usize {
    map.metadata.owner_references.as_ref().map_or(0, Vec::len)
}

#[tokio::test]
async fn what_a_run_creates_is_owned_and_its_drift_brings_a_run() {
    let mut lab = Lab::new().await;
    let first = lab.context().await;
    let scope = lab.scope(&first, false);
    let access = lab.proxy.open(Arc::clone(&scope)).unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client(access.kubeconfig()).await, "default");
    let others: Api<ConfigMap> = lab.env.api();
    others.create(&PostParams::default(), &map("theirs", json!({}))).await.unwrap();

    let created = maps.create(&PostParams::default(), &map("created", json!({}))).await.unwrap();
    assert_eq!(owners(&created), 1);
    let apply = PatchParams::apply("play");
    for round in ["one", "two"] {
        let applied = map("applied", json!({ "round": round }));
        let applied = maps.patch("applied", &apply, &Patch::Apply(&applied)).await.unwrap();
        assert_eq!(owners(&applied), 1, "round {round}");
    }
    let mut replacement = map("created", json!({ "a": "b" }));
    replacement.metadata.resource_version = created.metadata.resource_version.clone();
    let replaced = maps.replace("created", &PostParams::default(), &replacement).await.unwrap();
    assert_eq!(owners(&replaced), 1, "replacing does not lose the owner");
    let theirs = maps.patch("theirs", &apply, &Patch::Apply(&map("theirs", json!({})))).await.unwrap();
    assert_eq!(owners(&theirs), 0, "what was there before is not taken over");

    // A run reads its own writes.
    let read = maps.get("created").await.unwrap();
    assert_eq!(read.metadata.resource_version, replaced.metadata.resource_version);
    // A watch may deliver an own write before its response arrives, and trigger a reconcile. Let that finish
    // before the drift.
    lab.env.quiet().await;
    while lab.contexts.try_recv().is_ok() {}
    let patch = Patch::Merge(json!({ "data": { "a": "drift" } }));
    others.patch("created", &PatchParams::default(), &patch).await.unwrap();
    lab.context().await;
    others.delete("applied", &Default::default()).await.unwrap();
    lab.context().await;
}

#[tokio::test]
async fn drift_of_what_an_earlier_process_made_brings_a_run() {
    let mut lab = Lab::new().await;
    let first = lab.context().await;
    let others: Api<ConfigMap> = lab.env.api();
    let scope = lab.scope(&first, false);
    let mut made = json!(map("made", json!({})));
    scope.owner.mark(&mut made, Some("default"));
    others.create(&PostParams::default(), &object(made)).await.unwrap();
    others.create(&PostParams::default(), &map("theirs", json!({}))).await.unwrap();
    let access = lab.proxy.open(Arc::clone(&scope)).unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client(access.kubeconfig()).await, "default");
    let kind = Kind::of::<ConfigMap>();
    let (own, nothing) = (PatchParams::default(), Patch::Merge(json!({ "data": { "a": "1" } })));

    maps.get("theirs").await.unwrap();
    maps.patch("theirs", &own, &nothing).await.unwrap();
    assert!(!scope.is_watched(&kind), "what others made is not watched");
    maps.get("made").await.unwrap();
    assert!(scope.is_watched(&kind));
    lab.env.quiet().await;
    while lab.contexts.try_recv().is_ok() {}
    others.delete("made", &Default::default()).await.unwrap();
    lab.context().await;

    // A run that writes without reading first.
    lab.watched.lock().unwrap().clear();
    let mut made = json!(map("patched", json!({})));
    scope.owner.mark(&mut made, Some("default"));
    others.create(&PostParams::default(), &object(made)).await.unwrap();
    maps.patch("patched", &own, &nothing).await.unwrap();
    assert!(scope.is_watched(&kind));
}

#[test]
fn what_the_deployment_controller_notes_is_no_drift() {
    fn read(text: &str) -> Meta<'_> {
        serde_json::from_str(text).unwrap()
    }
    let old = read(r#"{"generation": 1, "annotations": {"by": "user"}}"#);
    let drifts = |now: &str| is_edited(&old, &read(now));
    let revision =
        r#"{"generation": 1, "annotations": {"by": "user", "deployment.kubernetes.io/revision": "1"}}"#;
    assert!(!drifts(revision));
    assert!(drifts(r#"{"generation": 1, "annotations": {"by": "others"}}"#));
    assert!(drifts(r#"{"generation": 1, "annotations": {"by": "user"}, "labels": {"a": "b"}}"#));
    assert!(drifts(r#"{"generation": 1, "annotations": {"by": "user"}, "finalizers": ["a/b"]}"#));
    assert!(drifts(r#"{"generation": 2, "annotations": {"by": "user"}}"#));
}

#[tokio::test]
async fn a_dry_run_changes_nothing_and_a_run_that_is_over_gets_nothing() {
    let mut lab = Lab::new().await;
    let first = lab.context().await;
    let access = lab.proxy.open(lab.scope(&first, true)).unwrap();
    let kubeconfig = access.kubeconfig();
    let maps: Api<ConfigMap> = Api::namespaced(client(kubeconfig.clone()).await, "default");
    let tried = maps.create(&PostParams::default(), &map("tried", json!({}))).await.unwrap();
    assert_eq!(owners(&tried), 1);
    assert!(lab.env.api::<ConfigMap>().get_opt("tried").await.unwrap().is_none());
    drop(access);
    let refused = maps.get("tried").await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 401), "{refused}");
    let mut forged = kubeconfig;
    forged["users"][0]["user"] = json!({});
    let maps: Api<ConfigMap> = Api::namespaced(client(forged).await, "default");
    let refused = maps.get("tried").await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 401), "{refused}");
}

#[tokio::test]
async fn values_of_secrets_that_a_run_reads_are_known() {
    let mut lab = Lab::new().await;
    let first = lab.context().await;
    let secret = json!({ "metadata": { "name": "login" }, "stringData": { "password": "hunter2" } });
    lab.env.create(&object::<Secret>(secret)).await.unwrap();
    let scope = lab.scope(&first, false);
    let access = lab.proxy.open(Arc::clone(&scope)).unwrap();
    let secrets: Api<Secret> = Api::namespaced(client(access.kubeconfig()).await, "default");
    assert_eq!(scope.redactor.redact("hunter2"), "hunter2");
    secrets.list(&Default::default()).await.unwrap();
    assert_eq!(scope.redactor.redact("it is hunter2"), "it is ********");
}

#[tokio::test]
async fn reads_of_what_did_not_change_are_answered_from_here() {
    let mut lab = Lab::new().await;
    let first = lab.context().await;
    let scope = lab.scope(&first, false);
    let access = lab.proxy.open(Arc::clone(&scope)).unwrap();
    let client = client(access.kubeconfig()).await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let others: Api<ConfigMap> = lab.env.api();
    let read = async |path: &str| {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = client.send(request).await.unwrap();
        let hit = response.headers().get("x-cache").is_some();
        let content: Value = serde_json::from_slice(&whole(response).await.ok().unwrap().1).unwrap();
        (content, hit)
    };
    let path = "/api/v1/namespaces/default/configmaps/mine";
    maps.create(&PostParams::default(), &map("mine", json!({ "a": "1" }))).await.unwrap();
    let (mine, hit) = read(path).await;
    assert!(hit, "the answer to the write is known");
    assert_eq!(mine, json!(others.get("mine").await.unwrap()), "nothing is left out");
    assert!(mine["metadata"]["managedFields"].is_array() && mine["kind"] == "ConfigMap");
    let patch = Patch::Merge(json!({ "data": { "a": "2" } }));
    maps.patch("mine", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(read(path).await.0["data"]["a"], "2", "a run reads its own writes");
    // Writes of others are visible once the watch delivers them, and cause a single read from the cluster.
    let patch = Patch::Merge(json!({ "data": { "a": "3" } }));
    others.patch("mine", &PatchParams::default(), &patch).await.unwrap();
    lab.env.quiet().await;
    assert!(matches!(read(path).await, (mine, false) if mine["data"]["a"] == "3"));
    assert!(matches!(read(path).await, (mine, true) if mine["data"]["a"] == "3"));
    assert!(!read(&format!("{path}?pretty=true")).await.1 && !read("/api/v1/namespaces/default").await.1);
    maps.delete("mine", &Default::default()).await.unwrap();
    assert_eq!(read(path).await.0["code"], 404);
    assert_eq!(scope.take_touched().into_values().collect::<Vec<_>>(), [false]);
}

// The environment is cleaned up by another thread, which waits for the cluster on this runtime.
#[tokio::test(flavor = "multi_thread")]
async fn connections_that_change_their_protocol_are_passed_on() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    // A client over the network: the in-process client has no connections.
    let cluster = Cluster::builder().listen(([127, 0, 0, 1], 0).into()).start().await.unwrap();
    let kubeconfig = tempfile::NamedTempFile::new().unwrap();
    cluster.write_kubeconfig(kubeconfig.path()).unwrap();
    let mut lab = Lab::on(TestEnv::outside(kubeconfig.path()).await.unwrap()).await;
    let first = lab.context().await;
    let access = lab.proxy.open(lab.scope(&first, false)).unwrap();
    let asks = |path: &str, token: &str| {
        format!(
            "GET {path} HTTP/1.1\r\nHost: proxy\r\nOrigin: http://proxy\r\nAuthorization: Bearer {token}\r\nConnection: Upgrade\r\n\
            Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
    };
    let answer = async |request: String, until: &str| {
        let mut stream = tokio::net::TcpStream::connect(access.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        let mut chunk = [0; 4096];
        while !text.contains(until) {
            let count = stream.read(&mut chunk).await.unwrap();
            assert_ne!(count, 0, "{text}");
            text.push_str(&String::from_utf8_lossy(&chunk[..count]));
        }
        text
    };
    // A watch over WebSocket, the protocol of exec.
    let watch = "/api/v1/namespaces?watch=true&fieldSelector=metadata.name%3Ddefault";
    let text = answer(asks(watch, &access.token), "\"ADDED\"").await;
    assert!(text.starts_with("HTTP/1.1 101 "), "{text}");
    assert!(text.contains("\"name\":\"default\""), "{text}");
    let text = answer(asks(watch, "forged"), "own runs").await;
    assert!(text.starts_with("HTTP/1.1 401 "), "{text}");
    // Nothing is executed in a dry run.
    let trial = lab.proxy.open(lab.scope(&first, true)).unwrap();
    let exec = asks("/api/v1/namespaces/default/pods/x/exec?command=true", &trial.token);
    let text = answer(exec, "does not support dry run").await;
    assert!(text.starts_with("HTTP/1.1 403 "), "{text}");
}
