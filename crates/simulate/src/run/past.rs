//! What runs with a crash have in common with the fault-free run, which is all before the operator dies.

use std::{collections::BTreeSet, sync::Arc};

use super::{Run, Settings, Subject, config, setup};
use crate::{
    Error,
    fault::Plan,
    network::{CrashPoint, CrashPoints, Network},
    oracle::Objects,
};

/// The fault-free run, as far as those with a crash go on from it.
#[derive(Debug)]
pub(crate) struct Past {
    seed: u64,
    points: CrashPoints,
    origin: u64,
    states: Vec<Option<Arc<Objects>>>,
    rested_at: Vec<u64>,
    by_user: Vec<(u64, u64)>,
    watches: BTreeSet<String>,
}

impl Past {
    pub(super) fn of(run: &Run<'_>, points: CrashPoints) -> Self {
        Self {
            seed: run.plan.seed,
            points,
            origin: run.origin,
            states: run.states.clone(),
            rested_at: run.rested_at.clone(),
            by_user: run.by_user.clone(),
            watches: run.watches.clone(),
        }
    }

    /// Where the run of a plan goes on, if it is like this one until the operator dies.
    pub(crate) fn crash_point(&self, plan: &Plan) -> Option<&CrashPoint> {
        self.points.of(plan).filter(|_| plan.seed == self.seed)
    }
}

impl<'a> Run<'a> {
    /// Goes on where the operator has died.
    pub(super) fn after_crash(
        subject: &Subject,
        settings: &'a Settings,
        plan: &'a Plan,
        past: &Past,
        point: &CrashPoint,
    ) -> Result<Self, Error> {
        let cluster = point.cluster.start(plan.seed).map_err(|error| setup(&error))?;
        let network = Network::after_crash(config(&cluster, settings, plan), &past.points, point);
        let mut run = Self::new(cluster, network, settings, plan);
        // Each step so far has left a state, and is one change by the user.
        let steps = usize::try_from(point.step).unwrap_or(usize::MAX);
        run.origin = past.origin;
        run.states = past.states.iter().take(steps).cloned().collect();
        run.rested_at = past.rested_at.iter().take(steps).copied().collect();
        run.by_user = past.by_user.iter().take(steps).copied().collect();
        run.watches = past.watches.clone();
        run.launch(subject, true)?;
        Ok(run)
    }

    /// Whether all that follows from step `taken` on is known: the operator died last, and the state has become that of the
    /// fault-free run, after which it is restarted in another run.
    pub(super) fn is_known_from(&self, taken: usize) -> bool {
        let Ok(taken) = u32::try_from(taken) else { return false };
        let died = self.plan.faults.last().is_some_and(|fault| fault.kills().is_some());
        // Clocks and definitions are no part of the state.
        let is_state_all = self.plan.faults.iter().all(|fault| fault.at_write().is_some());
        if !died
            || !is_state_all
            || !self.settings.restarted_after.contains(&taken)
            || !self.network.is_exhausted()
        {
            return false;
        }
        match (&self.settings.expected, self.states.last()) {
            (Some(baseline), Some(Some(objects))) => baseline.expects(taken, objects),
            _ => false,
        }
    }
}
