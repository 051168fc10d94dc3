//! The metrics API: usage of pods and nodes, in the formats that clients request.

use std::time::Duration;

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet},
        core::v1::{Node, Pod, Service},
        rbac::v1::RoleBinding,
    },
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams, PostParams},
    runtime::wait::await_condition,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use steersman_cluster::{Cluster, User};

const ROOT: &str = "/apis/metrics.k8s.io/v1beta1";
const NAME: &str = "v1beta1.metrics.k8s.io";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

fn read<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn is_available(service: Option<&APIService>) -> bool {
    let conditions = service.and_then(|s| s.status.as_ref()?.conditions.as_ref());
    conditions.is_some_and(|list| list.iter().any(|c| c.type_ == "Available" && c.status == "True"))
}

pub(crate) async fn available(client: &Client) {
    let services: Api<APIService> = Api::all(client.clone());
    await_condition(services, NAME, is_available).await.unwrap();
}

async fn get(client: &Client, path: &str, accept: &str) -> (u16, Value) {
    let request =
        http::Request::get(format!("{ROOT}{path}")).header("accept", accept).body(Vec::new()).unwrap();
    match client.request::<Value>(request).await {
        Ok(value) => (200, value),
        Err(kube::Error::Api(status)) => (status.code, serde_json::to_value(status).unwrap()),
        Err(error) => panic!("{error}"),
    }
}

async fn json_of(client: &Client, path: &str) -> Value {
    let (code, value) = get(client, path, "application/json").await;
    assert_eq!(code, 200, "{path}: {value}");
    value
}

fn pod(name: &str, labels: Value, requests: Value) -> Pod {
    read(json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [
            {"name": "main", "image": "i", "resources": {"requests": requests}},
            {"name": "side", "image": "i"},
        ]},
    }))
}

async fn start() -> (Cluster, Client) {
    let cluster = Cluster::builder().seed(7).nodes(2).metrics(true).start().await.unwrap();
    let client = cluster.client();
    available(&client).await;
    (cluster, client)
}

#[tokio::test(start_paused = true)]
async fn usage_follows_requests_and_annotations() {
    let (cluster, client) = start().await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let requests = json!({"cpu": "300m", "memory": "64Mi"});
    pods.create(&PostParams::default(), &pod("web", json!({"app": "web"}), requests)).await.unwrap();
    cluster.settled().await;
    let metrics = json_of(&client, "/namespaces/default/pods/web").await;
    assert_eq!(
        (&metrics["kind"], &metrics["apiVersion"]),
        (&json!("PodMetrics"), &json!("metrics.k8s.io/v1beta1"))
    );
    assert_eq!(metrics["metadata"]["labels"], json!({"app": "web"}));
    assert_eq!(metrics["window"], "10s");
    assert_eq!(
        metrics["containers"],
        json!([
            {"name": "main", "usage": {"cpu": "150m", "memory": "32Mi"}},
            {"name": "side", "usage": {"cpu": "1m", "memory": "8Mi"}},
        ])
    );
    let patch = json!({"metadata": {"annotations": {
        "cluster.steersman.dev/cpu-usage": "90%", "cluster.steersman.dev/memory-usage": "1Gi",
    }}});
    pods.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let metrics = json_of(&client, "/namespaces/default/pods/web").await;
    assert_eq!(metrics["containers"][0]["usage"], json!({"cpu": "270m", "memory": "1Gi"}));
    let node = pods.get("web").await.unwrap().spec.unwrap().node_name.unwrap();
    let of_node = json_of(&client, &format!("/nodes/{node}")).await;
    assert_eq!(of_node["usage"], json!({"cpu": "270m", "memory": "1Gi"}));
    assert_eq!(of_node["metadata"]["labels"]["kubernetes.io/hostname"], *node);
    let nodes = json_of(&client, "/nodes").await;
    assert_eq!(
        (nodes["kind"].as_str(), nodes["items"].as_array().unwrap().len()),
        (Some("NodeMetricsList"), 2)
    );
}

