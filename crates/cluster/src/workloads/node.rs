//! Nodes: creates them, renews their leases and simulates their loss.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{
    api::{
        coordination::v1::{Lease, LeaseSpec},
        core::v1::{Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Taint},
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{MicroTime, OwnerReference, Time},
    },
};
use kube::{
    Api, ResourceExt as _,
    api::{ObjectMeta, Patch, PatchParams},
};
use serde_json::json;

use crate::annotations::LOST;
use crate::control_loop::{ControlLoop, Controller, is_already_exists, is_not_found};

const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const LEASES: &str = "kube-node-lease";
const RENEWAL: Duration = Duration::from_secs(10);

/// Returns the name of the node with an index.
pub(super) fn name(index: usize) -> String {
    format!("node-{index}")
}

fn index(control: &ControlLoop, name: &str) -> Option<usize> {
    let index = name.strip_prefix("node-")?.parse().ok()?;
    (index < control.options.nodes && self::name(index) == name).then_some(index)
}

/// Returns the address of a node.
pub(super) fn address(control: &ControlLoop, name: &str) -> String {
    match index(control, name).and_then(|i| u8::try_from(i + 2).ok()) {
        Some(last) => format!("172.18.0.{last}"),
        None => "172.18.255.254".to_owned(),
    }
}

/// Whether the node is annotated as lost.
pub(super) fn is_lost(node: &Node) -> bool {
    node.annotations().get(LOST).is_some_and(|v| v == "true")
}

pub(super) async fn reconcile(control: &mut ControlLoop, name: &str) -> kube::Result<()> {
    if index(control, name).is_none() {
        return Ok(());
    }
    let Some(node) = control.caches.nodes.get("", name) else {
        let made = match control.create(&new_node(control, name)).await {
            Err(error) if is_already_exists(&error) => return Ok(()),
            other => other?,
        };
        let mut made = made;
        made.status = Some(status(control, name));
        control.update_status(&made).await?;
        return Ok(());
    };
    let (wanted, reason, message) = if is_lost(&node) {
        ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
    } else {
        ("True", "KubeletReady", "kubelet is posting ready status")
    };
    let mut changed = Node::clone(&node);
    let now = control.time();
    let conditions = changed.status.get_or_insert_default().conditions.get_or_insert_default();
    let ready = conditions.iter_mut().find(|c| c.type_ == "Ready");
    if let Some(ready) = ready.filter(|r| r.status != wanted) {
        ready.status = wanted.into();
        ready.reason = Some(reason.into());
        ready.message = Some(message.into());
        ready.last_transition_time = Some(now.clone());
        changed = control.update_status(&changed).await?;
    }
    taint(control, changed, is_lost(&node), &now).await
}

/// Taints a lost node, and removes the taints of a ready one: admission taints new nodes as not ready.
async fn taint(control: &mut ControlLoop, mut node: Node, lost: bool, now: &Time) -> kube::Result<()> {
    let taints = node.spec.get_or_insert_with(NodeSpec::default).taints.get_or_insert_default();
    let before = taints.len();
    taints.retain(|t| lost || (t.key != UNREACHABLE && t.key != NOT_READY));
    if lost && !taints.iter().any(|t| t.key == UNREACHABLE) {
        for effect in ["NoSchedule", "NoExecute"] {
            taints.push(Taint {
                key: UNREACHABLE.into(),
                effect: effect.into(),
                time_added: Some(now.clone()),
                value: None,
            });
        }
    }
    let changed = taints.len() != before;
    if taints.is_empty()
        && let Some(spec) = &mut node.spec
    {
        spec.taints = None;
    }
    if !changed {
        return Ok(());
    }
    control.update(&node).await.map(drop)
}

