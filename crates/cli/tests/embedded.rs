//! Releases on the embedded cluster, as a person would make them.

mod support;

#[path = "../../registry/tests/support/mod.rs"]
mod servers;

use std::net::Ipv4Addr;

use serde_json::Value;
use servers::Repository;
use steersman_cluster::Cluster;
use support::{Outcome, Steer, outcome};

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

/// Rendering for a cluster happens within a runtime, in which fetching once panicked.
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
