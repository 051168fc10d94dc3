//! Storage of revisions.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use steersman_chart::{Chart, File, Values};
use steersman_release::{
    Error, HistoryMax, Options, RecordKey, Recover, Releases, Status, StorageKind, UninstallOptions,
    read_record,
};

use crate::support::{chart, chart_with, cluster, create_map, judged, maps, quick, values};

fn shop() -> Chart {
    chart(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ .Release.Name }}}, data: {mood: {{ .Values.mood | default \"calm\" }}}}",
    )
}

/// A chart whose record does not fit into one object.
fn large() -> Chart {
    let mut random = fastrand::Rng::with_seed(7);
    let noise: String = std::iter::repeat_with(|| random.alphanumeric()).take(3_000_000).collect();
    let hook = "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: hook, annotations: {helm.sh/hook: pre-install}}}";
    let template = format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: large}}}}\n{hook}");
    chart_with(&template, [File::new("files/noise", noise)])
}

fn secrets(client: &Client) -> Api<Secret> {
    Api::namespaced(client.clone(), "default")
}

fn labels(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test]
async fn records_are_kept_as_helm_keeps_them() {
    for kind in [StorageKind::Secrets, StorageKind::ConfigMaps] {
        let (_cluster, client, releases) = cluster().await;
        let releases = releases.storage(kind);
        let options = Options { labels: labels(&[("team", "a")]), ..quick() };
        releases.install("shop", &shop(), &Values::new(), &options).await.unwrap();
        let key = "sh.helm.release.v1.shop.v1";
        let (meta, is_elsewhere) = match kind {
            StorageKind::Secrets => {
                let secret = secrets(&client).get(key).await.unwrap();
                assert_eq!(secret.type_.as_deref(), Some("helm.sh/release.v1"));
                (secret.metadata, maps(&client).get_opt(key).await.unwrap().is_some())
            }
            StorageKind::ConfigMaps => {
                let map = maps(&client).get(key).await.unwrap();
                (map.metadata, secrets(&client).get_opt(key).await.unwrap().is_some())
            }
        };
        assert!(!is_elsewhere, "{kind:?}");
        let mut labels = meta.labels.unwrap();
        let touched: i64 = labels.remove("modifiedAt").unwrap().parse().unwrap();
        assert!((Timestamp::now().as_second() - touched).abs() < 60);
        labels.remove("createdAt").unwrap();
        let expected =
            [("name", "shop"), ("owner", "helm"), ("status", "deployed"), ("team", "a"), ("version", "1")];
        assert_eq!(labels, self::labels(&expected));
        assert_eq!(meta.owner_references, None);

        releases.upgrade("shop", &shop(), &values(&["mood=wild"]), &quick()).await.unwrap();
        let versions: Vec<_> = releases
            .history("shop")
            .await
            .unwrap()
            .iter()
            .map(|one| (one.version, one.info.status))
            .collect();
        assert_eq!(versions, [(1, Status::Superseded), (2, Status::Deployed)]);
        assert_eq!(releases.list(None, true).await.unwrap().len(), 1);
        releases.uninstall("shop", &UninstallOptions::default()).await.unwrap();
        assert!(releases.revisions("shop").await.unwrap().is_empty());
        assert!(maps(&client).get_opt(key).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn the_latest_revision_of_each_release_is_listed() {
    let (_cluster, client, releases) = cluster().await;
    create_namespace(&client, "lab").await;
    let options = Options { disable_hooks: true, history_max: HistoryMax(0), ..quick() };
    let team = Options { labels: labels(&[("team", "a")]), ..options.clone() };
    releases.install("shop", &shop(), &Values::new(), &team).await.unwrap();
    // Sorted by name, the tenth would precede the second.
    for _ in 0..10 {
        releases.upgrade("shop", &shop(), &Values::new(), &options).await.unwrap();
    }
    releases.install("bar", &shop(), &Values::new(), &options).await.unwrap();
    Releases::new(client, "lab").install("shop", &shop(), &Values::new(), &options).await.unwrap();
    let listed = |selector: Option<&'static str>, everywhere: bool| {
        let releases = releases.clone();
        async move {
            let found = releases.list(selector, everywhere).await.unwrap();
            found
                .iter()
                .map(|one| format!("{} {} {}", one.namespace, one.name, one.version))
                .collect::<Vec<_>>()
        }
    };
    assert_eq!(listed(None, false).await, ["default bar 1", "default shop 11"]);
    assert_eq!(listed(Some(""), false).await, ["default bar 1", "default shop 11"]);
    assert_eq!(listed(None, true).await, ["default bar 1", "default shop 11", "lab shop 1"]);
    assert_eq!(listed(Some("team=a"), true).await, ["default shop 11"]);
    assert_eq!(listed(Some("version=3"), false).await, ["default shop 3"]);
    for (revision, version) in [(None, 11), (Some(0), 11), (Some(-3), 11), (Some(1), 1), (Some(2), 2)] {
        assert_eq!(releases.get("shop", revision).await.unwrap().version, version, "{revision:?}");
    }
    assert!(matches!(releases.get("shop", Some(12)).await, Err(Error::NotFound { .. })));
    assert!(matches!(releases.history("never").await, Err(Error::NotFound { .. })));
}

async fn create_namespace(client: &Client, name: &str) {
    let spaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
    spaces
        .create(&PostParams::default(), &k8s_openapi::api::core::v1::Namespace { metadata, ..<_>::default() })
        .await
        .unwrap();
}

#[tokio::test]
async fn more_records_than_a_page_are_found() {
    let (_cluster, client, releases) = cluster().await;
    for version in 1..=501 {
        let number = version.to_string();
        let metadata = ObjectMeta {
            name: Some(format!("sh.helm.release.v1.shop.v{version}")),
            labels: Some(labels(&[
                ("name", "shop"),
                ("owner", "helm"),
                ("status", "superseded"),
                ("version", &number),
            ])),
            ..ObjectMeta::default()
        };
        secrets(&client)
            .create(&PostParams::default(), &Secret { metadata, ..Secret::default() })
            .await
            .unwrap();
    }
    let found: Vec<_> =
        releases.revisions("shop").await.unwrap().iter().map(|revision| revision.version).collect();
    assert_eq!(found, (1..=501).collect::<Vec<i64>>(), "by number");
}

#[tokio::test]
async fn records_belong_to_their_owners() {
    let (_cluster, client, releases) = cluster().await;
    let owner = create_map(&client, "owner").await;
    let owner = OwnerReference {
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        name: "owner".into(),
        uid: owner.uid().unwrap(),
        ..OwnerReference::default()
    };
    let releases = releases.owned_by(vec![owner.clone()]);
    releases.install("large", &large(), &Values::new(), &quick()).await.unwrap();
    let found = secrets(&client).list(&ListParams::default()).await.unwrap().items;
    assert!(found.len() > 2, "the record and its parts");
    for secret in found {
        assert_eq!(secret.metadata.owner_references, Some(vec![owner.clone()]), "{}", secret.name_any());
    }
}

/// Stores a record of the real `helm`: pending, and without a lock.
async fn pending(client: &Client, seconds_ago: i64, stamp: &str) {
    let record = json!({
        "name": "shop", "namespace": "default", "version": 1, "info": { "status": "pending-install" },
        "manifest": "", "chart": { "metadata": { "name": "shop", "version": "1" } },
    });
    let time = (Timestamp::now().as_second() - seconds_ago).to_string();
    let entries = [
        ("name", "shop"),
        ("owner", "helm"),
        ("status", "pending-install"),
        ("version", "1"),
        (stamp, &time),
    ];
    let metadata = ObjectMeta {
        name: Some("sh.helm.release.v1.shop.v1".into()),
        labels: Some(labels(&entries)),
        ..ObjectMeta::default()
    };
    let data = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, record.to_string());
    let data = BTreeMap::from([("release".to_owned(), k8s_openapi::ByteString(data.into_bytes()))]);
    let type_ = Some("helm.sh/release.v1".into());
    let secret = Secret { metadata, type_, data: Some(data), ..Secret::default() };
    secrets(client).create(&PostParams::default(), &secret).await.unwrap();
}

#[tokio::test]
async fn an_operation_of_helm_counts_as_under_way_for_ten_minutes() {
    for (seconds_ago, stamp, is_taken_up) in [
        (540, "createdAt", false),
        (540, "modifiedAt", false),
        (660, "createdAt", true),
        (660, "modifiedAt", true),
    ] {
        let (_cluster, client, releases) = cluster().await;
        pending(&client, seconds_ago, stamp).await;
        let installed = releases.install("shop", &shop(), &Values::new(), &quick()).await;
        match installed {
            Err(Error::InProgress { remaining }) => {
                assert!(!is_taken_up, "{seconds_ago} {stamp}");
                assert!(
                    remaining > Duration::from_secs(30) && remaining <= Duration::from_secs(60),
                    "{remaining:?}"
                );
                for refused in [
                    releases.upgrade("shop", &shop(), &Values::new(), &quick()).await.map(drop),
                    releases.rollback("shop", &<_>::default()).await.map(drop),
                    releases.uninstall("shop", &<_>::default()).await.map(drop),
                ] {
                    assert!(matches!(refused, Err(Error::InProgress { .. })), "{refused:?}");
                }
                let dry = Options { dry_run: Some(steersman_release::DryRun::Server), ..quick() };
                let would = releases.upgrade("shop", &shop(), &Values::new(), &dry).await.unwrap();
                assert_eq!(would.version, 2, "a dry run is in no one's way");
            }
            installed => {
                assert!(is_taken_up, "{seconds_ago} {stamp}");
                assert_eq!(installed.unwrap().version, 2);
            }
        }
    }
    let (_cluster, client, releases) = cluster().await;
    pending(&client, 5, "createdAt").await;
    releases.recover(Recover::Always).install("shop", &shop(), &Values::new(), &quick()).await.unwrap();
}

#[tokio::test]
async fn a_lock_holds_until_it_expires() {
    for (seconds, is_held) in [(20, true), (-1, false)] {
        let (_cluster, client, releases) = cluster().await;
        // The label has a recent time: the operation counts as in progress.
        pending(&client, 5, "modifiedAt").await;
        let until =
            Timestamp::now().checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap().to_string();
        let patch = Patch::Merge(
            json!({ "metadata": { "annotations": { "release.steersman.dev/alive-until": until } } }),
        );
        secrets(&client).patch("sh.helm.release.v1.shop.v1", &PatchParams::default(), &patch).await.unwrap();
        let installed = releases.install("shop", &shop(), &Values::new(), &quick()).await;
        assert_eq!(matches!(installed, Err(Error::InProgress { .. })), is_held, "{installed:?}");
        assert_eq!(installed.is_ok(), !is_held);
    }
}

#[tokio::test]
async fn a_revision_that_another_process_made_is_in_progress() {
    for (code, expected) in [
        (409, "another operation (install/upgrade/rollback) is in progress"),
        (403, "cannot store the release: the test answers with 403"),
    ] {
        let (_cluster, client, _) = cluster().await;
        let refused = judged(&client, move |seen| seen.is(Method::POST, "/secrets").then_some(code));
        let error = Releases::new(refused, "default")
            .install("shop", &shop(), &Values::new(), &quick())
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

fn signing(client: &Client) -> Releases {
    Releases::new(client.clone(), "default").verified_by(Some(RecordKey::new([7; 32])), "a")
}

async fn annotate(client: &Client, annotations: Value) {
    let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
    secrets(client).patch("sh.helm.release.v1.large.v1", &PatchParams::default(), &patch).await.unwrap();
}

async fn parts(client: &Client) -> Vec<Secret> {
    let params = ListParams::default().labels("owner=steersman,release=large,revision=1");
    secrets(client).list(&params).await.unwrap().items
}

#[tokio::test]
async fn helm_is_told_that_a_record_is_in_parts() {
    let (_cluster, client, releases) = cluster().await;
    let options = Options { labels: labels(&[("team", "a")]), ..quick() };
    releases.install("large", &large(), &Values::new(), &options).await.unwrap();
    let main = secrets(&client).get("sh.helm.release.v1.large.v1").await.unwrap();
    let read = read_record(&json!(main), None).unwrap();
    assert!(read.manifest.contains("StoredInPartsUseSteerInsteadOfHelm"), "{}", read.manifest);
    assert_eq!((read.name.as_str(), read.namespace.as_str(), read.version), ("large", "default", 1));
    assert_eq!((read.info.status, read.chart.title().as_str()), (Status::Deployed, "shop-1.2.3"));
    assert!(read.chart.files.is_null() && read.chart.templates.is_null());
    assert_eq!(read.labels, options.labels);
    let [hook] = read.hooks.as_slice() else { panic!("{:?}", read.hooks) };
    assert_eq!(
        (hook.name.as_str(), hook.manifest.as_str(), hook.last_run.phase.as_str()),
        ("hook", "", "Succeeded")
    );
    let whole = releases.get("large", None).await.unwrap();
    assert!(whole.manifest.contains("name: large") && !whole.hooks[0].manifest.is_empty());
    assert_eq!((whole.hooks[0].last_run.phase.as_str(), &whole.labels), ("Succeeded", &options.labels));
    for part in parts(&client).await {
        assert_eq!(part.type_.as_deref(), Some("steersman.dev/release-part.v1"));
    }
}

#[tokio::test]
async fn parts_that_were_changed_are_noticed() {
    let (_cluster, client, releases) = cluster().await;
    signing(&client).install("large", &large(), &Values::new(), &quick()).await.unwrap();
    let read = signing(&client).get("large", None).await.unwrap();
    assert!(!read.unverified && read.hooks.len() == 1);
    let part = parts(&client).await.remove(0);
    let change = Patch::Merge(json!({ "data": { "part": "AAAA" } }));
    secrets(&client).patch(&part.name_any(), &PatchParams::default(), &change).await.unwrap();
    let error = releases.get("large", None).await.unwrap_err().to_string();
    let said = "cannot read release record sh.helm.release.v1.large.v1: its parts do not match their digest";
    assert_eq!(error, said);
    let read = signing(&client).get("large", None).await.unwrap();
    assert!(read.unverified && read.hooks.is_empty(), "the main object verifies, its parts do not");

    secrets(&client).delete(&part.name_any(), &<_>::default()).await.unwrap();
    let error = releases.get("large", None).await.unwrap_err();
    assert_eq!(error.status_code(), Some(404), "{error}");
    assert!(error.to_string().starts_with("cannot read a part of a release: "), "{error}");
    assert!(signing(&client).get("large", None).await.unwrap().unverified);
    // A failing cluster does not make a record broken.
    let broken =
        judged(&client, |seen| seen.is(Method::GET, "secrets/sh.helm.release.v1.large.v1.").then_some(500));
    assert_eq!(signing(&broken).get("large", None).await.unwrap_err().status_code(), Some(500));

    for wrong in ["257", "-1", "many"] {
        annotate(&client, json!({ "release.steersman.dev/parts": wrong })).await;
        let error = releases.get("large", None).await.unwrap_err().to_string();
        assert!(error.ends_with(&format!("invalid number of parts {wrong:?}")), "{error}");
    }
}

#[tokio::test]
async fn a_key_reads_what_it_signed() {
    let (_cluster, client, _) = cluster().await;
    let owner = signing(&client).owned_by(Vec::new());
    owner.install("shop", &shop(), &Values::new(), &quick()).await.unwrap();
    let secret = json!(secrets(&client).get("sh.helm.release.v1.shop.v1").await.unwrap());
    let read =
        |key: u8, subject: &str| read_record(&secret, Some((&RecordKey::new([key; 32]), subject))).unwrap();
    assert!(!read(7, "a").unverified && read(8, "a").unverified && read(7, "b").unverified);
    assert_eq!(format!("{:?}", RecordKey::new([7; 32])), "RecordKey(..)");
    assert!(read_record(&json!([1]), None).is_err());
    let mut renamed = secret.clone();
    renamed["metadata"]["name"] = json!("shop");
    let error = read_record(&renamed, None).unwrap_err().to_string();
    assert_eq!(error, "cannot read release record shop: not the name of a release record");
    let mut empty = secret.clone();
    empty["data"] = json!({});
    let error = read_record(&empty, None).unwrap_err().to_string();
    assert!(error.ends_with("field data.release is missing"), "{error}");
    let mut moved = secret;
    moved["metadata"]["name"] = json!("sh.helm.release.v1.shop.v2");
    let error = read_record(&moved, None).unwrap_err().to_string();
    assert!(error.contains("content is revision 1 of \"shop\""), "{error}");
}

/// A broken record does not hold up an operator, and is an error for all other callers.
#[tokio::test]
async fn a_broken_record_is_superseded_by_its_label() {
    let (_cluster, client, releases) = cluster().await;
    releases.install("shop", &shop(), &Values::new(), &quick()).await.unwrap();
    releases.upgrade("shop", &shop(), &Values::new(), &quick()).await.unwrap();
    let broken = Patch::Merge(json!({ "data": { "release": "" } }));
    secrets(&client).patch("sh.helm.release.v1.shop.v2", &PatchParams::default(), &broken).await.unwrap();
    let error = releases.upgrade("shop", &shop(), &Values::new(), &quick()).await.unwrap_err();
    assert!(matches!(error, Error::Record { .. }), "{error}");
    signing(&client).upgrade("shop", &shop(), &Values::new(), &quick()).await.unwrap();
    let label = secrets(&client).get("sh.helm.release.v1.shop.v2").await.unwrap().labels()["status"].clone();
    assert_eq!(label, "superseded");
    let stray: Option<ConfigMap> = maps(&client).get_opt("sh.helm.release.v1.shop.v2").await.unwrap();
    assert!(stray.is_none());
}
