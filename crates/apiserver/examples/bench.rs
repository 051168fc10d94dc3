//! Measures an in-process server's throughput, latency and memory.
//! Usage: `cargo run --release --example bench`.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use steersman_apiserver::{Body, Server, Service};
use tower_service::Service as _;

async fn send(service: &Service, method: &str, path: &str, body: &Bytes) -> Response<Body> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .header("user-agent", "bench/1")
        .body(Full::new(body.clone()))
        .expect("a valid request");
    service.clone().call(request).await.expect("infallible")
}

/// A pod of about 3.5 KB.
fn pod(name: &str) -> Bytes {
    let container = |n: usize| {
        let env: Vec<Value> = (0..12)
            .map(|i| json!({"name": format!("VARIABLE_{i}"), "value": format!("value-number-{i}")}))
            .collect();
        json!({
            "name": format!("c{n}"), "image": "registry.example.dev/team/service:1.2.3", "env": env,
            "ports": [{"containerPort": 8080 + n, "name": format!("p{n}")}],
            "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        })
    };
    let object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "bench", "tier": "web", "n": name}},
        "spec": {"containers": [container(0), container(1)], "volumes": [{"name": "data", "emptyDir": {}}]},
    });
    object.to_string().into()
}

fn config_map(name: &str) -> Bytes {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": "value"}})
        .to_string()
        .into()
}

fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|n| n.parse::<f64>().ok()).unwrap_or_default() / 1024.0
}

async fn creates(service: &Service, plural: &str, count: u32, make: impl Fn(&str) -> Bytes) -> f64 {
    let path = format!("/api/v1/namespaces/default/{plural}");
    let bodies: Vec<Bytes> = (0..count).map(|i| make(&format!("{plural}-{i}"))).collect();
    let start = Instant::now();
    for body in &bodies {
        let response = send(service, "POST", &path, body).await;
        assert_eq!(response.status(), 201);
    }
    f64::from(count) / start.elapsed().as_secs_f64()
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let start = Instant::now();
    let server = Server::default();
    let service = server.service();
    send(&service, "POST", "/api/v1/namespaces/default/configmaps", &config_map("first")).await;
    println!("start to first write: {:.2} ms", start.elapsed().as_secs_f64() * 1e3);

    println!("create ConfigMap: {:.0}/s", creates(&service, "configmaps", 20_000, config_map).await);

    let before = resident_mib();
    println!("create Pod of {} bytes: {:.0}/s", pod("x").len(), creates(&service, "pods", 10_000, pod).await);
    println!("10,000 pods: {:.1} MiB more", resident_mib() - before);
    let entry = server.store().get("pods", "default/pods-1").map(|e| e.key().len());
    assert!(entry.is_some());

    let start = Instant::now();
    for i in 0..20_000 {
        let path = format!("/api/v1/namespaces/default/pods/pods-{}", i % 10_000);
        send(&service, "GET", &path, &Bytes::new()).await;
    }
    println!("get Pod: {:.0}/s", 20_000.0 / start.elapsed().as_secs_f64());

    let start = Instant::now();
    let body = send(&service, "GET", "/api/v1/pods", &Bytes::new()).await.into_body().collect().await;
    let size = body.expect("infallible").to_bytes().len();
    println!("list 10,000 pods ({} MiB): {:.1} ms", size >> 20, start.elapsed().as_secs_f64() * 1e3);

    let response =
        send(&service, "GET", "/api/v1/namespaces/kube-system/configmaps?watch=1", &Bytes::new()).await;
    let mut watch = response.into_body();
    let mut times: Vec<Duration> = Vec::new();
    for i in 0..5_000 {
        let body = config_map(&format!("w{i}"));
        let start = Instant::now();
        send(&service, "POST", "/api/v1/namespaces/kube-system/configmaps", &body).await;
        watch.frame().await;
        times.push(start.elapsed());
    }
    times.sort();
    println!("create to watch event: p50 {:?}, p99 {:?}", times[2_500], times[4_950]);

    let intent = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": serde_json::from_slice::<Value>(&pod("d")).expect("JSON")["spec"]}},
    });
    let start = Instant::now();
    for i in 0..2_000 {
        let mut intent = intent.clone();
        intent["spec"]["replicas"] = json!(i % 7);
        let request = Request::builder()
            .method("PATCH")
            .uri("/apis/apps/v1/namespaces/default/deployments/d?fieldManager=bench&force=true")
            .header("content-type", "application/apply-patch+yaml")
            .body(Full::new(Bytes::from(intent.to_string())))
            .expect("a valid request");
        let response = service.clone().call(request).await.expect("infallible");
        assert!(response.status().is_success());
    }
    println!("apply a Deployment of 3.5 KB: {:.0}/s", 2_000.0 / start.elapsed().as_secs_f64());
}
