//! The state machine of a plan. Computes new statuses and the tasks to run from the stored status and task outcomes.
//!
//! A driver calls [`evaluate`] with the stored status and the outcomes of this pass, runs the due tasks, adds their outcomes, and
//! calls it again, until no task is due or another step is complete. Then it stores the status. If the driver crashes before
//! that, the next one starts from the stored status and runs the tasks of every unfinished step again, so tasks have to be
//! idempotent. They need not handle that a later step undid them: a step begins only after the earlier one was stored as
//! complete.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::api::{ExecutionStatus, Phase, PhaseStatus, Plan, PlanStatus, Step, StepStatus};

/// A task's position in a plan. The same task may be part of several steps.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub struct TaskRef {
    pub phase: String,
    pub step: String,
    pub task: String,
}

/// The outcome of running a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Complete: everything that it applied is healthy.
    Done,
    /// Not complete yet, with the reason: the task is run again in a later pass.
    Waiting(String),
    /// Failed, and is retried.
    Transient(String),
    /// Failed permanently.
    Fatal {
        /// The reason of the event.
        reason: &'static str,
        /// The error message.
        message: String,
    },
}

/// The result of evaluating a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// The statuses of the plan, its phases and steps.
    pub status: PlanStatus,
    /// The tasks to run now. Empty: the pass is over.
    pub due: Vec<TaskRef>,
}

/// Returns the status of a plan that has just been scheduled.
#[must_use]
pub fn scheduled(name: &str, plan: &Plan, uid: &str) -> PlanStatus {
    fresh(name, plan, uid, ExecutionStatus::Pending)
}

/// Returns the status of a plan that never ran.
#[must_use]
pub fn never_run(name: &str, plan: &Plan) -> PlanStatus {
    fresh(name, plan, "", ExecutionStatus::NeverRun)
}

fn fresh(name: &str, plan: &Plan, uid: &str, status: ExecutionStatus) -> PlanStatus {
    let step = |step: &Step| StepStatus { name: step.name.clone(), status, ..StepStatus::default() };
    let phase = |phase: &Phase| PhaseStatus {
        name: phase.name.clone(),
        status,
        message: String::new(),
        steps: phase.steps.iter().map(step).collect(),
    };
    PlanStatus {
        name: name.to_owned(),
        status,
        uid: uid.to_owned(),
        phases: plan.phases.iter().map(phase).collect(),
        ..PlanStatus::default()
    }
}

/// Adapts a stored status to the plan. Phases and steps added by a new version have never run, removed ones are dropped.
#[must_use]
pub fn reshaped(plan: &Plan, stored: &PlanStatus) -> PlanStatus {
    let mut status = never_run(&stored.name, plan);
    for phase in &mut status.phases {
        let Some(old) = stored.phases.iter().find(|old| old.name == phase.name) else { continue };
        phase.status = old.status;
        phase.message.clone_from(&old.message);
        for step in &mut phase.steps {
            if let Some(old) = old.steps.iter().find(|old| old.name == step.name) {
                *step = old.clone();
            }
        }
    }
    PlanStatus { phases: status.phases, ..stored.clone() }
}

/// Advances a plan by one pass, given the task outcomes of this pass so far.
#[must_use]
pub fn evaluate(plan: &Plan, stored: &PlanStatus, outcomes: &BTreeMap<TaskRef, Outcome>) -> Evaluation {
    let mut status = reshaped(plan, stored);
    if status.status.is_terminal() {
        return Evaluation { status, due: Vec::new() };
    }
    status.status = ExecutionStatus::InProgress;
    status.message.clear();
    let mut due = Vec::new();
    let mut phases_left = false;
    for (phase, phase_status) in plan.phases.iter().zip(&mut status.phases) {
        if phase_status.status == ExecutionStatus::Complete {
            continue;
        }
        phase_status.status = ExecutionStatus::InProgress;
        let mut steps_left = false;
        for (step, step_status) in phase.steps.iter().zip(&mut phase_status.steps) {
            if step_status.status == ExecutionStatus::Complete {
                continue;
            }
            match judge(phase, step, step_status, outcomes, &mut due) {
                Verdict::Done => {}
                Verdict::Left if phase.strategy.is_serial() => {
                    steps_left = true;
                    break;
                }
                Verdict::Left => steps_left = true,
                Verdict::Fatal => {
                    phase_status.status = ExecutionStatus::FatalError;
                    status.status = ExecutionStatus::FatalError;
                    return Evaluation { status, due: Vec::new() };
                }
            }
        }
        if !steps_left {
            phase_status.status = ExecutionStatus::Complete;
            continue;
        }
        phases_left = true;
        if plan.strategy.is_serial() {
            break;
        }
    }
    if !phases_left {
        status.status = ExecutionStatus::Complete;
    }
    Evaluation { status, due }
}

enum Verdict {
    Done,
    Left,
    Fatal,
}

