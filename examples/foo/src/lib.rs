//! Foo: the sample controller's resource, which keeps a Deployment of a chosen name.
#![allow(clippy::disallowed_names, reason = "the kind is named so")]

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use kube::{CustomResource, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use steersman::{Action, Context, Controller, Error, Operator, Result};

/// The desired Deployment.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "samplecontroller.k8s.io",
    version = "v1alpha1",
    kind = "Foo",
    namespaced,
    status = "FooStatus",
    // Groups under k8s.io belong to Kubernetes: their definitions have to be marked as unapproved.
    annotation("api-approved.kubernetes.io", "unapproved, experimental-only")
)]
#[serde(rename_all = "camelCase")]
pub struct FooSpec {
    /// The Deployment's name.
    pub deployment_name: String,
    /// The number of replicas. Default: 1.
    #[schemars(range(min = 1, max = 10))]
    pub replicas: Option<i32>,
}

/// The observed Deployment.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct FooStatus {
    /// How many replicas are available.
    pub available_replicas: i32,
}

/// The operator.
pub fn operator() -> Operator {
    Operator::new("sample-controller")
        .version(env!("CARGO_PKG_VERSION"))
        .controller(Controller::of::<Foo>(reconcile).owns::<Deployment>())
}

async fn reconcile(foo: Arc<Foo>, ctx: Context) -> Result<Action> {
    let name = &foo.spec.deployment_name;
    if name.is_empty() {
        return Err(Error::terminal("deploymentName must be specified"));
    }
    let existing = ctx.get::<Deployment>(name).await?;
    let foreign = existing.is_some_and(|found| {
        !found.owner_references().iter().any(|owner| Some(&owner.uid) == foo.uid().as_ref())
    });
    if foreign {
        let message = format!("Resource \"{name}\" already exists and is not managed by Foo");
        ctx.warn("ErrResourceExists", &message);
        return Err(Error::other(message));
    }
    let deployment = ctx.apply(deployment(&foo)?).await?;
    let available = deployment.status.and_then(|status| status.available_replicas).unwrap_or_default();
    ctx.update_status(&FooStatus { available_replicas: available }).await?;
    ctx.event("Synced", "Foo synced successfully");
    Ok(Action::await_change())
}

fn deployment(foo: &Foo) -> Result<Deployment> {
    let labels = json!({"app": "nginx", "controller": foo.name_any()});
    serde_json::from_value(json!({
        "metadata": {"name": foo.spec.deployment_name},
        "spec": {
            "replicas": foo.spec.replicas.unwrap_or(1),
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "nginx", "image": "nginx:latest"}]},
            },
        },
    }))
    .map_err(Error::other)
}
