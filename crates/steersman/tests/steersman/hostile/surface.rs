//! What users see: logs, events and metrics; and the test environment.

use std::{
    io,
    sync::{Arc, Mutex},
};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use serde_json::{Value, json};
use steersman::{
    Action, Context, Controller, Error, Operator, Result,
    testing::{Cluster, TestEnv, object},
};

use super::{env, notes};
use crate::common::{Widget, WidgetStatus, free_port, get, shown, widget};

/// Collects logs.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_line_of_json_has_each_key_once() -> Result<()> {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_span_list(false)
        .with_writer(move || writer.clone())
        .finish();
    // For all threads: otherwise log lines that other tests emit first would be missing here.
    tracing::subscriber::set_global_default(subscriber).map_err(Error::other)?;
    let mut env = env().await?;
    let reconcile = |_: Arc<Widget>, ctx: Context| async move {
        tracing::info!("looking at a line of JSON");
        ctx.update_status(&WidgetStatus { color: "seen".into(), note: None }).await?;
        Ok::<_, Error>(Action::await_change())
    };
    env.run(Operator::new("test").controller(Controller::of::<Widget>(reconcile)));
    env.create(&widget("one", "red")).await?;
    env.wait("one", |found| shown(found) == Some("seen")).await?;
    let text = String::from_utf8_lossy(&lines.0.lock().unwrap()).into_owned();
    let line = text.lines().find(|line| line.contains("looking at a line of JSON")).unwrap_or_default();
    assert_eq!(line.matches(r#""name":"#).count(), 1, "{line}");
    let span: Value = serde_json::from_str(line).map_err(Error::other)?;
    assert_eq!(
        span["span"],
        json!({"name": "reconcile", "controller": "widget", "namespace": "default", "object": "one"})
    );
    Ok(())
}

#[tokio::test]
async fn answers_of_the_api_server_are_told_in_its_own_words() -> Result<()> {
    let mut env = env().await?;
    let metrics = free_port();
    let reconcile = |_: Arc<Widget>, ctx: Context| async move {
        let maps: Api<ConfigMap> = Api::namespaced(ctx.client(), "default");
        maps.get("absent").await?;
        Ok::<_, Error>(Action::await_change())
    };
    let operator = Operator::new("test").controller(Controller::of::<Widget>(reconcile));
    env.run(operator.api_server("cluster.example:6443").metrics_address(metrics));
    env.create(&widget("one", "red")).await?;
    while notes(&env, "ReconcileFailed").await?.is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(notes(&env, "ReconcileFailed").await?, [r#"configmaps "absent" not found"#]);
    let text = get(metrics, "/metrics").await.map_err(Error::other)?;
    let requests: Vec<_> =
        text.lines().filter(|line| line.starts_with("rest_client_requests_total")).collect();
    assert!(!requests.is_empty());
    assert!(requests.iter().all(|line| line.contains(r#"host="cluster.example:6443""#)), "{requests:?}");
    Ok(())
}

#[tokio::test]
async fn kinds_without_namespaces_can_be_tested_in_a_cluster_outside() -> Result<()> {
    let cluster =
        Cluster::builder().listen(([127, 0, 0, 1], 0).into()).start().await.map_err(Error::other)?;
    let folder = std::env::temp_dir().join(format!("steersman-outside-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(Error::other)?;
    let kubeconfig = folder.join("kubeconfig");
    cluster.write_kubeconfig(&kubeconfig).map_err(Error::other)?;
    let env = TestEnv::outside(&kubeconfig).await?;
    env.create(&object::<Namespace>(json!({"metadata": {"name": "made"}}))).await?;
    env.patch::<Namespace>("made", json!({"metadata": {"labels": {"a": "b"}}})).await?;
    env.wait("made", |found: Option<&Namespace>| {
        found.is_some_and(|found| found.metadata.labels.as_ref().is_some_and(|labels| labels["a"] == "b"))
    })
    .await?;
    env.create(&object::<Namespace>(json!({"metadata": {"name": "deleted"}}))).await?;
    env.delete::<Namespace>("deleted").await?;
    // What a test leaves behind is deleted with its environment.
    tokio::task::spawn_blocking(move || drop(env)).await.map_err(Error::other)?;
    let inside = TestEnv::on(cluster);
    inside.wait("made", |found: Option<&Namespace>| found.is_none()).await?;
    inside.wait("deleted", |found: Option<&Namespace>| found.is_none()).await?;
    std::fs::remove_dir_all(&folder).map_err(Error::other)?;
    Ok(())
}
