//! The usage of simulated containers, derived from their requests or from annotations.

use serde_json::Value;
use steersman_api::status::quote;
use steersman_formats::quantity::Quantity;

use crate::annotations::{CPU_USAGE, MEMORY_USAGE};

/// Nano-units per unit.
const NANO: i128 = 1_000_000_000;
/// Usage of a container without a CPU request: 1m.
const SMALL_CPU: i128 = NANO / 1000;
/// Usage of a container without a memory request: 8Mi.
const SMALL_MEMORY: i128 = (8 << 20) * NANO;

/// Usage in billionths of a core and of a byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) cpu: i128,
    pub(super) memory: i128,
}

impl Usage {
    pub(super) fn plus(self, other: Self) -> Self {
        Self { cpu: self.cpu.saturating_add(other.cpu), memory: self.memory.saturating_add(other.memory) }
    }
}

/// The usage of a pod's running containers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PodUsage<'a> {
    /// Names of the containers, with the usage of each.
    pub(super) containers: Vec<(&'a str, Usage)>,
    /// Ignored annotations, with the reason for each.
    pub(super) ignored: Vec<String>,
}

impl PodUsage<'_> {
    pub(super) fn total(&self) -> Usage {
        self.containers.iter().fold(Usage::default(), |sum, (_, usage)| sum.plus(*usage))
    }
}

/// A resource with measured usage.
#[derive(Debug, Clone, Copy)]
struct Measured {
    /// Its name in requests.
    name: &'static str,
    annotation: &'static str,
    /// Usage of a container without a request.
    small: i128,
    /// The unit in which usage is reported.
    unit: i128,
}

const CPU: Measured = Measured { name: "cpu", annotation: CPU_USAGE, small: SMALL_CPU, unit: 1 };
const MEMORY: Measured =
    Measured { name: "memory", annotation: MEMORY_USAGE, small: SMALL_MEMORY, unit: NANO };

/// Usage as specified by an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnnotatedUsage {
    /// Billionths, for the whole pod.
    Amount(i128),
    /// Billionths of a percent of the requests.
    Percentage(i128),
}

impl AnnotatedUsage {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let amount = |text: &str| Some(Quantity::parse(text)?.nanos()).filter(|nanos| *nanos >= 0);
        match text.strip_suffix('%') {
            Some(percentage) => amount(percentage.trim_end()).map(Self::Percentage),
            None => amount(text).map(Self::Amount),
        }
    }
}

/// Measures the running containers of a pod. The pod's own annotations take precedence over its controller's.
pub(super) fn measure<'a>(pod: &'a Value, controller: Option<&Value>) -> PodUsage<'a> {
    let running = running_containers(pod);
    let mut usage = PodUsage::default();
    if running.is_empty() {
        return usage;
    }
    let cpu = amounts(CPU, pod, controller, &running, &mut usage.ignored);
    let memory = amounts(MEMORY, pod, controller, &running, &mut usage.ignored);
    usage.containers = running
        .iter()
        .zip(cpu.into_iter().zip(memory))
        .map(|(container, (cpu, memory))| {
            (container["name"].as_str().unwrap_or_default(), Usage { cpu, memory })
        })
        .collect();
    usage
}

/// Returns the running containers of a pod, sidecars last.
fn running_containers(pod: &Value) -> Vec<&Value> {
    let runs = |statuses: &str, container: &Value| {
        let mut statuses = pod["status"][statuses].as_array().into_iter().flatten();
        statuses.any(|s| s["name"] == container["name"] && s["state"]["running"].is_object())
    };
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let first = pod["spec"]["initContainers"].as_array().into_iter().flatten();
    containers
        .filter(|container| runs("containerStatuses", container))
        .chain(first.filter(|c| c["restartPolicy"] == "Always" && runs("initContainerStatuses", c)))
        .collect()
}

/// Returns the request for a resource, in billionths.
fn request(resources: &Value, name: &str) -> Option<i128> {
    match &resources["requests"][name] {
        Value::String(text) => Quantity::parse(text).map(Quantity::nanos),
        Value::Number(number) => Quantity::parse(&number.to_string()).map(Quantity::nanos),
        _ => None,
    }
}

