//! Invariants of the runtime, tested with many random histories in virtual time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, CustomResourceExt as _, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use proptest::prelude::*;
use serde_json::json;
use steersman::{
    Action, Context, Controller, Error, Operator, Result, Sharding,
    testing::{Cluster, TestEnv, object},
};

use crate::common::faults::{Fault, Faults};
use crate::common::outage::Outage;
use crate::common::{Widget, WidgetStatus, widget};

/// A step of a user, or of the cluster.
#[derive(Debug, Clone)]
enum Step {
    /// Creates an object, or changes it.
    Write(u8, u8),
    /// Deletes an object.
    Delete(u8),
    /// Changes an object's child.
    Tamper(u8),
    /// Deletes an object's child.
    Steal(u8),
    /// Lets time pass.
    Wait(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let object = 0_u8..4;
    prop_oneof![
        4 => (object.clone(), any::<u8>()).prop_map(|(object, color)| Step::Write(object, color)),
        1 => object.clone().prop_map(Step::Delete),
        1 => object.clone().prop_map(Step::Tamper),
        1 => object.prop_map(Step::Steal),
        3 => (0_u16..3000).prop_map(Step::Wait),
    ]
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        6 => Just(Fault::None),
        2 => (1_u16..4000).prop_map(Fault::Late),
        2 => Just(Fault::Lost),
        1 => Just(Fault::Expired),
    ]
}

fn name(object: u8) -> String {
    format!("widget-{object}")
}

/// Objects being processed, and those that were processed twice at the same time.
#[derive(Clone, Default)]
struct Busy(Arc<Mutex<(BTreeSet<String>, Vec<String>)>>);

/// Marks an object as being processed, until dropped.
struct Working(Busy, String);

impl Busy {
    fn enter(&self, object: String) -> Working {
        let mut state = self.0.lock().unwrap();
        if !state.0.insert(object.clone()) {
            state.1.push(object.clone());
        }
        Working(self.clone(), object)
    }

    fn violations(&self) -> Vec<String> {
        self.0.lock().unwrap().1.clone()
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().0.remove(&self.1);
    }
}

/// Maintains a ConfigMap with the color of each widget.
fn operator(busy: &Busy) -> Operator {
    let (reconciling, cleaning) = (busy.clone(), busy.clone());
    let reconcile = move |widget: Arc<Widget>, ctx: Context| {
        let working = reconciling.enter(widget.name_any());
        async move {
            let _working = working;
            let map: ConfigMap =
                object(json!({"metadata": {"name": ctx.name()}, "data": {"color": widget.spec.color}}));
            ctx.apply(map).await?;
            tokio::time::sleep(Duration::from_millis(ctx.random() % 50)).await;
            ctx.update_status(&WidgetStatus { color: widget.spec.color.clone(), note: None }).await?;
            Ok::<_, Error>(Action::await_change())
        }
    };
    let cleanup = move |widget: Arc<Widget>, ctx: Context| {
        let working = cleaning.enter(widget.name_any());
        async move {
            let _working = working;
            ctx.delete::<ConfigMap>(ctx.name()).await?;
            Ok::<_, Error>(Action::await_change())
        }
    };
    let controller = Controller::of::<Widget>(reconcile)
        .owns::<ConfigMap>()
        .finalizer("test.steersman.dev/cleanup", cleanup)
        .concurrency(3)
        .backoff(Duration::from_millis(5), Duration::from_secs(5));
    Operator::new("test").controller(controller)
}

/// Acts as an administrator. An object that does not exist can't be deleted.
async fn act(env: &TestEnv, step: &Step) -> Result<()> {
    let (widgets, maps): (Api<Widget>, Api<ConfigMap>) = (env.api(), env.api());
    let accept = |result: Result<(), kube::Error>| match result {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => other.map_err(Error::from),
    };
    match step {
        Step::Write(object, color) => {
            let color = format!("color-{color}");
            match widgets.get_opt(&name(*object)).await? {
                Some(_) => {
                    let patch = Patch::Merge(json!({"spec": {"color": color}}));
                    accept(widgets.patch(&name(*object), &PatchParams::default(), &patch).await.map(drop))
                }
                None => {
                    let wanted = widget(&name(*object), &color);
                    widgets.create(&PostParams::default(), &wanted).await?;
                    Ok(())
                }
            }
        }
        Step::Delete(object) => {
            accept(widgets.delete(&name(*object), &DeleteParams::default()).await.map(drop))
        }
        Step::Tamper(object) => {
            let patch = Patch::Merge(json!({"data": {"color": "stolen"}}));
            accept(maps.patch(&name(*object), &PatchParams::default(), &patch).await.map(drop))
        }
        Step::Steal(object) => accept(maps.delete(&name(*object), &DeleteParams::default()).await.map(drop)),
        Step::Wait(time) => {
            tokio::time::sleep(Duration::from_millis((*time).into())).await;
            Ok(())
        }
    }
}

