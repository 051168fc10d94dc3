//! A cluster with an Ansible operator on it.

#![allow(dead_code, reason = "not every suite needs all of it")]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use serde_json::{Value, json};
use steersman::Operator;
use steersman::testing::{TestEnv, object};
use steersman_ansible_operator::{Defaults, Watches, add_watches};

/// The group of the tests' kinds.
const GROUP: &str = "plays.example.com";

/// The number of attempts to wait for an object.
const ATTEMPTS: usize = 6;

/// A cluster, and the configuration of its operator.
pub(crate) struct Lab {
    pub(crate) env: TestEnv,
    pub(crate) options: Defaults,
    watches: Vec<Value>,
    /// The directory of the watches, roles and playbooks.
    directory: PathBuf,
    api_version: String,
    metrics: SocketAddr,
    /// Additional namespaces of an operator that does not work in all namespaces.
    pub(crate) more_namespaces: Vec<String>,
}

impl Lab {
    /// Creates a cluster with the definitions of an example.
    pub(crate) async fn of_example(name: &str) -> Self {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
        let text = std::fs::read(directory.join("watches.yaml")).unwrap();
        let watches: Vec<Value> = steersman_yaml::from_slice_as(&text).unwrap();
        let part = |name: &str| watches[0][name].as_str().unwrap();
        let lab = Self::bare(directory.clone(), &format!("{}/{}", part("group"), part("version"))).await;
        for entry in std::fs::read_dir(directory.join("config/crd/bases")).unwrap().flatten() {
            let text = std::fs::read(entry.path()).unwrap();
            let crd: CustomResourceDefinition = steersman_yaml::from_slice_as(&text).unwrap();
            lab.env.install(&crd).await.unwrap();
        }
        Self { watches, ..lab }
    }

    /// Creates a cluster with a kind for each play, a path below `tests/plays`.
    pub(crate) async fn new(plays: &[(&str, &str)]) -> Self {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plays");
        let mut lab = Self::bare(directory, "plays.example.com/v1").await;
        for (kind, playbook) in plays {
            lab.env.install(&definition(kind)).await.unwrap();
            lab.watches.push(json!({
                "group": GROUP, "version": "v1", "kind": kind, "playbook": playbook, "markUnsafe": true,
            }));
        }
        lab
    }

    async fn bare(directory: PathBuf, api_version: &str) -> Self {
        let env = TestEnv::start().await.unwrap();
        let metrics = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let api_version = api_version.to_owned();
        Self {
            env,
            options: Defaults::default(),
            watches: Vec::new(),
            directory,
            api_version,
            metrics,
            more_namespaces: Vec::new(),
        }
    }

    /// Sets a field of a kind's watch.
    pub(crate) fn set(&mut self, kind: &str, field: &str, value: Value) {
        let watch = self.watches.iter_mut().find(|watch| watch["kind"] == kind).unwrap();
        watch[field] = value;
    }

    /// Watches a kind that the cluster already serves.
    pub(crate) fn watch(&mut self, watch: Value) {
        self.watches.push(watch);
    }

    /// Returns the namespace in which objects are created.
    pub(crate) fn namespace(&self) -> String {
        self.env.client().default_namespace().to_owned()
    }

    /// Starts the operator.
    pub(crate) async fn run(&mut self) {
        let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
        let mut watches = self.watches.clone();
        for watch in &mut watches {
            for (field, folder) in [("playbook", ""), ("role", "roles")] {
                // Roles in collections have names with dots.
                if let Some(name) =
                    watch[field].as_str().filter(|name| field == "playbook" || !name.contains('.'))
                {
                    watch[field] = json!(self.directory.join(folder).join(name));
                }
            }
        }
        std::fs::write(file.path(), json!(watches).to_string()).unwrap();
        let watches = Watches::load(file.path(), &[], |_| None).unwrap();
        let operator = Operator::new("ansible-operator").metrics_address(self.metrics);
        let operator = match self.env.cluster() {
            Some(_) => operator,
            None => operator.namespaces(self.more_namespaces.iter().cloned().chain([self.namespace()])),
        };
        let operator = add_watches(operator, &watches, &self.options, &self.env.client()).await.unwrap();
        self.env.run(operator);
    }

    pub(crate) fn objects(&self, kind: &str) -> Api<DynamicObject> {
        let (group, version) = self.api_version.split_once('/').unwrap();
        let resource = ApiResource {
            group: group.into(),
            version: version.into(),
            api_version: self.api_version.clone(),
            kind: kind.into(),
            plural: format!("{}s", kind.to_lowercase()),
        };
        Api::default_namespaced_with(self.env.client(), &resource)
    }

