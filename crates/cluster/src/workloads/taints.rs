//! Taint eviction: deletes pods from nodes with NoExecute taints that they don't tolerate, or not any longer.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use kube::ResourceExt as _;

use super::{pods, scheduler};
use crate::control_loop::{Actor, ControlLoop, Controller, NewEvent};

const NAME: &str = "taint-eviction-controller";

/// Evicts a pod when its toleration time has passed. Returns whether it is being evicted.
pub(super) async fn reconcile(control: &mut ControlLoop, pod: &Pod, node: &Node) -> kube::Result<bool> {
    let uid = pod.uid().unwrap_or_default();
    if pods::is_deleting(pod) || pods::is_terminal(pod) {
        control.evictions.0.remove(&uid);
        return Ok(false);
    }
    let taints = node.spec.iter().flat_map(|s| s.taints.iter().flatten());
    let taints: Vec<&Taint> = taints.filter(|t| t.effect == "NoExecute").collect();
    let min_toleration_time = min_toleration_time(pod, &taints);
    let Some(min_toleration_time) = min_toleration_time else {
        if control.evictions.0.remove(&uid).is_some() {
            let message = format!("Cancelling deletion of Pod {}", full_name(pod));
            record_event(control, pod, &message).await;
        }
        return Ok(false);
    };
    let now = control.clock.now();
    let since = *control.evictions.0.entry(uid.clone()).or_insert(now);
    let left = min_toleration_time.saturating_sub(now.duration_since(since));
    if !left.is_zero() {
        control.push_after(Controller::Pod, &pod.namespace().unwrap_or_default(), &pod.name_any(), left);
        return Ok(false);
    }
    control.act_as(Actor::Account("node-controller"));
    // Forgotten only once the eviction succeeds: after a failure the toleration time does not start again.
    evict(control, pod).await?;
    control.evictions.0.remove(&uid);
    Ok(true)
}

/// Returns the minimum toleration time of the taints, or `None` if they are tolerated forever.
fn min_toleration_time(pod: &Pod, taints: &[&Taint]) -> Option<Duration> {
    let tolerations = pod.spec.as_ref().and_then(|s| s.tolerations.as_deref()).unwrap_or_default();
    let mut least: Option<Duration> = None;
    for taint in taints {
        let mut covering = tolerations.iter().filter(|t| scheduler::covers(t, taint)).peekable();
        if covering.peek().is_none() {
            return Some(Duration::ZERO);
        }
        let seconds = covering.filter_map(|t| t.toleration_seconds);
        let shortest = seconds.map(|s| Duration::from_secs(u64::try_from(s).unwrap_or_default())).min();
        least = [least, shortest].into_iter().flatten().min();
    }
    least
}

async fn evict(control: &mut ControlLoop, pod: &Pod) -> kube::Result<()> {
    let why = "Taint manager: deleting due to NoExecute taint".to_owned();
    pods::disrupt(control, pod, "DeletionByTaintManager", why).await?;
    let message = format!("Marking for deletion Pod {}", full_name(pod));
    record_event(control, pod, &message).await;
    Ok(())
}

fn full_name(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any())
}

async fn record_event(control: &mut ControlLoop, pod: &Pod, message: &str) {
    let event = NewEvent { component: NAME, warning: false, reason: "TaintManagerEviction", message };
    control.record_event(pod, event).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bears(tolerations: serde_json::Value) -> Option<Duration> {
        let pod = serde_json::json!({"spec": {"containers": [], "tolerations": tolerations}});
        let taint =
            Taint { key: "k".into(), value: Some("v".into()), effect: "NoExecute".into(), time_added: None };
        min_toleration_time(&serde_json::from_value(pod).unwrap(), &[&taint])
    }

    #[test]
    fn a_pod_bears_a_taint_as_long_as_it_says() {
        assert_eq!(bears(serde_json::json!([])), Some(Duration::ZERO));
        assert_eq!(bears(serde_json::json!([{"operator": "Exists"}])), None);
        let short = serde_json::json!({"key": "k", "value": "v", "tolerationSeconds": 5});
        let long = serde_json::json!({"key": "k", "operator": "Exists", "tolerationSeconds": 50});
        assert_eq!(bears(serde_json::json!([long, short])), Some(Duration::from_secs(5)));
        assert_eq!(bears(serde_json::json!([{"key": "other", "operator": "Exists"}])), Some(Duration::ZERO));
    }
}
