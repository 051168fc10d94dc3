//! Jobs: run pods until enough have succeeded or too many have failed.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1::{Job, JobCondition, JobStatus, UncountedTerminatedPods},
    core::v1::{EnvVar, Pod},
};
use kube::{ResourceExt as _, api::ObjectMeta};

use super::{
    indexes::{self, Indexes},
    pods,
};
use crate::control_loop::{ControlLoop, Controller, NewEvent};

const NAME: &str = "job-controller";
const TRACKING: &str = "batch.kubernetes.io/job-tracking";
const FIRST_BACKOFF: u64 = 10;
const LAST_BACKOFF: u64 = 600;

/// Whether a job succeeds or fails, and why.
#[derive(Clone)]
struct Verdict {
    succeeded: bool,
    reason: Cow<'static, str>,
    message: Cow<'static, str>,
}

impl Verdict {
    /// Returns the types of two conditions: for the decision itself, and for when no pod of the job runs any more.
    fn conditions(&self) -> [&'static str; 2] {
        if self.succeeded { ["SuccessCriteriaMet", "Complete"] } else { ["FailureTarget", "Failed"] }
    }

    /// Returns the earlier decision: the pods that it was based on may be gone by now.
    fn before(status: &JobStatus) -> Option<Self> {
        let mut conditions = status.conditions.iter().flatten().filter(|c| c.status == "True");
        let said = conditions.find(|c| matches!(c.type_.as_str(), "SuccessCriteriaMet" | "FailureTarget"))?;
        Some(Self {
            succeeded: said.type_ == "SuccessCriteriaMet",
            reason: Cow::Owned(said.reason.clone().unwrap_or_default()),
            message: Cow::Owned(said.message.clone().unwrap_or_default()),
        })
    }
}

const REACHED: Verdict = Verdict {
    succeeded: true,
    reason: Cow::Borrowed("CompletionsReached"),
    message: Cow::Borrowed("Reached expected number of succeeded pods"),
};
const TOO_MANY: Verdict = Verdict {
    succeeded: false,
    reason: Cow::Borrowed("BackoffLimitExceeded"),
    message: Cow::Borrowed("Job has reached the specified backoff limit"),
};
const TOO_MANY_INDEXES: Verdict = Verdict {
    succeeded: false,
    reason: Cow::Borrowed("MaxFailedIndexesExceeded"),
    message: Cow::Borrowed("Job has exceeded the specified maximal number of failed indexes"),
};
const INDEXES_FAILED: Verdict = Verdict {
    succeeded: false,
    reason: Cow::Borrowed("FailedIndexes"),
    message: Cow::Borrowed("Job has failed indexes"),
};
const TOO_LONG: Verdict = Verdict {
    succeeded: false,
    reason: Cow::Borrowed("DeadlineExceeded"),
    message: Cow::Borrowed("Job was active longer than specified deadline"),
};

pub(super) async fn reconcile(control: &mut ControlLoop, namespace: &str, name: &str) -> kube::Result<()> {
    let Some(job) = control.caches.jobs.get(namespace, name) else { return Ok(()) };
    let spec = job.spec.clone().unwrap_or_default();
    if spec.managed_by.as_deref().is_some_and(|m| m != "kubernetes.io/job-controller") {
        return Ok(());
    }
    if pods::is_deleting(&*job) {
        return Ok(());
    }
    let own = match &spec.selector {
        Some(selector) => pods::claim(control, &*job, selector).await?,
        None => control.caches.pods.controlled_by(&job.uid().unwrap_or_default()).cloned().collect(),
    };
    if let Some(ended) = ended_at(&job) {
        remove_finalizers(control, &own).await?;
        return expire(control, &job, ended).await;
    }
    let mut sync = JobSync { job: Job::clone(&job), own };
    sync.run(control).await
}

/// Returns when the job finished.
fn ended_at(job: &Job) -> Option<Timestamp> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let over = conditions
        .iter()
        .find(|c| matches!(c.type_.as_str(), "Complete" | "Failed") && c.status == "True")?;
    over.last_transition_time.as_ref().map(|t| t.0)
}

