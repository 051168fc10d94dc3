//! Endpoints of Services: EndpointSlices, and Endpoints for older clients.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::{
        core::v1::{
            EndpointAddress, EndpointPort as OldPort, EndpointSubset, Endpoints, ObjectReference, Pod,
            Service, ServicePort,
        },
        discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::{ResourceExt as _, api::ObjectMeta};

use super::pods;
use crate::control_loop::ControlLoop;

pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const CONTROLLER: &str = "endpointslice-controller.k8s.io";
pub(super) const SERVICE: &str = "kubernetes.io/service-name";
const HEADLESS: &str = "service.kubernetes.io/headless";
/// Maximum number of endpoints in a slice.
const PER_SLICE: usize = 100;

/// Name, protocol, number and application protocol of the ports that a pod serves.
type Ports = Vec<(Option<String>, String, i32, Option<String>)>;

pub(super) async fn reconcile(control: &mut ControlLoop, namespace: &str, name: &str) -> kube::Result<()> {
    let Some(service) = control.caches.services.get(namespace, name) else {
        return delete_endpoints(control, namespace, name).await;
    };
    let spec = service.spec.clone().unwrap_or_default();
    let selector = spec.selector.clone().unwrap_or_default();
    if selector.is_empty() || spec.type_.as_deref() == Some("ExternalName") || pods::is_deleting(&*service) {
        return Ok(());
    }
    let mut groups: BTreeMap<Ports, Vec<Arc<Pod>>> = BTreeMap::new();
    for pod in control.caches.pods.within(namespace) {
        let chosen = selector.iter().all(|(k, v)| pod.labels().get(k) == Some(v));
        if chosen && !pods::is_terminal(pod) && address(pod).is_some() {
            groups.entry(ports(&spec.ports, pod)).or_default().push(Arc::clone(pod));
        }
    }
    let public = spec.publish_not_ready_addresses == Some(true);
    write_slices(control, &service, &groups, public).await?;
    write_endpoints(control, &service, &groups, public).await
}

fn address(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.pod_ip.as_deref().filter(|ip| !ip.is_empty())
}

fn ports(wanted: &Option<Vec<ServicePort>>, pod: &Pod) -> Ports {
    let mut ports = Ports::new();
    for port in wanted.iter().flatten() {
        let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
        let number = match &port.target_port {
            None => Some(port.port),
            Some(IntOrString::Int(number)) => Some(*number),
            Some(IntOrString::String(name)) => pod
                .spec
                .iter()
                .flat_map(|s| &s.containers)
                .flat_map(|c| c.ports.iter().flatten())
                .find(|p| p.name.as_ref() == Some(name) && p.protocol.as_ref().is_none_or(|p| *p == protocol))
                .map(|p| p.container_port),
        };
        if let Some(number) = number {
            ports.push((port.name.clone(), protocol, number, port.app_protocol.clone()));
        }
    }
    ports.sort();
    ports
}

fn reference(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".to_owned()),
        name: pod.metadata.name.clone(),
        namespace: pod.namespace(),
        uid: pod.uid(),
        ..ObjectReference::default()
    }
}

fn endpoint(pod: &Pod, public: bool) -> Endpoint {
    let serving = pods::is_ready(pod);
    let terminating = pods::is_deleting(pod);
    Endpoint {
        addresses: address(pod).map(str::to_owned).into_iter().collect(),
        conditions: Some(EndpointConditions {
            ready: Some(public || (serving && !terminating)),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        hostname: pod.spec.as_ref().and_then(|s| s.hostname.clone().filter(|_| s.subdomain.is_some())),
        node_name: pod.spec.as_ref().and_then(|s| s.node_name.clone()),
        target_ref: Some(reference(pod)),
        ..Endpoint::default()
    }
}

fn slice(service: &Service, ports: &Ports, endpoints: Vec<Endpoint>) -> EndpointSlice {
    let name = service.name_any();
    let mut labels = service.labels().clone();
    labels.insert(SERVICE.to_owned(), name.clone());
    labels.insert(MANAGED_BY.to_owned(), CONTROLLER.to_owned());
    if service.spec.as_ref().and_then(|s| s.cluster_ip.as_deref()) == Some("None") {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    let ports: Vec<EndpointPort> = ports
        .iter()
        .map(|(name, protocol, number, app)| EndpointPort {
            name: Some(name.clone().unwrap_or_default()),
            protocol: Some(protocol.clone()),
            port: Some(*number),
            app_protocol: app.clone(),
        })
        .collect();
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}-")),
            namespace: service.namespace(),
            labels: Some(labels),
            owner_references: Some(vec![pods::reference(service)]),
            ..ObjectMeta::default()
        },
        address_type: "IPv4".to_owned(),
        ports: (!ports.is_empty()).then_some(ports),
        endpoints: Some(endpoints),
    }
}

