//! `steer rbac`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject};
use serde_json::{Value, json};
use steersman_cluster::{Access, Cluster, User};
use steersman_release::{Kinds, Object};
use steersman_scaffold::{LearnOptions, ObservedRequest, Plugin, Project as ProjectFile, learn_rbac};
use tokio::sync::oneshot;

use super::dev::project::{NAMESPACE, Project};
use super::dev::view::{View, Watched};
use crate::failure::{Failure, Result, note, warn};
use crate::output::Output;
use crate::scaffold::report;

/// Tighten the RBAC role of an operator
#[derive(Args, Debug)]
pub(crate) struct Rbac {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, Subcommand)]
enum Commands {
    Learn(Learn),
}

const ABOUT: &str = "\
Generate a least-privilege role from a run of the operator

Runs the operator on an embedded cluster with all permissions, applies the samples, waits until they are ready, \
deletes them, and writes the requests that the operator made as rules to config/rbac. Permissions in roles that the operator creates \
are included, as it can grant only permissions that it has. With --audit-log, the requests are read from the audit log of a real \
cluster instead.

The role allows only what the run did. For complete rules, first add samples to config/samples that use more of the charts or plays, \
and afterwards run `steer dev . --until-ready` or `steer e2e`.";

const EXAMPLES: &str = "\
A role that was edited by hand is not overwritten without --force; the difference is shown.

Examples:
  steer rbac learn --dry-run
  steer rbac learn
  steer rbac learn --audit-log audit.log
  steer rbac learn --audit-log audit.log --user system:serviceaccount:shop:shop-operator";

/// Interval at which objects are checked.
const LOOK: Duration = Duration::from_millis(100);

/// Generate a least-privilege role from a run of the operator
#[derive(Args, Debug)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
struct Learn {
    /// Directory of the project
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,

    /// Audit log of an API server to learn from, one JSON object per line; may be repeated
    #[arg(long, value_name = "FILE")]
    audit_log: Vec<PathBuf>,

    /// Operator's user in the log [default: config/rbac's account, with or without the project's prefix]
    #[arg(long, value_name = "NAME", requires = "audit_log")]
    user: Option<String>,

    /// Overwrite a role that was edited by hand
    #[arg(long)]
    force: bool,

    /// Show the difference without writing it
    #[arg(long)]
    dry_run: bool,

    /// Time to wait for samples to become ready, and to be deleted
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = crate::flags::duration)]
    timeout: Duration,
}

/// The observations of a run.
#[derive(Default)]
struct Observed {
    requests: Vec<ObservedRequest>,
    granted: Vec<Value>,
    own_namespace: String,
}

impl Rbac {
    pub(crate) fn run(self, output: &mut Output) -> Result {
        let Commands::Learn(learn) = self.command;
        learn.run(output)
    }
}

impl Learn {
    fn run(self, output: &mut Output) -> Result {
        let file = ProjectFile::load(&self.directory)?;
        // Rejects a Rust project before anything runs.
        if file.plugin()? == Plugin::Rust {
            learn_rbac(&self.directory, &[], &LearnOptions { dry_run: true, ..LearnOptions::default() })?;
        }
        let observed = match self.audit_log.is_empty() {
            true => crate::runtime::multi_thread()?.block_on(self.observe())?,
            false => self.read(&file)?,
        };
        if observed.requests.is_empty() {
            return Err(Failure::new("the operator made no requests")
                .help("--user names the operator's user in the log: system:serviceaccount:NAMESPACE:NAME"));
        }
        let options = LearnOptions {
            granted: observed.granted,
            own_namespace: observed.own_namespace,
            force: self.force,
            dry_run: self.dry_run,
        };
        let learned = learn_rbac(&self.directory, &observed.requests, &options)?;
        for (_, difference) in &learned.differences {
            output.push(difference);
        }
        if !self.force && !learned.edited.is_empty() {
            return Err(Failure::new(format!(
                "{} was edited by hand: not replaced",
                learned.edited.join(" and ")
            ))
            .help("--force replaces it with the rules above"));
        }
        for path in &learned.edited {
            warn(&format!("{path} was edited by hand"));
        }
        if self.dry_run {
            return Ok(());
        }
        if report(&learned.written, output) {
            output.line("\nNext: steer dev . --until-ready, to see that the samples get ready under it");
        }
        Ok(())
    }

