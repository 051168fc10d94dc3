//! Capacity of nodes: resource requests, host ports and pod slots.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::{
    api::core::v1::{Container, Node, Pod, PodSpec},
    apimachinery::pkg::api::resource,
};
use kube::ResourceExt as _;
use steersman_formats::quantity::Quantity;

use super::phase::{is_active, is_deleting, is_terminal};
use crate::control_loop::{Cache, Controller, WorkItem};

pub(super) const TOO_MANY_PODS: &str = "Too many pods";

type Amounts = BTreeMap<String, Quantity>;

/// Resource usage of nodes, updated with every change of a pod.
///
/// Summing up all pods of a node for each pod to be scheduled would be quadratic.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeCapacity {
    nodes: HashMap<String, NodeUsage>,
    /// Unschedulable pods, by namespace and name.
    unschedulable: BTreeSet<(String, String)>,
    /// Pods that others were preempted for, with their nominated node.
    nominated: BTreeMap<(String, String), String>,
    /// Number of unscheduled pods per namespace.
    unscheduled: HashMap<String, usize>,
    /// Objects per namespace that create no more pods until some are bound.
    held_back: BTreeMap<String, BTreeSet<WorkItem>>,
}

/// Pods and requests of a node.
#[derive(Debug, Clone, Default)]
struct NodeUsage {
    requested: Requested,
    /// Its pods by namespace and name, with their priorities.
    pods: BTreeMap<(String, String), i32>,
}

/// Sum of pods' requests.
#[derive(Debug, Clone, Default)]
pub(super) struct Requested {
    pub(super) pods: usize,
    amounts: Amounts,
    ports: Vec<HostPort>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct HostPort {
    number: i32,
    protocol: String,
    address: String,
}

impl HostPort {
    /// Whether two host ports conflict on one node. An unspecified address means all addresses.
    fn conflicts_with(&self, other: &Self) -> bool {
        const ALL: &str = "0.0.0.0";
        self.number == other.number
            && self.protocol == other.protocol
            && (self.address == other.address || self.address == ALL || other.address == ALL)
    }
}

impl Requested {
    /// Returns the requests of one pod.
    pub(super) fn of(pod: &Pod) -> Self {
        let Some(spec) = &pod.spec else { return Self::default() };
        Self { pods: 1, amounts: requests(spec), ports: host_ports(spec) }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.pods += other.pods;
        for (name, amount) in &other.amounts {
            let sum = self.amounts.entry(name.clone()).or_insert(Quantity::ZERO);
            *sum = sum.plus(*amount);
        }
        self.ports.extend(other.ports.iter().cloned());
    }

    pub(super) fn subtract(&mut self, other: &Self) {
        self.pods = self.pods.saturating_sub(other.pods);
        for (name, amount) in &other.amounts {
            if let Some(sum) = self.amounts.get_mut(name) {
                *sum = sum.minus(*amount);
            }
        }
        for port in &other.ports {
            if let Some(at) = self.ports.iter().position(|p| p == port) {
                self.ports.swap_remove(at);
            }
        }
    }

    /// Returns which resources a node lacks for another pod besides these requests; empty if it fits.
    pub(super) fn insufficient(&self, node: &Node, pod: &Self) -> Vec<String> {
        let allocatable = node.status.as_ref().and_then(|s| s.allocatable.as_ref());
        let offered = |name: &str| {
            let found = allocatable.and_then(|a| a.get(name)).and_then(|q| Quantity::parse(&q.0));
            found.unwrap_or(Quantity::ZERO)
        };
        let mut lacking = Vec::new();
        // A node without allocatable resources, or without `pods` among them, was created by hand: it is not full.
        let counted = allocatable.is_some_and(|a| a.contains_key("pods"));
        if counted && Quantity::count(self.pods + pod.pods) > offered("pods") {
            lacking.push(TOO_MANY_PODS.to_owned());
        }
        let asked = pod.amounts.iter().filter(|(_, amount)| **amount > Quantity::ZERO);
        for (name, amount) in asked.filter(|_| allocatable.is_some()) {
            let taken = self.amounts.get(name).copied().unwrap_or(Quantity::ZERO);
            if taken.plus(*amount) > offered(name) {
                lacking.push(format!("Insufficient {name}"));
            }
        }
        if pod.ports.iter().any(|port| self.ports.iter().any(|taken| taken.conflicts_with(port))) {
            lacking.push("node(s) didn't have free ports for the requested pod ports".to_owned());
        }
        lacking
    }
}

impl NodeCapacity {
    /// Returns the requests of a node's pods, and of pods nominated for it with at least the priority of `pod`.
    pub(super) fn requested_before(&self, pods: &Cache<Pod>, node: &str, pod: &Pod) -> Requested {
        let mut load = self.requested(node);
        let coming = self.nominated.iter().filter(|(_, n)| n.as_str() == node);
        for other in coming.filter_map(|(name, _)| pods.get(&name.0, &name.1)) {
            if other.uid() != pod.uid() && priority(&other) >= priority(pod) {
                load.add(&Requested::of(&other));
            }
        }
        load
    }

