//! Sets of objects: what is pruned, and what is not.

use std::sync::Arc;

use k8s_openapi::api::{
    core::v1::{ConfigMap, Namespace},
    rbac::v1::RoleBinding,
};
use serde_json::{Value, json};
use steersman::{
    Action, Context, Controller, Desired, Error, Key, Kind, Operator, Result,
    testing::{TestEnv, object},
};

use super::{env, notes};
use crate::common::{Widget, WidgetStatus, shown, widget};

const INVENTORY: &str = "steersman.dev/inventory";

/// Applies a map named by the color, except for the color `none`.
async fn reconcile(widget: Arc<Widget>, ctx: Context) -> Result<Action> {
    let color = widget.spec.color.as_str();
    let mut desired = Desired::new();
    if color != "none" {
        desired = desired.with(&object::<ConfigMap>(json!({"metadata": {"name": color}})))?;
    }
    ctx.apply_set(desired).await?;
    ctx.update_status(&WidgetStatus { color: color.to_owned(), note: None }).await?;
    Ok(Action::await_change())
}

async fn recolor(env: &TestEnv, color: &str) -> Result<()> {
    env.patch::<Widget>("one", json!({"spec": {"color": color}})).await?;
    env.wait("one", |found| shown(found) == Some(color)).await?;
    Ok(())
}

async fn is_there(env: &TestEnv, map: &str) -> Result<bool> {
    Ok(env.api::<ConfigMap>().get_opt(map).await?.is_some())
}

/// Starts an operator with all permissions, against a tenant who may edit widgets.
async fn start() -> Result<TestEnv> {
    let mut env = env().await?;
    env.run(Operator::new("test").controller(Controller::of::<Widget>(reconcile).owns::<ConfigMap>()));
    env.create(&widget("one", "red")).await?;
    env.wait("one", |found| shown(found) == Some("red")).await?;
    Ok(env)
}

#[tokio::test]
async fn an_inventory_that_a_tenant_wrote_prunes_nothing_foreign() -> Result<()> {
    let env = start().await?;
    env.create(&object::<Namespace>(json!({"metadata": {"name": "foreign"}}))).await?;
    env.create(&object::<ConfigMap>(json!({"metadata": {"name": "foreign"}}))).await?;
    // An object of another widget, of the same operator.
    env.create(&widget("neighbour", "green")).await?;
    env.wait("neighbour", |found| shown(found) == Some("green")).await?;
    let member = |kind: &str, plural: &str, namespace: Value, name: &str| json!({"group": "", "version": "v1", "kind": kind, "plural": plural, "namespace": namespace, "name": name});
    let forged = json!([
        member("Namespace", "namespaces", Value::Null, "foreign"),
        member("ConfigMap", "configmaps", json!("default"), "foreign"),
        member("ConfigMap", "configmaps", json!("default"), "green"),
        member("ConfigMap", "configmaps", json!("default"), "red"),
        // A path that leads out of the collection.
        member("ConfigMap", "namespaces/foreign", Value::Null, "../namespaces/foreign?x="),
    ]);
    let annotations = json!({INVENTORY: forged.to_string()});
    env.patch::<Widget>("one", json!({"metadata": {"annotations": annotations}, "spec": {"color": "blue"}}))
        .await?;
    env.wait("one", |found| shown(found) == Some("blue")).await?;
    env.quiet().await;
    assert!(is_there(&env, "foreign").await? && is_there(&env, "green").await?);
    assert!(!is_there(&env, "red").await?, "what belongs to the widget is pruned");
    let namespace = env.api::<Namespace>().get("foreign").await?;
    assert!(namespace.metadata.deletion_timestamp.is_none());
    let left = notes(&env, "NotPruned").await?;
    assert_eq!(left.len(), 3, "{left:?}");
    let widget = env.api::<Widget>().get("one").await?;
    let inventory = widget.metadata.annotations.unwrap_or_default().remove(INVENTORY).unwrap_or_default();
    assert!(!inventory.contains("foreign") && inventory.contains("blue"), "{inventory}");
    Ok(())
}

#[tokio::test]
async fn a_member_that_was_struck_off_the_inventory_is_pruned_all_the_same() -> Result<()> {
    let env = start().await?;
    env.patch::<Widget>(
        "one",
        json!({"metadata": {"annotations": {INVENTORY: "[]"}}, "spec": {"color": "none"}}),
    )
    .await?;
    env.wait("red", |map: Option<&ConfigMap>| map.is_none()).await?;
    recolor(&env, "blue").await?;
    assert!(is_there(&env, "blue").await?);
    Ok(())
}

/// Returns how many requests for maps were made with a verb.
fn requests(env: &TestEnv, verb: &str) -> u64 {
    let lines = env.requests().to_lines();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_maps = lines.filter(|line| line["resource"] == "configmaps" && line["verb"] == verb);
    of_maps.map(|line| line["count"].as_u64().unwrap()).sum()
}

#[tokio::test]
async fn a_member_that_the_cache_lacks_is_pruned_without_a_request() -> Result<()> {
    let env = start().await?;
    let member = |name: &str| json!({"group": "", "version": "v1", "kind": "ConfigMap", "plural": "configmaps", "namespace": "default", "name": name});
    let annotations = json!({INVENTORY: json!([member("gone"), member("red")]).to_string()});
    env.patch::<Widget>("one", json!({"metadata": {"annotations": annotations}, "spec": {"color": "blue"}}))
        .await?;
    env.wait("one", |found| shown(found) == Some("blue")).await?;
    env.wait("red", |map: Option<&ConfigMap>| map.is_none()).await?;
    env.quiet().await;
    assert_eq!((requests(&env, "get"), requests(&env, "delete")), (0, 1));
    Ok(())
}

