//! Jobs: pods until enough have succeeded, or too many have failed.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1::{Job, JobCondition, JobStatus, UncountedTerminatedPods},
    core::v1::{EnvVar, Pod},
};
use kube::{ResourceExt as _, api::ObjectMeta};

use super::{indexes, pods};
use crate::world::{Duty, Notice, World};

const NAME: &str = "job-controller";
const TRACKING: &str = "batch.kubernetes.io/job-tracking";
const FIRST_BACKOFF: u64 = 10;
const LAST_BACKOFF: u64 = 600;

/// Why a job ends.
#[derive(Clone)]
struct Verdict {
    succeeded: bool,
    reason: &'static str,
    message: Cow<'static, str>,
}

const REACHED: Verdict = Verdict {
    succeeded: true,
    reason: "CompletionsReached",
    message: Cow::Borrowed("Reached expected number of succeeded pods"),
};
const TOO_MANY: Verdict = Verdict {
    succeeded: false,
    reason: "BackoffLimitExceeded",
    message: Cow::Borrowed("Job has reached the specified backoff limit"),
};
const TOO_MANY_INDEXES: Verdict = Verdict {
    succeeded: false,
    reason: "MaxFailedIndexesExceeded",
    message: Cow::Borrowed("Job has exceeded the specified maximal number of failed indexes"),
};
const INDEXES_FAILED: Verdict =
    Verdict { succeeded: false, reason: "FailedIndexes", message: Cow::Borrowed("Job has failed indexes") };
const TOO_LONG: Verdict = Verdict {
    succeeded: false,
    reason: "DeadlineExceeded",
    message: Cow::Borrowed("Job was active longer than specified deadline"),
};

pub(super) async fn look(world: &mut World, namespace: &str, name: &str) -> kube::Result<()> {
    let Some(job) = world.caches.jobs.get(namespace, name) else { return Ok(()) };
    let spec = job.spec.clone().unwrap_or_default();
    if spec.managed_by.as_deref().is_some_and(|m| m != "kubernetes.io/job-controller") {
        return Ok(());
    }
    if pods::is_deleting(&*job) {
        return Ok(());
    }
    let own = match &spec.selector {
        Some(selector) => pods::claim(world, &*job, selector).await?,
        None => world.caches.pods.controlled_by(&job.uid().unwrap_or_default()).cloned().collect(),
    };
    if let Some(ended) = ended_at(&job) {
        let_go(world, &own).await?;
        return expire(world, &job, ended).await;
    }
    let mut work = Work { job: Job::clone(&job), own };
    work.work(world).await
}

/// When the job was over.
fn ended_at(job: &Job) -> Option<Timestamp> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let over = conditions
        .iter()
        .find(|c| matches!(c.type_.as_str(), "Complete" | "Failed") && c.status == "True")?;
    over.last_transition_time.as_ref().map(|t| t.0)
}

/// Deletes a job that has been over for long enough.
async fn expire(world: &mut World, job: &Job, ended: Timestamp) -> kube::Result<()> {
    let Some(ttl) = job.spec.as_ref().and_then(|s| s.ttl_seconds_after_finished) else { return Ok(()) };
    let due = ended.as_second().saturating_add(i64::from(ttl));
    let left = u64::try_from(due.saturating_sub(world.now().as_second())).unwrap_or_default();
    if left == 0 {
        return world.delete(job, None).await;
    }
    let namespace = job.namespace().unwrap_or_default();
    world.push_after(Duty::Job, &namespace, &job.name_any(), Duration::from_secs(left));
    Ok(())
}

/// Removes the finalizer of pods that nobody counts any more.
async fn let_go(world: &mut World, own: &[Arc<Pod>]) -> kube::Result<()> {
    for pod in own.iter().filter(|p| p.finalizers().iter().any(|f| f == TRACKING)) {
        let mut free = Pod::clone(pod);
        free.finalizers_mut().retain(|f| f != TRACKING);
        match world.update(&free).await {
            Err(error) if crate::world::is_missing(&error) => {}
            other => drop(other?),
        }
    }
    Ok(())
}

/// Removes the finalizer of a pod whose job is gone.
pub(super) async fn release_orphan(world: &mut World, pod: &Arc<Pod>) -> kube::Result<()> {
    if !pod.finalizers().iter().any(|f| f == TRACKING) {
        return Ok(());
    }
    let owner = pod.owner_references().iter().find(|o| o.controller == Some(true) && o.kind == "Job");
    let namespace = pod.namespace().unwrap_or_default();
    let alive = owner.is_some_and(|o| {
        let job = world.caches.jobs.get(&namespace, &o.name);
        job.is_some_and(|j| j.uid().as_ref() == Some(&o.uid) && !pods::is_deleting(&*j))
    });
    if alive { Ok(()) } else { let_go(world, std::slice::from_ref(pod)).await }
}

