//! CronJob: the kubebuilder tutorial's resource, which runs jobs on a schedule.

mod types;

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use k8s_openapi::{
    api::{batch::v1::Job, core::v1::ObjectReference},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::ResourceExt as _;
use steersman::{Action, Context, Controller, Conversion, Denied, Error, Operator, Result, Review, Webhook};
use steersman_formats::cron::Schedule;

pub use types::{Common, ConcurrencyPolicy, CronJob, CronJobSpec, CronJobStatus, crd, from_v1, to_v1, v2};

/// The annotation with the time at which a job was due.
pub const SCHEDULED_AT: &str = "batch.tutorial.kubebuilder.io/scheduled-at";
/// This many missed runs indicate a wrong clock or deadline.
const TOO_MANY: usize = 100;

/// The operator.
pub fn operator() -> Operator {
    let operator = Operator::new("cronjob-operator")
        .version(env!("CARGO_PKG_VERSION"))
        .controller(Controller::of::<CronJob>(reconcile).owns::<Job>())
        .conversion(Conversion::hub::<CronJob>().spoke(to_v1, from_v1))
        .webhook(Webhook::mutating::<CronJob>(default))
        .webhook(Webhook::validating::<CronJob>(validate));
    match crd() {
        Ok(crd) => operator.crd(crd),
        // The versions are fixed at compile time, and a test checks that they merge.
        Err(_) => operator,
    }
}

fn default(cron: &mut CronJob, _: &Review<CronJob>) -> Result<(), Denied> {
    let common = &mut cron.spec.common;
    common.concurrency_policy.get_or_insert_default();
    common.suspend.get_or_insert(false);
    common.successful_jobs_history_limit.get_or_insert(3);
    common.failed_jobs_history_limit.get_or_insert(1);
    Ok(())
}

fn validate(cron: &CronJob, _: &Review<CronJob>) -> Result<(), Denied> {
    let mut denied = Denied::default();
    // Jobs append eleven characters to the name.
    if cron.name_any().len() > 63 - 11 {
        denied = denied.and("metadata.name", "must be no more than 52 characters");
    }
    if let Err(error) = Schedule::parse(&cron.spec.schedule) {
        denied = denied.and("spec.schedule", error.to_string());
    }
    denied.into_result()
}

async fn reconcile(cron: Arc<CronJob>, ctx: Context) -> Result<Action> {
    let schedule = Schedule::parse(&cron.spec.schedule).map_err(Error::terminal)?;
    let runs = Runs::sort(ctx.owned::<Job>().await?);
    prune(&cron, &runs, &ctx).await?;
    let now = ctx.now();
    // A run stays recorded even if its job is deleted.
    let recorded = cron.status.as_ref().and_then(|status| Some(status.last_schedule_time.as_ref()?.0));
    let last = runs.last.max(recorded.filter(|at| *at <= now));
    ctx.update_status(&CronJobStatus {
        active: runs.active.iter().map(reference).collect(),
        last_schedule_time: last.map(Time),
    })
    .await?;
    if cron.spec.common.suspend == Some(true) {
        return Ok(Action::await_change());
    }
    let (missed, next) = due(&cron, &schedule, last, now)?;
    let wait = next.map_or(Action::await_change(), |next| {
        let wait = next.duration_since(now);
        Action::requeue(Duration::try_from(wait).unwrap_or_default() + Duration::from_millis(1))
    });
    let Some(missed) = missed else { return Ok(wait) };
    let deadline = cron.spec.common.starting_deadline_seconds.map(SignedDuration::from_secs);
    if deadline.is_some_and(|deadline| now.duration_since(missed) > deadline) {
        ctx.warn("MissedDeadline", format!("the run of {missed} is too late"));
        return Ok(wait);
    }
    match cron.spec.common.concurrency_policy.unwrap_or_default() {
        ConcurrencyPolicy::Forbid if !runs.active.is_empty() => return Ok(wait),
        ConcurrencyPolicy::Replace => {
            for job in &runs.active {
                ctx.delete::<Job>(&job.name_any()).await?;
            }
        }
        ConcurrencyPolicy::Allow | ConcurrencyPolicy::Forbid => {}
    }
    let job = ctx.apply(job(&cron, missed)).await?;
    ctx.event("Started", job.name_any());
    let runs = Runs::sort(ctx.owned::<Job>().await?);
    ctx.update_status(&CronJobStatus {
        active: runs.active.iter().map(reference).collect(),
        last_schedule_time: Some(Time(missed)),
    })
    .await?;
    Ok(wait)
}

/// The jobs of a CronJob.
struct Runs {
    active: Vec<Job>,
    succeeded: Vec<Job>,
    failed: Vec<Job>,
    /// The scheduled time of the last job that was started.
    last: Option<Timestamp>,
}

impl Runs {
    fn sort(mut jobs: Vec<Job>) -> Self {
        jobs.retain(|job| job.metadata.deletion_timestamp.is_none());
        jobs.sort_by_key(|job| (scheduled_at(job), job.name_any()));
        let last = jobs.iter().filter_map(scheduled_at).max();
        let mut runs = Self { active: Vec::new(), succeeded: Vec::new(), failed: Vec::new(), last };
        for job in jobs {
            let is = |type_: &str| {
                let conditions = job.status.as_ref().and_then(|status| status.conditions.as_ref());
                conditions.is_some_and(|all| all.iter().any(|one| one.type_ == type_ && one.status == "True"))
            };
            if is("Complete") {
                runs.succeeded.push(job);
            } else if is("Failed") {
                runs.failed.push(job);
            } else {
                runs.active.push(job);
            }
        }
        runs
    }
}

fn scheduled_at(job: &Job) -> Option<Timestamp> {
    job.annotations().get(SCHEDULED_AT)?.parse().ok()
}

/// Deletes the oldest finished jobs beyond the limits.
async fn prune(cron: &CronJob, runs: &Runs, ctx: &Context) -> Result<()> {
    let common = &cron.spec.common;
    for (jobs, limit) in [
        (&runs.succeeded, common.successful_jobs_history_limit.unwrap_or(3)),
        (&runs.failed, common.failed_jobs_history_limit.unwrap_or(1)),
    ] {
        let keep = usize::try_from(limit).unwrap_or_default();
        for job in jobs.iter().take(jobs.len().saturating_sub(keep)) {
            ctx.delete::<Job>(&job.name_any()).await?;
        }
    }
    Ok(())
}

/// Returns the latest missed run, and the time of the next one.
fn due(
    cron: &CronJob,
    schedule: &Schedule,
    last: Option<Timestamp>,
    now: Timestamp,
) -> Result<(Option<Timestamp>, Option<Timestamp>)> {
    let created = cron.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    let mut earliest = last;
    if let Some(seconds) = cron.spec.common.starting_deadline_seconds {
        // Runs that have missed the deadline need not be considered.
        let deadline = now.checked_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN);
        earliest = earliest.max(Some(deadline));
    }
    let mut moment = earliest.unwrap_or(created);
    let mut missed = None;
    for _ in 0..TOO_MANY {
        match schedule.next(&moment.to_zoned(TimeZone::UTC)).map(|next| next.timestamp()) {
            Some(next) if next <= now => {
                missed = Some(next);
                moment = next;
            }
            next => return Ok((missed, next)),
        }
    }
    Err(Error::terminal(
        "too many missed start times (> 100); set or decrease startingDeadlineSeconds, or check the clock",
    ))
}

fn job(cron: &CronJob, at: Timestamp) -> Job {
    let template = cron.spec.common.job_template.clone();
    let meta = template.metadata.unwrap_or_default();
    let mut annotations = meta.annotations.unwrap_or_default();
    annotations.insert(SCHEDULED_AT.into(), at.to_string());
    Job {
        metadata: ObjectMeta {
            // The name is derived from the run, so it cannot be started twice.
            name: Some(format!("{}-{}", cron.name_any(), at.as_second())),
            labels: meta.labels,
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    }
}

fn reference(job: &Job) -> ObjectReference {
    ObjectReference {
        api_version: Some("batch/v1".into()),
        kind: Some("Job".into()),
        name: Some(job.name_any()),
        namespace: job.namespace(),
        uid: job.uid(),
        ..ObjectReference::default()
    }
}
