//! Objects that are applied, pruned and deleted as a set.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use steersman_cluster::Cluster;
use steersman_release::{ApplySet, Error};

use crate::support::{create_map, has_map, judged, log_of, maps};

const PART_OF: &str = "applyset.kubernetes.io/part-of";
const GROUP_KINDS: &str = "applyset.kubernetes.io/contains-group-kinds";
/// The ID that `kubectl apply --applyset` computes for the ConfigMap `set` in the namespace `default`.
const ID: &str = "applyset-wJ09oSsjdXnJISxF8wpIXGC_mm1W0QC7xRESC5L9INg-v1";

fn map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } })
}

fn role(name: &str) -> Value {
    json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": name } })
}

fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
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

fn widget(name: &str) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": name } })
}

fn within(mut object: Value, namespace: &str) -> Value {
    object["metadata"]["namespace"] = json!(namespace);
    object
}

/// Returns a set, and the log of its reports.
fn set(client: &Client) -> (ApplySet, Arc<Mutex<Vec<String>>>) {
    let steps = Arc::default();
    (ApplySet::new(client.clone(), "set", "default").on_progress(log_of(&steps)), steps)
}

fn taken(steps: &Mutex<Vec<String>>) -> Vec<String> {
    std::mem::take(&mut *steps.lock().unwrap())
}

async fn start() -> (Cluster, Client) {
    let cluster = Cluster::start().await.unwrap();
    let client = cluster.client();
    (cluster, client)
}

const SOON: Duration = Duration::from_secs(60);

#[tokio::test]
async fn members_that_are_no_longer_wanted_go() {
    let (_cluster, client) = start().await;
    let (set, steps) = set(&client);
    create_map(&client, "foreign").await;
    ApplySet::new(client.clone(), "other", "default").apply(vec![map("of-other")]).await.unwrap();

    let applied = set.apply(vec![map("a"), map("b"), role("r")]).await.unwrap();
    let names: Vec<_> = applied.iter().map(|object| object.id.to_string()).collect();
    let expected =
        ["ConfigMap/a", "ConfigMap/b", "Role/r"].map(|name| format!("{name} in namespace default"));
    assert_eq!(names, expected);
    assert_eq!(
        taken(&steps),
        ["written ConfigMap/a Created", "written ConfigMap/b Created", "written Role/r Created"]
    );
    assert_eq!(maps(&client).get("a").await.unwrap().labels()[PART_OF], ID);
    let parent = maps(&client).get("set").await.unwrap();
    assert_eq!(parent.labels()["applyset.kubernetes.io/id"], ID);
    assert!(parent.annotations()["applyset.kubernetes.io/tooling"].starts_with("steer/v"));
    assert_eq!(parent.annotations()[GROUP_KINDS], "ConfigMap,Role.rbac.authorization.k8s.io");

    let mut changed = map("a");
    changed["data"] = json!({ "x": "1" });
    set.apply(vec![changed.clone()]).await.unwrap();
    assert_eq!(taken(&steps), ["written ConfigMap/a Changed", "deleted ConfigMap/b", "deleted Role/r"]);
    let parent = maps(&client).get("set").await.unwrap();
    assert_eq!(parent.annotations()[GROUP_KINDS], "ConfigMap");
    set.apply(vec![changed]).await.unwrap();
    assert_eq!(taken(&steps), ["written ConfigMap/a Unchanged"]);
    assert!(has_map(&client, "foreign").await && has_map(&client, "of-other").await);
    assert!(!has_map(&client, "b").await);
}

#[tokio::test]
async fn what_others_need_is_applied_first() {
    let (_cluster, client) = start().await;
    let (set, steps) = set(&client);
    let objects = vec![widget("w"), within(map("a"), "lab"), namespace("lab"), definition()];
    set.apply(objects).await.unwrap();
    assert_eq!(
        taken(&steps),
        [
            "written Namespace/lab Created",
            "written CustomResourceDefinition/widgets.example.com Created",
            "written Widget/w Created",
            "written ConfigMap/a Created",
        ]
    );
    let parent = maps(&client).get("set").await.unwrap();
    assert_eq!(
        parent.annotations()[GROUP_KINDS],
        "ConfigMap,CustomResourceDefinition.apiextensions.k8s.io,Namespace,Widget.example.com"
    );
    // A kind that is gone has no members.
    let (api, params) = (definitions(&client), DeleteParams::default());
    api.delete("widgets.example.com", &params).await.unwrap();
    set.apply(vec![namespace("lab")]).await.unwrap();
    assert!(taken(&steps).contains(&"deleted ConfigMap/a".to_owned()));
}

