//! Releases on the embedded cluster.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use steersman_chart::{Chart, File, Values};
use steersman_cluster::Cluster;
use steersman_release::{
    DryRun, Error, Options, Outcome, Progress, Releases, RollbackOptions, Status, Timeout, UninstallOptions,
    WriteMode,
};

/// A chart with a workload, a ConfigMap, an optional object, and hooks.
fn shop() -> Chart {
    Chart::from_files([
        File::new("Chart.yaml", "{apiVersion: v2, name: shop, version: 1.2.3, appVersion: '4.5'}"),
        File::new("values.yaml", "replicas: 2\nextra: false\nmood: calm\n"),
        File::new("templates/NOTES.txt", "Welcome to {{ .Release.Name }}, revision {{ .Release.Revision }}."),
        File::new(
            "templates/deployment.yaml",
            r#"
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
spec:
  {{- if .Values.replicas }}
  replicas: {{ .Values.replicas }}
  {{- end }}
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}, annotations: {{ toJson .Values.pod }}}
    spec:
      containers:
        - name: web
          image: shop:{{ .Chart.AppVersion }}
"#,
        ),
        File::new(
            "templates/config.yaml",
            r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-config}
data:
  mood: {{ .Values.mood }}
  {{- if .Values.extra }}
  extra: "yes"
  {{- end }}
{{- if .Values.extra }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-extra}
---
apiVersion: v1
kind: Secret
metadata: {name: {{ .Release.Name }}-kept, annotations: {helm.sh/resource-policy: keep}}
{{- end }}
"#,
        ),
        File::new(
            "templates/hook.yaml",
            r#"
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-prepare
  annotations:
    helm.sh/hook: pre-install,pre-upgrade
    helm.sh/hook-weight: "-5"
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  backoffLimit: 0
  template:
    metadata: {annotations: {cluster.steersman.dev/exit-code: "{{ .Values.hookExit | default 0 }}"}}
    spec: {restartPolicy: Never, containers: [{name: c, image: prepare}]}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-after
  annotations: {helm.sh/hook: post-install}
---
apiVersion: v1
kind: Pod
metadata:
  name: {{ .Release.Name }}-test
  annotations: {helm.sh/hook: test, cluster.steersman.dev/logs: all is well}
spec: {restartPolicy: Never, containers: [{name: c, image: check}]}
"#,
        ),
    ])
    .unwrap()
}

fn values(expressions: &[&str]) -> Values {
    let mut values = Values::new();
    for expression in expressions {
        values.set(expression).unwrap();
    }
    values
}

async fn cluster() -> (Cluster, Client, Releases) {
    let cluster = Cluster::start().await.unwrap();
    let client = cluster.client();
    let releases = Releases::new(client.clone(), "default");
    (cluster, client, releases)
}

fn quick() -> Options {
    Options { timeout: Timeout(Duration::from_secs(20)), ..Options::default() }
}

