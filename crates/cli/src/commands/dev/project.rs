//! A project on disk: its watches, definitions, role and samples.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::Value;
use steersman_cluster::User;
use steersman_helm_operator::WatchConfig;
use steersman_release::{Kinds, Object};
use steersman_scaffold::{Error as ScaffoldError, Plugin, Project as ProjectFile};

use crate::failure::{Failure, Result};

/// How long definitions may take to be served.
const ESTABLISH: Duration = Duration::from_secs(30);

/// The namespace that objects go to which name none.
pub(crate) const NAMESPACE: &str = "default";

/// A project on disk.
pub(crate) struct Project {
    root: PathBuf,
    pub(crate) watches: Vec<WatchConfig>,
    /// Whether the operator works in one namespace alone.
    pub(crate) is_namespaced: bool,
}

/// What a simulation begins with.
pub(in crate::commands) struct Given {
    /// Definitions, namespaces and roles.
    pub(in crate::commands) objects: Vec<Value>,
    /// Namespace and name of the operator's service account, if the project has one.
    pub(in crate::commands) account: Option<(String, String)>,
}

/// Who the operator is.
pub(crate) struct Account {
    namespace: String,
    pub(crate) name: String,
    /// How many things it may do, as the rules of its roles count them.
    pub(crate) permissions: usize,
}

impl Account {
    pub(crate) fn user(&self) -> User {
        User::service_account(&self.namespace, &self.name)
    }
}

/// A sample that was applied.
pub(crate) struct Sample {
    pub(crate) file: String,
}

impl Project {
    pub(crate) fn load(root: &Path) -> Result<Self> {
        let watches = root.join("watches.yaml");
        if !watches.exists() {
            let help = match ProjectFile::load(root).and_then(|file| file.plugin()) {
                Ok(Plugin::Rust) => "it is written in Rust: `cargo test` runs it on the embedded cluster",
                _ => "name the project's directory: steer dev examples/minimart",
            };
            return Err(Failure::new(format!("{} is not a project: it has no watches.yaml", root.display()))
                .help(help));
        }
        let watches = WatchConfig::load(&watches).map_err(|error| Failure::new(error.to_string()))?;
        // A project need not have a PROJECT file.
        let is_namespaced = match ProjectFile::load(root) {
            Ok(file) => file.is_namespaced(),
            Err(ScaffoldError::NotAProject(_)) => false,
            Err(error) => return Err(error.into()),
        };
        Ok(Self { root: root.to_owned(), watches, is_namespaced })
    }

