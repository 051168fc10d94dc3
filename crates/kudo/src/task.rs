//! Tasks: renders templates, and adds metadata to every applied object.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use steersman_chart::{Chart, File};

use crate::api::{OperatorVersionSpec, PipeSpec, Plan, Task, annotation, label};
use crate::parameters;
use crate::pipe;
use crate::reason;
use crate::removed::{Mapped, map_removed_api};
use crate::template::Renderer;

/// The paths of pod templates in workloads.
pub const POD_TEMPLATES: [&str; 2] = ["/spec/template", "/spec/jobTemplate/spec/template"];

/// The permanent failure of a task: event reason and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The reason of the event, one of KUDO's.
    pub reason: &'static str,
    /// The error message, with file and line where known.
    pub message: String,
}

impl Failure {
    /// Creates a failure.
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// A run of a plan: the data shared by all of its tasks.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// The operator version.
    pub version: &'a OperatorVersionSpec,
    /// The instance's name.
    pub instance: &'a str,
    /// The instance's namespace.
    pub namespace: &'a str,
    /// The plan.
    pub plan_name: &'a str,
    /// The run's UID.
    pub plan_uid: &'a str,
    /// `.Params`.
    pub parameters: BTreeMap<String, Value>,
    /// `.Pipes`.
    pub pipes: BTreeMap<String, String>,
}

/// The position of a task in a run.
#[derive(Clone, Copy, Debug)]
pub struct TaskPosition<'a> {
    /// The run.
    pub run: &'a Run<'a>,
    /// The phase.
    pub phase: &'a str,
    /// The step.
    pub step: &'a str,
    /// The task.
    pub task: &'a str,
}

/// An object rendered from a template.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// The template.
    pub file: String,
    /// The object.
    pub object: Value,
    /// The conversion, if its API version was a removed one.
    pub mapped: Option<Mapped>,
}

impl Rendered {
    /// Returns the object's name.
    ///
    /// # Errors
    /// Fails if it has none: only the pod of a Pipe task may be unnamed.
    pub fn name(&self) -> Result<&str, Failure> {
        let name = self.object["metadata"]["name"].as_str().filter(|name| !name.is_empty());
        name.ok_or_else(|| {
            let kind = self.object["kind"].as_str().unwrap_or_default();
            Failure::new(reason::TASK_RENDERING, format!("templates/{}: {kind} has no name", self.file))
        })
    }
}

/// Loads the chart of a Helm task from its files.
///
/// # Errors
/// Fails if they are not a chart.
pub fn chart(files: &BTreeMap<String, String>) -> Result<Chart, steersman_chart::Error> {
    Chart::from_files(files.iter().map(|(path, text)| File::new(path.as_str(), text.as_str())))
}

/// Builds `.Pipes` of a plan: the object name for each key.
///
/// # Errors
/// Fails if two pipes of the plan have the same key.
pub fn pipes(run: &Run<'_>, plan: &Plan) -> Result<BTreeMap<String, String>, Failure> {
    let mut pipes = BTreeMap::new();
    for phase in &plan.phases {
        for step in &phase.steps {
            for name in &step.tasks {
                let Some(task) = run.version.task(name).filter(|task| task.kind == "Pipe") else { continue };
                let place = TaskPosition { run, phase: &phase.name, step: &step.name, task: name };
                for PipeSpec { key, .. } in &task.spec.pipe {
                    let object = pipe::artifact_name(&place, key);
                    if pipes.insert(key.clone(), object).is_some() {
                        let message = format!("could not make task pipes: duplicated pipe key {key}");
                        return Err(Failure::new(reason::INVALID_PLAN, message));
                    }
                }
            }
        }
    }
    Ok(pipes)
}

