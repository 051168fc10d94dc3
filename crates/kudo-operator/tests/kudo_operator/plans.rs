//! The project's own packages on the embedded cluster.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Secret};
use steersman::testing::TestEnv;
use steersman_cluster::Cluster;
use steersman_kudo::{ExecutionStatus, Instance, Package};
use steersman_kudo_operator::{Kudo, KudoOperator, SimulatedFiles, Wait};

use crate::support::{start, values};

const LONG: Duration = Duration::from_secs(60);

const OPERATOR: &str = r"
name: web
operatorVersion: 0.1.0
appVersion: 1.0.0
tasks:
- {name: app, kind: Apply, spec: {resources: [config.yaml, deployment.yaml]}}
- {name: toggled, kind: Toggle, spec: {parameter: EXTRA, resources: [extra.yaml]}}
- {name: key, kind: Pipe, spec: {pod: pipe.yaml, pipe: [{file: /out/key, kind: Secret, key: Key}]}}
- {name: use-key, kind: Apply, spec: {resources: [uses.yaml]}}
- {name: gone, kind: Delete, spec: {resources: [extra.yaml]}}
- {name: cleaned, kind: Apply, spec: {resources: [cleaned.yaml]}}
plans:
  deploy:
    strategy: serial
    phases:
    - name: main
      strategy: serial
      steps:
      - {name: key, tasks: [key]}
      - {name: app, tasks: [app, use-key]}
    - name: extra
      strategy: parallel
      steps:
      - {name: toggle, tasks: [toggled]}
  tune:
    strategy: serial
    phases:
    - name: main
      strategy: serial
      steps:
      - {name: app, tasks: [app]}
  backup:
    strategy: serial
    phases:
    - name: main
      strategy: serial
      steps:
      - {name: gone, tasks: [gone]}
  cleanup:
    strategy: serial
    phases:
    - name: main
      strategy: serial
      steps:
      - {name: note, tasks: [cleaned]}
";

const PARAMS: &str = r"
apiVersion: kudo.dev/v1beta1
parameters:
- {name: REPLICAS, default: 1, type: integer}
- {name: COLOUR, default: red, trigger: tune, enum: [red, blue]}
- {name: EXTRA, default: true, type: boolean}
- {name: FIXED, default: a, immutable: true}
- {name: LIST, type: array, default: [x, y]}
";

fn web(operator: &str) -> Package {
    Package::from_files([
        ("operator.yaml", operator),
        ("params.yaml", PARAMS),
        (
            "templates/config.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Name }}-config\ndata:\n  colour: {{ .Params.COLOUR }}\n  list: {{ join \",\" .Params.LIST | quote }}\n",
        ),
        (
            "templates/deployment.yaml",
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ .Name }}\nspec:\n  replicas: {{ .Params.REPLICAS }}\n  selector:\n    matchLabels: {app: web}\n  template:\n    metadata:\n      labels: {app: web}\n    spec:\n      containers: [{name: web, image: nginx}]\n      volumes: [{name: c, configMap: {name: {{ .Name }}-config}}]\n",
        ),
        (
            "templates/extra.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: extra\n  namespace: elsewhere\n---\napiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata:\n  name: extra\nspec:\n  minAvailable: 1\n  selector:\n    matchLabels: {app: web}\n",
        ),
        (
            "templates/pipe.yaml",
            "apiVersion: v1\nkind: Pod\nspec:\n  volumes: [{name: out, emptyDir: {}}]\n  initContainers: [{name: make, image: busybox, command: ['true'], volumeMounts: [{name: out, mountPath: /out}]}]\n",
        ),
        (
            "templates/uses.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: uses\ndata:\n  secret: {{ .Pipes.Key }}\n",
        ),
        (
            "templates/cleaned.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: cleaned\n  annotations: {by: {{ .PlanName }}}\n",
        ),
    ])
    .unwrap()
}

