//! The `Ready` condition: whether the objects that runs created are ready, updated without another run.

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

/// The number of unready objects named in the message.
const NAMED: usize = 5;

/// Creates the controller of the condition, which runs next to the one of the plays.
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
    // Before the first run of this process, the status is as accurate as anything known here.
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
            // Without permission to watch the kind, it is not cached.
            None => live(kind, key, context).await?,
        };
        let why = match found {
            Some(Readiness::Ready) => continue,
            Some(Readiness::Waiting(why) | Readiness::Failed(why)) => why,
            None => "not found".to_owned(),
        };
        waiting.push(format!("{}/{}: {why}", kind.resource().kind, key.name()));
    }
    waiting.sort();
    let (is_ready, reason, message) = match (run.succeeded, waiting.is_empty()) {
        (false, _) => (false, HAS_FAILED, "the last run failed".to_owned()),
        (true, true) => (true, WORKLOADS_READY, "all created objects are ready".to_owned()),
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

/// Whether the status has the condition already. One without a generation counts: the schema would drop it
/// again.
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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::time::Duration;

    use steersman::testing::TestEnv;
    use steersman::{Operator, predicate};
    use tokio::sync::mpsc;

    use super::*;

    fn definition() -> Value {
        let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": "teams.lab.example.com" },
            "spec": {
                "group": "lab.example.com", "scope": "Namespaced", "names": { "kind": "Team", "plural": "teams" },
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                    "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": open, "status": open } } },
                }],
            },
        })
    }

    #[tokio::test]
    async fn what_is_said_of_workloads_brings_no_run() {
        let mut env = TestEnv::start().await.unwrap();
        env.install(&serde_json::from_value(definition()).unwrap()).await.unwrap();
        let resource = kube::api::ApiResource {
            group: "lab.example.com".into(),
            version: "v1".into(),
            api_version: "lab.example.com/v1".into(),
            kind: "Team".into(),
            plural: "teams".into(),
        };
        let kind = Kind::dynamic(resource.clone(), true);
        let runs = Runs::default();
        let (tell, mut told) = mpsc::unbounded_channel();
        let (of, ended) = (kind.clone(), runs.clone());
        // Reports runs like the plays' controller, without a play.
        let plays = Controller::of_kind(kind.clone(), move |object: Arc<DynamicObject>, context: Context| {
            let (of, runs, tell) = (of.clone(), ended.clone(), tell.clone());
            async move {
                let api: Api<DynamicObject> =
                    Api::namespaced_with(context.client(), "default", of.resource());
                let generation = object.metadata.generation;
                for verdict in [Verdict::Running, Verdict::Succeeded { result: None }] {
                    status::write(&api, &of, &object, &verdict, generation, &context).await?;
                }
                runs.ended(&object.uid().unwrap_or_default(), generation, true, HashMap::new());
                runs.notify(context.key());
                let _ = tell.send(object.name_any());
                Ok::<_, RuntimeError>(Action::await_change())
            }
        })
        .when(predicate::generation_changed);
        env.run(Operator::new("lab").controller(controller(kind, "team", runs)).controller(plays));
        let api: Api<DynamicObject> = Api::namespaced_with(env.client(), "default", &resource);
        let mut all = Vec::new();
        for number in 0..20 {
            let name = format!("team-{number}");
            let team = DynamicObject::new(&name, &resource).data(json!({ "spec": {} }));
            api.create(&kube::api::PostParams::default(), &team).await.unwrap();
            let is_said = async {
                while !is_said(
                    &api.get(&name).await.unwrap(),
                    true,
                    WORKLOADS_READY,
                    "all created objects are ready",
                    Some(1),
                ) {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(Duration::from_secs(30), is_said).await.unwrap();
            all.push(name);
        }
        let mut heard = Vec::new();
        // The watch delivers the last object only after everything about the earlier ones.
        while heard.last() != all.last() {
            heard.push(tokio::time::timeout(Duration::from_secs(30), told.recv()).await.unwrap().unwrap());
        }
        assert_eq!(heard, all);
    }
}
