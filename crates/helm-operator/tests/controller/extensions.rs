//! Extensions in Rust: values, steps before and after, conditions, names.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use steersman::{Kind, Operator};
use steersman_chart::Limits;
use steersman_cluster::User;
use steersman_helm_operator::{NamespacedName, Phase, Refusal, ReleaseController};
use steersman_release::{CrdPolicy, Options, Releases, RenderLimits};

use crate::shop::{Lab, after, chart, condition, controller, definition, named_chart, resource, status_of};

#[tokio::test(start_paused = true)]
async fn steps_are_run_around_what_happens() {
    let steps: Arc<Mutex<Vec<String>>> = Arc::default();
    let (before, done) = (Arc::clone(&steps), Arc::clone(&steps));
    let lab = Lab::start(
        controller(chart())
            .before(move |phase, shop, _| {
                before.lock().unwrap().push(format!("before {phase:?} of {}", shop.name_any()));
                async { Ok(()) }
            })
            .after(move |phase, _, release, _| {
                done.lock().unwrap().push(format!("after {phase:?}: revision {}", release.version));
                async { Ok(()) }
            }),
    )
    .await;
    lab.create("shop", json!({})).await;
    lab.ready("shop").await;
    lab.patch("shop", json!({ "spec": { "mood": "wild" } })).await;
    lab.in_mood("shop", "wild").await;
    lab.delete("shop").await;
    assert_eq!(
        *steps.lock().unwrap(),
        [
            "before Install of shop",
            "after Install: revision 1",
            "before Upgrade of shop",
            "after Upgrade: revision 2",
            "before Uninstall of shop",
            "after Uninstall: revision 2",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_step_that_refuses_holds_things_back() {
    let closed: Arc<Mutex<Option<Phase>>> = Arc::new(Mutex::new(Some(Phase::Install)));
    let gate = Arc::clone(&closed);
    let lab = Lab::start(controller(chart()).before(move |phase, _, _| {
        let is_closed = *gate.lock().unwrap() == Some(phase);
        async move {
            if is_closed { Err(Refusal::new("Closed", format!("no {phase:?}")).transient()) } else { Ok(()) }
        }
    }))
    .await;
    lab.create("shop", json!({})).await;
    let shop = lab.until("shop", "held back", |shop| condition(shop, "Irreconcilable").is_some()).await;
    let told = condition(&shop, "Irreconcilable").unwrap();
    assert_eq!((&told["reason"], &told["message"]), (&json!("Closed"), &json!("no Install")));
    let ready = condition(&shop, "Ready").unwrap();
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!("Closed")));
    assert!(lab.records().await.is_empty() && !lab.has("shop").await);

    *closed.lock().unwrap() = Some(Phase::Upgrade);
    after(600).await;
    let shop = lab.ready("shop").await;
    assert!(condition(&shop, "Irreconcilable").is_none());
    lab.patch("shop", json!({ "spec": { "mood": "wild" } })).await;
    assert_eq!(lab.message("shop", "Irreconcilable", "True").await, "no Upgrade");
    assert_eq!(lab.data("shop", "mood").await.as_deref(), Some("calm"));

    *closed.lock().unwrap() = Some(Phase::Uninstall);
    after(600).await;
    lab.in_mood("shop", "wild").await;
    lab.shops.delete("shop", &<_>::default()).await.unwrap();
    assert_eq!(lab.message("shop", "Irreconcilable", "True").await, "no Uninstall");
    assert!(lab.has("shop").await);
    *closed.lock().unwrap() = None;
    after(600).await;
    assert!(lab.shops.get_opt("shop").await.unwrap().is_none() && !lab.has("shop").await);
}

#[tokio::test(start_paused = true)]
async fn values_are_mapped_and_may_be_refused() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let lab = Lab::start(controller(chart()).map_values(move |shop, mut values, _| {
        count.fetch_add(1, Ordering::SeqCst);
        async move {
            match shop.data["spec"]["size"].as_str() {
                Some("never") => return Err(Refusal::new("NoSuchSize", "spec.size: there is none")),
                Some("later") => return Err(Refusal::new("NotYet", "spec.size: not yet").transient()),
                Some(size) => values.set(&format!("mood={size}")).unwrap(),
                None => {}
            }
            Ok(values)
        }
    }))
    .await;
    lab.create("shop", json!({ "size": "large" })).await;
    lab.in_mood("shop", "large").await;

    let calls = |seconds: u64| {
        let asked = Arc::clone(&asked);
        async move {
            let before = asked.load(Ordering::SeqCst);
            after(seconds).await;
            asked.load(Ordering::SeqCst) - before
        }
    };
    lab.patch("shop", json!({ "spec": { "size": "never" } })).await;
    let shop = lab.until("shop", "refused", |shop| condition(shop, "Irreconcilable").is_some()).await;
    assert_eq!(condition(&shop, "Irreconcilable").unwrap()["reason"], "NoSuchSize");
    lab.env.quiet().await;
    assert_eq!(calls(3600).await, 0, "it is not tried again");
    lab.patch("shop", json!({ "spec": { "size": "later" } })).await;
    let is_told = |shop: &serde_json::Value| {
        condition(shop, "Irreconcilable").is_some_and(|told| told["reason"] == "NotYet")
    };
    lab.until("shop", "refused", is_told).await;
    let again = calls(3600).await;
    assert!((10..60).contains(&again), "{again} times in an hour, and less often each time");
    // Invalid values do not prevent deletion.
    lab.delete("shop").await;
    assert!(!lab.has("shop").await);
}

