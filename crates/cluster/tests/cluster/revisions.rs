//! ControllerRevisions of StatefulSets and DaemonSets that another controller manager writes too.

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet, StatefulSet},
    core::v1::Pod,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};
use steersman_cluster::Cluster;

async fn cluster() -> Cluster {
    let cluster = Cluster::builder().seed(1).start().await.unwrap();
    cluster.settled().await;
    cluster
}

/// A set that keeps only the revision in use.
fn spec() -> Value {
    json!({
        "revisionHistoryLimit": 0,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
    })
}

async fn revisions(client: &Client) -> Vec<ControllerRevision> {
    let api: Api<ControllerRevision> = Api::default_namespaced(client.clone());
    api.list(&ListParams::default()).await.unwrap().items
}

/// Replaces the only revision by one with another name.
async fn rename(cluster: &Cluster, label: &str) {
    let api: Api<ControllerRevision> = Api::default_namespaced(cluster.client());
    let first = revisions(&cluster.client()).await.remove(0);
    let mut second = first.clone();
    second.metadata.name = Some("web-other".to_owned());
    second.metadata.resource_version = None;
    second.metadata.uid = None;
    second.labels_mut().insert(label.to_owned(), "other".to_owned());
    second.revision = 2;
    api.create(&PostParams::default(), &second).await.unwrap();
    api.delete(&first.name_any(), &DeleteParams::default()).await.unwrap();
    cluster.settled().await;
    let left = revisions(&cluster.client()).await;
    let left: Vec<(String, i64)> = left.iter().map(|r| (r.name_any(), r.revision)).collect();
    assert_eq!(left, [("web-other".to_owned(), 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_names_the_revision_that_there_is() {
    let cluster = cluster().await;
    let sets: Api<StatefulSet> = Api::default_namespaced(cluster.client());
    let set = serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec()})).unwrap();
    sets.create(&PostParams::default(), &set).await.unwrap();
    cluster.settled().await;
    rename(&cluster, "controller.kubernetes.io/hash").await;
    let status = sets.get("web").await.unwrap().status.unwrap();
    assert_eq!(
        (status.current_revision.as_deref(), status.update_revision.as_deref()),
        (Some("web-other"), Some("web-other"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_daemon_keeps_its_pods_when_its_revision_has_another_name() {
    let cluster = cluster().await;
    let sets: Api<DaemonSet> = Api::default_namespaced(cluster.client());
    let set = serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec()})).unwrap();
    sets.create(&PostParams::default(), &set).await.unwrap();
    cluster.settled().await;
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    let uids = async || -> Vec<_> {
        pods.list(&ListParams::default()).await.unwrap().iter().map(kube::ResourceExt::uid).collect()
    };
    let before = uids().await;
    rename(&cluster, "controller-revision-hash").await;
    assert_eq!((uids().await, before.len()), (before, 1));
    let pod = pods.list(&ListParams::default()).await.unwrap().items.remove(0);
    pods.delete(&pod.name_any(), &DeleteParams::default()).await.unwrap();
    cluster.settled().await;
    let pod = pods.list(&ListParams::default()).await.unwrap().items.remove(0);
    assert_eq!(pod.labels()["controller-revision-hash"], "other");
}
