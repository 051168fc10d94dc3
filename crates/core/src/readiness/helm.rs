//! Helm's rules: what `helm install --wait` waits for.

use serde_json::Value;

pub use super::Readiness;

/// Returns the readiness of a live object by Helm's rules, including Jobs if `jobs` is set.
///
/// Kinds that Helm does not wait for are ready as soon as they exist.
///
/// ```
/// use serde_json::json;
/// use steersman_core::readiness::{Readiness, helm::readiness};
///
/// let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": "Pending"}});
/// assert!(matches!(readiness(&claim, false), Readiness::Waiting(_)));
/// ```
pub fn readiness(object: &Value, jobs: bool) -> Readiness {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let group = text("apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
    match (group, text("kind")) {
        ("", "Pod") => pod(object),
        ("batch", "Job") if jobs => job(object),
        ("apps" | "extensions", "Deployment") => deployment(object),
        ("apps" | "extensions", "DaemonSet") => daemon_set(object),
        ("apps", "StatefulSet") => stateful_set(object),
        ("apps" | "extensions", "ReplicaSet") | ("", "ReplicationController") => replica_set(object),
        ("", "PersistentVolumeClaim") => claim(object),
        ("", "Service") => service(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(object),
        _ => Readiness::Ready,
    }
}

fn number(object: &Value, path: &str) -> Option<i64> {
    object.pointer(path).and_then(Value::as_i64)
}

fn count(object: &Value, path: &str) -> i64 {
    number(object, path).unwrap_or(0)
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| condition.get("type").and_then(Value::as_str) == Some(kind))
}

fn holds(object: &Value, kind: &str, status: &str) -> bool {
    condition(object, kind).and_then(|found| found.get("status")).and_then(Value::as_str) == Some(status)
}

fn waiting(what: impl Into<String>) -> Readiness {
    Readiness::Waiting(what.into())
}

fn pod(pod: &Value) -> Readiness {
    if holds(pod, "Ready", "True") {
        return Readiness::Ready;
    }
    waiting(pod_failure(pod).unwrap_or_else(|| "the pod is not ready".into()))
}

/// Returns why a pod does not run: its first waiting container's reason, or why it can't be scheduled.
pub fn pod_failure(pod: &Value) -> Option<String> {
    let lists = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let statuses = lists.iter().filter_map(|list| pod.pointer(list)?.as_array()).flatten();
    let mut troubles = statuses.filter_map(|status| {
        let name = status.get("name")?.as_str()?;
        let waiting = status.pointer("/state/waiting")?;
        let reason = waiting.get("reason")?.as_str()?;
        (!matches!(reason, "ContainerCreating" | "PodInitializing")).then(|| {
            match waiting.get("message").and_then(Value::as_str) {
                Some(message) => format!("container {name}: {reason}: {message}"),
                None => format!("container {name}: {reason}"),
            }
        })
    });
    troubles.next().or_else(|| {
        let unschedulable = condition(pod, "PodScheduled").filter(|_| holds(pod, "PodScheduled", "False"))?;
        unschedulable.get("message").and_then(Value::as_str).map(str::to_owned)
    })
}

fn job(job: &Value) -> Readiness {
    if count(job, "/status/failed") > number(job, "/spec/backoffLimit").unwrap_or(6)
        || holds(job, "Failed", "True")
    {
        return Readiness::Failed("the job failed".into());
    }
    match number(job, "/spec/completions") {
        Some(wanted) if count(job, "/status/succeeded") < wanted => {
            waiting(format!("{} of {wanted} completions", count(job, "/status/succeeded")))
        }
        _ => Readiness::Ready,
    }
}

fn stale(object: &Value) -> bool {
    count(object, "/status/observedGeneration") < count(object, "/metadata/generation")
}

/// Resolves an absolute number or a percentage of `total`.
fn scaled(value: Option<&Value>, total: i64, round_up: bool) -> i64 {
    match value {
        Some(Value::Number(number)) => number.as_i64().unwrap_or(0),
        Some(Value::String(text)) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            let share = total.saturating_mul(percent);
            if round_up { (share + 99).div_euclid(100) } else { share / 100 }
        }
        _ => 0,
    }
}

fn deployment(deployment: &Value) -> Readiness {
    if deployment.pointer("/spec/paused").and_then(Value::as_bool) == Some(true) {
        return waiting("the deployment is paused");
    }
    if stale(deployment) {
        return waiting("the latest generation has not been observed yet");
    }
    if let Some(progress) =
        condition(deployment, "Progressing").filter(|_| holds(deployment, "Progressing", "False"))
    {
        let message = progress.get("message").and_then(Value::as_str).unwrap_or_default();
        return waiting(format!("the rollout is not progressing: {message}"));
    }
    let wanted = number(deployment, "/spec/replicas").unwrap_or(1);
    let unavailable = match deployment.pointer("/spec/strategy/rollingUpdate") {
        Some(rolling) => {
            let unavailable = scaled(rolling.get("maxUnavailable"), wanted, false);
            let surge = scaled(rolling.get("maxSurge"), wanted, true);
            // With both at zero the rollout could not move: Kubernetes then allows one unavailable pod.
            if unavailable == 0 && surge == 0 { 1 } else { unavailable.min(wanted) }
        }
        None => 0,
    };
    let old = count(deployment, "/status/replicas") - count(deployment, "/status/updatedReplicas");
    // Ready pods that are certainly from the new ReplicaSet.
    let ready = (count(deployment, "/status/readyReplicas") - old.max(0)).max(0);
    let needed = wanted - unavailable;
    if ready < needed || count(deployment, "/status/updatedReplicas") < needed {
        return waiting(format!("{ready} of {wanted} replicas are ready"));
    }
    Readiness::Ready
}