#[tokio::test(start_paused = true)]
async fn conditions_of_the_author_are_shown() {
    let is_broken = Arc::new(AtomicBool::new(false));
    let broken = Arc::clone(&is_broken);
    let lab =
        Lab::start(controller(chart()).period(Duration::from_secs(30)).conditions(move |_, context| {
            let is_broken = broken.load(Ordering::SeqCst);
            async move {
                if is_broken {
                    return Err(Refusal::new("Hidden", "the till is calm no more").transient());
                }
                Ok(vec![context.condition("Open", true, "Hours", "until six")])
            }
        }))
        .await;
    lab.create("shop", json!({ "secret": "the till" })).await;
    let shop = lab.ready("shop").await;
    let open = condition(&shop, "Open").unwrap();
    assert_eq!((&open["reason"], &open["message"]), (&json!("Hours"), &json!("until six")));
    assert!(open.get("observedGeneration").is_none());
    is_broken.store(true, Ordering::SeqCst);
    after(60).await;
    // Values of the release's Secrets are redacted here, too.
    assert_eq!(lab.message("shop", "Irreconcilable", "True").await, "REDACTED is calm no more");
}

#[tokio::test(start_paused = true)]
async fn override_values_win_and_are_told_of() {
    for (is_hidden, shown) in [(false, "\"wild\""), (true, "\"****\"")] {
        let overrides = [("mood".to_owned(), "wild".to_owned())].into();
        let lab =
            Lab::start(controller(chart()).override_values(overrides).suppress_override_values(is_hidden))
                .await;
        lab.create("shop", json!({ "mood": "calm" })).await;
        lab.in_mood("shop", "wild").await;
        let note = format!("Chart value \"mood\" overridden to {shown} by operator's watches.yaml");
        let events = lab.events().await;
        assert!(events.contains(&format!("OverrideValuesInUse: {note}")), "{events:?}");
    }
    let overrides = [("a[".to_owned(), "wild".to_owned())].into();
    let lab = Lab::start(controller(chart()).override_values(overrides)).await;
    lab.create("shop", json!({})).await;
    let message = lab.message("shop", "Irreconcilable", "True").await;
    assert!(message.starts_with("override value a[: "), "{message}");
}

#[tokio::test(start_paused = true)]
async fn only_chosen_objects_have_a_release() {
    let lab = Lab::start(controller(chart()).labels("open=yes").named("shopkeeper").concurrency(1)).await;
    lab.create_with("closed", json!({}), json!({ "labels": { "open": "no" } })).await;
    lab.create_with("shop", json!({}), json!({ "labels": { "open": "yes" } })).await;
    lab.ready("shop").await;
    after(60).await;
    assert!(!lab.has("closed").await);
    assert_eq!(format!("{:?}", controller(chart())), "ReleaseController of shops.shops.example.com");
}

#[tokio::test(start_paused = true)]
async fn renders_and_histories_have_limits() {
    let limits = RenderLimits { limits: Limits { cost: 10, ..Limits::default() }, ..RenderLimits::default() };
    let lab = Lab::start(controller(chart()).render_limits(limits)).await;
    lab.create("shop", json!({})).await;
    let message = lab.failed("shop").await;
    assert!(message.contains("exceeded"), "{message}");

    let lab = Lab::start(controller(chart()).history_max(2)).await;
    lab.create("shop", json!({ "mood": "a" })).await;
    for mood in ["b", "c", "d"] {
        lab.ready("shop").await;
        lab.patch("shop", json!({ "spec": { "mood": mood } })).await;
        lab.in_mood("shop", mood).await;
    }
    assert_eq!(lab.records().await, ["sh.helm.release.v1.shop.v3", "sh.helm.release.v1.shop.v4"]);
}

