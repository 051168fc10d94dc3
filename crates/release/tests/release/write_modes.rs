//! Write modes: server-side apply, three-way merge, or replacement.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use steersman_chart::{Chart, File};
use steersman_release::{ApplySet, Object, Outcome, Releases, WriteMode, resolve};

use crate::support::{chart, chart_with, cluster, create_map, judged, maps, quick, recorded, values};

fn config() -> Chart {
    chart("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {{ toJson .Values.data }}}")
}

async fn data(client: &Client) -> Value {
    json!(maps(client).get("a").await.unwrap().data)
}

/// Returns the field managers of an object, with their operations.
fn managers(map: &ConfigMap) -> Vec<(String, String)> {
    let entries = map.metadata.managed_fields.iter().flatten();
    let manager = |text: &Option<String>| text.clone().unwrap_or_default();
    entries.map(|entry| (manager(&entry.manager), manager(&entry.operation))).collect()
}

async fn edit(client: &Client, data: Value) {
    let params = PatchParams { field_manager: Some("editor".into()), ..PatchParams::default() };
    let patch = Patch::Merge(json!({ "data": data }));
    maps(client).patch("a", &params, &patch).await.unwrap();
}

#[tokio::test]
async fn each_mode_treats_what_others_wrote_in_its_own_way() {
    let cases = [
        (WriteMode::ServerSide, json!({ "new": "2", "foreign": "kept" }), "Apply"),
        (WriteMode::ThreeWay, json!({ "new": "2", "foreign": "kept" }), "Update"),
        (WriteMode::Replace, json!({ "new": "2" }), "Update"),
    ];
    for (mode, expected, operation) in cases {
        let (_cluster, client, releases) = cluster().await;
        let releases = releases.write_mode(mode).field_manager("boat");
        releases.install("shop", &config(), &values(&["data.old=1"]), &quick()).await.unwrap();
        edit(&client, json!({ "foreign": "kept" })).await;
        releases.upgrade("shop", &config(), &values(&["data.new=2"]), &quick()).await.unwrap();
        assert_eq!(data(&client).await, expected, "{mode:?}");
        let managers = managers(&maps(&client).get("a").await.unwrap());
        let own: Vec<_> = managers.iter().filter(|(name, _)| name == "boat").collect();
        assert!(!own.is_empty() && own.iter().all(|(_, done)| done == operation), "{mode:?}: {managers:?}");
    }
}

async fn map_object(releases: &Releases, data: Value) -> Object {
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data });
    resolve(map, "default", releases.kinds()).await.unwrap()
}

#[tokio::test]
async fn nulls_say_nothing_of_built_in_kinds() {
    for mode in [WriteMode::ServerSide, WriteMode::ThreeWay, WriteMode::Replace] {
        let (_cluster, client, releases) = cluster().await;
        let releases = releases.write_mode(mode);
        let mut object = map_object(&releases, json!({ "x": "1" })).await;
        releases.enforce(&object).await.unwrap();
        object.content["metadata"]["labels"] = json!({ "gone": null, "there": "yes" });
        let (outcome, now) = releases.enforce(&object).await.unwrap();
        assert_eq!(outcome, Outcome::Changed, "{mode:?}");
        assert_eq!(json!(now.metadata.labels), json!({ "there": "yes" }), "{mode:?}");
        assert_eq!(data(&client).await, json!({ "x": "1" }));
    }
}

#[tokio::test]
async fn a_write_that_meets_another_is_tried_again() {
    for mode in [WriteMode::ServerSide, WriteMode::ThreeWay, WriteMode::Replace] {
        let (_cluster, client, _) = cluster().await;
        let attempts = Arc::new(AtomicUsize::new(0));
        let refused = Arc::clone(&attempts);
        let client = judged(&client, move |seen| {
            let writes = seen.method != Method::GET && seen.path.contains("configmaps/a");
            (writes && refused.fetch_add(1, Ordering::SeqCst) < 2).then_some(409)
        });
        let releases = Releases::new(client.clone(), "default").write_mode(mode);
        create_map(&client, "a").await;
        let object = map_object(&releases, json!({ "x": "1" })).await;
        let (outcome, _) = releases.enforce(&object).await.unwrap();
        assert_eq!((outcome, data(&client).await), (Outcome::Changed, json!({ "x": "1" })), "{mode:?}");
        assert_eq!(attempts.load(Ordering::SeqCst), 3, "{mode:?}");
    }
}

