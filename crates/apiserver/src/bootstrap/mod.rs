//! Bootstrap objects: those that every new cluster contains.

mod at_rest;

use std::sync::Arc;

use serde_json::{Value, json};

pub(crate) use at_rest::recreate;

use crate::{aggregation, call::Call, catalog::Verb, core::Core, pipeline};

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// The built-in priority classes, for critical pods.
const PRIORITIES: [(&str, i64, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

/// The advertised address of the API server, on the node network.
const ADDRESS: &str = "172.18.0.1";
const PORT: u16 = 6443;

/// Creates missing bootstrap objects.
pub(crate) fn populate(core: &Arc<Core>) {
    at_rest::populate(core);
    aggregation::populate(core);
    for name in NAMESPACES {
        ensure(core, "", "v1", "namespaces", "", &json!({"metadata": {"name": name}}));
    }
    for (name, value, about) in PRIORITIES {
        let class = json!({"metadata": {"name": name}, "value": value, "description": about});
        ensure(core, "scheduling.k8s.io", "v1", "priorityclasses", "", &class);
    }
    ensure(
        core,
        "",
        "v1",
        "services",
        "default",
        &json!({
            "metadata": {
                "name": "kubernetes",
                "labels": {"component": "apiserver", "provider": "kubernetes"},
            },
            "spec": {
                "clusterIP": "10.96.0.1",
                "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": PORT}],
                "sessionAffinity": "None",
                "type": "ClusterIP",
            },
        }),
    );
    let network = json!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": [steersman_api::allocator::SERVICE_NETWORK]}});
    ensure(core, "networking.k8s.io", "v1", "servicecidrs", "", &network);
    let port = json!({"name": "https", "port": PORT, "protocol": "TCP"});
    ensure(
        core,
        "",
        "v1",
        "endpoints",
        "default",
        &json!({
            "metadata": {"name": "kubernetes", "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
            "subsets": [{"addresses": [{"ip": ADDRESS}], "ports": [port]}],
        }),
    );
    ensure(
        core,
        "discovery.k8s.io",
        "v1",
        "endpointslices",
        "default",
        &json!({
            "metadata": {"name": "kubernetes", "labels": {"kubernetes.io/service-name": "kubernetes"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [ADDRESS], "conditions": {"ready": true}}],
            "ports": [port],
        }),
    );
}

/// Creates an object unless one with that name exists.
fn ensure(core: &Arc<Core>, group: &str, version: &str, plural: &str, namespace: &str, object: &Value) {
    let catalog = core.catalog();
    let Some(resource) = catalog.find(group, version, plural) else { return };
    let call = Call::internal(Arc::clone(core), Arc::clone(resource), Verb::Create, namespace, None);
    // An existing object is left unchanged.
    let _ = pipeline::create_now(&call, object.clone());
}
