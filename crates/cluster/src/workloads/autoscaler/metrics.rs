//! Evaluates an autoscaler's metrics: resource metrics from the metrics API. Custom and external metrics have no API.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        autoscaling::v2::{
            ContainerResourceMetricStatus, ExternalMetricSource, HorizontalPodAutoscalerBehavior, MetricSpec,
            MetricStatus, MetricTarget, MetricValueStatus, ObjectMetricSource, ResourceMetricStatus,
        },
        core::v1::Pod,
    },
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::LabelSelector},
};
use serde_json::Value;
use steersman_formats::quantity::{self, Quantity as Amount};

use super::{
    calculation::{Observation, Sample, Samples, Target, Tolerances, milli, propose},
    scale::RequestError,
};
use crate::control_loop::ControlLoop;

/// Why a metric yields no replicas.
#[derive(Debug)]
pub(super) struct Failure {
    /// Reason of the condition and of the event.
    pub(super) reason: &'static str,
    /// Message of the condition and of the event.
    pub(super) why: String,
    /// The same message in the form used in the summary of all metrics.
    pub(super) summary: String,
}

/// The replicas that a metric calls for.
#[derive(Debug)]
pub(super) struct Computed {
    pub(super) replicas: i32,
    /// Name of the metric in messages.
    pub(super) name: String,
    pub(super) status: MetricStatus,
}

/// Input shared by all metrics of an autoscaler.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) namespace: &'a str,
    pub(super) replicas: i32,
    pub(super) pods: &'a [Arc<Pod>],
    pub(super) behavior: Option<&'a HorizontalPodAutoscalerBehavior>,
    pub(super) now: Timestamp,
    /// Response of the metrics API, or its error.
    pub(super) usage: Result<&'a [Value], &'a str>,
}

