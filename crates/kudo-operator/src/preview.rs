//! Previews a plan, step by step, without executing it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::Value;
use steersman_kudo::plan::{self, Evaluation, Outcome};
use steersman_kudo::task::{Run, pipes};
use steersman_kudo::{
    API_VERSION, Instance, OperatorVersion, Package, PlanExecution, annotation, parameters,
};
use steersman_release::{Change, FieldChange, Kinds, ObjectChange, Redactor, Release, changes};

use crate::client::{Kudo, check, check_required};
use crate::error::{Error, Result};
use crate::execute::Executor;
use crate::files::{PodFiles, SimulatedFiles};
use crate::inventory::{note, prune};
use crate::overlay::{Overlay, Written};

/// The preview of a plan.
#[derive(Clone, Debug)]
pub struct Preview {
    /// The instance.
    pub instance: String,
    /// The plan.
    pub plan: String,
    /// Its steps, in the order in which they would run.
    pub steps: Vec<StepPreview>,
    /// The objects that would be pruned once it is complete.
    pub pruned: Vec<ObjectPreview>,
    /// The reason why it would fail.
    pub failure: Option<String>,
}

/// The preview of a step.
#[derive(Clone, Debug)]
pub struct StepPreview {
    /// Its phase.
    pub phase: String,
    /// Its name.
    pub step: String,
    /// The objects that would change, in the order of writes. Unchanged objects are left out.
    pub objects: Vec<ObjectPreview>,
}

/// The preview of an object.
#[derive(Clone, Debug)]
pub struct ObjectPreview {
    /// A title such as `Deployment shop/web`.
    pub title: String,
    /// The change.
    pub change: PreviewedChange,
}

/// The change of an object, without the values of Secrets.
#[derive(Clone, Debug)]
pub enum PreviewedChange {
    /// It would be created. The object as YAML; empty for objects of charts.
    Created(String),
    /// These fields would change.
    Changed(Vec<FieldChange>),
    /// It would be deleted.
    Deleted,
}

impl fmt::Display for Preview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "plan {} of instance {} would run:", self.plan, self.instance)?;
        for StepPreview { phase, step, objects } in &self.steps {
            writeln!(
                f,
                "{}.{phase}.{step}{}",
                self.plan,
                if objects.is_empty() { ": no change" } else { "" }
            )?;
            objects.iter().try_for_each(|object| object.fmt(f))?;
        }
        if !self.pruned.is_empty() {
            writeln!(f, "after the plan, since this version no longer has it")?;
            self.pruned.iter().try_for_each(|object| object.fmt(f))?;
        }
        if let Some(failure) = &self.failure {
            writeln!(f, "and would fail: {failure}")?;
        }
        writeln!(f, "Nothing was written.")
    }
}

impl fmt::Display for ObjectPreview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.change {
            PreviewedChange::Created(manifest) => {
                writeln!(f, "  + {}", self.title)?;
                manifest.lines().try_for_each(|line| writeln!(f, "      {line}"))
            }
            PreviewedChange::Deleted => writeln!(f, "  - {}", self.title),
            PreviewedChange::Changed(fields) => {
                writeln!(f, "  ~ {}", self.title)?;
                fields.iter().try_for_each(|field| writeln!(f, "      {}: {field}", field.path))
            }
        }
    }
}

impl Kudo {
    /// Previews [`Kudo::install`].
    ///
    /// # Errors
    /// Fails if the instance already exists, or would be denied.
    pub async fn preview_install(
        &self,
        packages: &[Package],
        instance: Option<&str>,
        values: BTreeMap<String, String>,
    ) -> Result<Preview> {
        let package = packages.first().ok_or_else(|| Error::Refused("no package given".into()))?;
        let (mut instance, version) = self.new_instance(package, instance, values).await?;
        steersman_kudo::admission::create(&mut instance, &version, String::new)?;
        self.preview(instance, &version).await
    }

    /// Previews [`Kudo::upgrade`].
    ///
    /// # Errors
    /// The same as those of the previewed call.
    pub async fn preview_upgrade(
        &self,
        packages: &[Package],
        instance: &str,
        values: BTreeMap<String, String>,
    ) -> Result<Preview> {
        let package = packages.first().ok_or_else(|| Error::Refused("no package given".into()))?;
        let (changed, version) = self.upgraded(package, instance, &values).await?;
        check_required(&version, &changed)?;
        self.preview(changed, &version).await
    }