/// Returns the usage of each running container.
fn amounts(
    measured: Measured,
    pod: &Value,
    controller: Option<&Value>,
    running: &[&Value],
    ignored: &mut Vec<String>,
) -> Vec<i128> {
    let requests: Vec<Option<i128>> =
        running.iter().map(|container| request(&container["resources"], measured.name)).collect();
    let own = requests.iter().flatten().copied().reduce(i128::saturating_add);
    // Pod-level requests take precedence over those of the containers.
    let total = request(&pod["spec"]["resources"], measured.name).or(own);
    let whole = |amount: i128| amount - amount % measured.unit;
    let text = |object: &'_ Value| {
        object["metadata"]["annotations"][measured.annotation].as_str().map(str::to_owned)
    };
    if let Some(text) = text(pod).or_else(|| controller.and_then(text)) {
        match (AnnotatedUsage::parse(&text), total) {
            (Some(AnnotatedUsage::Amount(amount)), _) => return spread(whole(amount), &requests, measured.unit),
            (Some(AnnotatedUsage::Percentage(share)), Some(total)) => {
                let amount = total.saturating_mul(share / (NANO / 1000)) / 100_000;
                return spread(whole(amount), &requests, measured.unit);
            }
            (Some(AnnotatedUsage::Percentage(_)), None) => ignored.push(format!(
                "{}: {} is relative to requests: the containers have none for {}",
                measured.annotation,
                shown(&text),
                measured.name
            )),
            (None, _) => ignored.push(format!(
                "{}: {} is neither a quantity such as 450m or 64Mi nor a percentage of the requests such as 90%",
                measured.annotation,
                shown(&text)
            )),
        }
    }
    match (own, total) {
        (None, Some(total)) => spread(whole(total / 2), &requests, measured.unit),
        _ => requests.iter().map(|r| r.map_or(measured.small, |request| whole(request / 2))).collect(),
    }
}

/// Quotes the value of an annotation for messages. It is truncated, since anyone who may write pods controls it.
fn shown(text: &str) -> String {
    const MOST: usize = 40;
    quote(&text.chars().take(MOST).collect::<String>())
}