#[tokio::test]
async fn an_object_that_the_cache_lacks_is_deleted_without_a_request() -> Result<()> {
    let mut env = env().await?;
    let reconcile = |widget: Arc<Widget>, ctx: Context| async move {
        let key = Key::namespaced("default", &widget.spec.color);
        ctx.delete_key(&Kind::of::<ConfigMap>(), &key).await?;
        ctx.update_status(&WidgetStatus { color: widget.spec.color.clone(), note: None }).await?;
        Ok::<_, Error>(Action::await_change())
    };
    env.create(&object::<ConfigMap>(json!({"metadata": {"name": "red"}}))).await?;
    env.run(Operator::new("test").controller(Controller::of::<Widget>(reconcile).watches::<ConfigMap>()));
    env.create(&widget("one", "red")).await?;
    env.wait("red", |map: Option<&ConfigMap>| map.is_none()).await?;
    recolor(&env, "gone").await?;
    env.quiet().await;
    assert_eq!((requests(&env, "get"), requests(&env, "delete")), (0, 1));
    Ok(())
}

/// Applies a binding to the role that the color names, which can't be changed. The color `red` has one more member.
async fn bind(widget: Arc<Widget>, ctx: Context) -> Result<Action> {
    let (color, replace) = match widget.spec.color.strip_suffix("!") {
        Some(color) => (color, true),
        None => (widget.spec.color.as_str(), false),
    };
    let binding: RoleBinding = object(json!({
        "metadata": {"name": "access"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": color},
    }));
    let mut desired = Desired::new().with(&binding)?;
    if replace {
        desired = desired.or_replace();
    }
    if color == "red" {
        desired = desired.with(&object::<ConfigMap>(json!({"metadata": {"name": "member"}})))?;
    } else {
        desired = desired.with(&object::<ConfigMap>(json!({"metadata": {"name": "late"}})))?;
    }
    ctx.apply_set(desired).await?;
    ctx.update_status(&WidgetStatus { color: color.to_owned(), note: None }).await?;
    Ok(Action::await_change())
}

#[tokio::test]
async fn one_member_that_fails_keeps_no_other_from_going() -> Result<()> {
    let mut env = env().await?;
    let controller = Controller::of::<Widget>(bind).owns::<ConfigMap>().owns::<RoleBinding>();
    let operator = Operator::new("test").controller(controller).permission(
        "rbac.authorization.k8s.io",
        ["clusterroles"],
        ["bind"],
    );
    env.deploy(operator).await?;
    env.create(&widget("one", "red")).await?;
    env.wait("one", |found| shown(found) == Some("red")).await?;
    assert!(is_there(&env, "member").await?);
    env.patch::<Widget>("one", json!({"spec": {"color": "blue"}})).await?;
    env.wait("member", |map: Option<&ConfigMap>| map.is_none()).await?;
    env.wait("late", |map: Option<&ConfigMap>| map.is_some()).await?;
    let role = |binding: Option<&RoleBinding>| Some(binding?.role_ref.name.clone());
    assert_eq!(role(Some(&env.api().get("access").await?)).as_deref(), Some("red"));
    let failed = loop {
        let failed = notes(&env, "ReconcileFailed").await?;
        if !failed.is_empty() {
            break failed;
        }
        tokio::task::yield_now().await;
    };
    // Later attempts, with nothing left to prune, say that one of two failed.
    assert!(
        failed.iter().any(|note| note.starts_with("1 of 3 objects failed: RoleBinding access: ")),
        "{failed:?}"
    );
    assert!(failed.iter().all(|note| note.contains("roleRef") && !note.contains("Status {")), "{failed:?}");
    // With permission to replace it, a new one is created.
    env.patch::<Widget>("one", json!({"spec": {"color": "blue!"}})).await?;
    env.wait("access", |binding| role(binding).as_deref() == Some("blue")).await?;
    env.wait("one", |found| shown(found) == Some("blue")).await?;
    Ok(())
}

#[tokio::test]
async fn what_would_be_refused_anyway_is_not_replaced() -> Result<()> {
    let mut env = env().await?;
    let reconcile = |widget: Arc<Widget>, ctx: Context| async move {
        let key = if widget.spec.color == "wrong" { "no/such/key" } else { "key" };
        let map: ConfigMap =
            object(json!({"metadata": {"name": "map"}, "data": {key: "value"}, "immutable": true}));
        ctx.apply_or_replace(map).await?;
        ctx.update_status(&WidgetStatus { color: widget.spec.color.clone(), note: None }).await?;
        Ok::<_, Error>(Action::await_change())
    };
    env.run(Operator::new("test").controller(Controller::of::<Widget>(reconcile).owns::<ConfigMap>()));
    env.create(&widget("one", "right")).await?;
    env.wait("one", |found| shown(found) == Some("right")).await?;
    let before = env.api::<ConfigMap>().get("map").await?;
    env.patch::<Widget>("one", json!({"spec": {"color": "wrong"}})).await?;
    while notes(&env, "ReconcileFailed").await?.is_empty() {
        tokio::task::yield_now().await;
    }
    let after = env.api::<ConfigMap>().get("map").await?;
    assert_eq!(after.metadata.uid, before.metadata.uid);
    Ok(())
}
