//! The cluster's autoscalers compared to those of the real kube-controller-manager, with the same metrics.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use k8s_openapi::api::{
    apps::v1::Deployment,
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{Event, Namespace, Pod},
};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use steersman_cluster::{Cluster, Part};

use crate::metrics::available;

/// Time until the CPU usage of pods counts: more than the metrics' window.
const READY: Duration = Duration::from_secs(12);
/// Time in which the real controller evaluates an autoscaler five times.
const LOOKS: Duration = Duration::from_secs(85);

/// A deployment and its autoscaler.
struct Scenario {
    name: &'static str,
    replicas: i32,
    requests: Value,
    /// Initial CPU usage.
    usage: &'static str,
    /// The autoscaler's spec, without its target.
    spec: Value,
    /// Later CPU usage.
    later: Option<&'static str>,
}

fn cpu(percentage: i32) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": percentage});
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

fn scenarios() -> Vec<Scenario> {
    let requests = || json!({"cpu": "100m", "memory": "100Mi"});
    let value = |value: &str| json!({"type": "AverageValue", "averageValue": value});
    let scenario = |name, replicas, usage, spec| Scenario {
        name,
        replicas,
        requests: requests(),
        usage,
        spec,
        later: None,
    };
    let external = json!({"type": "External", "external": {
        "metric": {"name": "queue", "selector": {"matchLabels": {"a": "b"}}}, "target": value("1"),
    }});
    let object = json!({"type": "Object", "object": {
        "describedObject": {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "main"},
        "metric": {"name": "hits"}, "target": {"type": "Value", "value": "10"},
    }});
    let pods = json!({"type": "Pods", "pods": {"metric": {"name": "packets"}, "target": value("1k")}});
    let container = |container: &str| {
        json!({"type": "ContainerResource", "containerResource": {
            "name": "cpu", "container": container, "target": {"type": "Utilization", "averageUtilization": 20},
        }})
    };
    let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": value("20Mi")}});
    let quick = json!({"scaleDown": {"stabilizationWindowSeconds": 0}});
    vec![
        scenario("up", 2, "150m", json!({"maxReplicas": 10, "metrics": [cpu(50)]})),
        scenario("steady", 3, "55m", json!({"maxReplicas": 10, "metrics": [cpu(50)]})),
        scenario("stabilized", 4, "10m", json!({"maxReplicas": 10, "metrics": [cpu(50)]})),
        Scenario {
            later: Some("5m"),
            ..scenario(
                "down",
                2,
                "90m",
                json!({"minReplicas": 2, "maxReplicas": 5, "metrics": [cpu(50)], "behavior": quick}),
            )
        },
        scenario("few", 1, "50m", json!({"minReplicas": 3, "maxReplicas": 5, "metrics": [cpu(50)]})),
        scenario("many", 7, "50m", json!({"maxReplicas": 5, "metrics": [cpu(50)]})),
        scenario("asleep", 0, "50m", json!({"maxReplicas": 5, "metrics": [cpu(50)]})),
        scenario("memory", 2, "50m", json!({"maxReplicas": 4, "metrics": [memory]})),
        scenario("container", 1, "50m", json!({"maxReplicas": 4, "metrics": [container("c")]})),
        scenario("stranger", 1, "50m", json!({"maxReplicas": 4, "metrics": [container("other")]})),
        scenario("partly", 2, "100m", json!({"maxReplicas": 4, "metrics": [external, cpu(50)]})),
        scenario("custom", 2, "50m", json!({"maxReplicas": 4, "metrics": [pods, object]})),
        scenario(
            "disabled",
            2,
            "150m",
            json!({"maxReplicas": 9, "metrics": [cpu(50)], "behavior": {"scaleUp": {"selectPolicy": "Disabled"}}}),
        ),
        scenario(
            "tolerant",
            2,
            "70m",
            json!({"maxReplicas": 9, "metrics": [cpu(50)], "behavior": {"scaleUp": {"tolerance": "500m"}}}),
        ),
        Scenario {
            requests: json!({"memory": "1Mi"}),
            ..scenario("unrequested", 1, "50m", json!({"maxReplicas": 5, "metrics": [cpu(50)]}))
        },
        scenario(
            "lost",
            1,
            "50m",
            json!({
                "maxReplicas": 5,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "gone"},
            }),
        ),
        scenario(
            "unknown",
            1,
            "50m",
            json!({
                "maxReplicas": 5,
                "scaleTargetRef": {"apiVersion": "example.org/v1", "kind": "Nothing", "name": "gone"},
            }),
        ),
    ]
}

/// The outcome of a scenario.
type Outcome = BTreeMap<&'static str, Value>;

