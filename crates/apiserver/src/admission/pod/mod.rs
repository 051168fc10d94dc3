//! Built-in admission of pods: service account, priority, runtime class and default tolerations.

mod account;
mod class;

use serde_json::{Map, Value, json};

use steersman_api::{object, status::ApiResult};

use super::{Attempt, Operation};

pub(super) use class::default_priority;

/// Mutates or rejects a pod that is created or updated.
pub(super) fn mutate(attempt: &Attempt<'_>, object: &mut Value) -> ApiResult<()> {
    let Attempt { call, operation, old, .. } = *attempt;
    if call.subresource.is_some() {
        return Ok(());
    }
    match (operation, old) {
        (Operation::Create, _) => {
            if call.core.has_plugin("ServiceAccount") {
                account::admit(attempt, object)?;
            }
            if call.core.has_plugin("Priority") {
                class::priority(attempt, object)?;
            }
            if call.core.has_plugin("RuntimeClass") {
                class::runtime(attempt, object)?;
            }
        }
        (Operation::Update, Some(old)) => {
            let spec = object::child(object, "spec");
            for field in ["priority", "preemptionPolicy"] {
                if let Some(value) = object::get(old, &["spec", field]) {
                    spec.entry(field).or_insert_with(|| value.clone());
                }
            }
        }
        _ => return Ok(()),
    }
    if call.core.has_plugin("DefaultTolerationSeconds") {
        tolerate_failing_nodes(object::child(object, "spec"));
    }
    Ok(())
}

/// Adds the default tolerations: pods stay five minutes on nodes that are not ready or unreachable.
fn tolerate_failing_nodes(spec: &mut Map<String, Value>) {
    const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
    let list = spec.entry("tolerations").or_insert_with(|| json!([]));
    let Some(list) = list.as_array_mut() else { return };
    let missing: Vec<&str> = TAINTS
        .into_iter()
        .filter(|taint| {
            !list.iter().any(|toleration| {
                let text = |key: &str| object::text(toleration, &[key]).unwrap_or_default();
                (text("key") == *taint || text("key").is_empty())
                    && matches!(text("effect"), "NoExecute" | "")
            })
        })
        .collect();
    for key in missing {
        list.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
    }
}