/// Renews the lease of a node.
pub(super) async fn renew(control: &mut ControlLoop, name: &str) -> kube::Result<()> {
    if control.options.heartbeats {
        control.push_after(Controller::Lease, "", name, RENEWAL);
    }
    let Some(node) = control.caches.nodes.get("", name) else { return Ok(()) };
    if is_lost(&node) {
        return Ok(());
    }
    let api: Api<Lease> = Api::namespaced(control.client.clone(), LEASES);
    let patch = Patch::Merge(json!({"spec": {"renewTime": MicroTime(control.now())}}));
    match api.patch(name, &kubelet_patch(), &patch).await {
        Err(error) if is_not_found(&error) => hold_lease(control, &node).await,
        other => other.map(drop),
    }
}

fn kubelet_patch() -> PatchParams {
    PatchParams { field_manager: Some("kubelet".to_owned()), ..PatchParams::default() }
}

async fn hold_lease(control: &mut ControlLoop, node: &Node) -> kube::Result<()> {
    let name = node.name_any();
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(LEASES.to_owned()),
            owner_references: Some(vec![OwnerReference {
                api_version: "v1".into(),
                kind: "Node".into(),
                name: name.clone(),
                uid: node.uid().unwrap_or_default(),
                controller: None,
                block_owner_deletion: None,
            }]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(name),
            lease_duration_seconds: Some(40),
            renew_time: Some(MicroTime(control.now())),
            ..LeaseSpec::default()
        }),
    };
    let api: Api<Lease> = Api::namespaced(control.client.clone(), LEASES);
    let params = control.params();
    match api.create(&params, &lease).await {
        Err(error) if is_already_exists(&error) => Ok(()),
        other => other.map(drop),
    }
}

fn new_node(control: &ControlLoop, name: &str) -> Node {
    let labels = [
        ("beta.kubernetes.io/arch", "amd64"),
        ("beta.kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", "linux"),
    ];
    let third = index(control, name).unwrap_or_default();
    Node {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            pod_cidr: Some(format!("10.244.{third}.0/24")),
            pod_cidrs: Some(vec![format!("10.244.{third}.0/24")]),
            provider_id: Some(format!("steersman://{name}")),
            ..NodeSpec::default()
        }),
        status: None,
    }
}

fn status(control: &ControlLoop, name: &str) -> NodeStatus {
    let now = control.time();
    let condition = |type_: &str, status: &str, reason: &str, message: &str| NodeCondition {
        type_: type_.into(),
        status: status.into(),
        reason: Some(reason.into()),
        message: Some(message.into()),
        last_heartbeat_time: Some(now.clone()),
        last_transition_time: Some(now.clone()),
    };
    let amounts: BTreeMap<String, Quantity> =
        // Nothing runs here, so CPU and memory are practically unlimited. Pods are not: each is an object in this process,
        // and an owner that requests billions of them gets no more than the nodes take.
        [("cpu", "10k"), ("memory", "100Ti"), ("pods", "10k"), ("ephemeral-storage", "1Pi")]
            .into_iter()
            .map(|(k, v)| (k.to_owned(), Quantity(v.to_owned())))
            .collect();
    let address = |type_: &str, address: String| NodeAddress { type_: type_.into(), address };
    NodeStatus {
        addresses: Some(vec![
            address("InternalIP", self::address(control, name)),
            address("Hostname", name.to_owned()),
        ]),
        allocatable: Some(amounts.clone()),
        capacity: Some(amounts),
        conditions: Some(vec![
            condition(
                "MemoryPressure",
                "False",
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available",
            ),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition(
                "PIDPressure",
                "False",
                "KubeletHasSufficientPID",
                "kubelet has sufficient PID available",
            ),
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ]),
        node_info: Some(NodeSystemInfo {
            architecture: "amd64".into(),
            operating_system: "linux".into(),
            os_image: "simulated".into(),
            kernel_version: "simulated".into(),
            container_runtime_version: "simulated://1.0.0".into(),
            kubelet_version: steersman_apiserver::KUBERNETES_VERSION.into(),
            kube_proxy_version: String::new(),
            ..NodeSystemInfo::default()
        }),
        ..NodeStatus::default()
    }
}
