//! Checkpoints of the fault-free run, from which runs with a crash continue.
//!
//! A crash ends the operator's process, so what follows depends only on the state of the cluster: a run with a crash starts from
//! the checkpoint at the crash instead of repeating everything before it.

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

/// Maximum number of checkpoints of a run; each takes as much memory as the keys of all objects.
const LIMIT: usize = 500;

/// The number of a write, and whether it is committed.
type Place = (u32, bool);

/// Takes a checkpoint around each write of a fault-free run.
pub(crate) struct Recorder {
    cluster: Cluster,
    /// The step whose end is awaited; `None` while users act, when nothing is recorded.
    step: Mutex<Option<u32>>,
    points: Mutex<BTreeMap<Place, CrashPoint>>,
    /// The crash points at rest, by step.
    rests: Mutex<BTreeMap<u32, CrashPoint>>,
    /// Serializes writes while they are recorded.
    pub(super) turn: tokio::sync::Mutex<()>,
}

/// A point of the run at which the operator may crash.
#[derive(Debug, Clone)]
pub(crate) struct CrashPoint {
    pub(crate) cluster: Checkpoint,
    /// The step whose end was awaited, or that just ended.
    pub(crate) step: u32,
    /// The write in flight and its timeline text; `None` at rest.
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
    /// Whether the step is over and nothing is in flight.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.write.is_none()
    }
}

/// The crash points of a fault-free run, with its writes and timeline.
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
    /// Returns where a plan diverges from the fault-free run: at its first fault, if that is a crash.
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
    /// Sets the step whose end is awaited from now on.
    pub(crate) fn awaits(&self, step: Option<u32>) {
        if let Some(recorder) = &self.0.config.recorder {
            *recorder.step.lock().unwrap_or_else(PoisonError::into_inner) = step;
        }
    }

    /// Records a crash point at a write, if enabled and if the cluster settles without time passing.
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

    /// Records a crash point at the end of a step, if recording is enabled.
    pub(crate) async fn record_rest(&self, step: u32) {
        let Some(recorder) = &self.0.config.recorder else { return };
        if let Some(point) = self.crash_point(recorder, step, None).await {
            recorder.rests().insert(step, point);
        }
    }

    /// Returns a crash point at this moment; `None` if time passes until the cluster has settled.
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

    /// Returns the crash points of a recorded run.
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

    /// Creates the network of a run that continues from a crash point.
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

    /// Returns the plan's fault for a write, with its index in the plan.
    pub(super) fn fault_at(&self, number: u32) -> Option<(usize, &Fault)> {
        let faults = self.0.config.faults.iter().enumerate();
        faults.into_iter().find(|(_, fault)| fault.at_write() == Some(number))
    }

    /// Records the operator's crash around a write, and what its next start will see.
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
