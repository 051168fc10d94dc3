//! Annotations of an object, and the behaviour that they control.

use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use steersman_helm_operator::FINALIZER;

use crate::shop::{Lab, after, chart, condition, controller, status_of};

fn sdk(name: &str, value: &str) -> Value {
    json!({ format!("helm.sdk.operatorframework.io/{name}"): value })
}

#[tokio::test(start_paused = true)]
async fn a_paused_object_is_left_alone() {
    let lab = Lab::start(controller(chart())).await;
    let paused = json!({ "annotations": { "helm.steersman.dev/paused": "true" } });
    lab.create_with("shop", json!({}), paused).await;
    let shop = lab.until("shop", "paused", |shop| status_of(shop, "Paused").as_deref() == Some("True")).await;
    assert_eq!(condition(&shop, "Paused").unwrap()["reason"], "PauseReconcileAnnotationTrue");
    after(600).await;
    assert!(!lab.has("shop").await);
    lab.annotate("shop", json!({ "helm.steersman.dev/paused": "false" })).await;
    let shop = lab.ready("shop").await;
    assert!(condition(&shop, "Paused").is_none());
    assert_eq!(status_of(&shop, "Initialized").as_deref(), Some("True"));
}

#[tokio::test(start_paused = true)]
async fn hooks_are_left_out_where_an_annotation_says_so() {
    let marks = json!({ "marks": { "pre-install": "i", "pre-upgrade": "u", "pre-delete": "d" } });
    for disabled in ["install", "upgrade", "uninstall"] {
        let lab = Lab::start(controller(chart())).await;
        let annotations = sdk(&format!("{disabled}-disable-hooks"), "true");
        lab.create_with("shop", marks.clone(), json!({ "annotations": annotations })).await;
        lab.ready("shop").await;
        lab.patch("shop", json!({ "spec": { "mood": "wild" } })).await;
        lab.in_mood("shop", "wild").await;
        lab.delete("shop").await;
        for (mark, operation) in [("i", "install"), ("u", "upgrade"), ("d", "uninstall")] {
            assert_eq!(lab.has(mark).await, operation != disabled, "{mark} without hooks of {disabled}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn descriptions_are_those_of_annotations() {
    let lab = Lab::start(controller(chart())).await;
    lab.create("plain", json!({})).await;
    lab.ready("plain").await;
    assert_eq!(lab.releases.get("plain", None).await.unwrap().info.description, "Install complete");
    let mut annotations = sdk("install-description", "opened");
    annotations["helm.sdk.operatorframework.io/upgrade-description"] = json!("painted");
    lab.create_with("shop", json!({}), json!({ "annotations": annotations })).await;
    lab.ready("shop").await;
    assert_eq!(lab.releases.get("shop", None).await.unwrap().info.description, "opened");
    lab.patch("shop", json!({ "spec": { "mood": "wild" } })).await;
    let shop = lab.in_mood("shop", "wild").await;
    assert_eq!(lab.releases.get("shop", None).await.unwrap().info.description, "painted");
    let history = shop["status"]["history"].as_array().unwrap();
    let told: Vec<_> =
        history.iter().map(|one| (&one["revision"], &one["status"], &one["description"])).collect();
    assert_eq!(
        told,
        [
            (&json!(1), &json!("superseded"), &json!("opened")),
            (&json!(2), &json!("deployed"), &json!("painted")),
        ]
    );
    assert_eq!(history[0]["chart"], "shop-1.0.0");
    assert!(history[0]["updated"].as_str().unwrap().ends_with('Z'));
}

#[tokio::test(start_paused = true)]
async fn upgrades_replace_objects_by_force() {
    for (force, left) in [("false", Some("stays".to_owned())), ("true", None)] {
        let lab = Lab::start(controller(chart())).await;
        lab.create_with("shop", json!({}), json!({ "annotations": sdk("upgrade-force", force) })).await;
        lab.ready("shop").await;
        lab.tamper("shop", json!({ "more": "stays" })).await;
        lab.patch("shop", json!({ "spec": { "mood": "wild" } })).await;
        lab.in_mood("shop", "wild").await;
        assert_eq!(lab.data("shop", "more").await, left, "{force}");
    }
}

#[tokio::test(start_paused = true)]
async fn rollbacks_replace_objects_by_force() {
    for (force, left) in [("false", Some("stays".to_owned())), ("true", None)] {
        let lab = Lab::start(controller(chart())).await;
        lab.create_with("shop", json!({}), json!({ "annotations": sdk("rollback-force", force) })).await;
        lab.ready("shop").await;
        lab.tamper("shop", json!({ "more": "stays" })).await;
        lab.patch("shop", json!({ "spec": { "mood": "wild", "fails": { "post-upgrade": "1" } } })).await;
        lab.failed("shop").await;
        lab.pause("shop").await;
        assert_eq!(lab.data("shop", "mood").await.as_deref(), Some("calm"));
        assert_eq!(lab.data("shop", "more").await, left, "{force}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_waits_for_the_objects_if_asked() {
    let hold = json!({ "metadata": { "finalizers": ["shops.example.com/hold"] } });
    for is_waiting in [false, true] {
        let lab = Lab::start(controller(chart())).await;
        let annotations = sdk("uninstall-wait", if is_waiting { "t" } else { "yes" });
        lab.create_with("shop", json!({}), json!({ "annotations": annotations })).await;
        lab.ready("shop").await;
        let patch = kube::api::Patch::Merge(&hold);
        lab.maps.patch("shop", &Default::default(), &patch).await.unwrap();
        lab.shops.delete("shop", &DeleteParams::default()).await.unwrap();
        after(60).await;
        assert_eq!(lab.shops.get_opt("shop").await.unwrap().is_some(), is_waiting);
        assert_eq!(lab.records().await.len(), usize::from(is_waiting));
        let free = kube::api::Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        lab.maps.patch("shop", &Default::default(), &free).await.unwrap();
        after(60).await;
        assert!(lab.shops.get_opt("shop").await.unwrap().is_none() && lab.records().await.is_empty());
        let events = lab.events().await;
        let told = events.iter().filter(|event| *event == "UninstallSuccessful: uninstalled release shop");
        assert_eq!(told.count(), 1, "{events:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_annotation_that_makes_no_sense_is_told_of() {
    let lab = Lab::start(controller(chart())).await;
    lab.create_with("shop", json!({}), json!({ "annotations": sdk("reconcile-period", "soon") })).await;
    let message = lab.message("shop", "Irreconcilable", "True").await;
    assert!(message.starts_with("annotation helm.sdk.operatorframework.io/reconcile-period: "), "{message}");
    assert!(!lab.has("shop").await);
    lab.delete("shop").await;
}

#[tokio::test(start_paused = true)]
async fn the_finalizer_of_older_operators_goes_too() {
    let lab = Lab::start(controller(chart())).await;
    let finalizers = json!({ "finalizers": ["uninstall-helm-release", "shops.example.com/other"] });
    lab.create_with("shop", json!({}), finalizers).await;
    lab.ready("shop").await;
    assert!(lab.shops.get("shop").await.unwrap().finalizers().contains(&FINALIZER.to_owned()));
    lab.shops.delete("shop", &DeleteParams::default()).await.unwrap();
    after(30).await;
    assert_eq!(lab.shops.get("shop").await.unwrap().finalizers(), ["shops.example.com/other"]);
    assert!(!lab.has("shop").await);
}
