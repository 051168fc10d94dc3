//! Calculates replicas from a resource metric, as kube-controller-manager does.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::{Container, Pod},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::ResourceExt as _;
use steersman_formats::quantity;

use super::super::pods::{self, phase};

/// Time after a pod's start in which its CPU usage may be due to initialization.
const CPU_INITIALIZATION_PERIOD: SignedDuration = SignedDuration::from_mins(5);
/// A pod that became unready within this time after its start counts as never ready.
const INITIAL_READINESS_DELAY: SignedDuration = SignedDuration::from_secs(30);
/// Default tolerance: how far usage may be from its target.
const TOLERANCE: f64 = 0.1;

/// Usage of a pod, in milli-units.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) value: i64,
    pub(super) timestamp: Timestamp,
    pub(super) window: SignedDuration,
}

/// Usage by pod name.
pub(super) type Samples = BTreeMap<String, Sample>;

/// How far usage may be from its target without scaling, as fractions of the target.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tolerances {
    pub(super) down: f64,
    pub(super) up: f64,
}

impl Default for Tolerances {
    fn default() -> Self {
        Self { down: TOLERANCE, up: TOLERANCE }
    }
}

impl Tolerances {
    fn contain(self, ratio: f64) -> bool {
        (1.0 - self.down) <= ratio && ratio <= (1.0 + self.up)
    }
}

/// The target of a metric.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target<'a> {
    /// Percentage of the requests of one container, or of whole pods.
    Utilization { percentage: i32, container: Option<&'a str> },
    /// Milli-units per pod.
    AverageValue(i64),
}

/// The replicas that a metric calls for, with its current value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Proposal {
    pub(super) replicas: i32,
    /// Percentage of the requests, for a utilization target.
    pub(super) utilization: Option<i32>,
    /// Milli-units per pod.
    pub(super) average: i64,
}

/// The input of the calculation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Observation<'a> {
    /// Current replicas of the target.
    pub(super) replicas: i32,
    /// `cpu`, `memory` or another resource.
    pub(super) resource: &'a str,
    /// All pods of the target.
    pub(super) pods: &'a [Arc<Pod>],
    pub(super) now: Timestamp,
}

/// Returns a quantity in milli-units, rounded up.
pub(super) fn milli(text: &str) -> i64 {
    let nanos = quantity::nanos(text);
    let thousandths = nanos / 1_000_000 + i128::from(nanos % 1_000_000 > 0);
    i64::try_from(thousandths).unwrap_or(i64::MAX)
}

/// Usage in relation to its target: the ratio of the two, the utilization, and the average.
#[derive(Debug, Clone, Copy)]
struct Ratio {
    ratio: f64,
    utilization: Option<i32>,
    average: i64,
}

/// A target with the data that it is compared to.
enum TargetValue {
    Requests { percentage: i32, requests: BTreeMap<String, i64> },
    Average(i64),
}

impl TargetValue {
    fn ratio(&self, samples: &Samples) -> Result<Ratio, String> {
        match self {
            Self::Requests { percentage, requests } => {
                let known = || samples.iter().filter_map(|(pod, sample)| Some((sample, requests.get(pod)?)));
                let used: i128 = known().map(|(sample, _)| i128::from(sample.value)).sum();
                let requested: i128 = known().map(|(_, request)| i128::from(*request)).sum();
                if requested == 0 {
                    return Err("no metrics returned matched known pods".to_owned());
                }
                let utilization = i32::try_from(used * 100 / requested).unwrap_or(i32::MAX);
                let count = i128::try_from(known().count()).unwrap_or(1).max(1);
                Ok(Ratio {
                    ratio: f64::from(utilization) / f64::from(*percentage),
                    utilization: Some(utilization),
                    average: i64::try_from(used / count).unwrap_or(i64::MAX),
                })
            }
            Self::Average(target) => {
                let used: i128 = samples.values().map(|sample| i128::from(sample.value)).sum();
                let count = i128::try_from(samples.len()).unwrap_or(1).max(1);
                let average = i64::try_from(used / count).unwrap_or(i64::MAX);
                Ok(Ratio { ratio: average as f64 / *target as f64, utilization: None, average })
            }
        }
    }

