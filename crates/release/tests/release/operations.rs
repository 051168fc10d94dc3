//! What install, upgrade and rollback record, and the effect of their options.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use steersman_chart::{Chart, File, Values};
use steersman_release::{
    CrdPolicy, DryRun, Error, HistoryMax, Options, Release, Releases, RollbackOptions, Status, Timeout,
    UninstallOptions, ValuesPolicy,
};
use tokio::time::Instant;

use crate::support::{chart, chart_with, cluster, create_map, has_map, judged, maps, quick, values};

/// Objects and hooks that values switch on.
const SHOP: &str = r#"
{{- range $name := .Values.maps }}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ $name }}}, data: {mood: {{ $.Values.mood | quote }}}}
{{- end }}
{{- if .Values.pod }}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {cluster.steersman.dev/fail: {{ .Values.pod }}}}
    spec: {containers: [{name: c, image: c}]}
{{- end }}
{{- if .Values.job }}
---
apiVersion: batch/v1
kind: Job
metadata: {name: work}
spec:
  backoffLimit: 0
  template:
    metadata: {annotations: {{ toJson .Values.job }}}
    spec: {restartPolicy: Never, containers: [{name: c, image: c}]}
{{- end }}
{{- range $event, $exit := .Values.hooks }}
---
apiVersion: batch/v1
kind: Job
metadata: {name: {{ $event }}, annotations: {helm.sh/hook: {{ $event }}}}
spec:
  backoffLimit: 0
  template:
    metadata: {annotations: {cluster.steersman.dev/exit-code: "{{ $exit }}"}}
    spec: {restartPolicy: Never, containers: [{name: c, image: c}]}
{{- end }}
{{- range $event, $name := .Values.marks }}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ $name }}, annotations: {helm.sh/hook: {{ $event }}}}}
{{- end }}
"#;

fn shop() -> Chart {
    let values = "mood: calm\nmaps: []\nhooks: {}\nmarks: {}\npod: ''\njob: {}\n";
    let notes = "Revision {{ .Release.Revision }} of {{ .Release.Name }}, {{ .Values.mood }}.";
    chart_with(SHOP, [File::new("values.yaml", values), File::new("templates/NOTES.txt", notes)])
}

