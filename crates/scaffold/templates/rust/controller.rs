//! The controller of {{ .Kind }}.

use std::sync::Arc;

{{ if .KindNamespaced -}}
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt as _;
use serde_json::json;
use steersman::{Action, Conditions as _, Context, Controller, Error, Result};

use crate::{{ .ApiModule }}::{{ .Kind }};

/// Returns the controller, which owns a Deployment for each object.
pub fn controller() -> Controller<{{ .Kind }}> {
    Controller::of::<{{ .Kind }}>(reconcile).owns::<Deployment>()
}

/// Reconciles the cluster with the desired state of an object. Called whenever the object or one that it owns changes.
async fn reconcile(object: Arc<{{ .Kind }}>, ctx: Context) -> Result<Action> {
    let deployment = ctx.apply(deployment(&object)?).await?;
    let available = deployment.status.and_then(|status| status.available_replicas).unwrap_or_default();
    let size = object.spec.size;
    let mut status = object.status.clone().unwrap_or_default();
    status.conditions.set(if available == size {
        ctx.condition("Available", true, "Reconciled", format!("{size} pods are available"))
    } else {
        ctx.condition("Available", false, "Reconciling", format!("{available} of {size} pods are available"))
    });
    ctx.update_status(&status).await?;
    Ok(Action::await_change())
}

fn deployment(object: &{{ .Kind }}) -> Result<Deployment> {
    let labels = json!({
        "app.kubernetes.io/name": "{{ .KindLower }}",
        "app.kubernetes.io/instance": object.name_any(),
    });
    serde_json::from_value(json!({
        "metadata": {"name": object.name_any(), "labels": labels},
        "spec": {
            "replicas": object.spec.size,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
                    "containers": [{
                        "name": "{{ .KindLower }}",
                        "image": object.spec.image,
                        "securityContext": {
                            "runAsUser": 1001,
                            "allowPrivilegeEscalation": false,
                            "capabilities": {"drop": ["ALL"]},
                        },
                    }],
                },
            },
        },
    }))
    .map_err(Error::other)
}
{{ else -}}
use steersman::{Action, Conditions as _, Context, Controller, Result};

use crate::{{ .ApiModule }}::{{ .Kind }};

/// Returns the controller.
pub fn controller() -> Controller<{{ .Kind }}> {
    Controller::of::<{{ .Kind }}>(reconcile)
}

/// Reconciles the cluster with the desired state of an object. Called whenever the object changes.
async fn reconcile(object: Arc<{{ .Kind }}>, ctx: Context) -> Result<Action> {
    let mut status = object.status.clone().unwrap_or_default();
    status.conditions.set(ctx.condition("Available", true, "Reconciled", "nothing to reconcile"));
    ctx.update_status(&status).await?;
    Ok(Action::await_change())
}
{{ end -}}
