//! Resource quotas: which objects they count, and the usage of each.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{object, schema::Quantity};

/// Core resources that can also be limited without the prefix `count/`.
const PLAIN: [&str; 7] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];
const CLASS: &str = ".storageclass.storage.k8s.io/";
/// Compute resources that every container must specify if a quota limits them.
const COMPUTE: [&str; 6] =
    ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];

/// A `ResourceList`: quantities by resource name.
pub type Amounts = BTreeMap<String, Quantity>;

/// The limits and scopes of a `ResourceQuota`.
#[derive(Debug, Clone)]
pub struct Quota {
    hard: Amounts,
    scopes: Vec<Scope>,
}

#[derive(Debug, Clone)]
struct Scope {
    name: String,
    operator: String,
    values: Vec<String>,
}

impl Quota {
    /// Parses the `spec` of a `ResourceQuota`.
    #[must_use]
    pub fn read(quota: &Value) -> Self {
        let hard = quota["spec"]["hard"].as_object().into_iter().flatten();
        let hard = hard.filter_map(|(name, amount)| Some((name.clone(), quantity(amount)?))).collect();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let plain = quota["spec"]["scopes"].as_array().into_iter().flatten().map(|name| Scope {
            name: text(name),
            operator: "Exists".to_owned(),
            values: Vec::new(),
        });
        let selected = quota["spec"]["scopeSelector"]["matchExpressions"].as_array().into_iter().flatten();
        let selected = selected.map(|e| Scope {
            name: text(&e["scopeName"]),
            operator: text(&e["operator"]),
            values: e["values"].as_array().into_iter().flatten().map(text).collect(),
        });
        Self { hard, scopes: plain.chain(selected).collect() }
    }

    /// Returns the limits: `spec.hard`.
    #[must_use]
    pub fn hard(&self) -> &BTreeMap<String, Quantity> {
        &self.hard
    }

    /// Returns the resources that the quota covers, such as `pods` or `deployments.apps`. The value tells whether usage
    /// depends on the number of objects alone, not on their content.
    #[must_use]
    pub fn resources(&self) -> BTreeMap<String, bool> {
        let mut resources: BTreeMap<String, bool> = BTreeMap::new();
        for name in self.hard.keys() {
            let (resource, number_alone) = counted(name);
            let alone = resources.entry(resource.to_owned()).or_insert(true);
            *alone &= number_alone && self.scopes.is_empty();
        }
        resources
    }

    /// Returns the usage of an object of `resource`, for the amounts that the quota limits.
    #[must_use]
    pub fn usage(&self, resource: &str, object: &Value) -> BTreeMap<String, Quantity> {
        let mut used = Amounts::new();
        if !self.scopes.iter().all(|scope| scope.covers(resource, object)) {
            return used;
        }
        for name in self.hard.keys().filter(|name| counted(name).0 == resource) {
            let amount = match resource {
                "pods" => pod(name, object),
                "services" => service(name, object),
                "persistentvolumeclaims" => claim(name, object),
                _ => Some(Quantity::count(1)),
            };
            used.insert(name.clone(), amount.unwrap_or(Quantity::ZERO));
        }
        used
    }

    /// Returns the limited compute resources that a pod fails to specify, formatted for the error.
    pub fn unspecified(&self, pod: &Value) -> Option<String> {
        if !self.scopes.iter().all(|scope| scope.covers("pods", pod)) {
            return None;
        }
        let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for name in COMPUTE.iter().filter(|name| self.hard.contains_key(**name)) {
            let (list, resource) = name.split_once('.').unwrap_or(("requests", name));
            for container in containers(pod, "containers").chain(containers(pod, "initContainers")) {
                if container["resources"][list].get(resource).is_none() {
                    missing.entry(name).or_default().insert(container["name"].as_str().unwrap_or_default());
                }
            }
        }
        let parts: Vec<String> = missing
            .iter()
            .map(|(name, containers)| {
                let containers: Vec<&str> = containers.iter().copied().collect();
                format!("{name} for: {}", containers.join(","))
            })
            .collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Adds `more` to `total`.
pub fn add(total: &mut Amounts, more: Amounts) {
    for (name, amount) in more {
        let sum = total.entry(name).or_insert(Quantity::ZERO);
        *sum = sum.plus(amount);
    }
}

/// Returns the resource that a limit applies to, and whether it limits the number of objects.
fn counted(name: &str) -> (&str, bool) {
    if let Some(resource) = name.strip_prefix("count/") {
        return (resource, true);
    }
    if let Some(plain) = PLAIN.iter().find(|plain| **plain == name) {
        // Terminated pods do not count, so usage depends on the status.
        return (plain, name != "pods");
    }
    if name.starts_with("services.") {
        ("services", false)
    } else if name == "requests.storage" || name.contains(CLASS) {
        ("persistentvolumeclaims", false)
    } else {
        ("pods", false)
    }
}

fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text),
        Value::Number(number) => Quantity::parse(&number.to_string()),
        _ => None,
    }
}

