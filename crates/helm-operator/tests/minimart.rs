//! The Minimart example, from its first to its last object, in virtual time: idle minutes take no time.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde_json::{Value, json};
use steersman::Operator;
use steersman::testing::TestEnv;
use steersman_helm_operator::{Defaults, FINALIZER, WatchConfig, add_watches};

fn example() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/minimart")
}

fn resource() -> ApiResource {
    ApiResource {
        group: "charts.samutup.com".into(),
        version: "v1alpha1".into(),
        api_version: "charts.samutup.com/v1alpha1".into(),
        kind: "Minimart".into(),
        plural: "minimarts".into(),
    }
}

struct Shop {
    env: TestEnv,
    shops: Api<DynamicObject>,
}

impl Shop {
    async fn open() -> Self {
        let env = TestEnv::start().await.unwrap();
        let text =
            std::fs::read(example().join("config/crd/bases/charts.samutup.com_minimarts.yaml")).unwrap();
        let crd: CustomResourceDefinition = steersman_yaml::from_slice_as(&text).unwrap();
        env.install(&crd).await.unwrap();
        let shops = Api::namespaced_with(env.client(), "default", &resource());
        let mut shop = Self { env, shops };
        shop.run().await;
        shop
    }

    async fn run(&mut self) {
        let watches = WatchConfig::load(example().join("watches.yaml")).unwrap();
        let client = self.env.client();
        let operator = add_watches(Operator::new("helm-operator"), &watches, &Defaults::default(), &client)
            .await
            .unwrap();
        self.env.run(operator);
    }

    async fn create(&self, name: &str, spec: Value) {
        let object = json!({
            "apiVersion": "charts.samutup.com/v1alpha1", "kind": "Minimart", "metadata": { "name": name }, "spec": spec,
        });
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.shops.create(&PostParams::default(), &object).await.unwrap();
    }

    async fn patch(&self, name: &str, patch: Value) {
        self.shops.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    async fn until(&self, name: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let is = |object: Option<&DynamicObject>| object.is_some_and(|object| is(&json!(object)));
        match self.env.wait_in(self.shops.clone(), name, is).await {
            Ok(found) => json!(found),
            Err(error) => panic!("{name} is not {what}: {error}"),
        }
    }

    /// Returns the resourceVersions of everything that the operator writes.
    async fn versions(&self) -> BTreeMap<String, String> {
        let client = self.env.client();
        let mut versions = BTreeMap::new();
        for shop in self.shops.list(&ListParams::default()).await.unwrap() {
            versions.insert(format!("Minimart/{}", shop.name_any()), shop.resource_version().unwrap());
        }
        add::<Deployment>(&client, &mut versions).await;
        add::<ConfigMap>(&client, &mut versions).await;
        add::<Secret>(&client, &mut versions).await;
        add::<Service>(&client, &mut versions).await;
        add::<ServiceAccount>(&client, &mut versions).await;
        add::<k8s_openapi::api::events::v1::Event>(&client, &mut versions).await;
        versions
    }

    async fn ready(&self, name: &str) -> Value {
        self.until(name, "ready", |found| status_of(found, "Ready").as_deref() == Some("True")).await
    }
}

async fn add<K>(client: &Client, versions: &mut BTreeMap<String, String>)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::default_namespaced(client.clone());
    for found in api.list(&ListParams::default()).await.unwrap() {
        versions.insert(format!("{}/{}", K::kind(&()), found.name_any()), found.resource_version().unwrap());
    }
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
}

fn status_of(object: &Value, kind: &str) -> Option<String> {
    condition(object, kind)?["status"].as_str().map(str::to_owned)
}