impl TaskPosition<'_> {
    /// Returns the variables of templates.
    #[must_use]
    pub fn variables(&self) -> Value {
        let Self { run, phase, step, .. } = self;
        let params: Map<String, Value> = run.parameters.clone().into_iter().collect();
        json!({
            "OperatorName": run.version.operator.name,
            "OperatorVersion": run.version.version,
            "AppVersion": run.version.app_version,
            "Name": run.instance,
            "Namespace": run.namespace,
            "PlanName": run.plan_name,
            "PhaseName": phase,
            "StepName": step,
            "Params": params,
            "Pipes": run.pipes,
        })
    }

    /// Prefixes a message with the task's position, like KUDO's events.
    #[must_use]
    pub fn describe(&self, message: &str) -> String {
        let Self { run, phase, step, task } = self;
        format!(
            "{}/{} failed in {}.{phase}.{step}.{task}: {message}",
            run.namespace, run.instance, run.plan_name
        )
    }

    /// Renders templates into objects, in order; removed API versions are converted to current ones.
    ///
    /// # Errors
    /// Fails if a template is missing, does not render, or does not yield YAML.
    pub fn render(&self, renderer: &mut Renderer, resources: &[String]) -> Result<Vec<Rendered>, Failure> {
        let variables = self.variables();
        let mut objects = Vec::new();
        for file in resources {
            let text = self.render_text(renderer, file, &variables)?;
            for document in documents(&text) {
                let value = steersman_yaml::from_str(document).map_err(|error| {
                    Failure::new(reason::TASK_RENDERING, format!("templates/{file}: {error}"))
                })?;
                add(file, value, &mut objects)?;
            }
        }
        Ok(objects)
    }

    /// Renders one template.
    ///
    /// # Errors
    /// Fails if it is missing or does not render.
    pub fn render_text(
        &self,
        renderer: &mut Renderer,
        file: &str,
        variables: &Value,
    ) -> Result<String, Failure> {
        let Some(template) = self.run.version.templates.get(file) else {
            let message = format!("error finding resource named {file}");
            return Err(Failure::new(reason::TASK_RENDERING, message));
        };
        renderer.render(file, template, variables).map_err(|message| {
            Failure::new(reason::TASK_RENDERING, format!("error expanding template: {message}"))
        })
    }

    /// Adds the labels, annotations, namespace and owner reference that every applied object has.
    pub fn enhance(&self, object: &mut Value, namespaced: bool, owner: &Value) {
        let run = self.run;
        let labels = [
            (label::HERITAGE, "kudo"),
            (label::OPERATOR, run.version.operator.name.as_str()),
            (label::INSTANCE, run.instance),
        ];
        insert_strings(object, "", "labels", &labels);
        insert_strings(
            object,
            "",
            "annotations",
            &[
                (annotation::PLAN, run.plan_name),
                (annotation::PHASE, self.phase),
                (annotation::STEP, self.step),
                (annotation::PLAN_UID, run.plan_uid),
            ],
        );
        if has_pod_template(object) {
            for path in
                POD_TEMPLATES.into_iter().filter(|path| object.pointer(path).is_some()).collect::<Vec<_>>()
            {
                insert_strings(object, path, "labels", &labels);
                let version = [(annotation::OPERATOR_VERSION, run.version.version.as_str())];
                insert_strings(object, path, "annotations", &version);
            }
            let claims = object.pointer_mut("/spec/volumeClaimTemplates").and_then(Value::as_array_mut);
            for claim in claims.into_iter().flatten() {
                insert_strings(claim, "", "labels", &labels);
            }
        }
        if namespaced {
            object["metadata"]["namespace"] = run.namespace.into();
            object["metadata"]["ownerReferences"] = json!([owner]);
        }
    }

    /// Whether a Toggle task applies or deletes.
    ///
    /// # Errors
    /// Fails if the parameter is missing or not a boolean.
    pub fn toggle(&self, task: &Task) -> Result<bool, Failure> {
        let name = &task.spec.parameter;
        let failed = |why: String| Failure::new(reason::TOGGLE_TASK, why);
        match self.run.parameters.get(name) {
            None => Err(failed(format!("no value for parameter {name} found"))),
            Some(value) => value.as_str().and_then(parameters::parse_bool).ok_or_else(|| {
                failed(format!("could not parse value of parameter {name}: {value} is not a boolean"))
            }),
        }
    }
}

/// Whether it is a built-in workload with a pod template.
fn has_pod_template(object: &Value) -> bool {
    let group =
        object["apiVersion"].as_str().unwrap_or_default().rsplit_once('/').map_or("", |(group, _)| group);
    matches!(
        (group, object["kind"].as_str().unwrap_or_default()),
        ("apps", "StatefulSet" | "Deployment" | "ReplicaSet" | "DaemonSet")
            | ("", "ReplicationController")
            | ("batch", "Job" | "CronJob")
    )
}

/// Inserts entries into a map of the metadata at a path.
pub(crate) fn insert_strings(object: &mut Value, path: &str, table: &str, entries: &[(&str, &str)]) {
    let Some(parent) = object.pointer_mut(path).and_then(Value::as_object_mut) else { return };
    let metadata = parent.entry("metadata").or_insert_with(|| json!({}));
    if metadata.is_null() {
        *metadata = json!({});
    }
    let Some(metadata) = metadata.as_object_mut() else { return };
    let table = metadata.entry(table).or_insert_with(|| json!({}));
    if table.is_null() {
        *table = json!({});
    }
    if let Some(table) = table.as_object_mut() {
        table.extend(entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())));
    }
}

/// Splits a string into YAML documents, separated by lines that begin with `---`.
fn documents(text: &str) -> impl Iterator<Item = &str> {
    let text = text.strip_prefix("---").unwrap_or(text);
    text.split("\n---").filter(|document| !document.trim().is_empty())
}

fn add(file: &str, mut value: Value, objects: &mut Vec<Rendered>) -> Result<(), Failure> {
    let wrong = |why: &str| Failure::new(reason::TASK_RENDERING, format!("templates/{file}: {why}"));
    match &value {
        Value::Null => return Ok(()),
        Value::Object(_) => {}
        _ => return Err(wrong("expected an object")),
    }
    let kind = value["kind"].as_str().unwrap_or_default();
    if kind.is_empty() || value["apiVersion"].as_str().unwrap_or_default().is_empty() {
        return Err(wrong("object has no apiVersion or kind"));
    }
    if kind == "List" && value["items"].is_array() {
        if let Value::Array(items) = value["items"].take() {
            for item in items {
                add(file, item, objects)?;
            }
        }
        return Ok(());
    }
    let mapped = map_removed_api(&mut value);
    objects.push(Rendered { file: file.to_owned(), object: value, mapped });
    Ok(())
}
