//! Replicas that share the objects of an operator, in virtual time.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap, events::v1::Event};
use kube::{CustomResourceExt as _, ResourceExt, api::ListParams};
use serde_json::json;
use steersman::{
    Action, Context, Controller, Error, Operator, Result, Sharding,
    testing::{TestEnv, object},
};

use crate::common::outage::Outage;
use crate::common::{Widget, WidgetStatus, shown, widget};

/// Reports in each widget's status which replica reconciled it last. Slow ones take 20 seconds.
fn operator(replica: &'static str, slots: u16) -> Operator {
    let reconcile = move |widget: Arc<Widget>, ctx: Context| async move {
        let color = widget.spec.color.clone();
        ctx.update_status(&WidgetStatus { color: color.clone(), note: Some(replica.to_owned()) }).await?;
        if color == "slow" {
            tokio::time::sleep(Duration::from_secs(20)).await;
        }
        Ok::<_, Error>(Action::await_change())
    };
    Operator::new("test")
        .controller(Controller::of::<Widget>(reconcile))
        .sharding(Sharding::new().slots(slots).identity(replica))
}

/// Returns the number of slots that each replica holds.
async fn held(env: &TestEnv) -> Result<BTreeMap<String, usize>> {
    let selector =
        ListParams::default().labels("steersman.dev/sharding=test,steersman.dev/sharding-role=slot");
    let mut held = BTreeMap::new();
    for lease in env.api::<Lease>().list(&selector).await?.items {
        let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
        *held.entry(holder).or_default() += 1;
    }
    Ok(held)
}