    /// Returns the requests of the pods on a node.
    pub(super) fn requested(&self, node: &str) -> Requested {
        self.nodes.get(node).map(|usage| usage.requested.clone()).unwrap_or_default()
    }

    /// Returns the number of pods on a node.
    pub(super) fn count(&self, node: &str) -> usize {
        self.nodes.get(node).map_or(0, |usage| usage.requested.pods)
    }

    /// Returns the names of the pods on a node with a priority below `priority`, in order.
    pub(super) fn lower_priority(
        &self,
        node: &str,
        priority: i32,
    ) -> impl Iterator<Item = &(String, String)> {
        let pods = self.nodes.get(node).into_iter().flat_map(|usage| &usage.pods);
        pods.filter(move |(_, of)| **of < priority).map(|(name, _)| name)
    }

    /// Returns the number of unscheduled pods in a namespace.
    pub(crate) fn unscheduled(&self, namespace: &str) -> usize {
        self.unscheduled.get(namespace).copied().unwrap_or_default()
    }

    /// Records an object that creates no more pods until some are bound.
    pub(crate) fn hold_back(&mut self, item: WorkItem) {
        self.held_back.entry(item.namespace.clone()).or_default().insert(item);
    }

    /// Updates the number of unscheduled pods, and returns the objects that waited for it to fall.
    fn count_unscheduled(&mut self, namespace: &str, was: bool, is: bool) -> BTreeSet<WorkItem> {
        match (was, is) {
            (false, true) => *self.unscheduled.entry(namespace.to_owned()).or_default() += 1,
            (true, false) => {
                if let Some(count) = self.unscheduled.get_mut(namespace) {
                    *count -= 1;
                    if *count == 0 {
                        self.unscheduled.remove(namespace);
                    }
                }
                return self.held_back.remove(namespace).unwrap_or_default();
            }
            _ => {}
        }
        BTreeSet::new()
    }

    /// Records an unschedulable pod.
    pub(super) fn add_unschedulable(&mut self, namespace: &str, name: &str) {
        self.unschedulable.insert((namespace.to_owned(), name.to_owned()));
    }

    /// Updates the usage after a change of a pod.
    ///
    /// Returns the items to reconcile again, such as unschedulable pods when resources became free.
    pub(crate) fn pod_changed(&mut self, old: Option<&Pod>, new: Option<&Pod>) -> Vec<WorkItem> {
        let Some(pod) = new.or(old) else { return Vec::new() };
        let key = (pod.namespace().unwrap_or_default(), pod.name_any());
        let nominee =
            new.filter(|p| p.spec.as_ref().is_some_and(|s| s.node_name.is_none()) && !is_deleting(*p));
        match nominee.and_then(|p| p.status.as_ref()?.nominated_node_name.clone()) {
            Some(node) => {
                self.nominated.insert(key.clone(), node);
            }
            None => {
                self.nominated.remove(&key);
            }
        }
        if nominee.is_none() {
            self.unschedulable.remove(&key);
        }
        let resumed =
            self.count_unscheduled(&key.0, old.is_some_and(is_unscheduled), new.is_some_and(is_unscheduled));
        let (before, after) = (old.and_then(node_of), new.and_then(node_of));
        let generation = |pod: Option<&Pod>| pod.and_then(|p| p.metadata.generation);
        let same = before == after
            && generation(old) == generation(new)
            && old.map(kube::ResourceExt::uid) == new.map(kube::ResourceExt::uid);
        let mut items: Vec<WorkItem> = resumed.into_iter().collect();
        if same {
            return items;
        }
        if let (Some(node), Some(old)) = (before, old)
            && let Some(usage) = self.nodes.get_mut(node)
        {
            usage.requested.subtract(&Requested::of(old));
            usage.pods.remove(&key);
            if usage.pods.is_empty() {
                self.nodes.remove(node);
            }
        }
        if let (Some(node), Some(new)) = (after, new) {
            let usage = self.nodes.entry(node.to_owned()).or_default();
            usage.requested.add(&Requested::of(new));
            usage.pods.insert(key, priority(new));
        }
        if before.is_some() {
            let pods = self.unschedulable.iter();
            items.extend(pods.map(|(namespace, name)| WorkItem::new(Controller::Pod, namespace, name)));
        }
        items
    }
}

/// Returns the node whose resources a pod uses.
fn node_of(pod: &Pod) -> Option<&str> {
    let node = pod.spec.as_ref()?.node_name.as_deref()?;
    (!is_terminal(pod)).then_some(node)
}

/// Whether a pod is active and not bound to a node.
fn is_unscheduled(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|s| s.node_name.is_none()) && is_active(pod)
}

/// Returns the priority that admission assigned to a pod.
pub(super) fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|s| s.priority).unwrap_or_default()
}

fn requested(container: &Container) -> Amounts {
    amounts(container.resources.as_ref().and_then(|r| r.requests.as_ref()))
}

