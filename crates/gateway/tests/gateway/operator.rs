//! The operator's own page, and the button for other sites.

use serde_json::json;
use steersman_gateway::OperatorLog;

use crate::support::{Place, ROOT, VIEWER, serve};

const METRICS: &str = "workqueue_depth{controller=\"shop\",name=\"shop\"} 2
controller_runtime_reconcile_total{controller=\"shop\",result=\"success\"} 7
controller_runtime_reconcile_total{controller=\"shop\",result=\"error\"} 1
controller_runtime_reconcile_time_seconds_bucket{controller=\"shop\",le=\"0.1\"} 8
controller_runtime_reconcile_time_seconds_bucket{controller=\"shop\",le=\"+Inf\"} 8
leader_election_master_status{name=\"shops\"} 1
";

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_is_shown_by_its_metrics_to_those_who_may_read_them() {
    let (address, _scrapes) = serve(|| (200, METRICS.to_owned())).await;
    let log = OperatorLog::default();
    log.push("WARN a shop is closed");
    let place = Place::with(|builder| {
        let builder = builder.operator("shops", format!("http://{address}/metrics")).operator_log(log);
        builder.operator("gone", "http://127.0.0.1:1/metrics")
    })
    .await;
    let answer = place.get(ROOT, "/v1/operator").await.expect(200);
    let shops = &answer["operators"][0];
    assert_eq!(shops["name"], "shops");
    assert_eq!(shops["kinds"], json!(["shops.example.com"]));
    assert_eq!(shops["leader"], true);
    assert_eq!(shops["queue"], json!({"depth": 2}));
    assert_eq!(shops["reconciles"]["success"], 7);
    assert_eq!(shops["reconciles"]["error"], 1);
    assert_eq!(shops["latency"]["p50"], 0.05);
    assert_eq!(answer["log"][0]["message"], "WARN a shop is closed");
    let gone = &answer["operators"][1];
    assert!(gone["problem"].as_str().unwrap().contains("cannot be read"), "{gone}");
    place.get(VIEWER, "/v1/operator").await.expect(403);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_metrics_there_is_no_operator() {
    let place = Place::new().await;
    place.get(ROOT, "/v1/operator").await.expect(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_button_is_a_page_for_frames_of_named_origins() {
    let place = Place::with(|builder| builder.allow_origin("https://portal.example.com")).await;
    let path = "/v1/embed/scale?kind=shops.example.com&namespace=default&name=%22%3E%3Cscript%3E&value=3&label=Open%20%26%20run";
    let answer = place.raw("GET", path, &[], b"").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let page = answer.text();
    assert!(page.contains("src=\"/embed/steer-button.js\""), "{page}");
    assert!(page.contains("action=\"scale\" kind=\"shops.example.com\" namespace=\"default\""), "{page}");
    assert!(page.contains("name=\"&quot;&gt;&lt;script&gt;\" value=\"3\">Open &amp; run<"), "{page}");
    let policy = answer.header("content-security-policy").unwrap();
    assert!(policy.ends_with("frame-ancestors 'self' https://portal.example.com"), "{policy}");
    assert_eq!(answer.header("x-frame-options"), None);
    let missing = place.raw("GET", "/v1/embed/scale?kind=shops.example.com", &[], b"").await.expect(400);
    assert!(missing["detail"].as_str().unwrap().starts_with("parameter name is required"), "{missing}");
    let other = place.raw("GET", "/", &[("accept", "text/html")], b"").await;
    assert_eq!(other.header("x-frame-options"), Some("DENY"));
}
