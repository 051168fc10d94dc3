//! Uninstall: what is deleted, what is kept, and what is reported.

use std::time::Duration;

use http::Method;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use steersman_chart::{Chart, Values};
use steersman_release::{Cascade, Error, Release, Releases, Status, Timeout, UninstallOptions};

use crate::support::{chart, cluster, create_map, has_map, judged, maps, quick, recorded, values};

fn shop() -> Chart {
    chart(
        r#"
{{- range .Values.maps }}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ . }}}}
{{- end }}
---
{apiVersion: v1, kind: Secret, metadata: {name: kept, annotations: {helm.sh/resource-policy: ' Keep '}}}
{{- range $event, $exit := .Values.hooks }}
---
apiVersion: batch/v1
kind: Job
metadata: {name: {{ $event }}, annotations: {helm.sh/hook: {{ $event }}}}
spec:
  backoffLimit: 0
  template:
    metadata: {annotations: {cluster.steersman.dev/exit-code: "{{ $exit }}"}}
    spec: {restartPolicy: Never, containers: [{name: c, image: c}]}
{{- end }}
{{- range $event, $name := .Values.marks }}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ $name }}, annotations: {helm.sh/hook: {{ $event }}}}}
{{- end }}
"#,
    )
}

async fn install(releases: &Releases, given: &[&str]) -> Release {
    releases.install("shop", &shop(), &values(given), &quick()).await.unwrap()
}

async fn hold(client: &Client, name: &str, finalizers: Value) {
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": finalizers } }));
    maps(client).patch(name, &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test]
async fn history_is_kept_if_asked() {
    let (_cluster, client, releases) = cluster().await;
    install(&releases, &["maps={a}"]).await;
    releases.upgrade("shop", &shop(), &values(&["maps={a,b}"]), &quick()).await.unwrap();
    let keep = UninstallOptions { keep_history: true, ..UninstallOptions::default() };
    let gone = releases.uninstall("shop", &keep).await.unwrap();
    assert_eq!(gone.kept, ["[Secret] kept"]);
    assert!(!has_map(&client, "a").await && !has_map(&client, "b").await);
    let history = releases.history("shop").await.unwrap();
    let statuses: Vec<_> = history.iter().map(|release| release.info.status).collect();
    assert_eq!(statuses, [Status::Superseded, Status::Uninstalled]);
    assert_eq!(history[1].info.description, "Uninstallation complete");
    assert!(history[1].info.deleted.is_some() && history[0].info.deleted.is_none());
    let again = releases.uninstall("shop", &keep).await.unwrap_err();
    assert_eq!(again.to_string(), "the release named \"shop\" is already deleted");
    // The objects may belong to another owner by now.
    create_map(&client, "a").await;
    let gone = releases.uninstall("shop", &UninstallOptions::default()).await.unwrap();
    assert_eq!((gone.release.version, gone.kept.len()), (2, 0));
    assert!(releases.revisions("shop").await.unwrap().is_empty() && has_map(&client, "a").await);
    let missing = releases.uninstall("shop", &UninstallOptions::default()).await.unwrap_err();
    assert_eq!(missing.to_string(), "release: not found");
}

#[tokio::test]
async fn a_description_can_be_given() {
    let (_cluster, _client, releases) = cluster().await;
    install(&releases, &[]).await;
    let options = UninstallOptions {
        keep_history: true,
        description: Some("enough".into()),
        ..UninstallOptions::default()
    };
    let gone = releases.uninstall("shop", &options).await.unwrap();
    assert_eq!(
        (gone.release.info.description.as_str(), gone.release.info.status),
        ("enough", Status::Uninstalled)
    );
    assert_eq!(releases.get("shop", None).await.unwrap().info.description, "enough");
}

#[tokio::test]
async fn hooks_run_before_and_after() {
    let (_cluster, client, releases) = cluster().await;
    let given = ["maps={a}", "marks.pre-delete=before", "marks.post-delete=after"];
    install(&releases, &given).await;
    let without = UninstallOptions { disable_hooks: true, ..UninstallOptions::default() };
    releases.uninstall("shop", &without).await.unwrap();
    assert!(!has_map(&client, "before").await && !has_map(&client, "after").await);
    install(&releases, &given).await;
    releases.uninstall("shop", &UninstallOptions::default()).await.unwrap();
    assert!(
        has_map(&client, "before").await && has_map(&client, "after").await && !has_map(&client, "a").await
    );
}

#[tokio::test]
async fn a_hook_before_keeps_the_release_and_one_after_does_not() {
    let (_cluster, client, releases) = cluster().await;
    install(&releases, &["maps={a}", "hooks.pre-delete=1"]).await;
    let error = releases.uninstall("shop", &UninstallOptions::default()).await.unwrap_err();
    assert!(error.to_string().starts_with("job pre-delete failed"), "{error}");
    assert!(has_map(&client, "a").await);
    let stuck = releases.get("shop", None).await.unwrap().info;
    assert_eq!(
        (stuck.status, stuck.description.as_str()),
        (Status::Uninstalling, "Deletion in progress (or silently failed)")
    );
    let without = UninstallOptions { disable_hooks: true, ..UninstallOptions::default() };
    releases.uninstall("shop", &without).await.unwrap();

    install(&releases, &["maps={a}", "hooks.post-delete=1"]).await;
    let error = releases.uninstall("shop", &UninstallOptions::default()).await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("uninstallation completed with 1 error(s): job post-delete failed"), "{text}");
    assert!(!has_map(&client, "a").await && releases.revisions("shop").await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn objects_are_waited_for_if_asked() {
    let (_cluster, client, releases) = cluster().await;
    install(&releases, &["maps={a,b}"]).await;
    hold(&client, "a", json!(["example.com/hold"])).await;
    releases.uninstall("shop", &UninstallOptions::default()).await.unwrap();
    assert!(has_map(&client, "a").await, "it is not waited for");
    hold(&client, "a", json!(null)).await;

    install(&releases, &["maps={a,b}"]).await;
    hold(&client, "a", json!(["example.com/hold"])).await;
    let timeout = Timeout(Duration::from_secs(5));
    let wait = UninstallOptions { wait: true, timeout, ..UninstallOptions::default() };
    let started = tokio::time::Instant::now();
    let error = releases.uninstall("shop", &wait).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "uninstallation completed with 1 error(s): timed out waiting for objects: ConfigMap/a in \
         namespace default still exists"
    );
    let took = started.elapsed();
    assert!(took >= Duration::from_secs(5) && took < Duration::from_secs(10), "{took:?}");
    hold(&client, "a", json!(null)).await;

    // It is deleted during the wait.
    install(&releases, &["maps={a}"]).await;
    hold(&client, "a", json!(["example.com/hold"])).await;
    let release = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        hold(&client, "a", json!(null)).await;
    };
    let (gone, ()) = tokio::join!(releases.uninstall("shop", &wait), release);
    gone.unwrap();
}

