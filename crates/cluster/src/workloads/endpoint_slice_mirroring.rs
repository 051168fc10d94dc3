//! EndpointSlice mirroring: slices for Endpoints that were not written by the endpoints controller.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::{
    core::v1::{EndpointAddress, EndpointSubset, Endpoints},
    discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
};
use kube::{Resource as _, ResourceExt as _, api::ObjectMeta};

use super::{
    endpoints::{MANAGED_BY, SERVICE},
    pods,
};
use crate::control_loop::ControlLoop;

const CONTROLLER: &str = "endpointslicemirroring-controller.k8s.io";
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Annotation of Endpoints that serve as a leader election lock.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Maximum number of addresses of a subset to mirror.
const PER_SUBSET: usize = 1000;

pub(super) async fn reconcile(control: &mut ControlLoop, namespace: &str, name: &str) -> kube::Result<()> {
    let endpoints = control.caches.endpoints.get(namespace, name).filter(|e| !pods::is_deleting(&**e));
    let service = control.caches.services.get(namespace, name).filter(|s| !pods::is_deleting(&**s));
    let by_hand = service
        .is_some_and(|s| s.spec.as_ref().is_none_or(|s| s.selector.as_ref().is_none_or(BTreeMap::is_empty)));
    let wanted = match &endpoints {
        Some(endpoints) if by_hand && !is_left_out(endpoints) => slices(endpoints),
        _ => Vec::new(),
    };
    let is_mirror = |s: &&Arc<EndpointSlice>| {
        let label = |key: &str| s.labels().get(key).map(String::as_str);
        label(MANAGED_BY) == Some(CONTROLLER) && label(SERVICE) == Some(name) && !pods::is_deleting(&***s)
    };
    let slices_known = &control.caches.endpoint_slices;
    let mut existing: Vec<Arc<EndpointSlice>> = match &endpoints {
        Some(endpoints) => {
            let own = slices_known.controlled_by(endpoints.meta().uid.as_deref().unwrap_or_default());
            own.filter(is_mirror).cloned().collect()
        }
        // The uid of the deleted Endpoints is no longer known.
        None => slices_known.within(namespace).filter(is_mirror).cloned().collect(),
    };
    for want in wanted {
        let same = existing.iter().position(|s| s.ports == want.ports && s.address_type == want.address_type);
        let Some(found) = same else {
            control.create(&want).await?;
            continue;
        };
        let found = existing.remove(found);
        if found.endpoints != want.endpoints || found.labels() != want.labels() {
            let mut changed = EndpointSlice::clone(&found);
            changed.endpoints = want.endpoints;
            changed.metadata.labels = want.metadata.labels;
            control.update(&changed).await?;
        }
    }
    for surplus in existing {
        control.delete(&*surplus, None).await?;
    }
    Ok(())
}

/// Whether Endpoints opt out of mirroring.
fn is_left_out(endpoints: &Endpoints) -> bool {
    endpoints.labels().get(SKIP).is_some_and(|v| v == "true") || endpoints.annotations().contains_key(LEADER)
}

fn slices(endpoints: &Endpoints) -> Vec<EndpointSlice> {
    let subsets = endpoints.subsets.iter().flatten();
    subsets
        .flat_map(|subset| ["IPv4", "IPv6"].into_iter().filter_map(|kind| slice(endpoints, subset, kind)))
        .collect()
}

/// Returns the slice for a subset's addresses of one address type, or `None` if it has none.
fn slice(endpoints: &Endpoints, subset: &EndpointSubset, kind: &str) -> Option<EndpointSlice> {
    let of = |list: &Option<Vec<EndpointAddress>>, ready: bool| -> Vec<Endpoint> {
        let addresses = list.iter().flatten().filter(|a| a.ip.contains(':') == (kind == "IPv6"));
        addresses.map(|address| endpoint(address, ready)).collect()
    };
    let mut list = of(&subset.addresses, true);
    list.extend(of(&subset.not_ready_addresses, false));
    list.truncate(PER_SUBSET);
    if list.is_empty() {
        return None;
    }
    let name = endpoints.name_any();
    let mut labels = endpoints.labels().clone();
    labels.insert(SERVICE.to_owned(), name.clone());
    labels.insert(MANAGED_BY.to_owned(), CONTROLLER.to_owned());
    let ports: Vec<EndpointPort> = subset
        .ports
        .iter()
        .flatten()
        .map(|port| EndpointPort {
            name: Some(port.name.clone().unwrap_or_default()),
            protocol: port.protocol.clone(),
            port: Some(port.port),
            app_protocol: port.app_protocol.clone(),
        })
        .collect();
    Some(EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}-")),
            namespace: endpoints.namespace(),
            labels: Some(labels),
            owner_references: Some(vec![pods::reference(endpoints)]),
            ..ObjectMeta::default()
        },
        address_type: kind.to_owned(),
        endpoints: Some(list),
        ports: (!ports.is_empty()).then_some(ports),
    })
}

fn endpoint(address: &EndpointAddress, ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![address.ip.clone()],
        conditions: Some(EndpointConditions { ready: Some(ready), ..EndpointConditions::default() }),
        hostname: address.hostname.clone(),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Endpoint::default()
    }
}
