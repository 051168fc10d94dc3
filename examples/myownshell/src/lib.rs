//! MyOwnShell: a resource that runs a Deployment of busybox shells.

use std::sync::Arc;

use k8s_openapi::{api::apps::v1::Deployment, apimachinery::pkg::apis::meta::v1::Condition};
use kube::{CustomResource, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use steersman::{Action, Conditions as _, Context, Controller, Operator, Result};

/// The finalizer of the resource and of its Deployment: both are only removed after a cleanup.
pub const FINALIZER: &str = "myownshell.my-first-operator.jgato.io/finalizer";

/// The desired shells.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "my-first-operator.jgato.io",
    version = "v1alpha1",
    kind = "MyOwnShell",
    namespaced,
    status = "MyOwnShellStatus",
    printcolumn = r#"{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}"#,
    printcolumn = r#"{"name": "Ready", "type": "integer", "jsonPath": ".status.readyReplicas"}"#
)]
pub struct MyOwnShellSpec {
    /// The number of shells.
    #[schemars(range(min = 0, max = 100))]
    pub size: i32,
}

/// The observed shells.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct MyOwnShellStatus {
    /// How many shells are ready.
    pub ready_replicas: i32,
    /// `Available`: all shells are ready.
    pub conditions: Vec<Condition>,
}

/// The operator.
pub fn operator() -> Operator {
    Operator::new("my-first-operator").version(env!("CARGO_PKG_VERSION")).controller(
        Controller::of::<MyOwnShell>(reconcile)
            .owns::<Deployment>()
            .finalizer(FINALIZER, cleanup)
            .finalizer_on::<Deployment>(FINALIZER, cleanup_deployment),
    )
}

async fn reconcile(shell: Arc<MyOwnShell>, ctx: Context) -> Result<Action> {
    let deployment = ctx.apply(deployment(&shell)?).await?;
    let ready = deployment.status.and_then(|status| status.ready_replicas).unwrap_or_default();
    let mut status = shell.status.clone().unwrap_or_default();
    status.ready_replicas = ready;
    status.conditions.set(if ready == shell.spec.size {
        ctx.condition("Available", true, "AllReady", format!("{ready} shells are ready"))
    } else {
        ctx.condition(
            "Available",
            false,
            "Starting",
            format!("{ready} of {} shells are ready", shell.spec.size),
        )
    });
    ctx.update_status(&status).await?;
    Ok(Action::await_change())
}

async fn cleanup(_: Arc<MyOwnShell>, ctx: Context) -> Result<Action> {
    ctx.event("Deleting", "the shells go as well");
    ctx.delete::<Deployment>(ctx.name()).await?;
    Ok(Action::await_change())
}

async fn cleanup_deployment(deployment: Arc<Deployment>, _: Context) -> Result<Action> {
    tracing::info!(deployment = deployment.name_any(), "the shells are gone");
    Ok(Action::await_change())
}

fn deployment(shell: &MyOwnShell) -> Result<Deployment> {
    let labels = json!({"app": "myownshell", "myownshell_cr": shell.name_any()});
    serde_json::from_value(json!({
        "metadata": {"name": shell.name_any(), "labels": labels, "finalizers": [FINALIZER]},
        "spec": {
            "replicas": shell.spec.size,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{
                    "name": "busybox",
                    "image": "docker.io/library/busybox:1.37",
                    "command": ["sleep", "infinity"],
                }]},
            },
        },
    }))
    .map_err(steersman::Error::other)
}
