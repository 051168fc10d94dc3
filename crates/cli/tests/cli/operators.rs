//! Chart operators as users run them: `steer run helm` under its own role, watched by kubectl.
//!
//! Needs Kubernetes' programs (`oracles/kubernetes/build`); `make oracle-helm-operator` runs it. Each flow is tried on the
//! embedded and on the real control plane.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::planes::{
    Plane, Running, assert_compared, differences, only, root, shared_chart, steer, tool, until,
};

/// A project, and the steps to test on it.
struct Flow {
    project: PathBuf,
    /// As in `minimarts.charts.samutup.com`.
    resource: &'static str,
    sample: &'static str,
    namespace: &'static str,
    account: &'static str,
    /// The workload that the sample creates, as in `deployment/name`.
    workload: &'static str,
    /// The number of replicas before and after the upgrade.
    replicas: (i64, i64),
    /// A value that is rejected.
    bad: Value,
    good: Value,
}

fn flows() -> Vec<Flow> {
    let example = |name: &str| root().join("examples").join(name);
    vec![
        Flow {
            project: example("minimart"),
            resource: "minimarts.charts.samutup.com",
            sample: "minimart-sample",
            namespace: "minimart-system",
            account: "minimart-operator",
            workload: "deployment/minimart-sample",
            replicas: (1, 3),
            // The chart's own schema rejects this.
            bad: json!({ "replicaCount": "many" }),
            good: json!({ "replicaCount": 3 }),
        },
        Flow {
            project: example("nginx"),
            resource: "nginxes.demo.example.com",
            sample: "nginx-sample",
            namespace: "nginx-system",
            account: "nginx-operator",
            workload: "deployment/nginx-sample-nginx",
            replicas: (2, 4),
            bad: json!({ "service": { "port": 123_456 } }),
            good: json!({ "service": { "port": 8080 } }),
        },
        Flow {
            project: Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/projects/memcached"),
            resource: "memcacheds.cache.example.com",
            sample: "memcached-sample",
            namespace: "memcached-system",
            account: "memcached-operator",
            workload: "statefulset/memcached-sample-memcached",
            replicas: (2, 5),
            bad: json!({ "pdbMinAvailable": -1 }),
            good: json!({ "pdbMinAvailable": 1 }),
        },
    ]
}

/// Starts `steer run helm` with a kubeconfig, logging to a file.
fn operate(plane: &Plane, project: &Path, kubeconfig: &Path) -> (Running, PathBuf) {
    let log = plane.path("operator.log");
    let file = std::fs::File::create(&log).unwrap();
    let watches = project.join("watches.yaml");
    let mut command = plane.command(
        &steer(),
        &["run", "helm", "--metrics-bind-address=0", "--health-probe-bind-address=0", "--watches-file"],
    );
    command.arg(&watches).env("KUBECONFIG", kubeconfig).env("MEMCACHED_TAG", "1.6.40");
    let child = command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
    (Running(child), log)
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
}

/// Returns the conditions that kubectl saw, in order, as in `Deployed=True/InstallSuccessful`.
fn seen(watched: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(watched).unwrap();
    let mut states: Vec<String> = Vec::new();
    let mut known: Vec<String> = Vec::new();
    for object in serde_json::Deserializer::from_str(&text).into_iter::<Value>().map_while(Result::ok) {
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let part = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
        let now: Vec<String> = conditions
            .iter()
            .map(|one| format!("{}={}/{}", part(one, "type"), part(one, "status"), part(one, "reason")))
            .collect();
        states.extend(now.iter().filter(|state| !known.contains(state)).cloned());
        let gone = |state: &&String| {
            let kind = state.split('=').next().unwrap_or_default();
            !now.iter().any(|other| other.split('=').next() == Some(kind))
        };
        states.extend(
            known.iter().filter(gone).map(|state| format!("no {}", state.split('=').next().unwrap_or(""))),
        );
        known = now;
    }
    states
}

/// Asserts that the states contain these in this order.
#[track_caller]
fn assert_in_order(states: &[String], wanted: &[&str]) {
    let mut left = states.iter();
    for state in wanted {
        assert!(left.any(|seen| seen == state), "{state} is not in its place among {states:#?}");
    }
}

