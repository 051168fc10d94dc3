//! Secure metrics: TLS, and authorization of readers by the API server.

use std::{net::SocketAddr, sync::Arc};

use http::Request;
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
    rbac::v1::ClusterRoleBinding,
};
use kube::{Api, Client, Config, api::PostParams};
use serde_json::json;
use steersman::{
    Action, Context, Controller, Error, Operator, Result,
    testing::{TestEnv, object},
};
use steersman_cluster::Cluster;

use crate::common::{Widget, free_port};

fn operator() -> Operator {
    let reconcile = |_: Arc<Widget>, _: Context| std::future::ready(Ok::<_, Error>(Action::await_change()));
    Operator::new("test").controller(Controller::of::<Widget>(reconcile))
}

/// Requests the metrics over TLS. The certificate is self-signed, so it is not verified.
async fn scrape(address: SocketAddr, token: Option<&str>) -> Result<String, u16> {
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    config.accept_invalid_certs = true;
    config.auth_info.token = token.map(|token| token.to_owned().into());
    let client = Client::try_from(config).unwrap();
    let request = || Request::get("/metrics").body(Vec::new()).unwrap();
    loop {
        match client.request_text(request()).await {
            Ok(text) => return Ok(text),
            Err(kube::Error::Api(status)) => return Err(status.code),
            // Not open yet.
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

/// Creates a service account, and returns a token of it.
async fn token(env: &TestEnv, account: &str) -> Result<String> {
    let accounts: Api<ServiceAccount> = Api::default_namespaced(env.client());
    let new: ServiceAccount = object(json!({"metadata": {"name": account}}));
    accounts.create(&PostParams::default(), &new).await?;
    let request = TokenRequest { spec: Some(TokenRequestSpec::default()), ..TokenRequest::default() };
    let made = accounts.create_token_request(account, &PostParams::default(), &request).await?;
    Ok(made.status.unwrap().token.unwrap())
}

#[tokio::test]
async fn metrics_are_for_those_who_may_get_them() -> Result<()> {
    let cluster = Cluster::builder().record_access(true).start().await.map_err(Error::other)?;
    let mut env = TestEnv::on(cluster);
    let address = free_port();
    // With the role from its manifests.
    env.deploy(operator().metrics_address(address).secure_metrics(true)).await?;
    assert_eq!(scrape(address, None).await, Err(401));
    assert_eq!(scrape(address, Some("not-a-token")).await, Err(401));
    let (stranger, scraper) = (token(&env, "stranger").await?, token(&env, "scraper").await?);
    assert_eq!(scrape(address, Some(&stranger)).await, Err(403));

    let binding: ClusterRoleBinding = object(json!({
        "metadata": {"name": "scraper"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "test-metrics-reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "scraper", "namespace": "default"}],
    }));
    Api::all(env.client()).create(&PostParams::default(), &binding).await?;
    let text = scrape(address, Some(&scraper)).await.unwrap();
    assert!(text.contains("workqueue_depth"), "{text}");

    // Responses are cached: the API server is not queried for each request.
    let reviews = || {
        let all = env.cluster().unwrap().accesses();
        all.iter()
            .filter(|(access, _)| access.resource.ends_with("reviews"))
            .map(|(_, count)| count)
            .sum::<u64>()
    };
    let before = reviews();
    assert!(before > 0);
    assert_eq!(scrape(address, Some(&stranger)).await, Err(403));
    assert!(scrape(address, Some(&scraper)).await.is_ok());
    assert_eq!(reviews(), before);
    env.stop().await
}

#[tokio::test]
async fn an_operator_without_the_right_to_review_shows_nothing() -> Result<()> {
    let mut env = TestEnv::start().await?;
    let address = free_port();
    let operator = || operator().metrics_address(address).secure_metrics(true);
    let stranger = env.cluster().unwrap().client_as(steersman_cluster::User::service_account("default", "x"));
    let findings = operator().doctor(&stranger).await?;
    let problem = "not allowed: create tokenreviews.authentication.k8s.io";
    assert!(findings.iter().any(|finding| finding.problem == problem), "{findings:?}");
    env.deploy(operator()).await?;
    let token = token(&env, "scraper").await?;
    let roles: Api<ClusterRoleBinding> = Api::all(env.client());
    roles.delete("test", &Default::default()).await?;
    assert_eq!(scrape(address, Some(&token)).await, Err(500));
    env.stop().await
}
