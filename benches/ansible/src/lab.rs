//! The embedded cluster, and the objects that both operators reconcile on it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::await_condition;
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::Result;
use crate::tree::Tree;

/// The timeout for all objects to converge.
const PATIENCE: Duration = Duration::from_secs(1800);
/// The interval between two lists of the objects.
const LOOK: Duration = Duration::from_millis(200);

/// The kinds, each with the play for its objects.
pub(crate) const KINDS: [(&str, &str); 3] = [("One", "one.yml"), ("Five", "five.yml"), ("Gate", "gate.yml")];

/// A cluster that is stopped on drop.
pub(crate) struct Lab {
    directory: tempfile::TempDir,
    client: Client,
    _cluster: Tree,
}

/// One of the two operators; it is also the name of its group and namespace.
pub(crate) struct Operator {
    pub(crate) name: &'static str,
    pub(crate) tree: Tree,
    client: Client,
    log: PathBuf,
}

impl Lab {
    /// Starts `steer cluster` and defines the kinds of both operators.
    pub(crate) async fn start(steer: &Path) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let kubeconfig = directory.path().join("kubeconfig");
        let mut command = Command::new(steer);
        command.args(["cluster", "--kubeconfig"]).arg(&kubeconfig);
        let cluster = Tree::start(&mut command, &directory.path().join("cluster.log"))?;
        let begun = Instant::now();
        let client = loop {
            if begun.elapsed() > Duration::from_secs(60) {
                return Err("the embedded cluster does not start".into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            if let Ok(file) = Kubeconfig::read_from(&kubeconfig) {
                let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
                let client = Client::try_from(config)?;
                if client.apiserver_version().await.is_ok() {
                    break client;
                }
            }
        };
        let lab = Self { directory, client, _cluster: cluster };
        for operator in ["ours", "peer"] {
            lab.define(operator).await?;
        }
        Ok(lab)
    }

    async fn define(&self, operator: &str) -> Result<()> {
        let namespace: Namespace = serde_json::from_value(json!({ "metadata": { "name": operator } }))?;
        Api::all(self.client.clone()).create(&PostParams::default(), &namespace).await?;
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let any = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        for (kind, _) in KINDS {
            let plural = format!("{}s", kind.to_lowercase());
            let name = format!("{plural}.{operator}.example.com");
            let definition = serde_json::from_value(json!({
                "metadata": { "name": name },
                "spec": {
                    "group": format!("{operator}.example.com"), "scope": "Namespaced",
                    "names": { "kind": kind, "plural": plural },
                    "versions": [{
                        "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                        "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": any, "status": any } } },
                    }],
                },
            }))?;
            definitions.create(&PostParams::default(), &definition).await?;
            let established = kube::runtime::conditions::is_crd_established();
            await_condition(definitions.clone(), &name, established).await?;
        }
        Ok(())
    }

    /// Writes an operator's watches.yaml, as JSON.
    fn watches(&self, operator: &str, plays: &Path) -> Result<PathBuf> {
        let entry = |(kind, play): (&str, &str)| {
            json!({
                "group": format!("{operator}.example.com"), "version": "v1", "kind": kind,
                "playbook": plays.join(play),
            })
        };
        let path = self.directory.path().join(format!("{operator}-watches.yaml"));
        std::fs::write(&path, Value::from_iter(KINDS.map(entry)).to_string())?;
        Ok(path)
    }

    /// Starts an operator with eight concurrent runs of the kind `Gate`, else one per processor.
    pub(crate) fn operator(
        &self,
        name: &'static str,
        plays: &Path,
        command: impl FnOnce(&Path, &Path) -> Command,
    ) -> Result<Operator> {
        let directory = self.directory.path().join(name);
        std::fs::create_dir(&directory)?;
        let mut command = command(&self.watches(name, plays)?, &directory);
        command
            .env("KUBECONFIG", self.directory.path().join("kubeconfig"))
            .env("TMPDIR", &directory)
            .env(format!("MAX_CONCURRENT_RECONCILES_GATE_{}_EXAMPLE_COM", name.to_uppercase()), "8")
            .current_dir(&directory);
        let log = self.directory.path().join(format!("{name}.log"));
        let tree = Tree::start(&mut command, &log)?;
        Ok(Operator { name, tree, client: self.client.clone(), log })
    }
}

impl Operator {
    fn objects(&self, kind: &str) -> Api<DynamicObject> {
        let group = format!("{}.example.com", self.name);
        let resource = ApiResource {
            api_version: format!("{group}/v1"),
            group,
            version: "v1".into(),
            kind: kind.into(),
            plural: format!("{}s", kind.to_lowercase()),
        };
        Api::namespaced_with(self.client.clone(), self.name, &resource)
    }

