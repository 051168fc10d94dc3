//! Replica sets: as many pods as wanted.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::{
    apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus},
    core::v1::Pod,
};
use kube::ResourceExt as _;

use super::pods;
use crate::world::{Duty, Notice, World};

const NAME: &str = "replicaset-controller";

pub(super) async fn look(world: &mut World, namespace: &str, name: &str) -> kube::Result<()> {
    let Some(set) = world.caches.replica_sets.get(namespace, name) else { return Ok(()) };
    let Some(spec) = &set.spec else { return Ok(()) };
    let pods: Vec<Arc<Pod>> = pods::claim(world, &*set, &spec.selector).await?;
    let failure = if pods::is_deleting(&*set) { None } else { manage(world, &set, &pods).await };
    // What was made and deleted is in the cache by now.
    let uid = set.uid().unwrap_or_default();
    let pods: Vec<Arc<Pod>> = world.caches.pods.controlled_by(&uid).cloned().collect();
    report(world, &set, &pods, failure.as_ref()).await?;
    match failure {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Makes or deletes pods; gives the first failure.
async fn manage(world: &mut World, set: &ReplicaSet, pods: &[Arc<Pod>]) -> Option<kube::Error> {
    let spec = set.spec.as_ref()?;
    let wanted = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or_default();
    let mut active: Vec<Arc<Pod>> = pods.iter().filter(|p| pods::is_active(p)).cloned().collect();
    let template = spec.template.clone().unwrap_or_default();
    for _ in active.len()..wanted {
        let pod = pods::from_template(set, &template, pods::generated(&set.name_any()));
        match world.create(&pod).await {
            Ok(made) => {
                let message = format!("Created pod: {}", made.name_any());
                world
                    .tell(
                        set,
                        Notice { from: NAME, warning: false, reason: "SuccessfulCreate", message: &message },
                    )
                    .await;
            }
            Err(error) => {
                let message = format!("Error creating: {error}");
                world
                    .tell(
                        set,
                        Notice { from: NAME, warning: true, reason: "FailedCreate", message: &message },
                    )
                    .await;
                return Some(error);
            }
        }
    }
    if active.len() > wanted {
        pods::by_worth(&mut active);
        for pod in &active[..active.len() - wanted] {
            if let Err(error) = world.delete(&**pod, None).await {
                return Some(error);
            }
            let message = format!("Deleted pod: {}", pod.name_any());
            world
                .tell(
                    set,
                    Notice { from: NAME, warning: false, reason: "SuccessfulDelete", message: &message },
                )
                .await;
        }
    }
    None
}

async fn report(
    world: &mut World,
    set: &ReplicaSet,
    pods: &[Arc<Pod>],
    failure: Option<&kube::Error>,
) -> kube::Result<()> {
    let Some(spec) = &set.spec else { return Ok(()) };
    let now = world.now();
    let wait = spec.min_ready_seconds.unwrap_or_default();
    let labels = spec
        .template
        .as_ref()
        .and_then(|t| t.metadata.as_ref())
        .and_then(|m| m.labels.clone())
        .unwrap_or_default();
    let active: Vec<&Arc<Pod>> = pods.iter().filter(|p| pods::is_active(p)).collect();
    let count = |test: &dyn Fn(&Pod) -> bool| {
        i32::try_from(active.iter().filter(|p| test(p)).count()).unwrap_or(i32::MAX)
    };
    let terminating = pods.iter().filter(|p| pods::is_deleting(&***p) && !pods::is_over(p)).count();
    let nonzero = |n: i32| (n != 0).then_some(n);
    let mut status = ReplicaSetStatus {
        replicas: count(&|_| true),
        fully_labeled_replicas: nonzero(count(&|p| labels.iter().all(|(k, v)| p.labels().get(k) == Some(v)))),
        ready_replicas: nonzero(count(&pods::is_ready)),
        available_replicas: nonzero(count(&|p| pods::is_available(p, wait, now))),
        terminating_replicas: i32::try_from(terminating).ok(),
        observed_generation: set.metadata.generation,
        conditions: set.status.as_ref().and_then(|s| s.conditions.clone()),
    };
    let failed = status.conditions.iter().flatten().any(|c| c.type_ == "ReplicaFailure");
    match failure {
        Some(error) if !failed => status.conditions.get_or_insert_default().push(ReplicaSetCondition {
            type_: "ReplicaFailure".into(),
            status: "True".into(),
            reason: Some("FailedCreate".into()),
            message: Some(message(error)),
            last_transition_time: Some(world.time()),
        }),
        None if failed => {
            let left: Vec<_> = status.conditions.take().unwrap_or_default();
            let left: Vec<_> = left.into_iter().filter(|c| c.type_ != "ReplicaFailure").collect();
            status.conditions = (!left.is_empty()).then_some(left);
        }
        _ => {}
    }
    // Pods that are ready but not for long enough are looked at again when they are.
    let due =
        active.iter().filter_map(|p| pods::until_available(p, wait, now)).filter(|d| !d.is_zero()).min();
    if let Some(due) = due {
        let name = (set.namespace().unwrap_or_default(), set.name_any());
        world.push_after(Duty::ReplicaSet, &name.0, &name.1, due + Duration::from_millis(1));
    }
    if set.status.as_ref() == Some(&status) {
        return Ok(());
    }
    // The set itself may have been written by its deployment in the meantime.
    let mut changed = set.clone();
    changed.status = Some(status);
    world.update_status(&changed).await.map(drop)
}

/// What the API said.
pub(super) fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}