    /// Previews [`Kudo::update`].
    ///
    /// # Errors
    /// The same as those of the previewed call.
    pub async fn preview_update(&self, instance: &str, values: BTreeMap<String, String>) -> Result<Preview> {
        let live = self.instance(instance).await?;
        let version = self.version_of(&live).await?;
        let changed = check(&live, &version, &version, |spec| spec.parameters.extend(values))?;
        self.preview(changed, &version).await
    }

    /// Previews [`Kudo::trigger`].
    ///
    /// # Errors
    /// The same as those of the previewed call.
    pub async fn preview_trigger(
        &self,
        instance: &str,
        plan: &str,
        values: BTreeMap<String, String>,
    ) -> Result<Preview> {
        let live = self.instance(instance).await?;
        let version = self.version_of(&live).await?;
        let run =
            PlanExecution { plan_name: plan.to_owned(), parameters: values, ..PlanExecution::default() };
        let changed = check(&live, &version, &version, |spec| spec.plan_execution = run)?;
        self.preview(changed, &version).await
    }

    /// Executes an instance's scheduled plan on an overlay, where applied objects are healthy immediately.
    async fn preview(&self, mut instance: Instance, version: &OperatorVersion) -> Result<Preview> {
        let scheduled = instance.spec.plan_execution.clone();
        let name = &scheduled.plan_name;
        let mut preview = Preview {
            instance: format!("{}/{}", instance.namespace(), instance.name()),
            plan: name.clone(),
            steps: Vec::new(),
            pruned: Vec::new(),
            failure: None,
        };
        let Some(plan) = version.spec.plans.get(name) else { return Ok(preview) };
        let overlay = Overlay::new(self.client());
        let mut run = Run {
            version: &version.spec,
            instance: instance.name(),
            namespace: instance.namespace(),
            plan_name: name,
            plan_uid: &scheduled.uid,
            parameters: parameters::resolve(&version.spec, &instance.spec)?,
            pipes: BTreeMap::new(),
        };
        run.pipes = pipes(&run, plan).map_err(|failure| Error::Refused(failure.message))?;
        let kinds = Kinds::new(self.client());
        let files: Arc<dyn PodFiles> = Arc::new(SimulatedFiles);
        let mut executor = Executor {
            client: overlay.client(),
            kinds: &kinds,
            files: &files,
            run,
            owner: owner(&instance),
            operator_version: version.name().to_owned(),
            has_own_parameters: !scheduled.parameters.is_empty(),
            notes: Vec::new(),
            ledger: Vec::new(),
            is_polled: false,
            is_dry: true,
            previewed: Vec::new(),
        };
        let stored = plan::scheduled(name, plan, &scheduled.uid);
        let mut outcomes = BTreeMap::new();
        let mut steps: Vec<StepWrites> = Vec::new();
        while preview.failure.is_none() {
            let Evaluation { due, .. } = plan::evaluate(plan, &stored, &outcomes);
            if due.is_empty() {
                break;
            }
            for task in due {
                let outcome = executor.execute(&task).await;
                let (written, of_charts) = (overlay.take(), std::mem::take(&mut executor.previewed));
                let is_same =
                    |tried: &&mut StepWrites| (&tried.phase, &tried.step) == (&task.phase, &task.step);
                match steps.iter_mut().find(is_same) {
                    Some(tried) => {
                        tried.written.extend(written);
                        tried.of_charts.extend(of_charts);
                    }
                    None => {
                        let (phase, step) = (task.phase.clone(), task.step.clone());
                        steps.push(StepWrites { phase, step, written, of_charts });
                    }
                }
                if let Outcome::Fatal { message, .. } | Outcome::Transient(message) = &outcome {
                    preview.failure = Some(message.clone());
                    break;
                }
                outcomes.insert(task, Outcome::Done);
            }
        }
        let ledger = std::mem::take(&mut executor.ledger);
        drop(executor);
        let mut pruned = Vec::new();
        if preview.failure.is_none() {
            note(&mut instance.status, ledger);
            prune(&mut instance, version, &overlay.client(), &kinds).await;
            pruned = overlay.take();
        }
        let all = steps.iter().flat_map(|tried| &tried.written).chain(&pruned);
        let redactor = redactor(all);
        preview.failure = preview.failure.map(|text| redactor.redact(&text).into_owned());
        preview.steps = steps
            .into_iter()
            .map(|StepWrites { phase, step, written, of_charts }| StepPreview {
                phase,
                step,
                objects: objects(&written, &redactor).chain(of_charts.iter().filter_map(of_chart)).collect(),
            })
            .collect();
        preview.pruned = objects(&pruned, &redactor).collect();
        Ok(preview)
    }
}

