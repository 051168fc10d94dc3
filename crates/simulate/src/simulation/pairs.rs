//! Plans pairs of crashes from runs with one crash: a second crash at the first write of the recovery.

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};

use super::Simulation;
use crate::{
    fault::{Fault, Plan},
    oracle::{Baseline, Objects},
    run::Outcome,
};

/// Maximum number of pairs per write of the fault-free run.
const PAIRS_PER_WRITE: usize = 2;

/// A write and the state in which it is made.
///
/// A crash after it always has the same result, since the next process knows only the state.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WriteInState {
    write: String,
    state: [u8; 32],
}

/// Returns the crash faults after a write.
fn crashes(at: u32) -> [Fault; 2] {
    [Fault::CrashAfter(at), Fault::StaleRestart(at)]
}

/// The first write of a recovery.
#[derive(Debug)]
pub(super) struct Recovery {
    fault: Fault,
    /// The number of the write.
    at: u32,
    moment: WriteInState,
}

/// The planned pairs of crashes.
pub(super) struct Pairs {
    pub(super) plans: Vec<Plan>,
    /// Number of pairs skipped because a crash already showed the resulting state.
    pub(super) equivalent: usize,
    /// Number of pairs beyond the limit.
    pub(super) left_out: usize,
}

impl WriteInState {
    /// Returns the moment of a write, numbered from 1, if it changed something.
    fn of(outcome: &Outcome, baseline: &Baseline, number: u32) -> Option<Self> {
        let write = outcome.traffic.writes.get(usize::try_from(number).ok()?.checked_sub(1)?)?;
        let (before, after) = write.revisions;
        if before == after {
            return None;
        }
        let mut objects = Objects::new();
        for change in outcome.changes.iter().take_while(|change| change.revision <= before) {
            match change.verb {
                "DELETED" => drop(objects.remove(&change.key)),
                _ => drop(objects.insert(change.key.clone(), change.object())),
            }
        }
        let mut hash = Sha256::new();
        for (key, object) in baseline.masks.normalize(&objects) {
            hash.update(format!("{key} {object}\n"));
        }
        Some(Self { write: format!("{} {}", write.verb, write.target), state: hash.finalize().into() })
    }
}

impl Recovery {
    /// Returns the first write after the restart, in a run with a single crash after a write.
    pub(super) fn of(plan: &Plan, outcome: &Outcome, baseline: &Baseline) -> Option<Self> {
        let [fault @ (Fault::CrashAfter(crash) | Fault::StaleRestart(crash))] = plan.faults.as_slice() else {
            return None;
        };
        let at = crash.checked_add(1)?;
        Some(Self { fault: fault.clone(), at, moment: WriteInState::of(outcome, baseline, at)? })
    }
}

impl Simulation {
    /// Plans a crash at the first write of each recovery.
    ///
    /// Moments already covered by a crash in the fault-free run or in another recovery are skipped.
    pub(super) fn plan_pairs(&self, free: &Outcome, baseline: &Baseline, recoveries: Vec<Recovery>) -> Pairs {
        let writes = u32::try_from(free.traffic.writes.len()).unwrap_or(u32::MAX);
        let moments = (1..=writes).filter_map(|at| Some((at, WriteInState::of(free, baseline, at)?)));
        let mut seen: BTreeSet<(&str, WriteInState)> = moments
            .flat_map(|(at, moment)| crashes(at).map(|crash| (crash.kind(), moment.clone())))
            .collect();
        let (mut plans, mut equivalent) = (Vec::new(), 0);
        for Recovery { fault, at, moment } in recoveries {
            for crash in crashes(at).into_iter().filter(|crash| self.is_tried(crash.kind())) {
                if seen.insert((crash.kind(), moment.clone())) {
                    plans.push(Plan::new(self.seed, [fault.clone(), crash]));
                } else {
                    equivalent += 1;
                }
            }
        }
        let limit = free.traffic.writes.len() * PAIRS_PER_WRITE;
        let left_out = plans.len().saturating_sub(limit);
        plans.truncate(limit);
        Pairs { plans, equivalent, left_out }
    }
}
