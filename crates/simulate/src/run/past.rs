//! Continues runs with a crash from the fault-free run, which they share up to the crash.

use std::{collections::BTreeSet, sync::Arc};

use super::{Run, Settings, Subject, config, setup};
use crate::{
    Error,
    fault::Plan,
    network::{CrashPoint, CrashPoints, Network},
    oracle::Objects,
};

/// The parts of the fault-free run that runs with a crash continue from.
#[derive(Debug)]
pub(crate) struct FaultFreeRun {
    seed: u64,
    points: CrashPoints,
    origin: u64,
    states: Vec<Option<Arc<Objects>>>,
    rested_at: Vec<u64>,
    by_user: Vec<(u64, u64)>,
    watches: BTreeSet<String>,
}

impl FaultFreeRun {
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

    /// Returns where a plan's run continues, if it equals the fault-free run up to a crash.
    pub(crate) fn crash_point(&self, plan: &Plan) -> Option<&CrashPoint> {
        self.points.of(plan).filter(|_| plan.seed == self.seed)
    }
}

impl<'a> Run<'a> {
    /// Creates a run that continues at a crash point.
    pub(super) fn after_crash(
        subject: &Subject,
        settings: &'a Settings,
        plan: &'a Plan,
        past: &FaultFreeRun,
        point: &CrashPoint,
    ) -> Result<Self, Error> {
        let cluster = point.cluster.start(plan.seed).map_err(|error| setup(&error))?;
        let network = Network::after_crash(config(&cluster, settings, plan), &past.points, point);
        let mut run = Self::new(cluster, network, settings, plan);
        // Each step so far has a state and one change by the user.
        let steps = usize::try_from(point.step).unwrap_or(usize::MAX);
        run.origin = past.origin;
        run.states = past.states.iter().take(steps).cloned().collect();
        run.rested_at = past.rested_at.iter().take(steps).copied().collect();
        run.by_user = past.by_user.iter().take(steps).copied().collect();
        run.watches = past.watches.clone();
        run.launch(subject, true)?;
        Ok(run)
    }

    /// Whether the rest of the run from step `taken` on is known, so that it can end early.
    ///
    /// It is if the last fault was a crash, the state equals that of the fault-free run, and another run restarts the
    /// operator there.
    pub(super) fn is_known_from(&self, taken: usize) -> bool {
        let Ok(taken) = u32::try_from(taken) else { return false };
        let died = self.plan.faults.last().is_some_and(|fault| fault.kills().is_some());
        // Clocks and definitions are not part of the compared state.
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
