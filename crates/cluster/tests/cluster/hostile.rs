//! A full disk, and objects that request too much: others must not be affected.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use futures::StreamExt as _;
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration,
    apps::v1::{Deployment, ReplicaSet, StatefulSet},
    batch::v1::Job,
    core::v1::{ConfigMap, Event, Namespace, Node, Pod},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use steersman_cluster::Cluster;

const DIRECTORY: &str = "STEERSMAN_TEST_FULL_DISK";
const ROUNDS: &str = "STEERSMAN_TEST_ROUNDS";

fn map(name: &str, size: usize) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some([("filler".to_owned(), "x".repeat(size))].into()),
        ..ConfigMap::default()
    }
}

/// Limits the size of files that this process writes. `None`: only by the disk.
fn limit(size: Option<u64>) {
    let size = size.map_or("unlimited".to_owned(), |size| size.to_string());
    let pid = std::process::id().to_string();
    let done = Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={size}:")]).status().unwrap();
    assert!(done.success());
}

async fn get(client: &Client, path: &str) -> (bool, String) {
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    match client.request_text(request).await {
        Ok(text) => (true, text),
        Err(error) => (false, error.to_string()),
    }
}

fn refusal(error: kube::Error) -> String {
    match error {
        kube::Error::Api(status) => {
            assert_eq!((status.code, status.reason.as_str()), (503, "ServiceUnavailable"), "{status:?}");
            status.message
        }
        other => panic!("{other}"),
    }
}

async fn names(maps: &Api<ConfigMap>) -> Vec<String> {
    let list = maps.list(&ListParams::default()).await.unwrap();
    list.items.into_iter().filter_map(|m| m.metadata.name).collect()
}

/// Not a test of its own: the process with limited file sizes.
#[test]
fn full_disk() {
    let (Ok(directory), Ok(rounds)) = (std::env::var(DIRECTORY), std::env::var(ROUNDS)) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(fill_again_and_again(&PathBuf::from(directory), rounds.parse().unwrap()));
}

async fn fill_again_and_again(directory: &Path, rounds: usize) {
    let start = || Cluster::builder().workloads(false).data_directory(directory).start();
    let mut expected = Vec::new();
    for round in 0..rounds {
        // The first half follows a restart, the second a recovery without one.
        let cluster = start().await.unwrap();
        for half in 0..2 {
            fill(&cluster, directory, &format!("round-{round}-{half}"), &mut expected).await;
        }
    }
    let cluster = start().await.unwrap();
    assert_eq!(names(&Api::default_namespaced(cluster.client())).await, expected);
}

async fn fill(cluster: &Cluster, directory: &Path, prefix: &str, expected: &mut Vec<String>) {
    let client = cluster.client();
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    assert_eq!(names(&maps).await, *expected);
    let list = maps.list(&ListParams::default()).await.unwrap();
    let revision = list.metadata.resource_version.unwrap();
    // Read continuously: a file may have space for more events than the server buffers for a slow watcher.
    let events = maps.watch(&WatchParams::default(), &revision).await.unwrap();
    let (report, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let watcher = tokio::spawn(events.for_each(move |event| {
        let line = match event.unwrap() {
            WatchEvent::Added(map) => format!("+{}", map.metadata.name.unwrap()),
            WatchEvent::Deleted(map) => format!("-{}", map.metadata.name.unwrap()),
            other => panic!("{other:?}"),
        };
        // The receiver may be gone already.
        let _ = report.send(line);
        std::future::ready(())
    }));
    assert_eq!(get(&client, "/readyz").await, (true, "ok".to_owned()));

    let kept = format!("{prefix}-kept");
    maps.create(&PostParams::default(), &map(&kept, 1_000)).await.unwrap();
    limit(Some(std::fs::metadata(directory.join("cluster.redb")).unwrap().len()));
    let mut stored = Vec::new();
    let (refused, why) = loop {
        let name = format!("{prefix}-{:04}", stored.len());
        match maps.create(&PostParams::default(), &map(&name, 50_000)).await {
            Ok(_) => stored.push(name),
            Err(error) => break (name, refusal(error)),
        }
    };
    assert!(why.contains("cluster.redb"), "{why}");
    // Refused writes of any kind have no effect, and reads still work.
    assert!(maps.get_opt(&refused).await.unwrap().is_none());
    let before = maps.get(&kept).await.unwrap();
    refusal(maps.delete(&kept, &DeleteParams::default()).await.unwrap_err());
    refusal(maps.replace(&kept, &PostParams::default(), &map(&kept, 1)).await.unwrap_err());
    refusal(maps.create(&PostParams::default(), &map(&refused, 1)).await.unwrap_err());
    assert_eq!(maps.get(&kept).await.unwrap(), before);
    let (ready, text) = get(&client, "/readyz").await;
    assert!(!ready && text.contains("read-only") && text.contains("cluster.redb"), "{text}");
    assert_eq!(get(&client, "/livez").await, (true, "ok".to_owned()));

    // Once there is space, the cluster recovers without a restart.
    limit(None);
    while !get(&client, "/readyz").await.0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    maps.create(&PostParams::default(), &map(&refused, 1)).await.unwrap();
    for name in &stored {
        maps.delete(name, &DeleteParams::default()).await.unwrap();
    }
    expected.extend([kept.clone(), refused.clone()]);
    expected.sort();
    assert_eq!(names(&maps).await, *expected);

    // The watcher observed exactly the writes that succeeded.
    let added = std::iter::once(&kept).chain(&stored).chain([&refused]);
    let mut wanted: Vec<String> = added.map(|name| format!("+{name}")).collect();
    wanted.extend(stored.iter().map(|name| format!("-{name}")));
    for wanted in wanted {
        assert_eq!(seen.recv().await, Some(wanted));
    }
    watcher.abort();
}

/// Runs [`full_disk`] in a process that gets an error instead of a signal when a file can't grow.
fn survive_full_disks(rounds: usize) {
    let directory = tempfile::tempdir().unwrap();
    let done = Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" --exact hostile::full_disk --nocapture"])
        .arg(std::env::current_exe().unwrap())
        .env(DIRECTORY, directory.path())
        .env(ROUNDS, rounds.to_string())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && told.contains("1 passed"), "{told}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_undoes_what_it_refuses() {
    survive_full_disks(1);
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "twenty full disks take a while"]
fn twenty_full_disks_undo_what_they_refuse() {
    survive_full_disks(20);
}

