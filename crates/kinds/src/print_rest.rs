//! Cells of the kinds that are looked at now and then, by the names of their columns.

use std::{collections::BTreeSet, net::Ipv6Addr};

use serde_json::{Value, json};

use super::print::{joined, labels, list, number, or_none, selector, text};
use crate::{
    object,
    table::{Cell, duration},
};

/// The cell of `object` in the column of that name; `None` if this is not known here.
pub(super) fn cell(key: (&str, &str), column: &str, object: &Value) -> Option<Cell> {
    match key {
        ("", "replicationcontrollers" | "podtemplates") => controller(key.1, column, object),
        ("", "endpoints") if column == "Endpoints" => Some(endpoints(object).into()),
        ("", "resourcequotas") => quota(column, object),
        ("autoscaling", _) => scaler(column, object),
        ("networking.k8s.io", _) => networking(key.1, column, object),
        ("policy", "poddisruptionbudgets") => budget(column, object),
        ("discovery.k8s.io", "endpointslices") => slice(column, object),
        ("node.k8s.io", "runtimeclasses") if column == "Handler" => Some(text(object, &["handler"])),
        ("scheduling.k8s.io", "priorityclasses") => match column {
            "Value" => Some(number(object, &["value"]).into()),
            "Global-Default" => Some(flag(object, &["globalDefault"], false)),
            "PreemptionPolicy" => Some(text(object, &["preemptionPolicy"])),
            _ => None,
        },
        ("storage.k8s.io", _) => storage(key.1, column, object),
        ("admissionregistration.k8s.io", _) => admission(column, object),
        ("certificates.k8s.io", _) => signing(column, object),
        _ => None,
    }
}

fn flag(object: &Value, path: &[&str], default: bool) -> Cell {
    object::get(object, path).and_then(Value::as_bool).unwrap_or(default).into()
}

fn or(object: &Value, path: &[&str], otherwise: &str) -> Cell {
    object::text(object, path).unwrap_or(otherwise).into()
}

/// The first of many, and how many more there are.
fn some_of(all: &[String], most: usize, separator: &str) -> String {
    let shown = all.get(..most).unwrap_or(all).join(separator);
    match all.len().checked_sub(most) {
        Some(more) if more > 0 => format!("{shown} + {more} more..."),
        _ => shown,
    }
}

/// The name of a class, with a word on the one that is taken where none is named.
fn class_name(object: &Value, annotations: &[&str]) -> Cell {
    let chosen = annotations.iter().any(|a| object["metadata"]["annotations"][*a] == "true");
    let name = object::name(object);
    if chosen { format!("{name} (default)").into() } else { name.into() }
}

fn controller(plural: &str, column: &str, object: &Value) -> Option<Cell> {
    let template = if plural == "podtemplates" { &object["template"] } else { &object["spec"]["template"] };
    let containers = list(template, &["spec", "containers"]);
    Some(match column {
        "Desired" => number(object, &["spec", "replicas"]).into(),
        "Current" => number(object, &["status", "replicas"]).into(),
        "Ready" => number(object, &["status", "readyReplicas"]).into(),
        "Containers" => joined(containers, "name").into(),
        "Images" => joined(containers, "image").into(),
        "Selector" => or_none(labels(object::get(object, &["spec", "selector"]))),
        "Pod Labels" => or_none(labels(object::get(template, &["metadata", "labels"]))),
        _ => return None,
    })
}

fn endpoints(object: &Value) -> String {
    let subsets = list(object, &["subsets"]);
    if subsets.is_empty() {
        return "<none>".into();
    }
    let mut all = Vec::new();
    for subset in subsets {
        let addresses = || list(subset, &["addresses"]).iter().map(|a| a["ip"].as_str().unwrap_or_default());
        let ports = list(subset, &["ports"]);
        if ports.is_empty() {
            all.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            let port = &port["port"];
            all.extend(addresses().map(|ip| match ip.parse::<Ipv6Addr>() {
                Ok(_) => format!("[{ip}]:{port}"),
                Err(_) => format!("{ip}:{port}"),
            }));
        }
    }
    some_of(&all, 3, ",")
}

fn slice(column: &str, object: &Value) -> Option<Cell> {
    let unset_or = |all: &[String]| -> Cell {
        if all.is_empty() { "<unset>".into() } else { some_of(all, 3, ",").into() }
    };
    Some(match column {
        "AddressType" => text(object, &["addressType"]),
        "Ports" => {
            let ports =
                list(object, &["ports"]).iter().map(|p| match (p["port"].as_i64(), p["name"].as_str()) {
                    (Some(port), _) => port.to_string(),
                    (None, Some(name)) => name.to_owned(),
                    (None, None) => "*".to_owned(),
                });
            unset_or(&ports.collect::<Vec<_>>())
        }
        "Endpoints" => {
            let addresses = list(object, &["endpoints"]).iter().flat_map(|e| list(e, &["addresses"]));
            unset_or(&addresses.map(plain).collect::<Vec<_>>())
        }
        _ => return None,
    })
}

