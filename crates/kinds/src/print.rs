//! Cells of the kinds that people look at most, by the names of their columns.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    object,
    table::{Cell, age, duration},
};

/// The cell of `object` in the column of that name; `None` if this is not known here.
pub(super) fn cell(key: (&str, &str), column: &str, object: &Value, now: Timestamp) -> Option<Cell> {
    let found = match key {
        ("", "pods") => pod(column, object, now),
        ("apps" | "batch", _) => workload(key.1, column, object, now),
        ("", "services") => service(column, object),
        ("", "configmaps") if column == "Data" => {
            Some(json!(length(object, &["data"]) + length(object, &["binaryData"])))
        }
        ("", "secrets") => match column {
            "Type" => Some(text(object, &["type"])),
            "Data" => Some(json!(length(object, &["data"]))),
            _ => None,
        },
        ("", "namespaces") if column == "Status" => Some(text(object, &["status", "phase"])),
        ("", "nodes") => node(column, object),
        ("", "persistentvolumeclaims" | "persistentvolumes") => volume(key.1, column, object),
        ("" | "events.k8s.io", "events") => event(column, object, now),
        ("coordination.k8s.io", "leases") if column == "Holder" => {
            Some(text(object, &["spec", "holderIdentity"]))
        }
        ("rbac.authorization.k8s.io", _) => binding(column, object),
        _ => super::print_rest::cell(key, column, object),
    };
    found.or_else(|| match column {
        "Name" => Some(object::name(object).into()),
        "Age" => Some(age(now, object::meta_text(object, "creationTimestamp")).into()),
        "Created At" => Some(object::meta_text(object, "creationTimestamp").into()),
        _ => None,
    })
}

pub(super) fn text(object: &Value, path: &[&str]) -> Cell {
    object::text(object, path).unwrap_or_default().into()
}

pub(super) fn or_none(text: String) -> Cell {
    if text.is_empty() { "<none>".into() } else { text.into() }
}

pub(super) fn number(object: &Value, path: &[&str]) -> i64 {
    object::get(object, path).and_then(Value::as_i64).unwrap_or_default()
}