#[tokio::test]
async fn dependents_go_as_they_are_told() {
    let deployment = chart(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n  \
         template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: c, image: c}]}\n",
    );
    for (cascade, policy, left) in [
        (Cascade::Background, "Background", 0),
        (Cascade::Foreground, "Foreground", 0),
        (Cascade::Orphan, "Orphan", 1),
    ] {
        let (cluster, client, _) = cluster().await;
        let (tapped, log) = recorded(&client);
        let releases = Releases::new(tapped, "default");
        let wait = steersman_release::Options { wait: true, ..quick() };
        releases.install("shop", &deployment, &Values::new(), &wait).await.unwrap();
        let options = UninstallOptions { cascade, wait: true, ..UninstallOptions::default() };
        releases.uninstall("shop", &options).await.unwrap();
        cluster.settled().await;
        let sets: Api<ReplicaSet> = Api::namespaced(client.clone(), "default");
        assert_eq!(sets.list(&ListParams::default()).await.unwrap().items.len(), left, "{cascade:?}");
        let deployments: Api<Deployment> = Api::namespaced(client, "default");
        assert!(deployments.get_opt("web").await.unwrap().is_none());
        let log = log.lock().unwrap();
        let sent = log.iter().find(|seen| seen.is(Method::DELETE, "deployments/web")).unwrap();
        assert_eq!(sent.body["propagationPolicy"], policy);
        assert!(sent.body["preconditions"]["uid"].is_string());
    }
}

