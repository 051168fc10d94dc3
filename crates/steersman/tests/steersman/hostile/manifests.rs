//! What the printed manifests install, and what they leave behind.

use std::{net::SocketAddr, sync::Arc};

use k8s_openapi::{
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        core::v1::Secret,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, CustomResource, CustomResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steersman::{
    Action, Context, Controller, Conversion, Error, LeaderElection, Operator, Result, Review, Webhook,
    testing::{TestEnv, object},
};

use crate::common::{Widget, WidgetSpec, free_port, widget};

/// The previous version, in which the color is called hue.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Default)]
#[kube(group = "test.steersman.dev", version = "v1alpha1", kind = "Widget", root = "Old", namespaced)]
#[serde(default)]
struct OldSpec {
    hue: String,
}

fn definition() -> Result<CustomResourceDefinition> {
    kube::core::crd::merge_crds(vec![Widget::crd(), Old::crd()], "v1").map_err(Error::other)
}

fn operator(address: SocketAddr) -> Result<Operator> {
    let reconcile = |_: Arc<Widget>, _: Context| std::future::ready(Ok::<_, Error>(Action::await_change()));
    let to_new = |old: Old| {
        let mut new = Widget::new("", WidgetSpec { color: old.spec.hue });
        new.metadata = old.metadata;
        Ok(new)
    };
    let to_old = |new: Widget| {
        let mut old = Old::new("", OldSpec { hue: new.spec.color });
        old.metadata = new.metadata;
        Ok(old)
    };
    Ok(Operator::new("test")
        .controller(Controller::of::<Widget>(reconcile))
        .crd(definition()?)
        .conversion(Conversion::hub::<Widget>().spoke(to_new, to_old))
        .webhook(Webhook::mutating::<Widget>(|_: &mut Widget, _: &Review<Widget>| Ok(())))
        .webhook(Webhook::validating::<Widget>(|_: &Widget, _: &Review<Widget>| Ok(())))
        .webhook_address(address))
}

/// Returns the printed objects that the API server accepts, without the Deployment.
fn printed(operator: &Operator) -> Result<Vec<DynamicObject>> {
    let text = operator.manifests("default", "image")?;
    let documents = text.split("---\n").filter(|document| !document.trim().is_empty());
    let objects = documents.map(|document| {
        let value: Value = steersman_yaml::from_str(document).map_err(Error::other)?;
        Ok(object(value))
    });
    let objects: Vec<DynamicObject> = objects.collect::<Result<_>>()?;
    Ok(objects
        .into_iter()
        .filter(|object| object.types.as_ref().is_none_or(|types| types.kind != "Deployment"))
        .collect())
}

fn api(env: &TestEnv, object: &DynamicObject) -> Result<Api<DynamicObject>> {
    let types = object.types.clone().unwrap_or_default();
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types).map_err(Error::other)?);
    Ok(match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(env.client(), namespace, &resource),
        None => Api::all_with(env.client(), &resource),
    })
}

async fn apply(env: &TestEnv, objects: &[DynamicObject]) -> Result<()> {
    for object in objects {
        let name = object.metadata.name.clone().unwrap_or_default();
        let params = PatchParams::apply("kubectl");
        api(env, object)?.patch(&name, &params, &Patch::Apply(object)).await?;
    }
    // Until its objects are served.
    env.install(&definition()?).await
}

async fn delete(env: &TestEnv, objects: &[DynamicObject]) -> Result<()> {
    for object in objects {
        let name = object.metadata.name.clone().unwrap_or_default();
        api(env, object)?.delete(&name, &DeleteParams::default()).await?;
    }
    Ok(())
}

fn old(name: &str) -> Old {
    Old::new(name, OldSpec { hue: "red".into() })
}

#[tokio::test]
async fn an_old_version_is_refused_until_the_operator_converts_it() -> Result<()> {
    let mut env = TestEnv::start().await?;
    let address = free_port();
    let operator = || operator(address);
    apply(&env, &printed(&operator()?)?).await?;
    let refused = env.create(&old("early")).await;
    assert!(refused.is_err(), "it would be stored without its hue: {refused:?}");
    if let Some(cluster) = env.cluster() {
        cluster.webhooks_at("default", "test-webhook", address);
    }
    env.deploy(operator()?).await?;
    env.create(&old("late")).await?;
    let stored: Widget = env.api().get("late").await?;
    assert_eq!(stored.spec.color, "red");
    Ok(())
}

#[tokio::test]
async fn nothing_is_left_behind_that_refuses_writes() -> Result<()> {
    let mut env = TestEnv::start().await?;
    let address = free_port();
    let printed = printed(&operator(address)?)?;
    apply(&env, &printed).await?;
    if let Some(cluster) = env.cluster() {
        cluster.webhooks_at("default", "test-webhook", address);
    }
    env.deploy(operator(address)?).await?;
    let mut kept = widget("kept", "red");
    kept.metadata.finalizers = Some(vec!["test.steersman.dev/cleanup".into()]);
    env.create(&kept).await?;
    // What was printed is deleted, except for the CRD: users may want to keep its objects.
    env.stop().await?;
    let (_, rest): (Vec<_>, Vec<_>) = printed.into_iter().partition(|object| {
        object.types.as_ref().is_some_and(|types| types.kind == "CustomResourceDefinition")
    });
    delete(&env, &rest).await?;
    let list = kube::api::ListParams::default();
    assert!(env.api::<MutatingWebhookConfiguration>().list(&list).await?.items.is_empty());
    assert!(env.api::<ValidatingWebhookConfiguration>().list(&list).await?.items.is_empty());
    assert!(env.api::<Secret>().get_opt("test-webhook").await?.is_none());
    env.delete::<Widget>("kept").await?;
    env.patch::<Widget>("kept", json!({"metadata": {"finalizers": null}})).await?;
    env.wait("kept", |found: Option<&Widget>| found.is_none()).await?;
    Ok(())
}

#[test]
fn roles_ask_for_nothing_that_is_not_used_and_name_what_they_can() -> Result<()> {
    let operator = operator(free_port())?.leader_election(LeaderElection::new("the-lease"));
    let mut lines = Vec::new();
    for object in printed(&operator)? {
        let kind = object.types.clone().unwrap_or_default().kind;
        if !["ClusterRole", "Role"].contains(&kind.as_str()) {
            continue;
        }
        for rule in object.data["rules"].as_array().into_iter().flatten() {
            let join = |name: &str| {
                let words = rule[name].as_array().into_iter().flatten().filter_map(Value::as_str);
                words.collect::<Vec<_>>().join(",")
            };
            lines.push(format!("{kind} {} {} {}", join("resources"), join("resourceNames"), join("verbs")));
        }
    }
    assert_eq!(
        lines,
        [
            "ClusterRole events  create,patch",
            "ClusterRole widgets  get,list,patch,watch",
            "ClusterRole widgets/status  patch",
            "ClusterRole widgets/finalizers  update",
            "ClusterRole mutatingwebhookconfigurations,validatingwebhookconfigurations test-webhook get,patch",
            "ClusterRole customresourcedefinitions widgets.test.steersman.dev get,patch",
            "ClusterRole tokenreviews  create",
            "ClusterRole subjectaccessreviews  create",
            "Role secrets test-webhook get,update",
            "Role leases  create",
            "Role leases the-lease get,update",
            "ClusterRole   get",
        ]
    );
    Ok(())
}