/// Deletes a finished job after `ttlSecondsAfterFinished`.
async fn expire(control: &mut ControlLoop, job: &Job, ended: Timestamp) -> kube::Result<()> {
    let Some(ttl) = job.spec.as_ref().and_then(|s| s.ttl_seconds_after_finished) else { return Ok(()) };
    let due = ended.as_second().saturating_add(i64::from(ttl));
    let left = u64::try_from(due.saturating_sub(control.now().as_second())).unwrap_or_default();
    if left == 0 {
        return control.delete(job, None).await;
    }
    let namespace = job.namespace().unwrap_or_default();
    control.push_after(Controller::Job, &namespace, &job.name_any(), Duration::from_secs(left));
    Ok(())
}

/// Removes the tracking finalizer from pods that have been counted.
async fn remove_finalizers(control: &mut ControlLoop, own: &[Arc<Pod>]) -> kube::Result<()> {
    for pod in own.iter().filter(|p| p.finalizers().iter().any(|f| f == TRACKING)) {
        if control.is_spent() {
            break;
        }
        let mut free = Pod::clone(pod);
        free.finalizers_mut().retain(|f| f != TRACKING);
        match control.update(&free).await {
            Err(error) if crate::control_loop::is_not_found(&error) => {}
            other => drop(other?),
        }
    }
    Ok(())
}

/// Removes the tracking finalizer from a pod whose job is gone.
pub(super) async fn release_orphan(control: &mut ControlLoop, pod: &Arc<Pod>) -> kube::Result<()> {
    if !pod.finalizers().iter().any(|f| f == TRACKING) {
        return Ok(());
    }
    let owner = pod.owner_references().iter().find(|o| o.controller == Some(true) && o.kind == "Job");
    let namespace = pod.namespace().unwrap_or_default();
    let alive = owner.is_some_and(|o| {
        let job = control.caches.jobs.get(&namespace, &o.name);
        job.is_some_and(|j| j.uid().as_ref() == Some(&o.uid) && !pods::is_deleting(&*j))
    });
    if alive { Ok(()) } else { remove_finalizers(control, std::slice::from_ref(pod)).await }
}

struct JobSync {
    job: Job,
    own: Vec<Arc<Pod>>,
}

impl JobSync {
    async fn run(&mut self, control: &mut ControlLoop) -> kube::Result<()> {
        let spec = self.job.spec.clone().unwrap_or_default();
        let mut status = self.job.status.clone().unwrap_or_default();
        let suspended = spec.suspend == Some(true);
        if status.start_time.is_none() && !suspended {
            status.start_time = Some(control.time());
        }
        status.uncounted_terminated_pods.get_or_insert_with(UncountedTerminatedPods::default);
        let counted = self.count(&mut status);
        let active: Vec<Arc<Pod>> = self.own.iter().filter(|p| pods::is_active(p)).cloned().collect();
        let verdict = Verdict::before(&status).or_else(|| self.judge(control, &status));
        if verdict.is_some() || suspended {
            for pod in &active {
                if control.is_spent() {
                    break;
                }
                control.delete(&**pod, None).await?;
            }
            self.suspend(control, &mut status, suspended);
        } else {
            self.suspend(control, &mut status, false);
            self.manage_pods(control, &status, &active).await?;
        }
        let uid = self.job.uid().unwrap_or_default();
        let now_active: Vec<Arc<Pod>> =
            control.caches.pods.controlled_by(&uid).filter(|p| pods::is_active(p)).cloned().collect();
        status.active = i32::try_from(now_active.len()).ok().filter(|n| *n != 0);
        status.ready = i32::try_from(now_active.iter().filter(|p| pods::is_ready(p)).count()).ok();
        status.terminating = i32::try_from(
            control
                .caches
                .pods
                .controlled_by(&uid)
                .filter(|p| pods::is_deleting(&***p) && !pods::is_terminal(p))
                .count(),
        )
        .ok();
        let over = status.terminating.unwrap_or_default() == 0 && status.active.is_none();
        if let Some(verdict) = &verdict {
            conclude(control, &mut status, verdict, over);
        }
        if self.job.status.as_ref() != Some(&status) {
            self.job.status = Some(status);
            self.job = control.update_status(&self.job).await?;
        }
        remove_finalizers(control, &counted).await?;
        if let Some(verdict) = verdict.filter(|_| over) {
            let (reason, message, warning) = if verdict.succeeded {
                ("Completed", "Job completed", false)
            } else {
                (&*verdict.reason, &*verdict.message, true)
            };
            control.record_event(&self.job, NewEvent { component: NAME, warning, reason, message }).await;
        }
        Ok(())
    }