/// Runs all scenarios on a cluster, with its own controllers or the real ones.
async fn play(client: &Client) -> BTreeMap<&'static str, Outcome> {
    available(client).await;
    let (params, scenarios) = (PostParams::default(), scenarios());
    let namespaces: Api<Namespace> = Api::all(client.clone());
    for scenario in &scenarios {
        let namespace = json!({"metadata": {"name": scenario.name}});
        namespaces.create(&params, &serde_json::from_value(namespace).unwrap()).await.unwrap();
        let deployment = json!({
            "metadata": {"name": "web", "annotations": {"cluster.steersman.dev/cpu-usage": scenario.usage}},
            "spec": {
                "replicas": scenario.replicas,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [
                        {"name": "c", "image": "i", "resources": {"requests": scenario.requests}},
                    ]},
                },
            },
        });
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), scenario.name);
        deployments.create(&params, &serde_json::from_value(deployment).unwrap()).await.unwrap();
    }
    tokio::time::sleep(READY).await;
    for scenario in &scenarios {
        let mut spec = scenario.spec.clone();
        if spec["scaleTargetRef"].is_null() {
            spec["scaleTargetRef"] = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        }
        let scaler = json!({"metadata": {"name": "web"}, "spec": spec});
        let scalers: Api<HorizontalPodAutoscaler> = Api::namespaced(client.clone(), scenario.name);
        scalers.create(&params, &serde_json::from_value(scaler).unwrap()).await.unwrap();
    }
    tokio::time::sleep(LOOKS).await;
    for scenario in &scenarios {
        let Some(usage) = scenario.later else { continue };
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), scenario.name);
        let patch = json!({"metadata": {"annotations": {"cluster.steersman.dev/cpu-usage": usage}}});
        deployments.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
    tokio::time::sleep(LOOKS).await;
    let mut outcomes = BTreeMap::new();
    for scenario in &scenarios {
        outcomes.insert(scenario.name, outcome(client, scenario.name).await);
    }
    outcomes
}

async fn outcome(client: &Client, namespace: &str) -> Outcome {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let scalers: Api<HorizontalPodAutoscaler> = Api::namespaced(client.clone(), namespace);
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let names: Vec<String> = pods
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .into_iter()
        .filter_map(|pod| pod.metadata.name)
        .collect();
    // Pod names are random.
    let plain = |text: Option<String>| {
        names.iter().fold(text.unwrap_or_default(), |text, name| text.replace(name, "POD"))
    };
    let status = scalers.get("web").await.unwrap().status.unwrap_or_default();
    let mut conditions: Vec<_> = status
        .conditions
        .unwrap_or_default()
        .into_iter()
        .map(|c| (c.type_, c.status, c.reason.unwrap_or_default(), plain(c.message)))
        .collect();
    conditions.sort();
    let told: BTreeSet<_> = events
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .into_iter()
        .filter(|event| event.involved_object.kind.as_deref() == Some("HorizontalPodAutoscaler"))
        .map(|event| {
            (event.type_.unwrap_or_default(), event.reason.unwrap_or_default(), plain(event.message))
        })
        .collect();
    BTreeMap::from([
        ("replicas", json!(deployments.get("web").await.unwrap().spec.unwrap().replicas)),
        (
            "status",
            json!([status.current_replicas, status.desired_replicas, status.last_scale_time.is_some()]),
        ),
        ("metrics", json!(status.current_metrics)),
        ("conditions", json!(conditions)),
        ("events", json!(told)),
    ])
}

/// A kube-controller-manager that runs only the autoscaler controller. Stopped at the end of the test.
struct Manager {
    process: Child,
    log: PathBuf,
}

impl Manager {
    fn start(directory: &Path, kubeconfig: &Path) -> Self {
        let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../oracles/kubernetes/build");
        let built = Command::new(build).arg("kube-controller-manager").output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let program = String::from_utf8(built.stdout).unwrap();
        let log = directory.join("log");
        let output = std::fs::File::create(&log).unwrap();
        let mut command = Command::new(program.trim());
        for flag in ["--kubeconfig", "--authentication-kubeconfig", "--authorization-kubeconfig"] {
            command.arg(flag).arg(kubeconfig);
        }
        let process = command
            .args(["--controllers", "horizontal-pod-autoscaler-controller", "--leader-elect=false"])
            .args(["--bind-address", "127.0.0.1", "--secure-port", "0"])
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .unwrap();
        Self { process, log }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
#[ignore = "needs kube-controller-manager, and minutes"]
async fn autoscalers_do_and_say_what_the_real_ones_do() {
    let ours = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let cluster = Cluster::builder().seed(7).metrics(true).start().await.unwrap();
            play(&cluster.client()).await
        })
    });
    let directory = tempfile::tempdir().unwrap();
    let cluster = Cluster::builder()
        .metrics(true)
        .without(Part::Autoscalers)
        .listen(([127, 0, 0, 1], 0).into())
        .start()
        .await
        .unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    cluster.write_kubeconfig(&kubeconfig).unwrap();
    let mut manager = Manager::start(directory.path(), &kubeconfig);
    let real = play(&cluster.client()).await;
    assert!(manager.process.try_wait().unwrap().is_none(), "it ended: {}", manager.log());
    assert_eq!(real["up"]["replicas"], 10, "it did nothing: {}", manager.log());
    let ours = ours.join().unwrap();
    let (mut equal, mut differences) = (0, String::new());
    for (name, real) in &real {
        for (part, real) in real {
            let ours = &ours[name][part];
            if ours == real {
                equal += 1;
            } else {
                differences += &format!("{name}, {part}:\n  real {real}\n  ours {ours}\n");
            }
        }
    }
    println!("autoscalers: {} scenarios, {equal} parts of outcomes equal", real.len());
    assert!(differences.is_empty(), "{differences}");
}
