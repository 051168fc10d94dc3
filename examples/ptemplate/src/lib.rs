//! Ptemplate: a resource that deploys a kernel module and the pods that use it. The Kernel Module Management operator
//! (KMM) loads the module.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::{apps::v1::DaemonSet, core::v1::LocalObjectReference},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    CustomResource, ResourceExt as _,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steersman::{Action, Conditions as _, Context, Controller, Error, Kind, Operator, Result, Watch};

/// The image with the kernel module, per kernel version.
const MODULE_IMAGE: &str = "quay.io/ptemplate/ptemplate-kmod:${KERNEL_FULL_VERSION}";

/// The desired module and its consumers.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "pt.example.com",
    version = "v1alpha1",
    kind = "Ptemplate",
    namespaced,
    status = "PtemplateStatus",
    printcolumn = r#"{"name": "Consumers", "type": "integer", "jsonPath": ".status.consumers"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct PtemplateSpec {
    /// How many devices the module makes.
    #[serde(rename = "maxdev")]
    #[schemars(range(min = 1, max = 64))]
    pub max_dev: i32,
    /// What the devices say at first.
    #[serde(rename = "defaultmsg", default)]
    pub default_msg: String,
    /// The image of the pods that use the devices.
    #[serde(rename = "consumerimage")]
    pub consumer_image: String,
    /// How many devices each pod needs.
    #[serde(default)]
    #[schemars(range(min = 0, max = 64))]
    pub required_devices: i32,
    /// What the images are pulled with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_repo_secret: Option<LocalObjectReference>,
    /// The nodes.
    #[serde(default)]
    pub selector: BTreeMap<String, String>,
}

/// The observed module and its consumers.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct PtemplateStatus {
    /// How many pods are ready to use the devices.
    pub consumers: i32,
    /// `ModuleApplied` and `Available`.
    pub conditions: Vec<Condition>,
}

/// KMM's Module.
#[must_use]
pub fn module_kind() -> Kind {
    Kind::dynamic(
        ApiResource::from_gvk(&GroupVersionKind::gvk("kmm.sigs.x-k8s.io", "v1beta1", "Module")),
        true,
    )
}

/// The operator.
pub fn operator() -> Operator {
    Operator::new("ptemplate-operator").version(env!("CARGO_PKG_VERSION")).controller(
        Controller::of::<Ptemplate>(reconcile)
            .owns::<DaemonSet>()
            .watch(Watch::owned_kind(module_kind()).optional()),
    )
}

async fn reconcile(template: Arc<Ptemplate>, ctx: Context) -> Result<Action> {
    let mut status = template.status.clone().unwrap_or_default();
    let applied = match ctx.apply_dynamic(&module_kind(), &module(&template)?).await {
        Ok(_) => ctx.condition("ModuleApplied", true, "Applied", "the module is applied"),
        // The watch triggers a reconcile when the kind appears.
        Err(error) if error.is_not_found() => ctx.condition(
            "ModuleApplied",
            false,
            "KMMAbsent",
            "the cluster has no Kernel Module Management operator",
        ),
        Err(error) => return Err(error),
    };
    let absent = applied.status == "False";
    status.conditions.set(applied);
    let set = ctx.apply(consumers(&template)?).await?.status.unwrap_or_default();
    status.consumers = set.number_ready;
    status.conditions.set(if absent {
        ctx.condition("Available", false, "KMMAbsent", "there are no devices without the module")
    } else if set.number_ready == set.desired_number_scheduled {
        ctx.condition("Available", true, "Ready", format!("{} consumers are ready", set.number_ready))
    } else {
        let message = format!("{} of {} consumers are ready", set.number_ready, set.desired_number_scheduled);
        ctx.condition("Available", false, "Starting", message)
    });
    ctx.update_status(&status).await?;
    Ok(Action::await_change())
}

fn module(template: &Ptemplate) -> Result<DynamicObject> {
    let spec = &template.spec;
    let parameters = [format!("max_dev={}", spec.max_dev), format!("default_msg={}", spec.default_msg)];
    let mut object = json!({
        "metadata": {"name": template.name_any()},
        "spec": {
            "moduleLoader": {"container": {
                "modprobe": {"moduleName": "ptemplate_char_dev", "parameters": parameters},
                "kernelMappings": [{"regexp": "^.+$", "containerImage": MODULE_IMAGE}],
            }},
            "selector": spec.selector,
        },
    });
    if let Some(secret) = &spec.image_repo_secret {
        object["spec"]["imageRepoSecret"] = json!(secret);
    }
    serde_json::from_value(object).map_err(Error::other)
}

fn consumers(template: &Ptemplate) -> Result<DaemonSet> {
    let spec = &template.spec;
    let name = format!("{}-consumer", template.name_any());
    let labels = json!({"app": "ptemplate-consumer", "ptemplate": template.name_any()});
    let device = |number: i32| format!("ptemplate-{number}");
    let volumes: Vec<Value> = (0..spec.required_devices)
        .map(|number| json!({"name": device(number), "hostPath": {"path": format!("/dev/{}", device(number))}}))
        .collect();
    let mounts: Vec<Value> = (0..spec.required_devices)
        .map(|number| json!({"name": device(number), "mountPath": format!("/dev/{}", device(number))}))
        .collect();
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "nodeSelector": spec.selector,
                    "imagePullSecrets": spec.image_repo_secret.iter().collect::<Vec<_>>(),
                    "containers": [{"name": "consumer", "image": spec.consumer_image, "volumeMounts": mounts}],
                    "volumes": volumes,
                },
            },
        },
    }))
    .map_err(Error::other)
}