/// Returns the actual states, and the desired ones.
async fn states(env: &TestEnv) -> Result<(BTreeMap<String, String>, BTreeMap<String, String>)> {
    let (widgets, maps): (Api<Widget>, Api<ConfigMap>) = (env.api(), env.api());
    let widgets = widgets.list(&ListParams::default()).await?.items;
    let wanted = widgets.iter().map(|widget| (widget.name_any(), widget.spec.color.clone())).collect();
    let maps = maps.list(&ListParams::default()).await?.items;
    let color = |map: &ConfigMap| map.data.as_ref().and_then(|data| data.get("color").cloned());
    let there = maps.iter().map(|map| (map.name_any(), color(map).unwrap_or_default())).collect();
    Ok((wanted, there))
}

fn in_virtual_time<T>(test: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(test)
}

async fn env() -> Result<TestEnv> {
    let cluster = Cluster::builder().workloads(false).seed(1).start().await.map_err(Error::other)?;
    let env = TestEnv::on(cluster);
    env.install(&Widget::crd()).await?;
    Ok(env)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// However events are dropped, delayed and merged, and responses lost. No two workers are on one object, no change
    /// is lost, and in the desired state nothing is written, whatever happens to the watches.
    #[test]
    fn no_change_is_lost_and_rest_is_rest(
        steps in prop::collection::vec(step(), 1..40),
        plan in prop::collection::vec(fault(), 1..60),
    ) {
        in_virtual_time(async {
            let env = env().await.unwrap();
            let (busy, faults) = (Busy::default(), Faults::new(plan));
            let operator = operator(&busy);
            let running = tokio::spawn(operator.run_until(faults.put_into(env.client()), std::future::pending()));
            for step in &steps {
                act(&env, step).await.unwrap();
            }
            // Watches still suffer from faults, and writes pass.
            let mut patience = 0;
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let (wanted, there) = states(&env).await.unwrap();
                if wanted == there {
                    break;
                }
                patience += 1;
                if patience == 60 {
                    faults.switch(false);
                }
                assert!(patience < 400, "lost: {wanted:?} wanted, {there:?} there");
            }
            faults.switch(false);
            tokio::time::sleep(Duration::from_secs(120)).await;
            let (wanted, there) = states(&env).await.unwrap();
            assert_eq!(wanted, there);
            faults.switch(true);
            let (before, revision) = (faults.writes(), env.revision());
            tokio::time::sleep(Duration::from_secs(1800)).await;
            assert_eq!((faults.writes(), env.revision()), (before, revision), "written without need");
            assert_eq!(busy.violations(), [""; 0], "two workers on one object");
            assert!(!running.is_finished(), "the operator has ended");
        });
    }
}

/// The life of a replica: when it starts, when and how it ends, and when it can't reach the API server.
#[derive(Debug, Clone)]
struct Life {
    from: u64,
    until: u64,
    crashes: bool,
    outage: Option<(u64, u64)>,
}

fn life() -> impl Strategy<Value = Life> {
    let outage = prop::option::of((0_u64..100, 1_u64..40));
    (0_u64..40, 20_u64..80, any::<bool>(), outage).prop_map(|(from, length, crashes, outage)| Life {
        from,
        until: from + length,
        crashes,
        outage,
    })
}

async fn pause(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// However replicas start, stop, crash and lose the network. No object is ever with two of them, and each is with
    /// one within a lease duration after the last change.
    #[test]
    fn no_object_is_with_two_replicas(lives in prop::collection::vec(life(), 1..4)) {
        in_virtual_time(async {
            let env = env().await.unwrap();
            for object in 0..24 {
                env.create(&widget(&name(object), "first")).await.unwrap();
            }
            let busy = Busy::default();
            let mut replicas = tokio::task::JoinSet::new();
            let survivor = Life { from: 5, until: 100_000, crashes: false, outage: None };
            for (number, life) in lives.into_iter().chain([survivor]).enumerate() {
                let network = Outage::new(life.outage);
                let client = network.put_into(env.client());
                let operator = operator(&busy)
                    .sharding(Sharding::new().slots(4).identity(format!("replica-{number}")));
                replicas.spawn(async move {
                    pause(life.from).await;
                    let running = operator.run_until(client, pause(life.until - life.from));
                    if life.crashes {
                        // A crash: the future is dropped, and nothing is released.
                        let _ = tokio::time::timeout(Duration::from_secs(life.until - life.from - 1), running).await;
                    } else {
                        let _ = running.await;
                    }
                });
            }
            for round in 0..30 {
                tokio::time::sleep(Duration::from_secs(4)).await;
                env.patch::<Widget>(&name(round % 24), json!({"spec": {"color": format!("color-{round}")}})).await.unwrap();
            }
            // All but one are gone by now: within a lease duration and a renewal the last one holds everything.
            tokio::time::sleep(Duration::from_secs(20)).await;
            let (wanted, there) = states(&env).await.unwrap();
            assert_eq!(wanted, there);
            assert_eq!(busy.violations(), [""; 0], "with two replicas");
        });
    }
}
