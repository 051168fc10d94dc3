//! Which pods are on which nodes, and which programs of theirs are known: seen through an ordinary client.

use std::time::Duration;

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Endpoints, Node, Pod, Service},
    discovery::v1::EndpointSlice,
    scheduling::v1::PriorityClass,
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use steersman_cluster::Cluster;

fn read<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

async fn cluster() -> Cluster {
    let cluster = Cluster::builder().seed(1).start().await.unwrap();
    cluster.settled().await;
    cluster
}

fn pods(client: Client) -> Api<Pod> {
    Api::default_namespaced(client)
}

async fn make(pods: &Api<Pod>, name: &str, spec: Value) -> Pod {
    let pod = read(json!({"metadata": {"name": name}, "spec": spec}));
    pods.create(&PostParams::default(), &pod).await.unwrap()
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref().unwrap().node_name.as_deref()
}

fn has_condition(pod: &Pod, type_: &str, reason: &str) -> bool {
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|c| c.type_ == type_ && c.reason.as_deref() == Some(reason))
}

async fn offer(client: &Client, name: &str, amount: &str) {
    let nodes: Api<Node> = Api::all(client.clone());
    let patch = json!({"status": {"capacity": {name: amount}, "allocatable": {name: amount}}});
    nodes.patch_status("node-0", &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_room_and_what_matters_more_takes_it() {
    let cluster = cluster().await;
    offer(&cluster.client(), "example.com/thing", "1").await;
    let classes: Api<PriorityClass> = Api::all(cluster.client());
    let high: PriorityClass = read(json!({"metadata": {"name": "high"}, "value": 100}));
    classes.create(&PostParams::default(), &high).await.unwrap();
    let amounts = json!({"example.com/thing": "1"});
    let containers =
        json!([{"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}]);
    let pods = pods(cluster.client());
    make(&pods, "first", json!({"containers": containers})).await;
    cluster.settled().await;
    make(&pods, "second", json!({"containers": containers})).await;
    cluster.settled().await;
    let second = pods.get("second").await.unwrap();
    assert_eq!((node_of(&second), has_condition(&second, "PodScheduled", "Unschedulable")), (None, true));
    make(&pods, "urgent", json!({"containers": containers, "priorityClassName": "high"})).await;
    cluster.settled().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    cluster.settled().await;
    assert!(pods.get_opt("first").await.unwrap().is_none());
    assert_eq!(node_of(&pods.get("urgent").await.unwrap()), Some("node-0"));
    assert_eq!(node_of(&pods.get("second").await.unwrap()), None);
    pods.delete("urgent", &DeleteParams::default()).await.unwrap();
    cluster.settled().await;
    assert_eq!(node_of(&pods.get("second").await.unwrap()), Some("node-0"));
}

#[tokio::test(start_paused = true)]
async fn a_host_port_is_had_once() {
    let cluster = cluster().await;
    let pods = pods(cluster.client());
    let ports = json!([{"containerPort": 80, "hostPort": 8080}]);
    let containers = json!([{"name": "c", "image": "i", "ports": ports}]);
    make(&pods, "first", json!({"containers": containers})).await;
    cluster.settled().await;
    make(&pods, "second", json!({"containers": containers})).await;
    make(&pods, "forced", json!({"containers": containers, "nodeName": "node-0"})).await;
    cluster.settled().await;
    assert_eq!(node_of(&pods.get("second").await.unwrap()), None);
    let forced = pods.get("forced").await.unwrap().status.unwrap();
    assert_eq!((forced.phase.as_deref(), forced.reason.as_deref()), (Some("Failed"), Some("NodePorts")));
}

#[tokio::test(start_paused = true)]
async fn a_taint_drives_pods_away_when_they_have_borne_it_long_enough() {
    let cluster = cluster().await;
    let pods = pods(cluster.client());
    let containers = json!([{"name": "c", "image": "i"}]);
    let bears = json!([{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]);
    make(&pods, "leaves", json!({"containers": containers})).await;
    make(&pods, "stays", json!({"containers": containers, "tolerations": bears})).await;
    cluster.settled().await;
    let nodes: Api<Node> = Api::all(cluster.client());
    let taint = |taints: Value| Patch::Merge(json!({"spec": {"taints": taints}}));
    let bad = taint(json!([{"key": "k", "effect": "NoExecute"}]));
    nodes.patch("node-0", &PatchParams::default(), &bad).await.unwrap();
    cluster.settled().await;
    assert!(pods.get_opt("leaves").await.unwrap().is_none());
    tokio::time::sleep(Duration::from_secs(30)).await;
    nodes.patch("node-0", &PatchParams::default(), &taint(json!(null))).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    cluster.settled().await;
    assert!(pods.get("stays").await.unwrap().metadata.deletion_timestamp.is_none());
    nodes.patch("node-0", &PatchParams::default(), &bad).await.unwrap();
    tokio::time::sleep(Duration::from_secs(61)).await;
    cluster.settled().await;
    assert!(pods.get_opt("stays").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn programs_that_only_end_or_wait_do_so() {
    let cluster = cluster().await;
    let pods = pods(cluster.client());
    let runs = |command: &[&str]| json!([{"name": "c", "image": "busybox", "command": command}]);
    make(&pods, "fails", json!({"restartPolicy": "Never", "containers": runs(&["false"])})).await;
    make(&pods, "sleeps", json!({"restartPolicy": "Never", "containers": runs(&["sleep", "60"])})).await;
    let stuck = json!([{"name": "i", "image": "busybox", "command": ["sh", "-c", "exit 2"]}]);
    let stuck = json!({"restartPolicy": "Never", "initContainers": stuck, "containers": runs(&["true"])});
    make(&pods, "stuck", stuck).await;
    let late = json!({"activeDeadlineSeconds": 5, "containers": runs(&["sleep", "infinity"])});
    make(&pods, "late", late).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    cluster.settled().await;
    let phase = async |name: &str| pods.get(name).await.unwrap().status.unwrap().phase.unwrap();
    assert_eq!(phase("fails").await, "Failed");
    assert_eq!(phase("sleeps").await, "Running");
    assert_eq!(phase("late").await, "Failed");
    let stuck = pods.get("stuck").await.unwrap().status.unwrap();
    assert_eq!(stuck.phase.as_deref(), Some("Failed"));
    let ended = stuck.init_container_statuses.unwrap().remove(0).state.unwrap().terminated.unwrap();
    assert_eq!(ended.exit_code, 2);
    let waiting = stuck.container_statuses.unwrap().remove(0).state.unwrap().waiting.unwrap();
    assert_eq!(waiting.reason.as_deref(), Some("PodInitializing"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    cluster.settled().await;
    assert_eq!(phase("sleeps").await, "Succeeded");
}

#[tokio::test(start_paused = true)]
async fn each_index_of_a_job_fails_by_itself() {
    let cluster = cluster().await;
    let jobs: Api<Job> = Api::default_namespaced(cluster.client());
    let template = json!({"spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "busybox", "command": ["false"]}],
    }});
    let job = read(json!({"metadata": {"name": "work"}, "spec": {
        "completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
        "template": template,
    }}));
    jobs.create(&PostParams::default(), &job).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    cluster.settled().await;
    let status = jobs.get("work").await.unwrap().status.unwrap();
    assert_eq!((status.failed, status.failed_indexes.as_deref()), (Some(6), Some("0-2")));
    let conditions = status.conditions.unwrap();
    assert!(conditions.iter().any(|c| c.type_ == "Failed" && c.reason.as_deref() == Some("FailedIndexes")));
}

#[tokio::test(start_paused = true)]
async fn a_policy_says_when_a_job_has_succeeded() {
    let cluster = cluster().await;
    let jobs: Api<Job> = Api::default_namespaced(cluster.client());
    let containers = json!([{"name": "c", "image": "busybox", "command": ["true"]}]);
    let job = read(json!({"metadata": {"name": "work"}, "spec": {
        "completions": 2, "parallelism": 1, "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": "1"}]},
        "template": {"spec": {"restartPolicy": "Never", "containers": containers}},
    }}));
    jobs.create(&PostParams::default(), &job).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    cluster.settled().await;
    let conditions = jobs.get("work").await.unwrap().status.unwrap().conditions.unwrap();
    let reason = |type_: &str| conditions.iter().find(|c| c.type_ == type_).and_then(|c| c.reason.as_deref());
    assert_eq!(
        (reason("SuccessCriteriaMet"), reason("Complete")),
        (Some("SuccessPolicy"), Some("SuccessPolicy"))
    );
}

#[tokio::test(start_paused = true)]
async fn endpoints_by_hand_are_seen_in_slices() {
    let cluster = cluster().await;
    let services: Api<Service> = Api::default_namespaced(cluster.client());
    let service = read(json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}));
    services.create(&PostParams::default(), &service).await.unwrap();
    let endpoints: Api<Endpoints> = Api::default_namespaced(cluster.client());
    let by_hand = read(json!({
        "metadata": {"name": "web"},
        "subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}],
    }));
    endpoints.create(&PostParams::default(), &by_hand).await.unwrap();
    cluster.settled().await;
    let slices: Api<EndpointSlice> = Api::default_namespaced(cluster.client());
    let of = |name: &str| ListParams::default().labels(&format!("kubernetes.io/service-name={name}"));
    let found = slices.list(&of("web")).await.unwrap().items;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].endpoints.as_ref().unwrap()[0].addresses, ["10.1.2.3"]);
    endpoints.delete("web", &DeleteParams::default()).await.unwrap();
    cluster.settled().await;
    assert!(slices.list(&of("web")).await.unwrap().items.is_empty());
    assert_eq!(slices.list(&of("kubernetes")).await.unwrap().items.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_changed_root_certificate_is_put_right() {
    let cluster = cluster().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let wrong = Patch::Merge(json!({"data": {"ca.crt": ""}}));
    maps.patch("kube-root-ca.crt", &PatchParams::default(), &wrong).await.unwrap();
    cluster.settled().await;
    let data = maps.get("kube-root-ca.crt").await.unwrap().data.unwrap();
    assert_eq!(data["ca.crt"], cluster.root_certificate());
}
