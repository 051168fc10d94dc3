//! The Service, ClusterRole and APIService of the cluster's metrics API, as in metrics-server's manifests.

use k8s_openapi::{
    api::{core::v1::Service, rbac::v1::ClusterRole},
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{
    Api, Client,
    api::PostParams,
    core::{ApiResource, DynamicObject},
};
use serde_json::{Value, json};

use super::{GROUP, NAME, NAMESPACE, VERSION};
use crate::{control_loop::is_already_exists, error::Error};

/// Creates the objects that do not exist yet. Those of an earlier start or of a chart are left unchanged.
///
/// # Errors
/// Fails if an object can't be created.
pub(crate) async fn install(client: &Client) -> Result<(), Error> {
    let labels = json!({"k8s-app": NAME});
    let service = json!({
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": "https"}],
            "selector": labels,
        },
    });
    let role = json!({
        "metadata": {
            "name": "system:aggregated-metrics-reader",
            "labels": {
                "k8s-app": NAME,
                "rbac.authorization.k8s.io/aggregate-to-admin": "true",
                "rbac.authorization.k8s.io/aggregate-to-edit": "true",
                "rbac.authorization.k8s.io/aggregate-to-view": "true",
            },
        },
        "rules": [{"apiGroups": [GROUP], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]}],
    });
    let api_service = json!({
        "metadata": {"name": format!("{VERSION}.{GROUP}"), "labels": labels},
        "spec": {
            "group": GROUP,
            "groupPriorityMinimum": 100,
            "insecureSkipTLSVerify": true,
            "service": {"name": NAME, "namespace": NAMESPACE},
            "version": VERSION,
            "versionPriority": 100,
        },
    });
    let services = ApiResource::erase::<Service>(&());
    create(&Api::namespaced_with(client.clone(), NAMESPACE, &services), service).await?;
    create(&Api::all_with(client.clone(), &ApiResource::erase::<ClusterRole>(&())), role).await?;
    create(&Api::all_with(client.clone(), &ApiResource::erase::<APIService>(&())), api_service).await
}

async fn create(api: &Api<DynamicObject>, object: Value) -> Result<(), Error> {
    let failed = |error: &dyn std::error::Error| Error::Metrics(error.to_string());
    let object = serde_json::from_value(object).map_err(|error| failed(&error))?;
    match api.create(&PostParams::default(), &object).await {
        Err(error) if !is_already_exists(&error) => Err(failed(&error)),
        _ => Ok(()),
    }
}
