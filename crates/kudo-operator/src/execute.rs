//! Executes tasks on a cluster.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use steersman::Readiness;
use steersman_chart::System;
use steersman_kudo::plan::{Outcome, TaskRef};
use steersman_kudo::task::{Failure, Rendered, Run, TaskPosition};
use steersman_kudo::{
    HealthCheck, Instance, Renderer, Task, annotation, dependencies, dependencies_hash, health, label,
    operator_version_name, parameters, pipe, reason, set_dependencies_hash, settled,
};
use steersman_release::{Kind, Kinds, ObjectChange, Redactor};

use crate::apply::{self, MANAGER, Target};
use crate::error::{Error, Result};
use crate::files::{FileError, PodFiles};
use crate::inventory::Entry;

/// Executes the tasks of one run.
pub(crate) struct Executor<'a> {
    pub(crate) client: Client,
    pub(crate) kinds: &'a Kinds,
    pub(crate) files: &'a Arc<dyn PodFiles>,
    pub(crate) run: Run<'a>,
    pub(crate) owner: OwnerReference,
    /// The name of the OperatorVersion object.
    pub(crate) operator_version: String,
    /// Whether the run has parameter values that apply to this run only.
    pub(crate) has_own_parameters: bool,
    /// Events that are not failures: an adopted object, a removed API version.
    pub(crate) notes: Vec<(&'static str, String)>,
    /// The objects that tasks applied and deleted, in order.
    pub(crate) ledger: Vec<Entry>,
    /// Whether a task waits for something that is not watched.
    pub(crate) is_polled: bool,
    /// Whether this is a dry run: the client is an overlay.
    pub(crate) is_dry: bool,
    /// The changes that Helm tasks would make, each with the redactor of the release's secrets.
    pub(crate) previewed: Vec<(ObjectChange, Arc<Redactor>)>,
}

/// Whether the controller watches the objects of a kind that a plan applies.
fn is_watched(kind: &Kind) -> bool {
    let resource = &kind.resource;
    kind.namespaced
        && matches!(
            (resource.group.as_str(), resource.kind.as_str()),
            ("apps", "Deployment" | "StatefulSet" | "DaemonSet")
                | ("batch", "Job")
                | ("", "Pod" | "Service")
                | ("kudo.dev", "Instance")
        )
}

/// The failure of a task: permanent or transient.
pub(crate) enum ReconcileError {
    Fatal(Failure),
    Transient(Error),
}

impl From<Failure> for ReconcileError {
    fn from(failure: Failure) -> Self {
        Self::Fatal(failure)
    }
}

impl From<Error> for ReconcileError {
    fn from(error: Error) -> Self {
        Self::Transient(error)
    }
}

pub(crate) type Attempt = std::result::Result<Outcome, ReconcileError>;

