//! After a crash at any write of a plan, the next operator completes the plan with the same result.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Method, Request, Response};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service};
use kube::client::Body;
use kube::{Api, Client};
use steersman_cluster::Cluster;
use steersman_kudo::{ExecutionStatus, Package};
use steersman_kudo_operator::{
    Admission, FileError, Kudo, KudoOperator, PodFiles, SERVICE, SimulatedFiles, Wait,
};

/// A client that crashes at one of its writes: from then on every request fails.
#[derive(Clone)]
struct Dying {
    inner: Client,
    left: Arc<AtomicI64>,
    /// The number of jobs created.
    jobs: Arc<AtomicUsize>,
    /// Whether the last write succeeds, and only its response is lost.
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
        // Events are sent concurrently with the plan.
        let is_event = request.uri().path().contains("/events");
        let writes = request.method() != Method::GET && !is_event;
        let left =
            if writes { self.left.fetch_sub(1, Ordering::SeqCst) } else { self.left.load(Ordering::SeqCst) };
        let (inner, is_made) = (self.inner.clone(), self.is_made);
        let is_job = request.method() == Method::POST && request.uri().path().ends_with("/jobs");
        let jobs = Arc::clone(&self.jobs);
        Box::pin(async move {
            let dead = || std::io::Error::other("the process is dead");
            if left < 0 || (left == 0 && writes && !is_made) {
                return Err(dead());
            }
            let answer = inner.send(request).await.map_err(std::io::Error::other);
            if is_job && answer.as_ref().is_ok_and(|answer| answer.status().is_success()) {
                jobs.fetch_add(1, Ordering::SeqCst);
            }
            if left == 0 && writes { Err(dead()) } else { answer }
        })
    }
}

/// Different content each time, so that a second read is noticed.
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

/// Runs the plan with an operator that crashes at a write. Returns whether it did.
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
    let dying = Client::new(
        Dying { inner: client.clone(), left: Arc::clone(&left), jobs: Arc::default(), is_made },
        "default",
    );
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