#[tokio::test]
async fn a_write_is_not_tried_for_ever() {
    let (_cluster, client, _) = cluster().await;
    for (code, most) in [(409, 6), (403, 1)] {
        let attempts = Arc::new(AtomicUsize::new(0));
        let refused = Arc::clone(&attempts);
        let client = judged(&client, move |seen| {
            let writes = seen.is(Method::PATCH, "configmaps/a");
            writes.then(|| refused.fetch_add(1, Ordering::SeqCst)).map(|_| code)
        });
        let releases = Releases::new(client, "default");
        let object = map_object(&releases, json!({})).await;
        let error = releases.enforce(&object).await.unwrap_err();
        assert_eq!(error.status_code(), Some(code));
        assert_eq!(
            error.to_string(),
            format!("ConfigMap/a in namespace default: the test answers with {code}")
        );
        assert_eq!(attempts.load(Ordering::SeqCst), most);
    }
}

/// A list with the same environment variable twice can be created, but not applied.
#[tokio::test]
async fn a_list_with_a_repeated_key_is_merged() {
    let (_cluster, client, releases) = cluster().await;
    let chart = chart(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n  \
         template:\n    metadata: {labels: {app: web}}\n    spec:\n      containers:\n      - name: c\n        image: \
         c:{{ .Values.tag }}\n        env: [{name: A, value: '1'}, {name: A, value: '2'}]\n",
    );
    releases.install("shop", &chart, &values(&["tag=one"]), &quick()).await.unwrap();
    releases.upgrade("shop", &chart, &values(&["tag=two"]), &quick()).await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(client, "default");
    let live = json!(deployments.get("web").await.unwrap());
    assert_eq!(live.pointer("/spec/template/spec/containers/0/image"), Some(&json!("c:two")));
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "kind": "Widget", "plural": "widgets" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    })
}

#[tokio::test]
async fn custom_resources_are_patched_by_what_the_chart_changed() {
    let (_cluster, client, releases) = cluster().await;
    ApplySet::new(client.clone(), "set", "default").apply_only(vec![definition()]).await.unwrap();
    let releases = releases.write_mode(WriteMode::ThreeWay);
    let chart = chart(
        "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}, spec: {{ toJson .Values.spec }}}",
    );
    releases
        .install("shop", &chart, &values(&["spec.size=1", "spec.old=1", "spec.list={a,b}"]), &quick())
        .await
        .unwrap();
    let resource = ApiResource {
        group: "example.com".into(),
        version: "v1".into(),
        api_version: "example.com/v1".into(),
        kind: "Widget".into(),
        plural: "widgets".into(),
    };
    let widgets: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource);
    // A change by another writer is kept unless the chart changes the field.
    let patch = Patch::Merge(json!({ "spec": { "size": 7, "foreign": true } }));
    widgets.patch("w", &PatchParams::default(), &patch).await.unwrap();
    let (tapped, log) = recorded(&client);
    let releases = Releases::new(tapped, "default").write_mode(WriteMode::ThreeWay).field_manager("boat");
    releases.upgrade("shop", &chart, &values(&["spec.size=1", "spec.list={a,c}"]), &quick()).await.unwrap();
    let live = widgets.get("w").await.unwrap();
    assert_eq!(live.data["spec"], json!({ "size": 7, "foreign": true, "list": ["a", "c"] }));
    let managers: Vec<_> =
        live.metadata.managed_fields.iter().flatten().filter_map(|entry| entry.manager.clone()).collect();
    assert!(managers.contains(&"boat".to_owned()), "{managers:?}");
    let patches = |log: &[crate::support::Seen]| {
        log.iter().filter(|seen| seen.is(Method::PATCH, "widgets/w")).cloned().collect::<Vec<_>>()
    };
    let sent = patches(&log.lock().unwrap());
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].body["spec"], json!({ "old": null, "list": ["a", "c"] }));

    // Nothing is sent for an unchanged object.
    let widget = releases.objects(&releases.get("shop", None).await.unwrap()).await.unwrap().remove(0);
    log.lock().unwrap().clear();
    let (outcome, _) = releases.enforce(&widget).await.unwrap();
    assert_eq!((outcome, patches(&log.lock().unwrap()).len()), (Outcome::Unchanged, 0));
}

