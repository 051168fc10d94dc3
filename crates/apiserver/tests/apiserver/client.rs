//! The server behind an ordinary `kube::Client`.

use std::{collections::BTreeMap, time::Duration};

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Namespace, Pod, Secret, Service},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, CustomResource, CustomResourceExt as _, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::json;
use steersman_apiserver::Server;

fn client() -> Client {
    Client::new(Server::default().service(), "default")
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"a": "1"}})).unwrap()
}

#[derive(CustomResource, Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[kube(
    group = "example.dev",
    version = "v1",
    kind = "Widget",
    namespaced,
    status = "WidgetStatus",
    shortname = "wd"
)]
struct WidgetSpec {
    #[schemars(range(min = 1))]
    size: i32,
    color: Option<String>,
}

#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct WidgetStatus {
    ready: bool,
}

#[tokio::test]
async fn objects_are_created_read_changed_and_deleted() {
    let api: Api<ConfigMap> = Api::default_namespaced(client());
    let created = api.create(&PostParams::default(), &config_map("one")).await.unwrap();
    assert!(created.uid().is_some() && created.creation_timestamp().is_some());

    let again = api.create(&PostParams::default(), &config_map("one")).await.unwrap_err();
    let kube::Error::Api(status) = again else { panic!("{again}") };
    assert_eq!((status.code, status.reason.as_str()), (409, "AlreadyExists"));
    assert_eq!(status.message, "configmaps \"one\" already exists");

    let mut changed = created.clone();
    changed.data = Some(BTreeMap::from([("a".into(), "2".into())]));
    let updated = api.replace("one", &PostParams::default(), &changed).await.unwrap();
    assert_ne!(updated.resource_version(), created.resource_version());
    let stale = api.replace("one", &PostParams::default(), &changed).await.unwrap_err();
    assert!(matches!(stale, kube::Error::Api(s) if s.reason == "Conflict"));

    let patched =
        api.patch("one", &PatchParams::default(), &Patch::Merge(json!({"data": {"b": "3"}}))).await.unwrap();
    assert_eq!(patched.data.unwrap().len(), 2);
    let unchanged =
        api.patch("one", &PatchParams::default(), &Patch::Merge(json!({"data": {"b": "3"}}))).await.unwrap();
    assert_eq!(unchanged.resource_version(), patched.metadata.resource_version);

    api.delete("one", &DeleteParams::default()).await.unwrap();
    assert!(api.get_opt("one").await.unwrap().is_none());
}

#[tokio::test]
async fn lists_come_in_consistent_pages() {
    let api: Api<ConfigMap> = Api::default_namespaced(client());
    for i in 0..7 {
        api.create(&PostParams::default(), &config_map(&format!("c{i}"))).await.unwrap();
    }
    let first = api.list(&ListParams::default().limit(3)).await.unwrap();
    assert_eq!(first.items.len(), 3);
    assert_eq!(first.metadata.remaining_item_count, Some(4));
    // Changes between two pages are not visible in later pages.
    api.delete("c4", &DeleteParams::default()).await.unwrap();
    api.create(&PostParams::default(), &config_map("c9")).await.unwrap();
    let mut names: Vec<String> = Vec::new();
    let mut token = first.metadata.continue_;
    while let Some(t) = token {
        let page = api.list(&ListParams::default().limit(3).continue_token(&t)).await.unwrap();
        assert_eq!(page.metadata.resource_version, first.metadata.resource_version);
        names.extend(page.items.iter().map(kube::ResourceExt::name_any));
        token = page.metadata.continue_;
    }
    assert_eq!(names, ["c3", "c4", "c5", "c6"]);
}

