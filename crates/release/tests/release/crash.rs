//! A run that is interrupted at any write is recovered by the next one.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request, Response};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, Service};
use kube::api::{ListParams, PostParams};
use kube::client::Body;
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use steersman_chart::{Chart, File, Values};
use steersman_cluster::Cluster;
use steersman_release::{
    Error, Options, Recover, Releases, RollbackOptions, Status, Timeout, UninstallOptions,
};

/// When a process dies, relative to a write.
#[derive(Clone, Copy, Debug)]
enum Death {
    /// Before the write is sent.
    Before,
    /// After it was made, and before the response is received.
    After,
}

/// A client whose process dies at one of its writes: from then on no request gets through.
#[derive(Clone)]
struct Dying {
    inner: Client,
    left: Arc<AtomicI64>,
    death: Death,
}

impl tower_service::Service<Request<Body>> for Dying {
    type Response = Response<Body>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let writes = request.method() != Method::GET;
        let left =
            if writes { self.left.fetch_sub(1, Ordering::SeqCst) } else { self.left.load(Ordering::SeqCst) };
        let dead = || std::io::Error::other("the process is dead");
        let (inner, death) = (self.inner.clone(), self.death);
        Box::pin(async move {
            let sent = left > 0 || (left == 0 && (!writes || matches!(death, Death::After)));
            if !sent {
                return Err(dead());
            }
            let answer = inner.send(request).await.map_err(std::io::Error::other);
            if left == 0 && writes { Err(dead()) } else { answer }
        })
    }
}

fn workload(extra: &str) -> String {
    format!(
        r#"
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {{{{ .Release.Name }}}}}}
spec:
  replicas: {{{{ .Values.replicas | default 1 }}}}
  selector: {{matchLabels: {{app: x}}}}
  template:
    metadata: {{labels: {{app: x}}}}
    spec: {{containers: [{{name: c, image: c}}]}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: {{{{ .Release.Name }}}}-{{{{ .Values.which | default "one" }}}}}}
data: {{which: {{{{ .Values.which | default "one" }}}}}}
{extra}"#
    )
}

fn hook(name: &str, events: &str, kind: &str, policy: &str) -> String {
    let spec = if kind == "Job" {
        "spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: c}]}}}\n"
    } else {
        ""
    };
    let api_version = if kind == "Job" { "batch/v1" } else { "v1" };
    let policy =
        if policy.is_empty() { String::new() } else { format!(", helm.sh/hook-delete-policy: \"{policy}\"") };
    format!(
        "---\napiVersion: {api_version}\nkind: {kind}\nmetadata:\n  name: {name}\n  annotations: {{helm.sh/hook: \
         \"{events}\"{policy}}}\n{spec}"
    )
}

fn chart(templates: &[String]) -> Chart {
    Chart::from_files([
        File::new("Chart.yaml", "{apiVersion: v2, name: crash, version: 1.0.0}"),
        File::new("templates/all.yaml", templates.concat()),
    ])
    .unwrap()
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operation {
    Install,
    Upgrade,
    Rollback,
    Uninstall,
}

fn options() -> Options {
    Options { timeout: Timeout(Duration::from_secs(20)), ..Options::default() }
}

fn values(which: &str) -> Values {
    let mut values = Values::new();
    let replicas = if which == "one" { 1 } else { 2 };
    values.set(&format!("which={which},replicas={replicas}")).unwrap();
    values
}

async fn perform(operation: Operation, releases: &Releases, chart: &Chart) -> Result<(), Error> {
    match operation {
        Operation::Install => releases.install("crash", chart, &values("one"), &options()).await.map(|_| ()),
        Operation::Upgrade => releases.upgrade("crash", chart, &values("two"), &options()).await.map(|_| ()),
        Operation::Rollback => {
            let options = RollbackOptions { revision: Some(1), ..RollbackOptions::default() };
            releases.rollback("crash", &options).await.map(|_| ())
        }
        Operation::Uninstall => releases.uninstall("crash", &UninstallOptions::default()).await.map(|_| ()),
    }
}

async fn prepare(operation: Operation, releases: &Releases, chart: &Chart) {
    if operation != Operation::Install {
        perform(Operation::Install, releases, chart).await.unwrap();
    }
    if operation == Operation::Rollback {
        perform(Operation::Upgrade, releases, chart).await.unwrap();
    }
}

/// Returns the objects of a kind by name, without the fields that differ from run to run.
async fn found<K>(client: &Client, namespace: &str) -> BTreeMap<String, Value>
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let found = api.list(&ListParams::default()).await.unwrap();
    let asked_for = |object: &K| {
        let object = json!(object);
        let mut spec = object["spec"].clone();
        if let Some(spec) = spec.as_object_mut() {
            // The addresses of a Service, and the labels by which a Job finds its pods.
            for field in ["clusterIP", "clusterIPs", "selector"] {
                spec.remove(field);
            }
        }
        if let Some(template) = spec.pointer_mut("/template/metadata") {
            *template = Value::Null;
        }
        json!({ "spec": spec, "data": object["data"] })
    };
    found.items.iter().map(|object| (object.name_any(), asked_for(object))).collect()
}

