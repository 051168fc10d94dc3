//! Readiness rules for operators: complete rollouts, and conditions.

use serde_json::Value;

use super::Readiness;

/// Returns the readiness of an object by the rules for operators.
///
/// Kinds without a rule are ready when they exist, unless a `Ready` or `Available` condition says otherwise.
///
/// ```
/// use serde_json::json;
/// use steersman_core::readiness::{Readiness, readiness};
///
/// let job = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"completions": 2}, "status": {"succeeded": 1}});
/// assert_eq!(readiness(&job), Readiness::Waiting("1 of 2 completions".into()));
/// ```
pub fn readiness(object: &Value) -> Readiness {
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        return Readiness::Waiting("being deleted".into());
    }
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    match (group, object["kind"].as_str().unwrap_or_default()) {
        ("apps", "Deployment") => deployment(object),
        ("apps", "StatefulSet") => stateful_set(object),
        ("apps", "DaemonSet") => daemon_set(object),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => replica_set(object),
        ("batch", "Job") => job(object),
        ("", "Pod") => pod(object),
        ("", "PersistentVolumeClaim") => phase(object, "Bound"),
        ("", "Namespace") => phase(object, "Active"),
        ("", "Service") => service(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => by_condition(object, "Established"),
        ("apiregistration.k8s.io", "APIService") => by_condition(object, "Available"),
        _ => other(object),
    }
}

fn number(object: &Value, path: &str) -> i64 {
    object.pointer(path).and_then(Value::as_i64).unwrap_or_default()
}

fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    object.pointer("/status/conditions")?.as_array()?.iter().find(|condition| condition["type"] == type_)
}

