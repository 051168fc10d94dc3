//! Generates the plans to try.

use std::collections::BTreeSet;

use super::Simulation;
use crate::{
    fault::{Fault, Plan},
    run::Outcome,
};

/// Maximum number of faults of a random plan.
const COMBINED: usize = 3;

impl Simulation {
    /// Whether a fault kind is tried.
    pub(super) fn is_tried(&self, kind: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(kind)) && !self.without.contains(kind)
    }

    /// Returns the plans of single crashes, and those of other single faults and random combinations.
    pub(super) fn plans(&self, baseline: &Outcome) -> (Vec<Plan>, Vec<Plan>) {
        let mut faults = Vec::new();
        let watched: BTreeSet<&str> =
            baseline.watches.iter().filter_map(|identity| identity.split([' ', '?']).next()).collect();
        for (index, write) in baseline.traffic.writes.iter().enumerate() {
            let at = number(index + 1);
            if write.revisions.0 == write.revisions.1 {
                // The write changes nothing: a crash around it equals a crash around its neighbours.
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
                Fault::Denied(at),
                Fault::Delayed(at),
                Fault::WatchHeld(at),
                Fault::WatchBroken(at),
                Fault::WatchExpired(at),
            ]);
            if write.conflicts {
                faults.push(Fault::Refused(at, 409));
            }
            if write.creates && write.target.namespace.is_some() {
                faults.push(Fault::Quota(at));
            }
            if watched.len() > 1 {
                faults.extend(watched.iter().map(|resource| Fault::KindHeld(at, (*resource).to_owned())));
            }
            if self.settings.replicas > 1 {
                faults.push(Fault::LeaseLost(at));
            }
        }
        faults.extend((1..=baseline.traffic.reads).map(Fault::ReadFailed));
        let steps = self.scenario.steps.len();
        faults.extend((1..number(steps)).flat_map(|step| [Fault::Down(step), Fault::Blind(step)]));
        let is_wanted = |fault: &&Fault| {
            let Some(Some(state)) = fault.at_rest().and_then(|step| baseline.states.get(step as usize))
            else {
                return false;
            };
            match fault {
                Fault::Restart(_) => true,
                // Objects that outlive the user's are kept on purpose, and no operator restores them.
                _ if !self.scenario.has_objects_in(state.values()) => false,
                Fault::DeletedOutside(_, key) | Fault::EditedOutside(_, key) => {
                    let is_live =
                        state.get(key).is_some_and(|one| one["metadata"]["deletionTimestamp"].is_null());
                    is_live && baseline.made.contains(key)
                }
                _ => true,
            }
        };
        faults.extend(baseline.possible.iter().filter(is_wanted).cloned());
        faults.retain(|fault| self.is_tried(fault.kind()));
        let (crashes, others): (Vec<&Fault>, Vec<&Fault>) =
            faults.iter().partition(|fault| fault.kills().is_some() || matches!(fault, Fault::LeaseLost(_)));
        // Faults that are not tied to a write find most, so they are tried first.
        let (at_writes, at_rest): (Vec<&Fault>, Vec<&Fault>) =
            others.into_iter().partition(|fault| fault.at_write().is_some());
        let alone = |fault: &Fault| Plan::new(self.seed, [fault.clone()]);
        let crashes = crashes.into_iter().map(alone).collect();
        let mut others: Vec<Plan> = at_rest.into_iter().chain(at_writes).map(alone).collect();
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
                // Two faults at the same write would hide each other.
                combined.dedup_by_key(|fault| fault.at_write().ok_or_else(|| fault.clone()));
                others.push(Plan::new(seed, combined));
            }
        }
        (crashes, others)
    }

    /// Returns the steps after which a plan does nothing but restart the operator.
    ///
    /// Empty if some objects are not compared: equal states may then continue differently.
    pub(super) fn restarted_after(&self, plans: &[Plan]) -> BTreeSet<u32> {
        if self.settings.timing.is_real || !self.rules.ignored.objects.is_empty() {
            return BTreeSet::new();
        }
        let steps = plans.iter().filter_map(|plan| match plan.faults.as_slice() {
            [Fault::Restart(step)] => Some(*step),
            _ => None,
        });
        steps.collect()
    }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
