//! Plans with invalid input: the resulting status, event and message.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::Client;
use kube::api::PostParams;
use serde_json::json;
use steersman::testing::TestEnv;
use steersman_cluster::Cluster;
use steersman_kudo::{ExecutionStatus, Instance, Package};
use steersman_kudo_operator::{FileError, Kudo, KudoOperator, PodFiles, Wait};

const LONG: Duration = Duration::from_secs(120);

/// One byte more than a Pipe task accepts.
struct Huge;

impl PodFiles for Huge {
    fn read<'a>(
        &'a self,
        _: Client,
        _: &'a str,
        _: &'a str,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Vec<u8>, FileError>> {
        Box::pin(async { Ok(vec![b'x'; (1 << 20) + 1]) })
    }
}

async fn start() -> (TestEnv, Kudo) {
    let mut env = TestEnv::on(Cluster::start().await.unwrap());
    let kudo = Kudo::new(env.client(), "default");
    kudo.init().await.unwrap();
    env.run(KudoOperator::new().files(Huge).operator());
    (env, kudo)
}

fn package(name: &str, task: &str, template: &str) -> Package {
    let operator = format!(
        "name: {name}\noperatorVersion: 0.1.0\ntasks: [{{name: t, {task}}}]\n\
         plans: {{deploy: {{strategy: serial, phases: [{{name: p, strategy: serial, steps: [{{name: s, tasks: [t]}}]}}]}}}}"
    );
    Package::from_files([
        ("operator.yaml", operator.as_str()),
        ("params.yaml", "parameters: [{name: TEXT, default: usual}]"),
        ("templates/a.yaml", template),
    ])
    .unwrap()
}

#[tokio::test]
async fn what_cannot_work_fails_for_good_with_its_reason_and_place() {
    let (env, kudo) = start().await;
    let apply = "kind: Apply, spec: {resources: [a.yaml]}";
    let pipe = "kind: Pipe, spec: {pod: a.yaml, pipe: [{file: /out/key, kind: Secret, key: Key}]}";
    let pod = "apiVersion: v1\nkind: Pod\nspec:\n  volumes: [{name: out, emptyDir: {}}]\n  \
               initContainers: [{name: make, image: busybox, command: ['true'], volumeMounts: [{name: out, mountPath: /out}]}]\n";
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: failing}\nspec:\n  backoffLimit: 0\n  template:\n    spec:\n      \
               restartPolicy: Never\n      containers: [{name: c, image: busybox, command: ['false']}]\n";
    for (name, task, template, reason, words) in [
        (
            "key",
            apply,
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Params.NOPE }}'}\n",
            "TaskRenderingError",
            "a.yaml:3",
        ),
        ("yaml", apply, "apiVersion: v1\nkind: [ConfigMap\n", "TaskRenderingError", "templates/a.yaml: "),
        (
            "nokind",
            apply,
            "apiVersion: v1\nmetadata: {name: a}\n",
            "TaskRenderingError",
            "has no apiVersion or kind",
        ),
        ("noname", apply, "apiVersion: v1\nkind: ConfigMap\n", "TaskRenderingError", "ConfigMap has no name"),
        (
            "kind",
            apply,
            "apiVersion: nope.io/v1\nkind: Nope\nmetadata: {name: a}\n",
            "TaskEnhancementError",
            "no kind nope.io/v1 Nope",
        ),
        (
            "pod",
            pipe,
            "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: c, image: i}]}\n",
            "ResourceValidationError",
            "should not have containers",
        ),
        ("size", pipe, pod, "PipeTaskError", "/out/key"),
        ("job", apply, job, "FailedTerminalStateError", "Job default/failing"),
        (
            "toggle",
            "kind: Toggle, spec: {parameter: TEXT, resources: [a.yaml]}",
            "a: b",
            "ToggleTaskError",
            "is not a boolean",
        ),
    ] {
        kudo.install(&[package(name, task, template)], Some(name), BTreeMap::new()).await.unwrap();
        let error = kudo.wait(name, LONG).await.unwrap_err().to_string();
        assert!(error.contains("FATAL_ERROR") && error.contains(words), "{name}: {error}");
        let status = &kudo.instance(name).await.unwrap().status.plan_status["deploy"];
        assert_eq!(status.phases[0].status, ExecutionStatus::FatalError, "{name}");
        assert_eq!(status.phases[0].steps[0].status, ExecutionStatus::FatalError, "{name}");
        env.quiet().await;
        let events = env.api::<Event>().list(&Default::default()).await.unwrap();
        let told = events.iter().any(|event| {
            event.involved_object.name.as_deref() == Some(name) && event.reason.as_deref() == Some(reason)
        });
        assert!(told, "{name}: there is no event {reason}");
    }
}