    /// Returns the assumed usage of a pod without metrics, when usage is below the target.
    fn stand_in(&self, pod: &str) -> i64 {
        match self {
            Self::Requests { percentage, requests } => {
                let request = requests.get(pod).copied().unwrap_or_default();
                request.saturating_mul(i64::from((*percentage).max(100))) / 100
            }
            Self::Average(target) => *target,
        }
    }
}

/// Calculates the replicas with which usage would be at its target.
///
/// # Errors
/// Fails with kube-controller-manager's message.
pub(super) fn propose(
    observation: Observation<'_>,
    target: Target<'_>,
    tolerances: Tolerances,
    mut samples: Samples,
) -> Result<Proposal, String> {
    let Observation { replicas: current, resource, pods, .. } = observation;
    if pods.is_empty() {
        return Err("no pods returned by selector while calculating replica count".to_owned());
    }
    let groups = group(observation, &samples);
    samples.retain(|pod, _| !groups.ignored.contains(pod) && !groups.unready.contains(pod));
    if samples.is_empty() {
        return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
    }
    let judge = match target {
        Target::Utilization { percentage, container } => {
            TargetValue::Requests { percentage, requests: requests(pods, container, resource)? }
        }
        Target::AverageValue(value) => TargetValue::Average(value),
    };
    let Ratio { ratio, utilization, average } = judge.ratio(&samples)?;
    let proposal = |replicas| Proposal { replicas, utilization, average };
    let is_up_with_unready = !groups.unready.is_empty() && ratio > 1.0;
    if !is_up_with_unready && groups.missing.is_empty() {
        return Ok(proposal(if tolerances.contain(ratio) { current } else { times(ratio, groups.ready) }));
    }
    // Missing values are assumed such that they dampen the change.
    let now = observation.now;
    let mut assume = |pod: &String, value| {
        samples.insert(pod.clone(), Sample { value, timestamp: now, window: SignedDuration::ZERO });
    };
    for pod in &groups.missing {
        if ratio < 1.0 {
            assume(pod, judge.stand_in(pod));
        } else if ratio > 1.0 {
            assume(pod, 0);
        }
    }
    if is_up_with_unready {
        groups.unready.iter().for_each(|pod| assume(pod, 0));
    }
    let with_assumed = judge.ratio(&samples)?.ratio;
    let turns = (ratio < 1.0 && with_assumed > 1.0) || (ratio > 1.0 && with_assumed < 1.0);
    if tolerances.contain(with_assumed) || turns {
        return Ok(proposal(current));
    }
    let replicas = times(with_assumed, samples.len());
    let turns = (with_assumed < 1.0 && replicas > current) || (with_assumed > 1.0 && replicas < current);
    Ok(proposal(if turns { current } else { replicas }))
}

/// Multiplies a count by a ratio and rounds up.
fn times(ratio: f64, count: usize) -> i32 {
    (ratio * count as f64).ceil() as i32
}

/// Pods grouped by what is known about them.
#[derive(Debug, Default)]
struct Groups {
    ready: usize,
    unready: BTreeSet<String>,
    missing: BTreeSet<String>,
    ignored: BTreeSet<String>,
}

fn group(observation: Observation<'_>, samples: &Samples) -> Groups {
    let mut groups = Groups::default();
    for pod in observation.pods {
        let name = pod.name_any();
        if pods::is_deleting(&**pod) || phase(pod) == "Failed" {
            groups.ignored.insert(name);
        } else if phase(pod) == "Pending" {
            groups.unready.insert(name);
        } else if let Some(sample) = samples.get(&name) {
            if observation.resource == "cpu" && is_unready(pod, sample, observation.now) {
                groups.unready.insert(name);
            } else {
                groups.ready += 1;
            }
        } else {
            groups.missing.insert(name);
        }
    }
    groups
}