#[tokio::test]
async fn a_release_lives_from_install_to_uninstall() {
    let (_cluster, client, releases) = cluster().await;
    let chart = shop();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");

    let options = Options { wait: true, ..quick() };
    let first = releases.install("shop", &chart, &values(&["extra=true"]), &options).await.unwrap();
    assert_eq!((first.version, first.info.status), (1, Status::Deployed));
    assert_eq!(first.info.notes, "Welcome to shop, revision 1.");
    let deployment: Api<Deployment> = Api::namespaced(client.clone(), "default");
    let live = deployment.get("shop").await.unwrap();
    assert_eq!(live.status.unwrap().ready_replicas, Some(2));
    let labels = live.metadata.labels.unwrap();
    assert_eq!(labels["app.kubernetes.io/managed-by"], "Helm");
    assert_eq!(live.metadata.annotations.unwrap()["meta.helm.sh/release-name"], "shop");
    let jobs: Api<Job> = Api::namespaced(client.clone(), "default");
    assert!(jobs.get_opt("shop-prepare").await.unwrap().is_none(), "it succeeded and is deleted");
    assert!(maps.get_opt("shop-after").await.unwrap().is_some());

    let second =
        releases.upgrade("shop", &chart, &values(&["mood=wild", "replicas=3"]), &quick()).await.unwrap();
    assert_eq!((second.version, second.info.status), (2, Status::Deployed));
    let config = maps.get("shop-config").await.unwrap().data.unwrap();
    assert_eq!(config.get("mood").map(String::as_str), Some("wild"));
    assert!(!config.contains_key("extra"), "what the chart no longer sets goes");
    assert!(maps.get_opt("shop-extra").await.unwrap().is_none(), "so does an object");
    assert!(secrets.get_opt("shop-kept").await.unwrap().is_some(), "unless it is to be kept");

    let third = releases.rollback("shop", &RollbackOptions::default()).await.unwrap();
    assert_eq!((third.version, third.info.description.as_str()), (3, "Rollback to 1"));
    assert!(maps.get_opt("shop-extra").await.unwrap().is_some());
    let history = releases.history("shop").await.unwrap();
    let statuses: Vec<_> = history.iter().map(|release| release.info.status).collect();
    assert_eq!(statuses, [Status::Superseded, Status::Superseded, Status::Deployed]);

    let gone = releases
        .uninstall("shop", &UninstallOptions { wait: true, ..UninstallOptions::default() })
        .await
        .unwrap();
    assert_eq!(gone.kept, ["[Secret] shop-kept"]);
    assert!(maps.get_opt("shop-config").await.unwrap().is_none());
    assert!(secrets.get_opt("shop-kept").await.unwrap().is_some());
    assert!(matches!(releases.get("shop", None).await, Err(Error::NotFound { .. })));
}

#[tokio::test]
async fn what_others_own_is_left_alone() {
    for mode in [WriteMode::ServerSide, WriteMode::ThreeWay] {
        let (_cluster, client, releases) = cluster().await;
        let releases = releases.write_mode(mode);
        let chart = shop();
        releases.install("shop", &chart, &values(&["replicas=null"]), &quick()).await.unwrap();
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), "default");
        let scale = Patch::Merge(json!({ "spec": { "replicas": 7 } }));
        let params = PatchParams { field_manager: Some("autoscaler".into()), ..PatchParams::default() };
        deployments.patch("shop", &params, &scale).await.unwrap();
        releases.upgrade("shop", &chart, &values(&["replicas=null", "mood=wild"]), &quick()).await.unwrap();
        let live = deployments.get("shop").await.unwrap();
        assert_eq!(live.spec.unwrap().replicas, Some(7), "{mode:?}");
    }
}

#[tokio::test]
async fn an_object_is_brought_back_where_a_merge_would_be_refused() {
    let (_cluster, client, releases) = cluster().await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "shop" },
        "spec": { "selector": { "app": "shop" }, "ports": [{ "name": "http", "port": 80 }] },
    });
    let service = steersman_release::resolve(service, "default", releases.kinds()).await.unwrap();
    let (outcome, _) = releases.enforce(&service).await.unwrap();
    assert_eq!(outcome, Outcome::Created);
    let services: Api<Service> = Api::default_namespaced(client);
    let patch = json!({ "spec": { "ports": [{ "name": "http", "port": 9999 }] } });
    let before = services.patch("shop", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let (outcome, _) = releases.enforce(&service).await.unwrap();
    assert_eq!(outcome, Outcome::Changed);
    let spec = services.get("shop").await.unwrap().spec.unwrap();
    let ports = spec.ports.unwrap();
    assert_eq!((ports.len(), ports[0].port), (1, 80));
    assert_eq!(spec.cluster_ip, before.spec.unwrap().cluster_ip);
    // The result belongs to the release, and needs no further change.
    let (outcome, _) = releases.enforce(&service).await.unwrap();
    assert_ne!(outcome, Outcome::Created);
    let (outcome, _) = releases.enforce(&service).await.unwrap();
    assert_eq!(outcome, Outcome::Unchanged);
}

