//! Guarantees for a reconciler, on the embedded cluster.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use k8s_openapi::api::{
    core::v1::{ConfigMap, Secret},
    events::v1::Event,
};
use kube::{
    Api, CustomResourceExt as _, ResourceExt,
    api::{ApiResource, ListParams},
    core::{DynamicObject, GroupVersionKind},
};
use serde_json::json;
use steersman::{
    Action, Context, Controller, Error, Key, Kind, Operator, Result, Watch, predicate,
    testing::{TestEnv, object},
};

use crate::common::{Widget, WidgetStatus, faults::Faults, free_port, get, shown, widget};

async fn env() -> Result<TestEnv> {
    let env = TestEnv::start().await?;
    env.install(&Widget::crd()).await?;
    Ok(env)
}

fn map(name: &str, data: &[(&str, &str)]) -> ConfigMap {
    let data: BTreeMap<_, _> = data.iter().copied().collect();
    object(json!({"metadata": {"name": name}, "data": data}))
}

#[tokio::test]
async fn a_reconciler_reads_its_own_writes_and_is_not_called_for_them() -> Result<()> {
    let mut env = env().await?;
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let reconcile = move |widget: Arc<Widget>, ctx: Context| {
        counted.fetch_add(1, SeqCst);
        async move {
            ctx.apply(map("mine", &[("color", &widget.spec.color)])).await?;
            let read = ctx.get::<ConfigMap>("mine").await?.and_then(|map| map.data).unwrap_or_default();
            assert_eq!(read["color"], widget.spec.color);
            assert_eq!(ctx.owned::<ConfigMap>().await?.len(), 1);
            ctx.apply(map("passing", &[])).await?;
            ctx.delete::<ConfigMap>("passing").await?;
            assert!(ctx.get::<ConfigMap>("passing").await?.is_none(), "it was deleted");
            ctx.update_status(&WidgetStatus { color: widget.spec.color.clone(), note: None }).await?;
            Ok::<_, Error>(Action::await_change())
        }
    };
    env.run(Operator::new("test").controller(Controller::of::<Widget>(reconcile).owns::<ConfigMap>()));
    env.create(&widget("one", "red")).await?;
    env.wait("one", |widget| shown(widget) == Some("red")).await?;
    env.quiet().await;
    let calls_before = calls.load(SeqCst);
    assert!(calls_before <= 3, "called {calls_before} times for one object");
    env.patch::<Widget>("one", json!({"spec": {"color": "blue"}})).await?;
    env.wait("one", |widget| shown(widget) == Some("blue")).await?;
    Ok(())
}

#[tokio::test]
async fn what_a_reconciler_read_brings_it_back() -> Result<()> {
    let mut env = env().await?;
    let reconcile = |widget: Arc<Widget>, ctx: Context| async move {
        let secret = ctx.get::<Secret>("shared").await?;
        let color = secret.map_or("none".to_owned(), |secret| secret.labels()["color"].clone());
        let note = Some(widget.spec.color.clone());
        ctx.update_status(&WidgetStatus { color, note }).await?;
        Ok::<_, Error>(Action::await_change())
    };
    env.run(Operator::new("test").controller(Controller::of::<Widget>(reconcile).watches::<Secret>()));
    env.create(&widget("one", "red")).await?;
    env.wait("one", |widget| shown(widget) == Some("none")).await?;
    let secret: Secret = object(json!({"metadata": {"name": "shared", "labels": {"color": "green"}}}));
    env.create(&secret).await?;
    env.wait("one", |widget| shown(widget) == Some("green")).await?;
    env.delete::<Secret>("shared").await?;
    env.wait("one", |widget| shown(widget) == Some("none")).await?;
    Ok(())
}

