//! From watches.yaml to a running operator.

use std::time::Duration;

use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use serde_json::json;
use steersman::Operator;
use steersman::testing::object;
use steersman_helm_operator::{Defaults, Error, WatchConfig, add_watches};
use tokio::time::Instant;

use crate::shop::{Lab, after, condition, definition};

/// A chart on disk with a config map, and a cluster role on request.
fn chart() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("shop/Chart.yaml", "{apiVersion: v2, name: shop, version: 1.0.0}");
    write("shop/values.yaml", "mood: calm\nrole: ''\n");
    write("shop/crds/widgets.yaml", &definition("Namespaced", "Widget", "widgets").to_string());
    write(
        "shop/templates/all.yaml",
        r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data: {mood: {{ .Values.mood | quote }}}
{{- with .Values.role }}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: {{ . }}}}
{{- end }}
"#,
    );
    directory
}

const KIND: &str = "group: shops.example.com, version: v1, kind: Shop, chart: shop";

fn load(directory: &tempfile::TempDir, more: &str) -> Vec<WatchConfig> {
    let path = directory.path().join("watches.yaml");
    std::fs::write(&path, format!("- {{{KIND}{more}}}\n")).unwrap();
    WatchConfig::load(path).unwrap()
}

async fn start(directory: &tempfile::TempDir, more: &str, defaults: &Defaults) -> Lab {
    let mut lab = Lab::new().await;
    let watches = load(directory, more);
    let operator =
        add_watches(Operator::new("helm-operator"), &watches, defaults, &lab.client).await.unwrap();
    lab.env.run(operator);
    lab
}