    /// Counts the pods that finished since the last reconcile, and returns them.
    fn count(&self, status: &mut JobStatus) -> Vec<Arc<Pod>> {
        let ended: Vec<Arc<Pod>> = self
            .own
            .iter()
            .filter(|p| pods::is_terminal(p) && p.finalizers().iter().any(|f| f == TRACKING))
            .cloned()
            .collect();
        let (good, bad): (Vec<_>, Vec<_>) = ended.iter().partition(|p| pods::phase(p) == "Succeeded");
        let add = |n: Option<i32>, more: usize| {
            let more = i32::try_from(more).unwrap_or(i32::MAX);
            Some(n.unwrap_or_default().saturating_add(more)).filter(|n| *n != 0)
        };
        status.failed = add(status.failed, bad.len());
        if self.is_indexed() {
            let mut done = done_indexes(status);
            done.extend(good.iter().filter_map(|p| indexes::of(p)));
            status.succeeded = Some(i32::try_from(done.len()).unwrap_or(i32::MAX)).filter(|n| *n != 0);
            status.completed_indexes = Some(done.to_string()).filter(|t| !t.is_empty());
            if let Some(limit) = self.limit_per_index() {
                let mut failed = failed_indexes(status);
                let spent = bad.iter().filter(|p| indexes::failures_before(p) >= limit);
                failed.extend(spent.filter_map(|p| indexes::of(p)).filter(|index| !done.contains(*index)));
                status.failed_indexes = Some(failed.to_string());
            }
        } else {
            status.succeeded = add(status.succeeded, good.len());
        }
        ended
    }

    fn is_indexed(&self) -> bool {
        self.job.spec.as_ref().and_then(|s| s.completion_mode.as_deref()) == Some("Indexed")
    }

    /// Returns the backoff limit per index, if the job has one.
    fn limit_per_index(&self) -> Option<i32> {
        self.job.spec.as_ref().and_then(|s| s.backoff_limit_per_index).filter(|_| self.is_indexed())
    }

    /// Decides whether the job succeeds or fails.
    ///
    /// Both may apply at once: failures take precedence, and the success policy is reported even if all indexes succeeded.
    fn judge(&self, control: &mut ControlLoop, status: &JobStatus) -> Option<Verdict> {
        self.failure(control, status)
            .or_else(|| self.failure_of_indexes(status))
            .or_else(|| self.success_by_policy(status))
            .or_else(|| self.success(status))
    }

    fn failure(&self, control: &mut ControlLoop, status: &JobStatus) -> Option<Verdict> {
        let spec = self.job.spec.as_ref()?;
        let limit = spec.backoff_limit.unwrap_or(6);
        if status.failed.unwrap_or_default() > limit || self.restarts() >= limit.max(1) {
            return Some(TOO_MANY);
        }
        let deadline = spec.active_deadline_seconds.filter(|_| spec.suspend != Some(true))?;
        let since = status.start_time.as_ref()?.0.as_second();
        let left = since.saturating_add(deadline).saturating_sub(control.now().as_second());
        if left <= 0 {
            return Some(TOO_LONG);
        }
        let delay = Duration::from_secs(u64::try_from(left).unwrap_or_default());
        let namespace = self.job.namespace().unwrap_or_default();
        control.push_after(Controller::Job, &namespace, &self.job.name_any(), delay);
        None
    }