#[tokio::test(start_paused = true)]
async fn annotations_of_a_deployment_count_without_a_rollout() {
    let (cluster, client) = start().await;
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let web = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
            },
        },
    });
    deployments.create(&PostParams::default(), &read(web)).await.unwrap();
    cluster.settled().await;
    let annotate = async |value: Value| {
        let patch = json!({"metadata": {"annotations": {"cluster.steersman.dev/cpu-usage": value}}});
        deployments.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        cluster.settled().await;
        let list = json_of(&client, "/namespaces/default/pods").await;
        let usage = |item: &Value| item["containers"][0]["usage"]["cpu"].as_str().unwrap().to_owned();
        list["items"].as_array().unwrap().iter().map(usage).collect::<Vec<_>>()
    };
    assert_eq!(annotate(json!("450m")).await, ["450m", "450m"]);
    assert_eq!(annotate(json!("150%")).await, ["1500m", "1500m"]);
    // Invalid values are ignored.
    assert_eq!(annotate(json!("a lot")).await, ["500m", "500m"]);
    assert_eq!(annotate(Value::Null).await, ["500m", "500m"]);
    let sets: Api<ReplicaSet> = Api::default_namespaced(client);
    assert_eq!(sets.list(&ListParams::default()).await.unwrap().items.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_annotation_that_cannot_be_read_gives_a_warning() {
    use tower_service::Service as _;
    let (cluster, client) = start().await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let mut web = pod("web", json!({}), json!({}));
    web.metadata.annotations =
        Some([("cluster.steersman.dev/cpu-usage".to_owned(), "much".to_owned())].into());
    pods.create(&PostParams::default(), &web).await.unwrap();
    cluster.settled().await;
    let mut request = http::Request::get(format!("{ROOT}/pods")).body(kube::client::Body::empty()).unwrap();
    request.extensions_mut().insert(User::admin());
    let answer = cluster.server().service().call(request).await.unwrap();
    let warning = answer.headers()["warning"].to_str().unwrap();
    assert!(
        warning.starts_with("299 - \"pod default/web: ignored cluster.steersman.dev/cpu-usage"),
        "{warning}"
    );
}

#[tokio::test(start_paused = true)]
async fn selectors_choose_and_what_does_not_run_is_left_out() {
    let (cluster, client) = start().await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    for (name, app, fail) in [("a", "web", ""), ("b", "web", "image-pull"), ("c", "db", "")] {
        let mut pod = pod(name, json!({"app": app}), json!({}));
        pod.metadata.annotations = Some([("cluster.steersman.dev/fail".to_owned(), fail.to_owned())].into());
        pods.create(&PostParams::default(), &pod).await.unwrap();
    }
    cluster.settled().await;
    let names = async |path: &str| {
        let list = json_of(&client, path).await;
        let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned();
        list["items"].as_array().unwrap().iter().map(name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names("/pods").await, "a c");
    assert_eq!(names("/namespaces/default/pods?labelSelector=app%3Dweb").await, "a");
    assert_eq!(names("/pods?labelSelector=app+notin+%28web%29").await, "c");
    assert_eq!(names("/pods?fieldSelector=metadata.name%3Dc").await, "c");
    assert_eq!(names("/namespaces/kube-system/pods").await, "");
    let (code, refusal) = get(&client, "/pods?fieldSelector=spec.nodeName%3Dx", "application/json").await;
    let only =
        "\"spec.nodeName\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"";
    assert_eq!((code, refusal["message"].as_str()), (400, Some(only)));
    let (code, refusal) = get(&client, "/namespaces/default/pods/x", "application/json").await;
    assert_eq!((code, refusal["message"].as_str()), (404, Some("pods \"x\" not found")));
    let (code, refusal) = get(&client, "/namespaces/default/pods/b", "application/json").await;
    let none = "podmetrics.metrics.k8s.io \"default/b\" not found";
    assert_eq!((code, refusal["message"].as_str()), (404, Some(none)));
    assert_eq!(get(&client, "/nodes/x", "application/json").await.1["message"], "nodes \"x\" not found");
    assert_eq!(get(&client, "/pods/a", "application/json").await.0, 404);
    assert_eq!(get(&client, "/services", "application/json").await.0, 404);
    assert_eq!(get(&client, "/pods?watch=true", "application/json").await.0, 405);
    assert_eq!(get(&client, "/pods", "text/html").await.0, 406);
}

#[tokio::test(start_paused = true)]
async fn tables_have_the_columns_of_metrics_server() {
    let (cluster, client) = start().await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    assert_eq!(get(&client, "/pods", TABLE).await.1["columnDefinitions"], Value::Null);
    let requests = json!({"cpu": "300m", "memory": "64Mi"});
    pods.create(&PostParams::default(), &pod("web", json!({}), requests)).await.unwrap();
    cluster.settled().await;
    let (_, table) = get(&client, "/namespaces/default/pods", TABLE).await;
    let columns: Vec<_> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(columns, ["Name", "cpu", "memory", "Window"]);
    assert_eq!(table["rows"][0]["cells"], json!(["web", "151m", "40Mi", "10s"]));
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let (_, table) = get(&client, "/nodes/node-0?includeObject=Object", TABLE).await;
    assert_eq!((&table["kind"], &table["rows"][0]["cells"][0]), (&json!("Table"), &json!("node-0")));
    assert_eq!(table["rows"][0]["object"]["kind"], "NodeMetrics");
    let metadata = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let (_, list) = get(&client, "/pods", metadata).await;
    assert_eq!(list["items"][0]["metadata"]["name"], "web");
}

#[tokio::test(start_paused = true)]
async fn discovery_and_openapi_have_the_group() {
    let (_cluster, client) = start().await;
    let ask = async |path: &str| -> Value {
        client.request(http::Request::get(path).body(Vec::new()).unwrap()).await.unwrap()
    };
    let list = ask(ROOT).await;
    let resources: Vec<_> = list["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| (r["name"].as_str().unwrap(), r["kind"].as_str().unwrap(), r["namespaced"] == true))
        .collect();
    assert_eq!(resources, [("nodes", "NodeMetrics", false), ("pods", "PodMetrics", true)]);
    let group = kube::discovery::group(&client, "metrics.k8s.io").await.unwrap();
    assert_eq!(group.preferred_version(), Some("v1beta1"));
    let groups = kube::Discovery::new(client.clone()).run_aggregated().await.unwrap();
    assert!(groups.get("metrics.k8s.io").is_some_and(|group| group.recommended_kind("PodMetrics").is_some()));
    let v2 = ask("/openapi/v2").await;
    let definition = &v2["definitions"]["io.k8s.metrics.pkg.apis.metrics.v1beta1.PodMetrics"];
    let metadata = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    assert_eq!(definition["properties"]["metadata"]["$ref"], format!("#/definitions/{metadata}"));
    assert!(v2["definitions"][metadata]["properties"]["managedFields"].is_object());
    let v3 = ask("/openapi/v3").await;
    let url = v3["paths"]["apis/metrics.k8s.io/v1beta1"]["serverRelativeURL"].as_str().unwrap();
    assert!(ask(url).await["paths"][format!("{ROOT}/nodes")]["get"].is_object());
}

#[tokio::test(start_paused = true)]
async fn viewers_may_see_metrics_and_others_may_not() {
    let (cluster, client) = start().await;
    cluster.settled().await;
    let jane = cluster.client_as(User::named("jane", []));
    assert_eq!(get(&jane, "/namespaces/default/pods", "application/json").await.0, 403);
    let bindings: Api<RoleBinding> = Api::default_namespaced(client.clone());
    let binding = json!({
        "metadata": {"name": "view"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    });
    bindings.create(&PostParams::default(), &read(binding)).await.unwrap();
    assert_eq!(get(&jane, "/namespaces/default/pods", "application/json").await.0, 200);
    assert_eq!(get(&jane, "/nodes", "application/json").await.0, 403);
}

#[tokio::test(start_paused = true)]
async fn nodes_that_are_lost_have_no_metrics() {
    let (cluster, client) = start().await;
    cluster.settled().await;
    let nodes: Api<Node> = Api::all(client.clone());
    let patch = json!({"metadata": {"annotations": {"cluster.steersman.dev/lost": "true"}}});
    nodes.patch("node-1", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    cluster.settled().await;
    let list = json_of(&client, "/nodes").await;
    let names: Vec<_> =
        list["items"].as_array().unwrap().iter().map(|n| n["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["node-0"]);
    let (code, refusal) = get(&client, "/nodes/node-1", "application/json").await;
    let none = "nodemetrics.metrics.k8s.io \"node-1\" not found";
    assert_eq!((code, refusal["message"].as_str()), (404, Some(none)));
}

/// Installs what matters here of metrics-server's manifests.
async fn install(client: &Client, namespace: &str) {
    let labels = json!({"k8s-app": "metrics-server"});
    let deployment = json!({
        "metadata": {"name": "metrics-server", "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{
                    "name": "metrics-server",
                    "image": "registry.k8s.io/metrics-server/metrics-server:v0.8.0",
                    "ports": [{"containerPort": 10250, "name": "https", "protocol": "TCP"}],
                    "resources": {"requests": {"cpu": "100m", "memory": "200Mi"}},
                }]},
            },
        },
    });
    let service = json!({
        "metadata": {"name": "metrics-server", "labels": labels},
        "spec": {
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": "https"}],
            "selector": labels,
        },
    });
    let api_service = json!({
        "metadata": {"name": NAME, "labels": labels},
        "spec": {
            "group": "metrics.k8s.io",
            "groupPriorityMinimum": 100,
            "insecureSkipTLSVerify": true,
            "service": {"name": "metrics-server", "namespace": namespace},
            "version": "v1beta1",
            "versionPriority": 100,
        },
    });
    let params = PostParams::default();
    let services: Api<APIService> = Api::all(client.clone());
    services.create(&params, &read(api_service)).await.unwrap();
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);
    services.create(&params, &read(service)).await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    deployments.create(&params, &read(deployment)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_metrics_server_that_is_installed_works_once_its_pod_is_ready() {
    let cluster = Cluster::builder().seed(7).start().await.unwrap();
    let client = cluster.client();
    assert_eq!(get(&client, "/nodes", "application/json").await.0, 404);
    install(&client, "kube-system").await;
    available(&client).await;
    let list = json_of(&client, "/namespaces/kube-system/pods").await;
    assert_eq!(list["items"][0]["containers"][0]["usage"], json!({"cpu": "50m", "memory": "100Mi"}));
    // Without a ready pod, metrics are unavailable, as in any cluster.
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "kube-system");
    let patch = json!({"spec": {"replicas": 0}});
    deployments.patch("metrics-server", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let services: Api<APIService> = Api::all(client.clone());
    let is_missing = |service: Option<&APIService>| {
        let conditions = service.and_then(|s| s.status.as_ref()?.conditions.as_ref());
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|c| c.status == "False" && c.reason.as_deref() == Some("MissingEndpoints"))
    };
    await_condition(services, NAME, is_missing).await.unwrap();
    assert_eq!(get(&client, "/nodes", "application/json").await.0, 503);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_known_goes_first() {
    let cluster = Cluster::builder().seed(7).metrics(true).start().await.unwrap();
    let client = cluster.client();
    available(&client).await;
    cluster.webhooks_by("kube-system", "metrics-server", async |_| {
        http::Response::new(bytes::Bytes::from_static(b"{\"kind\": \"Mine\"}"))
    });
    assert_eq!(json_of(&client, "/nodes").await["kind"], "Mine");
}

#[tokio::test(start_paused = true)]
async fn without_workloads_only_the_option_serves_metrics() {
    let cluster = Cluster::builder().seed(7).workloads(false).metrics(true).start().await.unwrap();
    available(&cluster.client()).await;
    assert_eq!(json_of(&cluster.client(), "/nodes").await["items"], json!([]));
    let cluster = Cluster::builder().seed(7).workloads(false).start().await.unwrap();
    install(&cluster.client(), "kube-system").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let services: Api<APIService> = Api::all(cluster.client());
    assert!(!is_available(Some(&services.get(NAME).await.unwrap())));
}

#[cfg(feature = "data-dir")]
#[tokio::test]
async fn a_cluster_that_was_kept_starts_again() {
    let directory = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let cluster =
            Cluster::builder().metrics(true).data_directory(directory.path()).start().await.unwrap();
        available(&cluster.client()).await;
        cluster.settled().await;
        assert_eq!(json_of(&cluster.client(), "/nodes").await["items"].as_array().unwrap().len(), 1);
    }
}
