//! Loads a project from disk: its watches, definitions, role and samples.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::Value;
use steersman::Operator;
use steersman_cluster::User;
use steersman_helm_operator::{Defaults, WatchConfig, add_watches};
use steersman_release::{Kinds, Object};

use super::package::Package;
use super::plays::Plays;
use super::project_file::ProjectFile;
use crate::failure::{Failure, Result};

/// Timeout for definitions to be established.
const ESTABLISH: Duration = Duration::from_secs(30);

/// The namespace of objects that specify none.
pub(crate) const NAMESPACE: &str = "default";

/// A project on disk.
pub(crate) struct Project {
    root: PathBuf,
    pub(crate) parts: Vec<Part>,
    /// Whether the operator watches only one namespace.
    pub(crate) is_namespaced: bool,
}

/// A part of a project, each run by an operator.
pub(crate) enum Part {
    /// The charts in watches.yaml.
    Charts(Vec<WatchConfig>),
    /// The roles and playbooks in watches.yaml.
    Plays(Plays),
    /// A KUDO package.
    Package(Package),
    /// A Rust crate.
    Crate,
}

/// The initial objects of a simulation.
pub(in crate::commands) struct InitialObjects {
    /// Definitions, namespaces and roles.
    pub(in crate::commands) objects: Vec<Value>,
    /// Namespace and name of the operator's service account, if the project has one.
    pub(in crate::commands) account: Option<(String, String)>,
}

/// The operator's service account.
pub(crate) struct Account {
    namespace: String,
    pub(crate) name: String,
    /// Number of permissions that the rules of its roles grant.
    pub(crate) permissions: usize,
}

impl Account {
    pub(crate) fn user(&self) -> User {
        User::service_account(&self.namespace, &self.name)
    }
}

/// Callback for progress lines of an operator in this process.
pub(crate) type Tell = Box<dyn Fn(&str) + Send + Sync>;

/// Describes the operator's account for people.
pub(in crate::commands) fn describe(account: Option<&Account>) -> String {
    match account {
        Some(account) => {
            format!("operator running as {} ({} permissions)", account.name, account.permissions)
        }
        None => "operator running as administrator: config/rbac has no role".to_owned(),
    }
}

/// An applied sample.
pub(crate) struct Sample {
    pub(crate) file: String,
}

impl Project {
    pub(crate) fn load(root: &Path) -> Result<Self> {
        // The PROJECT file is optional.
        let file = ProjectFile::load(root)?;
        let mut parts = Vec::new();
        let watches = root.join("watches.yaml");
        if watches.exists() {
            parts.push(Part::of_watches(&watches)?);
        }
        // A chart project may contain code that is unrelated to the operator.
        let is_rust = file.as_ref().and_then(|file| file.is_rust);
        let has_code = is_rust.unwrap_or(!watches.exists());
        if has_code && root.join("Cargo.toml").exists() {
            parts.push(Part::Crate);
        }
        let package = [root.to_owned(), root.join("operator")];
        if let Some(path) = package.into_iter().find(|path| path.join("operator.yaml").is_file()) {
            parts.push(Part::Package(Package::load(path)?));
        }
        if parts.is_empty() {
            let missing = "no watches.yaml, Cargo.toml or operator.yaml found";
            return Err(Failure::new(format!("{} is not a project: {missing}", root.display())).help(
                "name the project's directory: steer dev examples/minimart; `steer init` makes a project",
            ));
        }
        let is_namespaced = file.is_some_and(|file| file.is_namespaced);
        Ok(Self { root: root.to_owned(), parts, is_namespaced })
    }

    /// Returns a project without operators, of which only config/ is used.
    pub(in crate::commands) fn config_of(root: &Path) -> Self {
        Self { root: root.to_owned(), parts: Vec::new(), is_namespaced: false }
    }

    /// Creates the operator of the charts or plays in watches.yaml.
    pub(crate) async fn operator(&self, client: &Client) -> Result<Operator> {
        for part in &self.parts {
            if let Some(operator) = part.operator(self.is_namespaced, client, Box::new(|_| {})).await? {
                return Ok(operator);
            }
        }
        Err(Failure::new(format!("{} has no watches.yaml", self.root.display())))
    }

    /// Installs the definitions in config/crd and waits until they are established.
    pub(crate) async fn install_definitions(&self, client: &Client) -> Result<Vec<String>> {
        install_definitions(client, documents(&self.root.join("config/crd/bases"))?).await
    }