    /// Installs the definitions in config/crd and waits until they are served.
    pub(crate) async fn install_definitions(&self, client: &Client) -> Result<Vec<String>> {
        let kinds = Kinds::new(client.clone());
        let mut names = Vec::new();
        for (path, document) in documents(&self.root.join("config/crd/bases"))? {
            let object = apply(client, &kinds, document, &path).await?;
            let api = object.api(client);
            let deadline = tokio::time::Instant::now() + ESTABLISH;
            loop {
                let live = api.get(&object.id.name).await.map_err(|error| broken(&path, &error))?;
                let live = serde_json::json!(live);
                if steersman_release::readiness(&typed(live, &object), false).is_ready() {
                    break;
                }
                if tokio::time::Instant::now() >= deadline {
                    return Err(Failure::new(format!("{} is not established", object.id.name)));
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            names.push(object.id.name);
        }
        Ok(names)
    }

    /// Installs what is in config/rbac, and says whom the operator runs as.
    pub(crate) async fn install_role(&self, client: &Client) -> Result<Option<Account>> {
        let kinds = Kinds::new(client.clone());
        let mut documents = documents(&self.root.join("config/rbac"))?;
        // Namespaces first: what is in them needs them. That of kubebuilder's layout is made by config/manager, which is not
        // applied here.
        documents.sort_by_key(|(_, document)| text(document, "/kind") != "Namespace");
        self.make_namespaces(client, &documents).await?;
        let mut account = None;
        let mut permissions = 0;
        for (path, document) in documents {
            match text(&document, "/kind") {
                "ServiceAccount" => {
                    let namespace =
                        Some(text(&document, "/metadata/namespace")).filter(|name| !name.is_empty());
                    let name = text(&document, "/metadata/name").to_owned();
                    account = Some((namespace.unwrap_or("default").to_owned(), name));
                }
                "ClusterRole" | "Role" => permissions += count(&document),
                _ => {}
            }
            apply(client, &kinds, document, &path).await?;
        }
        Ok(account.map(|(namespace, name)| Account { namespace, name, permissions }))
    }

    /// What a simulation finds in the cluster: definitions, namespaces and roles, and the service account of the operator.
    pub(in crate::commands) fn given(&self) -> Result<Given> {
        let mut given: Vec<Value> = documents(&self.root.join("config/crd/bases"))?
            .into_iter()
            .map(|(_, document)| document)
            .collect();
        let roles = documents(&self.root.join("config/rbac"))?;
        let spaces: BTreeSet<&str> =
            roles.iter().map(|(_, role)| text(role, "/metadata/namespace")).collect();
        given.extend(spaces.into_iter().filter(|name| !name.is_empty()).map(|name| {
            serde_json::json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
        }));
        let account = roles.iter().map(|(_, role)| role).find(|role| text(role, "/kind") == "ServiceAccount");
        let account = account.map(|account| {
            let namespace = Some(text(account, "/metadata/namespace")).filter(|name| !name.is_empty());
            (namespace.unwrap_or(NAMESPACE).to_owned(), text(account, "/metadata/name").to_owned())
        });
        given.extend(roles.into_iter().map(|(_, role)| role));
        Ok(Given { objects: given, account })
    }

    /// What is in config/samples.
    pub(in crate::commands) fn samples(&self) -> Result<Vec<Value>> {
        Ok(documents(&self.root.join("config/samples"))?.into_iter().map(|(_, sample)| sample).collect())
    }

    /// Makes the namespaces that documents name.
    async fn make_namespaces(&self, client: &Client, documents: &[(PathBuf, Value)]) -> Result {
        let names: BTreeSet<&str> =
            documents.iter().map(|(_, document)| text(document, "/metadata/namespace")).collect();
        let api: Api<Namespace> = Api::all(client.clone());
        for name in names.into_iter().filter(|name| !name.is_empty()) {
            let namespace = serde_json::json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name },
            });
            let (params, patch) = (PatchParams::apply("steer-dev"), Patch::Apply(&namespace));
            api.patch(name, &params, &patch).await.map_err(|error| Failure::new(error.to_string()))?;
        }
        Ok(())
    }

    /// Applies what is in config/samples.
    pub(crate) async fn apply_samples(&self, client: &Client) -> Result<Vec<Sample>> {
        let kinds = Kinds::new(client.clone());
        let mut samples = Vec::new();
        for (path, document) in documents(&self.root.join("config/samples"))? {
            apply(client, &kinds, document, &path).await?;
            let file = path.strip_prefix(&self.root).unwrap_or(&path).display().to_string();
            samples.push(Sample { file });
        }
        Ok(samples)
    }
}

fn text<'a>(document: &'a Value, pointer: &str) -> &'a str {
    document.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// How many combinations of resource and verb a role allows.
fn count(role: &Value) -> usize {
    let length = |rule: &Value, key: &str| rule.get(key).and_then(Value::as_array).map_or(0, Vec::len);
    let rules = role.get("rules").and_then(Value::as_array);
    rules.into_iter().flatten().map(|rule| length(rule, "resources") * length(rule, "verbs")).sum()
}

/// The objects in the files of a directory, in the order of the files' names. What kustomize reads is left out.
fn documents(directory: &Path) -> Result<Vec<(PathBuf, Value)>> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(directory) else { return Ok(found) };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let is_yaml = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
        if !is_yaml || path.file_stem().is_some_and(|stem| stem == "kustomization") {
            continue;
        }
        let text = std::fs::read_to_string(&path).map_err(|error| broken(&path, &error))?;
        for document in steersman_release::documents(&text).map_err(|error| broken(&path, &error))? {
            found.push((path.clone(), document));
        }
    }
    Ok(found)
}

fn broken(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}

async fn apply(client: &Client, kinds: &Kinds, document: Value, path: &Path) -> Result<Object> {
    let object =
        steersman_release::resolve(document, NAMESPACE, kinds).await.map_err(|error| broken(path, &error))?;
    let api: Api<DynamicObject> = object.api(client);
    let params = PatchParams::apply("steer-dev").force();
    let patch = Patch::Apply(&object.content);
    api.patch(&object.id.name, &params, &patch).await.map_err(|error| broken(path, &error))?;
    Ok(object)
}

fn typed(mut live: Value, object: &Object) -> Value {
    live["apiVersion"] = object.kind.resource.api_version.as_str().into();
    live["kind"] = object.id.kind.as_str().into();
    live
}
