//! Which plans are tried.

use super::Simulation;
use crate::{
    fault::{Fault, Plan},
    run::Outcome,
};

/// Faults of a random plan at most.
const COMBINED: usize = 3;

impl Simulation {
    /// Every single fault, and then random combinations.
    pub(super) fn plans(&self, baseline: &Outcome) -> Vec<Plan> {
        let mut faults = Vec::new();
        for (index, write) in baseline.traffic.writes.iter().enumerate() {
            let at = number(index + 1);
            if write.revisions.0 == write.revisions.1 {
                // A write that changes nothing: a crash around it is the crash around its neighbours.
                faults.push(Fault::Refused(at, 500));
                continue;
            }
            faults.extend([
                Fault::CrashBefore(at),
                Fault::CrashAfter(at),
                Fault::DeadAfter(at),
                Fault::StaleRestart(at),
                Fault::Refused(at, 500),
                Fault::Lost(at),
                Fault::TimedOut(at),
                Fault::Delayed(at),
                Fault::WatchHeld(at),
                Fault::WatchBroken(at),
                Fault::WatchExpired(at),
            ]);
            if write.conflicts {
                faults.push(Fault::Refused(at, 409));
            }
            if self.settings.replicas > 1 {
                faults.push(Fault::LeaseLost(at));
            }
        }
        faults.extend((1..=baseline.traffic.reads).map(Fault::ReadFailed));
        let steps = self.scenario.steps.len();
        faults.extend((0..=number(steps)).map(Fault::Restart));
        faults.extend((1..number(steps)).flat_map(|step| [Fault::Down(step), Fault::Blind(step)]));
        for (step, state) in baseline.states.iter().enumerate() {
            // What outlives the user's objects is kept on purpose, and has no one to bring it back.
            if !state.as_ref().is_some_and(|state| self.scenario.has_objects_in(state.values())) {
                continue;
            }
            let live = state
                .iter()
                .flatten()
                .filter(|(_, object)| object["metadata"]["deletionTimestamp"].is_null());
            let made = live.filter(|(key, _)| baseline.made.contains(*key));
            faults.extend(made.map(|(key, _)| Fault::DeletedOutside(number(step), key.clone())));
        }
        let is_tried =
            |kind| self.only.as_ref().is_none_or(|only| only.contains(kind)) && !self.without.contains(kind);
        faults.retain(|fault| is_tried(fault.kind()));
        // What finds most comes first: crashes, and then what is not tied to a write.
        faults.sort_by_key(|fault| match fault {
            Fault::CrashAfter(_) | Fault::CrashBefore(_) => 0,
            fault if fault.at_write().is_none() => 1,
            _ => 2,
        });
        let mut plans: Vec<Plan> = faults.iter().map(|fault| Plan::new(self.seed, [fault.clone()])).collect();
        let mut random = fastrand::Rng::with_seed(self.seed);
        if !faults.is_empty() {
            for index in 0..self.random {
                let seed = self.seed.wrapping_add(index as u64);
                let mut combined: Vec<Fault> = (0..random.usize(1..=COMBINED))
                    .map(|_| faults[random.usize(..faults.len())].clone())
                    .collect();
                for fault in &mut combined {
                    if let Fault::Refused(_, code) = fault
                        && *code != 409
                    {
                        *code = [429, 500, 503][random.usize(..3)];
                    }
                }
                combined.sort_by_key(|fault| (fault.at_write(), fault.clone()));
                // Two faults at one write would hide each other.
                combined.dedup_by_key(|fault| fault.at_write().ok_or_else(|| fault.clone()));
                plans.push(Plan::new(seed, combined));
            }
        }
        plans
    }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
