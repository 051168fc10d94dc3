//! Replica sets and their elders, replication controllers: as many pods as wanted.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::{
        apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus},
        core::v1::{
            Pod, PodTemplateSpec, ReplicationController, ReplicationControllerCondition,
            ReplicationControllerStatus,
        },
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, Time},
};
use kube::ResourceExt as _;

use super::pods;
use crate::world::{Duty, Kind, Notice, World};

/// A kind that keeps a number of equal pods.
pub(super) trait Keeper: Kind {
    /// Who tells its events.
    const NAME: &'static str;
    /// Who looks at it.
    const DUTY: Duty;

    /// What it wants.
    fn wish(&self) -> Option<Wish>;

    /// The same with a status that tells `tally`.
    fn telling(&self, tally: Tally) -> Self;

    /// Whether both tell the same.
    fn tells_like(&self, other: &Self) -> bool;
}

/// What a keeper wants.
pub(super) struct Wish {
    replicas: i32,
    selector: LabelSelector,
    template: PodTemplateSpec,
    min_ready_seconds: i32,
}

/// What a keeper has.
pub(super) struct Tally {
    replicas: i32,
    labeled: Option<i32>,
    ready: Option<i32>,
    available: Option<i32>,
    terminating: Option<i32>,
    /// Why not all wanted pods could be made.
    failure: Option<String>,
    now: Time,
}

/// The conditions after a tally, whichever of the two equal types they have.
macro_rules! conditions {
    ($kind:ident, $old:expr, $tally:expr) => {{
        let mut conditions: Vec<$kind> = $old.unwrap_or_default();
        let known = conditions.iter().any(|c| c.type_ == "ReplicaFailure");
        match $tally.failure {
            Some(message) if !known => conditions.push($kind {
                type_: "ReplicaFailure".into(),
                status: "True".into(),
                reason: Some("FailedCreate".into()),
                message: Some(message),
                last_transition_time: Some($tally.now),
            }),
            None => conditions.retain(|c| c.type_ != "ReplicaFailure"),
            Some(_) => {}
        }
        (!conditions.is_empty()).then_some(conditions)
    }};
}

impl Keeper for ReplicaSet {
    const NAME: &'static str = "replicaset-controller";
    const DUTY: Duty = Duty::ReplicaSet;

    fn wish(&self) -> Option<Wish> {
        let spec = self.spec.clone()?;
        Some(Wish {
            replicas: spec.replicas.unwrap_or(1),
            selector: spec.selector,
            template: spec.template.unwrap_or_default(),
            min_ready_seconds: spec.min_ready_seconds.unwrap_or_default(),
        })
    }

    fn telling(&self, tally: Tally) -> Self {
        let old = self.status.clone().and_then(|s| s.conditions);
        let status = ReplicaSetStatus {
            replicas: tally.replicas,
            fully_labeled_replicas: tally.labeled,
            ready_replicas: tally.ready,
            available_replicas: tally.available,
            terminating_replicas: tally.terminating,
            observed_generation: self.metadata.generation,
            conditions: conditions!(ReplicaSetCondition, old, tally),
        };
        Self { status: Some(status), ..self.clone() }
    }

    fn tells_like(&self, other: &Self) -> bool {
        self.status == other.status
    }
}

impl Keeper for ReplicationController {
    const NAME: &'static str = "replication-controller";
    const DUTY: Duty = Duty::ReplicationController;

    fn wish(&self) -> Option<Wish> {
        let spec = self.spec.clone()?;
        Some(Wish {
            replicas: spec.replicas.unwrap_or(1),
            selector: LabelSelector { match_labels: spec.selector, ..LabelSelector::default() },
            template: spec.template.unwrap_or_default(),
            min_ready_seconds: spec.min_ready_seconds.unwrap_or_default(),
        })
    }

    fn telling(&self, tally: Tally) -> Self {
        let old = self.status.clone().and_then(|s| s.conditions);
        let status = ReplicationControllerStatus {
            replicas: tally.replicas,
            fully_labeled_replicas: tally.labeled,
            ready_replicas: tally.ready,
            available_replicas: tally.available,
            observed_generation: self.metadata.generation,
            conditions: conditions!(ReplicationControllerCondition, old, tally),
        };
        Self { status: Some(status), ..self.clone() }
    }

    fn tells_like(&self, other: &Self) -> bool {
        self.status == other.status
    }
}