/// Returns the objects of the release, hooks included.
async fn state(client: &Client, namespace: &str) -> State {
    let mut maps = found::<ConfigMap>(client, namespace).await;
    maps.remove("kube-root-ca.crt");
    vec![
        found::<Deployment>(client, namespace).await,
        maps,
        found::<Service>(client, namespace).await,
        found::<Job>(client, namespace).await,
    ]
}

/// The objects of each kind.
type State = Vec<BTreeMap<String, Value>>;

/// A cluster in which each attempt has a namespace of its own.
struct Place {
    _cluster: Cluster,
    client: Client,
    tries: usize,
}

impl Place {
    async fn new() -> Self {
        let cluster = Cluster::start().await.unwrap();
        Self { client: cluster.client(), _cluster: cluster, tries: 0 }
    }

    async fn namespace(&mut self) -> String {
        self.tries += 1;
        let name = format!("try-{}", self.tries);
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.clone());
        let api: Api<Namespace> = Api::all(self.client.clone());
        api.create(&PostParams::default(), &namespace).await.unwrap();
        name
    }

    /// Lets an operation die at a write, and runs it again. Returns whether it died.
    async fn crash_at(
        &mut self,
        operation: Operation,
        chart: &Chart,
        (death, write): (Death, i64),
        expected: &State,
        context: &str,
    ) -> bool {
        let namespace = self.namespace().await;
        let client = &self.client;
        let releases = Releases::new(client.clone(), &namespace).recover(Recover::Always);
        prepare(operation, &releases, chart).await;
        let dying = Dying { inner: client.clone(), left: Arc::new(AtomicI64::new(write)), death };
        let left = Arc::clone(&dying.left);
        let doomed = Releases::new(Client::new(dying, &namespace), &namespace).recover(Recover::Always);
        let died = perform(operation, &doomed, chart).await;
        if left.load(Ordering::SeqCst) >= 0 {
            died.unwrap_or_else(|error| panic!("{context}: {error}"));
            return false;
        }
        match perform(operation, &releases, chart).await {
            Ok(()) => {}
            // It had completed.
            Err(Error::NameInUse) if operation == Operation::Install => {}
            Err(Error::NotFound { .. }) if operation == Operation::Uninstall => {}
            Err(error) => panic!("{context}: {error}"),
        }
        let revisions = releases.revisions("crash").await.unwrap();
        assert!(revisions.iter().all(|revision| !revision.status.is_pending()), "{context}: {revisions:?}");
        if operation == Operation::Uninstall {
            assert!(revisions.is_empty(), "{context}: {revisions:?}");
            assert_eq!(found::<Secret>(client, &namespace).await, BTreeMap::new(), "{context}");
        } else {
            let deployed = revisions.iter().filter(|revision| revision.status == Status::Deployed);
            let deployed: Vec<_> = deployed.map(|revision| revision.version).collect();
            assert_eq!(deployed, [revisions.last().unwrap().version], "{context}: {revisions:?}");
        }
        assert_eq!(state(client, &namespace).await, *expected, "{context}");
        true
    }
}

/// Lets every operation on a chart die before and after each of its writes.
async fn die_everywhere(chart: &Chart) {
    let mut points = 0;
    let mut place = Place::new().await;
    for operation in [Operation::Install, Operation::Upgrade, Operation::Rollback, Operation::Uninstall] {
        // The result without a crash.
        let namespace = place.namespace().await;
        let releases = Releases::new(place.client.clone(), &namespace);
        prepare(operation, &releases, chart).await;
        perform(operation, &releases, chart).await.unwrap();
        let expected = state(&place.client, &namespace).await;
        for death in [Death::Before, Death::After] {
            for write in 0.. {
                let context = format!("{operation:?}, dead {death:?} write {write}");
                if !place.crash_at(operation, chart, (death, write), &expected, &context).await {
                    break;
                }
                points += 1;
            }
        }
    }
    println!("{points} crashes, all taken up");
    assert!(points > 40, "{points}");
}

// In virtual time: hooks take no real time.

#[tokio::test(start_paused = true)]
async fn every_write_may_be_the_last_with_hooks_that_go_when_they_succeeded() {
    let events = "pre-install,pre-upgrade,pre-rollback,pre-delete";
    die_everywhere(&chart(&[workload(""), hook("before", events, "Job", "hook-succeeded")])).await;
}

#[tokio::test(start_paused = true)]
async fn every_write_may_be_the_last_with_hooks_that_stay_until_they_run_again() {
    let after = hook("after", "post-install,post-upgrade,post-rollback", "ConfigMap", "before-hook-creation");
    let before = hook("before", "pre-install,pre-upgrade,pre-rollback", "Job", "");
    die_everywhere(&chart(&[workload(""), before, after])).await;
}

#[tokio::test(start_paused = true)]
async fn every_write_may_be_the_last_with_a_service_and_a_hook_after_deletion() {
    let service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n";
    let last = hook("last", "post-delete", "Job", "before-hook-creation,hook-succeeded,hook-failed");
    die_everywhere(&chart(&[workload(service), last])).await;
}
