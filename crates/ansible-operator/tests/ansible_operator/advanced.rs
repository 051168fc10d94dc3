//! Each kind of operator-sdk's advanced sample, with the project's own plays. Needs Python and Ansible: `make test-ansible`
//! has them.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::ResourceExt as _;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use steersman::testing::object;

use crate::support::Lab;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plays/advanced").join(name)
}

async fn data(lab: &Lab, name: &str) -> Value {
    match lab.env.wait::<ConfigMap>(name, |map| map.is_some()).await {
        Ok(map) => json!(map.unwrap().data),
        Err(error) => panic!("{error}; {:#}", lab.statuses().await),
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python and Ansible: make test-ansible"]
async fn arguments_inventories_collections_and_spellings() {
    let mut lab = Lab::new(&[
        ("Arguments", "advanced/args.yml"),
        ("Spelling", "advanced/case.yml"),
        ("Inventory", "advanced/inventory.yml"),
        ("Collected", "advanced/selected.yml"),
    ])
    .await;
    lab.set("Spelling", "snakeCaseParameters", json!(false));
    lab.set("Collected", "playbook", Value::Null);
    lab.set("Collected", "role", json!("example.advanced.collected"));
    let password = path("vault_password").display().to_string();
    lab.options.runner.arguments =
        ["--vault-password-file", &password, "-e", "given=word"].map(str::to_owned).to_vec();
    lab.options.runner.inventory = Some(path("inventory"));
    lab.options.runner.collections_path = vec![path("collections")];
    lab.run().await;
    lab.create("Arguments", "one", json!({})).await;
    lab.create("Spelling", "one", json!({ "camelCaseVar": "yes" })).await;
    lab.create("Inventory", "one", json!({})).await;
    lab.create("Collected", "one", json!({})).await;
    assert_eq!(data(&lab, "args").await, json!({ "word": "the vaulted word", "given": "word" }));
    assert_eq!(data(&lab, "case").await, json!({ "shouldBeCamel": "yes", "isSnake": "False" }));
    assert_eq!(data(&lab, "inventory").await, json!({ "sentinel": "drow" }));
    assert_eq!(data(&lab, "collected").await, json!({ "role": "example.advanced.collected" }));
    for kind in ["Arguments", "Spelling", "Inventory", "Collected"] {
        lab.succeeded(kind, "one").await;
    }
    lab.env.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python and Ansible: make test-ansible"]
async fn dependents_outside_of_the_namespace_are_watched() {
    let mut lab = Lab::new(&[("Wide", "advanced/cluster.yml")]).await;
    lab.set("Wide", "watchClusterScopedResources", json!(true));
    let far = format!("{}-far", lab.namespace());
    lab.more_namespaces = vec![far.clone()];
    lab.run().await;
    lab.create("Wide", "one", json!({ "far": far })).await;
    lab.succeeded("Wide", "one").await;
    let maps = lab.api_in::<ConfigMap>(&far);
    let roles: Api<ClusterRole> = Api::all(lab.env.client());
    let owner = format!("{}/one", lab.namespace());
    let map = maps.get("far").await.unwrap();
    let role = roles.get(&far).await.unwrap();
    for annotations in [map.annotations(), role.annotations()] {
        assert_eq!(annotations["operator-sdk/primary-resource"], owner);
        assert_eq!(annotations["operator-sdk/primary-resource-type"], "Wide.plays.example.com");
    }
    // Both are restored.
    maps.delete("far", &Default::default()).await.unwrap();
    let is_new = |found: Option<&ConfigMap>| found.is_some_and(|found| found.uid() != map.uid());
    lab.env.wait_in(maps, "far", is_new).await.unwrap();
    roles.delete(&far, &Default::default()).await.unwrap();
    let is_new = |found: Option<&ClusterRole>| found.is_some_and(|found| found.uid() != role.uid());
    lab.env.wait_in(roles.clone(), &far, is_new).await.unwrap();
    lab.env.stop().await.unwrap();
    roles.delete(&far, &Default::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python and Ansible: make test-ansible"]
async fn an_object_that_is_deleted_during_its_run_gets_its_final_run() {
    let mut lab = Lab::new(&[("Concurrent", "advanced/concurrent.yml")]).await;
    lab.set(
        "Concurrent",
        "finalizer",
        json!({ "name": "plays.example.com/concurrent", "vars": { "state": "absent" } }),
    );
    lab.run().await;
    lab.create("Concurrent", "one", json!({})).await;
    data(&lab, "under-way").await;
    lab.delete("Concurrent", "one").await;
    assert!(lab.get("Concurrent", "one").await["metadata"]["deletionTimestamp"].is_string());
    lab.env.create(&object::<ConfigMap>(json!({ "metadata": { "name": "go-on" } }))).await.unwrap();
    lab.gone("Concurrent", "one").await;
    assert!(lab.env.api::<ConfigMap>().get_opt("under-way").await.unwrap().is_none());
    lab.env.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python and Ansible: make test-ansible"]
async fn plays_ask_for_more_rounds_and_selectors_choose() {
    let mut lab = Lab::new(&[("Rounds", "advanced/rounds.yml"), ("Selected", "advanced/selected.yml")]).await;
    lab.set("Rounds", "watchDependentResources", json!(false));
    lab.set("Selected", "selector", json!({ "matchLabels": { "chosen": "yes" } }));
    lab.watch(json!({
        "version": "v1", "kind": "Secret", "playbook": "advanced/secret.yml", "manageStatus": false, "markUnsafe": true,
        "selector": { "matchLabels": { "chosen": "yes" } },
    }));
    lab.run().await;
    lab.create("Rounds", "one", json!({})).await;
    lab.create("Selected", "left", json!({})).await;
    let chosen = json!({
        "apiVersion": "plays.example.com/v1", "kind": "Selected", "metadata": { "name": "chosen", "labels": { "chosen": "yes" } },
    });
    lab.objects("Selected").create(&PostParams::default(), &object(chosen)).await.unwrap();
    let secret = json!({
        "metadata": { "name": "login", "labels": { "chosen": "yes" } }, "stringData": { "password": "hunter2secret" },
    });
    lab.env.create(&object::<Secret>(secret)).await.unwrap();
    assert_eq!(data(&lab, "of-login").await, json!({ "keys": "password" }));
    lab.succeeded("Selected", "chosen").await;
    let is_fifth = |map: Option<&ConfigMap>| {
        map.and_then(|map| map.data.as_ref()?.get("rounds")).is_some_and(|rounds| rounds == "5")
    };
    lab.env.wait::<ConfigMap>("rounds", is_fifth).await.unwrap();
    assert!(lab.get("Selected", "left").await["status"].is_null(), "it has no label");
    assert!(lab.env.api::<ConfigMap>().get_opt("left").await.unwrap().is_none());
    lab.env.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python and Ansible: make test-ansible"]
async fn subresources_are_passed_on() {
    let mut lab = Lab::new(&[("Subresources", "advanced/subresources.yml")]).await;
    lab.run().await;
    lab.create("Subresources", "one", json!({ "hasNodes": lab.has_nodes() })).await;
    let done = lab.succeeded("Subresources", "one").await;
    if lab.env.cluster().is_some() {
        assert_eq!(done["status"]["logged"], true, "{done:#}");
    }
    // The embedded cluster does not support exec; the error is the cluster's, not the proxy's.
    let exec = done["status"]["exec"].as_str().unwrap();
    assert!(!exec.is_empty() && !exec.contains("the proxy"), "{exec}");
    lab.env.stop().await.unwrap();
}