struct Work {
    job: Job,
    own: Vec<Arc<Pod>>,
}

impl Work {
    async fn work(&mut self, world: &mut World) -> kube::Result<()> {
        let spec = self.job.spec.clone().unwrap_or_default();
        let mut status = self.job.status.clone().unwrap_or_default();
        let suspended = spec.suspend == Some(true);
        if status.start_time.is_none() && !suspended {
            status.start_time = Some(world.time());
        }
        status.uncounted_terminated_pods.get_or_insert_with(UncountedTerminatedPods::default);
        let counted = self.count(&mut status);
        let active: Vec<Arc<Pod>> = self.own.iter().filter(|p| pods::is_active(p)).cloned().collect();
        let verdict = self.judge(world, &status);
        if verdict.is_some() || suspended {
            for pod in &active {
                world.delete(&**pod, None).await?;
            }
            self.suspend(world, &mut status, suspended);
        } else {
            self.suspend(world, &mut status, false);
            self.fill(world, &status, &active).await?;
        }
        let uid = self.job.uid().unwrap_or_default();
        let now_active: Vec<Arc<Pod>> =
            world.caches.pods.controlled_by(&uid).filter(|p| pods::is_active(p)).cloned().collect();
        status.active = i32::try_from(now_active.len()).ok().filter(|n| *n != 0);
        status.ready = i32::try_from(now_active.iter().filter(|p| pods::is_ready(p)).count()).ok();
        status.terminating = i32::try_from(
            world
                .caches
                .pods
                .controlled_by(&uid)
                .filter(|p| pods::is_deleting(&***p) && !pods::is_over(p))
                .count(),
        )
        .ok();
        if let Some(verdict) = &verdict {
            self.conclude(world, &mut status, verdict);
        }
        if self.job.status.as_ref() != Some(&status) {
            self.job.status = Some(status);
            self.job = world.update_status(&self.job).await?;
        }
        let_go(world, &counted).await?;
        if let Some(verdict) = &verdict {
            let (reason, message, warning) = if verdict.succeeded {
                ("Completed", "Job completed", false)
            } else {
                (verdict.reason, &*verdict.message, true)
            };
            world.tell(&self.job, Notice { from: NAME, warning, reason, message }).await;
        }
        Ok(())
    }

    /// Counts the pods that ended since the last time, and gives them.
    fn count(&self, status: &mut JobStatus) -> Vec<Arc<Pod>> {
        let ended: Vec<Arc<Pod>> = self
            .own
            .iter()
            .filter(|p| pods::is_over(p) && p.finalizers().iter().any(|f| f == TRACKING))
            .cloned()
            .collect();
        let (good, bad): (Vec<_>, Vec<_>) = ended.iter().partition(|p| pods::phase(p) == "Succeeded");
        let add = |n: Option<i32>, more: usize| {
            Some(n.unwrap_or_default() + i32::try_from(more).unwrap_or(i32::MAX)).filter(|n| *n != 0)
        };
        status.failed = add(status.failed, bad.len());
        if self.is_indexed() {
            let mut done = indexes::parse(status.completed_indexes.as_deref().unwrap_or_default());
            done.extend(good.iter().filter_map(|p| indexes::of(p)));
            status.succeeded = add(None, done.len());
            status.completed_indexes = Some(indexes::write(&done)).filter(|t| !t.is_empty());
            if let Some(limit) = self.limit_per_index() {
                let mut failed = failed_indexes(status);
                let spent = bad.iter().filter(|p| indexes::failures_before(p) >= limit);
                failed.extend(spent.filter_map(|p| indexes::of(p)).filter(|index| !done.contains(index)));
                status.failed_indexes = Some(indexes::write(&failed));
            }
        } else {
            status.succeeded = add(status.succeeded, good.len());
        }
        ended
    }

    fn is_indexed(&self) -> bool {
        self.job.spec.as_ref().and_then(|s| s.completion_mode.as_deref()) == Some("Indexed")
    }

    /// How many failures each index may have, if each is counted by itself.
    fn limit_per_index(&self) -> Option<i32> {
        self.job.spec.as_ref().and_then(|s| s.backoff_limit_per_index).filter(|_| self.is_indexed())
    }

