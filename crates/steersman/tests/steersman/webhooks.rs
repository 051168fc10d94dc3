//! Webhooks end to end: the API server calls the operator over TLS, with certificates of its own CA.

use std::{net::SocketAddr, sync::Arc};

use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    core::v1::Secret,
};
use kube::{Api, api::ListParams};
use serde_json::json;
use steersman::{
    Action, Context, Controller, Denied, Error, Operation, Operator, Result, Review, Webhook,
    testing::TestEnv,
};

use crate::common::{Widget, free_port, get, shown, widget};

fn operator(address: SocketAddr) -> Operator {
    let reconcile = |widget: Arc<Widget>, ctx: Context| async move {
        let color = widget.spec.color.clone();
        ctx.update_status(&crate::common::WidgetStatus { color, note: None }).await?;
        Ok::<_, Error>(Action::await_change())
    };
    let default = |widget: &mut Widget, _: &Review<Widget>| {
        if widget.spec.color.is_empty() {
            widget.spec.color = "white".into();
        }
        Ok(())
    };
    let check =
        |widget: &Widget, review: &Review<Widget>| match (review.operation, widget.spec.color.as_str()) {
            (Operation::Delete, "sticky") => Err("it sticks".into()),
            (Operation::Delete, _) => Ok(()),
            (_, "panic") => panic!("as asked"),
            (_, "ugly") => Err(Denied::field("spec.color", "is ugly")),
            (Operation::Update, _) if review.old.as_ref().is_some_and(|old| old.spec.color == "fixed") => {
                Err("it is fixed".into())
            }
            _ => Ok(()),
        };
    let check =
        Webhook::validating::<Widget>(check).on([Operation::Create, Operation::Update, Operation::Delete]);
    Operator::new("test")
        .controller(Controller::of::<Widget>(reconcile))
        .webhook(Webhook::mutating::<Widget>(default))
        .webhook(check)
        .webhook_address(address)
}

fn message(result: Result<Widget>) -> String {
    result.map_or_else(|error| error.to_string(), |widget| format!("it passed: {widget:?}"))
}