pub(super) fn list<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    object::get(object, path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn length(object: &Value, path: &[&str]) -> usize {
    object::get(object, path).and_then(Value::as_object).map_or(0, serde_json::Map::len)
}

pub(super) fn joined(items: &[Value], key: &str) -> String {
    items.iter().filter_map(|i| i[key].as_str()).collect::<Vec<_>>().join(",")
}

fn pod(column: &str, pod: &Value, now: Timestamp) -> Option<Cell> {
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
        "IP" => or_none(object::text(pod, &["status", "podIP"]).unwrap_or_default().into()),
        "Node" => or_none(object::text(pod, &["spec", "nodeName"]).unwrap_or_default().into()),
        "Nominated Node" => {
            or_none(object::text(pod, &["status", "nominatedNodeName"]).unwrap_or_default().into())
        }
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

/// The names of the containers that start first and go on running.
fn sidecars(pod: &Value) -> Vec<&str> {
    let inits = list(pod, &["spec", "initContainers"]).iter();
    inits.filter(|c| c["restartPolicy"] == "Always").filter_map(|c| c["name"].as_str()).collect()
}

/// The one word for a pod's state.
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

fn workload(plural: &str, column: &str, object: &Value, now: Timestamp) -> Option<Cell> {
    let status = |field: &str| number(object, &["status", field]);
    let template: &[&str] = match plural {
        "cronjobs" => &["spec", "jobTemplate", "spec", "template", "spec", "containers"],
        _ => &["spec", "template", "spec", "containers"],
    };
    Some(match (plural, column) {
        (_, "Containers") => joined(list(object, template), "name").into(),
        (_, "Images") => joined(list(object, template), "image").into(),
        (_, "Selector") => {
            let path: &[&str] = if plural == "cronjobs" {
                &["spec", "jobTemplate", "spec", "selector"]
            } else {
                &["spec", "selector"]
            };
            or_none(object::get(object, path).map(selector).unwrap_or_default())
        }
        ("deployments" | "statefulsets", "Ready") => {
            format!("{}/{}", status("readyReplicas"), number(object, &["spec", "replicas"])).into()
        }
        ("deployments", "Up-to-date") => status("updatedReplicas").into(),
        ("deployments", "Available") => status("availableReplicas").into(),
        ("replicasets", "Desired") => number(object, &["spec", "replicas"]).into(),
        ("replicasets", "Current") => status("replicas").into(),
        ("replicasets", "Ready") => status("readyReplicas").into(),
        ("daemonsets", "Desired") => status("desiredNumberScheduled").into(),
        ("daemonsets", "Current") => status("currentNumberScheduled").into(),
        ("daemonsets", "Ready") => status("numberReady").into(),
        ("daemonsets", "Up-to-date") => status("updatedNumberScheduled").into(),
        ("daemonsets", "Available") => status("numberAvailable").into(),
        ("daemonsets", "Node Selector") => {
            or_none(labels(object::get(object, &["spec", "template", "spec", "nodeSelector"])))
        }
        ("jobs", "Status") => job_status(object).into(),
        ("jobs", "Completions") => {
            match object::get(object, &["spec", "completions"]).and_then(Value::as_i64) {
                Some(wanted) => format!("{}/{wanted}", status("succeeded")).into(),
                None => match number(object, &["spec", "parallelism"]) {
                    n if n > 1 => format!("{}/1 of {n}", status("succeeded")).into(),
                    _ => format!("{}/1", status("succeeded")).into(),
                },
            }
        }
        ("jobs", "Duration") => {
            let at = |field: &str| {
                object::text(object, &["status", field]).and_then(|t| t.parse::<Timestamp>().ok())
            };
            match (at("startTime"), at("completionTime")) {
                (None, _) => "".into(),
                (Some(start), end) => duration(end.unwrap_or(now).as_second() - start.as_second()).into(),
            }
        }
        ("cronjobs", "Schedule") => text(object, &["spec", "schedule"]),
        ("cronjobs", "Timezone") => {
            or_none(object::text(object, &["spec", "timeZone"]).unwrap_or_default().into())
        }
        ("cronjobs", "Suspend") => {
            let suspended =
                object::get(object, &["spec", "suspend"]).and_then(Value::as_bool).unwrap_or_default();
            if suspended { "True".into() } else { "False".into() }
        }
        ("cronjobs", "Active") => list(object, &["status", "active"]).len().into(),
        ("cronjobs", "Last Schedule") => match object::text(object, &["status", "lastScheduleTime"]) {
            Some(at) => age(now, at).into(),
            None => "<none>".into(),
        },
        ("controllerrevisions", "Controller") => owner(object),
        ("controllerrevisions", "Revision") => number(object, &["revision"]).into(),
        _ => return None,
    })
}

fn owner(object: &Value) -> Cell {
    let owners = list(object, &["metadata", "ownerReferences"]);
    let Some(owner) = owners.iter().find(|o| o["controller"] == true) else { return "<none>".into() };
    let text = |key: &str| owner[key].as_str().unwrap_or_default();
    let group = crate::group_version::split_api_version(text("apiVersion")).0;
    let kind = text("kind").to_lowercase();
    let kind = if group.is_empty() { kind } else { format!("{kind}.{group}") };
    format!("{kind}/{}", text("name")).into()
}

fn job_status(job: &Value) -> &'static str {
    let holds = |kind: &str| {
        list(job, &["status", "conditions"]).iter().any(|c| c["type"] == kind && c["status"] == "True")
    };
    match () {
        () if holds("Complete") => "Complete",
        () if holds("Failed") => "Failed",
        () if object::is_deleting(job) => "Terminating",
        () if holds("Suspended") => "Suspended",
        () if holds("FailureTarget") => "FailureTarget",
        () if holds("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

pub(super) fn labels(map: Option<&Value>) -> String {
    let pairs = map.and_then(Value::as_object).into_iter().flatten();
    pairs.map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect::<Vec<_>>().join(",")
}

/// A label selector as text.
pub(super) fn selector(selector: &Value) -> String {
    let mut parts: Vec<String> = vec![labels(selector.get("matchLabels"))];
    for expression in list(selector, &["matchExpressions"]) {
        let key = expression["key"].as_str().unwrap_or_default();
        let values: Vec<&str> = list(expression, &["values"]).iter().filter_map(Value::as_str).collect();
        parts.push(match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    parts.retain(|p| !p.is_empty());
    parts.join(",")
}

fn service(column: &str, service: &Value) -> Option<Cell> {
    let kind = object::text(service, &["spec", "type"]).unwrap_or_default();
    Some(match column {
        "Type" => kind.into(),
        "Cluster-IP" => or_none(object::text(service, &["spec", "clusterIP"]).unwrap_or_default().into()),
        "External-IP" => external(kind, service),
        "Port(s)" => {
            let ports: Vec<String> = list(service, &["spec", "ports"])
                .iter()
                .map(|p| {
                    let protocol = p["protocol"].as_str().unwrap_or("TCP");
                    match number(p, &["nodePort"]) {
                        0 => format!("{}/{protocol}", number(p, &["port"])),
                        node => format!("{}:{node}/{protocol}", number(p, &["port"])),
                    }
                })
                .collect();
            or_none(ports.join(","))
        }
        "Selector" => or_none(labels(object::get(service, &["spec", "selector"]))),
        _ => return None,
    })
}

fn external(kind: &str, service: &Value) -> Cell {
    let fixed: Vec<&str> = list(service, &["spec", "externalIPs"]).iter().filter_map(Value::as_str).collect();
    match kind {
        "ExternalName" => text(service, &["spec", "externalName"]),
        "LoadBalancer" => {
            let ingress = list(service, &["status", "loadBalancer", "ingress"]).iter();
            let mut found: Vec<&str> =
                ingress.filter_map(|i| i["ip"].as_str().or(i["hostname"].as_str())).collect();
            found.extend(fixed);
            if found.is_empty() { "<pending>".into() } else { found.join(",").into() }
        }
        _ => or_none(fixed.join(",")),
    }
}

fn node(column: &str, node: &Value) -> Option<Cell> {
    let address = |kind: &str| {
        let found = list(node, &["status", "addresses"]).iter().find(|a| a["type"] == kind);
        or_none(found.and_then(|a| a["address"].as_str()).unwrap_or_default().into())
    };
    let info = |field: &str| match object::text(node, &["status", "nodeInfo", field]).unwrap_or_default() {
        "" => "<unknown>".into(),
        text => text.into(),
    };
    Some(match column {
        "Status" => {
            let ready = list(node, &["status", "conditions"]).iter().find(|c| c["type"] == "Ready");
            let mut words = vec![match ready {
                Some(c) if c["status"] == "True" => "Ready",
                Some(_) => "NotReady",
                None => "Unknown",
            }];
            if object::get(node, &["spec", "unschedulable"]) == Some(&Value::Bool(true)) {
                words.push("SchedulingDisabled");
            }
            words.join(",").into()
        }
        "Roles" => {
            let all = object::get(node, &["metadata", "labels"]).and_then(Value::as_object);
            let mut roles: Vec<&str> = all
                .into_iter()
                .flatten()
                .filter_map(|(k, v)| match k.strip_prefix("node-role.kubernetes.io/") {
                    Some(role) => Some(role).filter(|r| !r.is_empty()),
                    None if k == "kubernetes.io/role" => v.as_str(),
                    None => None,
                })
                .collect();
            roles.sort_unstable();
            or_none(roles.join(","))
        }
        "Version" => text(node, &["status", "nodeInfo", "kubeletVersion"]),
        "Internal-IP" => address("InternalIP"),
        "External-IP" => address("ExternalIP"),
        "OS-Image" => info("osImage"),
        "Kernel-Version" => info("kernelVersion"),
        "Container-Runtime" => info("containerRuntimeVersion"),
        _ => return None,
    })
}

fn modes(object: &Value, path: &[&str]) -> Cell {
    let short = list(object, path).iter().filter_map(|m| match m.as_str()? {
        "ReadWriteOnce" => Some("RWO"),
        "ReadOnlyMany" => Some("ROX"),
        "ReadWriteMany" => Some("RWX"),
        "ReadWriteOncePod" => Some("RWOP"),
        _ => None,
    });
    short.collect::<Vec<_>>().join(",").into()
}

fn volume(plural: &str, column: &str, object: &Value) -> Option<Cell> {
    let class = |path: &[&str]| match object::text(object, path).unwrap_or_default() {
        "" => "<unset>".into(),
        text => text.into(),
    };
    let phase = || match object::is_deleting(object) {
        true => "Terminating".into(),
        false => text(object, &["status", "phase"]),
    };
    let claim = plural == "persistentvolumeclaims";
    Some(match column {
        "Status" => phase(),
        "Volume" => text(object, &["spec", "volumeName"]),
        "Capacity" if claim => match object::text(object, &["spec", "volumeName"]).unwrap_or_default() {
            "" => "".into(),
            _ => text(object, &["status", "capacity", "storage"]),
        },
        "Capacity" => text(object, &["spec", "capacity", "storage"]),
        "Access Modes" if claim => match object::text(object, &["spec", "volumeName"]).unwrap_or_default() {
            "" => "".into(),
            _ => modes(object, &["status", "accessModes"]),
        },
        "Access Modes" => modes(object, &["spec", "accessModes"]),
        "StorageClass" => text(object, &["spec", "storageClassName"]),
        "VolumeAttributesClass" => class(&["spec", "volumeAttributesClassName"]),
        "VolumeMode" => class(&["spec", "volumeMode"]),
        "Reclaim Policy" => text(object, &["spec", "persistentVolumeReclaimPolicy"]),
        "Claim" => match object::get(object, &["spec", "claimRef"]) {
            Some(claim) => format!(
                "{}/{}",
                claim["namespace"].as_str().unwrap_or_default(),
                claim["name"].as_str().unwrap_or_default()
            )
            .into(),
            None => "".into(),
        },
        "Reason" => text(object, &["status", "reason"]),
        _ => return None,
    })
}

fn event(column: &str, event: &Value, now: Timestamp) -> Option<Cell> {
    let first = |paths: &[&[&str]]| {
        let found = paths.iter().find_map(|p| object::text(event, p)).unwrap_or_default();
        found.to_owned()
    };
    let about = event.get("involvedObject").or_else(|| event.get("regarding")).unwrap_or(&Value::Null);
    let count = number(event, &["series", "count"])
        .max(number(event, &["count"]))
        .max(number(event, &["deprecatedCount"]));
    Some(match column {
        "Last Seen" => age(
            now,
            &first(&[
                &["series", "lastObservedTime"],
                &["lastTimestamp"],
                &["deprecatedLastTimestamp"],
                &["eventTime"],
            ]),
        )
        .into(),
        "First Seen" => {
            age(now, &first(&[&["firstTimestamp"], &["deprecatedFirstTimestamp"], &["eventTime"]])).into()
        }
        "Type" => text(event, &["type"]),
        "Reason" => text(event, &["reason"]),
        "Object" => {
            let part = |key: &str| about[key].as_str().unwrap_or_default();
            match part("name") {
                "" => part("kind").to_lowercase().into(),
                name => format!("{}/{name}", part("kind").to_lowercase()).into(),
            }
        }
        "Subobject" => about["fieldPath"].as_str().unwrap_or_default().into(),
        "Source" => {
            let component = first(&[&["source", "component"], &["deprecatedSource", "component"]]);
            let host = first(&[&["source", "host"], &["deprecatedSource", "host"]]);
            match (component.is_empty(), host.is_empty()) {
                (true, _) => first(&[&["reportingComponent"], &["reportingController"]]).into(),
                (false, true) => component.into(),
                (false, false) => format!("{component}, {host}").into(),
            }
        }
        "Message" => first(&[&["message"], &["note"]]).trim().into(),
        "Count" => count.max(1).into(),
        _ => return None,
    })
}

fn binding(column: &str, object: &Value) -> Option<Cell> {
    let subjects = |kind: &str| {
        let names = list(object, &["subjects"]).iter().filter(|s| s["kind"] == kind).map(|s| {
            let text = |key: &str| s[key].as_str().unwrap_or_default();
            if kind == "ServiceAccount" {
                format!("{}/{}", text("namespace"), text("name"))
            } else {
                text("name").into()
            }
        });
        names.collect::<Vec<_>>().join(", ").into()
    };
    Some(match column {
        "Role" => {
            let text = |key: &str| object["roleRef"][key].as_str().unwrap_or_default();
            format!("{}/{}", text("kind"), text("name")).into()
        }
        "Users" => subjects("User"),
        "Groups" => subjects("Group"),
        "ServiceAccounts" => subjects("ServiceAccount"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
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
