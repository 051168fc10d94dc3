//! Simulated kubelet: takes pods through their phases.

mod plan;
mod program;
mod running;
mod status;

use std::{net::Ipv4Addr, time::Duration};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;

pub(crate) use running::Kubelet;

use self::{plan::Plan, running::Run, status::StatusBuilder};
use super::{
    capacity::{Requested, TOO_MANY_PODS},
    node, pods, scheduler, taints,
};
use crate::control_loop::{ControlLoop, Controller, NewEvent, whole};

const NAME: &str = "kubelet";

pub(super) async fn reconcile(control: &mut ControlLoop, namespace: &str, name: &str) -> kube::Result<()> {
    let Some(pod) = control.caches.pods.get(namespace, name) else { return Ok(()) };
    let uid = pod.uid().unwrap_or_default();
    let Some(node) = pod.spec.as_ref().and_then(|s| s.node_name.clone()) else { return Ok(()) };
    let Some(found) = control.caches.nodes.get("", &node) else {
        return delete_from_missing_node(control, &pod).await;
    };
    if taints::reconcile(control, &pod, &found).await? {
        return Ok(());
    }
    if node::is_lost(&found) {
        return mark_unready(control, &pod).await;
    }
    let plan = Plan::new(&pod, &control.options);
    if pods::is_deleting(&*pod) {
        return stop(control, &pod, &plan).await;
    }
    if pods::is_terminal(&pod) {
        control.kubelet.pods.remove(&uid);
        return Ok(());
    }
    let fresh = pod.status.as_ref().is_none_or(|s| s.start_time.is_none());
    if fresh && let Some((reason, why)) = rejection(control, &found, &pod) {
        return reject(control, &pod, &reason, &why).await;
    }
    let run = run(control, &pod);
    let elapsed = control.clock.now().saturating_duration_since(run.started);
    let deadline = pod.spec.as_ref().and_then(|s| s.active_deadline_seconds);
    let deadline = deadline.and_then(|s| u64::try_from(s).ok()).map(Duration::from_secs);
    match deadline.map(|deadline| deadline.saturating_sub(elapsed)) {
        Some(left) if left.is_zero() => return expire(control, &pod).await,
        Some(left) => control.push_after(Controller::Pod, namespace, name, left),
        None => {}
    }
    let address = match pod.status.as_ref().and_then(|s| s.pod_ip.clone()) {
        Some(address) => address,
        None => next_address(control, &pod, &node),
    };
    let host = node::address(control, &node);
    // A pod is observably pending before it is running.
    let builder = StatusBuilder { pod: &pod, plan: &plan, started: run.at, host: &host, address: &address };
    let (status, next) = builder.at((!fresh).then_some(elapsed), control.time());
    if pod.status.as_ref() != Some(&status) {
        let mut changed = Pod::clone(&pod);
        let events = status::events(&pod, &status);
        changed.status = Some(status);
        let written = control.update_status(&changed).await?;
        for (warning, reason, message) in events {
            control
                .record_event(&written, NewEvent { component: NAME, warning, reason, message: &message })
                .await;
        }
    }
    if let Some(next) = next {
        let delay = next.saturating_sub(control.clock.now().saturating_duration_since(run.started));
        control.push_after(Controller::Pod, namespace, name, delay);
    }
    Ok(())
}

/// Returns the pod's `Run`, creating it if necessary.
///
/// After a restart of the cluster, a pod's start is known only to the second.
fn run(control: &mut ControlLoop, pod: &Pod) -> Run {
    let now = control.now();
    let started =
        pod.status.as_ref().and_then(|s| s.start_time.as_ref()).map_or_else(|| whole(now).0, |t| t.0);
    let uid = pod.uid().unwrap_or_default();
    let clock = control.clock.clone();
    let fresh = || {
        let age = Duration::try_from(now.duration_since(started)).unwrap_or_default();
        let instant = clock.now();
        Run { started: instant.checked_sub(age).unwrap_or(instant), at: started, stopping: None }
    };
    control.kubelet.pods.entry(uid).or_insert_with(fresh).clone()
}

fn next_address(control: &mut ControlLoop, pod: &Pod, node: &str) -> String {
    if pod.spec.as_ref().is_some_and(|s| s.host_network == Some(true)) {
        return node::address(control, node);
    }
    const FIRST: u32 = u32::from_be_bytes([10, 244, 0, 2]);
    if control.kubelet.addresses == 0 {
        let taken =
            control.caches.pods.all().filter_map(|p| p.status.as_ref()?.pod_ip.as_ref()?.parse().ok());
        let highest = taken.map(|a: Ipv4Addr| u32::from(a)).filter(|a| a >> 16 == FIRST >> 16).max();
        control.kubelet.addresses = highest.map_or(FIRST, |a| a + 1);
    }
    let address = Ipv4Addr::from(control.kubelet.addresses);
    control.kubelet.addresses += 1;
    address.to_string()
}