    /// Installs config/rbac and returns the operator's account.
    pub(crate) async fn install_role(&self, client: &Client) -> Result<Option<Account>> {
        install_role(client, documents(&self.root.join("config/rbac"))?).await
    }

    /// Returns API version and kind of the definitions in config/crd.
    pub(super) fn defined_kinds(&self) -> Result<Vec<(String, String)>> {
        let definitions = documents(&self.root.join("config/crd/bases"))?;
        Ok(definitions.iter().map(|(_, definition)| defined_kind(definition)).collect())
    }

    /// Returns a simulation's initial objects (definitions, namespaces, roles) and the operator's account.
    pub(in crate::commands) fn initial_objects(&self) -> Result<InitialObjects> {
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
        let roles: Vec<Value> = roles.into_iter().map(|(_, role)| role).collect();
        let account = account_in(&roles);
        given.extend(roles);
        Ok(InitialObjects { objects: given, account })
    }

    /// Returns the objects in config/samples.
    pub(in crate::commands) fn samples(&self) -> Result<Vec<Value>> {
        Ok(documents(&self.root.join("config/samples"))?.into_iter().map(|(_, sample)| sample).collect())
    }

    /// Applies the objects in config/samples.
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

/// Returns namespace and name of the first service account among objects.
pub(in crate::commands) fn account_in(objects: &[Value]) -> Option<(String, String)> {
    let account = objects.iter().find(|object| text(object, "/kind") == "ServiceAccount")?;
    let namespace = Some(text(account, "/metadata/namespace")).filter(|name| !name.is_empty());
    Some((namespace.unwrap_or(NAMESPACE).to_owned(), text(account, "/metadata/name").to_owned()))
}

/// Returns the storage version, as API version, and kind of a definition.
pub(super) fn defined_kind(definition: &Value) -> (String, String) {
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
    let stored = versions.and_then(|all| all.iter().find(|one| one["storage"] == true));
    let version = stored.and_then(|one| one["name"].as_str()).unwrap_or_default();
    (
        format!("{}/{version}", text(definition, "/spec/group")),
        text(definition, "/spec/names/kind").to_owned(),
    )
}

/// Installs definitions and waits until they are established.
pub(in crate::commands) async fn install_definitions(
    client: &Client,
    documents: Vec<(PathBuf, Value)>,
) -> Result<Vec<String>> {
    let kinds = Kinds::new(client.clone());
    let mut names = Vec::new();
    for (path, document) in documents {
        let object = apply(client, &kinds, document, &path).await?;
        let api = object.api(client);
        let deadline = tokio::time::Instant::now() + ESTABLISH;
        loop {
            let live = api.get(&object.id.name).await.map_err(|error| refused(&path, &error))?;
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

/// Installs a role with its account and bindings, and returns the operator's account.
pub(super) async fn install_role(
    client: &Client,
    mut documents: Vec<(PathBuf, Value)>,
) -> Result<Option<Account>> {
    let kinds = Kinds::new(client.clone());
    // Namespaces first, as other objects require them. In kubebuilder's layout config/manager creates the operator's, which is
    // not applied here.
    documents.sort_by_key(|(_, document)| text(document, "/kind") != "Namespace");
    make_namespaces(client, &documents).await?;
    let mut account = None;
    let mut permissions = 0;
    for (path, document) in documents {
        match text(&document, "/kind") {
            "ServiceAccount" => {
                let namespace = Some(text(&document, "/metadata/namespace")).filter(|name| !name.is_empty());
                let name = text(&document, "/metadata/name").to_owned();
                account = Some((namespace.unwrap_or(NAMESPACE).to_owned(), name));
            }
            "ClusterRole" | "Role" => permissions += count(&document),
            _ => {}
        }
        apply(client, &kinds, document, &path).await?;
    }
    Ok(account.map(|(namespace, name)| Account { namespace, name, permissions }))
}

/// Creates the namespaces of the documents.
async fn make_namespaces(client: &Client, documents: &[(PathBuf, Value)]) -> Result {
    let names: BTreeSet<&str> =
        documents.iter().map(|(_, document)| text(document, "/metadata/namespace")).collect();
    let api: Api<Namespace> = Api::all(client.clone());
    for name in names.into_iter().filter(|name| !name.is_empty()) {
        let namespace = serde_json::json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name },
        });
        let (params, patch) = (PatchParams::apply("steer-dev"), Patch::Apply(&namespace));
        let made = api.patch(name, &params, &patch).await;
        made.map_err(|error| Failure::of_kube(&error).within(&format!("namespace {name}")))?;
    }
    Ok(())
}

impl Part {
    fn of_watches(path: &Path) -> Result<Self> {
        if has_plays(path)? {
            return Ok(Self::Plays(Plays::load(path)?));
        }
        let watches = WatchConfig::load(path).map_err(|error| Failure::new(error.to_string()))?;
        Ok(Self::Charts(watches))
    }