fn daemon_set(set: &Value) -> Readiness {
    if stale(set) {
        return waiting("the latest generation has not been observed yet");
    }
    if set
        .pointer("/spec/updateStrategy/type")
        .and_then(Value::as_str)
        .is_some_and(|kind| kind != "RollingUpdate")
    {
        return Readiness::Ready;
    }
    let wanted = count(set, "/status/desiredNumberScheduled");
    let updated = count(set, "/status/updatedNumberScheduled");
    if updated != wanted {
        return waiting(format!("{updated} of {wanted} pods are updated"));
    }
    let unavailable = scaled(set.pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable"), wanted, true);
    let ready = count(set, "/status/numberReady");
    if ready < wanted - unavailable {
        return waiting(format!("{ready} of {wanted} pods are ready"));
    }
    Readiness::Ready
}

fn stateful_set(set: &Value) -> Readiness {
    if stale(set) {
        return waiting("the latest generation has not been observed yet");
    }
    if set
        .pointer("/spec/updateStrategy/type")
        .and_then(Value::as_str)
        .is_some_and(|kind| kind != "RollingUpdate")
    {
        return Readiness::Ready;
    }
    let partition = count(set, "/spec/updateStrategy/rollingUpdate/partition");
    let wanted = number(set, "/spec/replicas").unwrap_or(1);
    let updated = count(set, "/status/updatedReplicas");
    if updated < wanted - partition {
        return waiting(format!("{updated} of {wanted} replicas are updated"));
    }
    let ready = count(set, "/status/readyReplicas");
    if ready != wanted {
        return waiting(format!("{ready} of {wanted} replicas are ready"));
    }
    let revision = |name: &str| set.pointer(&format!("/status/{name}")).and_then(Value::as_str);
    if partition == 0 && wanted > 0 && revision("currentRevision") != revision("updateRevision") {
        return waiting("the update is not complete");
    }
    Readiness::Ready
}

fn replica_set(set: &Value) -> Readiness {
    if stale(set) {
        return waiting("the latest generation has not been observed yet");
    }
    let wanted = number(set, "/spec/replicas").unwrap_or(1);
    let ready = count(set, "/status/readyReplicas");
    if ready < wanted { waiting(format!("{ready} of {wanted} replicas are ready")) } else { Readiness::Ready }
}

fn claim(claim: &Value) -> Readiness {
    match claim.pointer("/status/phase").and_then(Value::as_str) {
        Some("Bound") => Readiness::Ready,
        _ => waiting("the claim is not bound"),
    }
}

fn service(service: &Value) -> Readiness {
    let text = |path: &str| service.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let kind = text("/spec/type");
    if kind == "ExternalName" {
        return Readiness::Ready;
    }
    if text("/spec/clusterIP").is_empty() {
        return waiting("the service has no cluster IP");
    }
    let has_items =
        |path: &str| service.pointer(path).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    if kind == "LoadBalancer" && !has_items("/spec/externalIPs") && !has_items("/status/loadBalancer/ingress")
    {
        return waiting("the load balancer has no address");
    }
    Readiness::Ready
}

fn definition(definition: &Value) -> Readiness {
    // A name conflict is no reason to wait: it does not resolve on its own.
    if holds(definition, "Established", "True") || holds(definition, "NamesAccepted", "False") {
        Readiness::Ready
    } else {
        waiting("the definition is not established")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment_of(replicas: i64, status: Value) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "generation": 2 },
            "spec": { "replicas": replicas, "strategy": { "rollingUpdate": { "maxUnavailable": "25%", "maxSurge": "25%" } } },
            "status": status,
        })
    }

    #[test]
    fn a_deployment_counts_pods_of_the_new_kind_only() {
        let old = json!({ "observedGeneration": 1, "replicas": 4, "updatedReplicas": 4, "readyReplicas": 4 });
        assert!(!readiness(&deployment_of(4, old), false).is_ready(), "the change was not seen");
        let half =
            json!({ "observedGeneration": 2, "replicas": 5, "updatedReplicas": 2, "readyReplicas": 4 });
        assert!(!readiness(&deployment_of(4, half), false).is_ready(), "three of the ready ones are old");
        let enough =
            json!({ "observedGeneration": 2, "replicas": 4, "updatedReplicas": 4, "readyReplicas": 3 });
        assert!(readiness(&deployment_of(4, enough), false).is_ready(), "a quarter may be missing");
        let single =
            json!({ "observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 0 });
        assert!(!readiness(&deployment_of(1, single), false).is_ready(), "a quarter of one is none");
    }

    #[test]
    fn a_job_counts_only_if_asked() {
        let job = json!({ "apiVersion": "batch/v1", "kind": "Job", "spec": { "completions": 2 }, "status": { "succeeded": 1 } });
        assert!(readiness(&job, false).is_ready());
        assert_eq!(readiness(&job, true), Readiness::Waiting("1 of 2 completions".into()));
        let failed = json!({ "apiVersion": "batch/v1", "kind": "Job", "spec": { "backoffLimit": 0 }, "status": { "failed": 1 } });
        assert!(matches!(readiness(&failed, true), Readiness::Failed(_)));
    }
}
