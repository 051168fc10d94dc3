//! HorizontalPodAutoscalers: scales their targets by resource metrics, within bounds and policies.
//!
//! Calculation, conditions and events are those of Kubernetes' `pkg/controller/podautoscaler`. An autoscaler is evaluated
//! every 15 seconds, and immediately when it changes, whereas the real controller waits 15 seconds.

mod behavior;
mod calculation;
mod memory;
mod metrics;
mod scale;

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::{
        autoscaling::v2::{
            HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerStatus,
            MetricStatus,
        },
        core::v1::Pod,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::ResourceExt as _;
use steersman_api::selector::LabelSelector;

pub(crate) use memory::Autoscalers;

use self::{
    behavior::NormalizationArg,
    metrics::{Computed, Context, Failure},
    scale::{RequestError, Scale},
};
use super::pods;
use crate::control_loop::{ControlLoop, Controller, NewEvent};

const NAME: &str = "horizontal-pod-autoscaler";
/// Interval between two evaluations of an autoscaler: the default of `--horizontal-pod-autoscaler-sync-period`.
const SYNC_PERIOD: Duration = Duration::from_secs(15);

/// An autoscaler under evaluation, with its new status and events.
struct Evaluation {
    scaler: Arc<HorizontalPodAutoscaler>,
    status: HorizontalPodAutoscalerStatus,
    now: Time,
    events: Vec<Report>,
}

/// An event to record.
struct Report {
    warning: bool,
    reason: &'static str,
    message: String,
}

impl Evaluation {
    fn set(&mut self, type_: &'static str, is_true: bool, reason: &'static str, message: impl Into<String>) {
        let status = if is_true { "True" } else { "False" };
        let conditions = self.status.conditions.get_or_insert_default();
        let index = conditions.iter().position(|c| c.type_ == type_).unwrap_or_else(|| {
            let new = HorizontalPodAutoscalerCondition { type_: type_.to_owned(), ..Default::default() };
            conditions.push(new);
            conditions.len() - 1
        });
        let condition = &mut conditions[index];
        if condition.status != status {
            condition.last_transition_time = Some(self.now.clone());
        }
        condition.status = status.to_owned();
        condition.reason = Some(reason.to_owned());
        condition.message = Some(message.into());
    }

    fn warn(&mut self, reason: &'static str, message: impl Into<String>) {
        self.events.push(Report { warning: true, reason, message: message.into() });
    }

    /// Sets the observed replicas and metrics in the status, before a decision.
    fn found(&mut self, replicas: i32, metrics: Option<Vec<MetricStatus>>) {
        self.status.current_replicas = Some(replicas);
        self.status.current_metrics = metrics;
        self.status.observed_generation = None;
    }
}

pub(super) async fn reconcile(control: &mut ControlLoop, namespace: &str, name: &str) -> kube::Result<()> {
    let Some(scaler) = control.caches.autoscalers.get(namespace, name) else {
        control.autoscalers.0.remove(&(namespace.to_owned(), name.to_owned()));
        return Ok(());
    };
    if pods::is_deleting(&*scaler) {
        return Ok(());
    }
    let now = control.clock.now();
    let memory = control.autoscalers.memory(&scaler);
    if !memory.is_open {
        if memory.next.is_some_and(|next| now < next) {
            return Ok(());
        }
        memory.next = Some(now + SYNC_PERIOD);
        memory.is_open = true;
        control.push_after(Controller::Autoscaler, namespace, name, SYNC_PERIOD);
    }
    let mut evaluation = Evaluation {
        status: scaler.status.clone().unwrap_or_default(),
        now: control.time(),
        events: Vec::new(),
        scaler,
    };
    evaluate(control, &mut evaluation).await?;
    finish(control, evaluation).await
}

/// Writes the status if it changed, and records the events.
async fn finish(control: &mut ControlLoop, evaluation: Evaluation) -> kube::Result<()> {
    let Evaluation { scaler, status, events, .. } = evaluation;
    if scaler.status.as_ref() != Some(&status) {
        let mut changed = (*scaler).clone();
        changed.status = Some(status);
        control.update_status(&changed).await?;
    }
    for Report { warning, reason, message } in events {
        let event = NewEvent { component: NAME, warning, reason, message: &message };
        control.record_event(&*scaler, event).await;
    }
    control.autoscalers.memory(&scaler).is_open = false;
    Ok(())
}

/// Evaluates an autoscaler and scales its target.
async fn evaluate(control: &mut ControlLoop, evaluation: &mut Evaluation) -> kube::Result<()> {
    let scaler = Arc::clone(&evaluation.scaler);
    let (namespace, spec) = (scaler.namespace().unwrap_or_default(), &scaler.spec);
    let target = match scale::read(control, &namespace, &spec.scale_target_ref).await {
        Ok(target) => target,
        Err(RequestError::Failed(error)) => return Err(error),
        Err(RequestError::Refused(why)) => {
            let message = format!("the HPA controller was unable to get the target's current scale: {why}");
            evaluation.set("AbleToScale", false, "FailedGetScale", message);
            evaluation.warn("FailedGetScale", why);
            return Ok(());
        }
    };
    let able = "the HPA controller was able to get the target's current scale";
    evaluation.set("AbleToScale", true, "SucceededGetScale", able);
    let (current, now) = (target.replicas, control.now());
    control.autoscalers.memory(&scaler).history.begin(current, now);
    let minimum = spec.min_replicas.unwrap_or(1);
    if current == 0 {
        let message = "scaling is disabled since the replica count of the target is zero";
        evaluation.set("ScalingActive", false, "ScalingDisabled", message);
        evaluation.found(current, None);
        evaluation.status.desired_replicas = current;
        return Ok(());
    }
    let bound = if current > spec.max_replicas {
        Some((spec.max_replicas, "Current number of replicas above Spec.MaxReplicas"))
    } else if current < minimum {
        Some((minimum, "Current number of replicas below Spec.MinReplicas"))
    } else {
        None
    };
    if let Some((desired, why)) = bound {
        let is_done = rescale(control, evaluation, &target, desired, why, None).await?;
        let memory = control.autoscalers.memory(&scaler);
        // Evaluate the new size at once, unless the target does not keep it.
        if is_done && !std::mem::replace(&mut memory.was_out_of_bounds, true) {
            memory.next = None;
            control.push(Controller::Autoscaler, &namespace, &scaler.name_any());
        }
        return Ok(());
    }
    control.autoscalers.memory(&scaler).was_out_of_bounds = false;
    let Some(computed) = compute_all(control, evaluation, &target).await? else { return Ok(()) };
    let why = if computed.replicas > current {
        format!("{} above target", computed.name)
    } else {
        "All metrics below target".to_owned()
    };
    let arg = NormalizationArg {
        behavior: spec.behavior.as_ref(),
        min: minimum,
        max: spec.max_replicas,
        current,
        desired: computed.replicas,
        now,
    };
    let decision = control.autoscalers.memory(&scaler).history.decide(arg);
    evaluation.set("AbleToScale", true, decision.able.0, decision.able.1);
    evaluation.set("ScalingLimited", decision.is_limited, decision.limited.0, decision.limited.1);
    if decision.replicas == current {
        evaluation.found(current, Some(computed.statuses));
        evaluation.status.desired_replicas = current;
        return Ok(());
    }
    rescale(control, evaluation, &target, decision.replicas, &why, Some(computed.statuses)).await?;
    Ok(())
}

/// Scales the target. Returns whether that succeeded.
async fn rescale(
    control: &mut ControlLoop,
    evaluation: &mut Evaluation,
    target: &Scale,
    desired: i32,
    why: &str,
    metrics: Option<Vec<MetricStatus>>,
) -> kube::Result<bool> {
    let scaler = Arc::clone(&evaluation.scaler);
    let (namespace, name) = (scaler.namespace().unwrap_or_default(), &scaler.spec.scale_target_ref.name);
    let current = target.replicas;
    evaluation.found(current, metrics);
    match scale::write(control, &namespace, name, target, desired).await {
        Ok(()) => {}
        Err(RequestError::Failed(error)) => return Err(error),
        Err(RequestError::Refused(error)) => {
            evaluation.warn("FailedRescale", format!("New size: {desired}; reason: {why}; error: {error}"));
            let message = format!("the HPA controller was unable to update the target scale: {error}");
            evaluation.set("AbleToScale", false, "FailedUpdateScale", message);
            return Ok(false);
        }
    }
    let message = format!("the HPA controller was able to update the target scale to {desired}");
    evaluation.set("AbleToScale", true, "SucceededRescale", message);
    let message = format!("New size: {desired}; reason: {why}");
    evaluation.events.push(Report { warning: false, reason: "SuccessfulRescale", message });
    let now = control.now();
    let history = &mut control.autoscalers.memory(&scaler).history;
    history.scaled(scaler.spec.behavior.as_ref(), current, desired, now);
    evaluation.status.desired_replicas = desired;
    evaluation.status.last_scale_time = Some(evaluation.now.clone());
    Ok(true)
}

/// The result of all metrics together.
struct ComputedAll {
    replicas: i32,
    name: String,
    statuses: Vec<MetricStatus>,
}

/// Returns the highest number of replicas that a metric calls for.
///
/// Returns `None` if it can't be computed, after setting conditions and events that say why.
async fn compute_all(
    control: &mut ControlLoop,
    evaluation: &mut Evaluation,
    target: &Scale,
) -> kube::Result<Option<ComputedAll>> {
    const FAILED: &str = "FailedComputeMetricsReplicas";
    let scaler = Arc::clone(&evaluation.scaler);
    let namespace = scaler.namespace().unwrap_or_default();
    let pods = match select_pods(control, evaluation, target) {
        Ok(pods) => pods,
        Err(why) => {
            evaluation.found(target.replicas, None);
            evaluation.warn(FAILED, why);
            return Ok(None);
        }
    };
    let specs = scaler.spec.metrics.as_deref().unwrap_or_default();
    let usage = match specs.iter().any(|spec| matches!(spec.type_.as_str(), "Resource" | "ContainerResource"))
    {
        true => match metrics::fetch(control, &namespace, &target.selector).await {
            Ok(items) => Ok(items),
            Err(RequestError::Refused(why)) => Err(why),
            Err(RequestError::Failed(error)) => return Err(error),
        },
        false => Ok(Vec::new()),
    };
    let context = Context {
        namespace: &namespace,
        replicas: target.replicas,
        pods: &pods,
        behavior: scaler.spec.behavior.as_ref(),
        now: control.now(),
        usage: usage.as_deref().map_err(String::as_str),
    };
    let mut all = ComputedAll { replicas: 0, name: String::new(), statuses: Vec::new() };
    let mut failures: Vec<Failure> = Vec::new();
    for spec in specs {
        match metrics::compute(context, spec) {
            Ok(Computed { replicas, name, status }) => {
                all.statuses.push(status);
                if all.replicas == 0 || replicas > all.replicas {
                    (all.replicas, all.name) = (replicas, name);
                }
            }
            Err(failure) => {
                all.statuses.push(MetricStatus::default());
                evaluation.warn(failure.reason, failure.why.clone());
                failures.push(failure);
            }
        }
    }
    if let Some(first) = failures.first()
        && (failures.len() == specs.len() || all.replicas < target.replicas)
    {
        let message = format!("the HPA was unable to compute the replica count: {}", first.why);
        evaluation.set("ScalingActive", false, first.reason, message);
        evaluation.found(target.replicas, Some(all.statuses));
        let (failed, count) = (failures.len(), specs.len());
        let why =
            format!("invalid metrics ({failed} invalid out of {count}), first error is: {}", first.summary);
        evaluation.warn(FAILED, why);
        return Ok(None);
    }
    let message = format!("the HPA was able to successfully calculate a replica count from {}", all.name);
    evaluation.set("ScalingActive", true, "ValidMetricFound", message);
    Ok(Some(all))
}

/// Returns the target's pods. Fails if another autoscaler scales them too.
fn select_pods(
    control: &mut ControlLoop,
    evaluation: &mut Evaluation,
    target: &Scale,
) -> Result<Vec<Arc<Pod>>, String> {
    if target.selector.is_empty() {
        let why = "selector is required";
        evaluation.warn("SelectorRequired", why);
        evaluation.set(
            "ScalingActive",
            false,
            "InvalidSelector",
            "the HPA target's scale is missing a selector",
        );
        return Err(why.to_owned());
    }
    let selector = LabelSelector::parse(&target.selector).map_err(|error| {
        let why = format!("couldn't convert selector into a corresponding internal selector object: {error}");
        evaluation.warn("InvalidSelector", why.clone());
        evaluation.set("ScalingActive", false, "InvalidSelector", why.clone());
        why
    })?;
    let namespace = evaluation.scaler.namespace().unwrap_or_default();
    let selects = |selector: &LabelSelector, pod: &Pod| selector.matches(&pod.labels().iter().collect());
    let pods: Vec<Arc<Pod>> =
        control.caches.pods.within(&namespace).filter(|pod| selects(&selector, pod)).cloned().collect();
    control.autoscalers.memory(&evaluation.scaler).selector = Some(selector);
    let others: Vec<String> = control
        .autoscalers
        .0
        .iter()
        .filter(|((of, _), memory)| {
            let selector = memory.selector.as_ref().filter(|_| *of == namespace);
            selector.is_some_and(|selector| pods.iter().any(|pod| selects(selector, pod)))
        })
        .map(|((namespace, name), _)| format!("{{{name} {namespace}}}"))
        .collect();
    if others.len() > 1 {
        let why = format!(
            "pods by selector {} are controlled by multiple HPAs: [{}]",
            target.selector,
            others.join(" ")
        );
        evaluation.warn("AmbiguousSelector", why.clone());
        evaluation.set("ScalingActive", false, "AmbiguousSelector", why.clone());
        return Err(why);
    }
    Ok(pods)
}
