//! The objects that every cluster has before anybody writes anything.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{call::Call, pipeline, server::Core};

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Makes what is missing.
pub(crate) fn populate(core: &Arc<Core>) {
    crate::auth::rbac::populate(core);
    for name in NAMESPACES {
        ensure(core, "", "v1", "namespaces", "", &json!({"metadata": {"name": name}}));
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
                "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}],
                "sessionAffinity": "None",
                "type": "ClusterIP",
            },
        }),
    );
}

/// Creates an object unless one of that name is there.
fn ensure(core: &Arc<Core>, group: &str, version: &str, plural: &str, namespace: &str, object: &Value) {
    let catalog = core.catalog();
    let Some(resource) = catalog.find(group, version, plural) else { return };
    let mut call = Call::internal(Arc::clone(core), Arc::clone(resource), namespace);
    // An object that is there already is left as it is.
    let _ = pipeline::create_now(&mut call, object.clone());
}