impl Flow {
    fn run(&self, plane: &Plane) {
        let path = |name: &str| self.project.join(name).display().to_string();
        plane.kubectl(&["apply", "-f", &path("config/crd/bases")]).success();
        plane
            .kubectl(&["wait", "--for=condition=Established", "crd", self.resource, "--timeout=30s"])
            .success();
        plane.kubectl(&["apply", "-f", &path("config/rbac/namespace.yaml")]).success();
        plane.kubectl(&["apply", "-f", &path("config/rbac")]).success();
        let kubeconfig = plane.kubeconfig_of(self.namespace, self.account);
        let (mut operator, log) = operate(plane, &self.project, &kubeconfig);

        plane.kubectl(&["apply", "-f", &path("config/samples")]).success();
        let watched = plane.path("watched");
        let mut watch = plane.kubectl_command(&["get", self.resource, self.sample, "--watch", "-o", "json"]);
        let watch =
            watch.stdout(std::fs::File::create(&watched).unwrap()).stderr(Stdio::null()).spawn().unwrap();
        let mut watch = Running(watch);

        self.opens(plane, &log);
        self.upgrades(plane);
        self.comes_back(plane);
        self.says_what_is_wrong(plane);
        self.ends(plane);
        watch.stop();
        assert_in_order(
            &seen(&watched),
            &[
                "Initialized=True/",
                "Deployed=True/InstallSuccessful",
                "Ready=True/WorkloadsReady",
                "Deployed=True/UpgradeSuccessful",
                "Ready=True/WorkloadsReady",
                "ReleaseFailed=True/UpgradeError",
                "Ready=True/WorkloadsReady",
                "no ReleaseFailed",
            ],
        );
        assert_eq!(operator.stop(), 0, "{}", std::fs::read_to_string(&log).unwrap_or_default());
    }

    fn wait(&self, plane: &Plane, what: &str) {
        let said =
            plane.kubectl(&["wait", &format!("--for={what}"), self.resource, self.sample, "--timeout=60s"]);
        let now = || plane.get(&[self.resource, self.sample]).map(|object| object["status"].clone());
        assert_eq!(said.code, 0, "{what}: {}\n{:#?}", said.stderr, now());
    }

    fn replicas(&self, plane: &Plane) -> Option<i64> {
        plane.get(&[self.workload])?["spec"]["replicas"].as_i64()
    }

    fn patch(&self, plane: &Plane, spec: &Value) {
        let patch = json!({ "spec": spec }).to_string();
        plane.kubectl(&["patch", self.resource, self.sample, "--type=merge", "-p", &patch]).success();
    }

    fn opens(&self, plane: &Plane, log: &Path) {
        let said =
            plane.kubectl(&["wait", "--for=condition=Deployed", self.resource, self.sample, "--timeout=60s"]);
        assert_eq!(said.code, 0, "{}\n{}", said.stderr, std::fs::read_to_string(log).unwrap_or_default());
        self.wait(plane, "condition=Ready");
        let object = plane.get(&[self.resource, self.sample]).unwrap();
        assert_eq!(
            object["metadata"]["finalizers"],
            json!(["helm.sdk.operatorframework.io/uninstall-release"])
        );
        assert_eq!(object["status"]["deployedRelease"]["name"], self.sample);
        assert_eq!(self.replicas(plane), Some(self.replicas.0));
        let workload = plane.get(&[self.workload]).unwrap();
        assert_eq!(workload["metadata"]["ownerReferences"][0]["name"], self.sample);
        assert_eq!(workload["metadata"]["ownerReferences"][0]["controller"], true);
        // The real helm can read the release too.
        let helm = plane.run(&tool("helm"), &["status", self.sample, "-o", "json"]).success();
        let helm: Value = serde_json::from_str(&helm).unwrap();
        assert_eq!((&helm["info"]["status"], &helm["version"]), (&json!("deployed"), &json!(1)));
    }

    fn upgrades(&self, plane: &Plane) {
        self.patch(plane, &json!({ "replicaCount": self.replicas.1 }));
        until("the workload is scaled", || (self.replicas(plane) == Some(self.replicas.1)).then_some(()));
        self.wait(plane, "condition=Ready");
        until("the upgrade is told of", || {
            let object = plane.get(&[self.resource, self.sample])?;
            let history = object["status"]["history"].as_array()?;
            (history.len() == 2 && condition(&object, "Deployed")?["reason"] == "UpgradeSuccessful")
                .then_some(())
        });
    }