    pub(crate) async fn create(&self, kind: &str, name: &str, spec: Value) {
        let made = json!({
            "apiVersion": self.api_version, "kind": kind, "metadata": { "name": name }, "spec": spec,
        });
        self.objects(kind).create(&PostParams::default(), &object(made)).await.unwrap();
    }

    pub(crate) async fn patch(&self, kind: &str, name: &str, patch: Value) {
        self.objects(kind).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn get(&self, kind: &str, name: &str) -> Value {
        json!(self.objects(kind).get(name).await.unwrap())
    }

    pub(crate) async fn delete(&self, kind: &str, name: &str) {
        self.objects(kind).delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub(crate) async fn until(
        &self,
        kind: &str,
        name: &str,
        is: impl Fn(Option<&Value>) -> bool,
    ) -> Option<Value> {
        let is = |object: Option<&DynamicObject>| is(object.map(|object| json!(object)).as_ref());
        let mut attempts = 0;
        loop {
            attempts += 1;
            match self.env.wait_in(self.objects(kind), name, &is).await {
                Ok(found) => return found.map(|found| json!(found)),
                // A cold run on a busy machine takes longer than every other wait.
                Err(error) => assert!(attempts < ATTEMPTS, "{kind} {name}: {error}"),
            }
        }
    }

    /// Waits until the last run of the current generation has succeeded.
    pub(crate) async fn succeeded(&self, kind: &str, name: &str) -> Value {
        let is = |object: &Value| {
            let of = |kind: &str| {
                condition(object, kind)
                    .filter(|one| one["observedGeneration"] == object["metadata"]["generation"])
            };
            let done = of("Running").is_some_and(|one| one["reason"] == "Successful");
            done && of("Successful").is_some_and(|one| one["status"] == "True")
        };
        self.until(kind, name, |object| object.is_some_and(is)).await.unwrap()
    }

    pub(crate) async fn failed(&self, kind: &str, name: &str) -> Value {
        let is = |object: &Value| status_of(object, "Failure").as_deref() == Some("True");
        self.until(kind, name, |object| object.is_some_and(is)).await.unwrap()
    }

    /// Returns the status of every custom resource, for messages.
    pub(crate) async fn statuses(&self) -> Value {
        let mut statuses = serde_json::Map::new();
        for kind in self.watches.iter().filter_map(|watch| watch["kind"].as_str()) {
            let objects = self.objects(kind).list(&Default::default()).await.unwrap();
            let of = |object: &DynamicObject| object.data["status"].clone();
            statuses.insert(kind.to_owned(), objects.iter().map(of).collect());
        }
        Value::Object(statuses)
    }

    /// Whether pods run: a control plane without controllers and nodes has none.
    pub(crate) fn has_nodes(&self) -> bool {
        self.env.cluster().is_some() || std::env::var_os("STEERSMAN_TEST_NODES").is_some()
    }

    pub(crate) async fn ready(&self, kind: &str, name: &str, status: &str, reason: &str) -> Value {
        let is = |object: &Value| {
            condition(object, "Ready").is_some_and(|one| one["status"] == status && one["reason"] == reason)
        };
        self.until(kind, name, |object| object.is_some_and(is)).await.unwrap()
    }

    pub(crate) async fn gone(&self, kind: &str, name: &str) {
        self.until(kind, name, |object| object.is_none()).await;
    }

    pub(crate) async fn deployment(
        &self,
        name: &str,
        is: impl Fn(Option<&Deployment>) -> bool,
    ) -> Option<Deployment> {
        self.env.wait(name, is).await.unwrap()
    }

    pub(crate) fn api_in<K>(&self, namespace: &str) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.env.client(), namespace)
    }

    /// Waits until runs have completed, according to the metrics.
    pub(crate) async fn more_runs(&self, count: u32) {
        const ENDED: &str = "ansible_operator_reconcile_result{";
        let goal = self.metric(ENDED) + f64::from(count);
        while self.metric(ENDED) < goal {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Returns the value of the first metric line with a prefix; zero if there is none, or metrics are not served
    /// yet.
    pub(crate) fn metric(&self, start: &str) -> f64 {
        let Ok(mut stream) = TcpStream::connect_timeout(&self.metrics, Duration::from_secs(5)) else {
            return 0.0;
        };
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let line = text.lines().find(|line| line.starts_with(start));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
    }
}

fn definition(kind: &str) -> CustomResourceDefinition {
    let plural = format!("{}s", kind.to_lowercase());
    let any = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    object(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{GROUP}") },
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List") },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": any, "status": any } } },
            }],
        },
    }))
}

pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
}

pub(crate) fn status_of(object: &Value, kind: &str) -> Option<String> {
    condition(object, kind)?["status"].as_str().map(str::to_owned)
}
