//! The lifecycle of a Collector, from creation to deletion.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use steersman::Operator;
use steersman::testing::TestEnv;
use steersman_chart::Chart;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
}

/// Waits until an object satisfies a predicate.
async fn until(env: &TestEnv, api: &Api<DynamicObject>, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    let is = |object: Option<&DynamicObject>| object.is_some_and(|object| is(&json!(object)));
    match env.wait_in(api.clone(), "collector", is).await {
        Ok(found) => json!(found),
        Err(error) => panic!("it is not {what}: {error}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_collector_is_checked_released_moved_and_removed() {
    let mut env = TestEnv::start().await.unwrap();
    let text =
        std::fs::read(format!("{ROOT}/config/crd/bases/telemetry.example.com_collectors.yaml")).unwrap();
    let crd: CustomResourceDefinition = steersman_yaml::from_slice_as(&text).unwrap();
    env.install(&crd).await.unwrap();
    let chart = Chart::load(format!("{ROOT}/helm-charts/collector")).unwrap();
    env.run(
        Operator::new("collector-operator").controller(collector_operator::controller(chart).controller()),
    );
    let client = env.client();
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), "default", collector_operator::kind().resource());
    let deployments = |namespace: &str| Api::<Deployment>::namespaced(client.clone(), namespace);

    // A configuration that is not YAML is reported, and nothing is installed.
    let object = json!({
        "apiVersion": "telemetry.example.com/v1alpha1", "kind": "Collector", "metadata": { "name": "collector" },
        "spec": {
            "tenant": "tenant-a", "cluster": "lab",
            "collector": { "name": "telemetry", "version": "1.0.0", "config": BASE64.encode("receivers: {}\nexporters: {}\na: b: c\n") },
        },
    });
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
    let refused = until(&env, &api, "refused", |found| condition(found, "Irreconcilable").is_some()).await;
    let why = condition(&refused, "Irreconcilable").unwrap();
    assert_eq!(why["reason"], "InvalidConfig");
    let message = why["message"].as_str().unwrap();
    assert!(
        message.starts_with("spec.collector.config: not YAML: ") && message.contains("line 3"),
        "{message}"
    );
    assert!(deployments("tenant-a").get_opt("telemetry").await.unwrap().is_none());

    // Once it is valid, the release is installed in the tenant's namespace.
    let patch = |patch: Value| {
        let api = api.clone();
        async move { api.patch("collector", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap() }
    };
    patch(json!({ "spec": { "collector": { "config": BASE64.encode("receivers: {otlp: {}}") } } })).await;
    let ready = until(&env, &api, "ready", |found| {
        condition(found, "Ready").is_some_and(|one| one["status"] == "True")
    })
    .await;
    assert!(condition(&ready, "Irreconcilable").is_none());
    let monitored = condition(&ready, "Monitored").unwrap();
    assert_eq!(
        (&monitored["status"], &monitored["reason"]),
        (&json!("False"), &json!("ServiceMonitorKindAbsent"))
    );
    assert!(deployments("tenant-a").get_opt("telemetry").await.unwrap().is_some());

    // Upgrade.
    patch(json!({ "spec": { "collector": { "version": "1.1.0" } } })).await;
    let image = |deployment: Option<&Deployment>| {
        let spec = deployment.and_then(|found| found.spec.as_ref()?.template.spec.clone());
        spec.and_then(|spec| spec.containers.first()?.image.clone())
    };
    let is_newer =
        |found: Option<&Deployment>| image(found).as_deref() == Some("otel/opentelemetry-collector:1.1.0");
    env.wait_in(deployments("tenant-a"), "telemetry", is_newer).await.unwrap();

    // A different tenant: the old tenant's release is uninstalled.
    patch(json!({ "spec": { "tenant": "tenant-b" } })).await;
    env.wait_in(deployments("tenant-b"), "telemetry", |found| found.is_some()).await.unwrap();
    env.wait_in(deployments("tenant-a"), "telemetry", |found| found.is_none()).await.unwrap();

    // Deletion.
    api.delete("collector", &DeleteParams::default()).await.unwrap();
    env.wait_in(api.clone(), "collector", |found: Option<&DynamicObject>| found.is_none()).await.unwrap();
    assert!(deployments("tenant-b").get_opt("telemetry").await.unwrap().is_none());
    for namespace in ["tenant-a", "tenant-b"] {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let left = secrets.list(&kube::api::ListParams::default()).await.unwrap();
        assert!(left.items.is_empty(), "{namespace}: {:?}", left.items);
    }
}