#[tokio::test]
async fn what_the_cluster_refuses_for_good_is_told_as_it_was() {
    let (_cluster, _client, releases) = cluster().await;
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "fixed" }, "immutable": true, "data": { "a": "b" },
    });
    let map = steersman_release::resolve(map, "default", releases.kinds()).await.unwrap();
    releases.enforce(&map).await.unwrap();
    let other = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "fixed" }, "immutable": true, "data": { "a": "c" },
    });
    let other = steersman_release::resolve(other, "default", releases.kinds()).await.unwrap();
    let refused = releases.enforce(&other).await.unwrap_err().to_string();
    assert!(refused.contains("immutable"), "{refused}");
}

#[tokio::test]
async fn objects_of_others_are_not_taken() {
    let (_cluster, client, releases) = cluster().await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let mut foreign = ConfigMap::default();
    foreign.metadata.name = Some("shop-config".into());
    maps.create(&PostParams::default(), &foreign).await.unwrap();

    let refused = releases.install("shop", &shop(), &Values::new(), &quick()).await.unwrap_err();
    let text = refused.to_string();
    assert!(text.starts_with(
        "Unable to continue with install: ConfigMap \"shop-config\" in namespace \"default\" exists and cannot be \
         imported into the current release: invalid ownership metadata; label validation error: missing key"
    ), "{text}");
    assert!(releases.revisions("shop").await.unwrap().is_empty(), "nothing was recorded");

    let take = Options { take_ownership: true, ..quick() };
    releases.install("shop", &shop(), &Values::new(), &take).await.unwrap();
    assert_eq!(maps.get("shop-config").await.unwrap().data.unwrap()["mood"], "calm");
}

#[tokio::test]
async fn failures_are_recorded_and_undone_if_asked() {
    let (_cluster, client, releases) = cluster().await;
    let chart = shop();
    let bad = values(&["hookExit=3"]);
    let failed = releases.install("shop", &chart, &bad, &quick()).await.unwrap_err();
    assert!(failed.to_string().starts_with("failed pre-install: job shop-prepare failed"), "{failed}");
    assert_eq!(releases.get("shop", None).await.unwrap().info.status, Status::Failed);
    assert!(matches!(releases.install("shop", &chart, &bad, &quick()).await, Err(Error::NameInUse)));

    let good = releases
        .install("shop", &chart, &Values::new(), &Options { replace: true, ..quick() })
        .await
        .unwrap();
    assert_eq!(good.version, 2);
    let atomic = Options { atomic: true, timeout: Timeout(Duration::from_millis(500)), ..quick() };
    let stuck = values(&["pod.cluster\\.steersman\\.dev/fail=never-ready"]);
    let failed = releases.upgrade("shop", &chart, &stuck, &atomic).await.unwrap_err();
    assert!(failed.to_string().contains("has been rolled back due to atomic being set"), "{failed}");
    assert!(failed.to_string().contains("Deployment/shop"), "it names the object: {failed}");
    let last = releases.get("shop", None).await.unwrap();
    assert_eq!((last.version, last.info.status), (4, Status::Deployed));
    let secrets: Api<Secret> = Api::namespaced(client, "default");
    let records = secrets.list(&ListParams::default().labels("owner=helm,status=deployed")).await.unwrap();
    assert_eq!(records.items.len(), 1);

    let failed = releases.install("other", &chart, &stuck, &atomic).await.unwrap_err();
    assert!(failed.to_string().contains("has been uninstalled due to atomic being set"), "{failed}");
    assert!(releases.revisions("other").await.unwrap().is_empty());
}

#[tokio::test]
async fn history_is_bounded_and_dry_runs_write_nothing() {
    let (_cluster, client, releases) = cluster().await;
    let chart = shop();
    let options = Options { history_max: steersman_release::HistoryMax(3), disable_hooks: true, ..quick() };
    releases.install("shop", &chart, &Values::new(), &options).await.unwrap();
    for mood in ["a", "b", "c", "d"] {
        releases.upgrade("shop", &chart, &values(&[&format!("mood={mood}")]), &options).await.unwrap();
    }
    let kept: Vec<_> =
        releases.revisions("shop").await.unwrap().iter().map(|revision| revision.version).collect();
    assert_eq!(kept, [3, 4, 5]);

    let dry = Options { dry_run: Some(DryRun::Server), ..options };
    let would = releases.upgrade("shop", &chart, &values(&["mood=dry"]), &dry).await.unwrap();
    assert!(would.manifest.contains("mood: dry"));
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    assert_eq!(maps.get("shop-config").await.unwrap().data.unwrap()["mood"], "d");
    assert_eq!(releases.revisions("shop").await.unwrap().len(), 3);
}

