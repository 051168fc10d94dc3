//! Failures and panics.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context as TaskContext, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, CustomResourceExt as _, ResourceExt as _, client::Body};
use serde_json::json;
use steersman::{
    Action, Context, Controller, Error, Key, Operator, Result, Watch,
    testing::{TestEnv, object},
};
use tokio::{sync::watch, time::Instant};
use tower_service::Service;

use super::env;
use crate::common::{Widget, WidgetStatus, free_port, get, shown, widget};

async fn show(ctx: &Context, color: &str) -> Result<Action> {
    ctx.update_status(&WidgetStatus { color: color.to_owned(), note: None }).await?;
    Ok(Action::await_change())
}

#[tokio::test(start_paused = true)]
async fn the_back_off_of_a_deleted_object_is_not_its_successors() -> Result<()> {
    let mut env = env().await?;
    let failures = watch::Sender::new(0);
    let told = failures.clone();
    let tried = Arc::new(AtomicBool::new(false));
    let reconcile = move |widget: Arc<Widget>, ctx: Context| {
        let (told, tried) = (told.clone(), Arc::clone(&tried));
        async move {
            // The new one fails once.
            if widget.spec.color == "new" && tried.swap(true, SeqCst) {
                return show(&ctx, "new").await;
            }
            told.send_replace(ctx.failures());
            // Long enough for the object to be replaced in the meantime.
            tokio::time::sleep(Duration::from_secs(1)).await;
            Err(Error::other("not yet"))
        }
    };
    env.run(Operator::new("test").controller(Controller::of::<Widget>(reconcile)));
    env.create(&widget("one", "old")).await?;
    failures.subscribe().wait_for(|failures| *failures == 14).await.map_err(Error::other)?;
    env.delete::<Widget>("one").await?;
    env.create(&widget("one", "new")).await?;
    let start = Instant::now();
    env.wait("one", |found| shown(found) == Some("new")).await?;
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    Ok(())
}

/// A network that refuses connections at times.
#[derive(Clone)]
struct Refusing {
    client: Client,
    down: Arc<AtomicBool>,
}

impl Service<Request<Body>> for Refusing {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, kube::Error>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { client, down } = self.clone();
        Box::pin(async move {
            if down.load(SeqCst) {
                let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
                return Err(kube::Error::Service(refused.into()));
            }
            client.send(request).await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_was_away_for_long_is_found_again_at_once() -> Result<()> {
    let env = env().await?;
    let down = Arc::new(AtomicBool::new(true));
    let client = Client::new(Refusing { client: env.client(), down: Arc::clone(&down) }, "default");
    let reconcile = |widget: Arc<Widget>, ctx: Context| async move { show(&ctx, &widget.spec.color).await };
    let controller = Controller::of::<Widget>(reconcile).sync_timeout(Duration::from_secs(86_400));
    let operator = Operator::new("test").controller(controller);
    let running = tokio::spawn(operator.run_until(client, std::future::pending()));
    env.create(&widget("one", "red")).await?;
    tokio::time::sleep(Duration::from_secs(300)).await;
    down.store(false, SeqCst);
    let start = Instant::now();
    env.wait("one", |found| shown(found) == Some("red")).await?;
    assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
    running.abort();
    Ok(())
}

#[tokio::test]
async fn objects_that_never_rest_starve_no_other() -> Result<()> {
    let mut env = env().await?;
    let names: Vec<String> = (0..4).map(|number| format!("cold-{number}")).collect();
    for name in names.iter().map(String::as_str).chain(["a-hot", "b-hot"]) {
        env.create(&widget(name, name)).await?;
    }
    let reconcile = |widget: Arc<Widget>, ctx: Context| async move {
        if widget.name_any().ends_with("hot") {
            tokio::task::yield_now().await;
            return Ok(Action::requeue(Duration::ZERO));
        }
        show(&ctx, &widget.spec.color).await
    };
    // The first list has all of them, at its low priority; a requeued object counts as a change.
    env.run(Operator::new("test").controller(Controller::of::<Widget>(reconcile).concurrency(1)));
    for name in &names {
        env.wait(name, |found| shown(found) == Some(name)).await?;
    }
    Ok(())
}

/// An error whose `Display` panics.
#[derive(Debug)]
struct Unspeakable;

impl fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("as asked")
    }
}

impl std::error::Error for Unspeakable {}

/// A value that panics when dropped.
struct Sticky;

impl Drop for Sticky {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "as asked");
    }
}

