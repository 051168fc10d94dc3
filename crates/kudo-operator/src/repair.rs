//! Drift correction: restores objects of an idle instance that were changed or deleted manually.
//!
//! The desired object is rendered again from the package, by the task that applied it last. It is never taken from the object or
//! the status, which users with fewer permissions than the operator may write. If it would be rendered differently now (a
//! parameter that triggers another plan has changed, or a template is random), it is left to the next plan.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};

use kube::api::DynamicObject;
use serde_json::Value;
use steersman::{Context, Key, Kind, Watch};
use steersman_kudo::task::{Failure, POD_TEMPLATES, Run, TaskPosition, pipes};
use steersman_kudo::{AppliedResource, Instance, OperatorVersion, annotation, label, parameters, reason};
use steersman_release::Kinds;

use crate::apply::{Outcome, Target};
use crate::error::{Error, Result};
use crate::execute::{Executor, ReconcileError};
use crate::files::PodFiles;
use crate::inventory::{digest, is_of_another, is_unmanaged};

/// The maximum number of instances remembered. Beyond it, all are checked again.
const MAX_INSTANCES: usize = 100_000;

/// Kinds that run to completion: if one is missing, it has ended, and must not run again.
const RUN_ONCE: [&str; 2] = ["Job", "Pod"];

/// The instances last found without drift.
#[derive(Default)]
pub(crate) struct UndriftedInstances(Mutex<HashMap<Key, Arc<State>>>);

/// The objects of an instance when they were last checked.
struct State {
    /// The hash of the inputs: inventory, parameters and version.
    of: u64,
    objects: Vec<(Kind, String, u64)>,
}

impl UndriftedInstances {
    fn get(&self, key: &Key) -> Option<Arc<State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn set(&self, key: &Key, state: State) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_INSTANCES {
            known.clear();
        }
        known.insert(key.clone(), Arc::new(state));
    }
}

/// Repairs drift. Sends no request if the caches show no change since the last time.
pub(crate) async fn repair(
    instance: &Instance,
    version: &OperatorVersion,
    known: &UndriftedInstances,
    kinds: &Kinds,
    files: &Arc<dyn PodFiles>,
    context: &Context,
) -> steersman::Result<()> {
    if !instance.status.resources.iter().any(is_kept) {
        return Ok(());
    }
    let of = cause(instance, version);
    if let Some(state) = known.get(context.key())
        && state.of == of
        && is_unchanged(&state, context).await?
    {
        return Ok(());
    }
    let mut objects = Vec::new();
    for (place, resources) in places(instance) {
        let targets = match targets(instance, version, &place, kinds, files, context).await {
            Ok(targets) => targets,
            Err(ReconcileError::Fatal(Failure { message, .. })) => {
                tracing::debug!(instance = instance.name(), message, "cannot repair the objects of a task");
                continue;
            }
            Err(ReconcileError::Transient(error)) => return Err(steersman::Error::other(error)),
        };
        for (target, rendered) in targets {
            let resource = &target.kind.resource;
            let is_it = |one: &&&AppliedResource| {
                one.is(&resource.api_version, &resource.kind, target.name()) && one.digest == rendered
            };
            if !target.kind.namespaced || !resources.iter().any(|one| is_it(&one)) {
                continue;
            }
            let kind = Kind::dynamic(resource.clone(), true);
            context
                .watch(Watch::owned_kind(kind.clone()).labels(format!("{}=kudo", label::HERITAGE)))
                .await?;
            let live = bring_back(&target, instance, context).await.map_err(steersman::Error::other)?;
            objects.push((kind, target.name().to_owned(), fingerprint(live)));
        }
    }
    known.set(context.key(), State { of, objects });
    Ok(())
}

fn is_kept(one: &AppliedResource) -> bool {
    one.managed && !one.digest.is_empty() && !RUN_ONCE.contains(&one.kind.as_str())
}

fn cause(instance: &Instance, version: &OperatorVersion) -> u64 {
    let mut hasher = DefaultHasher::new();
    instance.metadata.uid.hash(&mut hasher);
    version.metadata.resource_version.hash(&mut hasher);
    instance.spec.parameters.hash(&mut hasher);
    for one in &instance.status.resources {
        (&one.api_version, &one.kind, &one.name, &one.uid, &one.digest).hash(&mut hasher);
    }
    hasher.finish()
}

