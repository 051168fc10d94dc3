//! Preemption: evicts pods of lower priority for an unschedulable pod.

use std::{cmp::Reverse, sync::Arc};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    ResourceExt as _,
    core::{Selector, SelectorExt as _},
};

use super::{
    capacity::{Requested, priority},
    pods::{self, is_deleting},
    scheduler,
};
use crate::control_loop::{ControlLoop, NewEvent};

/// A node and the pods to evict from it.
struct Candidate {
    node: String,
    victims: Vec<Arc<Pod>>,
    /// Number of victims that a budget protects.
    protected: usize,
}

/// Disruption budgets that allow no more disruptions: namespace and selector of each.
struct ExhaustedBudgets(Vec<(String, Selector)>);

impl ExhaustedBudgets {
    fn of(control: &ControlLoop) -> Self {
        let exhausted = control.caches.budgets.all().filter(|budget| {
            budget.status.as_ref().and_then(|s| s.disruptions_allowed).unwrap_or_default() <= 0
        });
        let read = exhausted.filter_map(|budget| {
            let selector = budget.spec.as_ref()?.selector.clone()?;
            Some((budget.namespace()?, Selector::try_from(selector).ok()?))
        });
        Self(read.collect())
    }

    fn protects(&self, pod: &Pod) -> bool {
        let within = |namespace: &str| pod.metadata.namespace.as_deref() == Some(namespace);
        self.0.iter().any(|(namespace, selector)| within(namespace) && selector.matches(pod.labels()))
    }
}

/// Evicts pods to make room for a pod. Returns the node nominated for it.
pub(super) async fn preempt(control: &mut ControlLoop, pod: &Pod) -> kube::Result<Option<String>> {
    if pod.spec.as_ref().and_then(|s| s.preemption_policy.as_deref()) == Some("Never") {
        return Ok(None);
    }
    let nominated = pod.status.as_ref().and_then(|s| s.nominated_node_name.clone());
    // Victims of an earlier preemption are still terminating.
    if let Some(node) = &nominated
        && lower_priority_pods(control, node, pod).any(|other| is_deleting(&*other))
    {
        return Ok(nominated);
    }
    let nodes: Vec<Arc<Node>> = control.caches.nodes.all().cloned().collect();
    let (wanted, exhausted) = (Requested::of(pod), ExhaustedBudgets::of(control));
    let candidates = nodes.iter().filter(|node| scheduler::refusal(node, pod).is_none());
    let candidates = candidates.filter_map(|node| candidate(control, node, pod, &wanted, &exhausted));
    let best = candidates.min_by_key(|c| {
        let priorities = c.victims.iter().map(|v| i64::from(priority(v)));
        (c.protected, priorities.clone().max(), priorities.sum::<i64>(), c.victims.len())
    });
    let Some(best) = best else { return Ok(None) };
    for victim in &best.victims {
        evict(control, victim, pod, &best.node).await?;
    }
    Ok(Some(best.node))
}

/// Returns the pods of a node with a lower priority than `pod`.
fn lower_priority_pods(control: &ControlLoop, node: &str, pod: &Pod) -> impl Iterator<Item = Arc<Pod>> {
    let names = control.capacity.lower_priority(node, priority(pod));
    names.filter_map(|(namespace, name)| control.caches.pods.get(namespace, name))
}

/// Returns the fewest and least important victims on a node without which a pod fits.
fn candidate(
    control: &ControlLoop,
    node: &Node,
    pod: &Pod,
    wanted: &Requested,
    exhausted: &ExhaustedBudgets,
) -> Option<Candidate> {
    let name = node.name_any();
    let with_load = |other: Arc<Pod>| (exhausted.protects(&other), Requested::of(&other), other);
    let mut others: Vec<(bool, Requested, Arc<Pod>)> =
        lower_priority_pods(control, &name, pod).map(with_load).collect();
    if others.is_empty() {
        return None;
    }
    let mut load = control.capacity.requested_before(&control.caches.pods, &name, pod);
    for (_, taken, _) in &others {
        load.subtract(taken);
    }
    if !load.insufficient(node, wanted).is_empty() {
        return None;
    }
    // Reprieve order: pods that a budget protects before others, then higher priority before lower.
    others.sort_by_cached_key(|(is_protected, _, other)| {
        (Reverse(*is_protected), Reverse(priority(other)), other.metadata.creation_timestamp.clone())
    });
    let (mut victims, mut protected) = (Vec::new(), 0);
    for (is_protected, taken, other) in others {
        load.add(&taken);
        if load.insufficient(node, wanted).is_empty() {
            continue;
        }
        load.subtract(&taken);
        protected += usize::from(is_protected);
        victims.push(other);
    }
    (!victims.is_empty()).then_some(Candidate { node: name, victims, protected })
}

async fn evict(control: &mut ControlLoop, victim: &Pod, pod: &Pod, node: &str) -> kube::Result<()> {
    if is_deleting(victim) {
        return Ok(());
    }
    let why = format!("{}: preempting to accommodate a higher priority pod", scheduler::NAME);
    pods::disrupt(control, victim, "PreemptionByScheduler", why).await?;
    let message = format!("Preempted by pod {} on node {node}", pod.uid().unwrap_or_default());
    let event =
        NewEvent { component: scheduler::NAME, warning: false, reason: "Preempted", message: &message };
    control.record_event(victim, event).await;
    Ok(())
}
