//! What reads return, and which changes they make trigger a reconcile.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt as _, api::PostParams};
use serde_json::json;
use steersman::{
    Action, Context, Controller, Error, Operator, Result, Watch,
    testing::{TestEnv, object},
};

use super::env;
use crate::common::{Widget, WidgetStatus, shown, widget};

fn map(name: &str, labels: &[(&str, &str)]) -> ConfigMap {
    let labels: BTreeMap<_, _> = labels.iter().copied().collect();
    object(json!({"metadata": {"name": name, "labels": labels}}))
}

fn names(maps: &[ConfigMap]) -> String {
    let names: Vec<_> = maps.iter().map(kube::ResourceExt::name_any).collect();
    names.join(",")
}

async fn show(ctx: &Context, color: impl Into<String>) -> Result<Action> {
    ctx.update_status(&WidgetStatus { color: color.into(), note: None }).await?;
    Ok(Action::await_change())
}

/// Reads in the way that the color names.
async fn read(widget: Arc<Widget>, ctx: Context) -> Result<Action> {
    let maps = ctx.objects::<ConfigMap>().labels([("of", "widgets")]);
    let found = match widget.spec.color.as_str() {
        "label" => maps.list().await?,
        "index" => {
            let of = |map: &ConfigMap| map.labels().get("of").cloned().into_iter().collect();
            ctx.objects::<ConfigMap>().by_index("of", "widgets", of).await?
        }
        "everywhere" => maps.all_namespaces().list().await?,
        "owned" => ctx.objects::<ConfigMap>().owned().await?,
        _ => {
            let mut all = ctx.objects::<ConfigMap>().list().await?;
            all.retain(|map| map.labels().get("of").is_some_and(|of| of == "widgets"));
            all
        }
    };
    show(&ctx, names(&found)).await
}

async fn shows(env: &TestEnv, name: &str, expected: &str) -> Result<()> {
    env.wait(name, |found| shown(found) == Some(expected)).await?;
    Ok(())
}

#[tokio::test]
async fn every_read_brings_a_reconcile_when_what_it_saw_changes() -> Result<()> {
    let mut env = env().await?;
    env.run(Operator::new("test").controller(Controller::of::<Widget>(read).watches::<ConfigMap>()));
    let kinds = ["list", "label", "index", "everywhere"];
    for name in kinds {
        env.create(&widget(name, name)).await?;
        shows(&env, name, "").await?;
    }
    let mut owned = map("owned", &[]);
    let owner = env.create(&widget("owner", "owned")).await?;
    shows(&env, "owner", "").await?;
    // It appears,
    env.create(&map("first", &[("of", "widgets")])).await?;
    owned.metadata.owner_references = Some(vec![object(json!({
        "apiVersion": "test.steersman.dev/v1", "kind": "Widget", "name": "owner", "controller": true,
        "uid": owner.uid(),
    }))]);
    env.create(&owned).await?;
    shows(&env, "owner", "owned").await?;
    for name in kinds {
        shows(&env, name, "first").await?;
    }
    // comes to match,
    env.create(&map("second", &[])).await?;
    env.patch::<ConfigMap>("second", json!({"metadata": {"labels": {"of": "widgets"}}})).await?;
    for name in kinds {
        shows(&env, name, "first,second").await?;
    }
    // ceases to,
    env.patch::<ConfigMap>("first", json!({"metadata": {"labels": {"of": null}}})).await?;
    for name in kinds {
        shows(&env, name, "second").await?;
    }
    // and goes.
    env.delete::<ConfigMap>("second").await?;
    env.delete::<ConfigMap>("owned").await?;
    shows(&env, "owner", "").await?;
    for name in kinds {
        shows(&env, name, "").await?;
    }
    // A change that matches no query any more triggers no reconcile.
    env.quiet().await;
    let before = env.writes();
    env.create(&map("third", &[("of", "others")])).await?;
    env.quiet().await;
    assert_eq!(env.writes(), before);
    Ok(())
}

