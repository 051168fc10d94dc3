//! Maintenance of instances: pruning, drift correction, previews and custom health checks.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Event, PersistentVolumeClaim, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use steersman::testing::TestEnv;
use steersman_kudo::{ExecutionStatus, Instance, OperatorVersion, Package};
use steersman_kudo_operator::Wait;

use crate::support::{start, values};

const LONG: Duration = Duration::from_secs(120);

fn map(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{text: '{{{{ .Params.TEXT }}}}'}}\n"
    )
}

/// A package with a deploy plan for ConfigMaps, and a backup plan for one named by a parameter.
fn maps(version: &str, names: &[&str]) -> Package {
    let files =
        |names: &[&str]| names.iter().map(|name| format!("{name}.yaml")).collect::<Vec<_>>().join(", ");
    let operator = format!(
        "name: maps\noperatorVersion: {version}\ntasks:\n\
         - {{name: maps, kind: Apply, spec: {{resources: [{}]}}}}\n\
         - {{name: backup, kind: Apply, spec: {{resources: [backup.yaml]}}}}\n\
         plans:\n  deploy: {{strategy: serial, phases: [{{name: main, strategy: serial, steps: [{{name: maps, tasks: [maps]}}]}}]}}\n  \
         backup: {{strategy: serial, phases: [{{name: main, strategy: serial, steps: [{{name: backup, tasks: [backup]}}]}}]}}\n",
        files(names)
    );
    let mut all = vec![
        ("operator.yaml".to_owned(), operator),
        (
            "params.yaml".to_owned(),
            "parameters: [{name: TEXT, default: usual}, {name: WHEN, default: now, trigger: backup}]"
                .to_owned(),
        ),
        (
            "templates/backup.yaml".to_owned(),
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 'backup-{{ .Params.WHEN }}'}\n".to_owned(),
        ),
    ];
    for name in names {
        let text = match *name {
            "claim" => "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: claim}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n".to_owned(),
            "secret" => "apiVersion: v1\nkind: Secret\nmetadata: {name: secret}\nstringData: {password: '{{ .Params.TEXT }}-hunter22'}\n".to_owned(),
            name => map(name),
        };
        all.push((format!("templates/{name}.yaml"), text));
    }
    Package::from_files(all).unwrap()
}

async fn reasons(env: &TestEnv) -> Vec<String> {
    let events = env.api::<Event>().list(&Default::default()).await.unwrap();
    events
        .iter()
        .map(|event| {
            format!(
                "{} {}",
                event.reason.clone().unwrap_or_default(),
                event.message.clone().unwrap_or_default()
            )
        })
        .collect()
}

#[tokio::test]
async fn what_a_new_version_does_not_have_is_pruned_if_the_instance_owns_it() {
    let (env, kudo) = start().await;
    let maps_api = env.api::<ConfigMap>();
    kudo.install(&[maps("0.1.0", &["kept", "old", "unowned", "marked", "claim"])], Some("it"), values(&[]))
        .await
        .unwrap();
    kudo.wait("it", LONG).await.unwrap();
    kudo.trigger("it", "backup", values(&[("WHEN", "monday")])).await.unwrap();
    kudo.wait("it", LONG).await.unwrap();
    let params = PatchParams::default();
    let mark = json!({ "metadata": { "annotations": { "kudo.dev/unmanaged": "true" } } });
    maps_api.patch("marked", &params, &Patch::Merge(&mark)).await.unwrap();
    // One with a different owner by now, and one that never belonged to the instance but is in a forged inventory.
    let victim: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": "victim" } })).unwrap();
    let victim = maps_api.create(&PostParams::default(), &victim).await.unwrap();
    let owner = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "victim", "uid": victim.metadata.uid, "controller": true,
    }]);
    let taken = json!({ "metadata": { "ownerReferences": owner } });
    maps_api.patch("unowned", &params, &Patch::Merge(&taken)).await.unwrap();
    let instances = env.api::<Instance>();
    let mut forged = serde_json::to_value(instances.get("it").await.unwrap().status.resources).unwrap();
    let mut one = forged[0].clone();
    one["name"] = "victim".into();
    forged.as_array_mut().unwrap().push(one);
    let patch = json!({ "status": { "resources": forged } });
    instances.patch_status("it", &params, &Patch::Merge(&patch)).await.unwrap();

    kudo.upgrade(&[maps("0.2.0", &["kept", "new"])], "it", values(&[])).await.unwrap();
    kudo.wait("it", LONG).await.unwrap();
    env.quiet().await;
    let names: Vec<String> = maps_api
        .list(&Default::default())
        .await
        .unwrap()
        .iter()
        .filter_map(|one| one.metadata.name.clone())
        .collect();
    for kept in ["kept", "new", "unowned", "marked", "victim", "backup-monday"] {
        assert!(names.contains(&kept.to_owned()), "{kept} is not in {names:?}");
    }
    assert!(!names.contains(&"old".to_owned()), "{names:?}");
    assert!(env.api::<PersistentVolumeClaim>().get_opt("claim").await.unwrap().is_some(), "claims hold data");
    let told = reasons(&env).await;
    assert!(told.iter().any(|one| one.contains("Pruned ConfigMap default/old was deleted")), "{told:?}");
}