pub(super) async fn look<K: Keeper>(world: &mut World, namespace: &str, name: &str) -> kube::Result<()> {
    let Some(set) = K::cache(&world.caches).get(namespace, name) else { return Ok(()) };
    let Some(wish) = set.wish() else { return Ok(()) };
    let pods: Vec<Arc<Pod>> = pods::claim(world, &*set, &wish.selector).await?;
    let failure = if pods::is_deleting(&*set) { None } else { manage(world, &*set, &wish, &pods).await };
    // What was made and deleted is in the cache by now.
    let uid = set.uid().unwrap_or_default();
    let pods: Vec<Arc<Pod>> = world.caches.pods.controlled_by(&uid).cloned().collect();
    report(world, &*set, &wish, &pods, failure.as_ref()).await?;
    match failure {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Makes or deletes pods; gives the first failure.
async fn manage<K: Keeper>(
    world: &mut World,
    set: &K,
    wish: &Wish,
    pods: &[Arc<Pod>],
) -> Option<kube::Error> {
    let wanted = usize::try_from(wish.replicas).unwrap_or_default();
    let mut active: Vec<Arc<Pod>> = pods.iter().filter(|p| pods::is_active(p)).cloned().collect();
    for _ in active.len()..wanted {
        if world.holds_back_pods(&set.namespace().unwrap_or_default()) {
            return pods::tell_held_back(world, set, K::NAME).await.err();
        }
        let pod = pods::from_template(set, &wish.template, pods::generated(&set.name_any()));
        match world.create(&pod).await {
            Ok(made) => {
                let message = format!("Created pod: {}", made.name_any());
                tell(world, set, false, "SuccessfulCreate", &message).await;
            }
            Err(error) => {
                tell(world, set, true, "FailedCreate", &format!("Error creating: {}", message(&error))).await;
                return Some(error);
            }
        }
    }
    if active.len() > wanted {
        pods::by_worth(&mut active);
        for pod in &active[..active.len() - wanted] {
            if world.is_spent() {
                break;
            }
            if let Err(error) = world.delete(&**pod, None).await {
                return Some(error);
            }
            tell(world, set, false, "SuccessfulDelete", &format!("Deleted pod: {}", pod.name_any())).await;
        }
    }
    None
}

async fn tell<K: Keeper>(world: &mut World, set: &K, warning: bool, reason: &'static str, message: &str) {
    world.tell(set, Notice { from: K::NAME, warning, reason, message }).await;
}

async fn report<K: Keeper>(
    world: &mut World,
    set: &K,
    wish: &Wish,
    pods: &[Arc<Pod>],
    failure: Option<&kube::Error>,
) -> kube::Result<()> {
    let now = world.now();
    let wait = wish.min_ready_seconds;
    let labels = wish.template.metadata.as_ref().and_then(|m| m.labels.clone()).unwrap_or_default();
    let active: Vec<&Arc<Pod>> = pods.iter().filter(|p| pods::is_active(p)).collect();
    let count = |test: &dyn Fn(&Pod) -> bool| {
        i32::try_from(active.iter().filter(|p| test(p)).count()).unwrap_or(i32::MAX)
    };
    let terminating = pods.iter().filter(|p| pods::is_deleting(&***p) && !pods::is_over(p)).count();
    let nonzero = |n: i32| (n != 0).then_some(n);
    let told = set.telling(Tally {
        replicas: count(&|_| true),
        labeled: nonzero(count(&|p| labels.iter().all(|(k, v)| p.labels().get(k) == Some(v)))),
        ready: nonzero(count(&pods::is_ready)),
        available: nonzero(count(&|p| pods::is_available(p, wait, now))),
        terminating: i32::try_from(terminating).ok(),
        failure: failure.map(message),
        now: world.time(),
    });
    // Pods that are ready but not for long enough are looked at again when they are.
    let due =
        active.iter().filter_map(|p| pods::until_available(p, wait, now)).filter(|d| !d.is_zero()).min();
    if let Some(due) = due {
        let name = (set.namespace().unwrap_or_default(), set.name_any());
        world.push_after(K::DUTY, &name.0, &name.1, due + Duration::from_millis(1));
    }
    if told.tells_like(set) { Ok(()) } else { world.update_status(&told).await.map(drop) }
}

/// What the API said.
pub(super) fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}