#[tokio::test]
async fn the_first_watch_of_a_kind_does_not_decide_what_is_seen() -> Result<()> {
    let mut env = env().await?;
    let reconcile = |widget: Arc<Widget>, ctx: Context| async move {
        if widget.spec.color == "gone" {
            ctx.delete::<ConfigMap>("mine").await?;
            return show(&ctx, "gone").await;
        }
        ctx.apply(map("mine", &[])).await?;
        let mine = ctx.get::<ConfigMap>("mine").await?;
        let shared = ctx.get::<ConfigMap>("shared").await?;
        let all = ctx.objects::<ConfigMap>().by_index("all", "yes", |_| vec!["yes".to_owned()]).await?;
        let seen = all.iter().filter(|map| ["mine", "shared"].contains(&&*map.name_any())).count();
        show(&ctx, format!("{} {} {seen}", mine.is_some(), shared.is_some())).await
    };
    let labelled = Watch::mapped::<ConfigMap>("labelled", |_| Vec::new()).labels("of=widgets");
    let controller = Controller::of::<Widget>(reconcile).watch(labelled).owns::<ConfigMap>();
    env.create(&map("shared", &[("of", "widgets")])).await?;
    env.run(Operator::new("test").controller(controller));
    env.create(&widget("one", "red")).await?;
    shows(&env, "one", "true true 2").await?;
    env.patch::<Widget>("one", json!({"spec": {"color": "gone"}})).await?;
    env.wait("mine", |map: Option<&ConfigMap>| map.is_none()).await?;
    Ok(())
}

#[tokio::test]
async fn several_selections_are_seen_together() -> Result<()> {
    let mut env = env().await?;
    let reconcile = |_: Arc<Widget>, ctx: Context| async move {
        let all = ctx.objects::<ConfigMap>().list().await?;
        let gets = [ctx.get::<ConfigMap>("front").await?, ctx.get::<ConfigMap>("back").await?];
        show(&ctx, format!("{} {}", names(&all), gets.iter().flatten().count())).await
    };
    let controller = Controller::of::<Widget>(reconcile)
        .watch(Watch::read::<ConfigMap>().labels("tier=front"))
        .watch(Watch::read::<ConfigMap>().labels("tier in (back)"));
    env.run(Operator::new("test").controller(controller));
    for name in ["front", "back", "neither"] {
        env.create(&map(name, &[("tier", name)])).await?;
    }
    env.create(&widget("one", "red")).await?;
    shows(&env, "one", "back,front 2").await?;
    Ok(())
}

#[tokio::test]
async fn a_write_that_no_watch_covers_is_not_taken_for_known() -> Result<()> {
    let mut env = env().await?;
    let reconcile = |widget: Arc<Widget>, ctx: Context| async move {
        if widget.spec.color == "gone" {
            ctx.delete::<ConfigMap>("plain").await?;
        } else {
            ctx.apply(map("plain", &[])).await?;
        }
        show(&ctx, &widget.spec.color).await
    };
    let controller =
        Controller::of::<Widget>(reconcile).watch(Watch::owned::<ConfigMap>().labels("of=widgets"));
    env.run(Operator::new("test").controller(controller));
    env.create(&widget("one", "red")).await?;
    shows(&env, "one", "red").await?;
    // The watch does not report the deletion of the map, so it is applied again.
    env.delete::<ConfigMap>("plain").await?;
    env.patch::<Widget>("one", json!({"spec": {"color": "blue"}})).await?;
    shows(&env, "one", "blue").await?;
    env.api::<ConfigMap>().get("plain").await?;
    env.patch::<Widget>("one", json!({"spec": {"color": "gone"}})).await?;
    shows(&env, "one", "gone").await?;
    assert!(env.api::<ConfigMap>().get_opt("plain").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn namespaces_that_are_not_watched_are_not_taken_for_empty() -> Result<()> {
    let mut env = env().await?;
    let elsewhere: Api<ConfigMap> = Api::namespaced(env.client(), "kube-public");
    elsewhere.create(&PostParams::default(), &map("there", &[])).await?;
    let reconcile = |_: Arc<Widget>, ctx: Context| async move {
        let there = || ctx.objects::<ConfigMap>().namespace("kube-public");
        let found = there().get("there").await?.is_some();
        let refused = there().list().await.is_err_and(|error| matches!(error, Error::NotWatched { .. }));
        let key = steersman::Key::namespaced("kube-public", "there");
        ctx.delete_key(&steersman::Kind::of::<ConfigMap>(), &key).await?;
        show(&ctx, format!("{found} {refused}")).await
    };
    let controller = Controller::of::<Widget>(reconcile).owns::<ConfigMap>();
    env.run(Operator::new("test").namespaces(["default"]).controller(controller));
    env.create(&widget("one", "red")).await?;
    shows(&env, "one", "true true").await?;
    assert!(elsewhere.get_opt("there").await?.is_none(), "it was deleted");
    Ok(())
}
