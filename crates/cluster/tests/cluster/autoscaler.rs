//! HorizontalPodAutoscalers, in virtual time.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        autoscaling::v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus},
        core::v1::{Event, Pod},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use steersman_cluster::Cluster;

use crate::metrics::available;

fn read<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// A cluster with the deployment `web`, whose pods request 100m each.
struct Scene {
    cluster: Cluster,
    deployments: Api<Deployment>,
    scalers: Api<HorizontalPodAutoscaler>,
}

impl Scene {
    async fn start(replicas: i32, requests: Value) -> Self {
        let cluster = Cluster::builder().seed(7).metrics(true).start().await.unwrap();
        let client = cluster.client();
        available(&client).await;
        let scene = Self {
            deployments: Api::default_namespaced(client.clone()),
            scalers: Api::default_namespaced(client),
            cluster,
        };
        let web = json!({
            "metadata": {"name": "web"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]},
                },
            },
        });
        scene.deployments.create(&PostParams::default(), &read(web)).await.unwrap();
        scene.wait(60).await;
        scene
    }

    async fn wait(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        self.cluster.settled().await;
    }

    async fn scale_by(&self, spec: Value) {
        let mut spec = spec;
        if spec["scaleTargetRef"].is_null() {
            spec["scaleTargetRef"] = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        }
        let scaler = json!({"metadata": {"name": "web"}, "spec": spec});
        self.scalers.create(&PostParams::default(), &read(scaler)).await.unwrap();
        self.cluster.settled().await;
    }

    async fn annotate(&self, usage: &str) {
        let patch = json!({"metadata": {"annotations": {"cluster.steersman.dev/cpu-usage": usage}}});
        self.deployments.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        self.cluster.settled().await;
    }

    async fn replicas(&self) -> i32 {
        self.deployments.get("web").await.unwrap().spec.unwrap().replicas.unwrap()
    }

    async fn status(&self) -> HorizontalPodAutoscalerStatus {
        self.scalers.get("web").await.unwrap().status.unwrap()
    }

    /// Status and reason of each condition.
    async fn conditions(&self) -> BTreeMap<String, (String, String)> {
        let conditions = self.status().await.conditions.unwrap_or_default();
        conditions.into_iter().map(|c| (c.type_, (c.status, c.reason.unwrap_or_default()))).collect()
    }

    async fn condition(&self, type_: &str) -> (String, String, String) {
        let conditions = self.status().await.conditions.unwrap_or_default();
        let condition = conditions.into_iter().find(|c| c.type_ == type_).unwrap();
        (condition.status, condition.reason.unwrap_or_default(), condition.message.unwrap_or_default())
    }

    /// Returns reasons and messages of the autoscaler's events.
    async fn events(&self) -> Vec<(String, String)> {
        let events: Api<Event> = Api::default_namespaced(self.cluster.client());
        let list = events.list(&ListParams::default()).await.unwrap();
        list.items
            .into_iter()
            .filter(|event| event.involved_object.kind.as_deref() == Some("HorizontalPodAutoscaler"))
            .map(|event| (event.reason.unwrap_or_default(), event.message.unwrap_or_default()))
            .collect()
    }
}

fn by_cpu(target: Value) -> Value {
    json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}])
}

fn utilization(percentage: i32) -> Value {
    json!({"type": "Utilization", "averageUtilization": percentage})
}

