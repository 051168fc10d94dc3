//! The state machine of a plan: statuses and what tasks came to, in; new statuses and the tasks that are due, out.
//!
//! A driver calls [`evaluate`] with the stored status and what it learned in this pass, runs the tasks that are due, adds what
//! they came to, and calls it again, until nothing is due. The status is then stored. If the driver ends before that, the
//! next one begins at the stored status and runs the tasks of every unfinished step again: each of them must bear that.

use std::collections::BTreeMap;

use crate::api::{ExecutionStatus, Phase, PhaseStatus, Plan, PlanStatus, Step, StepStatus};

/// A task in its place. The same task may be in several steps.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub struct TaskRef {
    pub phase: String,
    pub step: String,
    pub task: String,
}

/// What running a task came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done: everything it applied is healthy.
    Done,
    /// It goes on, and why: the task is run again in a later pass.
    Waiting(String),
    /// It failed and is retried.
    Transient(String),
    /// It failed for good.
    Fatal {
        /// The reason of the event.
        reason: &'static str,
        /// What went wrong.
        message: String,
    },
}

/// Where a plan is.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// The statuses of the plan, its phases and steps.
    pub status: PlanStatus,
    /// The tasks to run now. Empty: the pass is over.
    pub due: Vec<TaskRef>,
}

/// The status of a plan that has just been scheduled.
#[must_use]
pub fn scheduled(name: &str, plan: &Plan, uid: &str) -> PlanStatus {
    fresh(name, plan, uid, ExecutionStatus::Pending)
}

/// The status of a plan that never ran.
#[must_use]
pub fn never_run(name: &str, plan: &Plan) -> PlanStatus {
    fresh(name, plan, "", ExecutionStatus::NeverRun)
}

fn fresh(name: &str, plan: &Plan, uid: &str, status: ExecutionStatus) -> PlanStatus {
    let step = |step: &Step| StepStatus { name: step.name.clone(), status, message: String::new() };
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

/// A stored status in the shape of the plan: phases and steps that a new version added have never run, others are gone.
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

/// Takes a plan one pass further, by what its tasks came to so far in this pass.
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
        // The message of an earlier pass stays until this one knows better.
        None if unknown && status.status == ExecutionStatus::Error => {}
        None => {
            status.status = if left { ExecutionStatus::InProgress } else { ExecutionStatus::Complete };
            status.message.clear();
        }
    }
    if left { Verdict::Left } else { Verdict::Done }
}

/// How many of a plan's steps are complete, in percent.
#[must_use]
pub fn progress(status: &PlanStatus) -> u8 {
    let steps = || status.phases.iter().flat_map(|phase| &phase.steps);
    let total = steps().count();
    if total == 0 {
        return if status.status == ExecutionStatus::Complete { 100 } else { 0 };
    }
    let done = steps().filter(|step| step.status == ExecutionStatus::Complete).count();
    u8::try_from(done * 100 / total).unwrap_or(100)
}