/// Terminates a deleted pod.
async fn stop(control: &mut ControlLoop, pod: &Pod, plan: &Plan) -> kube::Result<()> {
    let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or_default();
    if grace == 0 && pods::is_terminal(pod) {
        return Ok(());
    }
    let uid = pod.uid().unwrap_or_default();
    run(control, pod);
    let now = control.clock.now();
    let Some(known) = control.kubelet.pods.get_mut(&uid) else { return Ok(()) };
    let first = known.stopping.is_none();
    let stopping = *known.stopping.get_or_insert(now);
    let allowed = Duration::from_secs(u64::try_from(grace).unwrap_or_default());
    let left = plan.stop_delay.min(allowed).saturating_sub(now.duration_since(stopping));
    if first {
        let containers = pod.spec.iter().flat_map(|s| s.containers.iter().map(|c| c.name.clone()));
        let containers: Vec<String> = containers.collect();
        for container in containers {
            let message = format!("Stopping container {container}");
            control
                .record_event(
                    pod,
                    NewEvent { component: NAME, warning: false, reason: "Killing", message: &message },
                )
                .await;
        }
    }
    if !left.is_zero() {
        let namespace = pod.namespace().unwrap_or_default();
        control.push_after(Controller::Pod, &namespace, &pod.name_any(), left);
        return Ok(());
    }
    control.kubelet.pods.remove(&uid);
    let mut pod = pod.clone();
    if !pod.finalizers().is_empty() && !pods::is_terminal(&pod) {
        // The owner of a finalizer can read how the containers ended.
        status::kill(&mut pod, &control.time());
        pod = control.update_status(&pod).await?;
    }
    control.delete(&pod, Some(0)).await
}

/// Rejects a pod that was bound to a node that it does not fit.
async fn reject(control: &mut ControlLoop, pod: &Pod, reason: &str, why: &str) -> kube::Result<()> {
    let mut changed = pod.clone();
    let status = changed.status.get_or_insert_default();
    status.phase = Some("Failed".to_owned());
    status.reason = Some(reason.to_owned());
    status.message = Some(format!("Pod was rejected: {why}"));
    status.observed_generation = pod.metadata.generation;
    let written = control.update_status(&changed).await?;
    control.record_event(&written, NewEvent { component: NAME, warning: true, reason, message: why }).await;
    Ok(())
}

/// Fails a pod that has exceeded its `activeDeadlineSeconds`.
async fn expire(control: &mut ControlLoop, pod: &Pod) -> kube::Result<()> {
    let mut changed = pod.clone();
    status::kill(&mut changed, &control.time());
    let message = "Pod was active on the node longer than the specified deadline";
    let status = changed.status.get_or_insert_default();
    status.reason = Some("DeadlineExceeded".to_owned());
    status.message = Some(message.to_owned());
    let written = control.update_status(&changed).await?;
    control
        .record_event(
            &written,
            NewEvent { component: NAME, warning: false, reason: "DeadlineExceeded", message },
        )
        .await;
    Ok(())
}

/// Deletes a pod whose node was deleted.
async fn delete_from_missing_node(control: &mut ControlLoop, pod: &Pod) -> kube::Result<()> {
    if control.caches.nodes.all().next().is_none() {
        // Nodes come from elsewhere, or have not been created yet.
        return Ok(());
    }
    control.delete(pod, Some(0)).await
}

/// Marks a pod on an unreachable node as not ready.
async fn mark_unready(control: &mut ControlLoop, pod: &Pod) -> kube::Result<()> {
    if pods::is_terminal(pod) {
        return Ok(());
    }
    let mut changed = pod.clone();
    if status::unready(&mut changed, &control.time()) {
        control.update_status(&changed).await?;
    }
    Ok(())
}

/// Returns why a node must reject a pod bound to it, as a reason and a message.
fn rejection(control: &ControlLoop, node: &Node, pod: &Pod) -> Option<(String, String)> {
    if !scheduler::matches_selector(node, pod) {
        let why = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
        return Some(("NodeAffinity".to_owned(), why.to_owned()));
    }
    let own = Requested::of(pod);
    let mut load = control.capacity.requested(&node.name_any());
    load.subtract(&own);
    let lacking = load.insufficient(node, &own).into_iter().next()?;
    Some(match lacking.strip_prefix("Insufficient ") {
        Some(name) => (format!("OutOf{name}"), format!("Node didn't have enough resource: {name}")),
        None if lacking == TOO_MANY_PODS => {
            ("OutOfpods".to_owned(), "Node didn't have enough resource: pods".to_owned())
        }
        None => ("NodePorts".to_owned(), format!("Predicate NodePorts failed: {lacking}")),
    })
}