#[tokio::test]
async fn an_upgrade_without_changes_changes_nothing() {
    let (_cluster, _client, releases) = cluster().await;
    let chart = shop();
    let options = Options { disable_hooks: true, ..quick() };
    releases.install("shop", &chart, &Values::new(), &options).await.unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let releases = releases.on_progress(move |progress| {
        if let Progress::Written { id, outcome } = progress {
            log.lock().unwrap().push((id.to_string(), *outcome));
        }
    });
    releases.upgrade("shop", &chart, &Values::new(), &options).await.unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 2);
    assert!(seen.iter().all(|(_, outcome)| *outcome == Outcome::Unchanged), "{seen:?}");
}

#[tokio::test]
async fn lookups_see_the_cluster_and_random_values_stay() {
    let (_cluster, client, releases) = cluster().await;
    let chart = Chart::from_files([
        File::new("Chart.yaml", "{apiVersion: v2, name: keys, version: 0.1.0}"),
        File::new(
            "templates/secret.yaml",
            r#"
{{- $known := lookup "v1" "ConfigMap" "default" "known" }}
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData:
  random: {{ randAlphaNum 12 }}
  known: {{ dig "data" "text" "nothing" $known }}
  mood: {{ .Values.mood | default "calm" }}
"#,
        ),
    ])
    .unwrap();
    let mut known = ConfigMap::default();
    known.metadata.name = Some("known".into());
    known.data = Some([("text".to_owned(), "found".to_owned())].into());
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    maps.create(&PostParams::default(), &known).await.unwrap();

    let first = releases.install("keys", &chart, &Values::new(), &quick()).await.unwrap();
    assert!(first.manifest.contains("known: found"), "{}", first.manifest);
    let random = |manifest: &str| {
        manifest.lines().find_map(|line| line.trim().strip_prefix("random: ").map(str::to_owned)).unwrap()
    };
    let keep = Options { keep_random: true, ..quick() };
    let second = releases.upgrade("keys", &chart, &values(&["mood=wild"]), &keep).await.unwrap();
    assert!(second.manifest.contains("mood: wild"));
    assert_eq!(random(&second.manifest), random(&first.manifest));
    let third = releases.upgrade("keys", &chart, &Values::new(), &quick()).await.unwrap();
    assert_ne!(random(&third.manifest), random(&first.manifest), "as Helm does");
}

#[tokio::test]
async fn pods_hear_of_a_configuration_with_something_random_in_it() {
    let (_cluster, _client, releases) = cluster().await;
    let chart = Chart::from_files([
        File::new("Chart.yaml", "{apiVersion: v2, name: keys, version: 0.1.0}"),
        File::new(
            "templates/config.yaml",
            r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: keys}
data:
  keys.conf: |
    key = {{ randAlphaNum 24 }}
    mood = {{ .Values.mood | default "calm" }}
"#,
        ),
        File::new(
            "templates/deployment.yaml",
            r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: keys}
spec:
  selector: {matchLabels: {app: keys}}
  template:
    metadata:
      labels: {app: keys}
      annotations:
        checksum/config: {{ include (print $.Template.BasePath "/config.yaml") . | sha256sum }}
    spec: {containers: [{name: c, image: c}]}
"#,
        ),
    ])
    .unwrap();
    let find = |manifest: &str, start: &str| {
        manifest.lines().find_map(|line| line.trim().strip_prefix(start).map(str::to_owned)).unwrap()
    };
    let keep = Options { keep_random: true, ..quick() };
    let first = releases.install("keys", &chart, &Values::new(), &keep).await.unwrap();
    let same = releases.candidate(&first, &chart, &Values::new(), &keep).await.unwrap();
    assert!(!same.differs(&first).unwrap(), "{}\n{}", first.manifest, same.manifest);
    let wild = values(&["mood=wild"]);
    let second = releases.upgrade("keys", &chart, &wild, &keep).await.unwrap();
    assert_eq!(find(&second.manifest, "mood = "), "wild");
    assert_eq!(find(&second.manifest, "key = "), find(&first.manifest, "key = "));
    assert_ne!(find(&second.manifest, "checksum/config: "), find(&first.manifest, "checksum/config: "));
    let same = releases.candidate(&second, &chart, &wild, &keep).await.unwrap();
    assert!(!same.differs(&second).unwrap(), "{}\n{}", second.manifest, same.manifest);
}

