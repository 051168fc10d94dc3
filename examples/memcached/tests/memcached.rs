//! The operator on the embedded cluster, or on the one of STEERSMAN_TEST_KUBECONFIG.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::ResourceExt as _;
use memcached_operator::{IMAGE, Memcached, operator};
use serde_json::json;
use steersman::{
    Conditions as _, Result,
    testing::{TestEnv, object, review},
};

async fn start() -> Result<TestEnv> {
    let mut env = TestEnv::start().await?;
    env.deploy(operator()).await?;
    Ok(env)
}

fn memcached(size: i32) -> Memcached {
    object(json!({"metadata": {"name": "cache"}, "spec": {"size": size}}))
}

fn nodes(memcached: Option<&Memcached>) -> usize {
    let status = memcached.and_then(|memcached| memcached.status.as_ref());
    status.filter(|status| status.conditions.is_true("Available")).map_or(0, |status| status.nodes.len())
}

#[tokio::test]
async fn pods_are_named_in_the_status() -> Result<()> {
    let env = start().await?;
    env.create(&memcached(3)).await?;
    let found = env.wait("cache", |memcached| nodes(memcached) == 3).await?;
    let status = found.and_then(|memcached| memcached.status).unwrap_or_default();
    assert_eq!((status.replicas, status.selector.as_str()), (3, "app.kubernetes.io/instance=cache"));
    for node in &status.nodes {
        env.api::<Pod>().get(node).await?;
    }
    let deployment: Deployment = env.api().get("cache").await?;
    let container = &deployment.spec.unwrap_or_default().template.spec.unwrap_or_default().containers[0];
    assert_eq!(container.image.as_deref(), Some(IMAGE));
    env.delete::<Pod>(&status.nodes[0]).await?;
    env.wait("cache", |memcached: Option<&Memcached>| {
        nodes(memcached) == 3
            && memcached
                .is_some_and(|found| found.status.as_ref().is_some_and(|now| now.nodes != status.nodes))
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn the_scale_subresource_changes_the_size() -> Result<()> {
    let env = start().await?;
    env.create(&memcached(1)).await?;
    env.wait("cache", |memcached| nodes(memcached) == 1).await?;
    let api = env.api::<Memcached>();
    assert_eq!(api.get_scale("cache").await?.status.map(|status| status.replicas), Some(1));
    let patch = kube::api::Patch::Merge(json!({"spec": {"replicas": 3}}));
    api.patch_scale("cache", &Default::default(), &patch).await?;
    env.wait("cache", |memcached| nodes(memcached) == 3).await?;
    Ok(())
}

#[test]
fn webhooks_fill_in_defaults_and_refuse_nonsense() {
    let defaulted = review(&operator(), "mutate", None, Some(&memcached(1))).unwrap();
    assert_eq!(defaulted.spec.container_port, Some(11211));
    assert_eq!(defaulted.spec.image.as_deref(), Some(IMAGE));
    let message = review(&operator(), "validate", None, Some(&memcached(2))).unwrap_err();
    assert_eq!(message, "spec.size: must be odd, and is 2");
    let (mut old, mut new) = (memcached(1), memcached(3));
    old.spec.container_port = Some(1);
    new.spec.container_port = Some(2);
    let message = review(&operator(), "validate", Some(&old), Some(&new)).unwrap_err();
    assert_eq!(message, "spec.containerPort: can't be changed");
    new.spec.container_port = Some(1);
    assert!(review(&operator(), "validate", Some(&old), Some(&new)).is_ok());
    assert_eq!(new.name_any(), "cache");
}

#[test]
fn the_manifests_are_current() -> Result<()> {
    steersman::testing::manifests_match(
        &operator(),
        concat!(env!("CARGO_MANIFEST_DIR"), "/config/manifests.yaml"),
    )
}
