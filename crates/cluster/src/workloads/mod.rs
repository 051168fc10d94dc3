//! The controllers. Each is a function that reconciles one object.
#![expect(
    clippy::needless_pass_by_ref_mut,
    reason = "the control loop's streams can't be shared between threads, so a shared reference must not live over an await"
)]

mod admission_policy;
mod aggregation;
mod autoscaler;
mod capacity;
mod certificates;
mod collector;
mod cronjob;
mod daemonset;
mod deployment;
mod disruption;
mod endpoint_slice_mirroring;
mod endpoints;
mod evictions;
mod indexes;
mod job;
mod kubelet;
mod namespace;
mod node;
mod phase;
mod pods;
mod preemption;
mod quota;
mod replicaset;
mod revisions;
mod rollout;
mod scheduler;
mod service_account;
mod statefulset;
mod taints;
mod token_secret;
mod volumes;

use std::time::Duration;

use futures::{
    FutureExt as _,
    future::{self, BoxFuture},
};
use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::ReplicationController};

pub(crate) use autoscaler::Autoscalers;
pub(crate) use capacity::NodeCapacity;
pub(crate) use evictions::Evictions;
pub(crate) use kubelet::Kubelet;

use crate::{
    control_loop::{Actor, ControlLoop, Controller, WorkItem},
    options::Part,
};

/// Enqueues what must exist before anything else is reconciled.
pub(crate) fn start(control: &mut ControlLoop) {
    if control.has(Part::Nodes) {
        for index in 0..control.options.nodes {
            control.push(Controller::Node, "", &node::name(index));
            control.push(Controller::Lease, "", &node::name(index));
        }
    }
    control.push(Controller::Class, "", "");
}

/// Parses a duration such as `90s` or `1h30m`.
fn parse_duration(text: &str) -> Option<Duration> {
    let parsed: jiff::SignedDuration = text.parse().ok()?;
    Duration::try_from(parsed).ok()
}

/// Reconciles one item.
///
/// Boxed, so that controllers are compiled separately: as parts of one future they would all be inlined into one function.
pub(crate) fn reconcile<'a>(
    control: &'a mut ControlLoop,
    item: &'a WorkItem,
) -> BoxFuture<'a, kube::Result<()>> {
    let (namespace, name) = (item.namespace.as_str(), item.name.as_str());
    match item.controller {
        Controller::Discovery => control.discover().boxed(),
        Controller::Collect if control.has(Part::GarbageCollection) => {
            collector::reconcile(control, name).boxed()
        }
        Controller::Namespace if control.has(Part::Namespaces) => namespace::reconcile(control, name).boxed(),
        Controller::Accounts if control.has(Part::ServiceAccounts) => {
            service_account::reconcile(control, name).boxed()
        }
        Controller::TokenSecret if control.has(Part::ServiceAccounts) => {
            token_secret::reconcile(control, namespace, name).boxed()
        }
        Controller::ClusterRoles if control.has(Part::ClusterRoles) => {
            aggregation::reconcile(control).boxed()
        }
        Controller::Node if control.has(Part::Nodes) => node::reconcile(control, name).boxed(),
        Controller::Lease if control.has(Part::Nodes) => node::renew(control, name).boxed(),
        Controller::Pod => pod(control, namespace, name).boxed(),
        Controller::ReplicaSet if control.has(Part::ReplicaSets) => {
            replicaset::reconcile::<ReplicaSet>(control, namespace, name).boxed()
        }
        Controller::ReplicationController if control.has(Part::ReplicationControllers) => {
            replicaset::reconcile::<ReplicationController>(control, namespace, name).boxed()
        }
        Controller::Deployment if control.has(Part::Deployments) => {
            deployment::reconcile(control, namespace, name).boxed()
        }
        Controller::StatefulSet if control.has(Part::StatefulSets) => {
            statefulset::reconcile(control, namespace, name).boxed()
        }
        Controller::Service if control.has(Part::Endpoints) => {
            endpoints::reconcile(control, namespace, name).boxed()
        }
        Controller::Endpoints if control.has(Part::Endpoints) => {
            endpoint_slice_mirroring::reconcile(control, namespace, name).boxed()
        }
        Controller::Job if control.has(Part::Jobs) => job::reconcile(control, namespace, name).boxed(),
        Controller::CronJob if control.has(Part::CronJobs) => {
            cronjob::reconcile(control, namespace, name).boxed()
        }
        Controller::DaemonSet if control.has(Part::DaemonSets) => {
            daemonset::reconcile(control, namespace, name).boxed()
        }
        Controller::Class if control.has(Part::Volumes) => volumes::make_class(control).boxed(),
        Controller::Claim if control.has(Part::Volumes) => {
            volumes::reconcile_claim(control, namespace, name).boxed()
        }
        Controller::Volume if control.has(Part::Volumes) => volumes::reconcile_volume(control, name).boxed(),
        Controller::Budget if control.has(Part::DisruptionBudgets) => {
            disruption::reconcile(control, namespace, name).boxed()
        }
        Controller::Autoscaler if control.has(Part::Autoscalers) => {
            autoscaler::reconcile(control, namespace, name).boxed()
        }
        Controller::Certificate if control.has(Part::Certificates) => {
            certificates::reconcile(control, name).boxed()
        }
        Controller::AdmissionPolicy if control.has(Part::AdmissionPolicies) => {
            admission_policy::reconcile(control, name).boxed()
        }
        Controller::Quota if control.has(Part::Quotas) => quota::reconcile(control, namespace, name).boxed(),
        _ => future::ready(Ok(())).boxed(),
    }
}

async fn pod(control: &mut ControlLoop, namespace: &str, name: &str) -> kube::Result<()> {
    if control.has(Part::Jobs)
        && let Some(pod) = control.caches.pods.get(namespace, name)
    {
        control.act_as(Actor::Account("job-controller"));
        job::release_orphan(control, &pod).boxed().await?;
    }
    if control.has(Part::Scheduler) {
        control.act_as(Actor::Scheduler);
        scheduler::reconcile(control, namespace, name).boxed().await?;
    }
    if control.has(Part::Pods) {
        let pod = control.caches.pods.get(namespace, name);
        let node = pod.and_then(|pod| pod.spec.as_ref()?.node_name.clone()).unwrap_or_default();
        control.act_as(Actor::Kubelet(node));
        kubelet::reconcile(control, namespace, name).boxed().await?;
    }
    Ok(())
}
