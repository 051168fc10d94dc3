//! Formats `plan status` and `plan history` like `kubectl kudo`.

use std::fmt::Write as _;

use crate::api::{ExecutionStatus, Instance, OperatorVersionSpec, PlanStatus};

/// A line of a tree, with the lines below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Branch {
    text: String,
    below: Vec<Branch>,
}

impl Branch {
    /// Creates a line.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), below: Vec::new() }
    }

    /// Adds a line below.
    pub fn push(&mut self, branch: Self) {
        self.below.push(branch);
    }

    fn draw(&self, indent: &str, is_last: bool, out: &mut String) {
        // KUDO's trees have two non-breaking spaces after a bar.
        let (joint, bar) = if is_last { ("└── ", "    ") } else { ("├── ", "│\u{a0}\u{a0} ") };
        let _ = writeln!(out, "{indent}{joint}{}", self.text);
        let indent = format!("{indent}{bar}");
        for (index, below) in self.below.iter().enumerate() {
            below.draw(&indent, index + 1 == self.below.len(), out);
        }
    }
}

/// Draws a tree without a root line.
#[must_use]
pub fn draw(branches: &[Branch]) -> String {
    let mut out = ".\n".to_owned();
    for (index, branch) in branches.iter().enumerate() {
        branch.draw("", index + 1 == branches.len(), &mut out);
    }
    out
}

fn message(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(" ({text})") }
}

/// Formats all plans of an instance; the last one that ran has its statuses.
#[must_use]
pub fn plan_status(instance: &Instance, version: &OperatorVersionSpec) -> String {
    let (name, namespace) = (instance.name(), instance.namespace());
    let Some(last) = instance.status.last_plan() else {
        return format!("No plan ever run for instance - nothing to show for instance {name}\n");
    };
    let mut root = Branch::new(format!(
        "{name} (Operator-Version: \"{}\" Active-Plan: \"{}\")",
        instance.spec.operator_version.name, last.name
    ));
    for (plan_name, plan) in &version.plans {
        let active = Some(last).filter(|last| last.name == *plan_name);
        let mut text = format!("Plan {plan_name} ({} strategy) ", plan.strategy.0);
        match active {
            None => text.push_str("[NOT ACTIVE]"),
            Some(PlanStatus { status, message: why, last_updated_timestamp: at, progress, .. }) => {
                let _ = write!(text, "[{}]{}", status.as_str(), message(why));
                if let Some(progress) = progress.filter(|_| status.is_running()) {
                    let _ = write!(text, " {progress}%");
                }
                if let Some(at) = at {
                    let _ = write!(text, ", last updated {}", go_time(at));
                }
            }
        }
        let mut branch = Branch::new(text);
        for phase in &plan.phases {
            let status = active.and_then(|plan| plan.phases.iter().find(|one| one.name == phase.name));
            let shown = |status: Option<(ExecutionStatus, &str)>| match status {
                Some((status, why)) => format!("[{}]{}", status.as_str(), message(why)),
                None => "[NOT ACTIVE]".to_owned(),
            };
            let of_phase = shown(status.map(|one| (one.status, one.message.as_str())));
            let mut phase_branch =
                Branch::new(format!("Phase {} ({} strategy) {of_phase}", phase.name, phase.strategy.0));
            for step in &phase.steps {
                let status = status.and_then(|phase| phase.steps.iter().find(|one| one.name == step.name));
                let of_step = shown(status.map(|one| (one.status, one.message.as_str())));
                phase_branch.push(Branch::new(format!("Step {} {of_step}", step.name)));
            }
            branch.push(phase_branch);
        }
        root.push(branch);
    }
    format!("Plan(s) for \"{name}\" in namespace \"{namespace}\":\n{}", draw(&[root]))
}

/// Formats the last run of each plan of an instance.
#[must_use]
pub fn plan_history(instance: &Instance) -> String {
    let mut root = Branch::new(instance.name());
    for plan in instance.status.plan_status.values() {
        let at = plan.last_updated_timestamp.as_ref().map(go_time).unwrap_or_default();
        let text = match plan.status {
            ExecutionStatus::NeverRun => "never run".to_owned(),
            ExecutionStatus::Complete | ExecutionStatus::FatalError => {
                format!("last finished run at {at} ({})", plan.status.as_str())
            }
            status => format!("last run at {at} ({})", status.as_str()),
        };
        root.push(Branch::new(format!("{} ({text})", plan.name)));
    }
    format!(
        "History of plan-executions for instance \"{}\" in namespace \"{}\":\n{}",
        instance.name(),
        instance.namespace(),
        draw(&[root])
    )
}

/// Formats every recorded run of an instance's plans, newest first, one per line.
#[must_use]
pub fn run_history(instance: &Instance) -> String {
    let mut out = String::new();
    for run in &instance.status.history {
        let at = |time: &Option<_>| time.as_ref().map_or_else(|| "?".to_owned(), go_time);
        let _ = writeln!(
            out,
            "{} - {} {} {} ({}){}",
            at(&run.start_time),
            at(&run.end_time),
            run.plan,
            run.status.as_str(),
            run.operator_version,
            message(&run.message)
        );
    }
    out
}

/// Formats a time as `2019-10-17 01:01:01`, in UTC.
fn go_time(time: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Time) -> String {
    let text = time.0.to_string();
    let text = text.split(['.', 'Z']).next().unwrap_or_default();
    text.replacen('T', " ", 1)
}
