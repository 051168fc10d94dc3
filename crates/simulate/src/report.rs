//! Reports of a simulation, for people and for CI.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, Instant},
};

use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    fault::{Fault, Plan},
    oracle::Finding,
    run::Outcome,
    simulation::REPLAY,
    timeline::Entry,
};

/// A failed run.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The plan, shrunk to the fewest faults with which the run fails.
    pub plan: Plan,
    /// The findings of the oracles.
    pub findings: Vec<Finding>,
    /// The timeline.
    pub timeline: Vec<Entry>,
    /// The SHA-256 of the timeline: a replay has the same.
    pub hash: String,
    /// The last lines of a program's output.
    pub log: Vec<String>,
}

impl Failure {
    pub(crate) fn new(plan: Plan, findings: Vec<Finding>, outcome: &Outcome) -> Self {
        let (timeline, log) = (outcome.timeline.clone(), outcome.log.clone());
        Self { plan, findings, timeline, hash: outcome.hash.clone(), log }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "FAILED {}", self.plan)?;
        for finding in &self.findings {
            writeln!(f, "  {}: {}", finding.oracle, finding.message)?;
        }
        writeln!(f, "  timeline ({}):", self.hash.get(..12).unwrap_or_default())?;
        for entry in &self.timeline {
            writeln!(f, "  {entry}")?;
        }
        if !self.log.is_empty() {
            writeln!(f, "  the operator's last log lines:")?;
        }
        for line in &self.log {
            writeln!(f, "    {line}")?;
        }
        writeln!(f, "  replay: {REPLAY}='{}'", self.plan)
    }
}

/// The faults of a plan, and which of them were injected.
pub(crate) struct Coverage {
    faults: Vec<(&'static str, bool)>,
    ends_early: bool,
}

impl Coverage {
    pub(crate) fn of(plan: &Plan, outcome: &Outcome) -> Self {
        let happened = |fault: &Fault| (fault.kind(), outcome.traffic.used.contains(fault));
        Self { faults: plan.faults.iter().map(happened).collect(), ends_early: outcome.ends_early }
    }
}

/// How often a fault kind was planned and injected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct FaultCounts {
    /// Number of plans that contain it.
    pub planned: usize,
    /// Number of times it was injected, which requires that the run gets that far.
    pub injected: usize,
}

/// The report of a simulation.
#[derive(Debug, Clone)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The SHA-256 of the fault-free timeline.
    pub hash: String,
    /// The SHA-256 of the timeline of a replayed plan.
    pub replayed: Option<String>,
    /// The fault-free timeline.
    pub timeline: Vec<Entry>,
    /// How a second fault-free run of the same seed differed, for operators that may.
    pub varies: Option<String>,
    /// Writes of the operator in the fault-free run; crashes are tried around those that change something.
    pub writes: usize,
    /// Reads of the operator in the fault-free run.
    pub reads: u32,
    /// Requests of the operator in the fault-free run, including watches.
    pub requests: u64,
    /// Runs with faults.
    pub runs: usize,
    /// Runs that ended early in a fault-free state, whose continuation is covered by a run with a restart.
    pub ended_early: usize,
    /// Runs that failed.
    pub failed: usize,
    /// Plans of a program that failed once and passed when repeated.
    pub unrepeated: usize,
    /// Plans skipped because the time budget was exhausted.
    pub untried: usize,
    /// Planned pairs of crashes: the second one at the first write after the restart.
    pub pairs: usize,
    /// Pairs of crashes skipped because the second leads to a state that was already tried.
    pub equivalent: usize,
    /// Pairs skipped because there are more than twice as many as writes.
    pub pairs_left_out: usize,
    /// Property changes, each of them reverted.
    pub properties: usize,
    /// Failures with distinct findings, at most ten.
    pub failures: Vec<Failure>,
    /// How often each fault kind was tried.
    pub faults: BTreeMap<&'static str, FaultCounts>,
    /// How long it took.
    pub elapsed: Duration,
}

