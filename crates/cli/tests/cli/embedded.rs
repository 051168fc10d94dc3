//! Releases on the embedded cluster, as a person would make them.

use std::net::Ipv4Addr;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, PostParams};
use serde_json::{Value, json};
use steersman_cluster::Cluster;

use crate::servers::Repository;
use crate::support::{Outcome, Steer, outcome};

/// A cluster, and the program that speaks to it.
struct Place {
    steer: Steer,
    _cluster: Cluster,
}

impl Place {
    async fn new() -> Self {
        let cluster = Cluster::builder().listen((Ipv4Addr::LOCALHOST, 0).into()).start().await.unwrap();
        let steer = Steer::new();
        cluster.write_kubeconfig(steer.path("kubeconfig")).unwrap();
        Self { steer, _cluster: cluster }
    }

    fn run(&self, arguments: &[&str]) -> Outcome {
        outcome(self.steer.command(arguments).env("KUBECONFIG", self.steer.path("kubeconfig")))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_tests_wrote_does_not_mix_with_data() {
    let place = Place::new().await;
    let test = "apiVersion: v1
kind: Pod
metadata:
  name: check
  annotations: {helm.sh/hook: test, cluster.steersman.dev/logs: all is well}
spec: {restartPolicy: Never, containers: [{name: c, image: check}]}
";
    let chart = place.steer.chart("tested", &[("templates/test.yaml", test)]);
    place.run(&["install", "shop", &chart]).success();
    let done = place.run(&["test", "shop", "--logs", "-o", "json"]);
    assert!(done.stderr.contains("POD LOGS: check\nall is well"), "{}", done.stderr);
    let data: Value = serde_json::from_str(&done.success()).unwrap();
    assert_eq!(data["name"], "shop");
    let table = place.run(&["test", "shop", "--logs"]).success();
    assert!(table.contains("POD LOGS: check\nall is well\n"), "{table}");
}

/// Regression test: rendering for a cluster runs inside a runtime, in which fetching a schema panicked.
#[tokio::test(flavor = "multi_thread")]
async fn schemas_are_fetched_while_a_chart_is_installed() {
    let repository = Repository::default();
    repository.put("/replicas.json", r#"{"type": "integer", "maximum": 3}"#);
    let url = repository.start().await;
    let place = Place::new().await;
    let schema = format!(r#"{{"properties": {{"replicas": {{"$ref": "{url}/replicas.json"}}}}}}"#);
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n";
    let chart =
        place.steer.chart("checked", &[("values.schema.json", schema.as_str()), ("templates/c.yaml", map)]);
    let refused = place.run(&["install", "shop", &chart, "--set", "replicas=4"]).failure();
    assert!(refused.contains("replicas"), "{refused}");
    place.run(&["install", "shop", &chart, "--set", "replicas=3"]).success();
}

/// Regression test: the operator ran on the current context's cluster, ignoring the requested context.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_runs_on_the_cluster_that_is_asked_for() {
    let place = Place::new().await;
    let client = place._cluster.client();
    let project = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/minimart");
    let crd = format!("{project}/config/crd/bases/charts.samutup.com_minimarts.yaml");
    let crd = steersman_yaml::from_slice_as(&std::fs::read(crd).unwrap()).unwrap();
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    crds.create(&PostParams::default(), &crd).await.unwrap();
    // The current context points to no cluster.
    let text = std::fs::read_to_string(place.steer.path("kubeconfig")).unwrap();
    let mut config: Value = steersman_yaml::from_str(&text).unwrap();
    let own = config["current-context"].as_str().unwrap().to_owned();
    let nowhere = json!({ "name": "nowhere", "cluster": { "server": "https://127.0.0.1:1" } });
    config["clusters"].as_array_mut().unwrap().push(nowhere);
    let user = config["contexts"][0]["context"]["user"].clone();
    let nowhere = json!({ "name": "nowhere", "context": { "cluster": "nowhere", "user": user } });
    config["contexts"].as_array_mut().unwrap().push(nowhere);
    config["current-context"] = json!("nowhere");
    std::fs::write(place.steer.path("kubeconfig"), config.to_string()).unwrap();

    let resource = ApiResource {
        group: "charts.samutup.com".into(),
        version: "v1alpha1".into(),
        api_version: "charts.samutup.com/v1alpha1".into(),
        kind: "Minimart".into(),
        plural: "minimarts".into(),
    };
    let shops: Api<DynamicObject> = Api::namespaced_with(client, "default", &resource);
    let watches = format!("{project}/watches.yaml");
    for (index, by_flag) in [true, false].into_iter().enumerate() {
        let mut command = place.steer.command(&["run", "helm", "--watches-file", &watches]);
        command.args(["--metrics-bind-address=0", "--health-probe-bind-address=0"]);
        command.env("KUBECONFIG", place.steer.path("kubeconfig")).stderr(std::process::Stdio::null());
        if by_flag {
            command.args(["--kube-context", &own]);
        } else {
            command.env("HELM_KUBECONTEXT", &own);
        }
        let mut operator = command.spawn().unwrap();
        let name = format!("corner-{index}");
        let shop = DynamicObject::new(&name, &resource).data(json!({ "spec": {} }));
        shops.create(&PostParams::default(), &shop).await.unwrap();
        let watched =
            kube::runtime::wait::await_condition(shops.clone(), &name, |shop: Option<&DynamicObject>| {
                shop.is_some_and(|shop| shop.data["status"]["deployedRelease"].is_object())
            });
        let deployed = tokio::time::timeout(std::time::Duration::from_secs(60), watched).await;
        operator.kill().unwrap();
        operator.wait().unwrap();
        assert!(deployed.is_ok(), "the operator works elsewhere");
    }
    let missing = place.run(&["list", "--kube-context", "unheard-of"]).failure();
    assert!(missing.contains("unheard-of"), "{missing}");
}