async fn write_slices(
    control: &mut ControlLoop,
    service: &Service,
    groups: &BTreeMap<Ports, Vec<Arc<Pod>>>,
    public: bool,
) -> kube::Result<()> {
    let mut wanted: Vec<EndpointSlice> = Vec::new();
    for (ports, pods) in groups {
        for chunk in pods.chunks(PER_SLICE) {
            wanted.push(slice(service, ports, chunk.iter().map(|p| endpoint(p, public)).collect()));
        }
    }
    if wanted.is_empty() {
        // A service without pods has an empty slice, which shows watchers that it was reconciled.
        wanted.push(slice(service, &Ports::new(), Vec::new()));
    }
    let uid = service.uid().unwrap_or_default();
    let mut existing: Vec<Arc<EndpointSlice>> = control
        .caches
        .endpoint_slices
        .controlled_by(&uid)
        .filter(|s| !pods::is_deleting(&***s))
        .cloned()
        .collect();
    for want in wanted {
        let same_ports = existing.iter().position(|s| s.ports == want.ports);
        let Some(found) = same_ports.or(if existing.is_empty() { None } else { Some(0) }) else {
            control.create(&want).await?;
            continue;
        };
        let found = existing.remove(found);
        let mut changed = EndpointSlice::clone(&found);
        changed.endpoints = want.endpoints;
        changed.ports = want.ports;
        changed.metadata.labels = want.metadata.labels;
        let empty = |s: &EndpointSlice| s.endpoints.as_ref().is_none_or(Vec::is_empty);
        let same = changed.ports == found.ports
            && changed.metadata.labels == found.metadata.labels
            && (changed.endpoints == found.endpoints || (empty(&changed) && empty(&found)));
        if !same {
            control.update(&changed).await?;
        }
    }
    for surplus in existing {
        control.delete(&*surplus, None).await?;
    }
    Ok(())
}

async fn write_endpoints(
    control: &mut ControlLoop,
    service: &Service,
    groups: &BTreeMap<Ports, Vec<Arc<Pod>>>,
    public: bool,
) -> kube::Result<()> {
    let mut subsets = Vec::new();
    for (ports, pods) in groups {
        let (mut ready, mut unready) = (Vec::new(), Vec::new());
        for pod in pods.iter().filter(|p| !pods::is_deleting(&***p)) {
            let address = EndpointAddress {
                ip: address(pod).unwrap_or_default().to_owned(),
                node_name: pod.spec.as_ref().and_then(|s| s.node_name.clone()),
                target_ref: Some(reference(pod)),
                hostname: None,
            };
            if public || pods::is_ready(pod) { ready.push(address) } else { unready.push(address) }
        }
        if ready.is_empty() && unready.is_empty() {
            continue;
        }
        let some = |list: Vec<EndpointAddress>| (!list.is_empty()).then_some(list);
        let ports: Vec<OldPort> = ports
            .iter()
            .map(|(name, protocol, number, app)| OldPort {
                name: name.clone(),
                protocol: Some(protocol.clone()),
                port: *number,
                app_protocol: app.clone(),
            })
            .collect();
        subsets.push(EndpointSubset {
            addresses: some(ready),
            not_ready_addresses: some(unready),
            ports: (!ports.is_empty()).then_some(ports),
        });
    }
    let namespace = service.namespace().unwrap_or_default();
    let name = service.name_any();
    let mut labels = service.labels().clone();
    labels.insert("endpoints.kubernetes.io/managed-by".to_owned(), "endpoint-controller".to_owned());
    let subsets = (!subsets.is_empty()).then_some(subsets);
    match control.caches.endpoints.get(&namespace, &name) {
        Some(found) if found.subsets == subsets && *found.labels() == labels => Ok(()),
        Some(found) => {
            let mut changed = Endpoints::clone(&found);
            changed.subsets = subsets;
            changed.metadata.labels = Some(labels);
            control.update(&changed).await.map(drop)
        }
        None => {
            let metadata = ObjectMeta {
                name: Some(name),
                namespace: Some(namespace),
                labels: Some(labels),
                ..ObjectMeta::default()
            };
            control.create(&Endpoints { metadata, subsets }).await.map(drop)
        }
    }
}

/// Deletes the Endpoints of a deleted service, which have no owner reference to be collected by.
async fn delete_endpoints(control: &mut ControlLoop, namespace: &str, name: &str) -> kube::Result<()> {
    match control.caches.endpoints.get(namespace, name) {
        Some(left) => control.delete(&*left, None).await,
        None => Ok(()),
    }
}
