//! The operator on the embedded cluster, or on the one of STEERSMAN_TEST_KUBECONFIG.
#![allow(clippy::disallowed_names, reason = "the kind is named so")]

use foo_operator::{Foo, FooSpec, operator};
use k8s_openapi::api::{apps::v1::Deployment, events::v1::Event};
use kube::{ResourceExt as _, api::ListParams};
use serde_json::json;
use steersman::{
    Result,
    testing::{TestEnv, object},
};

async fn start() -> Result<TestEnv> {
    let mut env = TestEnv::start().await?;
    env.deploy(operator()).await?;
    Ok(env)
}

fn foo(name: &str, deployment: &str, replicas: i32) -> Foo {
    Foo::new(name, FooSpec { deployment_name: deployment.into(), replicas: Some(replicas) })
}

fn available(foo: Option<&Foo>) -> Option<i32> {
    Some(foo?.status.as_ref()?.available_replicas)
}

async fn reasons(env: &TestEnv) -> Result<Vec<String>> {
    let events = env.api::<Event>().list(&ListParams::default()).await?;
    Ok(events.items.into_iter().filter_map(|event| event.reason).collect())
}

#[tokio::test]
async fn a_deployment_of_the_chosen_name_is_kept() -> Result<()> {
    let env = start().await?;
    env.create(&foo("one", "web", 2)).await?;
    env.wait("one", |foo| available(foo) == Some(2)).await?;
    let deployment: Deployment = env.api().get("web").await?;
    assert_eq!(deployment.owner_references()[0].kind, "Foo");
    env.patch::<Foo>("one", json!({"spec": {"replicas": 1}})).await?;
    env.wait("one", |foo| available(foo) == Some(1)).await?;
    env.quiet().await;
    assert!(reasons(&env).await?.contains(&"Synced".to_owned()));
    Ok(())
}

#[tokio::test]
async fn a_deployment_of_another_owner_is_left_alone() -> Result<()> {
    let env = start().await?;
    let theirs: Deployment = object(json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
    }));
    env.create(&theirs).await?;
    env.create(&foo("one", "web", 2)).await?;
    while !reasons(&env).await?.contains(&"ErrResourceExists".to_owned()) {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let live: Deployment = env.api().get("web").await?;
    assert_eq!(live.spec.and_then(|spec| spec.replicas), Some(1));
    // It continues as soon as the name is free.
    env.delete::<Deployment>("web").await?;
    env.wait("one", |foo| available(foo) == Some(2)).await?;
    Ok(())
}

#[test]
fn the_manifests_are_current() -> Result<()> {
    steersman::testing::manifests_match(
        &operator(),
        concat!(env!("CARGO_MANIFEST_DIR"), "/config/manifests.yaml"),
    )
}