#[tokio::test]
async fn a_package_is_deployed_updated_triggered_and_uninstalled() {
    let (env, kudo) = start().await;
    kudo.install(&[web(OPERATOR)], Some("shop"), values(&[])).await.unwrap();
    let plan = kudo.wait("shop", LONG).await.unwrap();
    assert_eq!((plan.name.as_str(), plan.status), ("deploy", ExecutionStatus::Complete));

    let instance = kudo.instance("shop").await.unwrap();
    assert_eq!(instance.spec.plan_execution, Default::default());
    assert_eq!(instance.spec.parameters, values(&[("FIXED", "a")]));
    assert!(instance.has_finalizer());
    assert_eq!(instance.status.conditions[0].reason, "ResourcesReady");
    assert_eq!(instance.status.plan_status["backup"].status, ExecutionStatus::NeverRun);

    let deployment = env.api::<Deployment>().get("shop").await.unwrap();
    let labels = deployment.metadata.labels.clone().unwrap();
    assert_eq!((labels["heritage"].as_str(), labels["kudo.dev/instance"].as_str()), ("kudo", "shop"));
    let annotations = deployment.metadata.annotations.unwrap();
    assert_eq!(annotations["kudo.dev/step"], "app");
    assert_eq!(deployment.metadata.owner_references.unwrap()[0].controller, Some(true));
    let template = deployment.spec.unwrap().template.metadata.unwrap().annotations.unwrap();
    let hash = template["kudo.dev/dependencies-hash"].clone();
    assert_eq!(template["kudo.dev/operator-version"], "0.1.0");
    // The namespace in a template is overridden, and the removed API version of the
    // PodDisruptionBudget is converted.
    assert!(env.api::<ConfigMap>().get_opt("extra").await.unwrap().is_some());
    let uses = env.api::<ConfigMap>().get("uses").await.unwrap();
    let secret = &uses.data.unwrap()["secret"];
    assert_eq!(secret, "shop.deploy.main.key.key.key");
    assert!(env.api::<Secret>().get_opt(secret).await.unwrap().is_some());

    // A parameter triggers its own plan, and a change of a mounted ConfigMap restarts the pods.
    kudo.update("shop", values(&[("COLOUR", "blue")])).await.unwrap();
    let plan = kudo.wait("shop", LONG).await.unwrap();
    assert_eq!(plan.name, "tune");
    let deployment = env.api::<Deployment>().get("shop").await.unwrap();
    let template = deployment.spec.unwrap().template.metadata.unwrap().annotations.unwrap();
    assert_ne!(template["kudo.dev/dependencies-hash"], hash);

    kudo.trigger("shop", "backup", values(&[])).await.unwrap();
    assert_eq!(kudo.wait("shop", LONG).await.unwrap().name, "backup");
    assert!(env.api::<ConfigMap>().get_opt("extra").await.unwrap().is_none());

    kudo.uninstall("shop", Wait::For(LONG)).await.unwrap();
    let cleaned = env.api::<ConfigMap>().get_opt("cleaned").await.unwrap();
    // It was owned by the instance, so it is garbage collected, or still has the annotation.
    assert!(cleaned.is_none_or(|map| map.metadata.annotations.unwrap()["by"] == "cleanup"));
    assert!(kudo.instance_opt("shop").await.unwrap().is_none());
}

#[tokio::test]
async fn what_cannot_be_is_denied_and_nothing_is_written() {
    let (env, kudo) = start().await;
    let package = [web(OPERATOR)];
    let denied = |error: steersman_kudo_operator::Error| error.to_string();
    let error = kudo
        .install(&package, Some("shop"), values(&[("COLOUR", "green")]))
        .await
        .map_err(denied)
        .unwrap_err();
    assert!(error.contains("only allowed values are [red blue]"), "{error}");
    let error =
        kudo.install(&package, Some("shop"), values(&[("NOPE", "1")])).await.map_err(denied).unwrap_err();
    assert!(error.contains("\"NOPE\" is not in the OperatorVersion"), "{error}");
    assert!(kudo.instance_opt("shop").await.unwrap().is_none());

    kudo.install(&package, Some("shop"), values(&[])).await.unwrap();
    kudo.wait("shop", LONG).await.unwrap();
    let before = kudo.instance("shop").await.unwrap();
    for (changed, words) in [
        (values(&[("FIXED", "b")]), "parameter 'FIXED' is immutable but was changed from 'a' to 'b'"),
        (values(&[("REPLICAS", "many")]), "type is \"integer\""),
        (values(&[("COLOUR", "blue"), ("REPLICAS", "2")]), ""),
    ] {
        let result = kudo.update("shop", changed).await;
        if words.is_empty() {
            result.unwrap();
            continue;
        }
        let error = result.map_err(denied).unwrap_err();
        assert!(error.contains(words), "{error}");
        assert_eq!(kudo.instance("shop").await.unwrap().spec, before.spec);
    }
    let error = kudo.trigger("shop", "nope", values(&[])).await.map_err(denied).unwrap_err();
    assert!(error.contains("plan nope does not exist"), "{error}");
    drop(env);
}