#[tokio::test(start_paused = true)]
async fn a_watch_says_how_its_objects_are_dealt_with() {
    let directory = chart();
    let more = ", overrideValues: {mood: '{{ upper \"wild\" }}'}, selector: {matchLabels: {open: 'yes'}}, \
                maxReleaseHistory: 1, crds: Skip, reconcilePeriod: 10s, watchDependentResources: false, \
                ignore: [{kind: ConfigMap, paths: [/data/mood]}]";
    let lab =
        start(&directory, more, &Defaults { suppress_override_values: true, ..Defaults::default() }).await;
    lab.create("closed", json!({})).await;
    lab.create_with("shop", json!({}), json!({ "labels": { "open": "yes" } })).await;
    lab.in_mood("shop", "WILD").await;
    assert!(!lab.has("closed").await);
    let events = lab.events().await;
    assert!(events.iter().any(|event| event.contains("overridden to \"****\"")), "{events:?}");
    lab.tamper("shop", json!({ "mood": "odd" })).await;
    after(30).await;
    assert_eq!(lab.data("shop", "mood").await.as_deref(), Some("odd"));
    // Without a watch the drift is corrected after the resync period.
    lab.maps.delete("shop", &Default::default()).await.unwrap();
    after(30).await;
    assert!(lab.has("shop").await);
    let roles: Api<ClusterRole> = Api::all(lab.client.clone());
    for name in ["first", "second"] {
        lab.patch("shop", json!({ "spec": { "role": name } })).await;
        lab.env.wait_in(roles.clone(), name, |role: Option<&ClusterRole>| role.is_some()).await.unwrap();
        lab.env.quiet().await;
    }
    // One more than the limit: the deployed one is kept until there is another.
    assert_eq!(lab.records().await, ["sh.helm.release.v1.shop.v2", "sh.helm.release.v1.shop.v3"]);
    let definitions: Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = Api::all(lab.client.clone());
    assert!(definitions.get_opt("widgets.shops.example.com").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn confinement_is_the_watchs_or_that_of_the_program() {
    let kind = "ClusterRole.rbac.authorization.k8s.io";
    let confined = Defaults { confined: true, ..Defaults::default() };
    let allowing = Defaults { allowed_cluster_kinds: vec![kind.to_owned()], ..confined.clone() };
    for (more, defaults, is_allowed) in [
        ("", Defaults::default(), true),
        ("", confined.clone(), false),
        ("", allowing.clone(), true),
        (", confined: false", confined.clone(), true),
        (", confined: true", Defaults::default(), false),
        (", allowedClusterKinds: []", allowing, false),
        (", allowedClusterKinds: [ClusterRole.rbac.authorization.k8s.io]", confined, true),
    ] {
        let directory = chart();
        let lab = start(&directory, more, &defaults).await;
        lab.create("shop", json!({ "role": "keeper" })).await;
        if is_allowed {
            lab.ready("shop").await;
        } else {
            let message = lab.failed("shop").await;
            assert!(message.contains("confined to namespace lab"), "{more}: {message}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn objects_are_looked_at_every_minute_by_default() {
    let directory = chart();
    let lab = start(&directory, ", watchDependentResources: false", &Defaults::default()).await;
    lab.create("shop", json!({})).await;
    lab.ready("shop").await;
    lab.maps.delete("shop", &Default::default()).await.unwrap();
    after(20).await;
    assert!(!lab.has("shop").await);
    after(60).await;
    assert!(lab.has("shop").await);
    let shop = lab.ready("shop").await;
    assert_eq!(condition(&shop, "Deployed").unwrap()["reason"], "InstallSuccessful");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_there_is_waited_for() {
    let directory = chart();
    let lab = Lab::new().await;
    let mut watches = load(&directory, "");
    watches[0].kind = "Mall".into();
    let started = Instant::now();
    let add = |defaults: Defaults| {
        let (watches, client) = (watches.clone(), lab.client.clone());
        async move { add_watches(Operator::new("helm-operator"), &watches, &defaults, &client).await }
    };
    let missing = add(Defaults::default()).await.map(drop).unwrap_err();
    assert!(matches!(missing, Error::Absent(_)), "{missing}");
    let said =
        "the cluster does not serve shops.example.com/v1 Mall: install its custom resource definition first";
    assert_eq!(missing.to_string(), said);
    assert!(started.elapsed() < Duration::from_secs(1));

    let patient = Defaults { kind_timeout: Duration::from_secs(10), ..Defaults::default() };
    let started = Instant::now();
    assert!(add(patient.clone()).await.is_err());
    assert!((10..12).contains(&started.elapsed().as_secs()), "{:?}", started.elapsed());
    let install = async {
        after(5).await;
        lab.env.install(&object(definition("Namespaced", "Mall", "malls"))).await.unwrap();
    };
    let (added, ()) = tokio::join!(add(patient), install);
    added.map(drop).unwrap();
}

#[tokio::test]
async fn a_watch_with_a_broken_chart_or_value_is_refused() {
    let directory = chart();
    let lab = Lab::new().await;
    let refused = |watches: Vec<WatchConfig>| {
        let client = lab.client.clone();
        async move {
            let added =
                add_watches(Operator::new("helm-operator"), &watches, &Defaults::default(), &client).await;
            added.map(drop).unwrap_err().to_string()
        }
    };
    let mut watches = load(&directory, "");
    watches[0].chart = directory.path().join("nothing");
    let error = refused(watches).await;
    assert!(error.starts_with("chart ") && error.contains("nothing"), "{error}");
    let error = refused(load(&directory, ", overrideValues: {mood: '{{ nothing }}'}")).await;
    assert!(error.starts_with("override value mood: "), "{error}");
    std::fs::write(
        directory.path().join("shop/Chart.yaml"),
        "{apiVersion: v2, name: shop, version: 1.0.0, type: library}",
    )
    .unwrap();
    let error = refused(load(&directory, "")).await;
    assert!(error.contains("library"), "{error}");
    std::fs::write(
        directory.path().join("shop/Chart.yaml"),
        "{apiVersion: v2, name: shop, version: 1.0.0, dependencies: [{name: far, version: 1.0.0, repository: 'http://127.0.0.1'}]}",
    )
    .unwrap();
    let error = refused(load(&directory, "")).await;
    assert!(error.contains("far"), "{error}");
}
