//! What an install or upgrade would change.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use steersman_chart::{Chart, Values};
use steersman_release::{Change, Diff, DryRun, Error, Options, Releases, WriteMode};

use crate::support::{chart, cluster, create_map, maps, quick, values};

/// ConfigMaps by name and data, each behind a switch.
fn shop() -> Chart {
    chart(
        r#"
{{- range $name, $data := .Values.maps }}
{{- if $data }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ $name }}, annotations: {{ $.Values.notes | default dict | toJson }}}
data: {{ toJson $data }}
{{- end }}
{{- end }}
{{- if .Values.fails }}
---
apiVersion: batch/v1
kind: Job
metadata: {name: fails, annotations: {helm.sh/hook: pre-upgrade}}
spec:
  backoffLimit: 0
  template:
    metadata: {annotations: {cluster.steersman.dev/exit-code: "1"}}
    spec: {restartPolicy: Never, containers: [{name: c, image: c}]}
{{- end }}
"#,
    )
}

async fn install(releases: &Releases, given: &[&str]) {
    releases.install("shop", &shop(), &values(given), &quick()).await.unwrap();
}

async fn diff(releases: &Releases, given: &[&str]) -> Diff {
    releases.diff("shop", &shop(), &values(given), &quick()).await.unwrap()
}

/// Returns the changes, one line each.
fn said(diff: &Diff) -> Vec<String> {
    let line = |name: &str, change: &Change| match change {
        Change::Changed(fields) => {
            let fields: Vec<String> = fields.iter().map(|field| format!("{}: {field}", field.path)).collect();
            format!("{name} {}", fields.join(", "))
        }
        other => format!("{name} {other:?}"),
    };
    diff.objects.iter().map(|object| line(&object.id.name, &object.change)).collect()
}

async fn version(client: &Client, name: &str) -> Option<String> {
    maps(client).get_opt(name).await.unwrap().and_then(|map: ConfigMap| map.resource_version())
}

#[tokio::test]
async fn a_diff_says_what_becomes_of_each_object() {
    for mode in [WriteMode::ServerSide, WriteMode::ThreeWay, WriteMode::Replace] {
        let (_cluster, client, releases) = cluster().await;
        let releases = releases.write_mode(mode);
        let first = [
            "maps.alter.a=1",
            "maps.alter.b=2",
            "maps.stays.a=1",
            "maps.goes.a=1",
            "maps.kept.a=1",
            "maps.lost.a=1",
        ];
        install(&releases, &first).await;
        let keep = json!({ "metadata": { "annotations": { "helm.sh/resource-policy": "keep" } } });
        maps(&client).patch("kept", &PatchParams::default(), &Patch::Merge(keep)).await.unwrap();
        let unmark = json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": null } } });
        maps(&client).patch("lost", &PatchParams::default(), &Patch::Merge(unmark)).await.unwrap();
        let before = (version(&client, "alter").await, version(&client, "stays").await);

        let second = ["maps.alter.a=3", "maps.stays.a=1", "maps.new.a=1"];
        let diff = diff(&releases, &second).await;
        assert_eq!(
            said(&diff),
            [
                "alter data.a: 1 → 3, data.b: 2 → (none)",
                "new Added",
                "stays Same",
                "goes Deleted",
                "kept Kept",
                "lost Kept",
            ],
            "{mode:?}"
        );
        assert_eq!((diff.release.version, diff.release.name.as_str()), (2, "shop"));
        // Nothing is written.
        assert_eq!(before, (version(&client, "alter").await, version(&client, "stays").await));
        assert_eq!(version(&client, "new").await, None);
        assert!(version(&client, "goes").await.is_some());
        assert_eq!(releases.revisions("shop").await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn what_is_not_installed_would_be_added() {
    let (_cluster, client, releases) = cluster().await;
    let fresh = diff(&releases, &["maps.a.x=1", "maps.b.x=1"]).await;
    assert_eq!(said(&fresh), ["a Added", "b Added"]);
    assert!(releases.revisions("shop").await.unwrap().is_empty());
    assert_eq!(version(&client, "a").await, None);

    create_map(&client, "a").await;
    let refused = releases.diff("shop", &shop(), &values(&["maps.a.x=1"]), &quick()).await.unwrap_err();
    assert!(matches!(refused, Error::InvalidOwnership { operation: "install", .. }), "{refused}");
    let refused = releases.diff("Shop", &shop(), &Values::new(), &quick()).await.unwrap_err();
    assert!(matches!(refused, Error::InvalidName(_)), "{refused}");
}

#[tokio::test]
async fn what_several_revisions_left_is_named_once() {
    let (_cluster, _client, releases) = cluster().await;
    install(&releases, &["maps.a.x=1", "maps.b.x=1"]).await;
    let failing = values(&["maps.a.x=1", "maps.b.x=1", "fails=true"]);
    releases.upgrade("shop", &shop(), &failing, &quick()).await.unwrap_err();
    assert_eq!(said(&diff(&releases, &["maps.a.x=1"]).await), ["a Same", "b Deleted"]);
}

#[tokio::test]
async fn a_diff_on_the_client_looks_nothing_up() {
    let (_cluster, client, releases) = cluster().await;
    create_map(&client, "known").await;
    let chart = chart(
        r#"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {known: {{ lookup "v1" "ConfigMap" "default" "known" | empty | not | quote }}}}"#,
    );
    for (dry_run, known) in [(None, "true"), (Some(DryRun::Server), "true"), (Some(DryRun::Client), "false")]
    {
        let options = Options { dry_run, ..quick() };
        let diff = releases.diff("keys", &chart, &Values::new(), &options).await.unwrap();
        assert!(diff.release.manifest.contains(&format!("known: \"{known}\"")), "{}", diff.release.manifest);
        assert!(releases.revisions("keys").await.unwrap().is_empty());
    }
}
