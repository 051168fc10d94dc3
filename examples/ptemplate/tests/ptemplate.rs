//! The operator on the embedded cluster, or on the one of STEERSMAN_TEST_KUBECONFIG.

use k8s_openapi::{
    api::apps::v1::DaemonSet, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
    core::DynamicObject,
};
use ptemplate_operator::{Ptemplate, module_kind, operator};
use serde_json::json;
use steersman::{
    Conditions as _, Result,
    testing::{TestEnv, object},
};

/// A minimal replacement for KMM's CustomResourceDefinition.
fn kmm() -> CustomResourceDefinition {
    object(json!({
        "metadata": {"name": "modules.kmm.sigs.x-k8s.io"},
        "spec": {
            "group": "kmm.sigs.x-k8s.io", "scope": "Namespaced",
            "names": {"kind": "Module", "plural": "modules", "singular": "module"},
            "versions": [{"name": "v1beta1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    }))
}

fn template() -> Ptemplate {
    object(json!({
        "metadata": {"name": "one"},
        "spec": {"maxdev": 2, "defaultmsg": "hello", "consumerimage": "consumer:1", "requiredDevices": 2,
            "imageRepoSecret": {"name": "pull"}, "selector": {"kubernetes.io/os": "linux"}},
    }))
}

fn condition<'a>(template: Option<&'a Ptemplate>, type_: &str) -> Option<&'a str> {
    Some(template?.status.as_ref()?.conditions.find(type_)?.reason.as_str())
}

#[tokio::test]
async fn a_missing_kmm_is_told_and_its_arrival_noticed() -> Result<()> {
    let mut env = TestEnv::start().await?;
    env.uninstall(&kmm()).await?;
    env.deploy(operator()).await?;
    env.create(&template()).await?;
    env.wait("one", |template| condition(template, "ModuleApplied") == Some("KMMAbsent")).await?;
    env.install(&kmm()).await?;
    env.wait("one", |template| condition(template, "ModuleApplied") == Some("Applied")).await?;
    Ok(())
}

#[tokio::test]
async fn module_and_consumers_are_kept() -> Result<()> {
    let mut env = TestEnv::start().await?;
    env.install(&kmm()).await?;
    env.deploy(operator()).await?;
    env.create(&template()).await?;
    env.wait("one", |template| condition(template, "ModuleApplied") == Some("Applied")).await?;
    let modules: Api<DynamicObject> = Api::default_namespaced_with(env.client(), module_kind().resource());
    let module = modules.get("one").await?;
    let container = &module.data["spec"]["moduleLoader"]["container"];
    assert_eq!(container["modprobe"]["parameters"], json!(["max_dev=2", "default_msg=hello"]));
    assert_eq!(module.data["spec"]["imageRepoSecret"], json!({"name": "pull"}));
    assert_eq!(module.owner_references()[0].kind, "Ptemplate");
    let set = env.wait("one-consumer", |set: Option<&DaemonSet>| set.is_some()).await?.unwrap_or_default();
    let pod = set.spec.unwrap_or_default().template.spec.unwrap_or_default();
    assert_eq!(pod.volumes.unwrap_or_default().len(), 2);
    assert_eq!(pod.node_selector.unwrap_or_default()["kubernetes.io/os"], "linux");

    // Drift is corrected.
    let drift = Patch::Merge(json!({"spec": {"selector": {"kubernetes.io/os": "other"}}}));
    modules.patch("one", &PatchParams::default(), &drift).await?;
    env.wait_in(modules, "one", |module| {
        module.is_some_and(|module| module.data["spec"]["selector"]["kubernetes.io/os"] == "linux")
    })
    .await?;

    // Without changes, nothing is written, not even after a restart.
    env.quiet().await;
    let before = env.writes();
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
