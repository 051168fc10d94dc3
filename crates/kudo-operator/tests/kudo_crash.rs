//! An operator that ends around any write of a plan is followed by one that takes the plan to the same end.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Method, Request, Response};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::client::Body;
use kube::{Api, Client};
use steersman_cluster::Cluster;
use steersman_kudo::{ExecutionStatus, Package};
use steersman_kudo_operator::{Admission, FileError, Kudo, KudoOperator, PodFiles, SERVICE};

/// A client whose process dies at one of its writes: from then on nothing gets through.
#[derive(Clone)]
struct Dying {
    inner: Client,
    left: Arc<AtomicI64>,
    /// Whether the last write is made, and only its answer lost.
    is_made: bool,
}

impl tower_service::Service<Request<Body>> for Dying {
    type Response = Response<Body>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // Events are told beside the plan.
        let is_event = request.uri().path().contains("/events");
        let writes = request.method() != Method::GET && !is_event;
        let left =
            if writes { self.left.fetch_sub(1, Ordering::SeqCst) } else { self.left.load(Ordering::SeqCst) };
        let (inner, is_made) = (self.inner.clone(), self.is_made);
        Box::pin(async move {
            let dead = || std::io::Error::other("the process is dead");
            if left < 0 || (left == 0 && writes && !is_made) {
                return Err(dead());
            }
            let answer = inner.send(request).await.map_err(std::io::Error::other);
            if left == 0 && writes { Err(dead()) } else { answer }
        })
    }
}

/// Another content each time: what is read twice is seen.
#[derive(Clone, Default)]
struct Passwords(Arc<AtomicUsize>);

impl PodFiles for Passwords {
    fn read<'a>(
        &'a self,
        _: Client,
        _: &'a str,
        _: &'a str,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Vec<u8>, FileError>> {
        let number = self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move { Ok(format!("password {number}").into_bytes()) })
    }
}

const OPERATOR: &str = r"
name: crash
operatorVersion: 0.1.0
tasks:
- {name: key, kind: Pipe, spec: {pod: pipe.yaml, pipe: [{file: /out/key, kind: Secret, key: Key}]}}
- {name: job, kind: Apply, spec: {resources: [job.yaml, map.yaml]}}
- {name: no-map, kind: Delete, spec: {resources: [map.yaml]}}
plans:
  deploy:
    strategy: serial
    phases:
    - name: one
      strategy: serial
      steps:
      - {name: key, tasks: [key]}
      - {name: job, tasks: [job]}
    - name: two
      strategy: parallel
      steps:
      - {name: no-map, tasks: [no-map]}
";

fn package() -> Package {
    Package::from_files([
        ("operator.yaml", OPERATOR),
        ("params.yaml", "parameters: []"),
        (
            "templates/pipe.yaml",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: pipe}\nspec:\n  volumes: [{name: out, emptyDir: {}}]\n  \
             initContainers: [{name: make, image: busybox, command: ['true'], volumeMounts: [{name: out, mountPath: /out}]}]\n",
        ),
        (
            "templates/job.yaml",
            "apiVersion: batch/v1\nkind: Job\nmetadata: {name: job}\nspec:\n  template:\n    spec:\n      \
             restartPolicy: Never\n      containers: [{name: c, image: busybox, command: ['true']}]\n",
        ),
        ("templates/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map}\n"),
    ])
    .unwrap()
}

/// Runs the plan with an operator that dies at a write. Whether it did.
async fn crash_at(write: i64, is_made: bool) -> bool {
    let cluster = Cluster::start().await.unwrap();
    let admission = Admission::new(cluster.client());
    cluster.webhooks_by("default", SERVICE, move |request| admission.clone().answer(request));
    let client = cluster.client();
    let kudo = Kudo::new(client.clone(), "default");
    kudo.init().await.unwrap();
    kudo.register_webhook("default").await.unwrap();
    let files = Passwords::default();

    let left = Arc::new(AtomicI64::new(write));
    let dying = Client::new(Dying { inner: client.clone(), left: Arc::clone(&left), is_made }, "default");
    let first = KudoOperator::new().files(files.clone()).operator();
    let first = tokio::spawn(first.run_until(dying, std::future::pending()));
    kudo.install(&[package()], None, Default::default()).await.unwrap();
    let ended = tokio::select! {
        ended = kudo.wait("crash-instance", Duration::from_secs(120)) => ended.is_ok(),
        () = async { while left.load(Ordering::SeqCst) >= 0 { tokio::time::sleep(Duration::from_millis(50)).await } } => false,
    };
    first.abort();
    let _ = first.await;
    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let jobs: Api<Job> = Api::default_namespaced(client.clone());
    let name = "crashinstance.deploy.one.key.key.key";
    let secret = secrets.get_opt(name).await.unwrap().and_then(|secret| secret.data);
    let job = jobs.get_opt("job").await.unwrap().and_then(|job| job.metadata.uid);

    let second = KudoOperator::new().files(files).operator();
    let second = tokio::spawn(second.run_until(client.clone(), std::future::pending()));
    let plan = kudo.wait("crash-instance", Duration::from_secs(600)).await.unwrap();
    assert_eq!(plan.status, ExecutionStatus::Complete, "write {write}");
    let mut instance = kudo.instance("crash-instance").await.unwrap();
    while !instance.spec.plan_execution.plan_name.is_empty() {
        tokio::time::sleep(Duration::from_millis(50)).await;
        instance = kudo.instance("crash-instance").await.unwrap();
    }
    second.abort();
    let after = secrets.get(name).await.unwrap().data;
    assert!(secret.is_none() || secret == after, "write {write}: the password was made twice");
    let uid = jobs.get("job").await.unwrap().metadata.uid;
    assert!(job.is_none() || job == uid, "write {write}: the job was run twice");
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    assert!(maps.get_opt("map").await.unwrap().is_none());
    let pods: Api<Pod> = Api::default_namespaced(client);
    let pipe = pods.get_opt("crashinstance.deploy.one.key.key.pipepod").await.unwrap();
    assert!(pipe.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some()), "write {write}");
    !ended
}

/// Crashes at every so many writes, before the write and after it.
async fn crash_every(step: usize) {
    let mut write = 0;
    while crash_at(write, false).await {
        crash_at(write, true).await;
        write += i64::try_from(step).unwrap();
        assert!(write < 100, "the plan makes no end of writes");
    }
    assert!(write > 8, "only {write} writes");
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_is_ended_at_a_write_comes_to_the_same_end() {
    crash_every(5).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "takes a minute: `make kudo`"]
async fn a_plan_that_is_ended_at_any_write_comes_to_the_same_end() {
    crash_every(1).await;
}