#[tokio::test]
async fn panics_are_counted_and_stall_nothing() -> Result<()> {
    let mut env = env().await?;
    let metrics = free_port();
    let reconcile = |widget: Arc<Widget>, ctx: Context| async move {
        let color = |map: &ConfigMap| -> Vec<String> {
            assert!(!map.labels().contains_key("bad"), "as asked");
            vec!["red".to_owned()]
        };
        ctx.objects::<ConfigMap>().by_index("color", "red", color).await?;
        match widget.spec.color.as_str() {
            "plain" => panic!("as asked"),
            "unspeakable" => return Err(Error::other(Unspeakable)),
            "sticky" => {
                let _sticky = Sticky;
                std::future::pending::<()>().await;
            }
            _ => {}
        }
        show(&ctx, &widget.spec.color).await
    };
    let stream = futures::stream::poll_fn(|_| -> Poll<Option<Key>> { panic!("as asked") });
    let maps = Watch::mapped::<ConfigMap>("broken", |map| {
        assert!(!map.labels().contains_key("bad"), "as asked");
        Vec::new()
    });
    let controller = Controller::of::<Widget>(reconcile)
        .watch(maps.when(|_, _| panic!("as asked")))
        .on(stream)
        .timeout(Duration::from_millis(50))
        .concurrency(1)
        .backoff(Duration::from_secs(3600), Duration::from_secs(3600));
    env.run(Operator::new("test").controller(controller).metrics_address(metrics));
    for name in ["plain", "unspeakable", "sticky", "fine"] {
        env.create(&widget(name, name)).await?;
    }
    // There is one worker, which has survived the panics.
    env.wait("fine", |found| shown(found) == Some("fine")).await?;
    let counted = async || -> Result<u64> {
        let text = get(metrics, "/metrics").await.map_err(Error::other)?;
        let line = text.lines().find_map(|line| {
            line.strip_prefix(r#"controller_runtime_reconcile_panics_total{controller="widget"} "#)
        });
        Ok(line.and_then(|count| count.parse().ok()).unwrap_or_default())
    };
    env.quiet().await;
    // The stream, and three reconciles.
    assert_eq!(counted().await?, 4);
    let bad = json!({"metadata": {"name": "map", "labels": {"bad": "yes"}}});
    env.create(&object::<ConfigMap>(bad)).await?;
    env.quiet().await;
    // The mapper and the index.
    assert_eq!(counted().await?, 6);
    env.patch::<ConfigMap>("map", json!({"data": {"a": "b"}})).await?;
    env.quiet().await;
    // The predicate, the mapper and the index for both states.
    assert!(counted().await? >= 9, "{}", counted().await?);
    env.create(&widget("last", "last")).await?;
    env.wait("last", |found| shown(found) == Some("last")).await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_operator_on_a_seeded_cluster_goes_by_its_clock() -> Result<()> {
    let cluster = steersman::testing::Cluster::builder().seed(1).start().await.map_err(Error::other)?;
    let mut env = TestEnv::on(cluster);
    env.install(&Widget::crd()).await?;
    let reconcile = |_: Arc<Widget>, ctx: Context| async move {
        let now = ctx.now().to_string();
        show(&ctx, now.get(..4).unwrap_or_default()).await
    };
    env.run(Operator::new("test").controller(Controller::of::<Widget>(reconcile)));
    env.create(&widget("one", "red")).await?;
    env.wait("one", |found| shown(found) == Some("2000")).await?;
    Ok(())
}