fn amounts(list: Option<&BTreeMap<String, resource::Quantity>>) -> Amounts {
    let known = list.into_iter().flatten();
    known.filter_map(|(name, q)| Some((name.clone(), Quantity::parse(&q.0)?))).collect()
}

fn plus(mut one: Amounts, other: &Amounts) -> Amounts {
    for (name, amount) in other {
        let sum = one.entry(name.clone()).or_insert(Quantity::ZERO);
        *sum = sum.plus(*amount);
    }
    one
}

/// Returns a pod's requests: of its containers together or of its largest init step, plus its overhead.
fn requests(spec: &PodSpec) -> Amounts {
    let running = spec.containers.iter().fold(Amounts::new(), |sum, c| plus(sum, &requested(c)));
    let (mut beside, mut most) = (Amounts::new(), Amounts::new());
    for container in spec.init_containers.iter().flatten() {
        let step = if container.restart_policy.as_deref() == Some("Always") {
            beside = plus(beside, &requested(container));
            beside.clone()
        } else {
            plus(requested(container), &beside)
        };
        raise(&mut most, step);
    }
    raise(&mut most, plus(running, &beside));
    for (name, amount) in amounts(spec.resources.as_ref().and_then(|r| r.requests.as_ref())) {
        most.insert(name, amount);
    }
    plus(most, &amounts(spec.overhead.as_ref()))
}

fn raise(most: &mut Amounts, step: Amounts) {
    for (name, amount) in step {
        let highest = most.entry(name).or_insert(Quantity::ZERO);
        *highest = (*highest).max(amount);
    }
}

fn host_ports(spec: &PodSpec) -> Vec<HostPort> {
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|c| c.restart_policy.as_deref() == Some("Always"));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|c| c.ports.iter().flatten());
    ports
        .filter_map(|port| {
            Some(HostPort {
                number: port.host_port.filter(|p| *p > 0)?,
                protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
                address: port
                    .host_ip
                    .clone()
                    .filter(|a| !a.is_empty())
                    .unwrap_or_else(|| "0.0.0.0".to_owned()),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(value: serde_json::Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    fn node(amounts: serde_json::Value) -> Node {
        serde_json::from_value(serde_json::json!({"status": {"allocatable": amounts}})).unwrap()
    }

    #[test]
    fn a_pod_asks_for_its_containers_or_for_its_hungriest_start() {
        let asks = |cpu: &str| serde_json::json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
        let mut sidecar = asks("1");
        sidecar["restartPolicy"] = "Always".into();
        let pod = pod(serde_json::json!({"spec": {
            "containers": [asks("1"), asks("500m")],
            "initContainers": [sidecar, asks("3")],
            "overhead": {"cpu": "250m"},
        }}));
        assert_eq!(Requested::of(&pod).amounts["cpu"].to_string(), "4250m");
    }

    #[test]
    fn a_node_lacks_what_is_taken_already() {
        let asks = pod(serde_json::json!({"spec": {"containers": [
            {"name": "c", "resources": {"requests": {"cpu": "2", "example.com/thing": "1"}}},
        ]}}));
        let asks = Requested::of(&asks);
        let mut taken = Requested::default();
        let node = node(serde_json::json!({"cpu": "3", "pods": "1"}));
        assert_eq!(taken.insufficient(&node, &asks), ["Insufficient example.com/thing"]);
        taken.add(&asks);
        assert_eq!(
            taken.insufficient(&node, &asks),
            ["Too many pods", "Insufficient cpu", "Insufficient example.com/thing"]
        );
        taken.subtract(&asks);
        assert_eq!(taken.insufficient(&node, &asks), ["Insufficient example.com/thing"]);
    }

    #[test]
    fn a_node_that_says_nothing_of_its_room_has_it() {
        let asks = serde_json::json!({"name": "c", "resources": {"requests": {"cpu": "2"}}});
        let asks = Requested::of(&pod(serde_json::json!({"spec": {"containers": [asks]}})));
        assert!(asks.insufficient(&Node::default(), &asks).is_empty());
        assert_eq!(asks.insufficient(&node(serde_json::json!({})), &asks), ["Insufficient cpu"]);
    }

    #[test]
    fn a_host_port_is_had_once_per_address_and_protocol() {
        let on = |address: &str, protocol: &str| {
            let port = serde_json::json!({
                "containerPort": 80, "hostPort": 8080, "hostIP": address, "protocol": protocol,
            });
            Requested::of(&pod(serde_json::json!({"spec": {"containers": [{"name": "c", "ports": [port]}]}})))
        };
        let node = node(serde_json::json!({}));
        let taken = on("127.0.0.1", "TCP");
        assert!(taken.insufficient(&node, &on("127.0.0.2", "TCP")).is_empty());
        assert!(taken.insufficient(&node, &on("127.0.0.1", "UDP")).is_empty());
        assert_eq!(taken.insufficient(&node, &on("", "TCP")).len(), 1);
    }
}
