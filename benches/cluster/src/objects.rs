//! The objects that are written.

use serde_json::{Value, json};

/// A small ConfigMap.
pub(crate) fn config_map(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"app": "bench"}},
        "data": {"colour": "blue", "size": "12"},
    })
}

/// A pod as operators create them, of at least 3.5 KB when stored.
pub(crate) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels(), "annotations": {"example.com/revision": "17"}},
        "spec": pod_spec("registry.example.com/shop/web:1.4.2"),
    })
}

/// A Deployment of 3.5 KB to apply; `version` makes it differ from the previous one.
pub(crate) fn deployment(name: &str, version: usize) -> Value {
    let image = format!("registry.example.com/shop/web:1.4.{version}");
    let mut annotations = serde_json::Map::new();
    for number in 0..16 {
        let text = "what somebody wanted to be remembered about this deployment";
        annotations.insert(format!("example.com/remark-{number}"), text.into());
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels(), "annotations": annotations},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app.kubernetes.io/name": "shop"}},
            "template": {"metadata": {"labels": labels()}, "spec": pod_spec(&image)},
        },
    })
}

fn labels() -> Value {
    json!({
        "app.kubernetes.io/name": "shop",
        "app.kubernetes.io/instance": "shop-production",
        "app.kubernetes.io/component": "web",
        "app.kubernetes.io/managed-by": "bench",
    })
}

fn pod_spec(image: &str) -> Value {
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": 8080}, "periodSeconds": 5, "failureThreshold": 3});
    json!({
        "serviceAccountName": "default",
        "automountServiceAccountToken": false,
        "terminationGracePeriodSeconds": 20,
        "securityContext": {"runAsNonRoot": true, "runAsUser": 1000},
        "containers": [{
            "name": "web",
            "image": image,
            "args": ["--listen=:8080", "--log=json"],
            "ports": [{"name": "http", "containerPort": 8080}, {"name": "metrics", "containerPort": 9090}],
            "env": [
                {"name": "MODE", "value": "production"},
                {"name": "DATABASE", "valueFrom": {"secretKeyRef": {"name": "shop", "key": "database"}}},
                {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ],
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
            "livenessProbe": probe("/healthz"),
            "readinessProbe": probe("/ready"),
            "volumeMounts": [{"name": "settings", "mountPath": "/etc/shop"}, {"name": "scratch", "mountPath": "/tmp"}],
        }],
        "volumes": [{"name": "settings", "configMap": {"name": "shop"}}, {"name": "scratch", "emptyDir": {}}],
    })
}
