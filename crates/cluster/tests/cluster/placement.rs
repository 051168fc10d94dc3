//! Scheduling of pods, and simulation of known programs, observed through an ordinary client.

use std::time::Duration;

use k8s_openapi::api::{
    admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    core::v1::{ConfigMap, Endpoints, Event, Node, Pod, Service},
    discovery::v1::EndpointSlice,
    policy::v1::PodDisruptionBudget,
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

/// A full node: two pods with the priorities `little` and `less`, labelled with their names.
async fn full_node() -> (Cluster, Api<Pod>) {
    let cluster = cluster().await;
    offer(&cluster.client(), "example.com/thing", "2").await;
    let classes: Api<PriorityClass> = Api::all(cluster.client());
    for (name, value) in [("high", 100), ("little", 2), ("less", 1)] {
        let class = read(json!({"metadata": {"name": name}, "value": value}));
        classes.create(&PostParams::default(), &class).await.unwrap();
    }
    let pods = pods(cluster.client());
    for name in ["little", "less"] {
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"containers": greedy(), "priorityClassName": name},
        });
        pods.create(&PostParams::default(), &read(pod)).await.unwrap();
        cluster.settled().await;
    }
    (cluster, pods)
}

fn greedy() -> Value {
    let amounts = json!({"example.com/thing": "1"});
    json!([{"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}])
}

async fn names(pods: &Api<Pod>) -> Vec<String> {
    pods.list(&ListParams::default()).await.unwrap().into_iter().filter_map(|p| p.metadata.name).collect()
}

#[tokio::test(start_paused = true)]
async fn the_pod_that_matters_least_goes_first() {
    let (cluster, pods) = full_node().await;
    make(&pods, "urgent", json!({"containers": greedy(), "priorityClassName": "high"})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    cluster.settled().await;
    assert_eq!(names(&pods).await, ["little", "urgent"]);
    assert_eq!(node_of(&pods.get("urgent").await.unwrap()), Some("node-0"));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_a_budget_protects_is_spared() {
    let (cluster, pods) = full_node().await;
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(cluster.client());
    let budget = read(json!({
        "metadata": {"name": "less"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "less"}}},
    }));
    budgets.create(&PostParams::default(), &budget).await.unwrap();
    cluster.settled().await;
    make(&pods, "urgent", json!({"containers": greedy(), "priorityClassName": "high"})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    cluster.settled().await;
    assert_eq!(names(&pods).await, ["less", "urgent"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_takes_nothing_away_waits() {
    let (cluster, pods) = full_node().await;
    let classes: Api<PriorityClass> = Api::all(cluster.client());
    let polite = read(json!({"metadata": {"name": "polite"}, "value": 100, "preemptionPolicy": "Never"}));
    classes.create(&PostParams::default(), &polite).await.unwrap();
    let spec = json!({"containers": greedy(), "priorityClassName": "polite"});
    make(&pods, "polite", spec).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    cluster.settled().await;
    assert_eq!(names(&pods).await, ["less", "little", "polite"]);
    assert_eq!(node_of(&pods.get("polite").await.unwrap()), None);
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
    let events: Api<Event> = Api::default_namespaced(cluster.client());
    let told = events.list(&ListParams::default().fields("involvedObject.name=forced")).await.unwrap();
    let told: Vec<_> = told.iter().map(|e| (e.type_.as_deref(), e.reason.as_deref())).collect();
    assert_eq!(told, [(Some("Warning"), Some("NodePorts"))]);
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
async fn an_eviction_that_fails_is_tried_again_at_once() {
    let cluster = cluster().await;
    let pods = pods(cluster.client());
    let bears = json!([{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]);
    let spec = json!({"containers": [{"name": "c", "image": "i"}], "tolerations": bears});
    make(&pods, "held", spec).await;
    cluster.settled().await;
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(cluster.client());
    let policy = read(json!({"metadata": {"name": "hold"}, "spec": {
        "matchConstraints": {"resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"]},
        ]},
        "validations": [{"expression": "false"}],
    }}));
    policies.create(&PostParams::default(), &policy).await.unwrap();
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(cluster.client());
    let binding = read(json!({
        "metadata": {"name": "hold"},
        "spec": {"policyName": "hold", "validationActions": ["Deny"]},
    }));
    bindings.create(&PostParams::default(), &binding).await.unwrap();
    let nodes: Api<Node> = Api::all(cluster.client());
    let taint = Patch::Merge(json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}));
    nodes.patch("node-0", &PatchParams::default(), &taint).await.unwrap();
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert!(has_condition(&pods.get("held").await.unwrap(), "DisruptionTarget", "DeletionByTaintManager"));
    bindings.delete("hold", &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(15)).await;
    cluster.settled().await;
    assert!(pods.get_opt("held").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn what_is_later_than_the_clock_counts_never_comes() {
    let cluster = cluster().await;
    let pods = pods(cluster.client());
    let bears =
        json!([{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": i64::MAX}]);
    let sleeps = |time: &str| json!([{"name": "c", "image": "busybox", "command": ["sleep", time]}]);
    make(&pods, "bears", json!({"containers": sleeps("infinity"), "tolerations": bears})).await;
    let forever = json!([{"operator": "Exists"}]);
    for (name, time) in [("long", "9999999999999999999"), ("longest", "18446744073709551615")] {
        let pod = json!({
            "metadata": {"name": name, "annotations": {"cluster.steersman.dev/start-delay": "1s"}},
            "spec": {"restartPolicy": "Never", "containers": sleeps(time), "tolerations": forever},
        });
        pods.create(&PostParams::default(), &read(pod)).await.unwrap();
    }
    let nodes: Api<Node> = Api::all(cluster.client());
    let taint = Patch::Merge(json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}));
    nodes.patch("node-0", &PatchParams::default(), &taint).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let settled = tokio::time::timeout(Duration::from_secs(60), cluster.settled()).await;
    assert!(settled.is_ok(), "the control loop has ended");
    for pod in pods.list(&ListParams::default()).await.unwrap() {
        assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Running"), "{:?}", pod.metadata.name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pods_start_takes_the_time_of_its_programs() {
    let cluster = cluster().await;
    let pods = pods(cluster.client());
    let runs = |name: &str, command: &[&str]| json!({"name": name, "image": "busybox", "command": command});
    let spec = json!({
        "restartPolicy": "Never",
        "initContainers": [runs("first", &["sleep", "30"]), runs("second", &["sleep", "10"])],
        "containers": [runs("c", &["sleep", "30"])],
    });
    make(&pods, "slow", spec).await;
    let waits = json!({"initContainers": [runs("first", &["sleep", "infinity"])], "containers": [runs("c", &["true"])]});
    make(&pods, "waits", waits).await;
    let status = async |name: &str| pods.get(name).await.unwrap().status.unwrap();
    let initialized = |status: &k8s_openapi::api::core::v1::PodStatus| {
        let conditions = status.conditions.as_deref().unwrap();
        conditions.iter().any(|c| c.type_ == "Initialized" && c.status == "True")
    };
    tokio::time::sleep(Duration::from_secs(20)).await;
    cluster.settled().await;
    let slow = status("slow").await;
    assert_eq!((slow.phase.as_deref(), initialized(&slow)), (Some("Pending"), false));
    let states: Vec<_> = slow.init_container_statuses.unwrap().into_iter().filter_map(|c| c.state).collect();
    assert!(states[0].running.is_some() && states[1].waiting.is_some(), "{states:?}");
    tokio::time::sleep(Duration::from_secs(40)).await;
    cluster.settled().await;
    let slow = status("slow").await;
    assert_eq!((slow.phase.as_deref(), initialized(&slow)), (Some("Running"), true));
    let second = slow.init_container_statuses.unwrap().remove(1).state.unwrap().terminated.unwrap();
    let took = second.finished_at.unwrap().0.duration_since(second.started_at.unwrap().0);
    assert_eq!((took.as_secs(), second.exit_code), (10, 0));
    tokio::time::sleep(Duration::from_secs(40)).await;
    cluster.settled().await;
    assert_eq!(status("slow").await.phase.as_deref(), Some("Succeeded"));
    let waits = status("waits").await;
    assert_eq!(waits.phase.as_deref(), Some("Pending"));
    assert!(waits.init_container_statuses.unwrap().remove(0).state.unwrap().running.is_some());
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
    let change = async |change: Value| {
        endpoints.patch("web", &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
        cluster.settled().await;
        slices.list(&of("web")).await.unwrap().items
    };
    let moved =
        change(json!({"subsets": [{"addresses": [{"ip": "10.1.2.4"}], "ports": [{"port": 80}]}]})).await;
    assert_eq!((moved.len(), &moved[0].metadata.uid), (1, &found[0].metadata.uid));
    assert_eq!(moved[0].endpoints.as_ref().unwrap()[0].addresses, ["10.1.2.4"]);
    let skip =
        |value: Value| json!({"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": value}}});
    assert!(change(skip(json!("true"))).await.is_empty());
    assert_eq!(change(skip(json!(null))).await.len(), 1);
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
