//! The events of a run, and its outcome.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use steersman_watches::duration;

/// The host with the totals that are reported; operator-sdk's plays run on no other.
const HOST: &str = "localhost";
/// operator-sdk's message for a failure without one.
const UNKNOWN_FAILURE: &str = "unknown playbook failure";
/// The maximum number of failures kept per run.
const FAILURES: usize = 50;

/// An event reported by a run, one per line.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// A task or handler starts.
    Start { name: String, path: Option<String> },
    /// A host is done with a task, or with one item of its loop.
    Result(Box<TaskResult>),
    /// The totals, at the end of the playbook.
    Stats { hosts: BTreeMap<String, Stats> },
    /// No host matches the pattern of a play.
    NoHosts,
    /// The run failed outside of a task: a playbook that does not parse, for instance.
    Error { message: String },
    /// The last event.
    End { code: i32 },
}

/// The result of a task on a host.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct TaskResult {
    pub(crate) status: String,
    pub(crate) host: String,
    pub(crate) name: String,
    pub(crate) path: Option<String>,
    pub(crate) action: String,
    pub(crate) changed: bool,
    pub(crate) ignored: bool,
    pub(crate) message: Option<String>,
    pub(crate) diff: Option<String>,
    /// A request of an `operator_sdk.util` module to the operator.
    pub(crate) operator: Option<Value>,
}

/// The totals of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Stats {
    pub(crate) ok: u64,
    pub(crate) changed: u64,
    pub(crate) skipped: u64,
    pub(crate) failures: u64,
    pub(crate) unreachable: u64,
    pub(crate) rescued: u64,
    pub(crate) ignored: u64,
}

/// A task that failed, and was neither ignored nor rescued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) host: String,
    pub(crate) task: String,
    pub(crate) path: Option<String>,
    pub(crate) message: String,
}

/// The outcome of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// The exit code. None if the run ended without reporting one.
    pub(crate) code: Option<i32>,
    pub(crate) stats: Option<BTreeMap<String, Stats>>,
    pub(crate) failures: Vec<Failure>,
    /// Errors outside of tasks.
    pub(crate) errors: Vec<String>,
    /// The delay after which the play requests another run.
    pub(crate) requeue_after: Option<Duration>,
    /// Metric updates that the play requests.
    pub(crate) metrics: Vec<Value>,
    /// The tail of the output.
    pub(crate) output: String,
}

impl Outcome {
    /// Updates the outcome with an event.
    pub(crate) fn add(&mut self, event: Event) {
        match event {
            Event::Start { .. } | Event::NoHosts => {}
            Event::Result(result) => self.add_result(*result),
            Event::Stats { hosts } => {
                self.forget_rescued(&hosts);
                self.stats = Some(hosts);
            }
            Event::Error { message } => self.errors.push(message),
            Event::End { code } => self.code = Some(code),
        }
    }

    fn add_result(&mut self, result: TaskResult) {
        if let Some(asked) = &result.operator {
            if let Some(time) = asked.get("requeueAfter") {
                match duration(time.as_str().unwrap_or_default()) {
                    Ok(after) => self.requeue_after = Some(after),
                    Err(problem) => {
                        self.errors.push(format!("requeue_after in {}: {problem}", place(&result)));
                    }
                }
            }
            self.metrics.extend(asked.get("metric").cloned());
        }
        let failed = matches!(result.status.as_str(), "failed" | "unreachable") && !result.ignored;
        if failed && self.failures.len() < FAILURES {
            let message = result.message.filter(|message| !message.is_empty());
            self.failures.push(Failure {
                host: result.host,
                task: result.name,
                path: result.path,
                message: message.unwrap_or_else(|| UNKNOWN_FAILURE.to_owned()),
            });
        }
    }

    /// Drops rescued failures. They are reported before the rescue: of a host's failures, only as many of the
    /// last ones count as its totals say.
    fn forget_rescued(&mut self, hosts: &BTreeMap<String, Stats>) {
        for (host, stats) in hosts {
            let kept = usize::try_from(stats.failures + stats.unreachable).unwrap_or(usize::MAX);
            let count = self.failures.iter().filter(|failure| failure.host == *host).count();
            let mut surplus = count.saturating_sub(kept);
            self.failures.retain(|failure| {
                let drop = failure.host == *host && surplus > 0;
                surplus -= usize::from(drop);
                !drop
            });
        }
    }