/// Divides an amount in proportion to requests, or evenly without any. The first container gets the remainder.
fn spread(amount: i128, requests: &[Option<i128>], unit: i128) -> Vec<i128> {
    let has_requests = requests.iter().flatten().any(|request| *request > 0);
    let mut weights: Vec<i128> =
        requests.iter().map(|r| if has_requests { r.unwrap_or(0).max(0) } else { 1 }).collect();
    // Keeps the product with any amount within range.
    while weights.iter().any(|weight| *weight > i128::from(u32::MAX)) {
        weights.iter_mut().for_each(|weight| *weight /= 2);
    }
    let sum: i128 = weights.iter().sum::<i128>().max(1);
    let mut shares: Vec<i128> = weights
        .iter()
        .map(|weight| {
            let share = amount.saturating_mul(*weight) / sum;
            share - share % unit
        })
        .collect();
    let rest = amount - shares.iter().sum::<i128>();
    if let Some(first) = shares.first_mut() {
        *first += rest;
    }
    shares
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MILLI: i128 = NANO / 1000;
    const MI: i128 = (1 << 20) * NANO;

    fn pod(annotations: Value, containers: &[(&str, Value)]) -> Value {
        let specs: Vec<Value> = containers
            .iter()
            .map(|(name, requests)| json!({"name": name, "resources": {"requests": requests}}))
            .collect();
        let statuses: Vec<Value> =
            containers.iter().map(|(name, _)| json!({"name": name, "state": {"running": {}}})).collect();
        json!({
            "metadata": {"name": "web", "annotations": annotations},
            "spec": {"containers": specs},
            "status": {"phase": "Running", "containerStatuses": statuses},
        })
    }

    fn cpu(pod: &Value, controller: Option<&Value>) -> Vec<i128> {
        measure(pod, controller).containers.iter().map(|(_, usage)| usage.cpu).collect()
    }

    fn memory(pod: &Value) -> Vec<i128> {
        measure(pod, None).containers.iter().map(|(_, usage)| usage.memory).collect()
    }

    #[test]
    fn half_of_the_requests_is_used_and_little_without_them() {
        let pod = pod(json!({}), &[("a", json!({"cpu": "300m", "memory": "65"})), ("b", json!({}))]);
        assert_eq!(cpu(&pod, None), [150 * MILLI, MILLI]);
        assert_eq!(memory(&pod), [32 * NANO, 8 * MI]);
    }

    #[test]
    fn requests_of_the_pod_are_spread() {
        let mut pod = pod(json!({}), &[("a", json!({})), ("b", json!({}))]);
        pod["spec"]["resources"] = json!({"requests": {"cpu": "1"}});
        assert_eq!(cpu(&pod, None), [250 * MILLI, 250 * MILLI]);
        assert_eq!(memory(&pod), [8 * MI, 8 * MI]);
    }

    #[test]
    fn quantities_are_for_the_pod_and_percentages_of_its_requests() {
        let containers = [("a", json!({"cpu": "100m"})), ("b", json!({"cpu": "300m"}))];
        let given = |text: &str| pod(json!({CPU_USAGE: text}), &containers);
        assert_eq!(cpu(&given("1"), None), [250 * MILLI, 750 * MILLI]);
        assert_eq!(cpu(&given("90%"), None), [90 * MILLI, 270 * MILLI]);
        assert_eq!(cpu(&given("12.5%"), None), [MILLI * 25 / 2, MILLI * 75 / 2]);
        assert_eq!(cpu(&given("0"), None), [0, 0]);
        let even = pod(json!({MEMORY_USAGE: "10"}), &[("a", json!({})), ("b", json!({})), ("c", json!({}))]);
        assert_eq!(memory(&even), [4 * NANO, 3 * NANO, 3 * NANO]);
    }

    #[test]
    fn annotations_of_the_controller_count_unless_the_pod_has_its_own() {
        let controller = json!({"metadata": {"annotations": {CPU_USAGE: "1"}}});
        let containers = [("a", json!({"cpu": "100m"}))];
        assert_eq!(cpu(&pod(json!({}), &containers), Some(&controller)), [NANO]);
        assert_eq!(cpu(&pod(json!({CPU_USAGE: "2"}), &containers), Some(&controller)), [2 * NANO]);
    }

    #[test]
    fn values_that_cannot_be_read_are_ignored_and_reported() {
        for text in ["", "much", "-1", "-5%", "%", "1 core", "90%%", "NaN"] {
            let pod = pod(json!({CPU_USAGE: text}), &[("a", json!({"cpu": "100m"}))]);
            let usage = measure(&pod, None);
            assert_eq!(usage.containers[0].1.cpu, 50 * MILLI, "{text}");
            assert_eq!(usage.ignored.len(), 1, "{text}");
        }
        let hostile = pod(json!({CPU_USAGE: format!("\n{}", "x".repeat(100_000))}), &[("a", json!({}))]);
        let ignored = measure(&hostile, None).ignored;
        assert!(ignored[0].len() < 250 && !ignored[0].contains('\n'), "{ignored:?}");
        let none = pod(json!({CPU_USAGE: "90%"}), &[("a", json!({}))]);
        let usage = measure(&none, None);
        assert_eq!((usage.containers[0].1.cpu, usage.ignored.len()), (MILLI, 1));
    }

    #[test]
    fn huge_values_do_not_overflow() {
        let requests = json!({"cpu": "9223372036854775807E", "memory": "9223372036854775807Ei"});
        let containers = [("a", requests.clone()), ("b", requests)];
        for text in ["9223372036854775807E", "9223372036854775807E%", "1e400", "1e400%"] {
            let pod = pod(json!({CPU_USAGE: text, MEMORY_USAGE: text}), &containers);
            let usage = measure(&pod, None);
            assert!(usage.total().cpu > 0 && usage.total().memory > 0, "{text}: {usage:?}");
        }
    }

    #[test]
    fn containers_that_do_not_run_use_nothing() {
        let mut pod = pod(json!({CPU_USAGE: "1"}), &[("a", json!({})), ("b", json!({}))]);
        pod["status"]["containerStatuses"][0]["state"] = json!({"waiting": {}});
        pod["spec"]["initContainers"] =
            json!([{"name": "once"}, {"name": "sidecar", "restartPolicy": "Always"}]);
        pod["status"]["initContainerStatuses"] = json!([
            {"name": "once", "state": {"running": {}}},
            {"name": "sidecar", "state": {"running": {}}},
        ]);
        let usage = measure(&pod, None);
        let names: Vec<_> = usage.containers.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["b", "sidecar"]);
        assert_eq!(usage.total().cpu, NANO);
    }
}
