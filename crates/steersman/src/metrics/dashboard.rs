//! Grafana dashboard, generated from the same names as the metrics.

use serde_json::{Value, json};

/// A panel: title, unit, and lines, each with its expression and its legend.
type Panel = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// The panels. `OF` is replaced by selectors on the dashboard's variables.
const PANELS: &[Panel] = &[
    (
        "Reconciles a second",
        "ops",
        &[(
            "sum by (controller, result) (rate(controller_runtime_reconcile_total{OF}[5m]))",
            "{{controller}} {{result}}",
        )],
    ),
    (
        "Failed reconciles a second",
        "ops",
        &[
            (
                "sum by (controller) (rate(controller_runtime_reconcile_errors_total{OF}[5m]))",
                "{{controller}}",
            ),
            (
                "sum by (controller) (rate(controller_runtime_terminal_reconcile_errors_total{OF}[5m]))",
                "{{controller}} for good",
            ),
            (
                "sum by (controller) (rate(controller_runtime_reconcile_panics_total{OF}[5m]))",
                "{{controller}} panicked",
            ),
            (
                "sum by (controller) (rate(controller_runtime_reconcile_timeouts_total{OF}[5m]))",
                "{{controller}} took too long",
            ),
        ],
    ),
    (
        "Length of reconciles",
        "s",
        &[
            (
                "histogram_quantile(0.5, sum by (le, controller) (rate(controller_runtime_reconcile_time_seconds_bucket{OF}[5m])))",
                "{{controller}} median",
            ),
            (
                "histogram_quantile(0.99, sum by (le, controller) (rate(controller_runtime_reconcile_time_seconds_bucket{OF}[5m])))",
                "{{controller}} 99 %",
            ),
        ],
    ),
    (
        "Workers",
        "short",
        &[
            ("sum by (controller) (controller_runtime_active_workers{OF})", "{{controller}} at work"),
            (
                "sum by (controller) (controller_runtime_max_concurrent_reconciles{OF})",
                "{{controller}} at most",
            ),
        ],
    ),
    (
        "Objects that wait",
        "short",
        &[("sum by (controller, priority) (workqueue_depth{OF})", "{{controller}} priority {{priority}}")],
    ),
    (
        "Time that objects wait",
        "s",
        &[(
            "histogram_quantile(0.99, sum by (le, controller) (rate(workqueue_queue_duration_seconds_bucket{OF}[5m])))",
            "{{controller}} 99 %",
        )],
    ),
    (
        "Retries and additions a second",
        "ops",
        &[
            ("sum by (controller) (rate(workqueue_retries_total{OF}[5m]))", "{{controller}} retries"),
            ("sum by (controller) (rate(workqueue_adds_total{OF}[5m]))", "{{controller}} additions"),
        ],
    ),
    (
        "The longest work under way",
        "s",
        &[("max by (controller) (workqueue_longest_running_processor_seconds{OF})", "{{controller}}")],
    ),
    (
        "Requests a second",
        "reqps",
        &[("sum by (method, code) (rate(rest_client_requests_total{OF}[5m]))", "{{method}} {{code}}")],
    ),
    ("Objects in the caches", "short", &[("sum by (kind) (steersman_cache_objects{OF})", "{{kind}}")]),
    ("Memory of the caches", "bytes", &[("sum by (kind) (steersman_cache_bytes{OF})", "{{kind}}")]),
    (
        "Caches that are not up to date",
        "short",
        &[("sum by (kind) (1 - steersman_cache_synced{OF})", "{{kind}}")],
    ),
    (
        "Who leads, and who holds how much",
        "short",
        &[
            ("leader_election_master_status{OF}", "{{pod}} leads"),
            ("steersman_shard_slots{OF}", "{{pod}} slots"),
        ],
    ),
    (
        "Reviews by webhooks a second",
        "reqps",
        &[
            (
                "sum by (webhook, code) (rate(controller_runtime_webhook_requests_total{OF}[5m]))",
                "{{webhook}} {{code}}",
            ),
            ("sum(rate(controller_runtime_webhook_panics_total{OF}[5m]))", "panics"),
        ],
    ),
    (
        "Length of reviews",
        "s",
        &[(
            "histogram_quantile(0.99, sum by (le, webhook) (rate(controller_runtime_webhook_latency_seconds_bucket{OF}[5m])))",
            "{{webhook}} 99 %",
        )],
    ),
];

/// Returns the dashboard of an operator, for import into Grafana.
pub(crate) fn dashboard(operator: &str) -> Value {
    let panels = PANELS.iter().zip(0..).map(|((title, unit, lines), number)| {
        let targets = lines.iter().zip('A'..).map(|((expression, legend), letter)| {
            let expression = expression.replace("OF", r#"job=~"$job", namespace=~"$namespace""#);
            json!({"refId": letter, "expr": expression, "legendFormat": legend, "datasource": source()})
        });
        let targets: Vec<Value> = targets.collect();
        json!({
            "id": number + 1, "type": "timeseries", "title": title, "datasource": source(), "targets": targets,
            "gridPos": {"x": number % 3 * 8, "y": number / 3 * 8, "w": 8, "h": 8},
            "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        })
    });
    let panels: Vec<Value> = panels.collect();
    let variable = |name: &str| {
        json!({
            "name": name, "type": "query", "datasource": source(), "includeAll": true, "multi": true, "refresh": 2,
            "current": {"text": "All", "value": "$__all"},
            "query": format!("label_values(controller_runtime_max_concurrent_reconciles, {name})"),
        })
    };
    json!({
        "uid": operator, "title": format!("Operator {operator}"), "tags": ["operator", "steersman"],
        "schemaVersion": 39, "editable": true, "refresh": "30s", "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [
            {"name": "source", "type": "datasource", "query": "prometheus"}, variable("job"), variable("namespace"),
        ]},
        "panels": panels,
    })
}

fn source() -> Value {
    json!({"type": "prometheus", "uid": "${source}"})
}
