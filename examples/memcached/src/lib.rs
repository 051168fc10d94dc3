//! Memcached: a resource that runs memcached servers.

use std::sync::Arc;

use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::Pod},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{CustomResource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use steersman::{
    Action, Conditions as _, Context, Controller, Denied, Error, Key, Operator, Result, Review, Watch,
    Webhook,
};

/// The default image.
pub const IMAGE: &str = "memcached:1.6.26-alpine3.19";
/// The default port.
pub const PORT: i32 = 11211;
/// The label that maps a pod to its resource.
const INSTANCE: &str = "app.kubernetes.io/instance";

/// The desired servers.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "cache.example.com",
    version = "v1alpha1",
    kind = "Memcached",
    namespaced,
    status = "MemcachedStatus",
    scale(
        spec_replicas_path = ".spec.size",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn = r#"{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}"#,
    printcolumn = r#"{"name": "Available", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Available\")].status"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct MemcachedSpec {
    /// The number of servers.
    #[schemars(range(min = 0, max = 9))]
    pub size: i32,
    /// The image. The webhook fills it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The port that the servers listen on. The webhook fills it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub container_port: Option<i32>,
}

/// The observed servers.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct MemcachedStatus {
    /// The names of the pods.
    pub nodes: Vec<String>,
    /// The number of pods, for the scale subresource.
    pub replicas: i32,
    /// Which pods they are, for the scale subresource.
    pub selector: String,
    /// `Available`: all servers are available.
    pub conditions: Vec<Condition>,
}

/// The operator.
pub fn operator() -> Operator {
    let pods = Watch::mapped::<Pod>("instance", |pod| {
        let instance = pod.labels().get(INSTANCE);
        instance.map(|name| Key::new(pod.namespace().as_deref(), name)).into_iter().collect()
    });
    Operator::new("memcached-operator")
        .version(env!("CARGO_PKG_VERSION"))
        .controller(
            Controller::of::<Memcached>(reconcile)
                .owns::<Deployment>()
                .watch(pods.labels("app.kubernetes.io/name=memcached")),
        )
        .webhook(Webhook::mutating::<Memcached>(default))
        .webhook(Webhook::validating::<Memcached>(validate))
}

/// Defaulting: sets image and port.
fn default(memcached: &mut Memcached, _: &Review<Memcached>) -> Result<(), Denied> {
    memcached.spec.image.get_or_insert_with(|| IMAGE.to_owned());
    memcached.spec.container_port.get_or_insert(PORT);
    Ok(())
}

/// Validates that the number of servers is odd, to have a majority, and that the port is immutable.
fn validate(memcached: &Memcached, review: &Review<Memcached>) -> Result<(), Denied> {
    let mut denied = Denied::default();
    if memcached.spec.size > 0 && memcached.spec.size % 2 == 0 {
        denied = denied.and("spec.size", format!("must be odd, and is {}", memcached.spec.size));
    }
    if let Some(old) = &review.old
        && old.spec.container_port.is_some()
        && old.spec.container_port != memcached.spec.container_port
    {
        denied = denied.and("spec.containerPort", "can't be changed");
    }
    denied.into_result()
}

async fn reconcile(memcached: Arc<Memcached>, ctx: Context) -> Result<Action> {
    let deployment = ctx.apply(deployment(&memcached)?).await?;
    let available = deployment.status.and_then(|status| status.available_replicas).unwrap_or_default();
    let name = memcached.name_any();
    let pods = ctx.objects::<Pod>().labels([(INSTANCE, name.as_str())]).list().await?;
    let mut status = memcached.status.clone().unwrap_or_default();
    status.nodes = pods
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        .map(ResourceExt::name_any)
        .collect();
    status.replicas = i32::try_from(status.nodes.len()).unwrap_or(i32::MAX);
    status.selector = format!("{INSTANCE}={name}");
    let size = memcached.spec.size;
    status.conditions.set(if available == size {
        ctx.condition("Available", true, "Reconciled", format!("{size} servers are available"))
    } else {
        ctx.condition(
            "Available",
            false,
            "Reconciling",
            format!("{available} of {size} servers are available"),
        )
    });
    ctx.update_status(&status).await?;
    Ok(Action::await_change())
}

fn deployment(memcached: &Memcached) -> Result<Deployment> {
    let port = memcached.spec.container_port.unwrap_or(PORT);
    let labels = json!({"app.kubernetes.io/name": "memcached", INSTANCE: memcached.name_any()});
    serde_json::from_value(json!({
        "metadata": {"name": memcached.name_any(), "labels": labels},
        "spec": {
            "replicas": memcached.spec.size,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
                    "containers": [{
                        "name": "memcached",
                        "image": memcached.spec.image.as_deref().unwrap_or(IMAGE),
                        "command": ["memcached", format!("--port={port}"), "-o", "modern", "-v"],
                        "ports": [{"containerPort": port, "name": "memcached"}],
                        "securityContext": {"runAsUser": 1001, "allowPrivilegeEscalation": false,
                            "capabilities": {"drop": ["ALL"]}},
                    }],
                },
            },
        },
    }))
    .map_err(Error::other)
}