    /// What the indexes that are done or have failed mean for the job.
    fn judge_indexes(&self, status: &JobStatus) -> Option<Verdict> {
        let spec = self.job.spec.as_ref().filter(|_| self.is_indexed())?;
        let done = indexes::parse(status.completed_indexes.as_deref().unwrap_or_default());
        let met = spec.success_policy.as_ref().and_then(|policy| indexes::rule_met(policy, &done));
        if let Some(rule) = met {
            let message = Cow::Owned(format!("Matched rules at index {rule}"));
            return Some(Verdict { succeeded: true, reason: "SuccessPolicy", message });
        }
        let failed = failed_indexes(status).len();
        let most = spec.max_failed_indexes.and_then(|n| usize::try_from(n).ok());
        if most.is_some_and(|most| failed > most) {
            return Some(TOO_MANY_INDEXES);
        }
        let total = usize::try_from(spec.completions.unwrap_or_default()).unwrap_or_default();
        (failed > 0 && done.len() + failed >= total).then_some(INDEXES_FAILED)
    }

    fn judge(&self, world: &mut World, status: &JobStatus) -> Option<Verdict> {
        // A policy is what made a job succeed even if all of its indexes did.
        if let Some(verdict) = self.judge_indexes(status) {
            return Some(verdict);
        }
        let spec = self.job.spec.clone().unwrap_or_default();
        let succeeded = status.succeeded.unwrap_or_default();
        let running = self.own.iter().any(|p| pods::is_active(p));
        let enough = match spec.completions {
            Some(completions) => succeeded >= completions,
            // A work queue is done when one found it empty and the others have ended.
            None => succeeded > 0 && !running,
        };
        if enough {
            return Some(REACHED);
        }
        // Containers that are restarted in place count too.
        let restarts: i32 = self
            .own
            .iter()
            .filter(|p| pods::is_active(p))
            .flat_map(|p| p.status.iter().flat_map(|s| s.container_statuses.iter().flatten()))
            .map(|c| c.restart_count)
            .sum();
        let limit = spec.backoff_limit.unwrap_or(6);
        if status.failed.unwrap_or_default() > limit || (limit > 0 && restarts >= limit) {
            return Some(TOO_MANY);
        }
        let deadline = spec.active_deadline_seconds.filter(|_| spec.suspend != Some(true))?;
        let since = status.start_time.as_ref()?.0.as_second();
        let left = since.saturating_add(deadline).saturating_sub(world.now().as_second());
        if left <= 0 {
            return Some(TOO_LONG);
        }
        let delay = Duration::from_secs(u64::try_from(left).unwrap_or_default());
        let namespace = self.job.namespace().unwrap_or_default();
        world.push_after(Duty::Job, &namespace, &self.job.name_any(), delay);
        None
    }

    /// Says that the job is suspended, or no longer is.
    fn suspend(&self, world: &World, status: &mut JobStatus, suspended: bool) {
        let known = status.conditions.iter().flatten().find(|c| c.type_ == "Suspended");
        let (is, reason, message) = match (suspended, known.map(|c| c.status.as_str())) {
            (true, None | Some("False")) => ("True", "JobSuspended", "Job suspended"),
            (false, Some("True")) => ("False", "JobResumed", "Job resumed"),
            _ => return,
        };
        status.start_time = (!suspended).then(|| world.time());
        let condition = condition(world, "Suspended", is, reason, message);
        let conditions = status.conditions.get_or_insert_default();
        conditions.retain(|c| c.type_ != "Suspended");
        conditions.push(condition);
    }