/// Whether a pod's CPU usage is not meaningful yet.
fn is_unready(pod: &Pod, sample: &Sample, now: Timestamp) -> bool {
    let Some(status) = &pod.status else { return true };
    let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready");
    let (Some(ready), Some(start)) = (ready, &status.start_time) else { return true };
    let since = ready.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let is_false = ready.status == "False";
    if now.duration_since(start.0) < CPU_INITIALIZATION_PERIOD {
        // It is still starting, or was not ready for the whole of the metric's window.
        return is_false || sample.timestamp.duration_since(since) < sample.window;
    }
    is_false && since.duration_since(start.0) < INITIAL_READINESS_DELAY
}

/// Returns the requests of pods for a resource, in milli-units.
fn requests(
    pods: &[Arc<Pod>],
    container: Option<&str>,
    resource: &str,
) -> Result<BTreeMap<String, i64>, String> {
    pods.iter()
        .map(|pod| {
            let own = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.as_ref());
            let of_pod = own.filter(|requests| container.is_none() && !requests.is_empty());
            let request = match of_pod.and_then(|requests| requests.get(resource)) {
                Some(request) => milli(&request.0),
                None => container_requests(pod, container, resource)?,
            };
            Ok((pod.name_any(), request))
        })
        .collect()
}

/// Returns the requests of a pod's containers, or of one of them, in milli-units.
fn container_requests(pod: &Pod, container: Option<&str>, resource: &str) -> Result<i64, String> {
    let pod_name = pod.name_any();
    let sidecars = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars = sidecars.filter(|sidecar| sidecar.restart_policy.as_deref() == Some("Always"));
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers).chain(sidecars);
    let mut counted = containers.filter(|c| container.is_none_or(|name| c.name == name)).peekable();
    if let (Some(name), None) = (container, counted.peek()) {
        return Err(format!("container {name} not found in Pod {pod_name}"));
    }
    counted.try_fold(0_i64, |sum, counted| {
        let request = request(counted, resource).ok_or_else(|| {
            format!("missing request for {resource} in container {} of Pod {pod_name}", counted.name)
        })?;
        Ok(sum.saturating_add(milli(&request.0)))
    })
}