async fn pause(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// An environment on the same cluster whose operators stop independently.
fn beside(env: &TestEnv) -> TestEnv {
    TestEnv::on(env.cluster().unwrap().clone())
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_stops_gives_idle_slots_away_at_once() -> Result<()> {
    let mut env = TestEnv::start().await?;
    let mut other = beside(&env);
    env.deploy(operator("a", 4)).await?;
    for number in 0..16 {
        env.create(&widget(&format!("widget-{number}"), "red")).await?;
    }
    other.deploy(operator("b", 4)).await?;
    pause(20).await;
    assert_eq!(held(&env).await?, [("a".to_owned(), 2), ("b".to_owned(), 2)].into());

    // Each replica reconciles its own objects at once, and one of the first replica's is picked.
    for number in 0..16 {
        env.patch::<Widget>(&format!("widget-{number}"), json!({"spec": {"color": "green"}})).await?;
    }
    pause(5).await;
    let widgets = env.api::<Widget>().list(&ListParams::default()).await?.items;
    let by_first =
        |widget: &&Widget| widget.status.as_ref().and_then(|status| status.note.as_deref()) == Some("a");
    let name = widgets.iter().find(by_first).map(ResourceExt::name_any).unwrap_or_default();
    env.patch::<Widget>(&name, json!({"spec": {"color": "slow"}})).await?;
    env.wait(&name, |widget| shown(widget) == Some("slow")).await?;

    let stopping = tokio::spawn(async move {
        env.stop().await?;
        Ok::<_, Error>(env)
    });
    pause(8).await;
    assert!(!stopping.is_finished(), "it works on an object");
    assert_eq!(held(&other).await?, [("a".to_owned(), 1), ("b".to_owned(), 3)].into());
    let _env = stopping.await.map_err(Error::other)??;
    pause(8).await;
    assert_eq!(held(&other).await?, [("b".to_owned(), 4)].into());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn replicas_with_another_number_of_slots_wait_for_the_old_ones() -> Result<()> {
    let mut env = TestEnv::start().await?;
    let (mut second, mut new) = (beside(&env), beside(&env));
    env.deploy(operator("a", 4)).await?;
    second.deploy(operator("b", 4)).await?;
    pause(20).await;
    new.deploy(operator("new", 8)).await?;
    pause(40).await;
    assert_eq!(held(&new).await?, [("a".to_owned(), 2), ("b".to_owned(), 2)].into());
    // The old replicas continue as long as they are alive.
    env.stop().await?;
    pause(10).await;
    assert_eq!(held(&new).await?, [("b".to_owned(), 4)].into());
    second.stop().await?;
    pause(10).await;
    assert_eq!(held(&new).await?, [("new".to_owned(), 8)].into());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_cleanup_that_was_broken_off_is_taken_up_again() -> Result<()> {
    let mut env = TestEnv::start().await?;
    env.install(&Widget::crd()).await?;
    let reconcile = |widget: Arc<Widget>, ctx: Context| async move {
        for name in ["one", "two"].into_iter().filter(|_| widget.spec.color == "red") {
            let map = json!({"metadata": {"name": name, "finalizers": ["test.steersman.dev/map"]}});
            ctx.apply(object::<ConfigMap>(map)).await?;
        }
        ctx.update_status(&WidgetStatus { color: widget.spec.color.clone(), note: None }).await?;
        Ok::<_, Error>(Action::await_change())
    };
    let (hangs, cleaned) = (Arc::new(AtomicBool::new(true)), Arc::new(Mutex::new(Vec::new())));
    let noted = Arc::clone(&cleaned);
    let cleanup = move |map: Arc<ConfigMap>, _: Context| {
        let (hangs, noted) = (hangs.swap(false, SeqCst), Arc::clone(&noted));
        async move {
            if hangs {
                std::future::pending::<()>().await;
            }
            noted.lock().unwrap().push(map.name_any());
            Ok::<_, Error>(Action::await_change())
        }
    };
    let controller = Controller::of::<Widget>(reconcile)
        .owns::<ConfigMap>()
        .finalizer_on::<ConfigMap>("test.steersman.dev/map", cleanup);
    let sharding = Sharding::new().slots(1).identity("a");
    env.run(Operator::new("test").controller(controller).sharding(sharding));
    env.create(&widget("owner", "red")).await?;
    env.wait("owner", |widget| shown(widget) == Some("red")).await?;
    env.patch::<Widget>("owner", json!({"spec": {"color": "blue"}})).await?;
    env.wait("owner", |widget| shown(widget) == Some("blue")).await?;
    for name in ["one", "two"] {
        env.delete::<ConfigMap>(name).await?;
    }
    pause(1).await;
    // Another replica takes the slot during the reconcile, and is gone without a trace.
    env.patch::<Lease>("test-slot-0", json!({"spec": {"holderIdentity": "thief"}})).await?;
    pause(5).await;
    assert_eq!(*cleaned.lock().unwrap(), [""; 0]);
    for name in ["one", "two"] {
        env.wait(name, |map: Option<&ConfigMap>| map.is_none()).await?;
    }
    assert_eq!(*cleaned.lock().unwrap(), ["one", "two"]);
    let events = env.api::<Event>().list(&ListParams::default()).await?.items;
    assert!(events.is_empty(), "a hand-over is no failure: {events:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn requests_without_an_answer_take_no_slot_away() -> Result<()> {
    let env = TestEnv::start().await?;
    env.install(&Widget::crd()).await?;
    env.create(&widget("one", "red")).await?;
    let begun = Arc::new(AtomicUsize::new(0));
    let reconcile = move |_: Arc<Widget>, ctx: Context| {
        let color = (begun.fetch_add(1, SeqCst) + 1).to_string();
        async move {
            pause(25).await;
            ctx.update_status(&WidgetStatus { color, note: None }).await?;
            Ok::<_, Error>(Action::await_change())
        }
    };
    let operator = Operator::new("test")
        .controller(Controller::of::<Widget>(reconcile))
        .sharding(Sharding::new().slots(4).identity("a"));
    // Long enough to affect one round of renewals, and over before the next one.
    let client = Outage::new(Some((9, 3))).put_into(env.client());
    let running = tokio::spawn(operator.run_until(client, std::future::pending()));
    pause(60).await;
    let color = env.api::<Widget>().get("one").await?.status.map(|status| status.color);
    assert_eq!(color.as_deref(), Some("1"), "the reconcile was not broken off");
    assert!(!running.is_finished());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn leases_last_as_long_as_a_replica_says() -> Result<()> {
    let mut env = TestEnv::start().await?;
    let seconds = Duration::from_secs;
    let sharding = Sharding::new().slots(2).identity("a").times(seconds(40), seconds(30), seconds(5));
    env.deploy(operator("a", 2).sharding(sharding)).await?;
    pause(10).await;
    let leases =
        env.api::<Lease>().list(&ListParams::default().labels("steersman.dev/sharding=test")).await?;
    let held = leases.items.into_iter().filter_map(|lease| lease.spec);
    let held: Vec<_> = held.map(|spec| (spec.holder_identity, spec.lease_duration_seconds)).collect();
    assert!(!held.is_empty());
    for (holder, lasts) in held {
        assert_eq!((holder.as_deref(), lasts), (Some("a"), Some(40)));
    }
    Ok(())
}