fn pair(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_deployment_grows_at_once_and_shrinks_after_five_minutes() {
    let scene = Scene::start(2, json!({"cpu": "100m"})).await;
    scene.scale_by(json!({"minReplicas": 2, "maxReplicas": 10, "metrics": by_cpu(utilization(50))})).await;
    assert_eq!(scene.replicas().await, 2);
    let expected = BTreeMap::from([
        ("AbleToScale".to_owned(), pair("True", "ReadyForNewScale")),
        ("ScalingActive".to_owned(), pair("True", "ValidMetricFound")),
        ("ScalingLimited".to_owned(), pair("False", "DesiredWithinRange")),
    ]);
    assert_eq!(scene.conditions().await, expected);
    let current = scene.status().await.current_metrics.unwrap();
    let current = &current[0].resource.as_ref().unwrap().current;
    assert_eq!(current.average_utilization, Some(50));
    assert_eq!(current.average_value.as_ref().map(|value| value.0.as_str()), Some("50m"));

    // 150 % are three times the target: six of two replicas, limited to four at first.
    scene.annotate("150m").await;
    scene.wait(15).await;
    assert_eq!(scene.replicas().await, 4);
    assert_eq!(scene.conditions().await["ScalingLimited"], pair("True", "ScaleUpLimit"));
    assert_eq!(scene.conditions().await["AbleToScale"], pair("True", "SucceededRescale"));
    scene.wait(120).await;
    assert_eq!(scene.replicas().await, 10);
    assert_eq!(scene.conditions().await["ScalingLimited"], pair("True", "TooManyReplicas"));

    scene.annotate("5m").await;
    scene.wait(290).await;
    assert_eq!(scene.replicas().await, 10);
    assert_eq!(scene.conditions().await["AbleToScale"], pair("True", "ScaleDownStabilized"));
    scene.wait(30).await;
    assert_eq!(scene.replicas().await, 2);
    scene.wait(15).await;
    assert_eq!(scene.conditions().await["ScalingLimited"], pair("True", "TooFewReplicas"));
    let events = scene.events().await;
    let above = "New size: 4; reason: cpu resource utilization (percentage of request) above target";
    assert!(events.contains(&pair("SuccessfulRescale", above)), "{events:?}");
    assert!(
        events.contains(&pair("SuccessfulRescale", "New size: 2; reason: All metrics below target")),
        "{events:?}"
    );
    let status = scene.status().await;
    assert_eq!((status.current_replicas, status.desired_replicas), (Some(2), 2));
}

#[tokio::test(start_paused = true)]
async fn policies_say_how_fast() {
    let scene = Scene::start(1, json!({"cpu": "100m"})).await;
    let policy = |value: i32, period: i32| json!([{"type": "Pods", "value": value, "periodSeconds": period}]);
    scene.annotate("500m").await;
    scene
        .scale_by(json!({
            "maxReplicas": 9,
            "metrics": by_cpu(json!({"type": "AverageValue", "averageValue": "50m"})),
            "behavior": {
                "scaleUp": {"policies": policy(1, 60)},
                "scaleDown": {"stabilizationWindowSeconds": 30, "policies": policy(2, 60)},
            },
        }))
        .await;
    assert_eq!(scene.replicas().await, 2);
    scene.wait(45).await;
    assert_eq!(scene.replicas().await, 2);
    assert_eq!(scene.conditions().await["ScalingLimited"], pair("True", "ScaleUpLimit"));
    scene.wait(15).await;
    assert_eq!(scene.replicas().await, 3);
    scene.wait(600).await;
    assert_eq!(scene.replicas().await, 9);
    scene.annotate("1m").await;
    scene.wait(15).await;
    assert_eq!(scene.conditions().await["AbleToScale"], pair("True", "ScaleDownStabilized"));
    scene.wait(30).await;
    assert_eq!(scene.replicas().await, 7);
    assert_eq!(scene.conditions().await["ScalingLimited"], pair("True", "ScaleDownLimit"));
    scene.wait(60).await;
    assert_eq!(scene.replicas().await, 5);
}

#[tokio::test(start_paused = true)]
async fn bounds_count_without_metrics() {
    let scene = Scene::start(1, json!({})).await;
    scene.scale_by(json!({"minReplicas": 3, "maxReplicas": 5, "metrics": by_cpu(utilization(50))})).await;
    assert_eq!(scene.replicas().await, 3);
    let reason = "New size: 3; reason: Current number of replicas below Spec.MinReplicas";
    assert!(scene.events().await.contains(&pair("SuccessfulRescale", reason)));
    let patch = json!({"spec": {"replicas": 8}});
    scene.deployments.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    scene.wait(15).await;
    assert_eq!(scene.replicas().await, 5);
    let patch = json!({"spec": {"replicas": 0}});
    scene.deployments.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    scene.wait(15).await;
    assert_eq!(scene.replicas().await, 0);
    assert_eq!(scene.conditions().await["ScalingActive"], pair("False", "ScalingDisabled"));
}

#[tokio::test(start_paused = true)]
async fn requests_that_are_missing_are_named() {
    let scene = Scene::start(1, json!({"memory": "1Mi"})).await;
    let pods: Api<Pod> = Api::default_namespaced(scene.cluster.client());
    let pod = pods.list(&ListParams::default()).await.unwrap().items.remove(0).metadata.name.unwrap();
    scene.scale_by(json!({"maxReplicas": 5, "metrics": by_cpu(utilization(50))})).await;
    let why = format!("failed to get cpu utilization: missing request for cpu in container c of Pod {pod}");
    let (status, reason, message) = scene.condition("ScalingActive").await;
    assert_eq!((status.as_str(), reason.as_str()), ("False", "FailedGetResourceMetric"));
    assert_eq!(message, format!("the HPA was unable to compute the replica count: {why}"));
    let events = scene.events().await;
    assert!(events.contains(&pair("FailedGetResourceMetric", &why)), "{events:?}");
    let summary = format!(
        "invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: {why}"
    );
    assert!(events.contains(&pair("FailedComputeMetricsReplicas", &summary)), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn the_largest_of_several_metrics_wins_and_one_that_fails_keeps_from_shrinking() {
    let scene = Scene::start(4, json!({"cpu": "100m", "memory": "100Mi"})).await;
    let memory = |percentage| json!({"type": "Resource", "resource": {"name": "memory", "target": utilization(percentage)}});
    let queue = json!({"type": "External", "external": {
        "metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "1"},
    }});
    // 50 % memory usage is 2.5 times the target of 20 %: 10 of 4 replicas, limited to 8 at once.
    let mut metrics = by_cpu(utilization(90));
    metrics.as_array_mut().unwrap().push(memory(20));
    scene.scale_by(json!({"maxReplicas": 20, "metrics": metrics})).await;
    assert_eq!(scene.replicas().await, 8);
    let status = scene.status().await.current_metrics.unwrap();
    let average = status[1].resource.as_ref().unwrap().current.average_value.clone().unwrap();
    assert_eq!(average.0, "50Mi");

    let mut metrics = by_cpu(utilization(90));
    metrics.as_array_mut().unwrap().push(queue);
    let patch = json!({"spec": {"metrics": metrics}});
    scene.scalers.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    scene.wait(600).await;
    assert_eq!(scene.replicas().await, 8);
    assert_eq!(scene.conditions().await["ScalingActive"], pair("False", "FailedGetExternalMetric"));
    // The other metric still scales up: 180 % are twice the target of 90 %.
    scene.annotate("180m").await;
    scene.wait(15).await;
    assert_eq!(scene.replicas().await, 16);
    assert_eq!(scene.conditions().await["ScalingActive"], pair("True", "ValidMetricFound"));
}

#[tokio::test(start_paused = true)]
async fn one_container_counts_alone() {
    let scene = Scene::start(1, json!({"cpu": "100m"})).await;
    let by = |container: &str| {
        json!([{"type": "ContainerResource", "containerResource": {
            "name": "cpu", "container": container, "target": utilization(25),
        }}])
    };
    scene.scale_by(json!({"maxReplicas": 5, "metrics": by("c")})).await;
    assert_eq!(scene.replicas().await, 2);
    let (_, _, message) = scene.condition("ScalingActive").await;
    assert!(message.ends_with("cpu container resource utilization (percentage of request)"), "{message}");
    let patch = json!({"spec": {"metrics": by("d")}});
    scene.scalers.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    scene.cluster.settled().await;
    assert_eq!(scene.conditions().await["ScalingActive"], pair("False", "FailedGetContainerResourceMetric"));
}

#[tokio::test(start_paused = true)]
async fn pods_that_two_autoscalers_select_are_not_scaled() {
    let scene = Scene::start(2, json!({"cpu": "100m"})).await;
    let spec = json!({"maxReplicas": 9, "metrics": by_cpu(utilization(50))});
    scene.scale_by(spec.clone()).await;
    let mut other = json!({"metadata": {"name": "again"}, "spec": spec});
    other["spec"]["scaleTargetRef"] = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    scene.scalers.create(&PostParams::default(), &read(other)).await.unwrap();
    scene.annotate("900m").await;
    scene.wait(30).await;
    assert_eq!(scene.replicas().await, 2);
    let (_, reason, message) = scene.condition("ScalingActive").await;
    assert_eq!(reason, "AmbiguousSelector");
    let all = "pods by selector app=web are controlled by multiple HPAs: [{again default} {web default}]";
    assert_eq!(message, all);
}

#[tokio::test(start_paused = true)]
async fn targets_of_unknown_kinds_and_names_are_reported() {
    let scene = Scene::start(1, json!({"cpu": "100m"})).await;
    let target = json!({"apiVersion": "example.org/v1", "kind": "Nothing", "name": "web"});
    scene.scale_by(json!({"maxReplicas": 5, "scaleTargetRef": target})).await;
    let unable =
        |why: &str| format!("the HPA controller was unable to get the target's current scale: {why}");
    let (status, reason, message) = scene.condition("AbleToScale").await;
    assert_eq!((status.as_str(), reason.as_str()), ("False", "FailedGetScale"));
    assert_eq!(message, unable("no matches for kind \"Nothing\" in group \"example.org\""));
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "gone"});
    let patch = json!({"spec": {"scaleTargetRef": target}});
    scene.scalers.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    scene.cluster.settled().await;
    assert_eq!(scene.condition("AbleToScale").await.2, unable("deployments.apps \"gone\" not found"));
}

async fn create_definition(client: &Client) {
    let replicas = |name: &str| json!({"type": "object", "properties": {name: {"type": "integer"}, "selector": {"type": "string"}}});
    let definition = json!({
        "metadata": {"name": "farms.example.org"},
        "spec": {
            "group": "example.org",
            "names": {"kind": "Farm", "plural": "farms", "singular": "farm"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": replicas("size"), "status": replicas("size"),
                }}},
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.size",
                        "statusReplicasPath": ".status.size",
                        "labelSelectorPath": ".status.selector",
                    },
                },
            }],
        },
    });
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &read(definition)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn custom_kinds_are_scaled_by_their_subresource() {
    let scene = Scene::start(1, json!({"cpu": "100m"})).await;
    let client = scene.cluster.client();
    create_definition(&client).await;
    scene.wait(5).await;
    let post = async |method: http::Method, path: &str, body: Value| -> Value {
        let request = http::Request::builder()
            .method(method)
            .uri(format!("/apis/example.org/v1/namespaces/default/farms{path}"))
            .header("content-type", "application/json")
            .body(serde_json::to_vec(&body).unwrap())
            .unwrap();
        client.request(request).await.unwrap()
    };
    let farm = json!({
        "apiVersion": "example.org/v1", "kind": "Farm", "metadata": {"name": "web"}, "spec": {"size": 1},
    });
    let mut farm = post(http::Method::POST, "", farm).await;
    farm["status"] = json!({"size": 1, "selector": "app=web"});
    post(http::Method::PUT, "/web/status", farm).await;
    let target = json!({"apiVersion": "example.org/v1", "kind": "Farm", "name": "web"});
    // Half of the request is five times the target of 10 %.
    scene
        .scale_by(json!({"maxReplicas": 3, "scaleTargetRef": target, "metrics": by_cpu(utilization(10))}))
        .await;
    let farm: Value = client
        .request(
            http::Request::get("/apis/example.org/v1/namespaces/default/farms/web").body(Vec::new()).unwrap(),
        )
        .await
        .unwrap();
    assert_eq!(farm["spec"]["size"], 3);
    assert_eq!(scene.conditions().await["AbleToScale"], pair("True", "SucceededRescale"));
}