    /// Whether the run succeeded: Ansible's own verdict, with a complete report.
    pub(crate) fn succeeded(&self) -> bool {
        self.code == Some(0) && self.stats.is_some() && self.errors.is_empty()
    }

    /// Whether a task changed something.
    pub(crate) fn has_changed(&self) -> bool {
        self.stats.iter().flatten().any(|(_, stats)| stats.changed > 0)
    }

    /// Returns the reason of the failure, for a condition.
    pub(crate) fn message(&self) -> String {
        let failures = self.failures.iter().map(|failure| failure.message.as_str());
        let mut lines: Vec<&str> = failures.chain(self.errors.iter().map(String::as_str)).collect();
        let ended = format!(
            "the run ended without a result{}",
            self.code.map_or(String::new(), |code| format!(" (exit code {code})"))
        );
        if lines.is_empty() {
            lines.push(if self.stats.is_none() { &ended } else { UNKNOWN_FAILURE });
        }
        lines.join("\n")
    }

    /// Returns `ansibleResult` for a condition. None if there were no totals.
    pub(crate) fn ansible_result(&self, completion: &str) -> Option<Value> {
        let stats = self.stats.as_ref()?.get(HOST).copied().unwrap_or_default();
        Some(json!({
            "ok": stats.ok,
            "changed": stats.changed,
            "skipped": stats.skipped,
            "failures": stats.failures,
            "completion": completion,
        }))
    }
}

/// Returns a task and its file, such as `set things up (roles/shop/tasks/main.yml:3)`.
pub(crate) fn place(result: &TaskResult) -> String {
    match &result.path {
        Some(path) => format!("{} ({path})", result.name),
        None => result.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(lines: &[Value]) -> Outcome {
        let mut outcome = Outcome::default();
        for line in lines {
            outcome.add(serde_json::from_value(line.clone()).unwrap());
        }
        outcome
    }

    fn failed(message: &str) -> Value {
        json!({ "event": "result", "status": "failed", "host": "localhost", "name": "t", "message": message })
    }

    fn stats(fields: Value) -> Value {
        json!({ "event": "stats", "hosts": { "localhost": fields } })
    }

    fn end(code: i32) -> Value {
        json!({ "event": "end", "code": code })
    }

    #[test]
    fn what_a_block_rescues_is_no_failure() {
        let rescued = outcome(&[failed("first"), stats(json!({ "ok": 2, "rescued": 1 })), end(0)]);
        assert!(rescued.succeeded() && rescued.failures.is_empty());
        let later = outcome(&[
            failed("first"),
            failed("second"),
            stats(json!({ "rescued": 1, "failures": 1 })),
            end(2),
        ]);
        assert_eq!(later.message(), "second");
    }

    #[test]
    fn an_unreachable_host_is_a_failure() {
        let line =
            json!({ "event": "result", "status": "unreachable", "host": "far", "message": "no route" });
        let lost =
            outcome(&[line, json!({ "event": "stats", "hosts": { "far": { "unreachable": 1 } } }), end(4)]);
        assert!(!lost.succeeded());
        assert_eq!(lost.message(), "no route");
        assert_eq!(lost.ansible_result("now").unwrap()["failures"], 0, "only localhost is counted");
    }

    #[test]
    fn a_run_without_totals_is_a_failure_with_the_reason() {
        let unparsed = outcome(&[json!({ "event": "error", "message": "syntax" }), end(4)]);
        assert!(!unparsed.succeeded() && unparsed.ansible_result("now").is_none());
        assert_eq!(unparsed.message(), "syntax");
        assert_eq!(outcome(&[]).message(), "the run ended without a result");
        assert_eq!(
            outcome(&[failed(""), stats(json!({ "failures": 1 })), end(2)]).message(),
            UNKNOWN_FAILURE
        );
    }

    #[test]
    fn requeue_after_takes_gos_durations() {
        let asks = |time: &str| {
            let asked = json!({ "event": "result", "status": "ok", "name": "later", "path": "m.yml:3",
                "operator": { "requeueAfter": time } });
            outcome(&[asked, stats(json!({ "ok": 1 })), end(0)])
        };
        assert_eq!(asks("1h30m").requeue_after, Some(Duration::from_secs(5400)));
        let wrong = asks("soon");
        assert!(!wrong.succeeded());
        assert_eq!(wrong.message(), "requeue_after in later (m.yml:3): invalid duration \"soon\"");
    }
}