async fn is_unchanged(state: &State, context: &Context) -> steersman::Result<bool> {
    for (kind, name, good) in &state.objects {
        let cached: Option<DynamicObject> = context.objects_of(kind).get(name).await?;
        let cached = cached.and_then(|object| serde_json::to_value(&object).ok());
        if fingerprint(cached) != *good {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Hashes the parts of an object that users can change.
fn fingerprint(object: Option<Value>) -> u64 {
    let mut hasher = DefaultHasher::new();
    let text = object.map(|mut object| {
        if let Some(fields) = object.as_object_mut() {
            // Objects from caches may lack their type.
            for field in ["status", "apiVersion", "kind"] {
                fields.remove(field);
            }
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for field in ["managedFields", "resourceVersion", "generation"] {
                metadata.remove(field);
            }
        }
        object.to_string()
    });
    text.hash(&mut hasher);
    hasher.finish()
}

/// Plan, phase, step, task and run UID.
type TaskPlace = (String, String, String, String, String);

/// Groups the objects to maintain by the task that applied them.
fn places(instance: &Instance) -> BTreeMap<TaskPlace, Vec<&AppliedResource>> {
    let mut places: BTreeMap<TaskPlace, Vec<&AppliedResource>> = BTreeMap::new();
    for one in instance.status.resources.iter().filter(|one| is_kept(one)) {
        let place =
            (one.plan.clone(), one.phase.clone(), one.step.clone(), one.task.clone(), one.uid.clone());
        places.entry(place).or_default().push(one);
    }
    places
}

/// Returns what a task would apply now, each object with its digest.
async fn targets(
    instance: &Instance,
    version: &OperatorVersion,
    (plan_name, phase, step, task, uid): &TaskPlace,
    kinds: &Kinds,
    files: &Arc<dyn PodFiles>,
    context: &Context,
) -> std::result::Result<Vec<(Target, String)>, ReconcileError> {
    let gone = |what: &str| Failure::new("InvalidPlan", format!("its {what} no longer exists"));
    let plan = version.spec.plans.get(plan_name).ok_or_else(|| gone("plan"))?;
    let task = version.spec.task(task).ok_or_else(|| gone("task"))?;
    let values = parameters::resolve(&version.spec, &instance.spec)
        .map_err(|error| Failure::new("InvalidParams", error.to_string()))?;
    let mut run = Run {
        version: &version.spec,
        instance: instance.name(),
        namespace: instance.namespace(),
        plan_name,
        plan_uid: uid,
        parameters: values,
        pipes: BTreeMap::new(),
    };
    run.pipes = pipes(&run, plan)?;
    let at = TaskPosition { run: &run, phase, step, task: &task.name };
    let mut executor = Executor {
        client: context.client(),
        kinds,
        files,
        run: run.clone(),
        owner: context.owner_reference(),
        operator_version: version.name().to_owned(),
        has_own_parameters: false,
        notes: Vec::new(),
        ledger: Vec::new(),
        is_polled: false,
        is_dry: false,
        previewed: Vec::new(),
    };
    let mut targets = executor.targets(&at, &task.spec.resources).await?;
    let digests: Vec<String> = targets.iter().map(|target| digest(&target.content)).collect();
    executor.hash_dependencies(&mut targets).await?;
    Ok(targets.into_iter().zip(digests).collect())
}

/// Restores an object, with an event if it had drifted. Returns the resulting object, if it exists.
async fn bring_back(target: &Target, instance: &Instance, context: &Context) -> Result<Option<Value>> {
    let uid = instance.metadata.uid.as_deref().unwrap_or_default();
    let live = target.live(&context.client()).await?;
    let mut target = target.clone();
    if let Some(live) = &live {
        if is_unmanaged(live) || is_of_another(live, uid) || is_deleting(live) {
            return Ok(Some(live.clone()));
        }
        keep_hash(&mut target.content, live);
    }
    let applied = target.apply(&context.client()).await?;
    let what = match applied.outcome {
        Outcome::Created => "deleted",
        Outcome::Changed | Outcome::Adopted => "changed",
        Outcome::Unchanged => return Ok(Some(applied.object)),
    };
    tracing::info!(object = target.title(), "restored an object that was {what}");
    context.event(
        reason::DRIFT_CORRECTED,
        format!("{} was {what} by others and has been restored", target.title()),
    );
    let observed: DynamicObject = serde_json::from_value(applied.object.clone())
        .map_err(|error| Error::Refused(format!("{}: {error}", target.title())))?;
    let kind = Kind::dynamic(target.kind.resource.clone(), true);
    context.observe_dynamic(&kind, &observed).map_err(|error| Error::Refused(error.to_string()))?;
    Ok(Some(applied.object))
}

fn is_deleting(live: &Value) -> bool {
    live.pointer("/metadata/deletionTimestamp").is_some()
}

/// Keeps the hash of mounted objects. Pods restart when a plan applies their template, not between plans.
fn keep_hash(content: &mut Value, live: &Value) {
    let key = annotation::DEPENDENCIES_HASH;
    for path in POD_TEMPLATES {
        let hash = live.pointer(path).map(|template| template["metadata"]["annotations"][key].clone());
        let annotations = content
            .pointer_mut(&format!("{path}/metadata/annotations"))
            .and_then(Value::as_object_mut)
            .filter(|annotations| annotations.contains_key(key));
        if let (Some(hash @ Value::String(_)), Some(annotations)) = (hash, annotations) {
            annotations.insert(key.to_owned(), hash);
        }
    }
}