impl Executor<'_> {
    /// Runs a task once.
    pub(crate) async fn execute(&mut self, place: &TaskRef) -> Outcome {
        let run = self.run.clone();
        let at = TaskPosition { run: &run, phase: &place.phase, step: &place.step, task: &place.task };
        let attempt = match run.version.task(&place.task) {
            Some(task) => self.attempt(&at, task).await,
            None => {
                Err(Failure::new(reason::UNKNOWN_TASK_NAME, format!("missing task {}", place.task)).into())
            }
        };
        match attempt {
            Ok(outcome) => outcome,
            Err(ReconcileError::Fatal(Failure { reason, message })) => {
                let message = format!("Error during execution: fatal error: {}", at.describe(&message));
                Outcome::Fatal { reason, message }
            }
            Err(ReconcileError::Transient(error)) => {
                self.is_polled = true;
                Outcome::Transient(format!(
                    "A transient error when executing task {}.{}.{}.{}. Will retry. {error}",
                    run.plan_name, place.phase, place.step, place.task
                ))
            }
        }
    }

    async fn attempt(&mut self, at: &TaskPosition<'_>, task: &Task) -> Attempt {
        match task.kind.as_str() {
            "Apply" => self.apply(at, task).await,
            "Delete" => self.delete(at, &task.spec.resources).await,
            "Toggle" if at.toggle(task)? => self.apply(at, task).await,
            "Toggle" => self.delete(at, &task.spec.resources).await,
            "Pipe" => self.pipe(at, task).await,
            "KudoOperator" => self.child(at, task).await,
            "Helm" => self.release(at, task).await,
            "Dummy" if task.spec.want_err && task.spec.fatal => {
                Err(Failure::new(reason::DUMMY_TASK, "dummy error").into())
            }
            "Dummy" if task.spec.want_err => Err(Error::Refused("dummy error".into()).into()),
            "Dummy" if task.spec.done => Ok(Outcome::Done),
            "Dummy" => Ok(Outcome::Waiting("the task is never done".into())),
            other => Err(Failure::new(reason::TASK_BUILD, format!("unknown task kind {other}")).into()),
        }
    }

    fn render(at: &TaskPosition<'_>, resources: &[String]) -> std::result::Result<Vec<Rendered>, Failure> {
        at.render(&mut Renderer::new(System::default()), resources)
    }

    async fn apply(&mut self, at: &TaskPosition<'_>, task: &Task) -> Attempt {
        let mut targets = self.targets(at, &task.spec.resources).await?;
        let entries: Vec<_> = targets.iter().map(|target| self.entry(at, target)).collect();
        self.hash_dependencies(&mut targets).await?;
        let mut waiting = None;
        for (target, entry) in targets.iter().zip(entries) {
            let applied = target.apply(&self.client).await?;
            self.ledger.extend(entry.map(Entry::Applied));
            if applied.outcome == apply::Outcome::Adopted {
                self.notes.push((
                    reason::ADOPTED,
                    format!("{} already existed, and has been adopted by this instance", target.title()),
                ));
            }
            let check = HealthCheck::of(&task.spec.health, &applied.object);
            let is_final =
                check.is_some() || matches!(target.kind.resource.kind.as_str(), "Job" | "Instance");
            let health =
                check.map_or_else(|| health(&applied.object), |check| check.readiness(&applied.object));
            match health {
                Readiness::Ready => {}
                Readiness::Failed(why) if is_final => {
                    let message = format!("{}: {why}", target.title());
                    return Err(Failure::new(reason::FAILED_TERMINAL_STATE, message).into());
                }
                Readiness::Waiting(why) | Readiness::Failed(why) => {
                    self.is_polled |= !is_watched(&target.kind);
                    waiting = waiting.or(Some(format!("{}: {why}", target.title())));
                }
            }
        }
        Ok(waiting.map_or(Outcome::Done, Outcome::Waiting))
    }

    /// Returns the objects that a task applies, in order.
    pub(crate) async fn targets(
        &mut self,
        at: &TaskPosition<'_>,
        resources: &[String],
    ) -> std::result::Result<Vec<Target>, ReconcileError> {
        let rendered = Self::render(at, resources)?;
        let mut targets = Vec::new();
        for one in &rendered {
            one.name()?;
        }
        for Rendered { file, object, mapped } in rendered {
            if let Some(mapped) = mapped {
                self.notes.push((reason::REMOVED_API_VERSION, format!("templates/{file}: {mapped}")));
            }
            targets.push(self.target(at, &file, object).await?);
        }
        Ok(targets)
    }

    /// Completes an object with labels, annotations, namespace and owner reference.
    async fn target(
        &self,
        at: &TaskPosition<'_>,
        file: &str,
        mut object: Value,
    ) -> std::result::Result<Target, ReconcileError> {
        let Some(kind) = self.kind(&object).await? else {
            let message = format!(
                "templates/{file}: the cluster has no kind {} {}: install its definition in an earlier step",
                text(&object, "apiVersion"),
                text(&object, "kind")
            );
            return Err(Failure::new(reason::TASK_ENHANCEMENT, message).into());
        };
        let owner = serde_json::to_value(&self.owner).map_err(|error| Error::Refused(error.to_string()))?;
        at.enhance(&mut object, kind.namespaced, &owner);
        Ok(Target { kind, content: object })
    }

    async fn kind(&self, object: &Value) -> Result<Option<Kind>> {
        Ok(self.kinds.find_opt(text(object, "apiVersion"), text(object, "kind")).await?)
    }

    /// Annotates pod templates with the hash of what they mount, so that pods restart when it
    /// changes.
    pub(crate) async fn hash_dependencies(&self, targets: &mut [Target]) -> Result<()> {
        let contents: Vec<Value> = targets.iter().map(|target| target.content.clone()).collect();
        for target in targets.iter_mut() {
            let wanted = dependencies(&target.content);
            if wanted.is_empty() {
                continue;
            }
            let mut found = Vec::with_capacity(wanted.len());
            for dependency in &wanted {
                let is_it = |object: &&Value| {
                    object["kind"] == dependency.kind
                        && object["metadata"]["name"] == dependency.name.as_str()
                };
                let object = match contents.iter().find(is_it) {
                    Some(object) => Some(object.clone()),
                    None => self.live_dependency(dependency.kind, &dependency.name).await?,
                };
                found.push(object);
            }
            let hash = dependencies_hash(found.iter().map(Option::as_ref));
            set_dependencies_hash(&mut target.content, &hash);
        }
        Ok(())
    }

    /// Returns a ConfigMap or Secret as last applied, or else the live object.
    async fn live_dependency(&self, kind: &str, name: &str) -> Result<Option<Value>> {
        let content = json!({
            "apiVersion": "v1", "kind": kind, "metadata": { "name": name, "namespace": self.run.namespace },
        });
        let Some(kind) = self.kind(&content).await? else { return Ok(None) };
        let live = Target { kind, content }.live(&self.client).await?;
        Ok(live.map(|live| {
            let applied = live["metadata"]["annotations"][annotation::LAST_APPLIED].as_str();
            applied.and_then(|text| serde_json::from_str(text).ok()).unwrap_or(live)
        }))
    }

    async fn delete(&mut self, at: &TaskPosition<'_>, resources: &[String]) -> Attempt {
        let mut waiting = None;
        for one in Self::render(at, resources)? {
            one.name()?;
            let Rendered { object, .. } = one;
            // Objects of a kind that the cluster does not have need not be deleted.
            let Some(kind) = self.kind(&object).await? else { continue };
            let mut target = Target { kind, content: object };
            if target.kind.namespaced {
                target.content["metadata"]["namespace"] = at.run.namespace.into();
            }
            self.ledger.extend(target.kind.namespaced.then(|| Entry::deleted(&target)));
            if !target.delete(&self.client).await? {
                self.is_polled = true;
                waiting = waiting.or(Some(format!("{} is being deleted", target.title())));
            }
        }
        Ok(waiting.map_or(Outcome::Done, Outcome::Waiting))
    }

    async fn pipe(&self, at: &TaskPosition<'_>, task: &Task) -> Attempt {
        let rendered = Self::render(at, std::slice::from_ref(&task.spec.pod))?;
        let [Rendered { file, object, .. }] = rendered.as_slice() else {
            let message = format!("templates/{}: expected one Pod", task.spec.pod);
            return Err(Failure::new(reason::RESOURCE_UNMARSHAL, message).into());
        };
        let pod = self.target(at, file, pipe::pod(at, object.clone(), &task.spec.pipe)?).await?;
        // Artifacts that this run has already stored are not created again: a generated password
        // would differ.
        if self.has_artifacts(at, task).await? {
            return self.remove_pod(&pod).await;
        }
        let applied = pod.apply(&self.client).await?;
        if let Readiness::Waiting(why) | Readiness::Failed(why) = health(&applied.object) {
            return Ok(Outcome::Waiting(format!("{}: {why}", pod.title())));
        }
        let mut artifacts = Vec::new();
        for spec in &task.spec.pipe {
            let path = pipe::path(spec);
            let read = self.files.read(self.client.clone(), at.run.namespace, pod.name(), path).await;
            let content = read.map_err(|error| match error {
                FileError::Failed(why) => ReconcileError::Fatal(Failure::new(reason::PIPE_TASK, why)),
                FileError::Unreachable(why) => ReconcileError::Transient(Error::Refused(why)),
            })?;
            let artifact = pipe::artifact(at, spec, &content)?;
            artifacts.push(self.target(at, path, artifact).await?);
        }
        for artifact in &artifacts {
            artifact.apply(&self.client).await?;
        }
        self.remove_pod(&pod).await
    }

    async fn remove_pod(&self, pod: &Target) -> Attempt {
        // Its artifacts are stored: the plan need not wait until the pod is gone.
        pod.delete(&self.client).await?;
        Ok(Outcome::Done)
    }

    /// Whether all artifacts of the task exist, stored by this run.
    async fn has_artifacts(&self, at: &TaskPosition<'_>, task: &Task) -> Result<bool> {
        for spec in &task.spec.pipe {
            let content = json!({
                "apiVersion": "v1", "kind": spec.kind,
                "metadata": { "name": pipe::artifact_name(at, &spec.key), "namespace": at.run.namespace },
            });
            let Some(kind) = self.kind(&content).await? else { return Ok(false) };
            let live = Target { kind, content }.live(&self.client).await?;
            let made_by = |live: &Value| {
                live["metadata"]["annotations"][annotation::PLAN_UID].as_str() == Some(at.run.plan_uid)
            };
            if !live.is_some_and(|live| made_by(&live)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Creates or updates the child instance of another operator, and waits for its plan.
    async fn child(&self, at: &TaskPosition<'_>, task: &Task) -> Attempt {
        let spec = &task.spec;
        let run = at.run;
        let name = match spec.instance_name.as_str() {
            "" => format!("{}-{}", run.instance, spec.package),
            name => name.to_owned(),
        };
        let values = match spec.parameter_file.as_str() {
            "" => Default::default(),
            file => {
                let text = at.render_text(&mut Renderer::new(System::default()), file, &at.variables())?;
                parameters::from_file(file, text.as_bytes())
                    .map_err(|error| Failure::new(reason::TASK_RENDERING, error.to_string()))?
            }
        };
        let mut wanted = Instance::new(run.namespace, &name);
        wanted.metadata.labels.get_or_insert_default().insert(label::OPERATOR.into(), spec.package.clone());
        let owner = OwnerReference { controller: None, block_owner_deletion: None, ..self.owner.clone() };
        wanted.metadata.owner_references = Some(vec![owner]);
        wanted.spec.operator_version.name =
            operator_version_name(&spec.package, &spec.app_version, &spec.operator_version);
        wanted.spec.parameters = values;
        let api: Api<Instance> = Api::namespaced(self.client.clone(), run.namespace);
        let title = format!("Instance {}/{name}", run.namespace);
        let live = api.get_opt(&name).await.map_err(Error::kube(title.clone()))?;
        let child = match live {
            None => {
                let params = PostParams { field_manager: Some(MANAGER.into()), dry_run: false };
                api.create(&params, &wanted).await.map_err(Error::kube(title.clone()))?
            }
            Some(live)
                if live.spec.operator_version == wanted.spec.operator_version
                    && wanted
                        .spec
                        .parameters
                        .iter()
                        .all(|(key, value)| live.spec.parameters.get(key) == Some(value)) =>
            {
                live
            }
            Some(_) => {
                let patch = json!({ "spec": {
                    "operatorVersion": wanted.spec.operator_version, "parameters": wanted.spec.parameters,
                } });
                let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
                api.patch(&name, &params, &Patch::Merge(&patch)).await.map_err(Error::kube(title.clone()))?
            }
        };
        match settled(&child) {
            Readiness::Ready => Ok(Outcome::Done),
            Readiness::Waiting(why) => Ok(Outcome::Waiting(format!("{title}: {why}"))),
            Readiness::Failed(why) => {
                Err(Failure::new(reason::FAILED_TERMINAL_STATE, format!("{title}: {why}")).into())
            }
        }
    }
}

fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object[key].as_str().unwrap_or_default()
}
