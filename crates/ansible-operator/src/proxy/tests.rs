use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use steersman::testing::{TestEnv, object};
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

/// A cluster with an operator whose reconciles hand out their contexts.
struct Lab {
    env: TestEnv,
    contexts: mpsc::UnboundedReceiver<(Context, String)>,
    proxy: Proxy,
    watched: Arc<Mutex<HashSet<Kind>>>,
}

impl Lab {
    async fn new() -> Self {
        let mut env = TestEnv::start().await.unwrap();
        let (sender, contexts) = mpsc::unbounded_channel();
        let controller = Controller::of_existing::<Secret>(move |secret: Arc<Secret>, context: Context| {
            let uid = secret.metadata.uid.clone().unwrap_or_default();
            let sent = sender.send((context, uid));
            async move { sent.map(|()| Action::await_change()) }
        });
        env.run(Operator::new("lab").controller(controller.labels("watched=yes")));
        let owner = json!({ "metadata": { "name": "owner", "labels": { "watched": "yes" } } });
        env.create(&object::<Secret>(owner)).await.unwrap();
        Self { env, contexts, proxy: Proxy::start().await.unwrap(), watched: Arc::default() }
    }

    /// The next reconcile of the object.
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
        })
    }
}

/// A client as a run has it.
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
    // A watch may bring an own write before its answer is known, and a run with it. That is over before the drift.
    lab.env.quiet().await;
    while lab.contexts.try_recv().is_ok() {}
    let patch = Patch::Merge(json!({ "data": { "a": "drift" } }));
    others.patch("created", &PatchParams::default(), &patch).await.unwrap();
    lab.context().await;
    others.delete("applied", &Default::default()).await.unwrap();
    lab.context().await;
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
