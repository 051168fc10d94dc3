//! Collector: gathers telemetry for a tenant. A chart, released into the tenant's namespace, with Rust code around it.
//!
//! The code does what a chart cannot: it decodes the base64 configuration and validates it before anything is
//! installed, and moves the release to the tenant's namespace whenever the tenant changes.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ApiResource, DynamicObject, ObjectMeta};
use serde_json::{Value, json};
use steersman::{Context, Kind};
use steersman_chart::{Chart, Values};
use steersman_helm_operator::{NamespacedName, Phase, Refusal, ReleaseController};

/// The watched kind.
#[must_use]
pub fn kind() -> Kind {
    let resource = ApiResource {
        group: "telemetry.example.com".into(),
        version: "v1alpha1".into(),
        api_version: "telemetry.example.com/v1alpha1".into(),
        kind: "Collector".into(),
        plural: "collectors".into(),
    };
    Kind::dynamic(resource, true)
}

/// The controller: the chart, and the hooks around it.
pub fn controller(chart: Chart) -> ReleaseController {
    ReleaseController::new(kind(), chart)
        .release_name(release_name)
        .map_values(|object, _, _| async move { values(&object) })
        .before(|phase, object, context| async move {
            if phase == Phase::Uninstall { Ok(()) } else { make_namespace(&object, &context).await }
        })
        .conditions(|_, context| async move { Ok(vec![monitored(&context).await]) })
}

fn text<'a>(object: &'a DynamicObject, path: &str) -> Result<&'a str, Refusal> {
    let found = object.data.pointer(&format!("/{}", path.replace('.', "/"))).and_then(Value::as_str);
    found
        .filter(|text| !text.is_empty())
        .ok_or_else(|| Refusal::new("InvalidSpec", format!("{path}: Required value")))
}

/// Names the release after the collector, in the tenant's namespace.
fn release_name(object: &DynamicObject) -> Result<NamespacedName, Refusal> {
    Ok(NamespacedName {
        name: text(object, "spec.collector.name")?.into(),
        namespace: text(object, "spec.tenant")?.into(),
    })
}

/// Returns the chart's values, after validating the configuration.
fn values(object: &DynamicObject) -> Result<Values, Refusal> {
    let encoded = text(object, "spec.collector.config")?;
    let wrong = |why: String| Refusal::new("InvalidConfig", format!("spec.collector.config: {why}"));
    let config = BASE64.decode(encoded.trim()).map_err(|error| wrong(format!("not base64: {error}")))?;
    let config = String::from_utf8(config).map_err(|error| wrong(format!("not text: {error}")))?;
    let parsed = steersman_yaml::from_str(&config).map_err(|error| wrong(format!("not YAML: {error}")))?;
    if !parsed.is_object() {
        return Err(wrong("not a YAML mapping".into()));
    }
    Ok(Values::from_json(json!({
        "version": text(object, "spec.collector.version")?,
        "tenant": text(object, "spec.tenant")?,
        "cluster": text(object, "spec.cluster")?,
        "config": config,
    })))
}

async fn make_namespace(object: &Arc<DynamicObject>, context: &Context) -> Result<(), Refusal> {
    let metadata =
        ObjectMeta { name: Some(text(object, "spec.tenant")?.to_owned()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    let made = context.apply_unowned(namespace).await;
    made.map(|_| ()).map_err(|error| Refusal::new("NamespaceFailed", error.to_string()).transient())
}

/// Reports whether Prometheus can scrape the collector.
async fn monitored(context: &Context) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition {
    let group = context.client().list_api_group_resources("monitoring.coreos.com/v1").await;
    let served =
        group.is_ok_and(|list| list.resources.iter().any(|resource| resource.kind == "ServiceMonitor"));
    if served {
        context.condition("Monitored", true, "ServiceMonitorMade", "a ServiceMonitor points at the collector")
    } else {
        let message = "the cluster has no ServiceMonitor kind: nothing scrapes the collector. Install \
                       prometheus-operator's definitions, and the next change of this object adds it";
        context.condition("Monitored", false, "ServiceMonitorKindAbsent", message)
    }
}