    fn comes_back(&self, plane: &Plane) {
        let uid = |plane: &Plane| plane.get(&[self.workload]).map(|found| found["metadata"]["uid"].clone());
        let before = uid(plane).unwrap();
        plane.kubectl(&["delete", self.workload, "--wait=false"]).success();
        until("the deleted workload is back", || uid(plane).filter(|now| *now != before));
        let label =
            json!({ "metadata": { "labels": { "helm.sdk.operatorframework.io/chart": null } } }).to_string();
        plane.kubectl(&["patch", self.workload, "--type=merge", "-p", &label]).success();
        until("the label is back", || {
            let labels = &plane.get(&[self.workload])?["metadata"]["labels"];
            labels["helm.sdk.operatorframework.io/chart"].is_string().then_some(())
        });
        self.wait(plane, "condition=Ready");
    }

    fn says_what_is_wrong(&self, plane: &Plane) {
        self.patch(plane, &self.bad);
        self.wait(plane, "condition=ReleaseFailed");
        let object = plane.get(&[self.resource, self.sample]).unwrap();
        let failed = condition(&object, "ReleaseFailed").unwrap();
        assert_eq!(failed["reason"], "UpgradeError");
        assert!(failed["message"].as_str().is_some_and(|text| text.len() > 20), "{failed}");
        self.patch(plane, &self.good);
        until("the failure is forgotten", || {
            let object = plane.get(&[self.resource, self.sample])?;
            condition(&object, "ReleaseFailed").is_none().then_some(())
        });
        self.wait(plane, "condition=Ready");
    }

    fn ends(&self, plane: &Plane) {
        plane.kubectl(&["delete", self.resource, self.sample, "--timeout=60s"]).success();
        let left =
            "deployments,statefulsets,services,serviceaccounts,configmaps,poddisruptionbudgets,secrets";
        until("nothing is left of the release", || {
            let left = plane.get(&[left, "-l", "app.kubernetes.io/managed-by=Helm"]);
            is_nothing(left.as_ref()).then_some(())
        });
        let records = plane.get(&["secrets", "-l", "owner=helm"]);
        assert!(is_nothing(records.as_ref()), "{records:?}");
    }
}

fn is_nothing(list: Option<&Value>) -> bool {
    list.and_then(|list| list["items"].as_array()).is_none_or(Vec::is_empty)
}

#[test]
#[ignore = "needs kubectl and helm: make oracle-helm-operator"]
fn projects_run_on_the_embedded_cluster() {
    for flow in flows() {
        flow.run(&Plane::embedded());
        eprintln!("embedded: {} opened, changed, healed and closed", flow.resource);
    }
}

#[test]
#[ignore = "needs the real control plane: make oracle-helm-operator"]
fn projects_run_on_the_real_control_plane() {
    let plane = Plane::real();
    for flow in flows() {
        flow.run(&plane);
        eprintln!("real: {} opened, changed, healed and closed", flow.resource);
    }
}

/// The chart of a well-known operator, its values, and definitions that its archive lacks.
struct Known {
    chart: &'static str,
    /// Values in JSON: those of the release, and the spec of the operator's object.
    values: &'static str,
    definitions: &'static [(&'static str, &'static str, &'static str)],
    /// Definitions included in the chart.
    brings: &'static [&'static str],
}

const KNOWN: [Known; 3] = [
    Known {
        chart: "prometheus-community_helm-charts__kube-prometheus-stack",
        // Random unless it is set.
        values: r#"{"grafana": {"adminPassword": "given"}}"#,
        definitions: &[
            ("monitoring.coreos.com", "servicemonitors", "ServiceMonitor"),
            ("monitoring.coreos.com", "prometheuses", "Prometheus"),
            ("monitoring.coreos.com", "alertmanagers", "Alertmanager"),
        ],
        brings: &["prometheusrules.monitoring.coreos.com"],
    },
    Known {
        chart: "zalando_postgres-operator__postgres-operator",
        values: "{}",
        definitions: &[],
        brings: &["operatorconfigurations.acid.zalan.do", "postgresteams.acid.zalan.do"],
    },
    Known {
        chart: "strimzi_strimzi-kafka-operator__strimzi-kafka-operator",
        values: "{}",
        definitions: &[],
        brings: &["kafkatopics.kafka.strimzi.io", "kafkausers.kafka.strimzi.io"],
    },
];

fn definition(group: &str, plural: &str, kind: &str, version: &str) -> Value {
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List") },
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": {
                    "type": "object", "properties": { "spec": open.clone(), "status": open },
                } },
            }],
        },
    })
}

