//! Setting the cluster's clock forward, in real time.

use std::{pin::pin, time::Duration};

use futures::TryStreamExt as _;
use k8s_openapi::api::{
    batch::v1::{CronJob, Job},
    core::v1::{Node, Pod},
};
use kube::{
    Api,
    api::{ListParams, PostParams},
    runtime::{WatchStreamExt as _, wait::await_condition, watcher},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use steersman_cluster::Cluster;

const HOUR: Duration = Duration::from_secs(3600);

fn read<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_time_is_due_when_the_clock_is_set_forward() {
    let cluster = Cluster::builder()
        .pod_start_delay(Duration::ZERO)
        .pod_run_time(Duration::ZERO)
        .start()
        .await
        .unwrap();
    let template = json!({"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}],
    }});
    let crons: Api<CronJob> = Api::default_namespaced(cluster.client());
    let cron = json!({
        "metadata": {"name": "hourly"},
        "spec": {"schedule": "30 * * * *", "jobTemplate": {"spec": {
            "ttlSecondsAfterFinished": 7200, "template": template,
        }}},
    });
    crons.create(&PostParams::default(), &read(cron)).await.unwrap();
    let jobs: Api<Job> = Api::default_namespaced(cluster.client());
    cluster.settled().await;
    assert!(jobs.list(&ListParams::default()).await.unwrap().items.is_empty());

    let before = cluster.environment().now();
    cluster.advance(HOUR);
    assert!(cluster.environment().now().duration_since(before).as_secs() >= 3600);
    let mut made = pin!(watcher(jobs.clone(), watcher::Config::default()).applied_objects());
    let job = made.try_next().await.unwrap().unwrap();
    let name = job.metadata.name.unwrap();
    let is_complete =
        |job: Option<&Job>| job.and_then(|job| job.status.as_ref()?.completion_time.as_ref()).is_some();
    await_condition(jobs.clone(), &name, is_complete).await.unwrap();

    // Its TTL expires within three hours, and the Job of another hour has taken its place.
    cluster.advance(3 * HOUR);
    await_condition(jobs.clone(), &name, |job: Option<&Job>| job.is_none()).await.unwrap();
    assert_eq!(cluster.advanced(), 4 * HOUR);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_goes_on_when_the_clock_is_set_forward() {
    let cluster = Cluster::builder().pod_start_delay(Duration::ZERO).start().await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    let pod = json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    pods.create(&PostParams::default(), &read(pod)).await.unwrap();
    let is_ready = |pod: Option<&Pod>| {
        let conditions = pod.and_then(|pod| pod.status.as_ref()?.conditions.as_ref());
        conditions.is_some_and(|list| list.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
    };
    await_condition(pods.clone(), "web", is_ready).await.unwrap();
    cluster.advance(24 * HOUR);
    // A pod created after the step runs too: its node is not considered lost.
    let late = json!({"metadata": {"name": "late"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    pods.create(&PostParams::default(), &read(late)).await.unwrap();
    await_condition(pods.clone(), "late", is_ready).await.unwrap();
    assert!(is_ready(Some(&pods.get("web").await.unwrap())));
    let nodes: Api<Node> = Api::all(cluster.client());
    for node in nodes.list(&ListParams::default()).await.unwrap() {
        assert!(node.spec.and_then(|spec| spec.taints).unwrap_or_default().is_empty());
    }
}