/// Requests the usage of pods from the metrics API.
///
/// # Errors
/// Fails with the reason why there is no usage.
pub(super) async fn fetch(
    control: &mut ControlLoop,
    namespace: &str,
    selector: &str,
) -> Result<Vec<Value>, RequestError> {
    let query: String =
        form_urlencoded::Serializer::new(String::new()).append_pair("labelSelector", selector).finish();
    let path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods?{query}");
    let Ok(request) = http::Request::get(path).body(Vec::new()) else {
        return Err(RequestError::Refused("invalid selector".to_owned()));
    };
    let unable = |why: &str| format!("unable to fetch metrics from resource metrics API: {why}");
    match control.client.request::<Value>(request).await {
        Ok(mut list) => match list["items"].take() {
            Value::Array(items) if !items.is_empty() => Ok(items),
            _ => Err(RequestError::Refused("no metrics returned from resource metrics API".to_owned())),
        },
        Err(kube::Error::Api(status)) => {
            let generic = match status.code {
                404 => "the server could not find the requested resource",
                503 => "the server is currently unable to handle the request",
                _ => return Err(RequestError::Refused(unable(&status.message))),
            };
            Err(RequestError::Refused(unable(&format!("{generic} (get pods.metrics.k8s.io)"))))
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the replicas that a metric calls for.
pub(super) fn compute(context: Context<'_>, spec: &MetricSpec) -> Result<Computed, Failure> {
    match spec.type_.as_str() {
        "Resource" => {
            let Some(source) = &spec.resource else { return Err(unknown(&spec.type_)) };
            let value = resource(context, &source.name, &source.target, None).map_err(|why| {
                let summary = format!("failed to get {} resource metric value: {why}", source.name);
                Failure { reason: "FailedGetResourceMetric", why, summary }
            })?;
            let status = ResourceMetricStatus { current: value.status, name: source.name.clone() };
            Ok(Computed {
                replicas: value.replicas,
                name: value.name,
                status: MetricStatus {
                    type_: spec.type_.clone(),
                    resource: Some(status),
                    ..MetricStatus::default()
                },
            })
        }
        "ContainerResource" => {
            let Some(source) = &spec.container_resource else { return Err(unknown(&spec.type_)) };
            let container = source.container.as_str();
            let value =
                resource(context, &source.name, &source.target, Some(container)).map_err(|why| Failure {
                    reason: "FailedGetContainerResourceMetric",
                    summary: format!("failed to get {container} container metric value: {why}"),
                    why,
                })?;
            let status = ContainerResourceMetricStatus {
                container: source.container.clone(),
                current: value.status,
                name: source.name.clone(),
            };
            Ok(Computed {
                replicas: value.replicas,
                name: value.name,
                status: MetricStatus {
                    type_: spec.type_.clone(),
                    container_resource: Some(status),
                    ..MetricStatus::default()
                },
            })
        }
        "Pods" => {
            let Some(source) = &spec.pods else { return Err(unknown(&spec.type_)) };
            let why = format!("unable to get metric {}: {NO_CUSTOM_METRICS}", source.metric.name);
            let summary = format!("failed to get pods metric value: {why}");
            Err(Failure { reason: "FailedGetPodsMetric", why, summary })
        }
        "Object" => Err(spec
            .object
            .as_ref()
            .map_or_else(|| unknown(&spec.type_), |source| object_failure(context.namespace, source))),
        "External" => Err(spec
            .external
            .as_ref()
            .map_or_else(|| unknown(&spec.type_), |source| external_failure(context.namespace, source))),
        other => Err(unknown(other)),
    }
}

const NO_CUSTOM_METRICS: &str = "unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered";

fn unknown(type_: &str) -> Failure {
    let why = format!("unknown metric source type \"{type_}\"");
    Failure { reason: "InvalidMetricSourceType", summary: why.clone(), why }
}

fn object_failure(namespace: &str, source: &ObjectMetricSource) -> Failure {
    let (metric, object) = (&source.metric.name, &source.described_object);
    // kube-controller-manager has its words in this order.
    let why = format!(
        "unable to get metric {metric}: {} on {namespace} {}/{NO_CUSTOM_METRICS}",
        object.kind, object.name
    );
    let inner = match source.target.average_value {
        Some(_) => format!("failed to get {metric} object metric: {why}"),
        None => why.clone(),
    };
    Failure {
        reason: "FailedGetObjectMetric",
        why,
        summary: format!("failed to get object metric value: {inner}"),
    }
}

fn external_failure(namespace: &str, source: &ExternalMetricSource) -> Failure {
    let metric = &source.metric.name;
    let why = format!(
        "unable to get external metric {namespace}/{metric}/{}: unable to fetch metrics from external metrics API: the \
         server could not find the requested resource (get {metric}.external.metrics.k8s.io)",
        selector_text(source.metric.selector.as_ref())
    );
    let inner = match source.target.average_value {
        Some(_) => format!("failed to get {metric} external metric: {why}"),
        None => format!("failed to get external metric {metric}: {why}"),
    };
    Failure {
        reason: "FailedGetExternalMetric",
        why,
        summary: format!("failed to get {metric} external metric value: {inner}"),
    }
}

/// Formats a selector as Go's `%v` does.
fn selector_text(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else { return "nil".to_owned() };
    let labels: String =
        selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}: {value},")).collect();
    let expressions: String = selector
        .match_expressions
        .iter()
        .flatten()
        .map(|expression| {
            let values = expression.values.clone().unwrap_or_default().join(" ");
            format!(
                "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{values}],}},",
                expression.key, expression.operator
            )
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

/// The result of a resource metric.
struct ResourceValue {
    replicas: i32,
    name: String,
    status: MetricValueStatus,
}

fn resource(
    context: Context<'_>,
    name: &str,
    target: &MetricTarget,
    container: Option<&str>,
) -> Result<ResourceValue, String> {
    let (target, what, metric) = match (&target.average_value, target.average_utilization) {
        (Some(value), _) => (Target::AverageValue(milli(&value.0)), "usage", format!("{name} resource")),
        (None, Some(percentage)) => {
            let of = if container.is_some() { "container " } else { "" };
            let metric = format!("{name} {of}resource utilization (percentage of request)");
            (Target::Utilization { percentage, container }, "utilization", metric)
        }
        (None, None) => {
            return Err(
                "invalid resource metric source: neither an average utilization target nor an average value \
                        (usage) target was set"
                    .to_owned(),
            );
        }
    };
    let propose = || {
        let usage =
            context.usage.map_err(|why| format!("unable to get metrics for resource {name}: {why}"))?;
        let observation =
            Observation { replicas: context.replicas, resource: name, pods: context.pods, now: context.now };
        propose(observation, target, tolerances(context.behavior), samples(usage, name, container))
    };
    let proposal = propose().map_err(|why| format!("failed to get {name} {what}: {why}"))?;
    let average = quantity::show(i128::from(proposal.average) * 1_000_000, name == "memory");
    Ok(ResourceValue {
        replicas: proposal.replicas,
        name: metric,
        status: MetricValueStatus {
            average_utilization: proposal.utilization,
            average_value: Some(Quantity(average)),
            value: None,
        },
    })
}

fn tolerances(behavior: Option<&HorizontalPodAutoscalerBehavior>) -> Tolerances {
    let mut tolerances = Tolerances::default();
    let Some(behavior) = behavior else { return tolerances };
    let set = |rules: &Option<k8s_openapi::api::autoscaling::v2::HPAScalingRules>, tolerance: &mut f64| {
        let text = rules.as_ref().and_then(|rules| rules.tolerance.as_ref());
        if let Some(amount) = text.and_then(|text| Amount::parse(&text.0)) {
            *tolerance = amount.as_approximate_float();
        }
    };
    set(&behavior.scale_down, &mut tolerances.down);
    set(&behavior.scale_up, &mut tolerances.up);
    tolerances
}

/// Returns the usage of pods, or of one container in each. Pods with an unmeasured container are left out.
fn samples(items: &[Value], resource: &str, container: Option<&str>) -> Samples {
    items
        .iter()
        .filter_map(|item| {
            let containers = item["containers"].as_array().filter(|list| !list.is_empty())?;
            let counted = containers.iter().filter(|c| container.is_none_or(|name| c["name"] == name));
            let values: Option<Vec<i64>> =
                counted.map(|c| c["usage"][resource].as_str().map(milli)).collect();
            let values = values.filter(|values| !values.is_empty())?;
            let sample = Sample {
                value: values.into_iter().fold(0, i64::saturating_add),
                timestamp: item["timestamp"].as_str()?.parse().ok()?,
                window: item["window"].as_str().and_then(window).unwrap_or_default(),
            };
            Some((item["metadata"]["name"].as_str()?.to_owned(), sample))
        })
        .collect()
}

/// Parses a duration as Go formats it, such as `1m10.5s`.
fn window(text: &str) -> Option<SignedDuration> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn samples_are_of_pods_whose_every_container_was_measured() {
        let items = [
            json!({
                "metadata": {"name": "a"}, "timestamp": "2000-01-01T00:00:00Z", "window": "10.5s",
                "containers": [
                    {"name": "x", "usage": {"cpu": "1500u", "memory": "1Ki"}},
                    {"name": "y", "usage": {"cpu": "2"}},
                ],
            }),
            json!({"metadata": {"name": "b"}, "timestamp": "2000-01-01T00:00:00Z", "containers": []}),
        ];
        let value = |resource: &str, container: Option<&str>| {
            samples(&items, resource, container).get("a").map(|sample| sample.value)
        };
        assert_eq!(value("cpu", None), Some(2002));
        assert_eq!(value("cpu", Some("y")), Some(2000));
        assert_eq!(value("memory", None), None);
        assert_eq!(value("memory", Some("x")), Some(1_024_000));
        assert_eq!(value("cpu", Some("z")), None);
        let all = samples(&items, "cpu", None);
        assert_eq!((all.len(), all["a"].window), (1, SignedDuration::from_millis(10_500)));
    }

    #[test]
    fn selectors_print_as_in_go() {
        assert_eq!(selector_text(None), "nil");
        let selector = serde_json::from_value(json!({
            "matchLabels": {"a": "b"},
            "matchExpressions": [{"key": "c", "operator": "In", "values": ["d", "e"]}],
        }))
        .unwrap();
        assert_eq!(
            selector_text(Some(&selector)),
            "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{\
             LabelSelectorRequirement{Key:c,Operator:In,Values:[d e],},},}"
        );
    }
}
