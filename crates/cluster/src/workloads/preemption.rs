//! Takes pods away for one that matters more and fits nowhere.

use std::{cmp::Reverse, sync::Arc};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    ResourceExt as _,
    core::{Selector, SelectorExt as _},
};

use super::{
    pods::{self, is_deleting},
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

/// The budgets that allow no more disruptions: namespaces, and whom they are about.
struct Spent(Vec<(String, Selector)>);

impl Spent {
    fn of(world: &World) -> Self {
        let spent = world.caches.budgets.all().filter(|budget| {
            budget.status.as_ref().and_then(|s| s.disruptions_allowed).unwrap_or_default() <= 0
        });
        let read = spent.filter_map(|budget| {
            let selector = budget.spec.as_ref()?.selector.clone()?;
            Some((budget.namespace()?, Selector::try_from(selector).ok()?))
        });
        Self(read.collect())
    }

    fn protect(&self, pod: &Pod) -> bool {
        let within = |namespace: &str| pod.metadata.namespace.as_deref() == Some(namespace);
        self.0.iter().any(|(namespace, selector)| within(namespace) && selector.matches(pod.labels()))
    }
}

/// Makes room for a pod; says on which node it will be.
pub(super) async fn preempt(world: &mut World, pod: &Pod) -> kube::Result<Option<String>> {
    if pod.spec.as_ref().and_then(|s| s.preemption_policy.as_deref()) == Some("Never") {
        return Ok(None);
    }
    let nominated = pod.status.as_ref().and_then(|s| s.nominated_node_name.clone());
    // Room is being made already.
    if let Some(node) = &nominated
        && lesser(world, node, pod).any(|other| is_deleting(&*other))
    {
        return Ok(nominated);
    }
    let nodes: Vec<Arc<Node>> = world.caches.nodes.all().cloned().collect();
    let (wanted, spent) = (Load::of(pod), Spent::of(world));
    let candidates = nodes.iter().filter(|node| scheduler::refusal(node, pod).is_none());
    let candidates = candidates.filter_map(|node| candidate(world, node, pod, &wanted, &spent));
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
fn lesser(world: &World, node: &str, pod: &Pod) -> impl Iterator<Item = Arc<Pod>> {
    let names = world.places.below(node, priority(pod));
    names.filter_map(|(namespace, name)| world.caches.pods.get(namespace, name))
}

/// The fewest and least important pods of a node without which a pod fits.
fn candidate(world: &World, node: &Node, pod: &Pod, wanted: &Load, spent: &Spent) -> Option<Candidate> {
    let name = node.name_any();
    let with_load = |other: Arc<Pod>| (spent.protect(&other), Load::of(&other), other);
    let mut others: Vec<(bool, Load, Arc<Pod>)> = lesser(world, &name, pod).map(with_load).collect();
    if others.is_empty() {
        return None;
    }
    let mut load = world.places.load(world, &name, pod);
    for (_, taken, _) in &others {
        load.take_off(taken);
    }
    if !load.lacks(node, wanted).is_empty() {
        return None;
    }
    // Those that a budget protects are spared before others, the more important before the less.
    others.sort_by_cached_key(|(is_protected, _, other)| {
        (Reverse(*is_protected), Reverse(priority(other)), other.metadata.creation_timestamp.clone())
    });
    let (mut victims, mut protected) = (Vec::new(), 0);
    for (is_protected, taken, other) in others {
        load.add(&taken);
        if load.lacks(node, wanted).is_empty() {
            continue;
        }
        load.take_off(&taken);
        protected += usize::from(is_protected);
        victims.push(other);
    }
    (!victims.is_empty()).then_some(Candidate { node: name, victims, protected })
}

async fn remove(world: &mut World, victim: &Pod, pod: &Pod, node: &str) -> kube::Result<()> {
    if is_deleting(victim) {
        return Ok(());
    }
    let why = format!("{}: preempting to accommodate a higher priority pod", scheduler::NAME);
    pods::disrupt(world, victim, "PreemptionByScheduler", why).await?;
    let message = format!("Preempted by pod {} on node {node}", pod.uid().unwrap_or_default());
    let notice = Notice { from: scheduler::NAME, warning: false, reason: "Preempted", message: &message };
    world.tell(victim, notice).await;
    Ok(())
}
