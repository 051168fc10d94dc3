//! Tests of {{ .Kind }} on the embedded cluster, or on that of the kubeconfig in STEERSMAN_TEST_KUBECONFIG.

{{ if .KindNamespaced -}}
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;
use steersman::{
    Conditions as _, Result,
    testing::{TestEnv, object},
};
use {{ .CrateName }}::{{ "{" }}{{ .ApiModule }}::{{ .Kind }}, operator};

fn is_available(found: Option<&{{ .Kind }}>) -> bool {
    let status = found.and_then(|found| found.status.as_ref());
    status.is_some_and(|status| status.conditions.is_true("Available"))
}

#[tokio::test]
async fn an_object_becomes_available() -> Result<()> {
    let mut env = TestEnv::start().await?;
    env.deploy(operator()).await?;
    let sample: {{ .Kind }} = object(json!({"metadata": {"name": "sample"}, "spec": {"size": 2}}));
    env.create(&sample).await?;
    env.wait("sample", is_available).await?;
    let deployment: Deployment = env.api().get("sample").await?;
    assert_eq!(deployment.spec.and_then(|spec| spec.replicas), Some(2));
    Ok(())
}

#[tokio::test]
async fn the_deployment_is_scaled_with_the_object() -> Result<()> {
    let mut env = TestEnv::start().await?;
    env.deploy(operator()).await?;
    let sample: {{ .Kind }} = object(json!({"metadata": {"name": "sample"}, "spec": {}}));
    env.create(&sample).await?;
    env.wait("sample", is_available).await?;
    env.patch::<{{ .Kind }}>("sample", json!({"spec": {"size": 3}})).await?;
    env.wait("sample", |found: Option<&Deployment>| {
        let status = found.and_then(|found| found.status.as_ref());
        status.and_then(|status| status.available_replicas) == Some(3)
    })
    .await?;
    Ok(())
}
{{ else -}}
use kube::{Api, api::PostParams};
use serde_json::json;
use steersman::{
    Conditions as _, Result,
    testing::{TestEnv, object},
};
use {{ .CrateName }}::{{ "{" }}{{ .ApiModule }}::{{ .Kind }}, operator};

#[tokio::test]
async fn an_object_becomes_available() -> Result<()> {
    let mut env = TestEnv::start().await?;
    env.deploy(operator()).await?;
    let sample: {{ .Kind }} = object(json!({"metadata": {"name": "sample"}, "spec": {}}));
    let api: Api<{{ .Kind }}> = Api::all(env.client());
    api.create(&PostParams::default(), &sample).await?;
    env.wait_in(api, "sample", |found: Option<&{{ .Kind }}>| {
        let status = found.and_then(|found| found.status.as_ref());
        status.is_some_and(|status| status.conditions.is_true("Available"))
    })
    .await?;
    Ok(())
}
{{ end -}}