#[tokio::test]
async fn what_is_edited_or_deleted_by_hand_comes_back() {
    let (env, kudo) = start().await;
    kudo.install(&[maps("0.1.0", &["a", "b", "left"])], Some("it"), values(&[])).await.unwrap();
    kudo.wait("it", LONG).await.unwrap();
    env.quiet().await;
    let api = env.api::<ConfigMap>();
    let edit =
        |text: &str, more: Value| json!({ "metadata": { "annotations": more }, "data": { "text": text } });
    api.patch("a", &PatchParams::default(), &Patch::Merge(&edit("other", json!({})))).await.unwrap();
    let unmanaged = edit("mine", json!({ "kudo.dev/unmanaged": "true" }));
    api.patch("left", &PatchParams::default(), &Patch::Merge(&unmanaged)).await.unwrap();
    api.delete("b", &DeleteParams::default()).await.unwrap();
    let text = |map: &ConfigMap| map.data.clone().unwrap_or_default().get("text").cloned();
    let usual = Some("usual".to_owned());
    env.wait("a", |map: Option<&ConfigMap>| map.is_some_and(|map| text(map) == usual)).await.unwrap();
    env.wait("b", |map: Option<&ConfigMap>| map.is_some_and(|map| text(map) == usual)).await.unwrap();
    env.quiet().await;
    assert_eq!(
        text(&api.get("left").await.unwrap()).as_deref(),
        Some("mine"),
        "it says that it is left alone"
    );
    let told = reasons(&env).await;
    assert!(
        told.iter().any(|one| one.contains("DriftCorrected ConfigMap default/b was deleted")),
        "{told:?}"
    );

    // The last-applied annotation is not used for repair: users who may edit it may not have the operator's permissions.
    let forged = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"text":"forged"}}"#;
    let more = json!({ "kudo.dev/last-applied-configuration": forged });
    api.patch("a", &PatchParams::default(), &Patch::Merge(&edit("forged", more))).await.unwrap();
    env.wait("a", |map: Option<&ConfigMap>| map.is_some_and(|map| text(map) == usual)).await.unwrap();

    // The result of a run with its own values is not restored, and neither is a deleted backup.
    kudo.trigger("it", "backup", values(&[("WHEN", "monday")])).await.unwrap();
    kudo.wait("it", LONG).await.unwrap();
    api.delete("backup-monday", &DeleteParams::default()).await.unwrap();
    kudo.trigger("it", "deploy", values(&[("TEXT", "once")])).await.unwrap();
    kudo.wait("it", LONG).await.unwrap();
    env.quiet().await;
    assert_eq!(text(&api.get("a").await.unwrap()).as_deref(), Some("once"));
    assert!(api.get_opt("backup-monday").await.unwrap().is_none());
}