impl Report {
    pub(crate) fn new(seed: u64, baseline: &Outcome) -> Self {
        Self {
            seed,
            hash: baseline.hash.clone(),
            replayed: None,
            timeline: baseline.timeline.clone(),
            varies: None,
            writes: baseline.traffic.writes.len(),
            reads: baseline.traffic.reads,
            requests: baseline.traffic.requests,
            runs: 0,
            ended_early: 0,
            failed: 0,
            unrepeated: 0,
            untried: 0,
            pairs: 0,
            equivalent: 0,
            pairs_left_out: 0,
            properties: 0,
            failures: Vec::new(),
            faults: BTreeMap::new(),
            elapsed: Duration::ZERO,
        }
    }

    /// Returns the report of an operator that fails without faults.
    pub(crate) fn failed_without_faults(
        mut self,
        plan: Plan,
        findings: Vec<Finding>,
        outcome: &Outcome,
        begin: Instant,
    ) -> Self {
        self.failures.push(Failure::new(plan, findings, outcome));
        self.failed = 1;
        self.elapsed = begin.elapsed();
        self
    }

    pub(crate) fn cover(&mut self, coverage: &Coverage) {
        self.ended_early += usize::from(coverage.ends_early);
        for (kind, injected) in &coverage.faults {
            let tried = self.faults.entry(kind).or_default();
            tried.planned += 1;
            tried.injected += usize::from(*injected);
        }
    }

    /// Whether there are no failures.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }

    /// Asserts in a test that the simulation passed.
    ///
    /// # Panics
    /// Panics with the report if there are failures.
    pub fn assert_passed(&self) {
        #[expect(clippy::panic, reason = "a test ends here")]
        if !self.passed() {
            panic!("{self}");
        }
    }

    /// Returns the report as JSON, with the timelines of the fault-free run and of each failure.
    #[must_use]
    pub fn json(&self) -> Value {
        let failures: Vec<Value> = self
            .failures
            .iter()
            .map(|failure| {
                json!({
                    "plan": failure.plan.to_string(), "findings": failure.findings, "hash": failure.hash,
                    "timeline": failure.timeline, "log": failure.log,
                })
            })
            .collect();
        json!({
            "seed": self.seed, "hash": self.hash, "writes": self.writes, "reads": self.reads, "requests": self.requests,
            "runs": self.runs, "endedEarly": self.ended_early, "failed": self.failed, "unrepeated": self.unrepeated, "untried": self.untried,
            "pairs": self.pairs, "equivalent": self.equivalent, "pairsLeftOut": self.pairs_left_out, "properties": self.properties, "faults": self.faults, "failures": failures,
            "timeline": self.timeline,
        })
    }