fn definitions(
    client: &Client,
) -> Api<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition> {
    Api::all(client.clone())
}

#[tokio::test]
async fn what_is_only_applied_belongs_to_no_set() {
    let (_cluster, client) = start().await;
    let (set, steps) = set(&client);
    set.apply(vec![map("a")]).await.unwrap();
    taken(&steps);
    let applied = set.apply_only(vec![definition(), map("b")]).await.unwrap();
    assert_eq!(applied.len(), 2);
    assert_eq!(
        taken(&steps),
        ["written CustomResourceDefinition/widgets.example.com Created", "written ConfigMap/b Created",]
    );
    assert!(maps(&client).get("b").await.unwrap().labels().is_empty());
    // The definition is served.
    set.apply_only(vec![widget("w")]).await.unwrap();
    set.apply(Vec::new()).await.unwrap();
    assert!(!has_map(&client, "a").await && has_map(&client, "b").await);
}

#[tokio::test]
async fn fields_of_others_are_taken_over_only_by_force() {
    let (_cluster, client) = start().await;
    create_map(&client, "a").await;
    let other = Patch::Apply(json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "x": "other" } }));
    maps(&client).patch("a", &PatchParams::apply("other"), &other).await.unwrap();
    let mut ours = map("a");
    ours["data"] = json!({ "x": "ours" });
    let (set, _) = set(&client);
    let refused = set.apply(vec![ours.clone()]).await.unwrap_err();
    assert_eq!(refused.status_code(), Some(409), "{refused}");
    let data = || async { maps(&client).get("a").await.unwrap().data.unwrap()["x"].clone() };
    assert_eq!(data().await, "other");
    set.force_conflicts(true).apply(vec![ours]).await.unwrap();
    assert_eq!(data().await, "ours");
}