#[tokio::test]
async fn a_three_way_merge_without_a_difference_writes_nothing() {
    let (_cluster, client, releases) = cluster().await;
    releases
        .write_mode(WriteMode::ThreeWay)
        .install("shop", &config(), &values(&["data.x=1"]), &quick())
        .await
        .unwrap();
    let (tapped, log) = recorded(&client);
    let releases = Releases::new(tapped, "default").write_mode(WriteMode::ThreeWay);
    releases.upgrade("shop", &config(), &values(&["data.x=1"]), &quick()).await.unwrap();
    assert!(
        !log.lock()
            .unwrap()
            .iter()
            .any(|seen| seen.method != Method::GET && seen.path.contains("configmaps"))
    );
    releases.upgrade("shop", &config(), &values(&["data.x=2"]), &quick()).await.unwrap();
    assert_eq!(data(&client).await, json!({ "x": "2" }));
}

#[tokio::test]
async fn what_a_forerunner_wrote_goes_with_the_chart() {
    let (_cluster, client, releases) = cluster().await;
    // As Helm 3 does: by plain updates.
    let three_way = releases.clone().write_mode(WriteMode::ThreeWay).field_manager("helm");
    three_way.install("shop", &config(), &values(&["data.old=1", "data.x=1"]), &quick()).await.unwrap();
    edit(&client, json!({ "foreign": "kept" })).await;
    releases.upgrade("shop", &config(), &values(&["data.x=1"]), &quick()).await.unwrap();
    assert_eq!(data(&client).await, json!({ "x": "1", "foreign": "kept" }));
}

#[tokio::test]
async fn deletions_are_of_what_was_seen() {
    let (_cluster, client, releases) = cluster().await;
    let chart = chart(
        "{{ range .Values.names }}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ . }}}}\n{{ end }}",
    );
    releases.install("shop", &chart, &values(&["names={a,b}"]), &quick()).await.unwrap();
    let uid = maps(&client).get("b").await.unwrap().uid();
    let (tapped, log) = recorded(&client);
    Releases::new(tapped, "default")
        .upgrade("shop", &chart, &values(&["names={a}"]), &quick())
        .await
        .unwrap();
    let log = log.lock().unwrap();
    let deleted: Vec<_> = log.iter().filter(|seen| seen.is(Method::DELETE, "configmaps/b")).collect();
    assert_eq!(deleted.len(), 1);
    assert_eq!(deleted[0].body["preconditions"]["uid"], json!(uid));
    assert_eq!(deleted[0].body["propagationPolicy"], "Background");
}

/// CRDs in `crds/` are applied, whatever the write mode of the objects.
#[tokio::test]
async fn definitions_are_applied_in_every_mode() {
    for mode in [WriteMode::ServerSide, WriteMode::ThreeWay, WriteMode::Replace] {
        let (_cluster, client, releases) = cluster().await;
        let chart = chart_with("", [File::new("crds/widgets.yaml", definition().to_string())]);
        releases.write_mode(mode).install("shop", &chart, &values(&[]), &quick()).await.unwrap();
        let definitions: Api<
            k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
        > = Api::all(client.clone());
        let live = definitions.get("widgets.example.com").await.unwrap();
        let own = |entry: &&k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry| {
            entry.manager.as_deref() == Some("helm")
        };
        let own: Vec<_> = live.metadata.managed_fields.iter().flatten().filter(own).collect();
        assert_eq!(own.len(), 1, "{mode:?}");
        assert_eq!(own[0].operation.as_deref(), Some("Apply"), "{mode:?}");
    }
}
