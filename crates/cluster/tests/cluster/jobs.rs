//! Success and failure of Jobs, observed through an ordinary client.

use std::time::Duration;

use k8s_openapi::api::{
    batch::v1::{Job, JobStatus},
    core::v1::Pod,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use steersman_cluster::Cluster;

async fn cluster() -> Cluster {
    let cluster = Cluster::builder().seed(1).start().await.unwrap();
    cluster.settled().await;
    cluster
}

/// Creates the Job `work`.
async fn make(client: Client, spec: Value) {
    let job = serde_json::from_value(json!({"metadata": {"name": "work"}, "spec": spec})).unwrap();
    Api::<Job>::default_namespaced(client).create(&PostParams::default(), &job).await.unwrap();
}

/// Returns its status after some time.
async fn after(cluster: &Cluster, seconds: u64) -> JobStatus {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    cluster.settled().await;
    Api::<Job>::default_namespaced(cluster.client()).get("work").await.unwrap().status.unwrap()
}

fn runs(command: &str) -> Value {
    json!({"name": "c", "image": "busybox", "command": [command]})
}

fn template(command: &str) -> Value {
    json!({"spec": {"restartPolicy": "Never", "containers": [runs(command)]}})
}

fn reason<'a>(status: &'a JobStatus, type_: &str) -> Option<&'a str> {
    let mut conditions = status.conditions.iter().flatten();
    conditions.find(|c| c.type_ == type_).and_then(|c| c.reason.as_deref())
}

#[tokio::test(start_paused = true)]
async fn each_index_of_a_job_fails_by_itself() {
    let cluster = cluster().await;
    let spec = json!({
        "completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
        "template": template("false"),
    });
    make(cluster.client(), spec).await;
    let status = after(&cluster, 60).await;
    assert_eq!((status.failed, status.failed_indexes.as_deref()), (Some(6), Some("0-2")));
    assert_eq!(reason(&status, "Failed"), Some("FailedIndexes"));
}

#[tokio::test(start_paused = true)]
async fn a_job_bears_so_many_failed_indexes() {
    let cluster = cluster().await;
    let spec = json!({
        "completions": 4, "parallelism": 1, "completionMode": "Indexed",
        "backoffLimitPerIndex": 0, "maxFailedIndexes": 1,
        "template": template("false"),
    });
    make(cluster.client(), spec).await;
    let status = after(&cluster, 60).await;
    assert_eq!((status.failed, status.failed_indexes.as_deref()), (Some(2), Some("0,1")));
    assert_eq!(reason(&status, "Failed"), Some("MaxFailedIndexesExceeded"));
}

#[tokio::test(start_paused = true)]
async fn a_policy_says_when_a_job_has_succeeded() {
    let cluster = cluster().await;
    let spec = json!({
        "completions": 2, "parallelism": 1, "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": "0"}]},
        "template": template("true"),
    });
    make(cluster.client(), spec).await;
    let status = after(&cluster, 60).await;
    assert_eq!(
        (reason(&status, "SuccessCriteriaMet"), reason(&status, "Complete")),
        (Some("SuccessPolicy"), Some("SuccessPolicy"))
    );
    assert_eq!((status.succeeded, status.completed_indexes.as_deref()), (Some(1), Some("0")));
}

#[tokio::test(start_paused = true)]
async fn a_policy_is_met_even_if_all_indexes_are_done() {
    let cluster = cluster().await;
    let spec = json!({
        "completions": 2, "parallelism": 2, "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededCount": 2}]},
        "template": template("true"),
    });
    make(cluster.client(), spec).await;
    let status = after(&cluster, 60).await;
    assert_eq!((status.succeeded, reason(&status, "Complete")), (Some(2), Some("SuccessPolicy")));
}

#[tokio::test(start_paused = true)]
async fn failures_speak_before_a_policy() {
    let cluster = cluster().await;
    let mut template = template("unknown");
    template["metadata"] = json!({"annotations": {"cluster.steersman.dev/run-for": "10s"}});
    let spec = json!({
        "completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimit": 0,
        "successPolicy": {"rules": [{"succeededIndexes": "0"}]},
        "template": template,
    });
    make(cluster.client(), spec).await;
    cluster.settled().await;
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    let second = ListParams::default().labels("batch.kubernetes.io/job-completion-index=1");
    let second = pods.list(&second).await.unwrap().items.remove(0).name_any();
    let fails = Patch::Merge(json!({"metadata": {"annotations": {"cluster.steersman.dev/exit-code": "1"}}}));
    pods.patch(&second, &PatchParams::default(), &fails).await.unwrap();
    let status = after(&cluster, 20).await;
    assert_eq!((status.succeeded, status.failed), (Some(1), Some(1)));
    assert_eq!(
        (reason(&status, "Failed"), reason(&status, "Complete")),
        (Some("BackoffLimitExceeded"), None)
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fails_at_its_start_is_waited_after() {
    let cluster = cluster().await;
    let mut template = template("true");
    template["spec"]["initContainers"] = json!([{"name": "i", "image": "busybox", "command": ["false"]}]);
    make(cluster.client(), json!({"template": template})).await;
    assert_eq!(after(&cluster, 5).await.failed, Some(1));
    assert_eq!(after(&cluster, 10).await.failed, Some(2));
}

#[tokio::test(start_paused = true)]
async fn restarts_at_a_pods_start_are_counted() {
    let cluster = cluster().await;
    let template = json!({"spec": {
        "restartPolicy": "OnFailure",
        "initContainers": [{"name": "i", "image": "busybox", "command": ["false"]}],
        "containers": [runs("true")],
    }});
    make(cluster.client(), json!({"backoffLimit": 2, "template": template})).await;
    assert_eq!(reason(&after(&cluster, 20).await, "Failed"), None);
    let status = after(&cluster, 20).await;
    assert_eq!((reason(&status, "Failed"), status.failed), (Some("BackoffLimitExceeded"), Some(1)));
}
