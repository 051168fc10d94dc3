//! Disruption budgets, enforced by evictions.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};
use steersman_api::{
    environment::EnvironmentExt as _,
    object,
    selector::LabelSelector,
    status::{ApiError, ApiResult, Cause, Reason},
    store::{Draft, Entry},
};

use crate::call::Call;

const BUDGETS: &str = "poddisruptionbudgets.policy";
const ATTEMPTS: usize = 32;

/// Uses one allowed disruption of the pod's budget, or rejects the eviction.
pub(super) fn spend(call: &Call) -> ApiResult<()> {
    let entry = call.stored()?;
    let pod = entry.value();
    // Evicting a pod that is not running yet or has terminated is no disruption.
    if matches!(pod["status"]["phase"].as_str(), Some("Pending" | "Succeeded" | "Failed"))
        || object::is_deleting(&pod)
    {
        return Ok(());
    }
    for _ in 0..ATTEMPTS {
        let budgets = covering(call, &entry)?;
        let (Some(budget), None) = (budgets.first(), budgets.get(1)) else {
            if budgets.is_empty() {
                return Ok(());
            }
            return Err(ApiError::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                Reason::InternalError,
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        };
        let mut value = budget.value();
        let number = |value: &Value, name: &str| value["status"][name].as_i64().unwrap_or_default();
        let ready = pod["status"]["conditions"]
            .as_array()
            .is_some_and(|all| all.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"));
        let healthy_enough = number(&value, "currentHealthy") >= number(&value, "desiredHealthy")
            && number(&value, "desiredHealthy") > 0;
        let always = value["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow";
        if !ready && (always || healthy_enough) {
            return Ok(());
        }
        if number(&value, "observedGeneration") < object::generation(&value) {
            let why =
                format!("The disruption budget {} is still being processed by the server.", budget.name());
            return Err(refusal(&why, 10));
        }
        let allowed = number(&value, "disruptionsAllowed");
        if allowed <= 0 {
            let why = format!(
                "The disruption budget {} needs {} healthy pods and has {} currently",
                budget.name(),
                number(&value, "desiredHealthy"),
                number(&value, "currentHealthy")
            );
            return Err(refusal(&why, 0));
        }
        if call.write.dry_run {
            return Ok(());
        }
        let status = object::child(&mut value, "status");
        status.insert("disruptionsAllowed".into(), (allowed - 1).into());
        let disrupted = status.entry("disruptedPods").or_insert_with(|| json!({}));
        object::ensure(disrupted).insert(entry.name().to_owned(), call.core.environment.now_string().into());
        let draft = Draft::new(&value, Vec::new()).map_err(ApiError::internal)?;
        if call.core.store.update(BUDGETS, budget.key(), budget.revision(), draft).is_ok() {
            return Ok(());
        }
    }
    Err(refusal("The disruption budget could not be updated due to conflicts.", 10))
}

fn refusal(why: &str, wait: u32) -> ApiError {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let mut error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, Reason::TooManyRequests, message);
    error.causes.push(Cause {
        reason: "DisruptionBudget".into(),
        message: why.to_owned(),
        field: String::new(),
    });
    error.retry_after_seconds = (wait > 0).then_some(wait);
    error
}

/// Returns the budgets that select a pod.
fn covering(call: &Call, pod: &Entry) -> ApiResult<Vec<Arc<Entry>>> {
    let prefix = format!("{}/", pod.namespace());
    let mut found = call.core.store.snapshot(BUDGETS, &prefix, None).entries;
    found.retain(|budget| {
        let value = budget.value();
        let selector = &value["spec"]["selector"];
        selector.is_object()
            && LabelSelector::parse(&requirements(selector)).is_ok_and(|s| s.matches(pod.labels()))
    });
    Ok(found)
}

/// Converts a label selector object to its query string form.
fn requirements(selector: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let mut parts: Vec<String> = labels.map(|(key, value)| format!("{key}={}", text(value))).collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = text(&expression["key"]);
        let values: Vec<String> = expression["values"].as_array().into_iter().flatten().map(text).collect();
        let values = values.join(",");
        parts.push(match expression["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key,
        });
    }
    parts.join(",")
}
