//! Where runs part from the fault-free one. A crash ends the operator's process, so that what comes after it follows from the
//! state of the cluster alone: runs with a crash go on from there, and do not make what came before once more.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use steersman_cluster::{Checkpoint, Cluster};
use tokio::time::Instant;

use super::{Config, Network, State, Write};
use crate::{
    fault::{Fault, Plan},
    timeline::{Actor, Entry},
};

/// Checkpoints of one run at most: each takes as much memory as the keys of a cluster's objects.
const LIMIT: usize = 500;

/// The number of a write, and whether it is committed.
type Place = (u32, bool);

/// Takes a checkpoint around each write of a fault-free run.
pub(crate) struct Recorder {
    cluster: Cluster,
    /// The step whose end is awaited. Nothing is recorded while users act.
    step: Mutex<Option<u32>>,
    points: Mutex<BTreeMap<Place, CrashPoint>>,
    /// The ends of steps.
    rests: Mutex<BTreeMap<u32, CrashPoint>>,
    /// Held by the write that is recorded: another one waits for its turn.
    pub(super) turn: tokio::sync::Mutex<()>,
}

/// A moment at which the operator may die.
#[derive(Debug, Clone)]
pub(crate) struct CrashPoint {
    pub(crate) cluster: Checkpoint,
    /// The step whose end was awaited, or has come.
    pub(crate) step: u32,
    /// The write that is under way, and what the timeline says of it. None at rest.
    write: Option<(Write, String)>,
    elapsed: Duration,
    revision: u64,
    writes: usize,
    entries: usize,
    reads: u32,
    requests: u64,
    starts: u32,
    leader: Option<u32>,
}

impl CrashPoint {
    /// Whether the step is over, and nothing is under way.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.write.is_none()
    }
}

/// The crash points of a fault-free run, and what passed in it.
#[derive(Debug)]
pub(crate) struct CrashPoints {
    points: BTreeMap<Place, CrashPoint>,
    rests: BTreeMap<u32, CrashPoint>,
    writes: Vec<Write>,
    entries: Vec<Entry>,
}

impl Recorder {
    pub(crate) fn new(cluster: Cluster) -> Self {
        let (step, points, rests) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { cluster, step, points, rests, turn: tokio::sync::Mutex::default() }
    }

    fn points(&self) -> MutexGuard<'_, BTreeMap<Place, CrashPoint>> {
        self.points.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rests(&self) -> MutexGuard<'_, BTreeMap<u32, CrashPoint>> {
        self.rests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CrashPoints {
    /// Where a plan parts from the fault-free run of the same seed: at its first fault, if the operator dies of that.
    pub(crate) fn of(&self, plan: &Plan) -> Option<&CrashPoint> {
        if let [Fault::Restart(step)] = plan.faults.as_slice() {
            return self.rests.get(step);
        }
        let faults = plan.faults.iter().map(|fault| Some((fault.at_write()?, fault)));
        let faults: Vec<_> = faults.collect::<Option<_>>()?;
        let (at, first) = faults.into_iter().min_by_key(|(at, _)| *at)?;
        self.points.get(&(at, first.kills()?))
    }
}

impl Network {
    /// Says the step whose end is awaited from now on.
    pub(crate) fn awaits(&self, step: Option<u32>) {
        if let Some(recorder) = &self.0.config.recorder {
            *recorder.step.lock().unwrap_or_else(PoisonError::into_inner) = step;
        }
    }

    /// Notes what the operator's death at this moment would leave, if that is wanted and no time passes until it is known.
    pub(super) async fn record(&self, write: &Write, text: &str, is_committed: bool) {
        let Some(recorder) = &self.0.config.recorder else { return };
        let step = *recorder.step.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(step) = step else { return };
        if recorder.points().len() >= LIMIT {
            return;
        }
        let under_way = (write.clone(), text.to_owned());
        if let Some(point) = self.crash_point(recorder, step, Some(under_way)).await {
            recorder.points().insert((write.number, is_committed), point);
        }
    }

    /// Notes what the operator's death at the end of a step would leave, if that is wanted.
    pub(crate) async fn record_rest(&self, step: u32) {
        let Some(recorder) = &self.0.config.recorder else { return };
        if let Some(point) = self.crash_point(recorder, step, None).await {
            recorder.rests().insert(step, point);
        }
    }

    /// This moment, unless time passes until the cluster has dealt with what was written.
    async fn crash_point(
        &self,
        recorder: &Recorder,
        step: u32,
        write: Option<(Write, String)>,
    ) -> Option<CrashPoint> {
        let (now, elapsed, revision) = (Instant::now(), self.elapsed(), self.0.config.store.latest());
        let (writes, entries, reads, requests, starts, leader) = {
            let state = self.lock();
            let (writes, entries) = (state.writes.len(), state.entries.len());
            (writes, entries, state.reads, state.requests, state.starts, state.leader)
        };
        let cluster = recorder.cluster.checkpoint().await.ok().filter(|_| Instant::now() == now)?;
        Some(CrashPoint {
            cluster,
            step,
            write,
            elapsed,
            revision,
            writes,
            entries,
            reads,
            requests,
            starts,
            leader,
        })
    }

    /// The crash points of a run that was recorded.
    pub(crate) fn crash_points(&self) -> Option<CrashPoints> {
        let recorder = self.0.config.recorder.as_ref()?;
        let state = self.lock();
        Some(CrashPoints {
            points: std::mem::take(&mut *recorder.points()),
            rests: std::mem::take(&mut *recorder.rests()),
            writes: state.writes.clone(),
            entries: state.entries.clone(),
        })
    }

    /// The traffic of a run that goes on where the operator has died.
    pub(crate) fn after_crash(config: Config, points: &CrashPoints, point: &CrashPoint) -> Self {
        let under_way = point.write.as_ref();
        let counted = under_way.map_or(point.writes, |(write, _)| write.number as usize - 1);
        let earlier = points.writes.iter().take(counted).cloned();
        let state = State {
            past: point.elapsed,
            writes: earlier.chain(under_way.map(|(write, _)| write.clone())).collect(),
            entries: points.entries.iter().take(point.entries).cloned().collect(),
            reads: point.reads,
            requests: point.requests,
            starts: point.starts,
            leader: point.leader,
            ..State::default()
        };
        let network = Self::with_state(config, state);
        if let Some((write, text)) = under_way
            && let Some((index, fault)) = network.fault_at(write.number)
        {
            network.lock().used.insert(index);
            network.crash(text, fault, write, point.starts, point.revision);
        }
        network
    }

    /// The fault that the plan has for a write, and its place in the plan.
    pub(super) fn fault_at(&self, number: u32) -> Option<(usize, &Fault)> {
        let faults = self.0.config.faults.iter().enumerate();
        faults.into_iter().find(|(_, fault)| fault.at_write() == Some(number))
    }

    /// Notes that the operator dies around a write, and what that means for its next start.
    pub(super) fn crash(&self, text: &str, fault: &Fault, write: &Write, start: u32, revision: u64) {
        let when = match fault {
            Fault::CrashBefore(_) => "crashes before it is sent",
            _ => "crashes before it sees the answer",
        };
        let (at, actor) = (self.elapsed(), Actor::Operator(start));
        let mut state = self.lock();
        state.entries.push(Entry { at, revision, actor, text: format!("{text}: {when}"), is_fault: true });
        match fault {
            Fault::StaleRestart(_) => state.stale = Some(write.revisions.0),
            Fault::DeadAfter(_) => state.stays_dead = true,
            _ => {}
        }
    }
}
