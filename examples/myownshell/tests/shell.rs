//! The operator on the embedded cluster, or on the one of STEERSMAN_TEST_KUBECONFIG.

use k8s_openapi::api::{apps::v1::Deployment, events::v1::Event};
use kube::{ResourceExt, api::ListParams};
use myownshell_operator::{FINALIZER, MyOwnShell, MyOwnShellSpec, operator};
use serde_json::json;
use steersman::{Conditions as _, Result, testing::TestEnv};

async fn start() -> Result<TestEnv> {
    let mut env = TestEnv::start().await?;
    env.deploy(operator()).await?;
    Ok(env)
}

fn shell(size: i32) -> MyOwnShell {
    MyOwnShell::new("sample", MyOwnShellSpec { size })
}

fn available(shell: Option<&MyOwnShell>, size: i32) -> bool {
    let Some(status) = shell.and_then(|shell| shell.status.as_ref()) else { return false };
    status.ready_replicas == size && status.conditions.is_true("Available")
}

#[tokio::test]
async fn shells_follow_the_size() -> Result<()> {
    let env = start().await?;
    env.create(&shell(2)).await?;
    let found = env.wait("sample", |shell| available(shell, 2)).await?;
    let found = found.as_ref().map(ResourceExt::finalizers);
    assert_eq!(found, Some(&[FINALIZER.to_owned()][..]));

    let deployment: Deployment = env.api().get("sample").await?;
    assert_eq!(deployment.labels()["app"], "myownshell");
    assert_eq!(deployment.labels()["myownshell_cr"], "sample");
    assert_eq!(deployment.finalizers(), [FINALIZER]);
    let owner = &deployment.owner_references()[0];
    assert_eq!(
        (owner.kind.as_str(), owner.controller, owner.block_owner_deletion),
        ("MyOwnShell", Some(true), Some(true))
    );

    env.patch::<MyOwnShell>("sample", json!({"spec": {"size": 3}})).await?;
    env.wait("sample", |shell| available(shell, 3)).await?;
    Ok(())
}

#[tokio::test]
async fn outside_edits_are_undone() -> Result<()> {
    let env = start().await?;
    env.create(&shell(1)).await?;
    env.wait("sample", |shell| available(shell, 1)).await?;
    env.patch::<Deployment>("sample", json!({"spec": {"replicas": 7}})).await?;
    let replicas = |deployment: Option<&Deployment>| deployment?.spec.as_ref()?.replicas;
    env.wait("sample", |deployment| replicas(deployment) == Some(1)).await?;
    env.patch::<Deployment>("sample", json!({"metadata": {"labels": {"app": null}}})).await?;
    env.wait("sample", |found: Option<&Deployment>| {
        found.is_some_and(|found| found.labels().contains_key("app"))
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_deleted_deployment_comes_back() -> Result<()> {
    let env = start().await?;
    env.create(&shell(1)).await?;
    env.wait("sample", |shell| available(shell, 1)).await?;
    let uid = env.api::<Deployment>().get("sample").await?.uid();
    env.delete::<Deployment>("sample").await?;
    env.wait("sample", |found: Option<&Deployment>| found.is_some_and(|found| found.uid() != uid)).await?;
    env.wait("sample", |shell| available(shell, 1)).await?;
    Ok(())
}

#[tokio::test]
async fn both_finalizers_are_honoured() -> Result<()> {
    let env = start().await?;
    env.create(&shell(1)).await?;
    env.wait("sample", |shell| available(shell, 1)).await?;
    env.delete::<MyOwnShell>("sample").await?;
    env.wait("sample", |shell: Option<&MyOwnShell>| shell.is_none()).await?;
    env.wait("sample", |deployment: Option<&Deployment>| deployment.is_none()).await?;
    env.quiet().await;
    let events = env.api::<Event>().list(&ListParams::default()).await?;
    assert!(events.items.iter().any(|event| event.reason.as_deref() == Some("Deleting")));
    Ok(())
}

#[tokio::test]
async fn nothing_is_written_when_nothing_changes() -> Result<()> {
    let mut env = start().await?;
    env.create(&shell(2)).await?;
    env.wait("sample", |shell| available(shell, 2)).await?;
    env.quiet().await;
    let before = env.writes();
    // After a restart, every object is reconciled again.
    env.stop().await?;
    env.deploy(operator()).await?;
    env.quiet().await;
    assert_eq!(env.writes(), before);
    Ok(())
}

#[test]
fn the_manifests_are_current() -> Result<()> {
    steersman::testing::manifests_match(
        &operator(),
        concat!(env!("CARGO_MANIFEST_DIR"), "/config/manifests.yaml"),
    )
}