/// Counts log lines.
#[derive(Clone, Default)]
struct Counter(Arc<AtomicUsize>);

impl tracing::Subscriber for Counter {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn warnings_are_of_what_is_made() {
    let (_cluster, _client, releases) = cluster().await;
    let chart = Chart::from_files([
        File::new("Chart.yaml", "{apiVersion: v2, name: odd, version: 0.1.0}"),
        File::new("values.yaml", "some: {table: {a: 1}}"),
    ])
    .unwrap();
    let current = releases.install("odd", &chart, &Values::new(), &quick()).await.unwrap();
    let counter = Counter::default();
    let _guard = tracing::subscriber::set_default(counter.clone());
    let odd = values(&["some.table=none"]);
    releases.candidate(&current, &chart, &odd, &quick()).await.unwrap();
    assert_eq!(counter.0.load(Ordering::SeqCst), 0, "it is only compared");
    releases.upgrade("odd", &chart, &odd, &quick()).await.unwrap();
    assert!(counter.0.load(Ordering::SeqCst) > 0);
}

#[tokio::test]
async fn records_larger_than_an_object_are_kept_in_parts() {
    let (_cluster, client, releases) = cluster().await;
    // Random data do not compress.
    let noise: String = (0..60_000u64)
        .map(|n| format!("{:016x}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17) ^ (n << 13)))
        .collect();
    let chart = Chart::from_files([
        File::new("Chart.yaml", "{apiVersion: v2, name: big, version: 0.1.0}"),
        File::new("files/a.txt", noise.clone()),
        File::new("files/b.txt", noise.chars().rev().collect::<String>()),
        File::new("files/c.txt", noise.to_uppercase()),
        File::new("templates/config.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: big}}"),
    ])
    .unwrap();
    let first = releases.install("big", &chart, &Values::new(), &quick()).await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(client, "default");
    let parts = secrets.list(&ListParams::default().labels("owner=steersman,release=big")).await.unwrap();
    assert!(parts.items.len() > 1, "{} parts", parts.items.len());
    let read = releases.get("big", None).await.unwrap();
    assert_eq!(read.manifest, first.manifest);
    assert_eq!(read.chart, first.chart);
    releases.uninstall("big", &UninstallOptions::default()).await.unwrap();
    let left = secrets.list(&ListParams::default()).await.unwrap();
    assert!(left.items.is_empty(), "{:?}", left.items);
}

#[tokio::test]
async fn tests_run_and_show_their_logs() {
    let (_cluster, _client, releases) = cluster().await;
    releases.install("shop", &shop(), &Values::new(), &quick()).await.unwrap();
    let logs = Arc::new(Mutex::new(String::new()));
    let written = Arc::clone(&logs);
    let releases = releases.on_progress(move |progress| {
        if let Progress::Log { text, .. } = progress {
            written.lock().unwrap().push_str(text);
        }
    });
    let options = steersman_release::TestOptions { logs: true, ..steersman_release::TestOptions::default() };
    let (release, failure) = releases.test("shop", &options).await.unwrap();
    assert!(failure.is_none(), "{failure:?}");
    let test = release.hooks.iter().find(|hook| hook.name == "shop-test").unwrap();
    assert_eq!(test.last_run.phase, "Succeeded");
    assert!(logs.lock().unwrap().contains("all is well"));
}
