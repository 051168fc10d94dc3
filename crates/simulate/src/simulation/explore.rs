//! Tries plans, and shrinks those that fail.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Instant,
};

use super::{Progress, Simulation, pairs::Recovery};
use crate::{
    Error,
    fault::Plan,
    oracle::{Baseline, Finding},
    report::{Coverage, Failure, Report},
    run::{Course, Outcome},
};

/// Maximum number of distinct failures kept with their timelines.
const KEPT: usize = 10;

impl Simulation {
    /// Executes the runs of all plans, several concurrently. A replayed plan is not shrunk.
    pub(super) fn explore(
        &self,
        baseline: &Baseline,
        plans: &[Plan],
        shrinks: bool,
        begin: Instant,
        report: &mut Report,
    ) -> Result<Vec<Recovery>, Error> {
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(self.stop_early && report.failed > 0));
        let results = Mutex::new(Vec::new());
        // Counts continue from an earlier call.
        let (tried_before, failed_before) = (report.runs, report.failed);
        let failures = AtomicUsize::new(failed_before);
        let is_over = || {
            stop.load(SeqCst)
                || self.settings.interrupt.is_raised()
                || self.budget.is_some_and(|budget| begin.elapsed() >= budget)
        };
        let work = || {
            while !is_over() {
                let index = next.fetch_add(1, SeqCst);
                let Some(plan) = plans.get(index) else { break };
                let judged = self.try_plan(baseline, plan);
                if self.settings.interrupt.is_raised() {
                    break;
                }
                let failed = !matches!(&judged, Ok(tried) if tried.findings.is_empty());
                // There are many timelines, and only those of failures are shown.
                let kept = judged.map(|tried| {
                    let coverage = Coverage::of(plan, &tried.outcome);
                    let recovery = self.pairs.then(|| Recovery::of(plan, &tried.outcome, baseline)).flatten();
                    let hash = (!shrinks).then(|| tried.outcome.hash.clone());
                    (coverage, recovery, hash, tried.was_alone, (!tried.findings.is_empty()).then_some(tried))
                });
                let failed_so_far = failures.fetch_add(usize::from(failed), SeqCst) + usize::from(failed);
                let tried = {
                    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                    results.push((index, kept));
                    tried_before + results.len()
                };
                let planned = tried_before + plans.len();
                self.listener.tell(&Progress::Tried { tried, planned, failed: failed_so_far });
                if failed && self.stop_early {
                    stop.store(true, SeqCst);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(work);
            }
        });
        let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.sort_by_key(|(index, _)| *index);
        report.untried += plans.len() - results.len();
        let mut recoveries = Vec::new();
        for (index, judged) in results {
            let (coverage, recovery, hash, was_alone, failed) = judged?;
            recoveries.extend(recovery);
            report.runs += 1;
            report.replayed = hash;
            report.cover(&coverage);
            report.unrepeated += usize::from(was_alone);
            let Some(tried) = failed else { continue };
            report.failed += 1;
            let is_known = |known: &Failure| known.findings.first() == tried.findings.first();
            if report.failures.len() < KEPT && !report.failures.iter().any(is_known) {
                let failure = match plans.get(index) {
                    Some(plan) if shrinks && plan.faults.len() > 1 => {
                        self.shrink(baseline, plan.clone(), tried)?
                    }
                    Some(plan) => Failure::new(plan.clone(), tried.findings, &tried.outcome),
                    None => continue,
                };
                report.failures.push(failure);
            }
        }
        Ok(recoveries)
    }

    /// Executes and judges a plan's run. A program's run counts as failed if it fails twice.
    fn try_plan(&self, baseline: &Baseline, plan: &Plan) -> Result<RunResult, Error> {
        let judge = || {
            let outcome = self.execute(plan, Course::Scenario, baseline.request_limit())?;
            let findings = baseline.judge(&outcome, plan, &self.scenario, &self.rules);
            Ok::<_, Error>(RunResult { outcome, findings, was_alone: false })
        };
        let tried = judge()?;
        if !self.settings.timing.is_real || tried.findings.is_empty() {
            return Ok(tried);
        }
        let again = judge()?;
        let was_alone = again.findings.is_empty();
        Ok(RunResult { was_alone, ..again })
    }

    /// Shrinks a plan: removes faults without which the run still fails.
    fn shrink(&self, baseline: &Baseline, mut plan: Plan, mut tried: RunResult) -> Result<Failure, Error> {
        let mut index = 0;
        while plan.faults.len() > 1 && index < plan.faults.len() {
            let mut smaller = plan.clone();
            smaller.faults.remove(index);
            let other = self.try_plan(baseline, &smaller)?;
            if other.findings.is_empty() {
                index += 1;
            } else {
                (plan, tried) = (smaller, other);
                index = 0;
            }
        }
        Ok(Failure::new(plan, tried.findings, &tried.outcome))
    }
}

/// A run and its findings.
struct RunResult {
    outcome: Outcome,
    findings: Vec<Finding>,
    /// Whether the plan's first run failed and the second one did not.
    was_alone: bool,
}