#[tokio::test]
async fn a_member_that_is_gone_already_is_no_failure() {
    for (code, is_failure) in [(404, false), (403, true)] {
        let (_cluster, client) = start().await;
        let judged = judged(&client, move |seen| seen.is(Method::DELETE, "configmaps/b").then_some(code));
        let (set, steps) = set(&judged);
        set.apply(vec![map("a"), map("b")]).await.unwrap();
        taken(&steps);
        let applied = set.apply(vec![map("a")]).await;
        assert_eq!(applied.is_err(), is_failure, "{applied:?}");
        assert_eq!(taken(&steps), ["written ConfigMap/a Unchanged"], "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_is_deleted_with_its_parent() {
    let (_cluster, client) = start().await;
    let (set, steps) = set(&client);
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "extra" } });
    set.apply_only(vec![secret.clone()]).await.unwrap();
    set.apply(vec![definition(), namespace("lab"), map("a"), role("r"), widget("w")]).await.unwrap();
    taken(&steps);

    let unknown = json!({ "apiVersion": "example.org/v1", "kind": "Never", "metadata": { "name": "x" } });
    // A member that is listed again is still one object.
    let given = vec![map("a"), secret, unknown, map("never-there")];
    let count = set.delete_all(given.clone(), false, SOON).await.unwrap();
    assert_eq!(
        taken(&steps),
        [
            "deleted CustomResourceDefinition/widgets.example.com",
            "deleted ConfigMap/a",
            "deleted Role/r",
            "deleted Secret/extra",
            "deleted Namespace/lab",
        ]
    );
    assert_eq!(count, 5);
    assert!(!has_map(&client, "set").await, "the parent goes with it");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    assert!(secrets.get_opt("extra").await.unwrap().is_none());
    let spaces: Api<Namespace> = Api::all(client.clone());
    assert!(spaces.get_opt("lab").await.unwrap().is_none(), "it is waited for");
    // A second run has nothing to do.
    assert_eq!(set.delete_all(given, false, SOON).await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_parent_goes_with_its_namespace() {
    let (_cluster, client) = start().await;
    let spaces: Api<Namespace> = Api::all(client.clone());
    ApplySet::new(client.clone(), "first", "default").apply_only(vec![namespace("lab")]).await.unwrap();
    let set = ApplySet::new(client.clone(), "set", "lab");
    set.apply(vec![namespace("lab"), map("a")]).await.unwrap();
    // The parent is not deleted separately, but with its namespace.
    let judged = judged(&client, |seen| seen.is(Method::DELETE, "configmaps/set").then_some(403));
    let set = ApplySet::new(judged, "set", "lab");
    assert_eq!(set.delete_all(Vec::new(), false, SOON).await.unwrap(), 2);
    assert!(spaces.get_opt("lab").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn definitions_stay_where_they_are_kept() {
    let (_cluster, client) = start().await;
    let (set, steps) = set(&client);
    set.apply(vec![definition(), map("a")]).await.unwrap();
    taken(&steps);
    assert_eq!(set.delete_all(vec![definition()], true, SOON).await.unwrap(), 1);
    assert_eq!(taken(&steps), ["deleted ConfigMap/a"]);
    assert!(definitions(&client).get_opt("widgets.example.com").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn what_keeps_an_object_is_said() {
    let (_cluster, client) = start().await;
    let (set, _) = set(&client);
    let held = |mut object: Value| {
        object["metadata"]["finalizers"] = json!(["example.com/a", "example.com/b"]);
        object
    };
    let said = |deleted: Result<usize, Error>| match deleted {
        Err(Error::Timeout { what }) => what,
        other => panic!("{other:?}"),
    };
    set.apply(vec![definition(), held(widget("w")), held(widget("v"))]).await.unwrap();
    // The CRD is deleted only after its objects.
    let waits = |name: &str| format!("{name} waits for its finalizer example.com/a, example.com/b");
    let w = waits("Widget/w in namespace default");
    let v = waits("Widget/v in namespace default");
    assert_eq!(said(set.delete_all(Vec::new(), false, Duration::from_secs(5)).await), [v, w.clone()]);
    assert_eq!(said(set.delete_all(vec![widget("w")], true, Duration::from_secs(5)).await).last(), Some(&w));

    let mut kept = definition();
    kept["metadata"] =
        json!({ "name": "gadgets.example.com", "finalizers": ["example.com/a", "example.com/b"] });
    kept["spec"]["names"] = json!({ "kind": "Gadget", "plural": "gadgets" });
    let other = ApplySet::new(client.clone(), "other", "default");
    other.apply(vec![kept]).await.unwrap();
    let what = said(other.delete_all(Vec::new(), false, Duration::from_secs(5)).await);
    assert_eq!(what, [waits("CustomResourceDefinition/gadgets.example.com")]);
}

fn deployment(fail: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": {
            "selector": { "matchLabels": { "app": "web", "tier": "front" } },
            "template": {
                "metadata": {
                    "labels": { "app": "web", "tier": "front" }, "annotations": { "cluster.steersman.dev/fail": fail },
                },
                "spec": { "containers": [{ "name": "c", "image": "c" }] },
            },
        },
    })
}

#[tokio::test(start_paused = true)]
async fn readiness_is_waited_for_and_pods_say_what_they_lack() {
    let (_cluster, client) = start().await;
    let (set, _) = set(&client);
    // Pods with other labels are ignored.
    let stray = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "stray", "labels": { "app": "web" }, "annotations": { "cluster.steersman.dev/fail": "crash" },
        },
        "spec": { "containers": [{ "name": "stray", "image": "c" }] },
    });
    let mut applied = set.apply(vec![deployment("image-pull"), map("a"), stray]).await.unwrap();
    applied.truncate(2);
    let failed = set.until_ready(&applied, Duration::from_secs(30)).await.unwrap_err();
    let Error::Timeout { what } = failed else { panic!("{failed}") };
    let [what] = what.as_slice() else { panic!("{what:?}") };
    let start = "Deployment/web in namespace default: 0 of 1 replicas are ready: container c: ";
    assert!(what.starts_with(start) && what.contains("Image"), "{what}");

    let mut applied = set.apply(vec![deployment("")]).await.unwrap();
    set.until_ready(&applied, Duration::from_secs(30)).await.unwrap();
    applied[0].id.name = "never".into();
    let failed = set.until_ready(&applied, Duration::from_secs(3)).await.unwrap_err();
    assert!(failed.to_string().contains("Deployment/never in namespace default: not found"), "{failed}");
}