#[tokio::test]
async fn a_preview_tells_what_a_plan_would_do_and_writes_nothing() {
    let (env, kudo) = start().await;
    let first = [maps("0.1.0", &["kept", "old", "secret"])];
    let preview = kudo.preview_install(&first, Some("it"), values(&[])).await.unwrap().to_string();
    for line in [
        "plan deploy of instance default/it would run:",
        "deploy.main.maps",
        "  + ConfigMap default/old",
        "        text: usual",
        "        password: REDACTED",
    ] {
        assert!(preview.contains(line), "{line} is not in {preview}");
    }
    assert!(!preview.contains("hunter22"), "{preview}");
    assert!(kudo.instance_opt("it").await.unwrap().is_none());
    assert!(env.api::<OperatorVersion>().list(&Default::default()).await.unwrap().items.is_empty());
    assert!(env.api::<ConfigMap>().get_opt("old").await.unwrap().is_none());

    kudo.install(&first, Some("it"), values(&[])).await.unwrap();
    kudo.wait("it", LONG).await.unwrap();
    env.quiet().await;
    let before = env.api::<ConfigMap>().list(&Default::default()).await.unwrap().metadata.resource_version;
    let nothing = kudo.preview_trigger("it", "deploy", values(&[])).await.unwrap().to_string();
    assert!(nothing.contains("deploy.main.maps: no change"), "{nothing}");
    let preview = kudo.preview_update("it", values(&[("TEXT", "other")])).await.unwrap().to_string();
    assert!(preview.contains("  ~ ConfigMap default/kept\n      data.text: usual → other"), "{preview}");
    assert!(!preview.contains("hunter22"), "{preview}");
    let backup =
        kudo.preview_trigger("it", "backup", values(&[("WHEN", "monday")])).await.unwrap().to_string();
    assert!(backup.contains("  + ConfigMap default/backup-monday"), "{backup}");
    let next = [maps("0.2.0", &["kept", "new", "secret"])];
    let upgrade = kudo.preview_upgrade(&next, "it", values(&[])).await.unwrap().to_string();
    assert!(upgrade.contains("  + ConfigMap default/new"), "{upgrade}");
    assert!(upgrade.contains("this version no longer has it\n  - ConfigMap default/old"), "{upgrade}");
    assert!(kudo.preview_trigger("it", "nope", values(&[])).await.is_err());
    env.quiet().await;
    let after = env.api::<ConfigMap>().list(&Default::default()).await.unwrap().metadata.resource_version;
    assert_eq!(before, after, "nothing was written");
}

#[tokio::test]
async fn a_preview_has_the_words_of_the_server() {
    let (env, kudo) = start().await;
    let operator = "name: set\noperatorVersion: 0.1.0\ntasks: [{name: set, kind: Apply, spec: {resources: [set.yaml]}}]\n\
        plans: {deploy: {strategy: serial, phases: [{name: main, strategy: serial, steps: [{name: set, tasks: [set]}]}]}}";
    let package = Package::from_files([
        ("operator.yaml", operator),
        ("params.yaml", "parameters: [{name: REPLICAS, default: '1'}, {name: SERVICE, default: one}]"),
        (
            "templates/set.yaml",
            "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: set}\nspec:\n  serviceName: '{{ .Params.SERVICE }}'\n  \
             replicas: {{ .Params.REPLICAS }}\n  selector: {matchLabels: {app: set}}\n  template:\n    metadata: {labels: {app: set}}\n    \
             spec: {containers: [{name: c, image: nginx}]}\n  volumeClaimTemplates:\n  - metadata: {name: data}\n    \
             spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n",
        ),
    ])
    .unwrap();
    kudo.install(&[package], Some("it"), values(&[])).await.unwrap();
    kudo.wait("it", LONG).await.unwrap();
    env.quiet().await;
    // Defaulting is not reported as a change.
    let preview = kudo.preview_update("it", values(&[("REPLICAS", "2")])).await.unwrap().to_string();
    let wanted =
        "deploy.main.set\n  ~ StatefulSet default/set\n      spec.replicas: 1 → 2\nNothing was written.\n";
    assert!(preview.ends_with(wanted), "{preview}");
    // A rejection by the server is reported.
    let preview = kudo.preview_update("it", values(&[("SERVICE", "other")])).await.unwrap();
    let failure = preview.failure.unwrap();
    assert!(failure.contains("StatefulSet default/set") && failure.contains("Forbidden"), "{failure}");
}