fn apply(plane: &Plane, object: &Value) {
    let file = plane.path("object.json");
    std::fs::write(&file, object.to_string()).unwrap();
    plane.kubectl(&["apply", "--server-side", "-f", &file.display().to_string()]).success();
}

impl Known {
    /// Installs by helm, by steer and by an operator, and compares the objects.
    fn run(&self, plane: &Plane, chart: &str) {
        for (group, plural, kind) in self.definitions {
            apply(plane, &definition(group, plural, kind, "v1"));
        }
        apply(plane, &definition("known.example.com", "releases", "Release", "v1"));
        let before = plane.objects();
        let helm = tool("helm");
        let steer = steer();
        let file = plane.path("values.json");
        std::fs::write(&file, self.values).unwrap();
        let file = file.display().to_string();
        let words =
            ["install", "it", chart, "-n", "known", "--create-namespace", "--timeout", "90s", "-f", &file];
        let by_helm = {
            plane.run(&helm, &words).success();
            let objects = plane.objects();
            plane.tidy("known", &before);
            objects
        };

        plane.run(&steer, &words).success();
        for crd in self.brings {
            plane.kubectl(&["wait", "--for=condition=Established", "crd", crd, "--timeout=30s"]).success();
        }
        let different = differences(&by_helm, &plane.objects());
        assert!(different.is_empty(), "{} by steer install: {}", self.chart, different.join("\n"));
        plane.tidy("known", &before);

        let project = plane.path("known");
        std::fs::create_dir_all(&project).unwrap();
        let watches =
            json!([{ "group": "known.example.com", "version": "v1", "kind": "Release", "chart": chart }]);
        std::fs::write(project.join("watches.yaml"), watches.to_string()).unwrap();
        let (mut operator, log) = operate(plane, &project, &plane.kubeconfig());
        // As created by --create-namespace.
        apply(
            plane,
            &json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "known", "labels": { "name": "known" } },
            }),
        );
        let object = json!({
            "apiVersion": "known.example.com/v1", "kind": "Release",
            "metadata": { "name": "it", "namespace": "known" },
            "spec": serde_json::from_str::<Value>(self.values).unwrap(),
        });
        apply(plane, &object);
        let name = "releases.known.example.com";
        let deployed = ["wait", "--for=condition=Deployed", name, "it", "-n", "known", "--timeout=120s"];
        let said = plane.kubectl(&deployed);
        assert_eq!(said.code, 0, "{}\n{}", said.stderr, std::fs::read_to_string(&log).unwrap_or_default());
        for crd in self.brings {
            plane.kubectl(&["wait", "--for=condition=Established", "crd", crd, "--timeout=30s"]).success();
        }
        let mut by_operator = plane.objects();
        // The resource itself, and the key with which the operator signs its records.
        by_operator.retain(|key, _| {
            !key.contains("known.example.com/v1 Release") && !key.ends_with(" steersman-release-key")
        });
        by_operator.values_mut().for_each(unmark);
        let different = differences(&by_helm, &by_operator);
        assert!(different.is_empty(), "{} by an operator: {}", self.chart, different.join("\n"));
        plane.kubectl(&["delete", name, "it", "-n", "known", "--timeout=60s"]).success();
        assert_eq!(operator.stop(), 0);
        plane.tidy("known", &before);
    }
}

/// Removes the metadata that an operator adds to a chart's objects.
fn unmark(object: &mut Value) {
    let Some(metadata) = object["metadata"].as_object_mut() else { return };
    metadata.remove("ownerReferences");
    for (map, key) in [
        ("labels", "helm.sdk.operatorframework.io/chart"),
        ("annotations", "operator-sdk/primary-resource"),
        ("annotations", "operator-sdk/primary-resource-type"),
    ] {
        let Some(entries) = metadata.get_mut(map).and_then(Value::as_object_mut) else { continue };
        entries.remove(key);
        if entries.is_empty() {
            metadata.remove(map);
        }
    }
}

#[test]
#[ignore = "needs the real control plane and helm: make oracle-helm-operator"]
fn well_known_operators_are_installed() {
    let plane = Plane::real();
    let only = only();
    let mut charts = 0;
    for known in KNOWN.iter().filter(|known| known.chart.contains(&only)) {
        let Some(chart) = shared_chart(known.chart) else { continue };
        known.run(&plane, &chart);
        charts += 1;
        eprintln!("{}: by steer and by an operator as by helm", known.chart);
    }
    assert_compared(charts);
}