fn request<'a>(container: &'a Container, resource: &str) -> Option<&'a Quantity> {
    container.resources.as_ref()?.requests.as_ref()?.get(resource)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_000_000, 0);

    fn ago(seconds: i64) -> String {
        Timestamp::from_second(NOW.as_second() - seconds).unwrap().to_string()
    }

    /// A pod that started ten minutes ago and became ready at once.
    fn pod(name: &str, cpu: &str) -> Value {
        json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "100Mi"}}}]},
            "status": {
                "phase": "Running",
                "startTime": ago(600),
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": ago(600)}],
            },
        })
    }

    fn sample(value: i64) -> Sample {
        Sample { value, timestamp: NOW, window: SignedDuration::from_secs(10) }
    }

    fn calculate(
        replicas: i32,
        pods: Vec<Value>,
        used: &[(&str, i64)],
        target: Target<'_>,
    ) -> Result<Proposal, String> {
        let pods: Vec<Arc<Pod>> =
            pods.into_iter().map(|pod| Arc::new(serde_json::from_value(pod).unwrap())).collect();
        let observation = Observation { replicas, resource: "cpu", pods: &pods, now: NOW };
        let samples = used.iter().map(|(name, value)| ((*name).to_owned(), sample(*value))).collect();
        propose(observation, target, Tolerances::default(), samples)
    }

    fn three() -> Vec<Value> {
        vec![pod("a", "1"), pod("b", "1"), pod("c", "1")]
    }

    const HALF: Target<'_> = Target::Utilization { percentage: 50, container: None };

    #[test]
    fn replicas_follow_the_ratio_of_usage_to_target() {
        // 2400 of 3000 are 80 %, 1.6 times the target: 3 × 1.6 = 4.8.
        let used = [("a", 800), ("b", 800), ("c", 800)];
        let up = Proposal { replicas: 5, utilization: Some(80), average: 800 };
        assert_eq!(calculate(3, three(), &used, HALF), Ok(up));
        // 600 of 3000 are 20 %, 0.4 times the target: 3 × 0.4 = 1.2.
        let used = [("a", 200), ("b", 200), ("c", 200)];
        let down = Proposal { replicas: 2, utilization: Some(20), average: 200 };
        assert_eq!(calculate(3, three(), &used, HALF), Ok(down));
        // An average of 900 is 3 times 300: 9.
        let used = [("a", 900), ("b", 1000), ("c", 800)];
        let up = Proposal { replicas: 9, utilization: None, average: 900 };
        assert_eq!(calculate(3, three(), &used, Target::AverageValue(300)), Ok(up));
    }

    #[test]
    fn within_the_tolerance_nothing_changes() {
        // 55 % are 1.1 times the target, 45 % are 0.9 times: both just within.
        for value in [450, 550] {
            let used = [("a", value), ("b", value), ("c", value)];
            assert_eq!(calculate(3, three(), &used, HALF).unwrap().replicas, 3, "{value}");
        }
        // 56 % are 1.12 times the target: 3 × 1.12 = 3.36.
        let used = [("a", 560), ("b", 560), ("c", 560)];
        assert_eq!(calculate(3, three(), &used, HALF).unwrap().replicas, 4);
        let pods: Vec<Arc<Pod>> = vec![Arc::new(serde_json::from_value(pod("a", "1")).unwrap())];
        let observation = Observation { replicas: 1, resource: "cpu", pods: &pods, now: NOW };
        let wide = Tolerances { down: 0.1, up: 0.5 };
        let samples = || Samples::from([("a".to_owned(), sample(740))]);
        assert_eq!(propose(observation, HALF, wide, samples()).unwrap().replicas, 1);
        let narrow = Tolerances { down: 0.1, up: 0.0 };
        assert_eq!(propose(observation, HALF, narrow, samples()).unwrap().replicas, 2);
    }

    #[test]
    fn pods_without_metrics_dampen_the_change() {
        // Scaling up: c counts as 0. 2000 of 3000 are 66 %, 1.32 times the target: 3 × 1.32 = 3.96.
        let up = calculate(3, three(), &[("a", 1000), ("b", 1000)], HALF).unwrap();
        assert_eq!(up, Proposal { replicas: 4, utilization: Some(100), average: 1000 });
        // Scaling down: c counts as its whole request. 1200 of 3000 are 40 %, 0.8 times the target: 3 × 0.8 = 2.4.
        assert_eq!(calculate(3, three(), &[("a", 100), ("b", 100)], HALF).unwrap().replicas, 3);
        // 1020 of 3000 are 34 %, 0.68 times the target: 2.04.
        assert_eq!(calculate(4, three(), &[("a", 10), ("b", 10)], HALF).unwrap().replicas, 3);
        // With c at 0, up turns into down: nothing changes. 1200 of 3000 are 40 %.
        assert_eq!(calculate(3, three(), &[("a", 600), ("b", 600)], HALF).unwrap().replicas, 3);
        // With an average value, c counts as the target: (100 + 100 + 300) / 3 = 166, 0.55 times the target: 1.66.
        let value = Target::AverageValue(300);
        assert_eq!(calculate(3, three(), &[("a", 100), ("b", 100)], value).unwrap().replicas, 2);
    }

    #[test]
    fn pods_that_are_not_ready_count_as_idle_on_the_way_up_only() {
        let mut pods = three();
        pods[2]["status"]["conditions"][0]["status"] = "False".into();
        // 2000 of 3000 are 66 %: 3 × 1.32 = 3.96.
        let used = [("a", 1000), ("b", 1000), ("c", 1000)];
        assert_eq!(calculate(3, pods.clone(), &used, HALF).unwrap().replicas, 4);
        // Scaling down: 2 × 0.4 = 0.8.
        let used = [("a", 200), ("b", 200), ("c", 1000)];
        assert_eq!(calculate(3, pods.clone(), &used, HALF).unwrap().replicas, 1);
        // A pod that had been ready for long before counts.
        pods[2]["status"]["conditions"][0]["lastTransitionTime"] = ago(10).into();
        let used = [("a", 1000), ("b", 1000), ("c", 1000)];
        assert_eq!(calculate(3, pods, &used, HALF).unwrap().replicas, 6);
    }

    #[test]
    fn pods_that_start_count_after_one_window() {
        let started = |ready: i64| {
            let mut pod = pod("a", "1");
            pod["status"]["startTime"] = ago(30).into();
            pod["status"]["conditions"][0]["lastTransitionTime"] = ago(ready).into();
            calculate(1, vec![pod], &[("a", 1000)], HALF).map(|proposal| proposal.replicas)
        };
        assert_eq!(started(10), Ok(2));
        let unready = "did not receive metrics for targeted pods (pods might be unready)";
        assert_eq!(started(9), Err(unready.to_owned()));
    }

    #[test]
    fn pods_that_end_or_wait_are_left_out() {
        let mut pods = three();
        pods[0]["status"]["phase"] = "Failed".into();
        pods[1]["metadata"]["deletionTimestamp"] = ago(1).into();
        // 200 of 1000 are 0.4 times the target: 1 × 0.4.
        let used = [("a", 1000), ("b", 1000), ("c", 200)];
        assert_eq!(calculate(3, pods, &used, HALF).unwrap().replicas, 1);
        let mut pods = three();
        pods[0]["status"]["phase"] = "Pending".into();
        // 2000 of 3000 including the pending pod: 3 × 1.32.
        assert_eq!(calculate(3, pods, &[("b", 1000), ("c", 1000)], HALF).unwrap().replicas, 4);
    }

    #[test]
    fn what_is_missing_is_named() {
        let mut pods = three();
        pods[1]["spec"]["containers"][0]["resources"] = json!({});
        let used = [("a", 200)];
        let missing = "missing request for cpu in container c of Pod b";
        assert_eq!(calculate(3, pods, &used, HALF), Err(missing.to_owned()));
        let other = Target::Utilization { percentage: 50, container: Some("other") };
        assert_eq!(calculate(3, three(), &used, other), Err("container other not found in Pod a".to_owned()));
        let none = "no pods returned by selector while calculating replica count";
        assert_eq!(calculate(3, Vec::new(), &used, HALF), Err(none.to_owned()));
        let strange = calculate(1, vec![pod("a", "1")], &[("x", 200)], HALF);
        assert_eq!(strange, Err("no metrics returned matched known pods".to_owned()));
    }

    #[test]
    fn requests_are_of_one_container_of_the_pod_or_of_all() {
        let mut pod = pod("a", "100m");
        pod["spec"]["containers"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": "d", "resources": {"requests": {"cpu": "300m"}}}));
        pod["spec"]["initContainers"] = json!([
            {"name": "once"},
            {"name": "sidecar", "restartPolicy": "Always", "resources": {"requests": {"cpu": "0.0001"}}},
        ]);
        let read = |pod: &Value| vec![Arc::new(serde_json::from_value::<Pod>(pod.clone()).unwrap())];
        assert_eq!(requests(&read(&pod), None, "cpu").unwrap()["a"], 401);
        assert_eq!(requests(&read(&pod), Some("d"), "cpu").unwrap()["a"], 300);
        pod["spec"]["resources"] = json!({"requests": {"cpu": "2"}});
        assert_eq!(requests(&read(&pod), None, "cpu").unwrap()["a"], 2000);
        assert_eq!(requests(&read(&pod), Some("d"), "cpu").unwrap()["a"], 300);
    }

    #[test]
    fn thousandths_are_rounded_up() {
        assert_eq!([milli("1"), milli("1m"), milli("1n"), milli("0"), milli("1500u")], [1000, 1, 1, 0, 2]);
    }
}
