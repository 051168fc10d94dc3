//! The controllers. Each is a function that looks at one object and does what is missing.
#![expect(
    clippy::needless_pass_by_ref_mut,
    reason = "the world's streams can't be shared between threads, so a shared reference must not live over an await"
)]

mod account;
mod aggregation;
mod autoscaler;
mod collector;
mod cronjob;
mod daemonset;
mod deployment;
mod disruption;
mod endpoints;
mod indexes;
mod job;
mod kubelet;
mod mirror;
mod namespace;
mod node;
mod pods;
mod preemption;
mod quota;
mod replicaset;
mod revisions;
mod rollout;
mod room;
mod scheduler;
mod statefulset;
mod taints;
mod volumes;

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{Pod, ReplicationController},
};

pub(crate) use kubelet::Kubelet;
pub(crate) use room::Places;
pub(crate) use taints::Evictions;

use crate::{
    options::Part,
    world::{Duty, Key, World},
};

/// What has to be done once, before anything is looked at.
pub(crate) fn start(world: &mut World) {
    if world.has(Part::Nodes) {
        for index in 0..world.options.nodes {
            world.push(Duty::Node, "", &node::name(index));
            world.push(Duty::Lease, "", &node::name(index));
        }
    }
    world.push(Duty::Class, "", "");
}

/// Keeps the books when a pod changed.
pub(crate) fn settle(world: &mut World, old: Option<&Pod>, new: Option<&Pod>) {
    room::settle(world, old, new);
    let uid = |pod: Option<&Pod>| pod.and_then(kube::ResourceExt::uid);
    if let Some(gone) = uid(old).filter(|gone| Some(gone) != uid(new).as_ref()) {
        world.evictions.forget(&gone);
        world.kubelet.forget(&gone);
    }
}

/// `90s`, `1h30m` and the like.
fn parse_duration(text: &str) -> Option<Duration> {
    let parsed: jiff::SignedDuration = text.parse().ok()?;
    Duration::try_from(parsed).ok()
}

/// Looks at one object.
pub(crate) async fn look(world: &mut World, key: &Key) -> kube::Result<()> {
    let (namespace, name) = (key.namespace.as_str(), key.name.as_str());
    match key.duty {
        Duty::Discovery => world.discover().await,
        Duty::Collect if world.has(Part::GarbageCollection) => collector::look(world, name).await,
        Duty::Namespace if world.has(Part::Namespaces) => namespace::look(world, name).await,
        Duty::Accounts if world.has(Part::ServiceAccounts) => account::look(world, name).await,
        Duty::ClusterRoles if world.has(Part::ClusterRoles) => aggregation::look(world).await,
        Duty::Node if world.has(Part::Nodes) => node::look(world, name).await,
        Duty::Lease if world.has(Part::Nodes) => node::renew(world, name).await,
        Duty::Pod => pod(world, namespace, name).await,
        Duty::ReplicaSet if world.has(Part::ReplicaSets) => {
            replicaset::look::<ReplicaSet>(world, namespace, name).await
        }
        Duty::ReplicationController if world.has(Part::ReplicationControllers) => {
            replicaset::look::<ReplicationController>(world, namespace, name).await
        }
        Duty::Deployment if world.has(Part::Deployments) => deployment::look(world, namespace, name).await,
        Duty::StatefulSet if world.has(Part::StatefulSets) => statefulset::look(world, namespace, name).await,
        Duty::Service if world.has(Part::Endpoints) => endpoints::look(world, namespace, name).await,
        Duty::Endpoints if world.has(Part::Endpoints) => mirror::look(world, namespace, name).await,
        Duty::Job if world.has(Part::Jobs) => job::look(world, namespace, name).await,
        Duty::CronJob if world.has(Part::CronJobs) => cronjob::look(world, namespace, name).await,
        Duty::DaemonSet if world.has(Part::DaemonSets) => daemonset::look(world, namespace, name).await,
        Duty::Class if world.has(Part::Volumes) => volumes::make_class(world).await,
        Duty::Claim if world.has(Part::Volumes) => volumes::look_at_claim(world, namespace, name).await,
        Duty::Volume if world.has(Part::Volumes) => volumes::look_at_volume(world, name).await,
        Duty::Budget if world.has(Part::DisruptionBudgets) => disruption::look(world, namespace, name).await,
        Duty::Autoscaler if world.has(Part::Autoscalers) => autoscaler::look(world, namespace, name).await,
        Duty::Quota if world.has(Part::Quotas) => quota::look(world, namespace, name).await,
        _ => Ok(()),
    }
}

async fn pod(world: &mut World, namespace: &str, name: &str) -> kube::Result<()> {
    if world.has(Part::Jobs)
        && let Some(pod) = world.caches.pods.get(namespace, name)
    {
        job::release_orphan(world, &pod).await?;
    }
    if world.has(Part::Scheduler) {
        scheduler::look(world, namespace, name).await?;
    }
    if world.has(Part::Pods) {
        kubelet::look(world, namespace, name).await?;
    }
    Ok(())
}
