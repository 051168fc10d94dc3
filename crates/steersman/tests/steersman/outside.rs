//! Test environments in an external cluster, and what they leave behind.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::{
    core::v1::{ConfigMap, Namespace},
    rbac::v1::ClusterRole,
};
use kube::{Api, CustomResourceExt as _, api::ListParams};
use serde_json::json;
use steersman::{
    Action, Context, Controller, Error, Operator, Result,
    testing::{TestEnv, object},
};
use steersman_cluster::Cluster;

use crate::common::{Widget, WidgetStatus, shown, widget};

/// Starts a cluster with a port, and writes a kubeconfig for it.
async fn cluster() -> (Cluster, std::path::PathBuf) {
    let cluster = Cluster::builder().listen(([127, 0, 0, 1], 0).into()).start().await.unwrap();
    let name = format!("steersman-outside-{}-{}.yaml", std::process::id(), cluster.address().unwrap().port());
    let path = std::env::temp_dir().join(name);
    cluster.write_kubeconfig(&path).unwrap();
    (cluster, path)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_outside_leaves_nothing() -> Result<()> {
    let (cluster, kubeconfig) = cluster().await;
    let spaces: Api<Namespace> = Api::all(cluster.client());
    let roles: Api<ClusterRole> = Api::all(cluster.client());
    let own = async || {
        let all = spaces.list(&ListParams::default()).await.unwrap().items;
        all.into_iter()
            .filter_map(|one| one.metadata.name)
            .filter(|name| name.starts_with("steersman-test-"))
            .count()
    };
    let mut env = TestEnv::outside(&kubeconfig).await?;
    assert!(env.cluster().is_none() && env.revision().is_none());
    assert_eq!(own().await, 1);
    let reconcile = |widget: Arc<Widget>, ctx: Context| async move {
        ctx.update_status(&WidgetStatus { color: widget.spec.color.clone(), note: None }).await?;
        Ok::<_, Error>(Action::await_change())
    };
    env.deploy(Operator::new("test").controller(Controller::of::<Widget>(reconcile))).await?;
    env.create(&widget("one", "red")).await?;
    env.wait("one", |widget| shown(widget) == Some("red")).await?;
    // Objects of other environments are left alone.
    let elsewhere: Api<Widget> = Api::namespaced(cluster.client(), "default");
    elsewhere.create(&Default::default(), &widget("other", "red")).await?;
    env.create(&object::<ClusterRole>(json!({"metadata": {"name": "made-by-a-test"}}))).await?;
    env.stop().await?;
    assert!(elsewhere.get("other").await?.status.is_none());
    drop(env);
    assert!(roles.get_opt("made-by-a-test").await?.is_none());
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while own().await > 0 && tokio::time::Instant::now() < deadline {
        cluster.settled().await;
    }
    assert_eq!(own().await, 0);
    std::fs::remove_file(kubeconfig).map_err(Error::other)
}

#[tokio::test]
async fn a_definition_goes_with_its_objects() -> Result<()> {
    let env = TestEnv::start().await?;
    env.install(&Widget::crd()).await?;
    env.create(&widget("one", "red")).await?;
    env.uninstall(&Widget::crd()).await?;
    assert!(env.api::<Widget>().get_opt("one").await.is_err());
    // It may be gone already.
    env.uninstall(&Widget::crd()).await?;
    env.install(&Widget::crd()).await?;
    assert!(env.api::<Widget>().get_opt("one").await?.is_none());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn slow_reconciles_hold_up_no_others() -> Result<()> {
    for (slow_after, is_held_up) in [(Some(Duration::from_secs(5)), false), (None, true)] {
        let mut env = TestEnv::start().await?;
        env.install(&Widget::crd()).await?;
        let reconcile = |widget: Arc<Widget>, ctx: Context| async move {
            if widget.spec.color == "slow" {
                tokio::time::sleep(Duration::from_secs(3600)).await;
            }
            ctx.update_status(&WidgetStatus { color: widget.spec.color.clone(), note: None }).await?;
            Ok::<_, Error>(Action::await_change())
        };
        let mut controller = Controller::of::<Widget>(reconcile).concurrency(1);
        if let Some(limit) = slow_after {
            controller = controller.slow_after(limit);
        }
        env.run(Operator::new("test").controller(controller));
        for name in ["slow-1", "slow-2"] {
            env.create(&widget(name, "slow")).await?;
        }
        env.create(&widget("quick", "red")).await?;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let quick = env.api::<Widget>().get("quick").await?;
        assert_eq!(shown(Some(&quick)).is_none(), is_held_up, "{slow_after:?}");
    }
    Ok(())
}

/// A deleted object is recreated, even by an operator without permission to `get` its own objects.
#[tokio::test]
async fn an_operator_that_may_not_ask_goes_by_its_cache() -> Result<()> {
    let env = TestEnv::start().await?;
    env.install(&Widget::crd()).await?;
    let reconcile = |widget: Arc<Widget>, ctx: Context| async move {
        ctx.apply(object::<ConfigMap>(json!({"metadata": {"name": "mine"}}))).await?;
        ctx.update_status(&WidgetStatus { color: widget.spec.color.clone(), note: None }).await?;
        Ok::<_, Error>(Action::await_change())
    };
    let operator =
        || Operator::new("test").controller(Controller::of::<Widget>(reconcile).owns::<ConfigMap>());
    env.install_operator(&operator()).await?;
    let roles: Api<ClusterRole> = Api::all(env.client());
    let mut role = roles.get("test").await?;
    for rule in role.rules.iter_mut().flatten() {
        if rule.resources.iter().flatten().any(|name| name == "widgets") {
            rule.verbs.retain(|verb| verb != "get");
        }
    }
    roles.replace("test", &Default::default(), &role).await?;
    let client = env.client_for(&operator())?;
    let running = tokio::spawn(operator().run_until(client, std::future::pending()));
    env.create(&widget("one", "red")).await?;
    env.wait("one", |widget| shown(widget) == Some("red")).await?;
    env.delete::<ConfigMap>("mine").await?;
    env.wait("mine", |map: Option<&ConfigMap>| map.is_some()).await?;
    running.abort();
    Ok(())
}
