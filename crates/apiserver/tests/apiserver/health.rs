//! Health, metrics and debugging pages, and OpenAPI documents by hash.

use http_body_util::BodyExt as _;
use steersman_apiserver::Server;
use tower_service::Service as _;

async fn text(server: &Server, path: &str) -> (u16, String) {
    let request = http::Request::get(path).body(String::new()).unwrap();
    let answer = server.service().call(request).await.unwrap();
    let status = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&bytes).into_owned())
}

#[tokio::test]
async fn checks_are_told_one_by_one_if_that_is_asked_for() {
    let server = Server::default();
    assert_eq!(text(&server, "/readyz").await, (200, "ok".to_owned()));
    assert_eq!(text(&server, "/readyz/etcd").await, (200, "ok".to_owned()));
    assert_eq!(text(&server, "/readyz/nonsense").await.0, 404);
    let (_, verbose) = text(&server, "/readyz?verbose&exclude=etcd&exclude=x").await;
    let lines: Vec<&str> = verbose.lines().collect();
    assert_eq!(lines[..3], ["[+]ping ok", "[+]log ok", "[+]etcd excluded: ok"]);
    assert_eq!(
        lines[lines.len() - 3..],
        [
            "[+]shutdown ok",
            "warn: some health checks cannot be excluded: no matches for \"x\"",
            "readyz check passed",
        ]
    );
    assert!(text(&server, "/livez?verbose").await.1.ends_with("livez check passed\n"));
    let (_, metrics) = text(&server, "/metrics").await;
    assert!(metrics.contains("kubernetes_healthcheck{name=\"etcd\",type=\"readyz\"} 1\n"));
    assert!(metrics.contains("apiserver_resource_objects{group=\"\",resource=\"namespaces\"} 4\n"));
    assert!(text(&server, "/statusz").await.1.contains("Binary version= 1.36.3\n"));
    assert!(text(&server, "/flagz").await.1.contains("event-ttl=3600s\n"));
}

#[tokio::test]
async fn documents_are_found_by_their_hash() {
    let server = Server::default();
    let index: serde_json::Value = serde_json::from_str(&text(&server, "/openapi/v3").await.1).unwrap();
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    let ask = async |path: &str| {
        let request = http::Request::get(path).body(String::new()).unwrap();
        server.service().call(request).await.unwrap()
    };
    let kept = ask(&url).await;
    assert_eq!(
        (kept.status().as_u16(), &kept.headers()["cache-control"]),
        (200, &"public, immutable".parse().unwrap())
    );
    let expires = kept.headers()["expires"].to_str().unwrap();
    assert!(expires.ends_with(" GMT"), "{expires}");
    let expires = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(expires).unwrap();
    let days = expires.duration_since(jiff::Timestamp::now()).as_hours() / 24;
    assert!((364..=365).contains(&days), "{days} days");
    let old = ask("/openapi/v3/apis/apps/v1?hash=OLD").await;
    assert_eq!((old.status().as_u16(), old.headers()["location"].to_str().unwrap()), (301, url.as_str()));
}

#[tokio::test]
async fn schemas_of_custom_resources_are_named_after_their_reversed_group() {
    let server = Server::default();
    let definition = serde_json::json!({
        "metadata": {"name": "boats.shop.example.com"},
        "spec": {"group": "shop.example.com", "scope": "Namespaced",
            "names": {"kind": "Boat", "plural": "boats"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    });
    let request = http::Request::post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
        .body(definition.to_string())
        .unwrap();
    assert_eq!(server.service().call(request).await.unwrap().status(), 201);
    let (_, document) = text(&server, "/openapi/v3/apis/shop.example.com/v1").await;
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert!(document["components"]["schemas"]["com.example.shop.v1.Boat"].is_object());
    let (_, document) = text(&server, "/openapi/v2").await;
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert!(document["definitions"]["com.example.shop.v1.Boat"].is_object());
}

#[tokio::test]
async fn a_document_has_all_schemas_that_it_refers_to() {
    let server = Server::default();
    let (_, text) = text(&server, "/openapi/v3/apis/apps/v1").await;
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    assert!(schemas.contains_key("io.k8s.api.core.v1.PodSpec"));
    for rest in text.split("#/components/schemas/").skip(1) {
        let (name, _) = rest.split_once('"').unwrap();
        assert!(schemas.contains_key(name), "{name}");
    }
}

#[tokio::test]
async fn the_old_document_has_no_empty_defaults() {
    let server = Server::default();
    let empty = "\"default\":{}";
    assert!(text(&server, "/openapi/v3/apis/apps/v1").await.1.contains(empty));
    assert!(!text(&server, "/openapi/v2").await.1.contains(empty));
}