fn containers<'a>(pod: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    pod["spec"][list].as_array().into_iter().flatten()
}

fn pod(name: &str, pod: &Value) -> Option<Quantity> {
    if name == "count/pods" {
        return Some(Quantity::count(1));
    }
    if matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
        return None;
    }
    if name == "pods" {
        return Some(Quantity::count(1));
    }
    let (list, resource) = match name.split_once('.') {
        Some((list @ ("requests" | "limits"), resource)) => (list, resource),
        _ => ("requests", name),
    };
    let of = |container: &Value| quantity(&container["resources"][list][resource]).unwrap_or(Quantity::ZERO);
    let mut running = containers(pod, "containers").fold(Quantity::ZERO, |sum, c| sum.plus(of(c)));
    let (mut beside, mut most) = (Quantity::ZERO, Quantity::ZERO);
    for container in containers(pod, "initContainers") {
        if container["restartPolicy"] == "Always" {
            beside = beside.plus(of(container));
            most = most.max(beside);
        } else {
            most = most.max(beside.plus(of(container)));
        }
    }
    running = running.plus(beside).max(most);
    let overhead = quantity(&pod["spec"]["overhead"][resource]).unwrap_or(Quantity::ZERO);
    Some(running.plus(overhead))
}

fn service(name: &str, service: &Value) -> Option<Quantity> {
    let kind = service["spec"]["type"].as_str().unwrap_or_default();
    match name {
        "services.loadbalancers" => Some(Quantity::count(usize::from(kind == "LoadBalancer"))),
        "services.nodeports" => {
            let ports = service["spec"]["ports"].as_array().map_or(0, Vec::len);
            let opened = match kind {
                "NodePort" => ports,
                "LoadBalancer" if service["spec"]["allocateLoadBalancerNodePorts"] != false => ports,
                _ => 0,
            };
            Some(Quantity::count(opened))
        }
        _ => Some(Quantity::count(1)),
    }
}

fn claim(name: &str, claim: &Value) -> Option<Quantity> {
    let size = || quantity(&claim["spec"]["resources"]["requests"]["storage"]);
    let Some((class, what)) = name.split_once(CLASS) else {
        return if name == "requests.storage" { size() } else { Some(Quantity::count(1)) };
    };
    if claim["spec"]["storageClassName"].as_str() != Some(class) {
        return None;
    }
    if what == "requests.storage" { size() } else { Some(Quantity::count(1)) }
}

impl Scope {
    fn covers(&self, resource: &str, object: &Value) -> bool {
        if resource != "pods" {
            return false;
        }
        let terminating = object["spec"]["activeDeadlineSeconds"].as_i64().is_some_and(|s| s >= 0);
        match self.name.as_str() {
            "Terminating" => terminating,
            "NotTerminating" => !terminating,
            "BestEffort" => is_best_effort(object),
            "NotBestEffort" => !is_best_effort(object),
            "PriorityClass" => {
                let class = object::text(object, &["spec", "priorityClassName"]).filter(|c| !c.is_empty());
                let named = class.is_some_and(|class| self.values.iter().any(|v| v == class));
                match self.operator.as_str() {
                    "In" => named,
                    "NotIn" => !named,
                    "DoesNotExist" => class.is_none(),
                    _ => class.is_some(),
                }
            }
            "CrossNamespacePodAffinity" => crosses_namespaces(object),
            _ => false,
        }
    }
}

