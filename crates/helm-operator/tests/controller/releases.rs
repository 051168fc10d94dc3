//! Releases that fail, that existed before, and that belong to another owner.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use serde_json::{Value, json};
use steersman_chart::Values;
use steersman_helm_operator::KEY_SECRET;
use steersman_release::{Options, Status, UninstallOptions};

use crate::shop::{Lab, after, chart, condition, controller, named_chart, status_of};

#[tokio::test(start_paused = true)]
async fn an_install_that_fails_leaves_nothing() {
    let lab = Lab::start(controller(chart())).await;
    lab.create("shop", json!({ "extra": ["one"], "fails": { "post-install": "1" } })).await;
    let message = lab.failed("shop").await;
    assert!(message.starts_with("failed post-install: job post-install failed"), "{message}");
    lab.pause("shop").await;
    let shop = json!(lab.shops.get("shop").await.unwrap());
    for kind in ["ReleaseFailed", "Ready"] {
        assert_eq!(condition(&shop, kind).unwrap()["reason"], "InstallError");
    }
    assert!(condition(&shop, "Deployed").is_none() && shop["status"].get("deployedRelease").is_none());
    assert!(!lab.has("one").await && lab.records().await.is_empty());
    lab.patch("shop", json!({ "spec": { "fails": { "post-install": null } } })).await;
    lab.resume("shop").await;
    let shop = lab.ready("shop").await;
    assert!(condition(&shop, "ReleaseFailed").is_none());
    assert_eq!(condition(&shop, "Deployed").unwrap()["message"], "The shop is calm.");
    let events = lab.events().await;
    assert!(
        events.contains(&"InstallSuccessful: installed release shop, revision 1".to_owned()),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_removed_after_a_failure_is_told_of() {
    let lab = Lab::start(controller(chart())).await;
    lab.create("shop", json!({ "fails": { "pre-install": "1", "pre-delete": "1" } })).await;
    let message = lab.failed("shop").await;
    let expected = "; failed to uninstall what was installed: job pre-delete failed";
    assert!(message.starts_with("failed pre-install") && message.contains(expected), "{message}");
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_fails_is_rolled_back() {
    let lab = Lab::start(controller(chart()).history_max(3)).await;
    lab.create("shop", json!({})).await;
    lab.ready("shop").await;
    lab.patch(
        "shop",
        json!({ "spec": { "mood": "wild", "extra": ["one"], "fails": { "post-upgrade": "1" } } }),
    )
    .await;
    let is_failed = |shop: &Value| status_of(shop, "ReleaseFailed").as_deref() == Some("True");
    let shop = lab.until("shop", "failed", is_failed).await;
    let message = condition(&shop, "ReleaseFailed").unwrap()["message"].as_str().unwrap();
    assert!(message.starts_with("post-upgrade hooks failed: job post-upgrade failed"), "{message}");
    assert!(message.ends_with("; revision 2 was rolled back to revision 1, which is running"), "{message}");
    for kind in ["ReleaseFailed", "Ready"] {
        assert_eq!(condition(&shop, kind).unwrap()["reason"], "UpgradeError");
    }
    assert_eq!(status_of(&shop, "Deployed").as_deref(), Some("True"));
    let history = shop["status"]["history"].as_array().unwrap();
    let told: Vec<_> = history.iter().map(|one| (&one["revision"], &one["status"])).collect();
    let expected =
        [(json!(1), json!("superseded")), (json!(2), json!("failed")), (json!(3), json!("deployed"))];
    assert_eq!(told, expected.iter().map(|(one, two)| (one, two)).collect::<Vec<_>>());
    // The history is limited, however often it is retried.
    lab.pause("shop").await;
    assert_eq!(lab.data("shop", "mood").await.as_deref(), Some("calm"));
    let records = lab.records().await;
    assert_eq!(records.len(), 3, "{records:?}");
    lab.patch("shop", json!({ "spec": { "fails": null } })).await;
    lab.resume("shop").await;
    let shop = lab.in_mood("shop", "wild").await;
    assert_eq!(condition(&shop, "Deployed").unwrap()["reason"], "UpgradeSuccessful");
    assert!(condition(&shop, "ReleaseFailed").is_none());
}

/// Events of objects that an upgrade and its rollback write do not trigger the next attempt.
#[tokio::test(start_paused = true)]
async fn an_upgrade_that_fails_is_tried_less_and_less_often() {
    let lab = Lab::start(controller(chart())).await;
    lab.create("shop", json!({})).await;
    lab.ready("shop").await;
    lab.patch("shop", json!({ "spec": { "mood": "wild", "fails": { "post-upgrade": "1" } } })).await;
    lab.failed("shop").await;
    after(60).await;
    // After 1, 2, 4, 8, 16 and 32 seconds, and two revisions each time.
    let revisions = lab.releases.get("shop", None).await.unwrap().version;
    assert!((9..=15).contains(&revisions), "{revisions} revisions");
    let message = lab.failed("shop").await;
    assert!(message.contains("was rolled back to revision"), "{message}");
    // A user who changes the object triggers a retry at once.
    let metadata = json!({ "annotations": { "touched": "yes" } });
    lab.patch("shop", json!({ "metadata": metadata })).await;
    after(1).await;
    assert!(lab.releases.get("shop", None).await.unwrap().version > revisions);
}

/// As above, for an install: releases of other objects have caused watches of its kinds.
#[tokio::test(start_paused = true)]
async fn an_install_that_fails_is_tried_less_and_less_often() {
    let lab = Lab::start(controller(chart())).await;
    lab.create("other", json!({})).await;
    lab.ready("other").await;
    lab.create("shop", json!({ "fails": { "post-install": "1" } })).await;
    lab.failed("shop").await;
    let version = async || -> u64 {
        let maps = lab.maps.list(&Default::default()).await.unwrap();
        maps.metadata.resource_version.unwrap().parse().unwrap()
    };
    let before = version().await;
    after(60).await;
    let writes = version().await - before;
    // Without backoff there are tens of thousands.
    assert!(writes < 300, "{writes} writes");
}

/// A rollback restores the deployed revision, not the last one.
#[tokio::test(start_paused = true)]
async fn a_rollback_that_fails_is_made_again() {
    let lab = Lab::start(controller(chart())).await;
    lab.create("shop", json!({ "fails": { "pre-rollback": "1" } })).await;
    lab.ready("shop").await;
    lab.patch("shop", json!({ "spec": { "fails": { "pre-upgrade": "1" } } })).await;
    let message = lab.failed("shop").await;
    let expected = "; rolling back to revision 1 failed: job pre-rollback failed";
    assert!(message.contains(expected), "{message}");
    after(120).await;
    assert!(lab.releases.get("shop", None).await.unwrap().version > 4);
    let message = lab.failed("shop").await;
    assert!(message.contains(expected), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_release_of_another_chart_is_in_the_way() {
    let lab = Lab::start(controller(chart())).await;
    let other = named_chart("other", &[]);
    lab.releases.install("shop", &other, &Values::new(), &Options::default()).await.unwrap();
    lab.create("shop", json!({ "mood": "wild" })).await;
    let message = lab.message("shop", "Irreconcilable", "True").await;
    assert_eq!(
        message,
        "duplicate release name: found existing release with name \"shop\" for chart \"other\""
    );
    let shop = json!(lab.shops.get("shop").await.unwrap());
    assert_eq!(condition(&shop, "Irreconcilable").unwrap()["reason"], "ReconcileError");
    lab.delete("shop").await;
    assert_eq!(lab.data("shop", "mood").await.as_deref(), Some("calm"), "it stays when the object goes");
    assert_eq!(lab.releases.revisions("shop").await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_failed_before_is_made_again() {
    let mut lab = Lab::new().await;
    let failing = Values::from_json(json!({ "extra": ["one"], "fails": { "post-install": "1" } }));
    lab.releases.install("shop", &chart(), &failing, &Options::default()).await.unwrap_err();
    lab.run(controller(chart()));
    lab.create("shop", json!({})).await;
    let shop = lab.ready("shop").await;
    assert_eq!(lab.releases.get("shop", None).await.unwrap().version, 2);
    assert!(!lab.has("one").await, "what it left is pruned");
    assert_eq!(condition(&shop, "Deployed").unwrap()["reason"], "InstallSuccessful");

    // Revision 2 counts as an install for later reconciles, too.
    lab.env.stop().await.unwrap();
    let lost = kube::api::Patch::Merge(json!({ "status": null }));
    lab.shops.patch_status("shop", &Default::default(), &lost).await.unwrap();
    lab.run(controller(chart()));
    let shop = lab.ready("shop").await;
    assert_eq!(condition(&shop, "Deployed").unwrap()["reason"], "InstallSuccessful");
}

#[tokio::test(start_paused = true)]
async fn an_uninstall_that_broke_off_is_ended_first() {
    let mut lab = Lab::new().await;
    let given = Values::from_json(json!({ "extra": ["one"], "fails": { "pre-delete": "1" } }));
    lab.releases.install("shop", &chart(), &given, &Options::default()).await.unwrap();
    lab.releases.uninstall("shop", &UninstallOptions::default()).await.unwrap_err();
    assert_eq!(lab.releases.get("shop", None).await.unwrap().info.status, Status::Uninstalling);
    lab.run(controller(chart()));
    // For a record that is not the operator's own, the hooks of the current chart run.
    lab.create("shop", json!({ "marks": { "pre-delete": "gone", "pre-install": "made" } })).await;
    lab.ready("shop").await;
    assert!(lab.has("gone").await && lab.has("made").await && !lab.has("one").await);
    let release = lab.releases.get("shop", None).await.unwrap();
    assert_eq!((release.version, release.info.status), (1, Status::Deployed));
}

/// Replaces the key by an invalid one: records cannot be signed.
async fn spoil_key(lab: &Lab) {
    let secrets: Api<Secret> = Api::namespaced(lab.client.clone(), "default");
    let metadata = ObjectMeta { name: Some(KEY_SECRET.into()), ..ObjectMeta::default() };
    let data = Some([("key".to_owned(), ByteString(vec![1, 2, 3]))].into());
    secrets.create(&PostParams::default(), &Secret { metadata, data, ..Secret::default() }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_a_key_hooks_come_from_the_chart() {
    let mut lab = Lab::new().await;
    spoil_key(&lab).await;
    lab.run(controller(chart()));
    let spec = json!({ "fails": { "post-install": "1" }, "marks": { "pre-delete": "gone" } });
    lab.create("shop", spec).await;
    lab.failed("shop").await;
    assert!(lab.has("gone").await, "what failed is removed with its hooks");

    let mut lab = Lab::new().await;
    spoil_key(&lab).await;
    lab.run(controller(chart()));
    lab.create("shop", json!({ "marks": { "pre-delete": "gone" } })).await;
    lab.ready("shop").await;
    lab.patch("shop", json!({ "spec": { "mood": "wild" } })).await;
    lab.in_mood("shop", "wild").await;
    lab.delete("shop").await;
    assert!(lab.has("gone").await && !lab.has("shop").await && lab.records().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_restart_goes_on_from_the_record() {
    let mut lab = Lab::start(controller(chart())).await;
    lab.create("shop", json!({ "marks": { "pre-upgrade": "again" } })).await;
    lab.ready("shop").await;
    lab.patch("shop", json!({ "spec": { "mood": "wild" } })).await;
    lab.in_mood("shop", "wild").await;
    lab.env.stop().await.unwrap();
    lab.maps.delete("again", &Default::default()).await.unwrap();
    lab.run(controller(chart()));
    after(60).await;
    let shop = lab.ready("shop").await;
    assert_eq!(condition(&shop, "Deployed").unwrap()["reason"], "UpgradeSuccessful");
    assert!(!lab.has("again").await && lab.releases.get("shop", None).await.unwrap().version == 2);

    // A lost status is reported again.
    lab.env.stop().await.unwrap();
    let lost = kube::api::Patch::Merge(json!({ "status": null }));
    lab.shops.patch_status("shop", &Default::default(), &lost).await.unwrap();
    lab.run(controller(chart()));
    let shop = lab.ready("shop").await;
    let deployed: &Value = &shop["status"]["deployedRelease"];
    assert!(deployed["manifest"].as_str().unwrap().contains("mood: \"wild\""), "{deployed}");
    assert_eq!((&deployed["name"], deployed.get("namespace")), (&json!("shop"), None));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_never_had_a_release_just_goes() {
    let lab = Lab::start(controller(chart())).await;
    let paused = json!({ "annotations": { "helm.steersman.dev/paused": "true" } });
    lab.create_with("shop", json!({ "marks": { "pre-delete": "gone" } }), paused).await;
    lab.message("shop", "Paused", "True").await;
    lab.delete("shop").await;
    assert!(!lab.has("gone").await);
    let events = lab.events().await;
    assert!(!events.iter().any(|event| event.starts_with("Uninstall")), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn an_uninstall_that_fails_keeps_the_object() {
    let lab = Lab::start(controller(chart())).await;
    lab.create("shop", json!({ "fails": { "pre-delete": "1" } })).await;
    lab.ready("shop").await;
    lab.shops.delete("shop", &Default::default()).await.unwrap();
    let message = lab.failed("shop").await;
    assert!(message.starts_with("job pre-delete failed"), "{message}");
    let shop = json!(lab.shops.get("shop").await.unwrap());
    assert_eq!(condition(&shop, "ReleaseFailed").unwrap()["reason"], "UninstallError");
    assert_eq!(condition(&shop, "Ready").unwrap()["reason"], "UninstallError");
    assert!(lab.has("shop").await);
    let disable = json!({ "helm.sdk.operatorframework.io/uninstall-disable-hooks": "1" });
    lab.annotate("shop", disable).await;
    after(600).await;
    assert!(lab.shops.get_opt("shop").await.unwrap().is_none() && !lab.has("shop").await);
}

/// The objects of the failed upgrade still exist, and the spec is reverted.
#[tokio::test(start_paused = true)]
async fn an_old_spec_mends_what_a_failed_rollback_left() {
    let lab = Lab::start(controller(chart())).await;
    lab.create("shop", json!({ "fails": { "pre-rollback": "1" } })).await;
    lab.ready("shop").await;
    lab.patch("shop", json!({ "spec": { "extra": ["one"], "fails": { "post-upgrade": "1" } } })).await;
    let message = lab.failed("shop").await;
    assert!(message.contains("rolling back to revision 1 failed"), "{message}");
    let is_there = |map: Option<&ConfigMap>| map.is_some();
    lab.env.wait_in(lab.maps.clone(), "one", is_there).await.unwrap();
    lab.patch("shop", json!({ "spec": { "extra": null, "fails": { "post-upgrade": null } } })).await;
    lab.env.wait_in(lab.maps.clone(), "one", |map: Option<&ConfigMap>| map.is_none()).await.unwrap();
    lab.ready("shop").await;
}