#[tokio::test]
async fn what_is_not_the_releases_stays() {
    let (_cluster, client, releases) = cluster().await;
    install(&releases, &["maps={a,b,c}"]).await;
    let unmark = json!({ "metadata": { "annotations": { "meta.helm.sh/release-name": "other" } } });
    maps(&client).patch("b", &PatchParams::default(), &Patch::Merge(unmark)).await.unwrap();
    let color = json!({ "metadata": { "labels": { "owner": "other" } } });
    maps(&client).patch("c", &PatchParams::default(), &Patch::Merge(color)).await.unwrap();
    let releases = releases.foreign_if(|live| live["metadata"]["labels"]["owner"] == "other");
    let release = releases.get("shop", None).await.unwrap();
    let left: Vec<_> = releases.remaining(&release).await.unwrap().iter().map(|id| id.name.clone()).collect();
    assert_eq!(left, ["a"], "neither what is kept nor what is another's");
    releases.uninstall("shop", &UninstallOptions::default()).await.unwrap();
    assert!(!has_map(&client, "a").await && has_map(&client, "b").await && has_map(&client, "c").await);
    assert!(releases.remaining(&release).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_cannot_be_deleted_keeps_the_record() {
    let (_cluster, client, releases) = cluster().await;
    install(&releases, &["maps={a,b}"]).await;
    let refused = judged(&client, |seen| seen.is(Method::DELETE, "configmaps/a").then_some(403));
    let error =
        Releases::new(refused, "default").uninstall("shop", &UninstallOptions::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "ConfigMap/a in namespace default: the test answers with 403");
    assert!(!has_map(&client, "b").await, "the others go all the same");
    assert_eq!(releases.get("shop", None).await.unwrap().info.status, Status::Uninstalling);
    releases.uninstall("shop", &UninstallOptions::default()).await.unwrap();
    assert!(!has_map(&client, "a").await);
    // A missing object or record is not an error.
    install(&releases, &["maps={a}"]).await;
    let gone = judged(&client, |seen| (seen.method == Method::DELETE).then_some(404));
    Releases::new(gone, "default").uninstall("shop", &UninstallOptions::default()).await.unwrap();
    let refused = judged(&client, |seen| seen.is(Method::DELETE, "secrets/sh.helm").then_some(403));
    let error =
        Releases::new(refused, "default").uninstall("shop", &UninstallOptions::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot delete a release record: the test answers with 403");
}

/// Objects that a release no longer contains and could not delete stay its own until they are gone.
#[tokio::test]
async fn what_could_not_be_pruned_is_remembered() {
    let (_cluster, client, releases) = cluster().await;
    install(&releases, &["maps={a,b}"]).await;
    let refused = judged(&client, |seen| seen.is(Method::DELETE, "configmaps/b").then_some(403));
    let refused = Releases::new(refused, "default");
    let second = refused.upgrade("shop", &shop(), &values(&["maps={a}"]), &quick()).await.unwrap();
    let said: Vec<_> = second.undeleted.iter().map(ToString::to_string).collect();
    let expected =
        "ConfigMap/b in namespace default: ConfigMap/b in namespace default: the test answers with 403";
    assert_eq!(said, [expected]);
    let mut read = refused.get("shop", None).await.unwrap();
    assert_eq!(read.undeleted, second.undeleted);
    // The deletion still fails.
    refused.delete_leftovers(&mut read).await.unwrap();
    assert_eq!(read.undeleted, second.undeleted);
    let mut third = refused.upgrade("shop", &shop(), &values(&["maps={a}"]), &quick()).await.unwrap();
    assert_eq!(third.undeleted, second.undeleted);
    releases.delete_leftovers(&mut third).await.unwrap();
    assert!(third.undeleted.is_empty() && !has_map(&client, "b").await);
    assert!(releases.get("shop", None).await.unwrap().undeleted.is_empty());
    releases.delete_leftovers(&mut third).await.unwrap();

    // An uninstall deletes it too.
    releases.upgrade("shop", &shop(), &values(&["maps={a,b}"]), &quick()).await.unwrap();
    refused.upgrade("shop", &shop(), &values(&["maps={a}"]), &quick()).await.unwrap();
    releases.uninstall("shop", &UninstallOptions::default()).await.unwrap();
    assert!(!has_map(&client, "b").await);
}

#[tokio::test]
async fn a_release_without_records_goes_by_what_it_would_be() {
    let (_cluster, client, releases) = cluster().await;
    let rendered = install(&releases, &["maps={a}", "marks.pre-delete=gone"]).await;
    let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::namespaced(client.clone(), "default");
    secrets.delete(&rendered.key(), &<_>::default()).await.unwrap();
    let options = |release: &Release| UninstallOptions {
        rendered: Some(Box::new(release.clone())),
        ..UninstallOptions::default()
    };
    let other = Release { name: "other".into(), ..rendered.clone() };
    let missing = releases.uninstall("shop", &options(&other)).await.unwrap_err();
    assert!(matches!(missing, Error::NotFound { .. }), "{missing}");
    assert!(has_map(&client, "a").await);
    // The given revision number is ignored: there is no other record.
    let rendered = Release { version: 7, ..rendered };
    let gone = releases.uninstall("shop", &options(&rendered)).await.unwrap();
    assert_eq!((gone.release.version, gone.kept.as_slice()), (1, &["[Secret] kept".to_owned()][..]));
    assert!(!has_map(&client, "a").await && has_map(&client, "gone").await);
    secrets.delete("kept", &<_>::default()).await.unwrap();
    // It was never installed.
    let missing = releases.uninstall("shop", &options(&rendered)).await.unwrap_err();
    assert!(matches!(missing, Error::NotFound { .. }), "{missing}");
}

/// A kind is removed after discovery.
#[tokio::test]
async fn objects_of_a_kind_that_is_gone_hold_up_nothing() {
    let (_cluster, client, releases) = cluster().await;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "kind": "Widget", "plural": "widgets" },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "object" } },
            }],
        },
    });
    let set = steersman_release::ApplySet::new(client.clone(), "set", "default");
    set.apply(vec![definition]).await.unwrap();
    let chart = chart(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n\
         {apiVersion: example.com/v1, kind: Widget, metadata: {name: w}}\n",
    );
    releases.install("shop", &chart, &Values::new(), &quick()).await.unwrap();
    set.delete_all(Vec::new(), false, Duration::from_secs(60)).await.unwrap();
    releases
        .uninstall("shop", &UninstallOptions { wait: true, ..UninstallOptions::default() })
        .await
        .unwrap();
    assert!(!has_map(&client, "a").await && releases.revisions("shop").await.unwrap().is_empty());
}