/// Whether no container has a request or limit for CPU or memory (QoS class BestEffort).
fn is_best_effort(pod: &Value) -> bool {
    containers(pod, "containers").chain(containers(pod, "initContainers")).all(|container| {
        ["requests", "limits"].iter().all(|list| {
            let amounts = container["resources"][*list].as_object().into_iter().flatten();
            !amounts.into_iter().any(|(name, _)| name == "cpu" || name == "memory")
        })
    })
}

fn crosses_namespaces(pod: &Value) -> bool {
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let affinity = &pod["spec"]["affinity"][*kind];
        let required = affinity["requiredDuringSchedulingIgnoredDuringExecution"].as_array();
        let preferred = affinity["preferredDuringSchedulingIgnoredDuringExecution"].as_array();
        let preferred = preferred.into_iter().flatten().map(|term| &term["podAffinityTerm"]);
        required.into_iter().flatten().chain(preferred).any(|term| {
            term["namespaces"].as_array().is_some_and(|n| !n.is_empty())
                || term["namespaceSelector"].is_object()
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(amounts: &Amounts) -> String {
        let parts: Vec<String> = amounts.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        parts.join(",")
    }

    #[test]
    fn pods_use_what_their_containers_ask_for() {
        let quota = Quota::read(&json!({"spec": {"hard": {
            "pods": "5", "cpu": "1", "requests.memory": "1Gi", "limits.cpu": "2", "services": "1", "count/pods": "9",
        }}}));
        let container =
            |cpu: &str| json!({"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "32Mi"}}});
        let mut pod = json!({"spec": {
            "containers": [container("100m"), container("200m")],
            "initContainers": [container("1")],
        }});
        assert_eq!(
            shown(&quota.usage("pods", &pod)),
            "count/pods=1,cpu=1,limits.cpu=0,pods=1,requests.memory=64Mi"
        );
        assert_eq!(quota.unspecified(&pod).unwrap(), "limits.cpu for: c");
        pod["status"]["phase"] = "Succeeded".into();
        assert_eq!(
            shown(&quota.usage("pods", &pod)),
            "count/pods=1,cpu=0,limits.cpu=0,pods=0,requests.memory=0"
        );
        assert_eq!(quota.resources(), BTreeMap::from([("pods".into(), false), ("services".into(), true)]));
    }

    #[test]
    fn scopes_choose_pods() {
        let quota = |scope: &str| Quota::read(&json!({"spec": {"hard": {"pods": "1"}, "scopes": [scope]}}));
        let pod = json!({"spec": {"activeDeadlineSeconds": 5, "containers": [{"name": "c"}]}});
        for (scope, covers) in
            [("Terminating", true), ("NotTerminating", false), ("BestEffort", true), ("NotBestEffort", false)]
        {
            assert_eq!(!quota(scope).usage("pods", &pod).is_empty(), covers, "{scope}");
        }
        for (list, name) in [("requests", "cpu"), ("limits", "memory")] {
            let container = json!({"name": "c", "resources": {list: {name: "1"}}});
            for containers in ["containers", "initContainers"] {
                let pod = json!({"spec": {containers: [container]}});
                assert!(quota("BestEffort").usage("pods", &pod).is_empty(), "{containers}: {list}");
            }
        }
        let devices = json!({"name": "c", "resources": {"limits": {"example.com/gpu": "1"}}});
        let pod = json!({"spec": {"containers": [devices]}});
        assert!(!quota("BestEffort").usage("pods", &pod).is_empty());
    }

    #[test]
    fn services_use_what_their_type_allocates() {
        let hard = json!({"services": "1", "services.loadbalancers": "1", "services.nodeports": "1"});
        let quota = Quota::read(&json!({"spec": {"hard": hard}}));
        for (kind, allocates, balancers, ports) in [
            ("ClusterIP", true, 0, 0),
            ("NodePort", true, 0, 2),
            ("LoadBalancer", true, 1, 2),
            ("LoadBalancer", false, 1, 0),
        ] {
            let service = json!({"spec": {
                "type": kind, "ports": [{"port": 1}, {"port": 2}], "allocateLoadBalancerNodePorts": allocates,
            }});
            assert_eq!(
                shown(&quota.usage("services", &service)),
                format!("services=1,services.loadbalancers={balancers},services.nodeports={ports}"),
                "{kind}, {allocates}"
            );
        }
    }
}
