//! Printer columns of Pods.

use jiff::Timestamp;
use serde_json::Value;
use steersman_api::{
    object,
    table::{Cell, age},
};

use crate::cells::{list, number, text_or_none};

pub(crate) fn cell(column: &str, pod: &Value, now: Timestamp) -> Option<Cell> {
    let containers = list(pod, &["status", "containerStatuses"]);
    let restartable = sidecars(pod);
    let inits = list(pod, &["status", "initContainerStatuses"]);
    let running_beside =
        || inits.iter().filter(|c| c["name"].as_str().is_some_and(|n| restartable.contains(&n)));
    Some(match column {
        "Ready" => {
            let ready = containers.iter().chain(running_beside()).filter(|c| c["ready"] == true).count();
            let total = list(pod, &["spec", "containers"]).len() + restartable.len();
            format!("{ready}/{total}").into()
        }
        "Status" => pod_status(pod).into(),
        "Restarts" => {
            let count: i64 =
                containers.iter().chain(running_beside()).map(|c| number(c, &["restartCount"])).sum();
            let last = containers
                .iter()
                .filter_map(|c| object::text(c, &["lastState", "terminated", "finishedAt"]))
                .max();
            match last {
                Some(at) if count > 0 => format!("{count} ({} ago)", age(now, at)).into(),
                _ => count.to_string().into(),
            }
        }
        "IP" => text_or_none(pod, &["status", "podIP"]),
        "Node" => text_or_none(pod, &["spec", "nodeName"]),
        "Nominated Node" => text_or_none(pod, &["status", "nominatedNodeName"]),
        "Readiness Gates" => {
            let gates = list(pod, &["spec", "readinessGates"]);
            if gates.is_empty() {
                "<none>".into()
            } else {
                let conditions = list(pod, &["status", "conditions"]);
                let met = gates
                    .iter()
                    .filter(|g| {
                        conditions.iter().any(|c| c["type"] == g["conditionType"] && c["status"] == "True")
                    })
                    .count();
                format!("{met}/{}", gates.len()).into()
            }
        }
        _ => return None,
    })
}

/// Returns the names of sidecars: init containers with restart policy Always.
fn sidecars(pod: &Value) -> Vec<&str> {
    let inits = list(pod, &["spec", "initContainers"]).iter();
    inits.filter(|c| c["restartPolicy"] == "Always").filter_map(|c| c["name"].as_str()).collect()
}

/// Returns the status column, such as `Running` or `Init:0/1`.
fn pod_status(pod: &Value) -> String {
    let mut reason = object::text(pod, &["status", "phase"]).unwrap_or_default().to_owned();
    if let Some(own) = object::text(pod, &["status", "reason"]).filter(|r| !r.is_empty()) {
        own.clone_into(&mut reason);
    }
    let gated = list(pod, &["status", "conditions"]).iter().any(|c| c["reason"] == "SchedulingGated");
    if gated {
        reason = "SchedulingGated".into();
    }
    let total = list(pod, &["spec", "initContainers"]).len();
    let sidecars = sidecars(pod);
    let is_sidecar = |status: &Value| status["name"].as_str().is_some_and(|name| sidecars.contains(&name));
    let mut initializing = false;
    for (index, status) in list(pod, &["status", "initContainerStatuses"]).iter().enumerate() {
        let state = &status["state"];
        if state["terminated"]["exitCode"] == 0 || (status["started"] == true && is_sidecar(status)) {
            continue;
        }
        initializing = true;
        reason = match (state["terminated"].is_object(), state["waiting"]["reason"].as_str()) {
            (true, _) => terminated(&state["terminated"], "Init:"),
            (false, Some(why)) if !why.is_empty() && why != "PodInitializing" => format!("Init:{why}"),
            _ => format!("Init:{index}/{total}"),
        };
        break;
    }
    if !initializing {
        let mut running = false;
        for status in list(pod, &["status", "containerStatuses"]).iter().rev() {
            let state = &status["state"];
            if let Some(why) = state["waiting"]["reason"].as_str().filter(|r| !r.is_empty()) {
                why.clone_into(&mut reason);
            } else if state["terminated"].is_object() {
                reason = terminated(&state["terminated"], "");
            } else if status["ready"] == true && state["running"].is_object() {
                running = true;
            }
        }
        if reason == "Completed" && running {
            let ready = list(pod, &["status", "conditions"])
                .iter()
                .any(|c| c["type"] == "Ready" && c["status"] == "True");
            reason = if ready { "Running".into() } else { "NotReady".into() };
        }
    }
    if object::is_deleting(pod) {
        let lost = object::text(pod, &["status", "reason"]) == Some("NodeLost");
        let over = matches!(object::text(pod, &["status", "phase"]), Some("Succeeded" | "Failed"));
        if lost {
            return "Unknown".into();
        }
        if !over {
            return "Terminating".into();
        }
    }
    reason
}

fn terminated(state: &Value, prefix: &str) -> String {
    match (state["reason"].as_str().filter(|r| !r.is_empty()), number(state, &["signal"])) {
        (Some(reason), _) => format!("{prefix}{reason}"),
        (None, 0) => format!("{prefix}ExitCode:{}", number(state, &["exitCode"])),
        (None, signal) => format!("{prefix}Signal:{signal}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_in_one_word() {
        let waiting = |reason: &str| json!({"status": {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": reason}}}]}});
        assert_eq!(pod_status(&waiting("ImagePullBackOff")), "ImagePullBackOff");
        assert_eq!(pod_status(&json!({"status": {"phase": "Running"}})), "Running");
        assert_eq!(
            pod_status(&json!({"metadata": {"deletionTimestamp": "x"}, "status": {"phase": "Running"}})),
            "Terminating"
        );
        let init = json!({
            "spec": {"initContainers": [{"name": "a", "restartPolicy": "Always"}, {"name": "b"}, {"name": "c"}]},
            "status": {"phase": "Pending", "initContainerStatuses": [
                {"name": "a", "state": {"running": {}}, "started": true},
                {"name": "b", "state": {"terminated": {"exitCode": 0}}},
                {"name": "c", "state": {"running": {}}, "started": true},
            ]},
        });
        assert_eq!(pod_status(&init), "Init:2/3");
        let done = json!({"status": {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {"reason": "Completed", "exitCode": 0}}}]}});
        assert_eq!(pod_status(&done), "Completed");
    }
}