/// 2^31 - 1.
const MOST: i32 = i32::MAX;
/// Replicas of a set that takes more than two reconciles to create or delete.
const LARGE: usize = 1_200;
/// Pod capacity of a node in these tests.
const CAPACITY: usize = 110;

/// Limits each node to [`CAPACITY`] pods, the default of a real kubelet.
async fn limit_nodes(cluster: &Cluster) {
    cluster.settled().await;
    let api: Api<Node> = Api::all(cluster.client());
    let amounts = json!({"pods": CAPACITY.to_string()});
    let patch = Patch::Merge(json!({"status": {"allocatable": amounts, "capacity": amounts}}));
    for node in api.list(&ListParams::default()).await.unwrap() {
        api.patch_status(&node.name_any(), &PatchParams::default(), &patch).await.unwrap();
    }
    cluster.settled().await;
}

async fn create<K>(client: &Client, namespace: &str, object: Value) -> K
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

async fn make_namespace(client: &Client, name: &str) {
    let api: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    api.create(&PostParams::default(), &namespace).await.unwrap();
}

/// An object that creates pods, with its name as a label.
fn keeper(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"app": name}});
    spec["template"] = json!({
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    json!({"metadata": {"name": name}, "spec": spec})
}

/// A Job with pods that never finish.
fn job(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    spec["template"] = json!({
        "metadata": {"annotations": {"cluster.steersman.dev/run-for": "forever"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    });
    json!({"metadata": {"name": name}, "spec": spec})
}

async fn pods(client: &Client, namespace: &str) -> Vec<Pod> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    api.list(&ListParams::default()).await.unwrap().items
}

#[tokio::test(start_paused = true)]
#[ignore = "hundreds of pods take a while"]
async fn billions_of_pods_end_where_nodes_are_full() {
    let cluster = Cluster::builder().seed(1).start().await.unwrap();
    limit_nodes(&cluster).await;
    let client = cluster.client();
    create::<Job>(&client, "default", job("plain", json!({"parallelism": MOST, "completions": MOST}))).await;
    let spec = json!({"parallelism": 100_000, "completions": MOST, "completionMode": "Indexed"});
    create::<Job>(&client, "default", job("indexed", spec)).await;
    let spec = json!({"replicas": MOST, "strategy": {"type": "Recreate"}});
    create::<Deployment>(&client, "default", keeper("recreate", spec)).await;
    create::<Deployment>(&client, "default", keeper("rolling", json!({"replicas": MOST}))).await;
    create::<ReplicaSet>(&client, "default", keeper("set", json!({"replicas": MOST}))).await;
    let spec = json!({
        "replicas": MOST, "podManagementPolicy": "Parallel", "serviceName": "", "ordinals": {"start": 7},
    });
    create::<StatefulSet>(&client, "default", keeper("stateful", spec)).await;
    cluster.settled().await;
    let count = pods(&client, "default").await.len();
    assert!((CAPACITY..=CAPACITY + 500).contains(&count), "{count}");
    assert_eq!(cluster.controller_panics(), 0);
    let events: Api<Event> = Api::default_namespaced(client.clone());
    let told = events.list(&ListParams::default()).await.unwrap();
    let says = |e: &Event| e.message.as_deref().is_some_and(|m| m.starts_with("Not creating more pods"));
    assert!(told.iter().any(says));

    // Another namespace is not affected.
    make_namespace(&client, "calm").await;
    create::<ReplicaSet>(&client, "calm", keeper("web", json!({"replicas": 2}))).await;
    cluster.settled().await;
    assert_eq!(pods(&client, "calm").await.len(), 2);

    // Deletion and scaling down still work, in several reconciles.
    let sets: Api<ReplicaSet> = Api::default_namespaced(client.clone());
    for name in ["recreate", "rolling"] {
        let api: Api<Deployment> = Api::default_namespaced(client.clone());
        api.delete(name, &DeleteParams::foreground()).await.unwrap();
    }
    let api: Api<StatefulSet> = Api::default_namespaced(client.clone());
    api.delete("stateful", &DeleteParams::foreground()).await.unwrap();
    let api: Api<Job> = Api::default_namespaced(client.clone());
    for name in ["plain", "indexed"] {
        api.delete(name, &DeleteParams::foreground()).await.unwrap();
    }
    let few = Patch::Merge(json!({"spec": {"replicas": 3}}));
    sets.patch("set", &PatchParams::default(), &few).await.unwrap();
    cluster.settled().await;
    assert_eq!(pods(&client, "default").await.len(), 3);
}

#[tokio::test(start_paused = true)]
#[ignore = "hundreds of pods take a while"]
async fn objects_take_turns() {
    let cluster = Cluster::builder().seed(1).nodes(7).start().await.unwrap();
    cluster.settled().await;
    let client = cluster.client();
    let all: Api<Pod> = Api::all(client.clone());
    let revision = cluster.server().store().revision().to_string();
    let mut events = all.watch(&WatchParams::default(), &revision).await.unwrap().boxed();
    create::<ReplicaSet>(&client, "default", keeper("large", json!({"replicas": LARGE}))).await;
    create::<ReplicaSet>(&client, "default", keeper("small", json!({"replicas": 1}))).await;
    cluster.settled().await;
    assert_eq!(pods(&client, "default").await.len(), LARGE + 1);
    let mut before = 0;
    loop {
        match events.next().await.unwrap().unwrap() {
            WatchEvent::Added(pod) if pod.name_any().starts_with("small") => break,
            WatchEvent::Added(_) => before += 1,
            _ => {}
        }
    }
    assert!(before < LARGE, "all {before} pods of the other one were made first");

    let sets: Api<ReplicaSet> = Api::default_namespaced(client.clone());
    let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
    for name in ["large", "small"] {
        sets.patch(name, &PatchParams::default(), &none).await.unwrap();
    }
    cluster.settled().await;
    assert!(pods(&client, "default").await.is_empty());
    // Two reconciles of the large set may be over before the change of the small one is observed.
    let mut ended = HashSet::new();
    loop {
        match events.next().await.unwrap().unwrap() {
            WatchEvent::Modified(pod) | WatchEvent::Deleted(pod)
                if pod.metadata.deletion_timestamp.is_some() && !ended.contains(&pod.name_any()) =>
            {
                if pod.name_any().starts_with("small") {
                    break;
                }
                ended.insert(pod.name_any());
            }
            _ => {}
        }
    }
    assert!(ended.len() < LARGE, "all {} pods of the other one were ended first", ended.len());
}

/// Registers an in-process webhook for created pods, which responds with `answer` in one namespace.
async fn hook<F, A>(cluster: &Cluster, namespace: &'static str, answer: F)
where
    F: Fn() -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Value> + Send + 'static,
{
    cluster.webhooks_by("default", "hook", move |request| {
        let answer = answer.clone();
        async move {
            let review: Value = serde_json::from_slice(request.body()).unwrap();
            let mut response = match review["request"]["namespace"] == namespace {
                true => answer().await,
                false => json!({"allowed": true}),
            };
            response["uid"] = review["request"]["uid"].clone();
            let review =
                json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
            http::Response::new(review.to_string().into())
        }
    });
    let api: Api<ValidatingWebhookConfiguration> = Api::all(cluster.client());
    let configuration = json!({"metadata": {"name": "hook"}, "webhooks": [{
        "name": "hook.example.com",
        "clientConfig": {"service": {"namespace": "default", "name": "hook"}},
        "rules": [
            {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]},
        ],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 30,
    }]});
    api.create(&PostParams::default(), &serde_json::from_value(configuration).unwrap()).await.unwrap();
    make_namespace(&cluster.client(), namespace).await;
}

/// Waits until all pods of a ReplicaSet in the default namespace are ready, and returns how long that took.
async fn until_ready(client: &Client, name: &str, count: i32) -> Duration {
    let began = tokio::time::Instant::now();
    let sets: Api<ReplicaSet> = Api::default_namespaced(client.clone());
    let ready = |set: Option<&ReplicaSet>| {
        set.and_then(|s| s.status.as_ref()?.ready_replicas).is_some_and(|ready| ready == count)
    };
    kube::runtime::wait::await_condition(sets, name, ready).await.unwrap();
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_slow_webhook_holds_up_only_what_it_is_asked_about() {
    let cluster = Cluster::builder().seed(1).start().await.unwrap();
    let client = cluster.client();
    hook(&cluster, "slow", async || {
        tokio::time::sleep(Duration::from_secs(20)).await;
        json!({"allowed": true})
    })
    .await;
    for number in 0..10 {
        let name = format!("late-{number}");
        create::<ReplicaSet>(&client, "slow", keeper(&name, json!({"replicas": 2}))).await;
    }
    create::<ReplicaSet>(&client, "default", keeper("web", json!({"replicas": 3}))).await;
    let spent = until_ready(&client, "web", 3).await;
    assert!(spent < Duration::from_secs(2), "{spent:?}");
    cluster.settled().await;
    assert_eq!(pods(&client, "slow").await.len(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_late_refusal_is_told() {
    let cluster = Cluster::builder().seed(1).start().await.unwrap();
    let client = cluster.client();
    hook(&cluster, "slow", async || {
        tokio::time::sleep(Duration::from_secs(20)).await;
        json!({"allowed": false, "status": {"message": "not today"}})
    })
    .await;
    create::<ReplicaSet>(&client, "slow", keeper("late", json!({"replicas": 1}))).await;
    let sets: Api<ReplicaSet> = Api::namespaced(client.clone(), "slow");
    let failed = |set: Option<&ReplicaSet>| {
        let conditions = set.and_then(|s| s.status.as_ref()?.conditions.clone()).unwrap_or_default();
        conditions.iter().any(|c| c.message.as_deref().is_some_and(|m| m.contains("not today")))
    };
    kube::runtime::wait::await_condition(sets, "late", failed).await.unwrap();
    assert_eq!(pods(&client, "slow").await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_panic_ends_no_other_controller() {
    let cluster = Cluster::builder().seed(1).start().await.unwrap();
    let client = cluster.client();
    hook(&cluster, "bad", async || panic!("a webhook of the process panics")).await;
    create::<ReplicaSet>(&client, "bad", keeper("web", json!({"replicas": 1}))).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(cluster.controller_panics() > 0);
    create::<ReplicaSet>(&client, "default", keeper("web", json!({"replicas": 3}))).await;
    until_ready(&client, "web", 3).await;
}

#[tokio::test(start_paused = true)]
async fn events_expire_an_hour_after_they_were_written() {
    let cluster = Cluster::builder().seed(1).workloads(false).start().await.unwrap();
    let events: Api<Event> = Api::default_namespaced(cluster.client());
    let event = |name: &str| -> Event {
        let about = json!({"kind": "Pod", "name": "p", "namespace": "default"});
        serde_json::from_value(json!({"metadata": {"name": name}, "involvedObject": about})).unwrap()
    };
    for name in ["once", "again"] {
        events.create(&PostParams::default(), &event(name)).await.unwrap();
    }
    let minutes = |n: u64| tokio::time::sleep(Duration::from_secs(n * 60));
    let left = async || -> Vec<String> {
        let list = events.list(&ListParams::default()).await.unwrap();
        list.items.into_iter().filter_map(|e| e.metadata.name).collect()
    };
    minutes(59).await;
    assert_eq!(left().await, ["again", "once"]);
    let counted = Patch::Merge(json!({"count": 2}));
    events.patch("again", &PatchParams::default(), &counted).await.unwrap();
    minutes(2).await;
    assert_eq!(left().await, ["again"]);
    minutes(60).await;
    assert!(left().await.is_empty());
}