fn labels(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

async fn install(releases: &Releases, given: &[&str]) -> Release {
    releases.install("shop", &shop(), &values(given), &quick()).await.unwrap()
}

async fn upgrade(releases: &Releases, given: &[&str]) -> Release {
    releases.upgrade("shop", &shop(), &values(given), &quick()).await.unwrap()
}

/// Returns the revisions with their status, oldest first.
async fn statuses(releases: &Releases) -> Vec<(i64, Status)> {
    let revisions = releases.revisions("shop").await.unwrap();
    revisions.iter().map(|revision| (revision.version, revision.status)).collect()
}

#[tokio::test]
async fn a_record_says_what_was_done() {
    let (_cluster, _client, releases) = cluster().await;
    let options = Options { labels: labels(&[("team", "a"), ("tier", "web")]), ..quick() };
    let given = values(&["mood=wild", "maps={a}", "marks.pre-rollback=back"]);
    releases.install("shop", &shop(), &given, &options).await.unwrap();
    let first = releases.get("shop", None).await.unwrap();
    assert_eq!((first.name.as_str(), first.namespace.as_str(), first.version), ("shop", "default", 1));
    assert_eq!(first.info.description, "Install complete");
    assert_eq!(first.info.notes, "Revision 1 of shop, wild.");
    assert!(first.info.first_deployed.is_some());
    assert_eq!((first.info.last_deployed, first.info.deleted), (first.info.first_deployed, None));
    assert_eq!((first.chart.title().as_str(), first.chart.app_version()), ("shop-1.2.3", "4.5"));
    assert!(first.is_of("shop") && !first.is_of("other"));
    let config = json!({ "mood": "wild", "maps": ["a"], "marks": { "pre-rollback": "back" } });
    assert_eq!(Value::Object(first.config.clone()), config);
    assert_eq!(first.computed_values()["pod"], "", "with the chart's own");
    assert_eq!(first.labels, options.labels);
    let [hook] = first.hooks.as_slice() else { panic!("{:?}", first.hooks) };
    assert_eq!(
        (hook.name.as_str(), hook.kind.as_str(), hook.path.as_str()),
        ("back", "ConfigMap", "shop/templates/all.yaml")
    );
    assert_eq!(
        (hook.events.as_slice(), hook.last_run.phase.as_str()),
        (&["pre-rollback".to_owned()][..], "")
    );

    let change = labels(&[("team", "b"), ("tier", "null"), ("new", "yes")]);
    let options = Options { labels: change, description: Some("by hand".into()), ..quick() };
    let given = values(&["mood=odd", "maps={b}", "marks.post-upgrade=after"]);
    releases.upgrade("shop", &shop(), &given, &options).await.unwrap();
    let second = releases.get("shop", None).await.unwrap();
    assert_eq!((second.name.as_str(), second.namespace.as_str(), second.version), ("shop", "default", 2));
    assert_eq!((second.info.description.as_str(), second.info.status), ("by hand", Status::Deployed));
    assert_eq!(second.info.notes, "Revision 2 of shop, odd.");
    assert_eq!(second.info.first_deployed, first.info.first_deployed);
    assert!(second.info.last_deployed > first.info.last_deployed);
    assert_eq!(second.labels, labels(&[("team", "b"), ("new", "yes")]));
    assert_eq!((&second.config["mood"], second.chart.title().as_str()), (&json!("odd"), "shop-1.2.3"));
    assert_eq!((second.hooks.len(), second.hooks[0].last_run.phase.as_str()), (1, "Succeeded"));

    let options = RollbackOptions { revision: Some(1), ..RollbackOptions::default() };
    releases.rollback("shop", &options).await.unwrap();
    let third = releases.get("shop", None).await.unwrap();
    assert_eq!((third.name.as_str(), third.namespace.as_str(), third.version), ("shop", "default", 3));
    assert_eq!((third.info.description.as_str(), third.info.status), ("Rollback to 1", Status::Deployed));
    assert_eq!(
        (&third.info.notes, &third.config, &third.chart),
        (&first.info.notes, &first.config, &first.chart)
    );
    assert_eq!((&third.labels, &third.manifest), (&first.labels, &first.manifest));
    assert_eq!(third.info.first_deployed, first.info.first_deployed);
    assert!(third.info.last_deployed > second.info.last_deployed);
    assert_eq!((third.hooks.len(), third.hooks[0].last_run.phase.as_str()), (1, "Succeeded"));
}

/// A process that stores the record of a revision, and fails all writes after that.
#[tokio::test]
async fn a_revision_is_recorded_before_anything_is_written() {
    let (_cluster, client, releases) = cluster().await;
    let stuck = judged(&client, |seen| {
        (seen.method != Method::GET && !seen.is(Method::POST, "/secrets")).then_some(500)
    });
    let stuck = Releases::new(stuck, "default").recover(steersman_release::Recover::Always);
    let record = || async { releases.get("shop", None).await.unwrap().info };
    stuck.install("shop", &shop(), &values(&["maps={a}"]), &quick()).await.unwrap_err();
    let info = record().await;
    assert_eq!(
        (info.status, info.description.as_str()),
        (Status::PendingInstall, "Initial install underway")
    );
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    let lock = || async {
        let revision = releases.revisions("shop").await.unwrap().pop().unwrap();
        let record = secrets.get(&revision.key()).await.unwrap();
        record.annotations().get("release.steersman.dev/alive-until").cloned()
    };
    assert!(lock().await.is_some());

    let releases = releases.clone().recover(steersman_release::Recover::Always);
    releases.install("shop", &shop(), &values(&["maps={a}"]), &quick()).await.unwrap();
    assert_eq!(lock().await, None);
    let first = releases.get("shop", Some(1)).await.unwrap();
    assert_eq!(first.info.description, "Interrupted while pending-install, recovered by the next run");
    stuck.upgrade("shop", &shop(), &values(&["maps={b}"]), &quick()).await.unwrap_err();
    let info = releases.get("shop", None).await.unwrap().info;
    assert_eq!((info.status, info.description.as_str()), (Status::PendingUpgrade, "Preparing upgrade"));
    assert!(lock().await.is_some());
    upgrade(&releases, &["maps={b}"]).await;
    stuck.rollback("shop", &RollbackOptions::default()).await.unwrap_err();
    let info = releases.get("shop", None).await.unwrap().info;
    assert_eq!((info.status, info.description.as_str()), (Status::PendingRollback, "Rollback to 3"));
}

#[tokio::test]
async fn dry_runs_say_what_would_be_recorded() {
    let (_cluster, client, releases) = cluster().await;
    let dry = Options { dry_run: Some(DryRun::Server), create_namespace: true, ..quick() };
    let definition = File::new("crds/widgets.yaml", crd("v1", "a"));
    let chart = chart_with("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", [definition]);
    let would = releases.install("shop", &chart, &Values::new(), &dry).await.unwrap();
    assert_eq!((would.version, would.info.description.as_str()), (1, "Dry run complete"));
    assert!(!has_map(&client, "a").await && statuses(&releases).await.is_empty());
    assert_eq!(description_of_widgets(&client).await, None);

    install(&releases, &["maps={a}"]).await;
    let dry = Options { crds: Some(CrdPolicy::CreateReplace), ..dry };
    let would = releases.upgrade("shop", &chart, &Values::new(), &dry).await.unwrap();
    assert_eq!((would.version, would.info.description.as_str()), (2, "Dry run complete"));
    let said = Options { description: Some("just looking".into()), ..dry };
    let would = releases.upgrade("shop", &chart, &Values::new(), &said).await.unwrap();
    assert_eq!(would.info.description, "just looking");
    assert_eq!(description_of_widgets(&client).await, None);

    upgrade(&releases, &["maps={b}"]).await;
    let back = RollbackOptions { dry_run: true, ..RollbackOptions::default() };
    let would = releases.rollback("shop", &back).await.unwrap();
    assert_eq!((would.version, would.info.description.as_str()), (3, "Rollback to 1"));
    assert!(!has_map(&client, "a").await);
    let would =
        releases.uninstall("shop", &UninstallOptions { dry_run: true, ..<_>::default() }).await.unwrap();
    assert_eq!((would.release.version, would.kept.len()), (2, 0));
    assert!(has_map(&client, "b").await);
    assert_eq!(statuses(&releases).await, [(1, Status::Superseded), (2, Status::Deployed)]);
}

fn crd(version: &str, description: &str) -> String {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com", "annotations": { "description": description } },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "kind": "Widget", "plural": "widgets" },
            "versions": [{
                "name": version, "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "object" } },
            }],
        },
    })
    .to_string()
}

