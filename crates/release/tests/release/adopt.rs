//! Adopting objects of a release whose records are missing or do not verify.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use steersman_chart::{Chart, Values};
use steersman_release::{Error, Options, RecordKey, Release, Releases, Status, UninstallOptions};

use crate::support::{chart, cluster, create_map, has_map, maps, quick, values};

fn keys() -> Chart {
    chart(
        r#"
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData:
  text: {{ randAlphaNum 12 }}
  mood: {{ .Values.mood | default "calm" }}
data:
  encoded: {{ randAlphaNum 12 | b64enc }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: conf, namespace: default}
data: {drawn: {{ randAlphaNum 12 }}, mood: {{ .Values.mood | default "calm" }}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: hook, annotations: {helm.sh/hook: 'pre-install,pre-upgrade'}}}
"#,
    )
}

fn secrets(client: &Client) -> Api<Secret> {
    Api::namespaced(client.clone(), "default")
}

/// Returns the randomly generated values in the cluster.
async fn drawn(client: &Client) -> [String; 3] {
    let data = secrets(client).get("keys").await.unwrap().data.unwrap();
    let text = |key: &str| String::from_utf8(data[key].0.clone()).unwrap();
    let map = maps(client).get("conf").await.unwrap().data.unwrap();
    [text("text"), text("encoded"), map["drawn"].clone()]
}

async fn forget(client: &Client, release: &Release) {
    secrets(client).delete(&release.key(), &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn objects_whose_records_are_gone_are_adopted_as_they_are() {
    let (_cluster, client, releases) = cluster().await;
    let first = releases.install("keys", &keys(), &Values::new(), &quick()).await.unwrap();
    let before = drawn(&client).await;
    forget(&client, &first).await;
    maps(&client).delete("hook", &DeleteParams::default()).await.unwrap();

    let adopt = Options { adopt_existing: true, ..quick() };
    let adopted = releases.install("keys", &keys(), &values(&["mood=wild"]), &adopt).await.unwrap();
    assert_eq!(
        (adopted.version, adopted.info.description.as_str()),
        (1, "Adopted: the records were missing")
    );
    assert_eq!(drawn(&client).await, before);
    assert_eq!(maps(&client).get("conf").await.unwrap().data.unwrap()["mood"], "wild");
    assert!(!has_map(&client, "hook").await, "no hooks run");
    assert!(before.iter().all(|drawn| drawn.len() == 12));

    // As in Helm, without the option.
    forget(&client, &adopted).await;
    releases.install("keys", &keys(), &Values::new(), &quick()).await.unwrap();
    assert_ne!(drawn(&client).await, before);
    assert!(has_map(&client, "hook").await);
}

#[tokio::test]
async fn a_release_that_has_nothing_is_installed() {
    let (_cluster, client, releases) = cluster().await;
    let adopt = Options { adopt_existing: true, ..quick() };
    let release = releases.install("keys", &keys(), &Values::new(), &adopt).await.unwrap();
    assert_eq!(release.info.description, "Install complete");
    assert!(has_map(&client, "hook").await);
    // A release with its history kept is not adopted either.
    let keep = UninstallOptions { keep_history: true, ..UninstallOptions::default() };
    releases.uninstall("keys", &keep).await.unwrap();
    maps(&client).delete("hook", &DeleteParams::default()).await.unwrap();
    let options = Options { replace: true, ..adopt.clone() };
    let release = releases.install("keys", &keys(), &Values::new(), &options).await.unwrap();
    assert_eq!(release.info.description, "Install complete");
    assert!(has_map(&client, "hook").await);
    releases.uninstall("keys", &UninstallOptions::default()).await.unwrap();
    // Objects of other owners are not adopted.
    create_map(&client, "conf").await;
    let refused = releases.install("keys", &keys(), &Values::new(), &adopt).await.unwrap_err();
    assert!(matches!(refused, Error::InvalidOwnership { operation: "install", .. }), "{refused}");
}

fn signing(client: &Client, key: u8) -> Releases {
    Releases::new(client.clone(), "default").verified_by(Some(RecordKey::new([key; 32])), "a")
}

#[tokio::test]
async fn what_does_not_verify_is_taken_from_the_cluster() {
    let (_cluster, client, releases) = cluster().await;
    releases.install("keys", &keys(), &Values::new(), &quick()).await.unwrap();
    let before = drawn(&client).await;
    let own = signing(&client, 1);
    let unverified = own.get("keys", None).await.unwrap();
    assert!(unverified.unverified);
    let keep = Options { keep_random: true, ..quick() };
    let rendered = own.candidate(&unverified, &keys(), &Values::new(), &keep).await.unwrap();
    assert!(rendered.manifest.contains(&before[0]) && rendered.manifest.contains(&before[2]));

    maps(&client).delete("hook", &DeleteParams::default()).await.unwrap();
    let mut options = quick();
    options.labels.insert("team".into(), "a".into());
    let adopted = own.adopt(&unverified, rendered.clone(), &options).await.unwrap();
    assert_eq!((adopted.version, adopted.info.status), (1, Status::Deployed));
    assert_eq!(adopted.info.description, "Adopted: the record was written by another program");
    assert_eq!(adopted.info.first_deployed, unverified.info.first_deployed);
    assert_eq!(adopted.info.last_deployed, unverified.info.last_deployed);
    let read = own.get("keys", None).await.unwrap();
    assert!(!read.unverified && read.labels == options.labels && read.manifest == rendered.manifest);
    assert!(!has_map(&client, "hook").await && drawn(&client).await == before, "nothing else is written");

    // An object with a different mark is neither read nor adopted.
    let mark = json!({ "metadata": { "annotations": { "meta.helm.sh/release-name": "other" } } });
    maps(&client).patch("conf", &PatchParams::default(), &Patch::Merge(mark)).await.unwrap();
    let other = signing(&client, 2);
    let unverified = other.get("keys", None).await.unwrap();
    let rendered = other.candidate(&unverified, &keys(), &Values::new(), &keep).await.unwrap();
    assert!(rendered.manifest.contains(&before[0]) && !rendered.manifest.contains(&before[2]));
    let refused = other.adopt(&unverified, rendered, &quick()).await.unwrap_err();
    assert!(matches!(refused, Error::InvalidOwnership { operation: "update", .. }), "{refused}");
}

#[tokio::test]
async fn without_a_key_nothing_is_recorded() {
    let (_cluster, client, releases) = cluster().await;
    releases.install("keys", &keys(), &Values::new(), &quick()).await.unwrap();
    let keyless = releases.clone().verified_by(None, "a");
    let unverified = keyless.get("keys", None).await.unwrap();
    let rendered = keyless.candidate(&unverified, &keys(), &Values::new(), &quick()).await.unwrap();
    keyless.adopt(&unverified, rendered, &quick()).await.unwrap();
    let read = releases.get("keys", None).await.unwrap();
    assert_eq!(read.info.description, "Install complete");
    assert!(secrets(&client).get_opt("sh.helm.release.v1.keys.v2").await.unwrap().is_none());
}