fn says(condition: &Value) -> String {
    let text = |name: &str| condition[name].as_str().unwrap_or_default();
    match (text("reason"), text("message")) {
        ("", message) => message.to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

/// Returns `Waiting` if the status describes an earlier generation.
fn outdated(object: &Value) -> Option<Readiness> {
    let generation = number(object, "/metadata/generation");
    let observed = object.pointer("/status/observedGeneration")?.as_i64()?;
    (observed < generation)
        .then(|| Readiness::Waiting("the latest generation has not been observed yet".into()))
}

fn of(have: i64, want: i64, what: &str) -> Readiness {
    if have >= want { Readiness::Ready } else { Readiness::Waiting(format!("{have} of {want} {what}")) }
}

fn replicas(object: &Value) -> i64 {
    object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1)
}

/// Returns the first part that is not ready, or `Ready`.
fn all(parts: impl IntoIterator<Item = Readiness>) -> Readiness {
    parts.into_iter().find(|part| !part.is_ready()).unwrap_or(Readiness::Ready)
}

fn seen(object: &Value) -> Readiness {
    match outdated(object) {
        Some(waiting) => waiting,
        None if object.pointer("/status/observedGeneration").is_none() => {
            Readiness::Waiting("the latest generation has not been observed yet".into())
        }
        None => Readiness::Ready,
    }
}

fn deployment(object: &Value) -> Readiness {
    if let Some(progress) = condition(object, "Progressing")
        && progress["reason"] == "ProgressDeadlineExceeded"
    {
        return Readiness::Failed(says(progress));
    }
    let want = replicas(object);
    let total = number(object, "/status/replicas");
    let updated = number(object, "/status/updatedReplicas");
    all([
        seen(object),
        of(updated, want, "replicas updated"),
        if total > updated {
            Readiness::Waiting(format!("{} old replicas are pending termination", total - updated))
        } else {
            Readiness::Ready
        },
        of(number(object, "/status/availableReplicas"), want, "replicas available"),
    ])
}

fn stateful_set(object: &Value) -> Readiness {
    let want = replicas(object);
    let partition = number(object, "/spec/updateStrategy/rollingUpdate/partition");
    let on_delete = object.pointer("/spec/updateStrategy/type").is_some_and(|kind| kind == "OnDelete");
    let updated = number(object, "/status/updatedReplicas");
    all([
        seen(object),
        of(number(object, "/status/readyReplicas"), want, "replicas ready"),
        if on_delete { Readiness::Ready } else { of(updated, want - partition, "replicas updated") },
    ])
}

fn daemon_set(object: &Value) -> Readiness {
    let want = number(object, "/status/desiredNumberScheduled");
    all([
        seen(object),
        of(number(object, "/status/updatedNumberScheduled"), want, "pods updated"),
        of(number(object, "/status/numberAvailable"), want, "pods available"),
    ])
}

fn replica_set(object: &Value) -> Readiness {
    all([seen(object), of(number(object, "/status/readyReplicas"), replicas(object), "replicas ready")])
}

fn job(object: &Value) -> Readiness {
    for type_ in ["Failed", "FailureTarget"] {
        if let Some(failed) = condition(object, type_).filter(|condition| condition["status"] == "True") {
            return Readiness::Failed(says(failed));
        }
    }
    if condition(object, "Complete").is_some_and(|condition| condition["status"] == "True") {
        return Readiness::Ready;
    }
    let want = object.pointer("/spec/completions").and_then(Value::as_i64).unwrap_or(1);
    Readiness::Waiting(format!("{} of {want} completions", number(object, "/status/succeeded")))
}

fn pod(object: &Value) -> Readiness {
    match object.pointer("/status/phase").and_then(Value::as_str) {
        Some("Succeeded") => Readiness::Ready,
        Some("Failed") => Readiness::Failed(says(&object["status"])),
        _ => by_condition(object, "Ready"),
    }
}

fn phase(object: &Value, wanted: &str) -> Readiness {
    match object.pointer("/status/phase").and_then(Value::as_str) {
        Some(phase) if phase == wanted => Readiness::Ready,
        Some("Lost") => Readiness::Failed("Lost".into()),
        phase => Readiness::Waiting(format!("is {}", phase.unwrap_or("new"))),
    }
}

fn service(object: &Value) -> Readiness {
    let balanced = object.pointer("/spec/type").is_some_and(|kind| kind == "LoadBalancer");
    let ingress = object.pointer("/status/loadBalancer/ingress").and_then(Value::as_array);
    if balanced && ingress.is_none_or(Vec::is_empty) {
        return Readiness::Waiting("no address from the load balancer yet".into());
    }
    Readiness::Ready
}

fn by_condition(object: &Value, type_: &str) -> Readiness {
    match condition(object, type_) {
        Some(condition) if condition["status"] == "True" => Readiness::Ready,
        Some(condition) => Readiness::Waiting(says(condition)),
        None => Readiness::Waiting(format!("no condition {type_} yet")),
    }
}

fn other(object: &Value) -> Readiness {
    if let Some(waiting) = outdated(object) {
        return waiting;
    }
    let found = ["Ready", "Available"].iter().find_map(|type_| condition(object, type_));
    match found {
        Some(condition) if condition["status"] != "True" => Readiness::Waiting(says(condition)),
        _ => Readiness::Ready,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(status: &Value) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"generation": 2},
            "spec": {"replicas": 2}, "status": status})
    }

    fn waiting(text: &str) -> Readiness {
        Readiness::Waiting(text.into())
    }

    #[test]
    fn deployments_are_ready_when_the_rollout_is_complete() {
        let full =
            json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2});
        assert!(readiness(&deployment(&full)).is_ready());
        let mut status = full.clone();
        status["observedGeneration"] = json!(1);
        assert_eq!(
            readiness(&deployment(&status)),
            waiting("the latest generation has not been observed yet")
        );
        assert_eq!(
            readiness(&deployment(&json!({}))),
            waiting("the latest generation has not been observed yet")
        );
        let mut status = full.clone();
        status["availableReplicas"] = json!(1);
        assert_eq!(readiness(&deployment(&status)), waiting("1 of 2 replicas available"));
        let mut status = full.clone();
        status["replicas"] = json!(3);
        assert_eq!(readiness(&deployment(&status)), waiting("1 old replicas are pending termination"));
        let mut status = full;
        status["conditions"] = json!([{"type": "Progressing", "status": "False",
            "reason": "ProgressDeadlineExceeded", "message": "too long"}]);
        assert_eq!(
            readiness(&deployment(&status)),
            Readiness::Failed("ProgressDeadlineExceeded: too long".into())
        );
    }

    #[test]
    fn other_kinds_have_their_rules() {
        let job =
            |status: Value| json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {}, "status": status});
        assert!(readiness(&job(json!({"conditions": [{"type": "Complete", "status": "True"}]}))).is_ready());
        assert_eq!(readiness(&job(json!({}))), waiting("0 of 1 completions"));
        let failed =
            json!({"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]});
        assert_eq!(readiness(&job(failed)), Readiness::Failed("BackoffLimitExceeded".into()));
        let pvc =
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": "Pending"}});
        assert_eq!(readiness(&pvc), waiting("is Pending"));
        assert!(readiness(&json!({"apiVersion": "v1", "kind": "ConfigMap"})).is_ready());
        let own = json!({"apiVersion": "x.dev/v1", "kind": "Widget",
            "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Waiting"}]}});
        assert_eq!(readiness(&own), waiting("Waiting"));
        let service = json!({"apiVersion": "v1", "kind": "Service", "spec": {"type": "LoadBalancer"}});
        assert_eq!(readiness(&service), waiting("no address from the load balancer yet"));
        let set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"generation": 1}, "status":
            {"observedGeneration": 1, "desiredNumberScheduled": 3, "updatedNumberScheduled": 3, "numberAvailable": 2}});
        assert_eq!(readiness(&set), waiting("2 of 3 pods available"));
        let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"generation": 1},
            "spec": {"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 2}}},
            "status": {"observedGeneration": 1, "readyReplicas": 3, "updatedReplicas": 1}});
        assert!(readiness(&set).is_ready());
    }
}