    pub(crate) async fn create(&self, kind: &str, name: &str) -> Result<()> {
        let api = self.objects(kind);
        let object = serde_json::from_value(json!({
            "apiVersion": format!("{}.example.com/v1", self.name), "kind": kind,
            "metadata": { "name": name }, "spec": { "size": "1" },
        }))?;
        api.create(&PostParams::default(), &object).await?;
        Ok(())
    }

    /// Updates an object to trigger a run that finds everything up to date.
    pub(crate) async fn touch(&self, kind: &str, name: &str, round: usize) -> Result<()> {
        let patch = Patch::Merge(json!({ "spec": { "round": round } }));
        self.objects(kind).patch(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Returns the time at which the last run of an object succeeded.
    pub(crate) async fn completion(&self, kind: &str, name: &str) -> Result<Option<String>> {
        Ok(completion(&self.objects(kind).get(name).await?))
    }

    /// Waits until a run after `before` has succeeded.
    pub(crate) async fn next(&self, kind: &str, name: &str, before: Option<&str>) -> Result<()> {
        let is_over = |object: Option<&DynamicObject>| {
            let now = object.and_then(completion);
            now.is_some() && now.as_deref() != before
        };
        let waiting = await_condition(self.objects(kind), name, is_over);
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(found) => found.map(|_| ()).map_err(Into::into),
            Err(_) => Err(self.stuck(&format!("{kind} {name} does not converge"))),
        }
    }

    /// Waits until the last runs of all objects have ended at a later time.
    pub(crate) async fn all_after(&self, kind: &str, count: usize, after: &str) -> Result<()> {
        let begun = Instant::now();
        loop {
            let found = self.objects(kind).list(&ListParams::default()).await?;
            let done = found.iter().filter(|one| completion(one).is_some_and(|time| *time > *after)).count();
            if done >= count {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                return Err(self.stuck(&format!("only {done} of {count} converged")));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Returns the time of the kind's last completed run.
    pub(crate) async fn latest(&self, kind: &str) -> Result<String> {
        let found = self.objects(kind).list(&ListParams::default()).await?;
        Ok(found.iter().filter_map(completion).max().unwrap_or_default())
    }

    /// Waits until `count` runs are blocked at the gate.
    pub(crate) async fn at_gate(&self, count: usize) -> Result<()> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), self.name);
        let begun = Instant::now();
        loop {
            let found = maps.list_metadata(&ListParams::default()).await?;
            let names = found.iter().filter_map(|map| map.metadata.name.as_deref());
            let there = names.filter(|name| name.starts_with("at-gate-")).count();
            if there >= count {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                return Err(self.stuck(&format!("only {there} of {count} are at the gate")));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    pub(crate) async fn open_gate(&self) -> Result<()> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), self.name);
        let gate = serde_json::from_value(json!({ "metadata": { "name": "gate" } }))?;
        maps.create(&PostParams::default(), &gate).await?;
        Ok(())
    }

    /// Returns an error with the end of the operator's log.
    fn stuck(&self, problem: &str) -> Box<dyn std::error::Error> {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let end = lines.get(lines.len().saturating_sub(20)..).unwrap_or_default().join("\n");
        format!("{}: {problem}\n{end}", self.name).into()
    }
}

/// Returns the time at which the last run of an object ended, if it succeeded.
fn completion(object: &DynamicObject) -> Option<String> {
    let conditions = object.data.pointer("/status/conditions")?.as_array()?;
    let running = conditions.iter().find(|one| one["type"] == "Running" && one["reason"] == "Successful")?;
    running["ansibleResult"]["completion"].as_str().map(str::to_owned)
}
