//! Sets of objects: order, readiness, and what is no longer desired.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Secret, Service},
};
use kube::{ResourceExt, api::ListParams};
use serde_json::{Value, json};
use steersman::{
    Action, Context, Controller, Desired, Error, Operator, Result,
    testing::{TestEnv, object},
};

use crate::common::{Widget, WidgetStatus, widget};

/// Two steps: settings named by the color, and a deployment that depends on them. The color `alone` has no settings;
/// `broken` has a deployment that never becomes ready, before a service.
async fn reconcile(widget: Arc<Widget>, ctx: Context) -> Result<Action> {
    let color = widget.spec.color.as_str();
    let annotations =
        if color == "broken" { json!({"cluster.steersman.dev/fail": "never-ready"}) } else { json!({}) };
    let deployment: Deployment = object(deployment(ctx.name(), &annotations));
    let service: Service =
        object(json!({"metadata": {"name": ctx.name()}, "spec": {"ports": [{"port": 80}]}}));
    let mut desired = Desired::new().step("settings", []);
    if color != "alone" {
        let map: ConfigMap = object(json!({"metadata": {"name": color}}));
        let secret: Secret = object(json!({"metadata": {"name": color}}));
        desired = desired.with(&map)?.with(&secret)?;
    }
    let desired =
        desired.step("run", ["settings"]).with(&deployment)?.step("serve", ["run"]).with(&service)?;
    let progress = ctx.apply_set(desired).await?;
    let note = format!("waiting {} pending {}", progress.waiting.join(", "), progress.pending.join(", "));
    let color = if progress.is_ready() { color.to_owned() } else { String::new() };
    ctx.update_status(&WidgetStatus { color, note: Some(note) }).await?;
    Ok(Action::await_change())
}

fn deployment(name: &str, annotations: &Value) -> Value {
    let labels = json!({"widget": name});
    json!({
        "metadata": {"name": name},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels, "annotations": annotations},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}},
    })
}

async fn start() -> Result<TestEnv> {
    let mut env = TestEnv::start().await?;
    let controller = Controller::of::<Widget>(reconcile)
        .owns::<ConfigMap>()
        .owns::<Secret>()
        .owns::<Service>()
        .owns::<Deployment>();
    env.deploy(Operator::new("test").controller(controller)).await?;
    Ok(env)
}

async fn names<K>(env: &TestEnv) -> Result<BTreeSet<String>>
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug,
{
    let all = env.api::<K>().list(&ListParams::default()).await?.items;
    let ours = all.iter().filter(|one| !one.owner_references().is_empty());
    Ok(ours.map(ResourceExt::name_any).collect())
}

fn ready(found: Option<&Widget>, color: &str) -> bool {
    crate::common::shown(found) == Some(color)
}

#[tokio::test]
async fn what_is_no_longer_desired_is_pruned() -> Result<()> {
    let mut env = start().await?;
    let outsider: ConfigMap = object(json!({"metadata": {"name": "outsider"}}));
    env.create(&outsider).await?;
    env.create(&widget("one", "red")).await?;
    env.wait("one", |found| ready(found, "red")).await?;
    assert_eq!(names::<ConfigMap>(&env).await?, ["red".to_owned()].into());
    env.patch::<Widget>("one", json!({"spec": {"color": "blue"}})).await?;
    env.wait("one", |found| ready(found, "blue")).await?;
    assert_eq!(names::<ConfigMap>(&env).await?, ["blue".to_owned()].into());
    assert_eq!(names::<Secret>(&env).await?, ["blue".to_owned()].into());

    // Also by an operator that knows the old state only from the cluster.
    env.stop().await?;
    env.patch::<Widget>("one", json!({"spec": {"color": "alone"}})).await?;
    let controller = Controller::of::<Widget>(reconcile).owns::<Deployment>().owns::<Service>();
    let operator = Operator::new("test").controller(controller).permission(
        "",
        ["configmaps", "secrets"],
        ["delete", "get"],
    );
    env.deploy(operator).await?;
    env.wait("one", |found| ready(found, "alone")).await?;
    assert_eq!((names::<ConfigMap>(&env).await?, names::<Secret>(&env).await?), Default::default());
    env.api::<ConfigMap>().get("outsider").await?;
    let found: Widget = env.api().get("one").await?;
    let inventory = found.annotations().get("steersman.dev/inventory").cloned().unwrap_or_default();
    let kinds: Vec<Value> = serde_json::from_str(&inventory).map_err(Error::other)?;
    let kinds: Vec<_> = kinds.iter().map(|member| member["kind"].clone()).collect();
    assert_eq!(kinds, ["Service", "Deployment"]);

    // And when nothing changes, nothing is written.
    env.quiet().await;
    let before = env.writes();
    env.patch::<Widget>("one", json!({"metadata": {"labels": {"look": "again"}}})).await?;
    env.quiet().await;
    assert_eq!(env.writes(), before);
    Ok(())
}

#[tokio::test]
async fn a_step_waits_for_what_it_comes_after() -> Result<()> {
    let env = start().await?;
    env.create(&widget("one", "broken")).await?;
    env.wait("one", |found: Option<&Widget>| {
        let note = found.and_then(|widget| widget.status.as_ref()?.note.clone()).unwrap_or_default();
        note.contains("waiting Deployment one:") && note.ends_with("pending serve")
    })
    .await?;
    env.quiet().await;
    assert_eq!(names::<Service>(&env).await?, BTreeSet::new(), "its turn has not come");
    env.patch::<Widget>("one", json!({"spec": {"color": "red"}})).await?;
    env.wait("one", |found| ready(found, "red")).await?;
    assert_eq!(names::<Service>(&env).await?, ["one".to_owned()].into());
    assert_eq!(names::<ConfigMap>(&env).await?, ["red".to_owned()].into());
    Ok(())
}
