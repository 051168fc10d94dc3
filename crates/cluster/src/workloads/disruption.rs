//! PodDisruptionBudgets: the number of currently allowed disruptions.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        core::v1::Pod,
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus},
    },
    apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector},
};
use kube::{ResourceExt as _, core::Selector, core::SelectorExt as _};

use super::{pods, rollout::resolve};
use crate::control_loop::ControlLoop;

pub(super) async fn reconcile(control: &mut ControlLoop, namespace: &str, name: &str) -> kube::Result<()> {
    let Some(budget) = control.caches.budgets.get(namespace, name) else { return Ok(()) };
    let spec = budget.spec.clone().unwrap_or_default();
    let selected: Vec<_> = control
        .caches
        .pods
        .within(namespace)
        .filter(|p| covers(spec.selector.as_ref(), p) && !pods::is_terminal(p))
        .cloned()
        .collect();
    let healthy =
        i32::try_from(selected.iter().filter(|p| pods::is_ready(p) && !pods::is_deleting(&***p)).count());
    let healthy = healthy.unwrap_or(i32::MAX);
    let count = i32::try_from(selected.len()).unwrap_or(i32::MAX);
    let by_share = spec.max_unavailable.is_some()
        || matches!(
            &spec.min_available,
            Some(k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::String(_))
        );
    let expected = if by_share { scales(control, selected.iter().map(|p| &**p)) } else { count };
    let wanted = match (&spec.max_unavailable, &spec.min_available) {
        (Some(most), _) => expected.saturating_sub(resolve(Some(most), expected, true)).max(0),
        (None, Some(least)) => resolve(Some(least), expected, true),
        (None, None) => 0,
    };
    let allowed = if expected <= 0 { 0 } else { healthy.saturating_sub(wanted).max(0) };
    let old = budget.status.clone().unwrap_or_default();
    let (state, reason) =
        if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let mut conditions = old.conditions.clone().unwrap_or_default();
    let generation = budget.metadata.generation;
    match conditions.iter_mut().find(|c| c.type_ == "DisruptionAllowed") {
        Some(c) => {
            if c.status != state {
                c.last_transition_time = control.time();
            }
            (c.status, c.reason) = (state.to_owned(), reason.to_owned());
            c.observed_generation = generation;
        }
        None => conditions.push(Condition {
            type_: "DisruptionAllowed".to_owned(),
            status: state.to_owned(),
            reason: reason.to_owned(),
            message: String::new(),
            observed_generation: generation,
            last_transition_time: control.time(),
        }),
    }
    let status = PodDisruptionBudgetStatus {
        current_healthy: Some(healthy),
        desired_healthy: Some(wanted),
        disruptions_allowed: Some(allowed),
        expected_pods: Some(expected),
        observed_generation: generation,
        conditions: Some(conditions),
        // Allowed evictions of pods that are gone by now are dropped.
        disrupted_pods: old
            .disrupted_pods
            .clone()
            .map(|pods| {
                let present = |name: &String| {
                    selected.iter().any(|p| p.name_any() == *name && !pods::is_deleting(&**p))
                };
                pods.into_iter().filter(|(name, _)| present(name)).collect::<BTreeMap<_, _>>()
            })
            .filter(|pods| !pods.is_empty()),
    };
    if status == old {
        return Ok(());
    }
    let mut changed = PodDisruptionBudget::clone(&budget);
    changed.status = Some(status);
    control.update_status(&changed).await.map(drop)
}

/// Whether a budget's selector matches a pod: an empty one matches every pod, a missing one none.
fn covers(selector: Option<&LabelSelector>, pod: &Pod) -> bool {
    let Some(selector) = selector else { return false };
    Selector::try_from(selector.clone()).is_ok_and(|s| s.matches(pod.labels()))
}

/// Returns the sum of the replicas that the controllers of these pods want.
fn scales<'a>(control: &ControlLoop, pods: impl Iterator<Item = &'a Pod>) -> i32 {
    let mut wanted: BTreeMap<String, i32> = BTreeMap::new();
    for pod in pods {
        let Some(owner) = pod.owner_references().iter().find(|o| o.controller == Some(true)) else {
            continue;
        };
        let namespace = pod.namespace().unwrap_or_default();
        let caches = &control.caches;
        let (uid, replicas) = match owner.kind.as_str() {
            "ReplicaSet" => {
                let Some(set) = caches.replica_sets.get(&namespace, &owner.name) else { continue };
                let above = set.owner_references().iter().find(|o| o.controller == Some(true)).cloned();
                let deployment = above.and_then(|o| caches.deployments.get(&namespace, &o.name));
                match deployment {
                    Some(d) => (d.uid(), d.spec.as_ref().and_then(|s| s.replicas)),
                    None => (set.uid(), set.spec.as_ref().and_then(|s| s.replicas)),
                }
            }
            "StatefulSet" => {
                let Some(set) = caches.stateful_sets.get(&namespace, &owner.name) else { continue };
                (set.uid(), set.spec.as_ref().and_then(|s| s.replicas))
            }
            "ReplicationController" => {
                let Some(set) = caches.replication_controllers.get(&namespace, &owner.name) else { continue };
                (set.uid(), set.spec.as_ref().and_then(|s| s.replicas))
            }
            _ => continue,
        };
        wanted.insert(uid.unwrap_or_default(), replicas.unwrap_or(1));
    }
    wanted.into_values().fold(0, i32::saturating_add)
}