/// A package with a chart, a toggle, a parameter with its own plan, and a cleanup plan.
fn shop() -> Package {
    let operator = r"
name: shop
operatorVersion: 0.1.0
tasks:
- {name: app, kind: Apply, spec: {resources: [map.yaml]}}
- {name: extra, kind: Toggle, spec: {parameter: EXTRA, resources: [job.yaml]}}
- {name: no-extra, kind: Delete, spec: {resources: [job.yaml]}}
- {name: chart, kind: Helm, spec: {chart: web, valuesFile: values.yaml}}
plans:
  deploy:
    strategy: serial
    phases:
    - name: main
      strategy: serial
      steps: [{name: app, tasks: [app]}, {name: chart, tasks: [chart]}, {name: extra, tasks: [extra]}, {name: tidy, tasks: [no-extra]}]
  cleanup:
    strategy: serial
    phases:
    - name: main
      strategy: serial
      steps: [{name: extra, tasks: [extra]}, {name: tidy, tasks: [no-extra]}]
";
    Package::from_files([
        ("operator.yaml", operator),
        ("params.yaml", "parameters: [{name: EXTRA, type: boolean, default: true}]"),
        ("templates/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map}\n"),
        ("templates/values.yaml", "text: {{ .Name }}\n"),
        (
            "templates/job.yaml",
            "apiVersion: batch/v1\nkind: Job\nmetadata: {name: job}\nspec:\n  template:\n    spec:\n      \
             restartPolicy: Never\n      containers: [{name: c, image: busybox, command: ['true']}]\n",
        ),
        ("charts/web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
        ("charts/web/values.yaml", "text: none\n"),
        (
            "charts/web/templates/map.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {text: {{ .Values.text }}}\n",
        ),
    ])
    .unwrap()
}

/// The final objects of the cluster, and the number of jobs created.
#[derive(Debug, PartialEq)]
struct End {
    objects: Vec<String>,
    jobs: usize,
}

/// Runs a plan to its end, by an operator that crashes at a write and its successor. Returns whether it
/// crashed.
async fn end_of(package: &Package, plan: &str, crash: Option<(i64, bool)>) -> (bool, End) {
    let cluster = Cluster::start().await.unwrap();
    let admission = Admission::new(cluster.client());
    cluster.webhooks_by("default", SERVICE, move |request| admission.clone().answer(request));
    let client = cluster.client();
    let kudo = Kudo::new(client.clone(), "default");
    kudo.init().await.unwrap();
    kudo.register_webhook("default").await.unwrap();
    let jobs = Arc::<AtomicUsize>::default();
    let start = |left: Arc<AtomicI64>, is_made: bool| {
        let client =
            Client::new(Dying { inner: client.clone(), left, jobs: Arc::clone(&jobs), is_made }, "default");
        let operator = KudoOperator::new().files(SimulatedFiles).operator();
        tokio::spawn(operator.run_until(client, std::future::pending()))
    };
    let healthy = || Arc::new(AtomicI64::new(i64::MAX));
    let limit = Duration::from_secs(600);
    if plan != "deploy" {
        let before = start(healthy(), true);
        kudo.install(std::slice::from_ref(package), Some("it"), Default::default()).await.unwrap();
        kudo.wait("it", limit).await.unwrap();
        settled(&kudo).await;
        before.abort();
        let _ = before.await;
        jobs.store(0, Ordering::SeqCst);
    }
    let left = crash.map_or_else(healthy, |(write, _)| Arc::new(AtomicI64::new(write)));
    let first = start(Arc::clone(&left), crash.is_some_and(|(_, is_made)| is_made));
    match plan {
        "deploy" => {
            kudo.install(std::slice::from_ref(package), Some("it"), Default::default())
                .await
                .map(drop)
                .unwrap();
        }
        "cleanup" => kudo.uninstall("it", Wait::No).await.unwrap(),
        plan => kudo.trigger("it", plan, Default::default()).await.unwrap(),
    }
    let ended = async {
        if plan == "cleanup" {
            while kudo.instance_opt("it").await.unwrap().is_some() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        } else {
            kudo.wait("it", limit).await.unwrap();
            settled(&kudo).await;
        }
    };
    let died = async {
        while left.load(Ordering::SeqCst) >= 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let has_died = tokio::select! {
        () = ended => false,
        () = died => true,
    };
    first.abort();
    let _ = first.await;
    if has_died {
        let second = start(healthy(), true);
        if plan == "cleanup" {
            while kudo.instance_opt("it").await.unwrap().is_some() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        } else {
            let status = kudo.wait("it", limit).await.unwrap();
            assert_eq!(status.status, ExecutionStatus::Complete, "{plan} at write {crash:?}");
            settled(&kudo).await;
        }
        second.abort();
        let _ = second.await;
    }
    let mut objects = Vec::new();
    macro_rules! list {
        ($($kind:ty),*) => { $(
            let api: Api<$kind> = Api::default_namespaced(client.clone());
            for object in api.list(&Default::default()).await.unwrap() {
                // Skips objects that are being garbage collected.
                if object.metadata.deletion_timestamp.is_none() && plan != "cleanup" {
                    let name = object.metadata.name.unwrap();
                    // The history of a release may have a revision from the interrupted attempt.
                    let name = match name.rsplit_once(".v") {
                        Some((release, _)) if name.starts_with("sh.helm.release.") => release,
                        _ => name.as_str(),
                    };
                    objects.push(format!("{} {name}", stringify!($kind)));
                }
            }
        )* };
    }
    list!(ConfigMap, Secret, Job, Service, StatefulSet, PersistentVolumeClaim);
    objects.dedup();
    (has_died, End { objects, jobs: jobs.load(Ordering::SeqCst) })
}

async fn settled(kudo: &Kudo) {
    while !kudo.instance("it").await.unwrap().spec.plan_execution.plan_name.is_empty() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The package of the project's examples.
fn store() -> Package {
    Package::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/backup")).unwrap()
}

/// Crashes every plan of the packages at every `step`-th write.
async fn crash_every_plan(step: usize, packages: &[Package]) {
    for package in packages {
        for plan in package.operator.plans.keys() {
            let (_, wanted) = end_of(package, plan, None).await;
            let mut write = 0;
            loop {
                let mut died = false;
                for is_made in [false, true] {
                    let (has_died, end) = end_of(package, plan, Some((write, is_made))).await;
                    died |= has_died;
                    assert_eq!(
                        end, wanted,
                        "{}: {plan} at write {write}, made: {is_made}",
                        package.operator.name
                    );
                }
                if !died {
                    break;
                }
                write += i64::try_from(step).unwrap();
                assert!(write < 100, "the plan makes no end of writes");
            }
            println!("{}: {plan} survives an end at each of {write} writes", package.operator.name);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn plans_that_are_ended_at_a_write_come_to_the_same_end() {
    crash_every_plan(5, &[store()]).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "takes minutes: `make kudo`"]
async fn every_plan_of_three_packages_that_is_ended_at_any_write_comes_to_the_same_end() {
    crash_every_plan(1, &[store(), shop(), package()]).await;
}

/// Crashes at every `step`-th write, before it and after it.
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