#[tokio::test]
async fn a_failure_for_good_ends_the_plan_with_its_event() {
    let (env, kudo) = start().await;
    let package = Package::from_files([
        (
            "operator.yaml",
            "name: bad\noperatorVersion: 0.1.0\ntasks: [{name: a, kind: Apply, spec: {resources: [a.yaml]}}]\n\
             plans: {deploy: {strategy: serial, phases: [{name: main, strategy: serial, steps: [{name: s, tasks: [a]}]}]}}",
        ),
        ("params.yaml", "parameters: []"),
        ("templates/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Params.MISSING }}\n"),
    ])
    .unwrap();
    kudo.install(&[package], None, values(&[])).await.unwrap();
    let error = kudo.wait("bad-instance", LONG).await.unwrap_err().to_string();
    assert!(error.contains("FATAL_ERROR") && error.contains("a.yaml:4"), "{error}");
    let instance = kudo.instance("bad-instance").await.unwrap();
    let status = &instance.status.plan_status["deploy"];
    assert_eq!(status.phases[0].steps[0].status, ExecutionStatus::FatalError);
    assert_eq!(instance.status.conditions[0].reason, "PlanInFatalError");
    assert_eq!(instance.spec.plan_execution, Default::default());
    env.wait("bad-instance", |instance: Option<&Instance>| instance.is_some()).await.unwrap();
}

/// Starts a cluster without a webhook.
async fn start_alone() -> (TestEnv, Kudo) {
    let mut env = TestEnv::on(Cluster::start().await.unwrap());
    let kudo = Kudo::new(env.client(), "default");
    kudo.init().await.unwrap();
    env.run(KudoOperator::new().files(SimulatedFiles).operator());
    (env, kudo)
}

#[tokio::test]
async fn without_a_webhook_the_operator_decides_about_changes() {
    let (env, kudo) = start_alone().await;
    kudo.install(&[web(OPERATOR)], Some("shop"), values(&[])).await.unwrap();
    assert_eq!(kudo.wait("shop", LONG).await.unwrap().name, "deploy");
    assert!(kudo.instance("shop").await.unwrap().has_finalizer());
    kudo.update("shop", values(&[("COLOUR", "blue")])).await.unwrap();
    assert_eq!(kudo.wait("shop", LONG).await.unwrap().name, "tune");
    kudo.trigger("shop", "backup", values(&[])).await.unwrap();
    assert_eq!(kudo.wait("shop", LONG).await.unwrap().name, "backup");

    // The client would not send this: the operator reports that it is denied, and runs nothing.
    let patch = serde_json::json!({ "spec": { "parameters": { "FIXED": "b" } } });
    let api = env.api::<Instance>();
    api.patch("shop", &Default::default(), &kube::api::Patch::Merge(&patch)).await.unwrap();
    env.quiet().await;
    let events = env.api::<Event>().list(&Default::default()).await.unwrap();
    assert!(events.iter().any(|event| event.reason.as_deref() == Some("InvalidInstance")), "it is told");
    let instance = kudo.instance("shop").await.unwrap();
    assert!(steersman_kudo::admission::is_undecided(&instance));
    assert_eq!(instance.spec.plan_execution, Default::default());
    let names: Vec<&str> = instance.status.history.iter().map(|run| run.plan.as_str()).collect();
    assert_eq!(names, ["backup", "tune", "deploy"]);
    // Reverting it makes the instance valid again.
    let patch = serde_json::json!({ "spec": { "parameters": { "FIXED": "a" } } });
    api.patch("shop", &Default::default(), &kube::api::Patch::Merge(&patch)).await.unwrap();
    kudo.uninstall("shop", Wait::For(LONG)).await.unwrap();
}

