//! CronJobs: creates a Job whenever one is due.

use std::{sync::Arc, time::Duration};

use jiff::{Timestamp, tz::TimeZone};
use k8s_openapi::{
    api::{
        batch::v1::{CronJob, CronJobStatus, Job},
        core::v1::ObjectReference,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{Resource as _, ResourceExt as _, api::ObjectMeta};
use steersman_formats::cron::Schedule;

use super::{pods, replicaset::message};
use crate::control_loop::{ControlLoop, Controller, NewEvent, is_already_exists, whole};

const NAME: &str = "cronjob-controller";
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// Number of missed start times above which a warning event is recorded.
const MAX_MISSED: usize = 100;
/// Delay after a start time before reconciling, so that it has passed on every clock.
const MARGIN: Duration = Duration::from_millis(100);

pub(super) async fn reconcile(control: &mut ControlLoop, namespace: &str, name: &str) -> kube::Result<()> {
    let Some(found) = control.caches.cron_jobs.get(namespace, name) else { return Ok(()) };
    if pods::is_deleting(&*found) {
        return Ok(());
    }
    let uid = found.uid().unwrap_or_default();
    let jobs: Vec<Arc<Job>> = control.caches.jobs.controlled_by(&uid).cloned().collect();
    let mut sync = CronJobSync { cron: CronJob::clone(&found), jobs };
    let mut status = found.status.clone().unwrap_or_default();
    sync.update_active(control, &mut status).await;
    sync.delete_finished(control).await?;
    let result = sync.start_due(control, &mut status).await;
    if found.status.as_ref() != Some(&status) {
        sync.cron.status = Some(status);
        control.update_status(&sync.cron).await?;
    }
    result
}

/// Returns how a Job finished, as the type of its final condition, and when.
fn finished(job: &Job) -> Option<(&str, Timestamp)> {
    let conditions = job.status.as_ref()?.conditions.as_deref()?;
    let last = conditions
        .iter()
        .find(|c| matches!(c.type_.as_str(), "Complete" | "Failed") && c.status == "True")?;
    let at = last.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |t| t.0);
    Some((last.type_.as_str(), at))
}

fn reference(job: &Job) -> ObjectReference {
    ObjectReference {
        api_version: Some("batch/v1".to_owned()),
        kind: Some(Job::kind(&()).into_owned()),
        name: job.metadata.name.clone(),
        namespace: job.namespace(),
        uid: job.uid(),
        resource_version: job.resource_version(),
        field_path: None,
    }
}

/// Start times of a schedule: the last one, the number of missed ones and the next one.
struct Times {
    last: Option<Timestamp>,
    missed: usize,
    next: Option<Timestamp>,
}

impl Times {
    /// Computes the start times after `from` and up to `now`.
    fn of(schedule: &Schedule, zone: &TimeZone, from: Timestamp, now: Timestamp) -> Self {
        let following = |at: Timestamp| schedule.next(&at.to_zoned(zone.clone())).map(|z| z.timestamp());
        let (mut last, mut missed) = (None, 0);
        let mut next = following(from);
        while let Some(at) = next.filter(|at| *at <= now) {
            (last, missed, next) = (Some(at), missed + 1, following(at));
            if missed > MAX_MISSED {
                break;
            }
        }
        if missed > MAX_MISSED {
            // The last one is recent: search longer and longer periods before now, each with few start times to try.
            for seconds in [60, 3_600, 86_400, 31 * 86_400] {
                let begin = now.as_second().saturating_sub(seconds);
                let mut at = Timestamp::from_second(begin).ok().and_then(following);
                let mut found = None;
                while let Some(moment) = at.filter(|at| *at <= now) {
                    (found, at) = (Some(moment), following(moment));
                }
                if found.is_some() {
                    (last, next) = (found, at);
                    break;
                }
            }
        }
        Self { last, missed, next }
    }
}

struct CronJobSync {
    cron: CronJob,
    jobs: Vec<Arc<Job>>,
}

impl CronJobSync {
    async fn record_event(
        &self,
        control: &mut ControlLoop,
        warning: bool,
        reason: &'static str,
        message: &str,
    ) {
        control.record_event(&self.cron, NewEvent { component: NAME, warning, reason, message }).await;
    }

    /// Removes finished Jobs from the list of active ones.
    async fn update_active(&self, control: &mut ControlLoop, status: &mut CronJobStatus) {
        let active = status.active.take().unwrap_or_default();
        for job in &self.jobs {
            let listed = active.iter().any(|r| r.uid == job.uid());
            let name = job.name_any();
            match finished(job) {
                None if !listed => {
                    let what = format!("Saw a job that the controller did not create or forgot: {name}");
                    self.record_event(control, true, "UnexpectedJob", &what).await;
                }
                Some((how, at)) => {
                    if listed {
                        let what = format!("Saw completed job: {name}, condition: {how}");
                        self.record_event(control, false, "SawCompletedJob", &what).await;
                    }
                    let known = status.last_successful_time.as_ref().is_some_and(|t| t.0 >= at);
                    if how == "Complete" && !known {
                        status.last_successful_time = Some(Time(at));
                    }
                }
                None => {}
            }
        }
        let mut left = Vec::new();
        for reference in active {
            match self.jobs.iter().find(|j| j.uid() == reference.uid) {
                Some(job) if finished(job).is_none() => left.push(reference),
                Some(_) => {}
                None => {
                    let name = reference.name.clone().unwrap_or_default();
                    self.record_event(
                        control,
                        false,
                        "MissingJob",
                        &format!("Active job went missing: {name}"),
                    )
                    .await;
                }
            }
        }
        status.active = (!left.is_empty()).then_some(left);
    }

    /// Deletes the oldest finished Jobs beyond the history limits.
    async fn delete_finished(&self, control: &mut ControlLoop) -> kube::Result<()> {
        let spec = self.cron.spec.clone();
        for (how, limit) in
            [("Complete", spec.successful_jobs_history_limit), ("Failed", spec.failed_jobs_history_limit)]
        {
            let Some(limit) = limit.and_then(|l| usize::try_from(l).ok()) else { continue };
            let mut ended: Vec<&Arc<Job>> =
                self.jobs.iter().filter(|j| finished(j).is_some_and(|(end, _)| end == how)).collect();
            ended.sort_by_key(|j| {
                (j.status.as_ref().and_then(|s| s.start_time.as_ref().map(|t| t.0)), j.name_any())
            });
            for job in ended.iter().take(ended.len().saturating_sub(limit)) {
                if control.is_spent() {
                    break;
                }
                control.delete(&***job, None).await?;
                let what = format!("Deleted job {}", job.name_any());
                self.record_event(control, false, "SuccessfulDelete", &what).await;
            }
        }
        Ok(())
    }

    /// Creates a Job if one is due, and schedules the next reconcile.
    async fn start_due(&mut self, control: &mut ControlLoop, status: &mut CronJobStatus) -> kube::Result<()> {
        let spec = self.cron.spec.clone();
        if spec.suspend == Some(true) {
            return Ok(());
        }
        let Ok(schedule) = Schedule::parse(&spec.schedule) else {
            let what = format!("unparseable schedule: {}", spec.schedule);
            self.record_event(control, true, "UnparseableSchedule", &what).await;
            return Ok(());
        };
        let Ok(zone) = spec.time_zone.as_deref().map_or(Ok(TimeZone::UTC), TimeZone::get) else {
            let what = format!("invalid timeZone: {}", spec.time_zone.unwrap_or_default());
            self.record_event(control, true, "UnknownTimeZone", &what).await;
            return Ok(());
        };
        let now = control.now();
        let created = self.cron.metadata.creation_timestamp.as_ref().map_or(now, |t| t.0);
        let mut from = status.last_schedule_time.as_ref().map_or(created, |t| t.0);
        if let Some(deadline) = spec.starting_deadline_seconds {
            let earliest = now.as_second().saturating_sub(deadline);
            from = from.max(Timestamp::from_second(earliest).unwrap_or(from));
        }
        let times = Times::of(&schedule, &zone, from, now);
        if let Some(next) = times.next {
            let wait = Duration::try_from(next.duration_since(now)).unwrap_or_default();
            let namespace = self.cron.namespace().unwrap_or_default();
            control.push_after(Controller::CronJob, &namespace, &self.cron.name_any(), wait + MARGIN);
        }
        if times.missed > MAX_MISSED {
            let what = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            self.record_event(control, true, "TooManyMissedTimes", what).await;
        }
        let Some(due) = times.last else { return Ok(()) };
        let active = status.active.clone().unwrap_or_default();
        match spec.concurrency_policy.as_deref() {
            Some("Forbid") if !active.is_empty() => {
                let what =
                    "Not starting job because prior execution is running and concurrency policy is Forbid";
                self.record_event(control, false, "JobAlreadyActive", what).await;
                return Ok(());
            }
            Some("Replace") => {
                for reference in &active {
                    if let Some(job) = self.jobs.iter().find(|j| j.uid() == reference.uid) {
                        control.delete(&**job, None).await?;
                        let what = format!("Deleted job {}", job.name_any());
                        self.record_event(control, false, "SuccessfulDelete", &what).await;
                    }
                }
                status.active = None;
            }
            _ => {}
        }
        let made = match control.create(&self.job(due, &zone)).await {
            Ok(made) => made,
            Err(error) if is_already_exists(&error) => {
                // An earlier reconcile created it and failed to update the status.
                status.last_schedule_time = Some(whole(due));
                return Ok(());
            }
            Err(error) => {
                let what = format!("Error creating job: {}", message(&error));
                self.record_event(control, true, "FailedCreate", &what).await;
                return Err(error);
            }
        };
        self.record_event(control, false, "SuccessfulCreate", &format!("Created job {}", made.name_any()))
            .await;
        status.active.get_or_insert_default().push(reference(&made));
        status.last_schedule_time = Some(whole(due));
        Ok(())
    }

    fn job(&self, due: Timestamp, zone: &TimeZone) -> Job {
        let template = self.cron.spec.clone().job_template;
        let given = template.metadata.unwrap_or_default();
        let mut annotations = given.annotations.unwrap_or_default();
        let at = due.to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
        annotations.insert(SCHEDULED.to_owned(), at.replace("+00:00", "Z"));
        Job {
            metadata: ObjectMeta {
                // The name contains the scheduled minute, so one start time never creates two Jobs.
                name: Some(format!("{}-{}", self.cron.name_any(), due.as_second() / 60)),
                namespace: self.cron.namespace(),
                labels: given.labels,
                annotations: Some(annotations),
                owner_references: Some(vec![pods::reference(&self.cron)]),
                ..ObjectMeta::default()
            },
            spec: template.spec,
            status: None,
        }
    }
}