    /// Returns API version and kind of the objects that the operator reconciles.
    pub(crate) fn kinds(&self) -> Vec<(String, String)> {
        match self {
            Self::Charts(watches) => {
                watches.iter().map(|watch| (watch.api_version(), watch.kind.clone())).collect()
            }
            Self::Plays(plays) => plays.kinds(),
            Self::Package(_) => vec![instances()],
            Self::Crate => Vec::new(),
        }
    }

    /// Creates the operator, if it runs in this process and requires only a client.
    ///
    /// For plays, `tell` is called as each task starts.
    pub(crate) async fn operator(
        &self,
        is_namespaced: bool,
        client: &Client,
        tell: Tell,
    ) -> Result<Option<Operator>> {
        let within = |operator: Operator| match is_namespaced {
            true => operator.namespaces([NAMESPACE]),
            false => operator,
        };
        match self {
            Self::Charts(watches) => {
                let defaults = Defaults { max_concurrent_reconciles: 16, ..Defaults::default() };
                let operator = within(Operator::new("helm-operator"));
                let operator = add_watches(operator, watches, &defaults, client).await;
                operator.map(Some).map_err(|error| Failure::new(error.to_string()))
            }
            Self::Plays(plays) => {
                plays.add_to(within(Operator::new("ansible-operator")), client, tell).await.map(Some)
            }
            Self::Package(_) | Self::Crate => Ok(None),
        }
    }
}

/// Returns API version and kind of KUDO's instances.
pub(super) fn instances() -> (String, String) {
    ("kudo.dev/v1beta1".to_owned(), "Instance".to_owned())
}

/// Whether a watches.yaml names roles or playbooks.
fn has_plays(path: &Path) -> Result<bool> {
    let text = std::fs::read(path).map_err(|error| broken(path, &error))?;
    // A malformed file is reported when it is fully parsed later.
    let entries = steersman_yaml::array_from_slice(&text).unwrap_or_default();
    Ok(entries.iter().any(|entry| entry.get("role").or_else(|| entry.get("playbook")).is_some()))
}

pub(super) fn text<'a>(document: &'a Value, pointer: &str) -> &'a str {
    document.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Counts the combinations of resource and verb that a role allows.
fn count(role: &Value) -> usize {
    let length = |rule: &Value, key: &str| rule.get(key).and_then(Value::as_array).map_or(0, Vec::len);
    let rules = role.get("rules").and_then(Value::as_array);
    rules.into_iter().flatten().map(|rule| length(rule, "resources") * length(rule, "verbs")).sum()
}

/// Reads the objects of a directory's files, sorted by file name, without kustomization files.
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
        found.extend(read(&path)?.into_iter().map(|document| (path.clone(), document)));
    }
    Ok(found)
}

/// Reads the objects of a file, or of the files in a directory.
pub(in crate::commands) fn documents_at(path: &Path) -> Result<Vec<Value>> {
    if path.is_dir() {
        return Ok(documents(path)?.into_iter().map(|(_, document)| document).collect());
    }
    read(path)
}

fn read(path: &Path) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(path).map_err(|error| broken(path, &error))?;
    steersman_release::documents(&text).map_err(|error| broken(path, &error))
}

fn broken(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}

fn refused(path: &Path, error: &kube::Error) -> Failure {
    Failure::of_kube(error).within(&path.display().to_string())
}

pub(in crate::commands) async fn apply(
    client: &Client,
    kinds: &Kinds,
    document: Value,
    path: &Path,
) -> Result<Object> {
    let object =
        steersman_release::resolve(document, NAMESPACE, kinds).await.map_err(|error| broken(path, &error))?;
    let api: Api<DynamicObject> = object.api(client);
    let params = PatchParams::apply("steer-dev").force();
    let patch = Patch::Apply(&object.content);
    api.patch(&object.id.name, &params, &patch).await.map_err(|error| refused(path, &error))?;
    Ok(object)
}

fn typed(mut live: Value, object: &Object) -> Value {
    live["apiVersion"] = object.kind.resource.api_version.as_str().into();
    live["kind"] = object.id.kind.as_str().into();
    live
}
