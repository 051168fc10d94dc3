//! Answers name the FlowSchema and the PriorityLevelConfiguration of their request.

use http::{HeaderMap, Request};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use steersman_apiserver::{Server, User};
use tower_service::Service as _;

const BASE: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";

async fn ask(server: &Server, user: &User, request: &str, body: Value) -> (HeaderMap, Value) {
    let (method, path) = request.split_once(' ').unwrap();
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut request = Request::builder().method(method).uri(path).body(body).unwrap();
    request.extensions_mut().insert(user.clone());
    let answer = server.service().call(request).await.unwrap();
    let (parts, body) = answer.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    (parts.headers, serde_json::from_slice(&bytes).unwrap_or_default())
}

/// The uid of a stored object.
async fn uid(server: &Server, path: &str) -> String {
    let (_, object) = ask(server, &User::admin(), &format!("GET {BASE}/{path}"), Value::Null).await;
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_request_has_the_class_of_a_schema_once_its_level_is_there() {
    let server = Server::default();
    let ada = User::named("ada", []);
    let classes = async || {
        let (headers, _) = ask(&server, &ada, "GET /api/v1/namespaces/default/pods", Value::Null).await;
        let text = |name: &str| headers[name].to_str().unwrap().to_owned();
        (text("x-kubernetes-pf-flowschema-uid"), text("x-kubernetes-pf-prioritylevel-uid"))
    };
    let usual = (
        uid(&server, "flowschemas/global-default").await,
        uid(&server, "prioritylevelconfigurations/global-default").await,
    );
    assert_eq!(classes().await, usual);
    let rule = json!({"verbs": ["*"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["default"]});
    let schema = json!({"metadata": {"name": "mine"}, "spec": {
        "priorityLevelConfiguration": {"name": "mine"},
        "rules": [{"subjects": [{"kind": "User", "user": {"name": "ada"}}], "resourceRules": [rule]}],
    }});
    ask(&server, &User::admin(), &format!("POST {BASE}/flowschemas"), schema).await;
    let dangling = async || {
        let (_, schema) =
            ask(&server, &User::admin(), &format!("GET {BASE}/flowschemas/mine"), Value::Null).await;
        schema["status"]["conditions"][0]["status"].clone()
    };
    assert_eq!((classes().await, dangling().await), (usual.clone(), json!("True")));
    let level = json!({"metadata": {"name": "mine"},
        "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}});
    ask(&server, &User::admin(), &format!("POST {BASE}/prioritylevelconfigurations"), level).await;
    let mine =
        (uid(&server, "flowschemas/mine").await, uid(&server, "prioritylevelconfigurations/mine").await);
    assert_eq!((classes().await, dangling().await), (mine, json!("False")));
    ask(&server, &User::admin(), &format!("DELETE {BASE}/flowschemas/mine"), Value::Null).await;
    assert_eq!(classes().await, usual);
}

#[tokio::test]
async fn what_must_be_there_comes_back() {
    let server = Server::default();
    for path in ["flowschemas/catch-all", "prioritylevelconfigurations/exempt"] {
        let before = uid(&server, path).await;
        ask(&server, &User::admin(), &format!("DELETE {BASE}/{path}"), Value::Null).await;
        let after = uid(&server, path).await;
        assert!(!after.is_empty() && after != before, "{path}: {before} {after}");
    }
}