fn slow(timeout: &str) -> Package {
    let operator = format!(
        "name: slow\noperatorVersion: 0.1.0\n\
         tasks: [{{name: map, kind: Apply, spec: {{resources: [map.yaml]}}}}, {{name: hang, kind: Dummy}}]\n\
         plans: {{deploy: {{strategy: serial, phases: [{{name: main, strategy: serial, steps: [\
         {{name: map, tasks: [map]}}, {{name: hang, tasks: [hang]{timeout}}}]}}]}}}}"
    );
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: map\ndata:\n  text: {{ .Params.TEXT }}\n";
    let params = "parameters: [{name: TEXT, default: usual}]";
    Package::from_files([
        ("operator.yaml", operator.as_str()),
        ("params.yaml", params),
        ("templates/map.yaml", map),
    ])
    .unwrap()
}

#[tokio::test]
async fn a_plan_that_is_given_up_goes_on_with_its_step_when_it_is_retried() {
    let (env, kudo) = start().await;
    kudo.install(&[slow("")], Some("slow"), values(&[])).await.unwrap();
    env.wait("slow", |instance: Option<&Instance>| {
        let status = instance.and_then(|instance| instance.status.plan_status.get("deploy"));
        status.is_some_and(|plan| plan.phases[0].steps[1].status == ExecutionStatus::InProgress)
    })
    .await
    .unwrap();
    assert_eq!(kudo.abort("slow").await.unwrap(), "deploy");
    let error = kudo.wait("slow", LONG).await.unwrap_err().to_string();
    assert!(error.contains("FATAL_ERROR: aborted by `plan abort`"), "{error}");
    assert!(kudo.abort("slow").await.is_err(), "nothing runs any more");
    let run_of =
        |map: ConfigMap| map.metadata.annotations.unwrap()["kudo.dev/last-plan-execution-uid"].clone();
    let first = run_of(env.api::<ConfigMap>().get("map").await.unwrap());

    let versions = env.api::<steersman_kudo::OperatorVersion>();
    let patch = serde_json::json!([{ "op": "add", "path": "/spec/tasks/1/spec/done", "value": true }]);
    let patch: kube::api::Patch<()> = kube::api::Patch::Json(serde_json::from_value(patch).unwrap());
    versions.patch("slow-0.1.0", &Default::default(), &patch).await.unwrap();
    assert_eq!(kudo.retry("slow").await.unwrap(), "deploy");
    assert_eq!(kudo.wait("slow", LONG).await.unwrap().status, ExecutionStatus::Complete);
    assert_eq!(run_of(env.api::<ConfigMap>().get("map").await.unwrap()), first, "the first step ran once");
    assert!(kudo.retry("slow").await.is_err(), "the last plan did not fail");

    // A value for a single run is dropped after it.
    kudo.trigger("slow", "deploy", values(&[("TEXT", "once")])).await.unwrap();
    kudo.wait("slow", LONG).await.unwrap();
    assert_eq!(env.api::<ConfigMap>().get("map").await.unwrap().data.unwrap()["text"], "once");
    assert!(kudo.instance("slow").await.unwrap().spec.parameters.is_empty());
    kudo.trigger("slow", "deploy", values(&[])).await.unwrap();
    kudo.wait("slow", LONG).await.unwrap();
    assert_eq!(env.api::<ConfigMap>().get("map").await.unwrap().data.unwrap()["text"], "usual");
}

#[tokio::test]
async fn a_step_that_takes_too_long_fails_the_plan() {
    let (_env, kudo) = start().await;
    kudo.install(&[slow(", timeout: 1s")], Some("slow"), values(&[])).await.unwrap();
    let error = kudo.wait("slow", LONG).await.unwrap_err().to_string();
    assert!(error.contains("step deploy.main.hang exceeded its timeout of 1s"), "{error}");
    let status = &kudo.instance("slow").await.unwrap().status.plan_status["deploy"];
    assert_eq!(status.phases[0].steps[0].status, ExecutionStatus::Complete);
    assert_eq!(status.phases[0].steps[1].status, ExecutionStatus::FatalError);
}