/// A number or text without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn quota(column: &str, object: &Value) -> Option<Cell> {
    let limits = match column {
        "Request" => false,
        "Limit" => true,
        _ => return None,
    };
    let hard = object["status"]["hard"].as_object();
    let parts = hard.into_iter().flatten().filter(|(name, _)| name.starts_with("limits.") == limits);
    let parts = parts.map(|(name, hard)| {
        let used = object["status"]["used"][name].as_str().unwrap_or("0");
        format!("{name}: {used}/{}", plain(hard))
    });
    Some(parts.collect::<Vec<_>>().join(", ").into())
}

fn scaler(column: &str, object: &Value) -> Option<Cell> {
    let spec = &object["spec"];
    Some(match column {
        "Reference" => {
            let target = &spec["scaleTargetRef"];
            let part = |key: &str| target[key].as_str().unwrap_or_default();
            format!("{}/{}", part("kind"), part("name")).into()
        }
        "Targets" => metrics(object).into(),
        "MinPods" => {
            spec["minReplicas"].as_i64().map_or_else(|| "<unset>".to_owned(), |n| n.to_string()).into()
        }
        "MaxPods" => number(spec, &["maxReplicas"]).into(),
        "Replicas" => number(object, &["status", "currentReplicas"]).into(),
        _ => return None,
    })
}

fn metrics(object: &Value) -> String {
    const UNKNOWN: &str = "<unknown>";
    let percent = |n: &Value| n.as_i64().map(|n| format!("{n}%"));
    // The first version knows nothing but a share of the processor.
    if let Some(target) = percent(&object["spec"]["targetCPUUtilizationPercentage"]) {
        let current = percent(&object["status"]["currentCPUUtilizationPercentage"]);
        return format!("cpu: {}/{target}", current.as_deref().unwrap_or(UNKNOWN));
    }
    let specs = list(object, &["spec", "metrics"]);
    if specs.is_empty() {
        return "<none>".into();
    }
    let statuses = list(object, &["status", "currentMetrics"]);
    let all = specs.iter().enumerate().map(|(i, spec)| {
        let source = match spec["type"].as_str().unwrap_or_default() {
            "External" => "external",
            "Pods" => "pods",
            "Object" => "object",
            "Resource" => "resource",
            "ContainerResource" => "containerResource",
            _ => return "<unknown type>".to_owned(),
        };
        let target = &spec[source]["target"];
        let current = statuses.get(i).map_or(&Value::Null, |s| &s[source]["current"]);
        let shown = |value: &Value| if value.is_null() { UNKNOWN.to_owned() } else { plain(value) };
        let average = &target["averageValue"];
        match source {
            "resource" | "containerResource" => {
                let name = spec[source]["name"].as_str().unwrap_or_default();
                if average.is_null() {
                    let current = percent(&current["averageUtilization"]);
                    let target = percent(&target["averageUtilization"]);
                    let (current, target) =
                        (current.as_deref().unwrap_or(UNKNOWN), target.as_deref().unwrap_or("<auto>"));
                    format!("{name}: {current}/{target}")
                } else {
                    format!("{name}: {}/{}", shown(&current["averageValue"]), plain(average))
                }
            }
            "pods" => format!("{}/{}", shown(&current["averageValue"]), shown(average)),
            _ if average.is_null() => format!("{}/{}", shown(&current["value"]), shown(&target["value"])),
            _ => format!("{}/{} (avg)", shown(&current["averageValue"]), plain(average)),
        }
    });
    some_of(&all.collect::<Vec<_>>(), 2, ", ")
}

fn networking(plural: &str, column: &str, object: &Value) -> Option<Cell> {
    Some(match (plural, column) {
        ("networkpolicies", "Pod-Selector") => {
            or_none(object::get(object, &["spec", "podSelector"]).map(selector).unwrap_or_default())
        }
        ("ingressclasses", "Name") => class_name(object, &["ingressclass.kubernetes.io/is-default-class"]),
        ("ingressclasses", "Controller") => text(object, &["spec", "controller"]),
        ("ingressclasses", "Parameters") => {
            let Some(parameters) = object::get(object, &["spec", "parameters"]) else {
                return Some("<none>".into());
            };
            let part = |key: &str| parameters[key].as_str().unwrap_or_default();
            match parameters["apiGroup"].as_str() {
                Some(group) => format!("{}.{group}/{}", part("kind"), part("name")).into(),
                None => format!("{}/{}", part("kind"), part("name")).into(),
            }
        }
        ("ingresses", "Class") => or(object, &["spec", "ingressClassName"], "<none>"),
        ("ingresses", "Hosts") => hosts(list(object, &["spec", "rules"])).into(),
        ("ingresses", "Address") => {
            let addresses: BTreeSet<&str> = list(object, &["status", "loadBalancer", "ingress"])
                .iter()
                .filter_map(|i| i["ip"].as_str().or_else(|| i["hostname"].as_str()))
                .collect();
            addresses.into_iter().collect::<Vec<_>>().join(",").into()
        }
        ("ingresses", "Ports") => {
            if list(object, &["spec", "tls"]).is_empty() {
                "80".into()
            } else {
                "80, 443".into()
            }
        }
        ("servicecidrs", "CIDRs") => {
            list(object, &["spec", "cidrs"]).iter().map(plain).collect::<Vec<_>>().join(",").into()
        }
        _ => return None,
    })
}