#[tokio::test]
async fn kinds_and_watches_can_be_chosen_while_running() -> Result<()> {
    let mut env = env().await?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("test.steersman.dev", "v1", "Widget"));
    let maps = Kind::of::<ConfigMap>();
    let reconcile = move |object: Arc<DynamicObject>, ctx: Context| {
        let maps = maps.clone();
        async move {
            let child = steersman::testing::dynamic(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": object.name_any(), "labels": {"part": "of"}},
                "data": {"color": object.data["spec"]["color"]},
            }));
            ctx.apply_dynamic(&maps, &child).await?;
            ctx.watch(Watch::owned_kind(maps.clone()).labels("part=of")).await?;
            Ok::<_, Error>(Action::await_change())
        }
    };
    env.run(Operator::new("test").controller(Controller::of_kind(Kind::dynamic(resource, true), reconcile)));
    env.create(&widget("one", "red")).await?;
    let color = |map: Option<&ConfigMap>| Some(map?.data.as_ref()?.get("color")?.clone());
    env.wait("one", |map| color(map).as_deref() == Some("red")).await?;
    env.patch::<ConfigMap>("one", json!({"data": {"color": "stolen"}})).await?;
    env.wait("one", |map| color(map).as_deref() == Some("red")).await?;
    env.delete::<ConfigMap>("one").await?;
    env.wait("one", |map| color(map).as_deref() == Some("red")).await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn failures_of_one_object_do_not_hold_up_another() -> Result<()> {
    let mut env = env().await?;
    let calls = Arc::new(Mutex::new(BTreeMap::<String, usize>::new()));
    let counted = Arc::clone(&calls);
    let reconcile = move |widget: Arc<Widget>, ctx: Context| {
        *counted.lock().unwrap().entry(widget.name_any()).or_default() += 1;
        async move {
            match widget.spec.color.as_str() {
                "panic" => panic!("as asked"),
                "hang" => std::future::pending::<()>().await,
                "terminal" => return Err(Error::terminal("never")),
                "error" => return Err(Error::other("later")),
                _ => {}
            }
            ctx.update_status(&WidgetStatus { color: widget.spec.color.clone(), note: None }).await?;
            Ok(Action::await_change())
        }
    };
    let controller = Controller::of::<Widget>(reconcile).concurrency(1).timeout(Duration::from_millis(50));
    env.run(Operator::new("test").controller(controller));
    for name in ["panic", "hang", "terminal", "error", "fine"] {
        env.create(&widget(name, name)).await?;
    }
    env.wait("fine", |widget| shown(widget) == Some("fine")).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let counts = calls.lock().unwrap().clone();
    assert_eq!(counts["terminal"], 1, "{counts:?}");
    assert!(counts["error"] >= 3 && counts["panic"] >= 2 && counts["hang"] >= 2, "{counts:?}");
    let events = env.api::<Event>().list(&ListParams::default()).await?;
    let notes: Vec<_> = events.items.iter().filter_map(|event| event.note.as_deref()).collect();
    for expected in ["never", "later", "panicked: as asked", "longer than 50ms"] {
        assert_eq!(notes.iter().filter(|note| note.contains(expected)).count(), 1, "{expected} in {notes:?}");
    }
    // Once fixed, they are reconciled; the terminal one because it changed.
    for name in ["panic", "hang", "terminal", "error"] {
        env.patch::<Widget>(name, json!({"spec": {"color": "fine"}})).await?;
        env.wait(name, |widget| shown(widget) == Some("fine")).await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_finalizer_is_there_before_the_reconciler_and_until_the_cleanup_succeeds() -> Result<()> {
    let mut env = env().await?;
    let order = Arc::new(Mutex::new(Vec::new()));
    let reconcile = |widget: Arc<Widget>, ctx: Context| async move {
        assert_eq!(widget.finalizers(), ["test.steersman.dev/first", "test.steersman.dev/second"]);
        ctx.update_status(&WidgetStatus { color: widget.spec.color.clone(), note: None }).await?;
        Ok::<_, Error>(Action::await_change())
    };
    let cleanup = |name: &'static str, attempts: usize| {
        let (order, left) = (Arc::clone(&order), Arc::new(AtomicUsize::new(attempts)));
        move |_: Arc<Widget>, _: Context| {
            let result = match left.fetch_sub(1, SeqCst) {
                1 => Ok(Action::await_change()),
                2 => Ok(Action::requeue(Duration::from_millis(5))),
                _ => Err(Error::other("not yet")),
            };
            order.lock().unwrap().push((name, result.is_ok()));
            std::future::ready(result)
        }
    };
    let controller = Controller::of::<Widget>(reconcile)
        .finalizer("test.steersman.dev/first", cleanup("first", 3))
        .finalizer("test.steersman.dev/second", cleanup("second", 1));
    env.run(Operator::new("test").controller(controller));
    env.create(&widget("one", "red")).await?;
    env.wait("one", |widget| shown(widget) == Some("red")).await?;
    env.delete::<Widget>("one").await?;
    env.wait("one", |widget: Option<&Widget>| widget.is_none()).await?;
    let order = order.lock().unwrap().clone();
    assert_eq!(order, [("first", false), ("first", true), ("first", true), ("second", true)]);
    Ok(())
}

/// The garbage collector deletes what an object controlled, while the object's own watch is late.
#[tokio::test]
async fn nothing_is_made_for_an_object_that_is_gone() -> Result<()> {
    let env = env().await?;
    let reconcile = |widget: Arc<Widget>, ctx: Context| async move {
        ctx.apply(map("mine", &[("color", &widget.spec.color)])).await?;
        ctx.update_status(&WidgetStatus { color: widget.spec.color.clone(), note: None }).await?;
        Ok::<_, Error>(Action::await_change())
    };
    let operator = Operator::new("test").controller(Controller::of::<Widget>(reconcile).owns::<ConfigMap>());
    let faults = Faults::new(Vec::new());
    let running = tokio::spawn(operator.run_until(faults.put_into(env.client()), std::future::pending()));
    for color in ["red", "blue"] {
        env.create(&widget("one", color)).await?;
        env.wait("one", |widget| shown(widget) == Some(color)).await?;
        env.delete::<ConfigMap>("mine").await?;
        env.wait("mine", |map: Option<&ConfigMap>| map.is_some()).await?;

        faults.hold(Some("widgets"));
        let writes = faults.writes();
        env.delete::<Widget>("one").await?;
        env.wait("mine", |map: Option<&ConfigMap>| map.is_none()).await?;
        env.quiet().await;
        assert_eq!(faults.writes(), writes, "the object is gone");
        faults.hold(None);
    }
    running.abort();
    Ok(())
}

#[tokio::test]
async fn a_kind_that_appears_later_is_noticed() -> Result<()> {
    let mut env = TestEnv::start().await?;
    let reconcile = |map: Arc<ConfigMap>, ctx: Context| async move {
        match ctx.get::<Widget>("any").await {
            Err(error) if error.is_not_found() => ctx.warn("Waiting", error.to_string()),
            Err(error) => return Err(error),
            Ok(_) => ctx.event("Going", map.name_any()),
        }
        Ok(Action::await_change())
    };
    let controller = Controller::of_existing::<ConfigMap>(reconcile)
        .labels("mine=yes")
        .watch(Watch::owned::<Widget>().optional());
    env.run(Operator::new("test").controller(controller));
    env.create(&object::<ConfigMap>(json!({"metadata": {"name": "one", "labels": {"mine": "yes"}}}))).await?;
    let events: Api<Event> = env.api();
    let happened = async |reason: &str| -> Result<()> {
        loop {
            let all = events.list(&ListParams::default()).await?;
            if all.items.iter().any(|event| event.reason.as_deref() == Some(reason)) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    happened("Waiting").await?;
    env.install(&Widget::crd()).await?;
    tokio::time::timeout(Duration::from_secs(10), happened("Going")).await.map_err(Error::other)?
}

#[tokio::test]
async fn predicates_filter_changes_and_never_deletions() -> Result<()> {
    let mut env = env().await?;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let reconcile = move |_: Arc<Widget>, ctx: Context| {
        let noted = Arc::clone(&noted);
        async move {
            let maps = ctx.owned::<ConfigMap>().await?.len();
            noted.lock().unwrap().push(maps);
            if noted.lock().unwrap().len() == 1 {
                ctx.apply(map("mine", &[("a", "b")])).await?;
            }
            ctx.update_status(&WidgetStatus { color: format!("{maps}"), note: None }).await?;
            Ok::<_, Error>(Action::await_change())
        }
    };
    let controller = Controller::of::<Widget>(reconcile)
        .when(predicate::spec_changed)
        .watch(Watch::owned::<ConfigMap>().when(|_, _| false));
    env.run(Operator::new("test").controller(controller));
    env.create(&widget("one", "red")).await?;
    env.wait("one", |widget| shown(widget) == Some("0")).await?;
    env.patch::<ConfigMap>("mine", json!({"data": {"a": "c"}})).await?;
    env.quiet().await;
    assert_eq!(*seen.lock().unwrap(), [0], "the change was filtered out");
    env.delete::<ConfigMap>("mine").await?;
    env.quiet().await;
    assert_eq!(*seen.lock().unwrap(), [0, 0], "the deletion was not");
    Ok(())
}

#[tokio::test]
async fn controllers_share_their_caches_and_hear_of_each_others_writes() -> Result<()> {
    let mut env = env().await?;
    let writer = |widget: Arc<Widget>, ctx: Context| async move {
        ctx.apply(map(&widget.name_any(), &[("color", &widget.spec.color)])).await?;
        Ok::<_, Error>(Action::await_change())
    };
    let reader = |map: Arc<ConfigMap>, ctx: Context| async move {
        ctx.event("Seen", map.data.as_ref().and_then(|data| data.get("color").cloned()).unwrap_or_default());
        Ok::<_, Error>(Action::await_change())
    };
    let operator = Operator::new("test")
        .controller(Controller::of::<Widget>(writer).owns::<ConfigMap>())
        .controller(Controller::of_existing::<ConfigMap>(reader));
    env.run(operator);
    env.create(&widget("one", "red")).await?;
    env.quiet().await;
    env.patch::<Widget>("one", json!({"spec": {"color": "blue"}})).await?;
    env.quiet().await;
    let events = env.api::<Event>().list(&ListParams::default()).await?;
    let notes: Vec<_> = events.items.iter().filter_map(|event| event.note.as_deref()).collect();
    assert!(notes.contains(&"red") && notes.contains(&"blue"), "{notes:?}");
    Ok(())
}

#[tokio::test]
async fn namespaces_can_be_chosen() -> Result<()> {
    let mut env = env().await?;
    let reconcile = |widget: Arc<Widget>, ctx: Context| async move {
        ctx.update_status(&WidgetStatus { color: widget.spec.color.clone(), note: None }).await?;
        Ok::<_, Error>(Action::await_change())
    };
    env.run(
        Operator::new("test")
            .namespaces(["default", "kube-public"])
            .controller(Controller::of::<Widget>(reconcile)),
    );
    let other: Api<Widget> = Api::namespaced(env.client(), "kube-system");
    other.create(&Default::default(), &widget("one", "red")).await?;
    let public: Api<Widget> = Api::namespaced(env.client(), "kube-public");
    public.create(&Default::default(), &widget("one", "red")).await?;
    env.create(&widget("one", "red")).await?;
    env.wait("one", |widget| shown(widget) == Some("red")).await?;
    env.wait_in(public, "one", |widget| shown(widget) == Some("red")).await?;
    env.quiet().await;
    assert!(other.get("one").await?.status.is_none());
    Ok(())
}

#[tokio::test]
async fn metadata_are_enough_to_watch() -> Result<()> {
    let mut env = TestEnv::start().await?;
    let reconcile = |widget: Arc<Widget>, ctx: Context| async move {
        let secrets = ctx.metadata::<Secret>().labels([("of", "widgets")]).list().await?;
        let names: Vec<_> = secrets.iter().map(ResourceExt::name_any).collect();
        assert!(ctx.objects::<Secret>().live().get("nothing").await?.is_none());
        let note = Some(widget.spec.color.clone());
        ctx.update_status(&WidgetStatus { color: names.join(","), note }).await?;
        Ok::<_, Error>(Action::await_change())
    };
    let secrets = Watch::mapped_kind(Kind::of::<Secret>(), "all", |snapshot| {
        let whole = String::from_utf8_lossy(snapshot.json()).contains(r#""data":"#);
        if whole {
            return Vec::new();
        }
        let namespace = snapshot.meta().map(|meta| meta.namespace.to_string()).unwrap_or_default();
        vec![Key::namespaced(&namespace, "one")]
    });
    // A function that panics does not affect the others.
    let broken = Watch::mapped_kind(Kind::of::<Secret>(), "broken", |_| panic!("as asked"));
    let controller = Controller::of::<Widget>(reconcile)
        .watch(secrets.metadata_only())
        .watch(broken.metadata_only().when(|_, _| panic!("as asked")));
    env.deploy(Operator::new("test").controller(controller)).await?;
    env.create(&widget("one", "red")).await?;
    env.wait("one", |widget| shown(widget) == Some("")).await?;
    let secret = |name: &str| -> Secret {
        object(json!({"metadata": {"name": name, "labels": {"of": "widgets"}}, "stringData": {"a": "b"}}))
    };
    env.create(&secret("first")).await?;
    env.create(&secret("second")).await?;
    env.wait("one", |widget| shown(widget) == Some("first,second")).await?;
    env.delete::<Secret>("first").await?;
    env.wait("one", |widget| shown(widget) == Some("second")).await?;
    Ok(())
}

#[tokio::test]
async fn streams_from_outside_name_objects() -> Result<()> {
    let mut env = env().await?;
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let outside = futures::stream::unfold(receiver, |mut receiver| async move {
        let key = receiver.recv().await?;
        Some((key, receiver))
    });
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let reconcile = move |_: Arc<Widget>, ctx: Context| {
        let color = counted.fetch_add(1, SeqCst).to_string();
        async move {
            ctx.update_status(&WidgetStatus { color, note: None }).await?;
            Ok::<_, Error>(Action::await_change())
        }
    };
    env.run(Operator::new("test").controller(Controller::of::<Widget>(reconcile).on(outside)));
    let made = env.create(&widget("one", "red")).await?;
    env.wait("one", |widget| shown(widget) == Some("0")).await?;
    sender.send(Key::of(&made)).await.map_err(Error::other)?;
    env.wait("one", |widget| shown(widget) == Some("1")).await?;
    // A key without an object is ignored, and the end of the stream does not end the operator.
    sender.send(Key::cluster("missing")).await.map_err(Error::other)?;
    drop(sender);
    env.patch::<Widget>("one", json!({"spec": {"color": "blue"}})).await?;
    env.wait("one", |widget| shown(widget) == Some("2")).await?;
    Ok(())
}

#[tokio::test]
async fn two_controllers_of_one_name_are_refused() -> Result<()> {
    let env = env().await?;
    let reconcile = |_: Arc<Widget>, _: Context| std::future::ready(Ok::<_, Error>(Action::await_change()));
    let operator = Operator::new("test")
        .controller(Controller::of::<Widget>(reconcile))
        .controller(Controller::of::<Widget>(reconcile));
    let error = operator.run_until(env.client(), std::future::pending()).await.unwrap_err();
    assert!(matches!(error, Error::DuplicateName(name) if name == "widget"));
    Ok(())
}

#[tokio::test]
async fn metadata_and_whole_objects_of_a_kind_go_together() -> Result<()> {
    let mut env = env().await?;
    let reconcile = |widget: Arc<Widget>, ctx: Context| async move {
        let mut map = map("kept", &[("color", &widget.spec.color)]);
        map.metadata.finalizers = Some(vec!["test.steersman.dev/map".to_owned()]);
        ctx.apply(map).await?;
        ctx.update_status(&WidgetStatus { color: widget.spec.color.clone(), note: None }).await?;
        Ok::<_, Error>(Action::await_change())
    };
    let colors = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&colors);
    let cleanup = move |map: Arc<ConfigMap>, _: Context| {
        noted.lock().unwrap().extend(map.data.iter().flatten().map(|(_, color)| color.clone()));
        std::future::ready(Ok::<_, Error>(Action::await_change()))
    };
    let controller = Controller::of::<Widget>(reconcile)
        .watch(Watch::owned::<ConfigMap>().metadata_only())
        .finalizer_on::<ConfigMap>("test.steersman.dev/map", cleanup);
    let metrics = free_port();
    env.run(Operator::new("test").controller(controller).metrics_address(metrics));
    env.create(&widget("one", "red")).await?;
    env.wait("one", |widget| shown(widget) == Some("red")).await?;
    env.quiet().await;
    let text = get(metrics, "/metrics").await.map_err(Error::other)?;
    let maps = Api::<ConfigMap>::all(env.client()).list(&ListParams::default()).await?.items.len();
    let expected = format!(r#"steersman_cache_objects{{kind="configmaps"}} {}"#, 2 * maps);
    assert!(text.contains(&expected), "{expected} is not in\n{text}");
    let uid = env.api::<ConfigMap>().get("kept").await?.metadata.uid;
    env.delete::<ConfigMap>("kept").await?;
    // It is recreated.
    env.wait("kept", |map: Option<&ConfigMap>| map.is_some_and(|map| map.metadata.uid != uid)).await?;
    assert_eq!(*colors.lock().unwrap(), ["red"]);
    Ok(())
}

#[tokio::test]
async fn an_index_that_panics_spoils_nothing() -> Result<()> {
    let mut env = env().await?;
    let reconcile = |_: Arc<Widget>, ctx: Context| async move {
        let color = |map: &ConfigMap| {
            let color = map.data.as_ref().and_then(|data| data.get("color").cloned());
            assert_ne!(color.as_deref(), Some("panic"), "as asked");
            color.into_iter().collect()
        };
        let reds = ctx.objects::<ConfigMap>().by_index("color", "red", color).await?;
        let names: Vec<_> = reds.iter().map(ResourceExt::name_any).collect();
        ctx.update_status(&WidgetStatus { color: names.join(","), note: None }).await?;
        Ok::<_, Error>(Action::await_change())
    };
    let maps = Watch::mapped::<ConfigMap>("all", |_| vec![Key::namespaced("default", "one")]);
    env.run(Operator::new("test").controller(Controller::of::<Widget>(reconcile).watch(maps)));
    env.create(&map("first", &[("color", "red")])).await?;
    env.create(&widget("one", "")).await?;
    env.wait("one", |widget| shown(widget) == Some("first")).await?;
    env.create(&map("broken", &[("color", "panic")])).await?;
    env.create(&map("second", &[("color", "red")])).await?;
    env.wait("one", |widget| shown(widget) == Some("first,second")).await?;
    env.patch::<ConfigMap>("broken", json!({"data": {"color": "red"}})).await?;
    env.wait("one", |widget| shown(widget) == Some("broken,first,second")).await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn waiting_in_vain_ends_and_says_why() -> Result<()> {
    let env = TestEnv::start().await?;
    let error = env.wait("one", |widget: Option<&Widget>| widget.is_some()).await.unwrap_err().to_string();
    assert!(error.contains("waiting for one") && error.contains("the last watch failed"), "{error}");
    Ok(())
}

#[tokio::test]
async fn an_object_that_is_gone_is_not_looked_at_again() -> Result<()> {
    let mut env = env().await?;
    let reconcile = |widget: Arc<Widget>, ctx: Context| async move {
        ctx.update_status(&WidgetStatus { color: widget.spec.color.clone(), note: None }).await?;
        Ok::<_, Error>(Action::await_change())
    };
    let controller = Controller::of::<Widget>(reconcile).period(Duration::from_secs(3600));
    let probes = free_port();
    env.run(Operator::new("test").controller(controller).probe_address(probes).debug(true));
    env.create(&widget("one", "red")).await?;
    env.wait("one", |widget| shown(widget) == Some("red")).await?;
    env.quiet().await;
    let queue = get(probes, "/debug/queue").await.map_err(Error::other)?;
    assert!(queue.contains(r#""object":"default/one""#) && queue.contains(r#""state":"later""#), "{queue}");
    env.delete::<Widget>("one").await?;
    env.quiet().await;
    let queue = get(probes, "/debug/queue").await.map_err(Error::other)?;
    assert!(queue.ends_with(r#"{"widget":[]}"#), "{queue}");
    Ok(())
}