async fn description_of_widgets(client: &kube::Client) -> Option<String> {
    let definitions: Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = Api::all(client.clone());
    let found = definitions.get_opt("widgets.example.com").await.unwrap()?;
    found.annotations().get("description").cloned()
}

#[tokio::test]
async fn definitions_follow_their_policy() {
    let (_cluster, client, releases) = cluster().await;
    let with = |description: &str| chart_with("", [File::new("crds/widgets.yaml", crd("v1", description))]);
    let options = |crds| Options { crds, replace: true, ..quick() };
    let there = || async { description_of_widgets(&client).await };
    releases.install("shop", &with("a"), &Values::new(), &options(Some(CrdPolicy::Skip))).await.unwrap();
    assert_eq!(there().await, None);
    releases.upgrade("shop", &with("a"), &Values::new(), &options(None)).await.unwrap();
    assert_eq!(there().await, None, "an upgrade leaves them alone");
    releases.upgrade("shop", &with("a"), &Values::new(), &options(Some(CrdPolicy::Create))).await.unwrap();
    assert_eq!(there().await.as_deref(), Some("a"));
    releases.upgrade("shop", &with("b"), &Values::new(), &options(Some(CrdPolicy::Create))).await.unwrap();
    assert_eq!(there().await.as_deref(), Some("a"), "those that are there stay");
    releases.install("other", &with("b"), &Values::new(), &options(None)).await.unwrap();
    assert_eq!(there().await.as_deref(), Some("a"));
    let replace = options(Some(CrdPolicy::CreateReplace));
    releases.upgrade("shop", &with("b"), &Values::new(), &replace).await.unwrap();
    assert_eq!(there().await.as_deref(), Some("b"));
    releases.install("third", &with("c"), &Values::new(), &replace).await.unwrap();
    assert_eq!(there().await.as_deref(), Some("c"));
    let broken = chart_with("", [File::new("crds/widgets.yaml", "kind: Nothing")]);
    let error = releases.install("fourth", &broken, &Values::new(), &quick()).await.unwrap_err();
    assert!(error.to_string().starts_with("failed to install CRD shop/crds/widgets.yaml: "), "{error}");
}

