//! Clusters started from the checkpoint of another.

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::Deployment,
    batch::v1::Job,
    core::v1::{ConfigMap, Pod},
};
use kube::{
    Api, ResourceExt as _,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
        PostParams,
    },
};
use serde_json::{Value, json};
use steersman_cluster::{Checkpoint, Cluster};

fn template(policy: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"restartPolicy": policy, "containers": [{"name": "c", "image": "i"}]},
    })
}

async fn create<K>(cluster: &Cluster, object: Value) -> K
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::default_namespaced(cluster.client());
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

/// A cluster with a Deployment of two pods, a Job with a running pod, and a CustomResourceDefinition.
async fn checkpoint() -> Checkpoint {
    let cluster = Cluster::builder().seed(1).start().await.unwrap();
    cluster.settled().await;
    let spec =
        json!({"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template("Always")});
    let _: Deployment = create(&cluster, json!({"metadata": {"name": "web"}, "spec": spec})).await;
    let mut pod = template("Never");
    pod["metadata"]["annotations"] = json!({"cluster.steersman.dev/run-for": "60s"});
    let _: Job = create(&cluster, json!({"metadata": {"name": "job"}, "spec": {"template": pod}})).await;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "shells.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "shells", "kind": "Shell"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let definitions: Api<DynamicObject> = Api::all_with(cluster.client(), &ApiResource::from_gvk(&kind));
    definitions.create(&PostParams::default(), &serde_json::from_value(definition).unwrap()).await.unwrap();
    cluster.settled().await;
    tokio::time::sleep(Duration::from_secs(50)).await;
    cluster.checkpoint().await.unwrap()
}

async fn pods(cluster: &Cluster) -> Vec<(String, String)> {
    let api: Api<Pod> = Api::default_namespaced(cluster.client());
    let pods = api.list(&ListParams::default().labels("app=web")).await.unwrap();
    let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
    pods.iter().map(|pod| (pod.uid().unwrap_or_default(), phase(pod))).collect()
}

async fn scale(cluster: &Cluster, replicas: i32) {
    let api: Api<Deployment> = Api::default_namespaced(cluster.client());
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    api.patch("web", &PatchParams::default(), &patch).await.unwrap();
    cluster.settled().await;
}

#[tokio::test(start_paused = true)]
async fn clusters_go_on_apart_from_each_other() {
    let checkpoint = checkpoint().await;
    let (one, other) = (checkpoint.start(1).unwrap(), checkpoint.start(2).unwrap());
    let before = pods(&one).await;
    assert_eq!((before.len(), &before), (3, &pods(&other).await));
    scale(&one, 4).await;
    scale(&other, 1).await;
    assert_eq!((pods(&one).await.len(), pods(&other).await.len()), (5, 2));
    assert!(pods(&one).await.iter().all(|(_, phase)| phase == "Running"));
    // Garbage collection knows the objects from before the checkpoint.
    let deployments: Api<Deployment> = Api::default_namespaced(one.client());
    deployments.delete("web", &DeleteParams::background()).await.unwrap();
    one.settled().await;
    assert_eq!(pods(&one).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_time_goes_on_waiting() {
    let checkpoint = checkpoint().await;
    // Tokio's clock has advanced since the checkpoint, the cluster's has not.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let cluster = checkpoint.start(1).unwrap();
    let jobs: Api<Job> = Api::default_namespaced(cluster.client());
    let succeeded = async || {
        jobs.get("job").await.unwrap().status.and_then(|status| status.succeeded).unwrap_or_default()
    };
    tokio::time::sleep(Duration::from_secs(9)).await;
    cluster.settled().await;
    assert_eq!(succeeded().await, 0);
    tokio::time::sleep(Duration::from_secs(2)).await;
    cluster.settled().await;
    assert_eq!(succeeded().await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_seed_decides_what_is_drawn() {
    let checkpoint = checkpoint().await;
    let mut uids = Vec::new();
    for seed in [1, 1, 2] {
        let cluster = checkpoint.start(seed).unwrap();
        let map: ConfigMap = create(&cluster, json!({"metadata": {"generateName": "map-"}})).await;
        uids.push((map.uid(), map.name_any()));
    }
    assert_eq!(uids[0], uids[1]);
    assert_ne!(uids[0], uids[2]);
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_definition_are_served_and_collected() {
    let cluster = checkpoint().await.start(1).unwrap();
    let shells = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Shell"));
    let shells: Api<DynamicObject> = Api::default_namespaced_with(cluster.client(), &shells);
    let shell = json!({"apiVersion": "example.com/v1", "kind": "Shell", "metadata": {"name": "one"}});
    let shell = shells.create(&PostParams::default(), &serde_json::from_value(shell).unwrap()).await.unwrap();
    let owner = json!({"apiVersion": "example.com/v1", "kind": "Shell", "name": "one", "uid": shell.uid()});
    let _: ConfigMap =
        create(&cluster, json!({"metadata": {"name": "owned", "ownerReferences": [owner]}})).await;
    cluster.settled().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    assert!(maps.get_opt("owned").await.unwrap().is_some());
    shells.delete("one", &DeleteParams::background()).await.unwrap();
    cluster.settled().await;
    assert!(maps.get_opt("owned").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_workloads_has_a_checkpoint_too() {
    let cluster = Cluster::builder().seed(1).workloads(false).start().await.unwrap();
    let map: ConfigMap = create(&cluster, json!({"metadata": {"name": "map"}})).await;
    let fork = cluster.checkpoint().await.unwrap().start(1).unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(fork.client());
    assert_eq!(maps.get("map").await.unwrap(), map);
}