    /// Returns how often containers were restarted in place, for restart policy `OnFailure`.
    fn restarts(&self) -> i32 {
        let template = self.job.spec.as_ref().and_then(|s| s.template.spec.as_ref());
        if template.and_then(|t| t.restart_policy.as_deref()) != Some("OnFailure") {
            return 0;
        }
        let under_way = self.own.iter().filter(|p| !pods::is_terminal(p)).filter_map(|p| p.status.as_ref());
        let containers = under_way
            .flat_map(|s| s.init_container_statuses.iter().chain(&s.container_statuses))
            .flatten()
            .map(|c| c.restart_count);
        containers.fold(0, i32::saturating_add)
    }

    fn failure_of_indexes(&self, status: &JobStatus) -> Option<Verdict> {
        self.limit_per_index()?;
        let spec = self.job.spec.as_ref()?;
        let (done, failed) = (done_indexes(status).len(), failed_indexes(status).len());
        if spec.max_failed_indexes.is_some_and(|most| failed > i64::from(most)) {
            return Some(TOO_MANY_INDEXES);
        }
        let total = i64::from(spec.completions.unwrap_or_default());
        (failed > 0 && done + failed >= total).then_some(INDEXES_FAILED)
    }

    fn success_by_policy(&self, status: &JobStatus) -> Option<Verdict> {
        let spec = self.job.spec.as_ref().filter(|_| self.is_indexed())?;
        let rule = indexes::rule_met(spec.success_policy.as_ref()?, &done_indexes(status))?;
        let message = Cow::Owned(format!("Matched rules at index {rule}"));
        Some(Verdict { succeeded: true, reason: Cow::Borrowed("SuccessPolicy"), message })
    }

    fn success(&self, status: &JobStatus) -> Option<Verdict> {
        let succeeded = status.succeeded.unwrap_or_default();
        let enough = match self.job.spec.as_ref()?.completions {
            Some(completions) => succeeded >= completions,
            // A work queue is done when one pod has succeeded and all others have ended.
            None => succeeded > 0 && !self.own.iter().any(|p| pods::is_active(p)),
        };
        enough.then_some(REACHED)
    }

    /// Sets the `Suspended` condition when the job is suspended or resumed.
    fn suspend(&self, control: &ControlLoop, status: &mut JobStatus, suspended: bool) {
        let known = status.conditions.iter().flatten().find(|c| c.type_ == "Suspended");
        let (is, reason, message) = match (suspended, known.map(|c| c.status.as_str())) {
            (true, None | Some("False")) => ("True", "JobSuspended", "Job suspended"),
            (false, Some("True")) => ("False", "JobResumed", "Job resumed"),
            _ => return,
        };
        status.start_time = (!suspended).then(|| control.time());
        let condition = condition(control, "Suspended", is, reason, message);
        let conditions = status.conditions.get_or_insert_default();
        conditions.retain(|c| c.type_ != "Suspended");
        conditions.push(condition);
    }