fn hosts(rules: &[Value]) -> String {
    const MOST: usize = 3;
    let named: Vec<&str> =
        rules.iter().filter_map(|r| r["host"].as_str()).filter(|h| !h.is_empty()).take(MOST).collect();
    if named.is_empty() {
        return "*".into();
    }
    let last = rules.iter().position(|r| r["host"].as_str() == named.last().copied());
    let more = named.len() == MOST && last.is_some_and(|at| at + 1 < rules.len());
    let shown = named.join(",");
    if more { format!("{shown} + {} more...", rules.len() - MOST) } else { shown }
}

fn budget(column: &str, object: &Value) -> Option<Cell> {
    let amount =
        |field: &str| object::get(object, &["spec", field]).map_or_else(|| "N/A".to_owned(), plain).into();
    Some(match column {
        "Min Available" => amount("minAvailable"),
        "Max Unavailable" => amount("maxUnavailable"),
        "Allowed Disruptions" => number(object, &["status", "disruptionsAllowed"]).into(),
        _ => return None,
    })
}

fn storage(plural: &str, column: &str, object: &Value) -> Option<Cell> {
    const DEFAULT: [&str; 2] =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
    Some(match (plural, column) {
        ("storageclasses", "Name") => class_name(object, &DEFAULT),
        ("storageclasses", "Provisioner") => text(object, &["provisioner"]),
        ("storageclasses", "ReclaimPolicy") => or(object, &["reclaimPolicy"], "Delete"),
        ("storageclasses", "VolumeBindingMode") => or(object, &["volumeBindingMode"], "Immediate"),
        ("storageclasses", "AllowVolumeExpansion") => flag(object, &["allowVolumeExpansion"], false),
        ("csidrivers", "AttachRequired") => flag(object, &["spec", "attachRequired"], true),
        ("csidrivers", "PodInfoOnMount") => flag(object, &["spec", "podInfoOnMount"], false),
        ("csidrivers", "StorageCapacity") => flag(object, &["spec", "storageCapacity"], false),
        ("csidrivers", "RequiresRepublish") => flag(object, &["spec", "requiresRepublish"], false),
        ("csidrivers", "TokenRequests") => match object["spec"]["tokenRequests"].as_array() {
            Some(requests) => joined(requests, "audience").into(),
            None => "<unset>".into(),
        },
        ("csidrivers", "Modes") => {
            let modes = list(object, &["spec", "volumeLifecycleModes"]);
            or_none(modes.iter().map(plain).collect::<Vec<_>>().join(","))
        }
        ("csinodes", "Drivers") => list(object, &["spec", "drivers"]).len().into(),
        ("volumeattachments", "Attacher") => text(object, &["spec", "attacher"]),
        ("volumeattachments", "PV") => text(object, &["spec", "source", "persistentVolumeName"]),
        ("volumeattachments", "Node") => text(object, &["spec", "nodeName"]),
        ("volumeattachments", "Attached") => flag(object, &["status", "attached"], false),
        ("volumeattributesclasses", "DriverName") => text(object, &["driverName"]),
        _ => return None,
    })
}

fn admission(column: &str, object: &Value) -> Option<Cell> {
    let spec = &object["spec"];
    Some(match column {
        "Webhooks" => list(object, &["webhooks"]).len().into(),
        "Validations" => list(spec, &["validations"]).len().into(),
        "Mutations" => list(spec, &["mutations"]).len().into(),
        "PolicyName" => text(spec, &["policyName"]),
        "ParamKind" => match spec.get("paramKind") {
            Some(kind) => {
                let part = |key: &str| kind[key].as_str().unwrap_or_default();
                format!("{}/{}", part("apiVersion"), part("kind")).into()
            }
            None => "<unset>".into(),
        },
        "ParamRef" => {
            let reference = spec.get("paramRef").unwrap_or(&Value::Null);
            match (reference["name"].as_str(), reference["namespace"].as_str()) {
                (Some(name), namespace) => format!("{}/{name}", namespace.unwrap_or("*")).into(),
                (None, _) => "<unset>".into(),
            }
        }
        _ => return None,
    })
}

fn signing(column: &str, object: &Value) -> Option<Cell> {
    Some(match column {
        "SignerName" => or(object, &["spec", "signerName"], "<none>"),
        "Requestor" => text(object, &["spec", "username"]),
        "RequestedDuration" => match object["spec"]["expirationSeconds"].as_i64() {
            Some(seconds) => duration(seconds).into(),
            None => "<none>".into(),
        },
        "Condition" => {
            let is = |kind: &str| list(object, &["status", "conditions"]).iter().any(|c| c["type"] == kind);
            let decided = match () {
                () if is("Denied") => "Denied",
                () if is("Approved") => "Approved",
                () => "Pending",
            };
            let failed = if is("Failed") { ",Failed" } else { "" };
            let issued = if object["status"]["certificate"].is_string() { ",Issued" } else { "" };
            json!(format!("{decided}{failed}{issued}"))
        }
        _ => return None,
    })
}