#[tokio::test]
async fn reviews_come_by_tls_and_are_counted() -> Result<()> {
    let mut env = TestEnv::start().await?;
    let (address, metrics) = (free_port(), free_port());
    env.deploy(operator(address).metrics_address(metrics)).await?;
    if let Some(cluster) = env.cluster() {
        cluster.webhooks_at("default", "test-webhook", address);
    }
    announced(&env).await?;
    env.create(&widget("one", "")).await?;
    env.wait("one", |widget| shown(widget) == Some("white")).await?;
    let refused = message(env.create(&widget("two", "ugly")).await);
    assert!(refused.contains("spec.color: is ugly"), "{refused}");
    let refused = message(env.patch("one", json!({"spec": {"color": "ugly"}})).await);
    assert!(refused.contains("spec.color: is ugly"), "{refused}");
    let refused = message(env.create(&widget("two", "panic")).await);
    assert!(refused.contains("the webhook panicked"), "{refused}");
    env.create(&widget("two", "fixed")).await?;
    let refused = message(env.patch("two", json!({"spec": {"color": "red"}})).await);
    assert!(refused.contains("it is fixed"), "{refused}");
    env.create(&widget("three", "sticky")).await?;
    let refused = env.delete::<Widget>("three").await.unwrap_err().to_string();
    assert!(refused.contains("it sticks"), "{refused}");
    env.delete::<Widget>("one").await?;

    let text = get(metrics, "/metrics").await.map_err(Error::other)?;
    for expected in [
        r#"controller_runtime_webhook_requests_total{webhook="/mutate-test-steersman-dev-v1-widget",code="200"}"#,
        r#"controller_runtime_webhook_requests_in_flight{webhook="/validate-test-steersman-dev-v1-widget"} 0"#,
        r#"controller_runtime_webhook_latency_seconds_count{webhook="/validate-test-steersman-dev-v1-widget"}"#,
        "controller_runtime_webhook_panics_total 1",
        "certwatcher_read_certificate_total 1",
        "certwatcher_read_certificate_errors_total 0",
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    Ok(())
}

/// Waits until the configurations exist, with a CA bundle.
async fn announced(env: &TestEnv) -> Result<()> {
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(env.client());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(env.client());
    env.wait_in(mutating, "test-webhook", |found| found.is_some()).await?;
    env.wait_in(validating, "test-webhook", |found: Option<&ValidatingWebhookConfiguration>| {
        let webhook = found.and_then(|found| found.webhooks.as_ref()?.first());
        webhook.is_some_and(|webhook| webhook.client_config.ca_bundle.is_some())
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn deploying_does_not_wait_for_certificates_that_others_publish() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("steersman-deploy-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(Error::other)?;
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).map_err(Error::other)?;
    std::fs::write(folder.join("tls.crt"), made.cert.pem()).map_err(Error::other)?;
    std::fs::write(folder.join("tls.key"), made.signing_key.serialize_pem()).map_err(Error::other)?;
    let mut env = TestEnv::start().await?;
    env.deploy(operator(free_port()).webhook_certificates(&folder)).await?;
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(env.client());
    let webhooks = configurations.list(&ListParams::default()).await?.items.remove(0).webhooks;
    assert!(webhooks.is_some_and(|webhooks| webhooks.iter().all(|w| w.client_config.ca_bundle.is_none())));
    std::fs::remove_dir_all(&folder).map_err(Error::other)
}

#[tokio::test]
async fn replicas_share_one_certificate_and_a_url_takes_the_services_place() -> Result<()> {
    let mut env = TestEnv::start().await?;
    let address = free_port();
    env.deploy(operator(free_port())).await?;
    announced(&env).await?;
    let secret: Secret = env.api().get("test-webhook").await?;
    let data = secret.data.unwrap_or_default();
    assert_eq!(data.keys().collect::<Vec<_>>(), ["ca.crt", "tls.crt", "tls.key", "until"]);
    // An operator outside the cluster.
    env.deploy(operator(address).webhook_url(format!("https://localhost:{}", address.port()))).await?;
    let api: Api<ValidatingWebhookConfiguration> = Api::all(env.client());
    env.wait_in(api, "test-webhook", |found: Option<&ValidatingWebhookConfiguration>| {
        let webhook = found.and_then(|found| found.webhooks.as_ref()?.first());
        webhook.is_some_and(|webhook| {
            webhook.client_config.url.is_some() && webhook.client_config.service.is_none()
        })
    })
    .await?;
    let again: Secret = env.api().get("test-webhook").await?;
    assert_eq!(again.data.unwrap_or_default(), data);
    let refused = message(env.create(&widget("two", "ugly")).await);
    assert!(refused.contains("spec.color: is ugly"), "{refused}");
    Ok(())
}

#[tokio::test]
async fn an_operator_of_some_namespaces_asks_for_no_other_reviews() -> Result<()> {
    let mut env = TestEnv::start().await?;
    let operator = || operator(free_port()).namespaces(["kube-public"]);
    // It runs in a namespace that it does not watch, and keeps its certificate there.
    env.deploy(operator()).await?;
    announced(&env).await?;
    let _: Secret = env.api().get("test-webhook").await?;
    let api: Api<ValidatingWebhookConfiguration> = Api::all(env.client());
    let webhooks = api.get("test-webhook").await?.webhooks.unwrap_or_default();
    let selector = webhooks.into_iter().next().and_then(|webhook| webhook.namespace_selector);
    assert_eq!(
        json!(selector),
        json!({"matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["kube-public"]},
        ]})
    );
    env.create(&widget("one", "ugly")).await?;

    let text = operator().manifests("system", "image")?;
    // CRDs and webhook configurations are cluster-scoped, and so are the permissions for them.
    assert!(text.contains("kind: ClusterRole\n") && text.contains("kind: Role\n"), "{text}");
    let cluster_role =
        text.split("---\n").find(|part| part.contains("kind: ClusterRole\n")).unwrap_or_default();
    assert!(cluster_role.contains("validatingwebhookconfigurations"), "{cluster_role}");
    assert!(!cluster_role.contains("widgets"), "{cluster_role}");
    Ok(())
}

#[test]
fn the_certificates_secret_is_the_own_namespaces_alone() -> Result<()> {
    for operator in [operator(free_port()), operator(free_port()).namespaces(["lab"])] {
        let text = operator.manifests("system", "image")?;
        let holders: Vec<&str> = text.split("---\n").filter(|part| part.contains("- secrets\n")).collect();
        assert_eq!(holders.len(), 1, "{holders:?}");
        assert!(
            holders[0].contains("kind: Role\n") && holders[0].contains("namespace: system\n"),
            "{holders:?}"
        );
    }
    Ok(())
}