/// Templates see new kinds of the cluster once their CRDs are among the objects.
#[tokio::test]
async fn capabilities_follow_definitions_among_the_objects() {
    let (_cluster, client, releases) = cluster().await;
    let known = chart(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {has: {{ .Capabilities.APIVersions.Has \"example.com/v1/Widget\" | quote }}}}",
    );
    let has = || async { maps(&client).get("a").await.unwrap().data.unwrap()["has"].clone() };
    releases.install("known", &known, &Values::new(), &quick()).await.unwrap();
    assert_eq!(has().await, "false");
    let wait = Options { wait: true, ..quick() };
    releases.install("shop", &chart(&crd("v1", "a")), &Values::new(), &wait).await.unwrap();
    releases.upgrade("known", &known, &Values::new(), &quick()).await.unwrap();
    assert_eq!(has().await, "true");
}

#[tokio::test]
async fn a_namespace_is_made_if_asked() {
    let (_cluster, client, _) = cluster().await;
    let chart = chart("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}");
    let spaces: Api<Namespace> = Api::all(client.clone());
    let lab = Releases::new(client.clone(), "lab");
    lab.install("shop", &chart, &Values::new(), &quick()).await.unwrap_err();
    assert!(spaces.get_opt("lab").await.unwrap().is_none());
    let create = Options { create_namespace: true, ..quick() };
    lab.install("shop", &chart, &Values::new(), &create).await.unwrap();
    assert_eq!(spaces.get("lab").await.unwrap().labels()["name"], "lab");
    lab.install("other", &shop(), &Values::new(), &create).await.unwrap();
    let refused = judged(&client, |seen| seen.is(Method::POST, "/namespaces?").then_some(403));
    let den = Releases::new(refused, "lab");
    let error = den.install("third", &shop(), &Values::new(), &create).await.unwrap_err();
    assert_eq!(error.to_string(), "Namespace/lab: the test answers with 403");
}

#[tokio::test]
async fn a_post_renderer_has_the_last_word() {
    let (_cluster, client, releases) = cluster().await;
    let post_render: steersman_release::PostRender =
        Arc::new(|manifest: &str| Ok(manifest.replace("calm", "wild")));
    let options = Options { post_render: Some(post_render), ..quick() };
    let mood = || async { maps(&client).get("a").await.unwrap().data.unwrap()["mood"].clone() };
    let release = releases.install("shop", &shop(), &values(&["maps={a}"]), &options).await.unwrap();
    assert_eq!(mood().await, "wild");
    assert!(release.manifest.contains("wild") && !release.manifest.contains("calm"));
    upgrade(&releases, &["maps={a}"]).await;
    assert_eq!(mood().await, "calm");
    releases.upgrade("shop", &shop(), &values(&["maps={a}"]), &options).await.unwrap();
    assert_eq!(mood().await, "wild");
    let options = Options { post_render: Some(Arc::new(|_: &str| Err("no".to_owned()))), ..quick() };
    let error = releases.upgrade("shop", &shop(), &Values::new(), &options).await.unwrap_err();
    assert_eq!(error.to_string(), "error while running post render on files: no");
}

#[tokio::test]
async fn labels_of_helm_are_refused() {
    let (_cluster, _client, releases) = cluster().await;
    install(&releases, &[]).await;
    for label in ["name", "owner", "status", "version", "createdAt", "modifiedAt"] {
        let options = Options { labels: labels(&[(label, "x")]), ..quick() };
        let installed = releases.install("other", &shop(), &Values::new(), &options).await;
        assert!(matches!(installed, Err(Error::SystemLabels)), "{label}");
        let upgraded = releases.upgrade("shop", &shop(), &Values::new(), &options).await;
        assert!(matches!(upgraded, Err(Error::SystemLabels)), "{label}");
    }
}

#[tokio::test]
async fn names_are_checked() {
    let (_cluster, _client, releases) = cluster().await;
    let longest = "a".repeat(53);
    for good in ["a", "a-1", "1a", "a.b-c.d", longest.as_str()] {
        let missing = releases.get(good, None).await.unwrap_err();
        assert!(matches!(&missing, Error::NotFound { name } if name == good), "{good}: {missing}");
    }
    let longer = "a".repeat(54);
    for bad in ["", "-a", "a-", "A", "aA", "a_b", "a..b", ".a", "a.", "a.-b", "a b", "ä", longer.as_str()] {
        let failures = [
            releases.get(bad, None).await.map(drop),
            releases.history(bad).await.map(drop),
            releases.install(bad, &shop(), &Values::new(), &quick()).await.map(drop),
            releases.upgrade(bad, &shop(), &Values::new(), &quick()).await.map(drop),
            releases.rollback(bad, &RollbackOptions::default()).await.map(drop),
            releases.uninstall(bad, &UninstallOptions::default()).await.map(drop),
        ];
        for failure in failures {
            assert!(matches!(&failure, Err(Error::InvalidName(name)) if name == bad), "{bad:?}: {failure:?}");
        }
    }
}

#[tokio::test]
async fn a_name_can_be_taken_again() {
    let (_cluster, _client, releases) = cluster().await;
    install(&releases, &["maps={a}"]).await;
    let replace = Options { replace: true, ..quick() };
    let used = |installed: Result<Release, Error>| assert!(matches!(installed, Err(Error::NameInUse)));
    used(releases.install("shop", &shop(), &Values::new(), &quick()).await);
    used(releases.install("shop", &shop(), &Values::new(), &replace).await);
    let keep = UninstallOptions { keep_history: true, ..UninstallOptions::default() };
    releases.uninstall("shop", &keep).await.unwrap();
    used(releases.install("shop", &shop(), &Values::new(), &quick()).await);
    let missing = releases.upgrade("shop", &shop(), &Values::new(), &quick()).await.unwrap_err();
    assert_eq!(missing.to_string(), "\"shop\" has no deployed releases");
    releases.install("shop", &shop(), &values(&["hooks.pre-install=1"]), &replace).await.unwrap_err();
    assert_eq!(statuses(&releases).await, [(1, Status::Superseded), (2, Status::Failed)]);
    let first = releases.get("shop", Some(1)).await.unwrap();
    assert_eq!(first.info.description, "superseded by new release");
    used(releases.install("shop", &shop(), &Values::new(), &quick()).await);
    releases.install("shop", &shop(), &Values::new(), &replace).await.unwrap();
    assert_eq!(
        statuses(&releases).await,
        [(1, Status::Superseded), (2, Status::Failed), (3, Status::Deployed)]
    );
    let failed = releases.get("shop", Some(2)).await.unwrap().info.description;
    assert!(
        failed.starts_with("Release \"shop\" failed: failed pre-install: job pre-install failed"),
        "{failed}"
    );
}

/// Only the last deployed revision and those after it define what belongs to the release.
#[tokio::test]
async fn what_was_given_up_is_no_longer_the_releases() {
    let (_cluster, client, releases) = cluster().await;
    let refused = |done: Result<Release, Error>| {
        assert!(matches!(done, Err(Error::InvalidOwnership { .. })), "{done:?}");
    };
    install(&releases, &["maps={a,b}"]).await;
    upgrade(&releases, &["maps={a}"]).await;
    create_map(&client, "b").await;
    refused(releases.upgrade("shop", &shop(), &values(&["maps={a,b}"]), &quick()).await);
    upgrade(&releases, &["maps={a}"]).await;

    let keep = UninstallOptions { keep_history: true, ..UninstallOptions::default() };
    releases.uninstall("shop", &keep).await.unwrap();
    create_map(&client, "a").await;
    let replace = Options { replace: true, ..quick() };
    refused(releases.install("shop", &shop(), &values(&["maps={a}"]), &replace).await);
    maps(&client).delete("a", &<_>::default()).await.unwrap();
    releases.install("shop", &shop(), &values(&["maps={a}"]), &replace).await.unwrap();
    // A removed ownership label is restored on the objects of the last revision.
    let unmark = json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": null } } });
    maps(&client).patch("a", &PatchParams::default(), &Patch::Merge(unmark)).await.unwrap();
    upgrade(&releases, &["maps={a}", "mood=odd"]).await;
    assert_eq!(maps(&client).get("a").await.unwrap().labels()["app.kubernetes.io/managed-by"], "Helm");
}

#[tokio::test]
async fn what_a_failed_revision_left_is_pruned() {
    let (_cluster, client, releases) = cluster().await;
    install(&releases, &["maps={a}"]).await;
    let failing = values(&["maps={a,b}", "hooks.post-upgrade=1"]);
    let error = releases.upgrade("shop", &shop(), &failing, &quick()).await.unwrap_err();
    assert!(error.to_string().starts_with("post-upgrade hooks failed: job post-upgrade failed"), "{error}");
    assert!(has_map(&client, "b").await);
    upgrade(&releases, &["maps={a}"]).await;
    assert!(has_map(&client, "a").await && !has_map(&client, "b").await);
    assert_eq!(
        statuses(&releases).await,
        [(1, Status::Superseded), (2, Status::Failed), (3, Status::Deployed)]
    );
    let failed = releases.get("shop", Some(2)).await.unwrap().info.description;
    assert!(failed.starts_with("Upgrade \"shop\" failed: post-upgrade hooks failed"), "{failed}");
}

#[tokio::test]
async fn the_deployed_revision_outlives_those_that_failed() {
    let (_cluster, _client, releases) = cluster().await;
    let options = Options { history_max: HistoryMax(3), ..quick() };
    install(&releases, &[]).await;
    for _ in 0..4 {
        let failing = values(&["hooks.pre-upgrade=1"]);
        releases.upgrade("shop", &shop(), &failing, &options).await.unwrap_err();
    }
    assert_eq!(statuses(&releases).await, [(1, Status::Deployed), (4, Status::Failed), (5, Status::Failed)]);
    let all = Options { history_max: HistoryMax(0), ..quick() };
    releases.upgrade("shop", &shop(), &values(&["mood=odd"]), &all).await.unwrap();
    assert_eq!(releases.revisions("shop").await.unwrap().len(), 4, "0 keeps all");
    let back =
        RollbackOptions { history_max: HistoryMax(2), revision: Some(1), ..RollbackOptions::default() };
    releases.rollback("shop", &back).await.unwrap();
    assert_eq!(statuses(&releases).await, [(6, Status::Superseded), (7, Status::Deployed)]);
}

#[tokio::test]
async fn values_come_about_as_the_policy_says() {
    let chart = |size: &str| {
        let template = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {{ omit .Values \"global\" | toJson }}}";
        chart_with(template, [File::new("values.yaml", format!("size: {size}\nmood: calm\n"))])
    };
    let none: &[&str] = &[];
    let cases = [
        (ValuesPolicy::Given, none, json!({ "size": "new", "mood": "wild", "given": "1" })),
        (ValuesPolicy::Given, &["other=2"], json!({ "size": "new", "mood": "calm", "other": "2" })),
        (ValuesPolicy::Reset, none, json!({ "size": "new", "mood": "calm" })),
        (ValuesPolicy::Reset, &["other=2"], json!({ "size": "new", "mood": "calm", "other": "2" })),
        (
            ValuesPolicy::Reuse,
            &["other=2"],
            json!({ "size": "old", "mood": "wild", "given": "1", "other": "2" }),
        ),
        (
            ValuesPolicy::ResetThenReuse,
            &["other=2"],
            json!({ "size": "new", "mood": "wild", "given": "1", "other": "2" }),
        ),
    ];
    for (policy, given, expected) in cases {
        let (_cluster, client, releases) = cluster().await;
        let first = values(&["mood=wild", "given=1"]);
        releases.install("shop", &chart("old"), &first, &quick()).await.unwrap();
        let options = Options { values: policy, ..quick() };
        releases.upgrade("shop", &chart("new"), &values(given), &options).await.unwrap();
        assert_eq!(json!(maps(&client).get("a").await.unwrap().data), expected, "{policy:?} {given:?}");
    }
    // Nothing to take over.
    let (_cluster, client, releases) = cluster().await;
    releases.install("shop", &chart("old"), &Values::new(), &quick()).await.unwrap();
    releases.upgrade("shop", &chart("new"), &Values::new(), &quick()).await.unwrap();
    assert_eq!(maps(&client).get("a").await.unwrap().data.unwrap()["size"], "new");
}

#[tokio::test]
async fn revisions_to_go_back_to_are_checked() {
    let (_cluster, client, releases) = cluster().await;
    let back = |revision| RollbackOptions { revision, ..RollbackOptions::default() };
    let missing = releases.rollback("shop", &back(None)).await.unwrap_err();
    assert!(matches!(missing, Error::NotFound { .. }), "{missing}");
    install(&releases, &["maps={a}"]).await;
    assert!(matches!(releases.rollback("shop", &back(None)).await, Err(Error::NoSuchRevision(0))));
    upgrade(&releases, &["maps={b}"]).await;
    upgrade(&releases, &["maps={c}"]).await;
    assert!(matches!(releases.rollback("shop", &back(Some(-1))).await, Err(Error::InvalidRevision)));
    assert!(matches!(releases.rollback("shop", &back(Some(4))).await, Err(Error::NoSuchRevision(4))));
    // 0 is the previous revision.
    let fourth = releases.rollback("shop", &back(Some(0))).await.unwrap();
    assert_eq!((fourth.version, fourth.info.description.as_str()), (4, "Rollback to 2"));
    assert!(has_map(&client, "b").await && !has_map(&client, "c").await);
    let fifth = releases.rollback("shop", &back(Some(1))).await.unwrap();
    assert_eq!((fifth.version, fifth.info.description.as_str()), (5, "Rollback to 1"));
    assert!(has_map(&client, "a").await && !has_map(&client, "b").await);
}

#[tokio::test(start_paused = true)]
async fn objects_are_waited_for_if_asked() {
    let (_cluster, _client, releases) = cluster().await;
    let stuck = ["pod=never-ready"];
    let short = Options { timeout: Timeout(Duration::from_secs(5)), ..Options::default() };
    // Not by default.
    releases.install("shop", &shop(), &values(&stuck), &short).await.unwrap();
    let wait = Options { wait: true, ..short.clone() };
    let error = releases.upgrade("shop", &shop(), &values(&stuck), &wait).await.unwrap_err();
    let said =
        "timed out waiting for objects: Deployment/web in namespace default: 0 of 1 replicas are ready";
    assert_eq!(error.to_string(), said);
    let error = releases.install("other", &chart("{}"), &Values::new(), &wait).await.unwrap_err();
    assert!(error.to_string().contains("Object 'Kind' is missing"), "{error}");

    let back = RollbackOptions { revision: Some(1), ..RollbackOptions::default() };
    releases.rollback("shop", &back).await.unwrap();
    let started = Instant::now();
    let back = RollbackOptions { wait: true, timeout: short.timeout, ..back };
    let error = releases.rollback("shop", &back).await.unwrap_err();
    assert_eq!(error.to_string(), said);
    assert!(started.elapsed() < Duration::from_secs(60));
    let failed = releases.get("shop", None).await.unwrap().info;
    assert_eq!(
        (failed.status, failed.description),
        (Status::Failed, format!("Rollback \"shop\" failed: {said}"))
    );
}

#[tokio::test(start_paused = true)]
async fn jobs_are_waited_for_if_asked() {
    let (_cluster, _client, releases) = cluster().await;
    let given = values(&["job.cluster\\.steersman\\.dev/exit-code=1"]);
    let wait = Options { wait: true, ..quick() };
    releases.install("shop", &shop(), &given, &wait).await.unwrap();
    let jobs = Options { wait_for_jobs: true, ..wait };
    let error = releases.upgrade("shop", &shop(), &given, &jobs).await.unwrap_err();
    assert_eq!(error.to_string(), "Job/work in namespace default: the job failed");
    let back = RollbackOptions { revision: Some(1), wait: true, ..RollbackOptions::default() };
    releases.rollback("shop", &back).await.unwrap();
    let back = RollbackOptions { wait_for_jobs: true, ..back };
    let error = releases.rollback("shop", &back).await.unwrap_err();
    assert_eq!(error.to_string(), "Job/work in namespace default: the job failed");
}

#[tokio::test]
async fn hooks_can_be_left_out() {
    let (_cluster, client, releases) = cluster().await;
    let marks =
        ["marks.pre-install=i1", "marks.post-install=i2", "marks.pre-upgrade=u1", "marks.post-upgrade=u2"];
    let marks = [&marks[..], &["marks.pre-rollback=r1", "marks.post-rollback=r2"]].concat();
    let all = ["i1", "i2", "u1", "u2", "r1", "r2"];
    let there = || async {
        let mut there = Vec::new();
        for name in all {
            if has_map(&client, name).await {
                there.push(name);
            }
        }
        there
    };
    let without = Options { disable_hooks: true, ..quick() };
    releases.install("shop", &shop(), &values(&marks), &without).await.unwrap();
    releases.upgrade("shop", &shop(), &values(&marks), &without).await.unwrap();
    let back = RollbackOptions { disable_hooks: true, ..RollbackOptions::default() };
    releases.rollback("shop", &back).await.unwrap();
    assert!(there().await.is_empty());
    upgrade(&releases, &marks).await;
    assert_eq!(there().await, ["u1", "u2"]);
    releases.rollback("shop", &RollbackOptions::default()).await.unwrap();
    assert_eq!(there().await, ["u1", "u2", "r1", "r2"]);
    releases.uninstall("shop", &UninstallOptions::default()).await.unwrap();
    install(&releases, &marks).await;
    assert_eq!(there().await, all);
}

/// A failed upgrade or rollback deletes the objects that it created, if requested. An install never does.
#[tokio::test]
async fn what_failed_is_cleaned_up_if_asked() {
    for cleanup_on_fail in [false, true] {
        let (_cluster, client, releases) = cluster().await;
        let options = Options { cleanup_on_fail, ..quick() };
        let failing = values(&["maps={a}", "hooks.post-install=1"]);
        releases.install("shop", &shop(), &failing, &options).await.unwrap_err();
        assert!(has_map(&client, "a").await);

        let rollback = values(&["maps={a,c}", "hooks.post-rollback=1"]);
        releases.upgrade("shop", &shop(), &rollback, &options).await.unwrap();
        upgrade(&releases, &["maps={a}"]).await;
        let failing = values(&["maps={a,b}", "mood=odd", "hooks.post-upgrade=1"]);
        releases.upgrade("shop", &shop(), &failing, &options).await.unwrap_err();
        assert!(has_map(&client, "a").await, "only what it created");
        assert_eq!(has_map(&client, "b").await, !cleanup_on_fail);

        let back = RollbackOptions { revision: Some(2), cleanup_on_fail, ..RollbackOptions::default() };
        let error = releases.rollback("shop", &back).await.unwrap_err();
        assert!(error.to_string().starts_with("job post-rollback failed"), "{error}");
        assert_eq!(has_map(&client, "c").await, !cleanup_on_fail);
    }
}

#[tokio::test]
async fn a_cleanup_that_fails_is_told_of() {
    let (_cluster, client, releases) = cluster().await;
    install(&releases, &["maps={a}"]).await;
    let refused = judged(&client, |seen| seen.is(Method::DELETE, "configmaps/b").then_some(403));
    let options = Options { cleanup_on_fail: true, ..quick() };
    let failing = values(&["maps={a,b}", "hooks.post-upgrade=1"]);
    let error =
        Releases::new(refused, "default").upgrade("shop", &shop(), &failing, &options).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with(
            "an error occurred while cleaning up resources. original upgrade error: post-upgrade hooks failed"
        ),
        "{text}"
    );
    assert!(
        text.ends_with(
            "unable to cleanup resources: ConfigMap/b in namespace default: the test answers with 403"
        ),
        "{text}"
    );
}

/// Objects of one kind are written concurrently; a failure among them ends the operation.
#[tokio::test]
async fn a_failure_ends_what_comes_after_its_kind() {
    let (_cluster, client, _) = cluster().await;
    let refused = judged(&client, |seen| seen.is(Method::PATCH, "configmaps/a?").then_some(403));
    let releases = Releases::new(refused, "default");
    let given = values(&["maps={a,b}", "pod=x"]);
    let error = releases.install("shop", &shop(), &given, &quick()).await.unwrap_err();
    assert_eq!(error.to_string(), "ConfigMap/a in namespace default: the test answers with 403");
    assert_eq!(error.status_code(), Some(403));
    assert!(has_map(&client, "b").await);
    let deployments: Api<k8s_openapi::api::apps::v1::Deployment> = Api::namespaced(client, "default");
    assert!(deployments.get_opt("web").await.unwrap().is_none());
}

/// A revision that was deployed and is not ready, and one that cannot become ready.
#[tokio::test(start_paused = true)]
async fn an_atomic_upgrade_goes_back_to_the_last_good_revision() {
    let (_cluster, client, releases) = cluster().await;
    let short = Options { timeout: Timeout(Duration::from_secs(5)), ..Options::default() };
    let atomic = Options { atomic: true, ..short.clone() };
    install(&releases, &["maps={a}", "marks.pre-rollback=back"]).await;
    let failing = values(&["hooks.pre-upgrade=1"]);
    releases.upgrade("shop", &shop(), &failing, &short).await.unwrap_err();
    let stuck = values(&["pod=never-ready"]);
    let without = Options { disable_hooks: true, history_max: HistoryMax(3), ..atomic.clone() };
    let error = releases.upgrade("shop", &shop(), &stuck, &without).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "release shop failed, and has been rolled back due to atomic being set: timed out waiting for objects: \
         Deployment/web in namespace default: 0 of 1 replicas are ready"
    );
    let last = releases.get("shop", None).await.unwrap();
    assert_eq!((last.version, last.info.description.as_str()), (4, "Rollback to 1"));
    assert!(!has_map(&client, "back").await, "hooks are left out of that too");
    assert_eq!(
        statuses(&releases).await,
        [(1, Status::Superseded), (3, Status::Failed), (4, Status::Deployed)],
        "as is what is too old"
    );
    releases.upgrade("shop", &shop(), &stuck, &atomic).await.unwrap_err();
    assert!(has_map(&client, "back").await);
}

#[tokio::test(start_paused = true)]
async fn an_atomic_upgrade_waits_for_what_it_goes_back_to() {
    let atomic = Options { atomic: true, timeout: Timeout(Duration::from_secs(5)), ..Options::default() };
    let failing_job = "job.cluster\\.steersman\\.dev/exit-code=1";
    for (good, bad, options, is_back) in [
        ("pod=never-ready", "hooks.pre-upgrade=1", atomic.clone(), false),
        (failing_job, "hooks.pre-upgrade=1", atomic.clone(), true),
        (failing_job, "hooks.pre-upgrade=1", Options { wait_for_jobs: true, ..atomic.clone() }, false),
    ] {
        let (_cluster, _client, releases) = cluster().await;
        releases.install("shop", &shop(), &values(&[good]), &quick()).await.unwrap();
        let started = Instant::now();
        let error =
            releases.upgrade("shop", &shop(), &values(&[bad]), &options).await.unwrap_err().to_string();
        let start = if is_back {
            "release shop failed, and has been rolled back due to atomic being set: pre-upgrade hooks failed"
        } else {
            "an error occurred while rolling back the release. original upgrade error: pre-upgrade hooks failed"
        };
        assert!(error.starts_with(start), "{good}: {error}");
        assert!(started.elapsed() < Duration::from_secs(60), "its time is limited too");
    }
}

#[tokio::test]
async fn an_atomic_upgrade_may_have_nothing_to_go_back_to() {
    let (_cluster, _client, releases) = cluster().await;
    let failing = values(&["hooks.pre-install=1", "hooks.pre-upgrade=1"]);
    releases.install("shop", &shop(), &failing, &quick()).await.unwrap_err();
    let atomic = Options { atomic: true, ..quick() };
    let error = releases.upgrade("shop", &shop(), &failing, &atomic).await.unwrap_err().to_string();
    assert!(
        error.starts_with(
            "unable to find a previously successful release when attempting to rollback. original upgrade error: pre-upgrade"
        ),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_atomic_install_is_undone_with_its_own_options() {
    let (_cluster, client, releases) = cluster().await;
    let atomic = Options { atomic: true, timeout: Timeout(Duration::from_secs(5)), ..Options::default() };
    let given = ["maps={a}", "pod=never-ready", "marks.pre-delete=gone"];
    let without = Options { disable_hooks: true, ..atomic.clone() };
    releases.install("shop", &shop(), &values(&given), &without).await.unwrap_err();
    assert!(!has_map(&client, "gone").await && !has_map(&client, "a").await);
    assert!(statuses(&releases).await.is_empty());
    releases.install("shop", &shop(), &values(&given), &atomic).await.unwrap_err();
    assert!(has_map(&client, "gone").await);

    // Waiting for a hook that does not end times out like any other wait.
    let endless = chart(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: endless, annotations: {helm.sh/hook: \"pre-install,pre-delete\"}}\n\
         spec:\n  template:\n    metadata: {annotations: {cluster.steersman.dev/run-for: forever}}\n    \
         spec: {restartPolicy: Never, containers: [{name: c, image: c}]}\n",
    );
    let started = Instant::now();
    let error = releases.install("other", &endless, &Values::new(), &atomic).await.unwrap_err().to_string();
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    assert_eq!(
        error,
        "an error occurred while uninstalling the release. original install error: failed pre-install: timed \
         out waiting for objects: Job/endless in namespace default did not complete: timed out waiting for \
         objects: Job/endless in namespace default did not complete"
    );
}

#[tokio::test]
async fn subcharts_notes_and_schemas_are_options() {
    let (_cluster, _client, releases) = cluster().await;
    let schema = json!({ "type": "object", "properties": { "size": { "type": "integer" } } }).to_string();
    let chart = Chart::from_files([
        File::new("Chart.yaml", "{apiVersion: v2, name: shop, version: 1.2.3}"),
        File::new("values.schema.json", schema),
        File::new("templates/NOTES.txt", "own"),
        File::new("charts/sub/Chart.yaml", "{apiVersion: v2, name: sub, version: 1.0.0}"),
        File::new("charts/sub/templates/NOTES.txt", "of the subchart"),
    ])
    .unwrap();
    let dry = Options { dry_run: Some(DryRun::Server), ..quick() };
    let notes = |options: Options| {
        let (releases, chart) = (releases.clone(), chart.clone());
        async move { releases.install("shop", &chart, &Values::new(), &options).await.unwrap().info.notes }
    };
    assert_eq!(notes(dry.clone()).await, "own");
    let both = notes(Options { sub_notes: true, ..dry.clone() }).await;
    assert!(both.contains("own") && both.contains("of the subchart"), "{both}");
    let wrong = values(&["size=large"]);
    let error = releases.install("shop", &chart, &wrong, &dry).await.unwrap_err().to_string();
    assert!(error.contains("values don't meet the specifications of the schema"), "{error}");
    let skip = Options { skip_schema_validation: true, ..dry };
    releases.install("shop", &chart, &wrong, &skip).await.unwrap();
}

#[tokio::test]
async fn objects_are_decorated_and_their_record_is_not() {
    let (_cluster, client, releases) = cluster().await;
    let releases = releases.decorated(|object| {
        steersman_release::set_metadata(&mut object.content, "labels", &[("painted", "yes")]);
    });
    let release = install(&releases, &["maps={a}", "marks.post-install=b"]).await;
    for name in ["a", "b"] {
        assert_eq!(maps(&client).get(name).await.unwrap().labels()["painted"], "yes", "{name}");
    }
    assert!(!release.manifest.contains("painted"));
    let objects = releases.objects(&release).await.unwrap();
    assert_eq!(objects.len(), 1);
    assert_eq!(objects[0].content["metadata"]["labels"]["painted"], "yes");
    assert_eq!(objects[0].content["metadata"]["annotations"]["meta.helm.sh/release-name"], "shop");
    assert_eq!(releases.namespace(), "default");
}