#[tokio::test(start_paused = true)]
async fn definitions_of_the_chart_follow_the_policy() {
    let widgets = definition("Namespaced", "Widget", "widgets").to_string();
    let chart = || named_chart("shop", &[("crds/widgets.yaml", widgets.as_str())]);
    for (controller, is_made) in
        [(controller(chart()), true), (controller(chart()).crds(CrdPolicy::Skip), false)]
    {
        let lab = Lab::start(controller).await;
        lab.create("shop", json!({})).await;
        lab.ready("shop").await;
        let definitions: Api<
            k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
        > = Api::all(lab.client.clone());
        let found = definitions.get_opt("widgets.shops.example.com").await.unwrap();
        assert_eq!(found.is_some(), is_made);
    }
}

fn place(shop: &DynamicObject) -> Result<NamespacedName, Refusal> {
    let text = |key: &str| shop.data["spec"][key].as_str().map(str::to_owned);
    match text("to") {
        Some(to) if to == "nowhere" => Err(Refusal::new("Nowhere", "spec.to: there is no such place")),
        to => Ok(NamespacedName {
            name: text("called").unwrap_or_else(|| shop.name_any()),
            namespace: to.unwrap_or_else(|| "lab".into()),
        }),
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_moves_with_its_name() {
    let lab = Lab::start(controller(chart()).release_name(place)).await;
    let den: Api<ConfigMap> = Api::namespaced(lab.client.clone(), "den");
    // A release of the same chart that does not belong to this object.
    let other = Releases::new(lab.client.clone(), "den");
    other.install("other", &chart(), &Default::default(), &Options::default()).await.unwrap();

    lab.create("shop", json!({ "to": "den" })).await;
    let shop = lab.ready("shop").await;
    assert_eq!(shop["status"]["deployedRelease"]["namespace"], "den");
    assert!(den.get_opt("shop").await.unwrap().is_some());
    let map = den.get("shop").await.unwrap();
    assert!(map.owner_references().is_empty(), "owners are in the same namespace");
    assert_eq!(map.annotations()["operator-sdk/primary-resource"], "lab/shop");
    assert_eq!(map.annotations()["operator-sdk/primary-resource-type"], "Shop.shops.example.com");

    lab.patch("shop", json!({ "spec": { "to": null } })).await;
    lab.env.wait_in(lab.maps.clone(), "shop", |map: Option<&ConfigMap>| map.is_some()).await.unwrap();
    let shop = lab.ready("shop").await;
    assert!(shop["status"]["deployedRelease"].get("namespace").is_none());
    assert_eq!(shop["status"]["history"].as_array().unwrap().len(), 1, "its history begins anew");
    assert!(den.get_opt("shop").await.unwrap().is_none());
    let map = lab.maps.get("shop").await.unwrap();
    assert_eq!(map.owner_references()[0].kind, "Shop");
    assert!(!map.annotations().contains_key("operator-sdk/primary-resource"));

    lab.patch("shop", json!({ "spec": { "called": "store" } })).await;
    lab.env.wait_in(lab.maps.clone(), "store", |map: Option<&ConfigMap>| map.is_some()).await.unwrap();
    lab.ready("shop").await;
    assert!(!lab.has("shop").await);
    assert_eq!(lab.records().await, ["sh.helm.release.v1.store.v1"]);
    // It is deleted at its current location, although its new one is invalid.
    lab.patch("shop", json!({ "spec": { "to": "nowhere" } })).await;
    assert_eq!(lab.message("shop", "Irreconcilable", "True").await, "spec.to: there is no such place");
    assert!(lab.has("store").await);
    lab.delete("shop").await;
    assert!(!lab.has("store").await && lab.records().await.is_empty());
    assert!(den.get_opt("other").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_deletion_waits_for_the_objects_of_former_releases() {
    let lab = Lab::start(controller(chart()).release_name(place)).await;
    let annotations = json!({ "helm.sdk.operatorframework.io/uninstall-wait": "true" });
    lab.create_with("shop", json!({}), json!({ "annotations": annotations })).await;
    lab.ready("shop").await;
    lab.patch("shop", json!({ "spec": { "to": "nowhere" } })).await;
    lab.message("shop", "Irreconcilable", "True").await;
    let finalizers = |names: &[&str]| Patch::Merge(json!({ "metadata": { "finalizers": names } }));
    let hold = finalizers(&["shops.example.com/hold"]);
    lab.maps.patch("shop", &PatchParams::default(), &hold).await.unwrap();
    lab.shops.delete("shop", &DeleteParams::default()).await.unwrap();
    after(60).await;
    assert!(lab.shops.get_opt("shop").await.unwrap().is_some());
    lab.maps.patch("shop", &PatchParams::default(), &finalizers(&[])).await.unwrap();
    after(60).await;
    assert!(lab.shops.get_opt("shop").await.unwrap().is_none() && lab.records().await.is_empty());
}

/// The label by which former releases are found is only a hint.
#[tokio::test(start_paused = true)]
async fn a_label_makes_no_release_the_objects_own() {
    let lab = Lab::start(controller(chart()).release_name(place)).await;
    lab.create("shop", json!({})).await;
    let shop = lab.ready("shop").await;
    let uid = shop["metadata"]["uid"].as_str().unwrap();
    let options = Options {
        labels: [("helm.steersman.dev/owner-uid".to_owned(), uid.to_owned())].into(),
        ..Options::default()
    };
    let other = Releases::new(lab.client.clone(), "den");
    other.install("other", &chart(), &Default::default(), &options).await.unwrap();
    lab.patch("shop", json!({ "spec": { "mood": "wild" } })).await;
    lab.in_mood("shop", "wild").await;
    lab.delete("shop").await;
    assert_eq!(other.revisions("other").await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_object_of_the_cluster_has_its_release_in_the_default_namespace() {
    let mut lab = Lab::new().await;
    lab.env.install(&steersman::testing::object(definition("Cluster", "Mall", "malls"))).await.unwrap();
    let mut resource = resource();
    resource.kind = "Mall".into();
    resource.plural = "malls".into();
    let malls: Api<DynamicObject> = Api::all_with(lab.client.clone(), &resource);
    lab.run(ReleaseController::new(Kind::dynamic(resource, false), chart()));
    let mall = json!({ "apiVersion": "shops.example.com/v1", "kind": "Mall", "metadata": { "name": "mall" }, "spec": {} });
    malls.create(&Default::default(), &steersman::testing::dynamic(mall)).await.unwrap();
    let is_ready = |found: Option<&DynamicObject>| {
        found.is_some_and(|mall| status_of(&json!(mall), "Ready").as_deref() == Some("True"))
    };
    let mall = json!(lab.env.wait_in(malls.clone(), "mall", is_ready).await.unwrap());
    assert_eq!(mall["status"]["deployedRelease"]["namespace"], "default");
    lab.env.quiet().await;
    let maps: Api<ConfigMap> = Api::namespaced(lab.client.clone(), "default");
    assert_eq!(maps.get("mall").await.unwrap().owner_references()[0].kind, "Mall");
    // Changes of its objects still trigger their owner.
    maps.delete("mall", &Default::default()).await.unwrap();
    lab.env.wait_in(maps.clone(), "mall", |map: Option<&ConfigMap>| map.is_some()).await.unwrap();
    malls.delete("mall", &Default::default()).await.unwrap();
    lab.env.wait_in(malls, "mall", |mall: Option<&DynamicObject>| mall.is_none()).await.unwrap();
    assert!(maps.get_opt("mall").await.unwrap().is_none());
}

/// An operator may lack permission for Secrets of other namespaces. It finds no releases there, and continues.
#[tokio::test(start_paused = true)]
async fn without_the_right_to_look_elsewhere_releases_stay_where_they_are() {
    let lab = Lab::new().await;
    let group = "rbac.authorization.k8s.io";
    let subjects = json!([{ "kind": "ServiceAccount", "name": "operator", "namespace": "default" }]);
    let role = |kind: &str| json!({ "apiGroup": group, "kind": kind, "name": "operator" });
    let all = json!([
        { "apiGroups": ["", "events.k8s.io", "shops.example.com"], "resources": ["configmaps", "events", "shops", "shops/status", "shops/finalizers"], "verbs": ["*"] },
    ]);
    let own = json!([{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["*"] }]);
    let mut objects = vec![
        (None, "ClusterRole", json!({ "rules": all })),
        (None, "ClusterRoleBinding", json!({ "subjects": subjects, "roleRef": role("ClusterRole") })),
    ];
    for place in ["lab", "default"] {
        objects.push((Some(place), "Role", json!({ "rules": own })));
        objects.push((Some(place), "RoleBinding", json!({ "subjects": subjects, "roleRef": role("Role") })));
    }
    for (place, kind, mut object) in objects {
        object["apiVersion"] = json!(format!("{group}/v1"));
        object["kind"] = json!(kind);
        object["metadata"] = json!({ "name": "operator" });
        let object = steersman_release::resolve(object, place.unwrap_or_default(), lab.releases.kinds())
            .await
            .unwrap();
        lab.releases.enforce(&object).await.unwrap();
    }
    let client = lab.env.cluster().unwrap().client_as(User::service_account("default", "operator"));
    let operator =
        Operator::new("helm-operator").controller(controller(chart()).release_name(place).controller());
    let running = tokio::spawn(operator.run_until(client, std::future::pending()));
    lab.create("shop", json!({})).await;
    lab.until("shop", "ready", |shop| status_of(shop, "Ready").as_deref() == Some("True")).await;
    running.abort();
}