fn judge(
    phase: &Phase,
    step: &Step,
    status: &mut StepStatus,
    outcomes: &BTreeMap<TaskRef, Outcome>,
    due: &mut Vec<TaskRef>,
) -> Verdict {
    let mut left = false;
    let mut failed = None;
    let mut unknown = false;
    for task in &step.tasks {
        let place = TaskRef { phase: phase.name.clone(), step: step.name.clone(), task: task.clone() };
        match outcomes.get(&place) {
            Some(Outcome::Done) => {}
            Some(Outcome::Waiting(_)) => left = true,
            Some(Outcome::Transient(message)) => {
                left = true;
                failed = Some(message.clone());
            }
            Some(Outcome::Fatal { message, .. }) => {
                status.status = ExecutionStatus::FatalError;
                status.message.clone_from(message);
                return Verdict::Fatal;
            }
            None => {
                left = true;
                unknown = true;
                if !due.contains(&place) {
                    due.push(place);
                }
            }
        }
    }
    match failed {
        Some(message) => {
            status.status = ExecutionStatus::Error;
            status.message = message;
        }
        // Keeps the message of an earlier pass until this pass has an outcome.
        None if unknown && status.status == ExecutionStatus::Error => {}
        None => {
            status.status = if left { ExecutionStatus::InProgress } else { ExecutionStatus::Complete };
            status.message.clear();
        }
    }
    if left { Verdict::Left } else { Verdict::Done }
}

/// Returns the status of a run that resumes a failed one: complete steps stay complete.
#[must_use]
pub fn resumed(failed: &PlanStatus, uid: &str) -> PlanStatus {
    let mut status = PlanStatus {
        status: ExecutionStatus::Pending,
        message: String::new(),
        uid: uid.to_owned(),
        start_time: None,
        ..failed.clone()
    };
    for phase in status.phases.iter_mut().filter(|phase| phase.status != ExecutionStatus::Complete) {
        phase.status = ExecutionStatus::Pending;
        phase.message.clear();
        for step in phase.steps.iter_mut().filter(|step| step.status != ExecutionStatus::Complete) {
            let name = std::mem::take(&mut step.name);
            *step = StepStatus { name, status: ExecutionStatus::Pending, ..StepStatus::default() };
        }
    }
    status
}

/// Ends a run permanently: everything in progress has failed.
pub fn give_up(status: &mut PlanStatus, message: &str) {
    let is_under_way =
        |status: ExecutionStatus| matches!(status, ExecutionStatus::InProgress | ExecutionStatus::Error);
    status.status = ExecutionStatus::FatalError;
    message.clone_into(&mut status.message);
    for phase in status.phases.iter_mut().filter(|phase| is_under_way(phase.status)) {
        phase.status = ExecutionStatus::FatalError;
        for step in phase.steps.iter_mut().filter(|step| is_under_way(step.status)) {
            step.status = ExecutionStatus::FatalError;
        }
    }
}

/// Records when the run and its steps began, from which timeouts count.
pub fn note_start(status: &mut PlanStatus, now: &Time) {
    status.start_time.get_or_insert_with(|| now.clone());
    let steps = status.phases.iter_mut().flat_map(|phase| &mut phase.steps);
    for step in
        steps.filter(|step| matches!(step.status, ExecutionStatus::InProgress | ExecutionStatus::Error))
    {
        step.start_time.get_or_insert_with(|| now.clone());
    }
}

/// Parses a timeout in Go's duration format.
///
/// # Errors
/// Fails with the reason if it is not a duration, or not positive.
pub fn timeout(text: &str) -> Result<Option<Duration>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let nanos = steersman_gostd::time::parse_duration(text.as_bytes())
        .map_err(|_| format!("invalid timeout {text:?}: expected a duration such as 90s or 1h30m"))?;
    match u64::try_from(nanos) {
        Ok(nanos) if nanos > 0 => Ok(Some(Duration::from_nanos(nanos))),
        _ => Err(format!("invalid timeout {text:?}: must be positive")),
    }
}

/// A timeout of a run, and the time left. Zero once it is exceeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// The plan or step that it applies to.
    pub what: String,
    /// The timeout.
    pub limit: Duration,
    /// The time left.
    pub left: Duration,
}

/// Returns the timeout of a run that expires first, if it has any. Invalid durations are ignored.
#[must_use]
pub fn deadline(plan: &Plan, status: &PlanStatus, now: &Time) -> Option<Deadline> {
    if status.status.is_terminal() {
        return None;
    }
    let of = |what: String, text: &str, start: Option<&Time>| {
        let limit = timeout(text).ok().flatten()?;
        let elapsed = now.0.duration_since(start?.0);
        let left = limit.saturating_sub(Duration::try_from(elapsed).unwrap_or_default());
        Some(Deadline { what, limit, left })
    };
    let mut all = vec![of(format!("plan {}", status.name), &plan.timeout, status.start_time.as_ref())];
    for (phase, phase_status) in plan.phases.iter().zip(&status.phases) {
        for (step, step_status) in phase.steps.iter().zip(&phase_status.steps) {
            if step_status.status != ExecutionStatus::Complete {
                let what = format!("step {}.{}.{}", status.name, phase.name, step.name);
                all.push(of(what, &step.timeout, step_status.start_time.as_ref()));
            }
        }
    }
    all.into_iter().flatten().min_by_key(|deadline| deadline.left)
}

/// Returns the percentage of a plan's steps that are complete.
#[must_use]
pub fn progress(status: &PlanStatus) -> u8 {
    let steps = || status.phases.iter().flat_map(|phase| &phase.steps);
    let total = steps().count();
    if total == 0 {
        return if status.status == ExecutionStatus::Complete { 100 } else { 0 };
    }
    u8::try_from(complete_steps(status) * 100 / total).unwrap_or(100)
}

/// Counts a plan's complete steps.
#[must_use]
pub fn complete_steps(status: &PlanStatus) -> usize {
    let steps = status.phases.iter().flat_map(|phase| &phase.steps);
    steps.filter(|step| step.status == ExecutionStatus::Complete).count()
}
