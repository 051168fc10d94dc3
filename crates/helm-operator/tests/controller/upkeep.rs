//! Dependents: drift correction and readiness.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use steersman::Kind;
use steersman_helm_operator::{Ignore, ReleaseController};
use tokio::time::Instant;

use crate::shop::{Lab, after, chart, condition, controller, status_of};

#[tokio::test(start_paused = true)]
async fn what_others_change_is_brought_back() {
    let lab = Lab::start(controller(chart())).await;
    lab.create("shop", json!({ "far": "den" })).await;
    lab.ready("shop").await;
    lab.tamper("shop", json!({ "mood": "odd", "more": "stays" })).await;
    lab.in_mood("shop", "calm").await;
    assert_eq!(lab.data("shop", "more").await.as_deref(), Some("stays"));
    let events = lab.events().await;
    let note = "DriftCorrected: ConfigMap/shop in namespace lab was changed by others and has been restored";
    assert!(events.contains(&note.to_owned()), "{events:?}");
    lab.maps.delete("shop", &DeleteParams::default()).await.unwrap();
    lab.in_mood("shop", "calm").await;
    let events = lab.events().await;
    let note = "DriftCorrected: ConfigMap/shop in namespace lab was deleted by others and has been restored";
    assert!(events.contains(&note.to_owned()), "{events:?}");

    // One in another namespace names its owner by annotations.
    let den: Api<ConfigMap> = Api::namespaced(lab.client.clone(), "den");
    den.delete("far", &DeleteParams::default()).await.unwrap();
    lab.env.wait_in(den, "far", |map: Option<&ConfigMap>| map.is_some()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_watches_it_is_brought_back_at_the_next_turn() {
    let controller = controller(chart()).watch_dependents(false).period(Duration::from_secs(300));
    let lab = Lab::start(controller).await;
    let started = Instant::now();
    lab.create("shop", json!({})).await;
    lab.until("shop", "ready", |shop| status_of(shop, "Ready").as_deref() == Some("True")).await;
    assert!(started.elapsed() < Duration::from_secs(5), "what was just made is read from the cluster");
    lab.env.quiet().await;
    lab.tamper("shop", json!({ "mood": "odd" })).await;
    after(120).await;
    assert_eq!(lab.data("shop", "mood").await.as_deref(), Some("odd"));
    after(300).await;
    assert_eq!(lab.data("shop", "mood").await.as_deref(), Some("calm"));
}

#[tokio::test(start_paused = true)]
async fn what_is_ignored_stays_as_others_have_it() {
    let rule = |kind: Option<&str>, name: Option<&str>, paths: &[&str]| Ignore {
        kind: kind.map(str::to_owned),
        name: name.map(str::to_owned),
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
    };
    let rules = vec![
        rule(Some("ConfigMap"), Some("shop"), &["/data/mood"]),
        rule(Some("Secret"), Some("one"), &["/data/mood"]),
        rule(None, Some("two"), &["/data/fixed"]),
        rule(Some("Secret"), None, &["/data/fixed"]),
    ];
    let lab = Lab::start(controller(chart()).ignore(rules)).await;
    lab.create("shop", json!({ "extra": ["one", "two"] })).await;
    lab.ready("shop").await;
    for map in ["shop", "one", "two"] {
        lab.tamper(map, json!({ "mood": "odd", "fixed": "2" })).await;
    }
    after(30).await;
    lab.ready("shop").await;
    let read = |map: &'static str| {
        let lab = &lab;
        async move { (lab.data(map, "mood").await.unwrap(), lab.data(map, "fixed").await.unwrap()) }
    };
    assert_eq!(read("shop").await, ("odd".to_owned(), "1".to_owned()));
    assert_eq!(read("one").await, ("calm".to_owned(), "1".to_owned()));
    assert_eq!(read("two").await, ("calm".to_owned(), "2".to_owned()));
    // A change of ignored fields only is not drift.
    let events = lab.events().await.len();
    lab.tamper("shop", json!({ "mood": "odder" })).await;
    after(30).await;
    assert_eq!(lab.data("shop", "mood").await.as_deref(), Some("odder"));
    assert_eq!(lab.events().await.len(), events);
    // An ignored field that others removed stays removed.
    lab.tamper("shop", json!({ "mood": null, "fixed": "3" })).await;
    after(30).await;
    assert_eq!(
        (lab.data("shop", "mood").await, lab.data("shop", "fixed").await.as_deref()),
        (None, Some("1"))
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_not_ready_is_named() {
    let lab = Lab::start(controller(chart())).await;
    for (pods, rest) in [(3, ""), (4, "; and 1 more"), (5, "; and 2 more")] {
        let name = format!("shop-{pods}");
        lab.create(&name, json!({ "pods": pods, "fail": "never-ready" })).await;
        let is_told = |shop: &serde_json::Value| {
            let told = condition(shop, "Ready").and_then(|ready| ready["message"].as_str());
            told.is_some_and(|told| told.contains("web-2: 0 of 1 replicas are ready"))
        };
        let shop = lab.until(&name, "told", is_told).await;
        let ready = condition(&shop, "Ready").unwrap();
        assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!("WorkloadsNotReady")));
        let part = |index: usize| format!("Deployment/web-{index}: 0 of 1 replicas are ready");
        let expected = format!("{}; {}; {}{rest}", part(0), part(1), part(2));
        assert_eq!(ready["message"], expected);
        lab.delete(&name).await;
    }
    // Once they are ready, that is detected although pods are not watched.
    lab.create("shop", json!({ "pods": 1, "fail": "never-ready" })).await;
    lab.message("shop", "Ready", "False").await;
    lab.patch("shop", json!({ "spec": { "fail": "" } })).await;
    let shop = lab.ready("shop").await;
    assert_eq!(condition(&shop, "Ready").unwrap()["message"], "all 2 objects are ready");
    assert_eq!(condition(&shop, "Ready").unwrap()["reason"], "WorkloadsReady");
}

#[tokio::test(start_paused = true)]
async fn pods_say_why_they_do_not_run() {
    let lab = Lab::start(controller(chart())).await;
    lab.create("shop", json!({ "pods": 1, "fail": "image-pull" })).await;
    let is_told = |shop: &serde_json::Value| {
        let told = condition(shop, "Ready").and_then(|ready| ready["message"].as_str());
        told.is_some_and(|told| {
            told.starts_with("Deployment/web-0: 0 of 1 replicas are ready (Pod/web-0-")
                && told.contains("Image")
        })
    };
    lab.until("shop", "told", is_told).await;
}

#[tokio::test(start_paused = true)]
async fn a_chart_may_be_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: shop}, data: {mood: calm}}";
    std::fs::create_dir(directory.path().join("templates")).unwrap();
    std::fs::write(directory.path().join("templates/a.yaml"), map).unwrap();
    std::fs::write(directory.path().join("Chart.yaml"), "{apiVersion: v2, name: shop, version: 1.0.0}")
        .unwrap();
    let kind = Kind::dynamic(crate::shop::resource(), true);
    let lab = Lab::start(ReleaseController::from_path(kind.clone(), directory.path()).unwrap()).await;
    lab.create("shop", json!({})).await;
    lab.in_mood("shop", "calm").await;
    assert!(ReleaseController::from_path(kind, directory.path().join("nothing")).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_mark_of_another_owner_protects_an_object() {
    let lab = Lab::start(controller(chart())).await;
    lab.create("shop", json!({ "extra": ["one", "two"] })).await;
    lab.ready("shop").await;
    let patch = json!({ "metadata": {
        "ownerReferences": null, "annotations": { "operator-sdk/primary-resource": "lab/other", "operator-sdk/primary-resource-type": "Shop.shops.example.com" },
    } });
    // While the object is paused.
    lab.annotate("shop", json!({ "helm.steersman.dev/paused": "true" })).await;
    lab.message("shop", "Paused", "True").await;
    lab.maps.patch("one", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let resume = json!({ "annotations": { "helm.steersman.dev/paused": null } });
    lab.patch("shop", json!({ "metadata": resume, "spec": { "extra": [] } })).await;
    let gone = |map: Option<&ConfigMap>| map.is_none();
    lab.env.wait_in(lab.maps.clone(), "two", gone).await.unwrap();
    lab.ready("shop").await;
    assert!(lab.has("one").await);
}