#[tokio::test]
async fn watches_follow_selectors() {
    let api: Api<ConfigMap> = Api::default_namespaced(client());
    let params = WatchParams::default().labels("app=web");
    let mut events = api.watch(&params, "0").await.unwrap().boxed();
    api.create(&PostParams::default(), &config_map("w")).await.unwrap();
    let label = |value: &str| Patch::Merge(json!({"metadata": {"labels": {"app": value}}}));
    for value in ["web", "web", "db"] {
        api.patch("w", &PatchParams::default(), &label(value)).await.unwrap();
    }
    api.patch("w", &PatchParams::default(), &label("web")).await.unwrap();
    api.delete("w", &DeleteParams::default()).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 4 {
        seen.push(match events.try_next().await.unwrap().unwrap() {
            WatchEvent::Added(_) => "added",
            WatchEvent::Modified(_) => "modified",
            WatchEvent::Deleted(_) => "deleted",
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(seen, ["added", "deleted", "added", "deleted"]);
}

#[tokio::test]
async fn a_reflector_style_watcher_works_in_both_modes() {
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let api: Api<ConfigMap> = Api::default_namespaced(client());
        api.create(&PostParams::default(), &config_map("before")).await.unwrap();
        let mut stream = watcher(api.clone(), config).applied_objects().boxed();
        let next = tokio::time::timeout(Duration::from_secs(5), stream.try_next()).await.unwrap();
        assert_eq!(next.unwrap().unwrap().name_any(), "before");
        api.create(&PostParams::default(), &config_map("after")).await.unwrap();
        let next = tokio::time::timeout(Duration::from_secs(5), stream.try_next()).await.unwrap();
        assert_eq!(next.unwrap().unwrap().name_any(), "after");
    }
}

#[tokio::test]
async fn custom_resources_are_served_at_once() {
    let client = client();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &Widget::crd()).await.unwrap();
    let stored = definitions.get("widgets.example.dev").await.unwrap();
    let conditions = stored.status.unwrap().conditions.unwrap();
    assert!(conditions.iter().all(|c| c.status == "True") && conditions.len() == 2);

    let api: Api<Widget> = Api::default_namespaced(client.clone());
    let made = api
        .create(&PostParams::default(), &Widget::new("w", WidgetSpec { size: 1, color: None }))
        .await
        .unwrap();
    assert_eq!(made.metadata.generation, Some(1));
    let bad =
        api.create(&PostParams::default(), &Widget::new("x", WidgetSpec { size: 0, color: None })).await;
    let Err(kube::Error::Api(status)) = bad else { panic!("accepted") };
    assert_eq!(
        status.message,
        "Widget.example.dev \"x\" is invalid: spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"
    );

    // Status and spec are isolated from each other.
    let patch = json!({"spec": {"size": 5}, "status": {"ready": true}});
    let by_status = api.patch_status("w", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!((by_status.spec.size, by_status.metadata.generation), (1, Some(1)));
    assert!(by_status.status.unwrap().ready);
    let by_main = api.patch("w", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!((by_main.spec.size, by_main.metadata.generation), (5, Some(2)));

    definitions.delete("widgets.example.dev", &DeleteParams::default()).await.unwrap();
    assert!(definitions.get_opt("widgets.example.dev").await.unwrap().is_none());
    assert!(matches!(api.list(&ListParams::default()).await, Err(kube::Error::Api(s)) if s.code == 404));
}

#[tokio::test]
async fn finalizers_hold_objects() {
    let api: Api<ConfigMap> = Api::default_namespaced(client());
    let mut object = config_map("held");
    object.metadata.finalizers = Some(vec!["example.dev/hold".into()]);
    api.create(&PostParams::default(), &object).await.unwrap();
    api.delete("held", &DeleteParams::default()).await.unwrap();
    assert!(api.get("held").await.unwrap().metadata.deletion_timestamp.is_some());
    let release = Patch::Json::<()>(
        serde_json::from_value(json!([
            {"op": "test", "path": "/metadata/finalizers/0", "value": "example.dev/hold"},
            {"op": "remove", "path": "/metadata/finalizers/0"},
        ]))
        .unwrap(),
    );
    api.patch("held", &PatchParams::default(), &release).await.unwrap();
    assert!(api.get_opt("held").await.unwrap().is_none());
}

#[tokio::test]
async fn built_in_kinds_get_their_defaults() {
    let client = client();
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let object = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "nginx:1.29"}]},
            },
        },
    }))
    .unwrap();
    let made = deployments.create(&PostParams::default(), &object).await.unwrap();
    let spec = made.spec.unwrap();
    assert_eq!((spec.replicas, spec.revision_history_limit), (Some(1), Some(10)));
    let container = &spec.template.spec.unwrap().containers[0];
    assert_eq!(container.image_pull_policy.as_deref(), Some("IfNotPresent"));

    let secrets: Api<Secret> = Api::default_namespaced(client.clone());
    let object =
        serde_json::from_value(json!({"metadata": {"name": "s"}, "stringData": {"k": "v"}})).unwrap();
    let made = secrets.create(&PostParams::default(), &object).await.unwrap();
    assert_eq!(made.data.unwrap()["k"].0, b"v");
    assert_eq!(made.type_.as_deref(), Some("Opaque"));

    let services: Api<Service> = Api::default_namespaced(client.clone());
    assert_eq!(
        services.get("kubernetes").await.unwrap().spec.unwrap().cluster_ip.as_deref(),
        Some("10.96.0.1")
    );
    let object = serde_json::from_value(json!({
        "metadata": {"name": "web"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]},
    }))
    .unwrap();
    let spec = services.create(&PostParams::default(), &object).await.unwrap().spec.unwrap();
    assert!(spec.cluster_ip.unwrap().starts_with("10."));
    assert!((30000..32768).contains(&spec.ports.unwrap()[0].node_port.unwrap()));

    let namespaces: Api<Namespace> = Api::all(client.clone());
    assert_eq!(namespaces.list(&ListParams::default()).await.unwrap().items.len(), 4);
    let elsewhere: Api<Pod> = Api::namespaced(client, "nowhere");
    let pod = serde_json::from_value(json!({
        "metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "a"}]},
    }))
    .unwrap();
    let refused = elsewhere.create(&PostParams::default(), &pod).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(s) if s.message == "namespaces \"nowhere\" not found"));
}