    /// Makes the pods that are missing and takes those that are too many.
    async fn fill(&self, world: &mut World, status: &JobStatus, active: &[Arc<Pod>]) -> kube::Result<()> {
        let spec = self.job.spec.clone().unwrap_or_default();
        let parallelism = spec.parallelism.unwrap_or(1);
        let succeeded = status.succeeded.unwrap_or_default();
        let failed = i32::try_from(failed_indexes(status).len()).unwrap_or(i32::MAX);
        let wanted = match spec.completions {
            Some(completions) => parallelism.min(completions - succeeded - failed),
            None if succeeded > 0 => i32::try_from(active.len()).unwrap_or_default(),
            None => parallelism,
        };
        let wanted = usize::try_from(wanted).unwrap_or_default();
        if active.len() > wanted {
            let mut surplus = active.to_vec();
            pods::by_worth(&mut surplus);
            for pod in surplus.iter().take(active.len() - wanted) {
                world.delete(&**pod, None).await?;
            }
            return Ok(());
        }
        let missing = wanted - active.len();
        if missing == 0 {
            return Ok(());
        }
        let namespace = self.job.namespace().unwrap_or_default();
        let each = self.limit_per_index().is_some();
        let delay = if each { Duration::ZERO } else { self.backoff(world, status) };
        if !delay.is_zero() {
            world.push_after(Duty::Job, &namespace, &self.job.name_any(), delay);
            return Ok(());
        }
        let mut free = self.free_indexes(status, active);
        if each {
            let delays: Vec<Duration> = free.iter().map(|i| self.backoff_of(world, *i)).collect();
            if let Some(delay) = delays.iter().filter(|d| !d.is_zero()).min() {
                world.push_after(Duty::Job, &namespace, &self.job.name_any(), *delay);
            }
            let mut delays = delays.iter();
            free.retain(|_| delays.next().is_none_or(Duration::is_zero));
        }
        for number in 0..missing {
            let index = free.get(number).copied();
            if self.is_indexed() && index.is_none() {
                break;
            }
            let pod = self.pod(index.filter(|_| self.is_indexed()));
            match world.create(&pod).await {
                Ok(made) => {
                    let message = format!("Created pod: {}", made.name_any());
                    let notice =
                        Notice { from: NAME, warning: false, reason: "SuccessfulCreate", message: &message };
                    world.tell(&self.job, notice).await;
                }
                Err(error) => {
                    let message = format!("Error creating: {}", super::replicaset::message(&error));
                    let notice =
                        Notice { from: NAME, warning: true, reason: "FailedCreate", message: &message };
                    world.tell(&self.job, notice).await;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// How long to wait after failures before the next pod.
    fn backoff(&self, world: &World, status: &JobStatus) -> Duration {
        let failures = status.failed.unwrap_or_default();
        wait_after(world, failures, self.own.iter().filter(|p| pods::phase(p) == "Failed"))
    }

    /// The same for the next pod of an index.
    fn backoff_of(&self, world: &World, index: i32) -> Duration {
        wait_after(world, self.failures_of(index), self.failed_pods_of(index))
    }

    fn failed_pods_of(&self, index: i32) -> impl Iterator<Item = &Arc<Pod>> {
        self.own.iter().filter(move |p| pods::phase(p) == "Failed" && indexes::of(p) == Some(index))
    }

    /// How many pods of an index have failed.
    fn failures_of(&self, index: i32) -> i32 {
        self.failed_pods_of(index).map(|p| indexes::failures_before(p) + 1).max().unwrap_or_default()
    }

    fn free_indexes(&self, status: &JobStatus, active: &[Arc<Pod>]) -> Vec<i32> {
        let total = self.job.spec.as_ref().and_then(|s| s.completions).unwrap_or_default();
        let mut taken = indexes::parse(status.completed_indexes.as_deref().unwrap_or_default());
        taken.extend(failed_indexes(status));
        taken.extend(active.iter().filter_map(|p| indexes::of(p)));
        (0..total).filter(|i| !taken.contains(i)).collect()
    }

    fn pod(&self, index: Option<i32>) -> Pod {
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
                let failures = self.failures_of(index).to_string();
                pod.annotations_mut().insert(indexes::FAILURES.to_owned(), failures);
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

    fn conclude(&self, world: &World, status: &mut JobStatus, verdict: &Verdict) {
        let (first, last) =
            if verdict.succeeded { ("SuccessCriteriaMet", "Complete") } else { ("FailureTarget", "Failed") };
        status.active = None;
        status.ready = Some(0);
        if verdict.succeeded {
            status.completion_time = Some(world.time());
        }
        let conditions = status.conditions.get_or_insert_default();
        for type_ in [first, last] {
            if !conditions.iter().any(|c| c.type_ == type_) {
                conditions.push(condition(world, type_, "True", verdict.reason, &verdict.message));
            }
        }
    }
}

fn condition(world: &World, type_: &str, status: &str, reason: &str, message: &str) -> JobCondition {
    JobCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(world.time()),
        last_transition_time: Some(world.time()),
    }
}

/// The indexes of which no more pods are made.
fn failed_indexes(status: &JobStatus) -> BTreeSet<i32> {
    indexes::parse(status.failed_indexes.as_deref().unwrap_or_default())
}

/// How much longer to wait after so many failures, the last of which was one of these pods.
fn wait_after<'a>(world: &World, failures: i32, failed: impl Iterator<Item = &'a Arc<Pod>>) -> Duration {
    let failures = u32::try_from(failures).unwrap_or_default();
    let Some(last) = failed.filter_map(|p| ended(p)).max().filter(|_| failures > 0) else {
        return Duration::ZERO;
    };
    let wait =
        FIRST_BACKOFF.saturating_mul(1_u64.checked_shl(failures - 1).unwrap_or(u64::MAX)).min(LAST_BACKOFF);
    let passed = world.now().as_second().saturating_sub(last.as_second());
    Duration::from_secs(wait.saturating_sub(u64::try_from(passed).unwrap_or_default()))
}

/// When the last container of a pod ended.
fn ended(pod: &Pod) -> Option<Timestamp> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    statuses.iter().filter_map(|c| Some(c.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0)).max()
}