    /// Returns a JUnit report.
    ///
    /// It has a test case for the fault-free run, one for each fault kind and one for each failure.
    #[must_use]
    pub fn junit(&self, name: &str) -> String {
        let (tests, failures) = (self.faults.len() + self.failures.len() + 1, self.failures.len());
        let seconds = self.elapsed.as_secs_f64();
        let mut text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"{}\" tests=\"{tests}\" \
             failures=\"{failures}\" time=\"{seconds:.3}\">\n<testcase classname=\"simulation\" name=\"without faults\"/>\n",
            escape(name)
        );
        for (kind, tried) in &self.faults {
            text += &format!(
                "<testcase classname=\"simulation\" name=\"{kind} ({} planned, {} injected)\"/>\n",
                tried.planned, tried.injected
            );
        }
        for failure in &self.failures {
            let message =
                failure.findings.first().map(|finding| format!("{}: {}", finding.oracle, finding.message));
            text += &format!(
                "<testcase classname=\"simulation\" name=\"{}\"><failure message=\"{}\">{}</failure></testcase>\n",
                escape(&failure.plan.to_string()),
                escape(&message.unwrap_or_default()),
                escape(&failure.to_string())
            );
        }
        text + "</testsuite>\n</testsuites>\n"
    }

    /// Returns the timelines as a self-contained HTML page.
    #[must_use]
    pub fn html(&self, name: &str) -> String {
        let rows = |timeline: &[Entry]| -> String {
            let row = |entry: &Entry| {
                format!(
                    "<tr{}><td>{:.3} s</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                    if entry.is_fault { " class=\"fault\"" } else { "" },
                    entry.at.as_secs_f64(),
                    entry.revision,
                    escape(&entry.actor.to_string()),
                    escape(&entry.text)
                )
            };
            timeline.iter().map(row).collect()
        };
        let table = |timeline: &[Entry]| {
            format!(
                "<table><tr><th>time</th><th>revision</th><th>who</th><th>what</th></tr>\n{}</table>\n",
                rows(timeline)
            )
        };
        let mut body = format!("<h1>{}</h1>\n<pre>{}</pre>\n", escape(name), escape(&self.summary()));
        for failure in &self.failures {
            let findings: String = failure
                .findings
                .iter()
                .map(|finding| format!("<li><b>{}</b>: {}</li>\n", finding.oracle, escape(&finding.message)))
                .collect();
            body += &format!(
                "<h2>{}</h2>\n<ul>{findings}</ul>\n{}",
                escape(&failure.plan.to_string()),
                table(&failure.timeline)
            );
        }
        body += &format!("<h2>Without faults</h2>\n{}", table(&self.timeline));
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title><style>\n\
             body {{ font-family: sans-serif; margin: 2em; }} table {{ border-collapse: collapse; }}\n\
             td, th {{ padding: 2px 10px; text-align: left; font-family: monospace; }}\n\
             tr.fault {{ background: #fdd; font-weight: bold; }}\n</style></head><body>\n{body}</body></html>\n",
            escape(name)
        )
    }

    /// Returns a summary of what was tried, in a few lines.
    #[must_use]
    pub fn summary(&self) -> String {
        let crashes = |kind: &str| self.faults.get(kind).map_or(0, |tried| tried.injected);
        let mut text = format!(
            "{} runs in {:.1} s, {} failed; seed {}, fault-free timeline {}\n\
             {} writes, {} reads and {} requests without faults; {} crashes before a write, {} after one\n",
            self.runs,
            self.elapsed.as_secs_f64(),
            self.failed,
            self.seed,
            self.hash.get(..12).unwrap_or_default(),
            self.writes,
            self.reads,
            self.requests,
            crashes("crash-before"),
            crashes("crash-after"),
        );
        if let Some(varies) = &self.varies {
            text += &format!("not repeatable: {varies}\n");
        }
        if self.properties > 0 {
            text += &format!("{} changes of properties, each taken back\n", self.properties);
        }
        if self.pairs + self.equivalent > 0 {
            let (pairs, equivalent) = (self.pairs, self.equivalent);
            text += &format!("{pairs} pairs of crashes; {equivalent} more lead to states that were tried\n");
            if self.pairs_left_out > 0 {
                text += &format!("{} pairs of crashes were left out: too many\n", self.pairs_left_out);
            }
        }
        if self.ended_early > 0 {
            text += &format!("{} runs ended at a state from which a restart goes on\n", self.ended_early);
        }
        if self.unrepeated > 0 {
            text += &format!("{} more failed once and not again\n", self.unrepeated);
        }
        if self.untried > 0 {
            text += &format!(
                "{} plans were not tried: time was up, or the first failure was enough\n",
                self.untried
            );
        }
        for (kind, tried) in &self.faults {
            text += &format!("  {kind:<16} {:>5} planned, {:>5} injected\n", tried.planned, tried.injected);
        }
        text
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary())?;
        self.failures.iter().try_for_each(|failure| write!(f, "\n{failure}"))
    }
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML cannot represent most control characters.
            control if control.is_control() && !matches!(control, '\n' | '\t') => escaped.push('�'),
            other => escaped.push(other),
        }
    }
    escaped
}