/// The writes of a step to the overlay, and the changes of its charts.
struct StepWrites {
    phase: String,
    step: String,
    written: Vec<Written>,
    of_charts: Vec<(ObjectChange, Arc<Redactor>)>,
}

fn owner(instance: &Instance) -> OwnerReference {
    OwnerReference {
        api_version: API_VERSION.to_owned(),
        kind: "Instance".to_owned(),
        name: instance.name().to_owned(),
        uid: instance.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Builds a redactor of the values of all Secrets among the objects.
fn redactor<'a>(written: impl Iterator<Item = &'a Written>) -> Redactor {
    let states = written.flat_map(|one| [&one.before, &one.after]).flatten();
    let secrets = states.filter(|object| is_secret(object));
    let texts: Vec<String> = secrets.filter_map(|secret| steersman_yaml::to_string(secret).ok()).collect();
    Redactor::new(&Release { manifest: texts.join("---\n"), ..Release::default() })
}

fn is_secret(object: &Value) -> bool {
    object["kind"] == "Secret" && object["apiVersion"] == "v1"
}

fn objects<'a>(written: &'a [Written], redactor: &'a Redactor) -> impl Iterator<Item = ObjectPreview> + 'a {
    written.iter().filter_map(move |one| {
        let named = one.after.as_ref().or(one.before.as_ref())?;
        let change = match (one.before.as_ref().map(bare), one.after.as_ref().map(bare)) {
            (None, Some(after)) => PreviewedChange::Created(manifest(&after, redactor)),
            (Some(before), Some(after)) => {
                let fields = changes(&before, &after);
                if fields.is_empty() {
                    return None;
                }
                let is_secret = is_secret(named);
                PreviewedChange::Changed(
                    fields.into_iter().map(|field| redacted(field, is_secret, redactor)).collect(),
                )
            }
            (_, None) => PreviewedChange::Deleted,
        };
        Some(ObjectPreview { title: title(named), change })
    })
}

fn of_chart((object, redactor): &(ObjectChange, Arc<Redactor>)) -> Option<ObjectPreview> {
    let id = &object.id;
    let change = match &object.change {
        Change::Added => PreviewedChange::Created(String::new()),
        Change::Deleted => PreviewedChange::Deleted,
        Change::Changed(fields) => {
            let is_secret = id.kind == "Secret" && id.group.is_empty();
            let fields = fields.iter().cloned();
            PreviewedChange::Changed(fields.map(|field| redacted(field, is_secret, redactor)).collect())
        }
        Change::Kept | Change::Same => return None,
    };
    let title = match id.namespace.as_str() {
        "" => format!("{} {}", id.kind, id.name),
        namespace => format!("{} {namespace}/{}", id.kind, id.name),
    };
    Some(ObjectPreview { title, change })
}

fn title(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

/// Removes the fields that every run changes.
fn bare(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        for key in [
            annotation::PLAN,
            annotation::PHASE,
            annotation::STEP,
            annotation::PLAN_UID,
            annotation::LAST_APPLIED,
            annotation::ADMITTED,
        ] {
            annotations.remove(key);
        }
        if annotations.is_empty()
            && let Some(metadata) = object["metadata"].as_object_mut()
        {
            metadata.remove("annotations");
        }
    }
    object
}

fn manifest(object: &Value, redactor: &Redactor) -> String {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        // The owner is the instance, which may not exist yet.
        metadata.remove("ownerReferences");
    }
    if is_secret(&object) {
        for field in ["data", "stringData"] {
            for value in object[field].as_object_mut().into_iter().flat_map(serde_json::Map::values_mut) {
                *value = HIDDEN.into();
            }
        }
        // Indexing has inserted null for missing fields.
        object.as_object_mut().into_iter().for_each(|fields| fields.retain(|_, value| !value.is_null()));
    }
    let text = steersman_yaml::to_string(&object).unwrap_or_default();
    redactor.redact(&text).into_owned()
}

/// The placeholder for the value of a Secret.
const HIDDEN: &str = "REDACTED";

fn redacted(field: FieldChange, is_secret: bool, redactor: &Redactor) -> FieldChange {
    let is_value = is_secret && (field.path.starts_with("data") || field.path.starts_with("stringData"));
    let hide = |value: Option<Value>| {
        value.map(|value| match value {
            _ if is_value => HIDDEN.into(),
            Value::String(text) => redactor.redact(&text).into_owned().into(),
            other => {
                let text = other.to_string();
                let shown = redactor.redact(&text);
                if shown == text { other } else { shown.into_owned().into() }
            }
        })
    };
    FieldChange { before: hide(field.before), after: hide(field.after), path: field.path }
}