    /// Creates missing pods and deletes surplus ones.
    async fn manage_pods(
        &self,
        control: &mut ControlLoop,
        status: &JobStatus,
        active: &[Arc<Pod>],
    ) -> kube::Result<()> {
        let spec = self.job.spec.clone().unwrap_or_default();
        let parallelism = spec.parallelism.unwrap_or(1);
        let succeeded = status.succeeded.unwrap_or_default();
        let failed = i32::try_from(failed_indexes(status).len()).unwrap_or(i32::MAX);
        let wanted = match spec.completions {
            Some(completions) => {
                parallelism.min(completions.saturating_sub(succeeded).saturating_sub(failed))
            }
            None if succeeded > 0 => i32::try_from(active.len()).unwrap_or_default(),
            None => parallelism,
        };
        let wanted = usize::try_from(wanted).unwrap_or_default();
        if active.len() > wanted {
            let mut surplus = active.to_vec();
            pods::sort_for_deletion(&mut surplus);
            for pod in surplus.iter().take(active.len() - wanted) {
                if control.is_spent() {
                    break;
                }
                control.delete(&**pod, None).await?;
            }
            return Ok(());
        }
        let missing = wanted - active.len();
        if missing == 0 {
            return Ok(());
        }
        let namespace = self.job.namespace().unwrap_or_default();
        let each = self.limit_per_index().is_some();
        let delay = if each { Duration::ZERO } else { self.backoff(control, status) };
        if !delay.is_zero() {
            control.push_after(Controller::Job, &namespace, &self.job.name_any(), delay);
            return Ok(());
        }
        let failures = if each { self.failures_by_index() } else { BTreeMap::new() };
        // Indexes with a recently failed pod have to wait for their backoff.
        let waits: BTreeMap<i32, Duration> = failures
            .iter()
            .map(|(index, failures)| (*index, failures.wait(control)))
            .filter(|(_, wait)| !wait.is_zero())
            .collect();
        let taken = self.taken_indexes(status, active);
        if let Some(delay) = waits.iter().filter(|(index, _)| !taken.contains(**index)).map(|(_, w)| *w).min()
        {
            control.push_after(Controller::Job, &namespace, &self.job.name_any(), delay);
        }
        let total = spec.completions.unwrap_or_default();
        let mut free = taken.missing(total).filter(|index| !waits.contains_key(index));
        for _ in 0..missing {
            let index = if self.is_indexed() { free.next() } else { None };
            if self.is_indexed() && index.is_none() {
                break;
            }
            if control.should_hold_back_pods(&namespace) {
                return pods::record_held_back(control, &self.job, NAME).await;
            }
            let failed = index.and_then(|i| failures.get(&i)).map_or(0, |f| f.count);
            let pod = self.pod(index, failed);
            match control.create(&pod).await {
                Ok(made) => {
                    let message = format!("Created pod: {}", made.name_any());
                    let event = NewEvent {
                        component: NAME,
                        warning: false,
                        reason: "SuccessfulCreate",
                        message: &message,
                    };
                    control.record_event(&self.job, event).await;
                }
                Err(error) => {
                    let message = format!("Error creating: {}", super::replicaset::message(&error));
                    let event = NewEvent {
                        component: NAME,
                        warning: true,
                        reason: "FailedCreate",
                        message: &message,
                    };
                    control.record_event(&self.job, event).await;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Returns the remaining backoff after failures, before the next pod.
    fn backoff(&self, control: &ControlLoop, status: &JobStatus) -> Duration {
        let last = self.failed_pods().filter_map(|p| ended(p)).max();
        Failures { count: status.failed.unwrap_or_default(), last }.wait(control)
    }

    fn failed_pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.own.iter().filter(|p| pods::phase(p) == "Failed")
    }

    fn failures_by_index(&self) -> BTreeMap<i32, Failures> {
        let mut failures: BTreeMap<i32, Failures> = BTreeMap::new();
        for pod in self.failed_pods() {
            let Some(index) = indexes::of(pod) else { continue };
            let of = failures.entry(index).or_default();
            of.count = of.count.max(indexes::failures_before(pod).saturating_add(1));
            of.last = of.last.max(ended(pod));
        }
        failures
    }

    /// Returns the indexes that need no new pod: completed, failed, or with an active pod.
    fn taken_indexes(&self, status: &JobStatus, active: &[Arc<Pod>]) -> Indexes {
        let mut taken = done_indexes(status);
        taken.merge(&failed_indexes(status));
        taken.extend(active.iter().filter_map(|p| indexes::of(p)));
        taken
    }

    /// Returns the next pod, for an index with this number of earlier failures.
    fn pod(&self, index: Option<i32>, failed: i32) -> Pod {
        let template = self.job.spec.clone().unwrap_or_default().template;
        let name = self.job.name_any();
        let metadata: ObjectMeta = match index {
            Some(index) => pods::generated(&format!("{name}-{index}")),
            None => pods::generated(&name),
        };
        let mut pod = pods::from_template(&self.job, &template, metadata);
        pod.finalizers_mut().push(TRACKING.to_owned());
        if let Some(index) = index {
            let number = index.to_string();
            pod.annotations_mut().insert(indexes::INDEX.to_owned(), number.clone());
            pod.labels_mut().insert(indexes::INDEX.to_owned(), number.clone());
            if self.limit_per_index().is_some() {
                pod.annotations_mut().insert(indexes::FAILURES.to_owned(), failed.to_string());
            }
            if let Some(spec) = &mut pod.spec {
                spec.hostname = Some(format!("{name}-{number}"));
                for container in &mut spec.containers {
                    container.env.get_or_insert_default().push(EnvVar {
                        name: "JOB_COMPLETION_INDEX".to_owned(),
                        value: Some(number.clone()),
                        value_from: None,
                    });
                }
            }
        }
        pod
    }
}

/// Writes a decision to the status. The final condition follows only when `over`: the last pod has ended.
fn conclude(control: &ControlLoop, status: &mut JobStatus, verdict: &Verdict, over: bool) {
    status.active = None;
    status.ready = Some(0);
    if verdict.succeeded && over {
        status.completion_time = Some(control.time());
    }
    let conditions = status.conditions.get_or_insert_default();
    for type_ in verdict.conditions().into_iter().take(if over { 2 } else { 1 }) {
        if !conditions.iter().any(|c| c.type_ == type_) {
            conditions.push(condition(control, type_, "True", &verdict.reason, &verdict.message));
        }
    }
}

fn condition(control: &ControlLoop, type_: &str, status: &str, reason: &str, message: &str) -> JobCondition {
    JobCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(control.time()),
        last_transition_time: Some(control.time()),
    }
}

/// Returns the indexes with a succeeded pod.
fn done_indexes(status: &JobStatus) -> Indexes {
    Indexes::parse(status.completed_indexes.as_deref().unwrap_or_default())
}

/// Returns the failed indexes, for which no more pods are created.
fn failed_indexes(status: &JobStatus) -> Indexes {
    Indexes::parse(status.failed_indexes.as_deref().unwrap_or_default())
}

/// Failed pods: their number, and when the last one failed.
#[derive(Default)]
struct Failures {
    count: i32,
    last: Option<Timestamp>,
}

impl Failures {
    /// Returns the remaining backoff before the next pod.
    fn wait(&self, control: &ControlLoop) -> Duration {
        let count = u32::try_from(self.count).unwrap_or_default();
        let Some(last) = self.last.filter(|_| count > 0) else { return Duration::ZERO };
        let wait =
            FIRST_BACKOFF.saturating_mul(1_u64.checked_shl(count - 1).unwrap_or(u64::MAX)).min(LAST_BACKOFF);
        let passed = control.now().as_second().saturating_sub(last.as_second());
        Duration::from_secs(wait.saturating_sub(u64::try_from(passed).unwrap_or_default()))
    }
}

/// Returns when a pod ended.
///
/// That is when its last container ended; or when it became unready, if it failed before its containers started; or when it
/// was deleted; or its creation time, if a node rejected it.
fn ended(pod: &Pod) -> Option<Timestamp> {
    containers_ended(pod).or_else(|| unready_since(pod)).or_else(|| deleted(pod)).or_else(|| {
        let made = pod.metadata.creation_timestamp.as_ref()?;
        Some(made.0)
    })
}

/// Returns when the last container of a pod ended, if all containers and sidecars have.
fn containers_ended(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref()?;
    let starters = pod.spec.iter().flat_map(|s| s.init_containers.iter().flatten());
    let sidecars: BTreeSet<&str> =
        starters.filter(|c| c.restart_policy.as_deref() == Some("Always")).map(|c| c.name.as_str()).collect();
    let beside = status.init_container_statuses.iter().flatten();
    let beside = beside.filter(|c| sidecars.contains(c.name.as_str()));
    let mut last = None;
    for container in status.container_statuses.iter().flatten().chain(beside) {
        let at = container.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0;
        last = last.max(Some(at));
    }
    last
}

fn unready_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let unready = conditions.iter().find(|c| c.type_ == "Ready" && c.status == "False")?;
    unready.last_transition_time.as_ref().map(|t| t.0)
}

/// Returns when the deletion of a pod was requested.
fn deleted(pod: &Pod) -> Option<Timestamp> {
    let due = pod.metadata.deletion_timestamp.as_ref()?.0.as_second();
    let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or_default();
    Timestamp::from_second(due.saturating_sub(grace)).ok()
}