#[tokio::test]
async fn what_the_server_refuses_is_retried_and_names_object_and_field() {
    let (env, kudo) = start().await;
    let template = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  \
        selector: {matchLabels: {app: '{{ .Params.TEXT }}'}}\n  template:\n    metadata: {labels: {app: '{{ .Params.TEXT }}'}}\n    \
        spec: {containers: [{name: web, image: nginx}]}\n";
    let package = package("web", "kind: Apply, spec: {resources: [a.yaml]}", template);
    kudo.install(&[package], Some("web"), BTreeMap::new()).await.unwrap();
    kudo.wait("web", LONG).await.unwrap();
    let text = |text: &str| BTreeMap::from([("TEXT".to_owned(), text.to_owned())]);
    kudo.update("web", text("other")).await.unwrap();
    env.wait("web", |instance: Option<&Instance>| {
        let Some(plan) = instance.and_then(|instance| instance.status.plan_status.get("deploy")) else {
            return false;
        };
        let step = &plan.phases[0].steps[0];
        plan.status == ExecutionStatus::InProgress
            && step.status == ExecutionStatus::Error
            && step.message.contains("Deployment default/web")
            && step.message.contains("spec.selector")
    })
    .await
    .unwrap();
    // It continues once the value is valid.
    kudo.update("web", text("usual")).await.unwrap();
    assert_eq!(kudo.wait("web", LONG).await.unwrap().status, ExecutionStatus::Complete);
}

#[tokio::test]
async fn a_cleanup_that_failed_keeps_the_instance_and_rests() {
    let (env, kudo) = start().await;
    let plan = |task: &str| {
        format!(
            "{{strategy: serial, phases: [{{name: p, strategy: serial, steps: [{{name: s, tasks: [{task}]}}]}}]}}"
        )
    };
    let operator = format!(
        "name: kept\noperatorVersion: 0.1.0\ntasks:\n- {{name: good, kind: Dummy, spec: {{done: true}}}}\n\
         - {{name: bad, kind: Dummy, spec: {{wantErr: true, fatal: true}}}}\nplans: {{deploy: {}, cleanup: {}}}",
        plan("good"),
        plan("bad")
    );
    let files = [("operator.yaml", operator.as_str()), ("params.yaml", "parameters: []")];
    kudo.install(&[Package::from_files(files).unwrap()], Some("kept"), BTreeMap::new()).await.unwrap();
    kudo.wait("kept", LONG).await.unwrap();
    kudo.uninstall("kept", Wait::No).await.unwrap();
    env.wait("kept", |instance: Option<&Instance>| {
        let plan = instance.and_then(|instance| instance.status.plan_status.get("cleanup"));
        plan.is_some_and(|plan| plan.status == ExecutionStatus::FatalError)
    })
    .await
    .unwrap();
    env.quiet().await;
    assert!(kudo.instance_opt("kept").await.unwrap().is_some(), "nothing is left behind unseen");
    kudo.abort("kept").await.unwrap();
    env.wait("kept", |instance: Option<&Instance>| instance.is_none()).await.unwrap();
}

#[tokio::test]
async fn what_was_there_before_is_adopted_and_told() {
    let (env, kudo) = start().await;
    let map: ConfigMap = serde_json::from_value(
        json!({ "metadata": { "name": "map", "annotations": { "mine": "yes" } }, "data": { "text": "old", "more": "kept" } }),
    )
    .unwrap();
    env.api::<ConfigMap>().create(&PostParams::default(), &map).await.unwrap();
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map}\ndata: {text: new}\n";
    let package = package("map", "kind: Apply, spec: {resources: [a.yaml]}", template);
    kudo.install(&[package], Some("map"), BTreeMap::new()).await.unwrap();
    kudo.wait("map", LONG).await.unwrap();
    let data = env.api::<ConfigMap>().get("map").await.unwrap().data.unwrap();
    assert_eq!((data["text"].as_str(), data["more"].as_str()), ("new", "kept"));
    env.quiet().await;
    let events = env.api::<Event>().list(&Default::default()).await.unwrap();
    assert!(events.iter().any(|event| event.reason.as_deref() == Some("Adopted")));
}