#[tokio::test(start_paused = true)]
async fn a_shop_opens_changes_and_closes() {
    let shop = Shop::open().await;
    let client = shop.env.client();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "default");
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");

    shop.create("corner", json!({ "replicaCount": 2 })).await;
    let opened = shop.ready("corner").await;
    assert_eq!(opened["metadata"]["finalizers"], json!([FINALIZER]));
    let deployed = condition(&opened, "Deployed").unwrap();
    assert_eq!(deployed["reason"], "InstallSuccessful");
    assert!(deployed["message"].as_str().unwrap().contains("Minimart is open"));
    assert!(condition(&opened, "ReleaseFailed").is_none());
    assert_eq!(opened["status"]["deployedRelease"]["name"], "corner");
    assert!(opened["status"]["deployedRelease"]["manifest"].as_str().unwrap().contains("kind: Deployment"));
    let live = deployments.get("corner-minimart").await.unwrap();
    let owner = &live.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.controller), ("Minimart", Some(true)));
    assert_eq!(live.metadata.labels.as_ref().unwrap()["helm.sdk.operatorframework.io/chart"], "minimart");

    // Nothing is written while nothing happens.
    shop.env.quiet().await;
    let versions = shop.versions().await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(shop.versions().await, versions, "a write without a difference");

    // An upgrade.
    shop.patch("corner", json!({ "spec": { "replicaCount": 3, "shop": { "name": "Bigger" } } })).await;
    shop.until("corner", "upgraded", |found| {
        condition(found, "Deployed").is_some_and(|one| one["reason"] == "UpgradeSuccessful")
    })
    .await;
    let upgraded = shop.ready("corner").await;
    assert_eq!(upgraded["status"]["history"].as_array().unwrap().len(), 2);
    assert_eq!(deployments.get("corner-minimart").await.unwrap().spec.unwrap().replicas, Some(3));

    // Drift: something is deleted, something is changed.
    deployments.delete("corner-minimart", &DeleteParams::default()).await.unwrap();
    let patch = Patch::Merge(json!({ "data": { "index.html": "vandalism" } }));
    maps.patch("corner-minimart", &PatchParams::default(), &patch).await.unwrap();
    let is_back = |found: Option<&Deployment>| found.is_some();
    shop.env.wait("corner-minimart", is_back).await.unwrap();
    let is_mended = |map: Option<&ConfigMap>| {
        map.and_then(|map| map.data.as_ref()).is_some_and(|data| data["index.html"] != "vandalism")
    };
    shop.env.wait("corner-minimart", is_mended).await.unwrap();
    shop.ready("corner").await;

    // The end.
    shop.shops.delete("corner", &DeleteParams::default()).await.unwrap();
    shop.env
        .wait_in(shop.shops.clone(), "corner", |found: Option<&DynamicObject>| found.is_none())
        .await
        .unwrap();
    assert!(deployments.get_opt("corner-minimart").await.unwrap().is_none());
    let left = secrets.list(&ListParams::default().labels("owner=helm")).await.unwrap();
    assert!(left.items.is_empty(), "{:?}", left.items);
}

#[tokio::test(start_paused = true)]
async fn a_failure_says_where_and_is_rolled_back() {
    let shop = Shop::open().await;
    shop.create("corner", json!({})).await;
    shop.ready("corner").await;
    // The chart's schema does not allow this.
    shop.patch("corner", json!({ "spec": { "replicaCount": "many" } })).await;
    let failed = shop
        .until("corner", "failed", |found| status_of(found, "ReleaseFailed").as_deref() == Some("True"))
        .await;
    let condition = condition(&failed, "ReleaseFailed").unwrap();
    assert_eq!(condition["reason"], "UpgradeError");
    assert!(condition["message"].as_str().unwrap().contains("replicaCount"), "{condition}");
    shop.patch("corner", json!({ "spec": { "replicaCount": 1 } })).await;
    let mended = shop
        .until("corner", "mended", |found| {
            status_of(found, "ReleaseFailed").is_none()
                && status_of(found, "Ready").as_deref() == Some("True")
        })
        .await;
    assert_eq!(status_of(&mended, "Deployed").as_deref(), Some("True"));
}

#[tokio::test(start_paused = true)]
async fn a_restart_changes_nothing() {
    let mut shop = Shop::open().await;
    shop.create("corner", json!({})).await;
    shop.ready("corner").await;
    shop.env.quiet().await;
    shop.env.stop().await.unwrap();
    let before = shop.versions().await;
    shop.run().await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(shop.versions().await, before, "a restart writes nothing");
}

#[tokio::test(start_paused = true)]
async fn unready_workloads_are_told() {
    let shop = Shop::open().await;
    let broken = json!({ "podAnnotations": { "cluster.steersman.dev/fail": "image-pull" } });
    shop.create("corner", broken).await;
    let waiting = shop
        .until("corner", "waiting", |found| {
            condition(found, "Ready")
                .is_some_and(|one| one["message"].as_str().unwrap().contains("ImagePull"))
        })
        .await;
    assert_eq!(status_of(&waiting, "Deployed").as_deref(), Some("True"), "the release itself is deployed");
    assert_eq!(status_of(&waiting, "Ready").as_deref(), Some("False"));
    let message = condition(&waiting, "Ready").unwrap()["message"].as_str().unwrap();
    assert!(message.contains("Deployment/corner-minimart"), "{message}");
}
