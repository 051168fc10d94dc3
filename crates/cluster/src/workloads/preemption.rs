//! Takes pods away for one that matters more and fits nowhere.

use std::{cmp::Reverse, sync::Arc};

use k8s_openapi::api::core::v1::{Node, Pod, PodCondition};
use kube::ResourceExt as _;

use super::{
    disruption,
    pods::{is_deleting, is_over},
    room::{Load, priority},
    scheduler,
};
use crate::world::{Notice, World};

/// The pods that would go from one node.
struct Candidate {
    node: String,
    victims: Vec<Arc<Pod>>,
    /// How many of them a budget protects.
    protected: usize,
}

/// Makes room for a pod; says on which node it will be.
pub(super) async fn preempt(world: &mut World, pod: &Pod) -> kube::Result<Option<String>> {
    if pod.spec.as_ref().and_then(|s| s.preemption_policy.as_deref()) == Some("Never") {
        return Ok(None);
    }
    let nominated = pod.status.as_ref().and_then(|s| s.nominated_node_name.clone());
    // Room is being made already.
    if let Some(node) = &nominated
        && lesser(world, node, pod).any(|other| is_deleting(&**other))
    {
        return Ok(nominated);
    }
    let nodes: Vec<Arc<Node>> = world.caches.nodes.all().cloned().collect();
    let candidates = nodes.iter().filter(|node| scheduler::refusal(node, pod).is_none());
    let candidates = candidates.filter_map(|node| candidate(world, node, pod));
    let best = candidates.min_by_key(|c| {
        let priorities = c.victims.iter().map(|v| i64::from(priority(v)));
        (c.protected, priorities.clone().max(), priorities.sum::<i64>(), c.victims.len())
    });
    let Some(best) = best else { return Ok(None) };
    for victim in &best.victims {
        remove(world, victim, pod, &best.node).await?;
    }
    Ok(Some(best.node))
}

/// The pods of a node that matter less than another.
fn lesser<'a>(world: &'a World, node: &'a str, pod: &Pod) -> impl Iterator<Item = &'a Arc<Pod>> + use<'a> {
    let limit = priority(pod);
    world.caches.pods.all().filter(move |other| {
        other.spec.as_ref().and_then(|s| s.node_name.as_deref()) == Some(node)
            && priority(other) < limit
            && !is_over(other)
    })
}

/// The fewest and least important pods of a node without which a pod fits.
fn candidate(world: &World, node: &Node, pod: &Pod) -> Option<Candidate> {
    let name = node.name_any();
    let wanted = Load::of(pod);
    let mut load = world.places.load(world, &name, pod);
    let mut others: Vec<Arc<Pod>> = lesser(world, &name, pod).cloned().collect();
    for other in &others {
        load.take_off(&Load::of(other));
    }
    if others.is_empty() || !load.lacks(node, &wanted).is_empty() {
        return None;
    }
    // Those that a budget protects are spared before others, the more important before the less.
    others.sort_by_key(|p| {
        (Reverse(is_protected(world, p)), Reverse(priority(p)), p.metadata.creation_timestamp.clone())
    });
    let (mut victims, mut protected) = (Vec::new(), 0);
    for other in others {
        let taken = Load::of(&other);
        load.add(&taken);
        if load.lacks(node, &wanted).is_empty() {
            continue;
        }
        load.take_off(&taken);
        protected += usize::from(is_protected(world, &other));
        victims.push(other);
    }
    (!victims.is_empty()).then_some(Candidate { node: name, victims, protected })
}

/// Whether a budget allows no more disruptions of a pod.
fn is_protected(world: &World, pod: &Pod) -> bool {
    world.caches.budgets.within(&pod.namespace().unwrap_or_default()).any(|budget| {
        let selector = budget.spec.as_ref().and_then(|s| s.selector.as_ref());
        let allowed = budget.status.as_ref().and_then(|s| s.disruptions_allowed).unwrap_or_default();
        allowed <= 0 && disruption::covers(selector, pod)
    })
}

async fn remove(world: &mut World, victim: &Pod, pod: &Pod, node: &str) -> kube::Result<()> {
    if is_deleting(victim) {
        return Ok(());
    }
    let mut marked = victim.clone();
    let now = world.time();
    let conditions = marked.status.get_or_insert_default().conditions.get_or_insert_default();
    conditions.retain(|c| c.type_ != "DisruptionTarget");
    conditions.push(PodCondition {
        type_: "DisruptionTarget".into(),
        status: "True".into(),
        reason: Some("PreemptionByScheduler".into()),
        message: Some(format!("{}: preempting to accommodate a higher priority pod", scheduler::NAME)),
        last_transition_time: Some(now),
        observed_generation: victim.metadata.generation,
        ..PodCondition::default()
    });
    let marked = world.update_status(&marked).await?;
    world.delete(&marked, None).await?;
    let message = format!("Preempted by pod {} on node {node}", pod.uid().unwrap_or_default());
    let notice = Notice { from: scheduler::NAME, warning: false, reason: "Preempted", message: &message };
    world.tell(victim, notice).await;
    Ok(())
}