    /// Reads the requests of the operator's user from audit logs.
    fn read(&self, file: &ProjectFile) -> Result<Observed> {
        let project = Project::load(&self.directory)?;
        let account = project.initial_objects()?.account;
        let names: BTreeSet<String> = match (&self.user, account) {
            (Some(user), _) => [user.clone()].into(),
            (None, Some((namespace, name))) => {
                let prefix = file.name();
                let deployed = format!("system:serviceaccount:{prefix}-system:{prefix}-{name}");
                [format!("system:serviceaccount:{namespace}:{name}"), deployed].into()
            }
            (None, None) => {
                return Err(Failure::new("config/rbac has no ServiceAccount")
                    .help("--user names the operator's user in the log"));
            }
        };
        let mut requests = BTreeSet::new();
        for path in &self.audit_log {
            let failed = |reason: String| Failure::new(format!("{}: {reason}", path.display()));
            let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
            let found =
                ObservedRequest::from_audit_log(&text, |user| names.contains(user)).map_err(failed)?;
            requests.extend(found);
        }
        let makes_roles =
            |request: &ObservedRequest| request.resource == "roles" || request.resource == "clusterroles";
        if requests.iter().any(makes_roles) {
            warn("the operator creates roles: also allow it what they grant, which the log does not show");
        }
        let own_namespace = format!("{}-system", file.name());
        Ok(Observed { requests: requests.into_iter().collect(), granted: Vec::new(), own_namespace })
    }

    /// Runs the operator on an embedded cluster as an administrator.
    async fn observe(&self) -> Result<Observed> {
        let project = Project::load(&self.directory)?;
        let cluster = Cluster::builder().record_access(true).start().await;
        let cluster = cluster.map_err(|error| Failure::new(error.to_string()))?;
        let client = cluster.client();
        project.install_definitions(&client).await?;
        let Some(account) = project.install_role(&client).await? else {
            return Err(
                Failure::new("config/rbac has no ServiceAccount").help("`steer update` adds what is missing")
            );
        };
        let user = account.user();
        allow_everything(&client, &user).await?;
        let operator_client = cluster.client_as(user.clone());
        let operator = project.operator(&operator_client).await?;
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = tokio::spawn(operator.run_until(operator_client, async {
            // Dropping the sender also stops the operator.
            let _ = stopped.await;
        }));
        let worked = self.work(&project, &cluster, &user).await;
        drop(stop);
        let ended = ended.await.map_err(|error| Failure::new(format!("the operator failed: {error}")));
        let granted = worked?;
        ended?.map_err(|error| Failure::new(error.to_string()))?;
        let own_namespace =
            project.initial_objects()?.account.map(|(namespace, _)| namespace).unwrap_or_default();
        Ok(Observed { requests: requests(&cluster, &user), granted, own_namespace })
    }

    /// Lets the operator reconcile the samples until they are ready, then deletes them.
    ///
    /// Returns what the roles that it created grant.
    async fn work(&self, project: &Project, cluster: &Cluster, user: &User) -> Result<Vec<Value>> {
        let client = cluster.client();
        let samples = project.apply_samples(&client).await?.len();
        if samples == 0 {
            return Err(Failure::new("config/samples is empty").help("add a sample of each kind"));
        }
        note(&format!("{samples} samples applied"));
        let kinds = project.parts.iter().flat_map(super::dev::project::Part::kinds).collect();
        let view = View::new(cluster.clone(), Watched::of(kinds).reporting());
        let begun = Instant::now();
        loop {
            let objects = view.look().await?.objects;
            if objects.len() >= samples && objects.iter().all(|object| object.ready) {
                break;
            }
            if begun.elapsed() >= self.timeout {
                let waiting = objects.iter().filter(|object| !object.ready);
                let waiting: Vec<String> =
                    waiting.map(|object| format!("{}: {}", object.title, object.state)).collect();
                return Err(Failure::new(format!("the samples are not ready: {}", waiting.join("; "))));
            }
            tokio::time::sleep(LOOK).await;
        }
        note("samples are ready");
        let granted = granted(&client, &requests(cluster, user)).await?;
        self.delete_samples(project, &client).await?;
        note("samples are deleted");
        Ok(granted)
    }