#[tokio::test(start_paused = true)]
async fn a_slow_metrics_server_is_waited_for() {
    let scene = Scene::start(1, json!({"cpu": "100m"})).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let pods: Api<Pod> = Api::default_namespaced(scene.cluster.client());
    let pod = pods.list(&ListParams::default()).await.unwrap().items.remove(0).metadata.name.unwrap();
    let now = scene.cluster.environment().now().to_string();
    scene.cluster.webhooks_by("kube-system", "metrics-server", move |request| {
        let list = json!({"items": [{
            "metadata": {"name": pod}, "timestamp": now, "window": "10s",
            "containers": [{"name": "c", "usage": {"cpu": "200m"}}],
        }]});
        let is_list = request.uri().path().ends_with("/pods");
        counter.fetch_add(usize::from(is_list), Ordering::Relaxed);
        async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            http::Response::new(bytes::Bytes::from(list.to_string()))
        }
    });
    scene.scale_by(json!({"maxReplicas": 2, "metrics": by_cpu(utilization(50))})).await;
    scene.wait(1).await;
    assert_eq!(scene.replicas().await, 2);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn without_the_metrics_api_the_condition_says_so() {
    let cluster = Cluster::builder().seed(7).start().await.unwrap();
    let client = cluster.client();
    let scene = Scene {
        deployments: Api::default_namespaced(client.clone()),
        scalers: Api::default_namespaced(client),
        cluster,
    };
    let web = json!({
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    });
    scene.deployments.create(&PostParams::default(), &read(web)).await.unwrap();
    scene.cluster.settled().await;
    scene.scale_by(json!({"maxReplicas": 5})).await;
    let (_, reason, message) = scene.condition("ScalingActive").await;
    assert_eq!(reason, "FailedGetResourceMetric");
    assert_eq!(
        message,
        "the HPA was unable to compute the replica count: failed to get cpu utilization: unable to get metrics for \
         resource cpu: unable to fetch metrics from resource metrics API: the server could not find the requested \
         resource (get pods.metrics.k8s.io)"
    );
    // There is one evaluation per period, however often the item is enqueued.
    let revision = scene.cluster.server().store().revision();
    scene.wait(1).await;
    assert_eq!(scene.cluster.server().store().revision(), revision);
}