fn chart(version: &str, more: &str) -> Package {
    let operator = format!(
        "name: charted\noperatorVersion: {version}\ntasks: [{{name: web, kind: Helm, spec: {{chart: web, valuesFile: values.yaml}}}}]\n\
         plans: {{deploy: {{strategy: serial, phases: [{{name: main, strategy: serial, steps: [{{name: web, tasks: [web]}}]}}]}}}}"
    );
    Package::from_files([
        ("operator.yaml", operator.as_str()),
        ("params.yaml", "parameters: [{name: TEXT, default: usual}]"),
        ("templates/values.yaml", "text: {{ .Params.TEXT }}\n"),
        ("charts/web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
        ("charts/web/templates/_helpers.tpl", "{{ define \"name\" }}{{ .Release.Name }}-map{{ end }}"),
        (
            "charts/web/templates/map.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ include \"name\" . }}}\ndata: {text: {{ .Values.text }}}\n",
        ),
        ("charts/web/templates/more.yaml", more),
    ])
    .unwrap()
}

#[tokio::test]
async fn a_chart_is_a_task() {
    let (env, kudo) = start().await;
    let more = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\n";
    let package = [chart("0.1.0", more)];
    let preview = kudo.preview_install(&package, Some("it"), values(&[])).await.unwrap().to_string();
    assert!(preview.contains("  + ConfigMap default/it-web-map"), "{preview}");
    kudo.install(&package, Some("it"), values(&[])).await.unwrap();
    kudo.wait("it", LONG).await.unwrap();
    let api = env.api::<ConfigMap>();
    let map = api.get("it-web-map").await.unwrap();
    assert_eq!(map.data.unwrap()["text"], "usual");
    assert_eq!(map.metadata.owner_references.unwrap()[0].kind, "Instance");
    assert_eq!(map.metadata.labels.unwrap()["kudo.dev/instance"], "it");
    let records = || async {
        let secrets = env.api::<Secret>().list(&Default::default()).await.unwrap();
        secrets
            .iter()
            .filter(|one| one.metadata.name.as_deref().is_some_and(|name| name.starts_with("sh.helm")))
            .count()
    };
    assert_eq!(records().await, 1);
    // The same values create no new revision; a changed value does, and objects that the chart no longer has are deleted.
    kudo.trigger("it", "deploy", values(&[])).await.unwrap();
    kudo.wait("it", LONG).await.unwrap();
    assert_eq!(records().await, 1);
    kudo.update("it", values(&[("TEXT", "other")])).await.unwrap();
    kudo.wait("it", LONG).await.unwrap();
    assert_eq!(api.get("it-web-map").await.unwrap().data.unwrap()["text"], "other");
    kudo.upgrade(&[chart("0.2.0", "")], "it", values(&[])).await.unwrap();
    kudo.wait("it", LONG).await.unwrap();
    assert!(api.get_opt("more").await.unwrap().is_none());
    kudo.uninstall("it", Wait::For(LONG)).await.unwrap();
    env.quiet().await;
    assert!(api.get_opt("it-web-map").await.unwrap().is_none(), "it belongs to the instance");
    assert_eq!(records().await, 0);
}

#[tokio::test]
async fn health_is_what_the_task_says() {
    let (env, kudo) = start().await;
    let operator = "name: judged\noperatorVersion: 0.1.0\ntasks:\n\
        - {name: other, kind: Dummy, spec: {done: true}}\n\
        - {name: map, kind: Apply, spec: {resources: [map.yaml], health: [{kind: ConfigMap, ready: 'object.data.state == \"up\"', failed: 'object.data.state == \"lost\"'}]}}\n\
        plans: {deploy: {strategy: serial, phases: [{name: main, strategy: serial, steps: [{name: other, tasks: [other]}, {name: map, tasks: [map]}]}]}}";
    let package = Package::from_files([
        ("operator.yaml", operator),
        ("params.yaml", "parameters: []"),
        ("templates/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Name }}'}\n"),
    ])
    .unwrap();
    let api = env.api::<ConfigMap>();
    let state = |state: &str| Patch::Merge(json!({ "data": { "state": state } }));
    for (name, end) in [("good", "up"), ("bad", "lost")] {
        kudo.install(std::slice::from_ref(&package), Some(name), values(&[])).await.unwrap();
        env.wait(name, |instance: Option<&Instance>| {
            let status = instance.and_then(|instance| instance.status.plan_status.get("deploy"));
            status.is_some_and(|plan| {
                plan.progress == Some(50) && plan.phases[0].steps[1].status == ExecutionStatus::InProgress
            })
        })
        .await
        .unwrap();
        env.wait(name, |map: Option<&ConfigMap>| map.is_some()).await.unwrap();
        api.patch(name, &PatchParams::default(), &state(end)).await.unwrap();
    }
    assert_eq!(kudo.wait("good", LONG).await.unwrap().progress, Some(100));
    let error = kudo.wait("bad", LONG).await.unwrap_err().to_string();
    assert!(error.contains("FATAL_ERROR") && error.contains("ConfigMap default/bad: failed by"), "{error}");
}