#[tokio::test]
async fn applied_fields_have_owners() {
    let api: Api<ConfigMap> = Api::default_namespaced(client());
    let intent = |data: serde_json::Value| {
        Patch::Apply(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}),
        )
    };
    let (one, two) = (PatchParams::apply("one"), PatchParams::apply("two"));
    let made = api.patch("a", &one, &intent(json!({"x": "1", "y": "1"}))).await.unwrap();
    let entry = &made.managed_fields()[0];
    assert_eq!((entry.manager.as_deref(), entry.operation.as_deref()), (Some("one"), Some("Apply")));
    let again = api.patch("a", &one, &intent(json!({"x": "1", "y": "1"}))).await.unwrap();
    assert_eq!(again.metadata.resource_version, made.metadata.resource_version);

    let refused = api.patch("a", &two, &intent(json!({"x": "2"}))).await.unwrap_err();
    let kube::Error::Api(status) = refused else { panic!("{refused}") };
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    assert_eq!(status.message, "Apply failed with 1 conflict: conflict with \"one\": .data.x");
    let cause = &status.details.unwrap().causes[0];
    assert_eq!((cause.reason.as_str(), cause.field.as_str()), ("FieldManagerConflict", ".data.x"));

    api.patch("a", &two.force(), &intent(json!({"x": "2"}))).await.unwrap();
    // Fields that a manager no longer applies and no other manager owns are removed.
    let left = api.patch("a", &one, &intent(json!({}))).await.unwrap();
    assert_eq!(left.data.unwrap(), BTreeMap::from([("x".into(), "2".into())]));
}

#[tokio::test]
async fn what_is_nested_too_deep_is_refused_and_all_else_can_be_read_again() {
    let client = client();
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = serde_json::from_value(json!({
        "metadata": {"name": "heaps.example.dev"},
        "spec": {
            "group": "example.dev",
            "names": {"plural": "heaps", "kind": "Heap"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    }));
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &definition.unwrap()).await.unwrap();
    let kind = kube::core::GroupVersionKind::gvk("example.dev", "v1", "Heap");
    let heaps: Api<kube::core::DynamicObject> =
        Api::default_namespaced_with(client, &kube::core::ApiResource::from_gvk_with_plural(&kind, "heaps"));
    let nested = |depth: usize| (0..depth).fold(json!("x"), |inner, _| json!({"a": inner}));
    let heap = |name: &str, depth: usize| {
        let metadata = json!({"name": name});
        json!({"apiVersion": "example.dev/v1", "kind": "Heap", "metadata": metadata, "spec": nested(depth)})
    };
    let params = PatchParams::apply("test");
    let made = heaps.patch("one", &params, &Patch::Apply(heap("one", 99))).await.unwrap();
    assert_eq!(made.data["spec"], nested(99));
    let managers = heaps.get("one").await.unwrap().metadata.managed_fields.unwrap();
    assert!(managers[0].fields_v1.as_ref().unwrap().0["f:spec"]["f:a"].is_object());
    heaps.patch("one", &params, &Patch::Apply(heap("one", 98))).await.unwrap();

    let refused = heaps.patch("two", &params, &Patch::Apply(heap("two", 100))).await.unwrap_err();
    let kube::Error::Api(status) = refused else { panic!("{refused}") };
    assert_eq!(status.code, 400, "{}", status.message);
    // Neither step is deep on its own.
    let deeper = json!([{"op": "add", "path": format!("/spec{}/b", "/a".repeat(90)), "value": nested(60)}]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(deeper).unwrap());
    let refused = heaps.patch("one", &PatchParams::default(), &patch).await.unwrap_err();
    let kube::Error::Api(status) = refused else { panic!("{refused}") };
    assert_eq!(status.code, 400, "{}", status.message);
    assert_eq!(heaps.get("one").await.unwrap().data["spec"], nested(98));
}