    async fn delete_samples(&self, project: &Project, client: &Client) -> Result {
        let kinds = Kinds::new(client.clone());
        let mut objects: Vec<Object> = Vec::new();
        for sample in project.samples()? {
            let object = steersman_release::resolve(sample, NAMESPACE, &kinds).await;
            objects.push(object.map_err(|error| Failure::new(error.to_string()))?);
        }
        for object in &objects {
            object.api(client).delete(&object.id.name, &DeleteParams::default()).await?;
        }
        let begun = Instant::now();
        for object in &objects {
            while object.api(client).get_opt(&object.id.name).await?.is_some() {
                if begun.elapsed() >= self.timeout {
                    return Err(Failure::new(format!(
                        "{}/{} was not deleted in time",
                        object.id.kind, object.id.name
                    )));
                }
                tokio::time::sleep(LOOK).await;
            }
        }
        Ok(())
    }
}

/// Binds the operator's account to cluster-admin.
async fn allow_everything(client: &Client, user: &User) -> Result {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "steer-rbac-learn"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user.name}],
    });
    super::dev::project::apply(client, &Kinds::new(client.clone()), binding, Path::new("steer-rbac-learn"))
        .await?;
    Ok(())
}

/// Returns the requests of a user so far, except those that every user may make.
fn requests(cluster: &Cluster, user: &User) -> Vec<ObservedRequest> {
    let accesses = cluster.accesses().into_iter().map(|(access, _)| access);
    let own = accesses.filter(|access| access.user == user.name && !access.resource.is_empty());
    let requests: BTreeSet<ObservedRequest> = own.map(request).collect();
    requests.into_iter().collect()
}

fn request(access: Access) -> ObservedRequest {
    let resource = match access.subresource.as_str() {
        "" => access.resource,
        subresource => format!("{}/{subresource}", access.resource),
    };
    ObservedRequest {
        verb: access.verb,
        group: access.group,
        resource,
        namespace: access.namespace,
        name: access.name,
    }
}

/// Returns the rules of roles that the operator wrote, and permissions to bind others that it bound.
async fn granted(client: &Client, requests: &[ObservedRequest]) -> Result<Vec<Value>> {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let kinds = Kinds::new(client.clone());
    let written = requests.iter().filter(|request| {
        request.group == GROUP
            && !request.name.is_empty()
            && ["create", "patch", "update"].contains(&request.verb.as_str())
    });
    let mut wanted: BTreeSet<(String, String, String)> = BTreeSet::new();
    for request in written {
        let kind = match request.resource.as_str() {
            "roles" => "Role",
            "clusterroles" => "ClusterRole",
            "rolebindings" => "RoleBinding",
            "clusterrolebindings" => "ClusterRoleBinding",
            _ => continue,
        };
        wanted.insert((kind.to_owned(), request.namespace.clone(), request.name.clone()));
    }
    let mut rules = Vec::new();
    for (kind, namespace, name) in &wanted {
        let object = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": {"name": name, "namespace": namespace},
        });
        let object = steersman_release::resolve(object, NAMESPACE, &kinds).await;
        let object = object.map_err(|error| Failure::new(error.to_string()))?;
        let api: Api<DynamicObject> = object.api(client);
        let Some(live) = api.get_opt(name).await? else { continue };
        rules.extend(live.data.get("rules").and_then(Value::as_array).cloned().unwrap_or_default());
        let Some(role) = live.data.get("roleRef") else { continue };
        let text = |key: &str| role.get(key).and_then(Value::as_str).unwrap_or_default();
        let is_own = wanted.iter().any(|(kind, _, name)| kind == text("kind") && name == text("name"));
        if !is_own {
            let resource = if text("kind") == "Role" { "roles" } else { "clusterroles" };
            rules.push(json!({
                "apiGroups": [GROUP], "resources": [resource], "resourceNames": [text("name")], "verbs": ["bind"],
            }));
        }
    }
    Ok(rules)
}
