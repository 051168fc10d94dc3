//! Applies a pod's priority class and runtime class: priority, overhead and scheduling.

use memchr::memmem;
use serde_json::{Value, json};
use steersman_api::{
    object,
    status::{ApiError, ApiResult},
};

use crate::{admission::Attempt, call::Call};

const PRIORITIES: &str = "priorityclasses.scheduling.k8s.io";

/// Returns the global default priority class, if there is one.
pub(in crate::admission) fn default_priority(call: &Call) -> Option<Value> {
    let snapshot = call.core.store.snapshot(PRIORITIES, "", None);
    // Called for every new pod, and a default is rare: parse only entries that contain the field.
    let mark = b"\"globalDefault\":true";
    let likely = snapshot.entries.iter().filter(|entry| memmem::find(entry.outline(), mark).is_some());
    likely
        .map(|entry| entry.value())
        .filter(|class| class.get("globalDefault").and_then(Value::as_bool) == Some(true))
        .min_by_key(|class| class.get("value").and_then(Value::as_i64))
}

/// Sets a new pod's priority from its priority class.
pub(super) fn priority(attempt: &Attempt<'_>, pod: &mut Value) -> ApiResult<()> {
    let Attempt { call, name: pod_name, .. } = *attempt;
    let refuse = |why: String| ApiError::forbidden("", "pods", pod_name, &why);
    let name = object::text(pod, &["spec", "priorityClassName"]).unwrap_or_default().to_owned();
    let class = if name.is_empty() {
        default_priority(call)
            .unwrap_or_else(|| json!({"value": 0, "preemptionPolicy": "PreemptLowerPriority"}))
    } else {
        let entry = call.core.store.get(PRIORITIES, &name);
        entry.ok_or_else(|| refuse(format!("no PriorityClass with name {name} was found")))?.value()
    };
    let spec = object::child(pod, "spec");
    if name.is_empty() && !object::name(&class).is_empty() {
        spec.insert("priorityClassName".into(), object::name(&class).into());
    }
    let value = class.get("value").and_then(Value::as_i64).unwrap_or_default();
    if let Some(given) = spec.get("priority").and_then(Value::as_i64).filter(|given| *given != value) {
        return Err(refuse(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        )));
    }
    spec.insert("priority".into(), value.into());
    let Some(policy) = object::text(&class, &["preemptionPolicy"]) else { return Ok(()) };
    if let Some(given) = spec.get("preemptionPolicy").and_then(Value::as_str).filter(|given| *given != policy)
    {
        return Err(refuse(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        )));
    }
    spec.insert("preemptionPolicy".into(), policy.into());
    Ok(())
}

/// Applies the overhead and scheduling of the pod's runtime class.
pub(super) fn runtime(attempt: &Attempt<'_>, pod: &mut Value) -> ApiResult<()> {
    let Attempt { call, name: pod_name, .. } = *attempt;
    let refuse = |why: String| ApiError::forbidden("", "pods", pod_name, &why);
    let name = object::text(pod, &["spec", "runtimeClassName"]).map(str::to_owned);
    let overhead = object::get(pod, &["spec", "overhead"]).is_some();
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return if overhead {
            Err(refuse(
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead".into(),
            ))
        } else {
            Ok(())
        };
    };
    let entry = call.core.store.get("runtimeclasses.node.k8s.io", &name);
    let class =
        entry.ok_or_else(|| refuse(format!("pod rejected: RuntimeClass \"{name}\" not found")))?.value();
    let spec = object::child(pod, "spec");
    match object::get(&class, &["overhead", "podFixed"]) {
        Some(fixed) => {
            if spec.get("overhead").is_some_and(|given| given != fixed) {
                return Err(refuse(
                    "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".into(),
                ));
            }
            spec.insert("overhead".into(), fixed.clone());
        }
        None if overhead => {
            return Err(refuse(
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead".into(),
            ));
        }
        None => {}
    }
    if let Some(nodes) = object::get(&class, &["scheduling", "nodeSelector"]).and_then(Value::as_object) {
        let own = object::ensure(spec.entry("nodeSelector").or_insert(Value::Null));
        for (key, value) in nodes {
            if own.get(key).is_some_and(|given| given != value) {
                return Err(refuse(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                    value.as_str().unwrap_or_default(),
                    own.get(key).and_then(Value::as_str).unwrap_or_default()
                )));
            }
            own.insert(key.clone(), value.clone());
        }
    }
    if let Some(more) = object::get(&class, &["scheduling", "tolerations"]).and_then(Value::as_array) {
        let own = spec.entry("tolerations").or_insert_with(|| json!([]));
        if let Some(own) = own.as_array_mut() {
            for toleration in more {
                if !own.contains(toleration) {
                    own.push(toleration.clone());
                }
            }
        }
    }
    Ok(())
}
