//! The condition `Ready`: whether what a run made is up, told as soon as it changes and without another run.

use std::sync::Arc;

use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject};
use serde_json::{Value, json};
use steersman::{Action, Context, Controller, Error as RuntimeError, Key, Kind, Readiness, Snapshot, Watch};

use crate::proxy;
use crate::runs::Runs;
use crate::status::{
    self, HAS_FAILED, OBSERVED_GENERATION, READY, Verdict, WORKLOADS_NOT_READY, WORKLOADS_READY,
};

/// How many objects that are not ready are named in the message.
const NAMED: usize = 5;

/// A controller beside that of the plays, which keeps the condition.
pub(crate) fn controller(kind: Kind, name: &str, runs: Runs) -> Controller<DynamicObject> {
    let owner = kind.clone();
    let over = runs.subscribe();
    Controller::of_kind(kind, move |object: Arc<DynamicObject>, context| {
        let (owner, runs) = (owner.clone(), runs.clone());
        async move { reconcile(&owner, &runs, &object, &context).await }
    })
    .named(format!("{name}-readiness"))
    .on(over)
}

async fn reconcile(
    owner: &Kind,
    runs: &Runs,
    object: &DynamicObject,
    context: &Context,
) -> Result<Action, RuntimeError> {
    let uid = object.uid().unwrap_or_default();
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    // Before the first run of this process nothing is known that the status does not say already.
    let Some(run) = runs.last(&uid) else { return Ok(Action::await_change()) };
    let mut waiting = Vec::new();
    for (kind, key) in &run.made {
        let mapped = owner.clone();
        let watch = Watch::mapped_kind(kind.clone(), "ansible-readiness", move |snapshot| {
            proxy::owners(&mapped, snapshot)
        });
        let of = kind.clone();
        let changed = move |old: &Snapshot, new: &Snapshot| readiness_of(&of, old) != readiness_of(&of, new);
        context.watch(watch.when(changed).optional()).await?;
        let found = match context.cached(kind, key) {
            Some(snapshot) => Some(readiness_of(kind, &snapshot)),
            // Without the right to watch the kind there is no cache of it.
            None => live(kind, key, context).await?,
        };
        let why = match found {
            Some(Readiness::Ready) => continue,
            Some(Readiness::Waiting(why) | Readiness::Failed(why)) => why,
            None => "it is not there".to_owned(),
        };
        waiting.push(format!("{}/{}: {why}", kind.resource().kind, key.name()));
    }
    waiting.sort();
    let (is_ready, reason, message) = match (run.succeeded, waiting.is_empty()) {
        (false, _) => (false, HAS_FAILED, "the last run failed".to_owned()),
        (true, true) => (true, WORKLOADS_READY, "everything that was made is ready".to_owned()),
        (true, false) => (false, WORKLOADS_NOT_READY, named(&waiting)),
    };
    if is_said(object, is_ready, reason, &message, run.generation) {
        return Ok(Action::await_change());
    }
    let api: Api<DynamicObject> = match context.key().namespace() {
        Some(namespace) => Api::namespaced_with(context.client(), namespace, owner.resource()),
        None => Api::all_with(context.client(), owner.resource()),
    };
    let verdict = Verdict::Ready { is_ready, reason, message };
    status::write(&api, owner, object, &verdict, run.generation, context).await?;
    Ok(Action::await_change())
}

fn named(waiting: &[String]) -> String {
    let mut text = waiting.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
    if waiting.len() > NAMED {
        text.push_str(&format!("; and {} more", waiting.len() - NAMED));
    }
    text
}

/// Whether the status says it already. A condition without a generation will have none next time either.
fn is_said(
    object: &DynamicObject,
    is_ready: bool,
    reason: &str,
    message: &str,
    generation: Option<i64>,
) -> bool {
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
    let status = if is_ready { "True" } else { "False" };
    conditions.into_iter().flatten().any(|one| {
        one["type"] == READY
            && one["status"] == status
            && one["reason"] == reason
            && one["message"] == message
            && one.get(OBSERVED_GENERATION).is_none_or(|observed| observed.as_i64() == generation)
    })
}

async fn live(kind: &Kind, key: &Key, context: &Context) -> Result<Option<Readiness>, RuntimeError> {
    let objects = context.objects_of(kind).live();
    let objects = match key.namespace() {
        Some(namespace) => objects.namespace(namespace),
        None => objects.all_namespaces(),
    };
    let found = objects.get(key.name()).await?;
    Ok(found.map(|found| steersman::readiness(&json!(found))))
}

fn readiness_of(kind: &Kind, snapshot: &Snapshot) -> Readiness {
    let mut object: Value = serde_json::from_slice(snapshot.json()).unwrap_or_default();
    object["apiVersion"] = json!(kind.resource().api_version);
    object["kind"] = json!(kind.resource().kind);
    steersman::readiness(&object)
}
