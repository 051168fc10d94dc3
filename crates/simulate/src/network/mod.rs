//! The network between operator and API server: it numbers requests and injects the plan's faults.

mod forward;
mod process;
mod record;
mod refusals;
mod sent;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use steersman_api::store::Store;
use tokio::{sync::watch, time::Instant};

pub(crate) use self::{
    process::Process,
    record::{CrashPoint, CrashPoints, Recorder},
    sent::Sent,
};
use self::{
    process::{Activity, ProcessState, Watches},
    refusals::Refusal,
};
use crate::{
    fault::Fault,
    target::Target,
    timeline::{Actor, Entry},
    timing::Timing,
};

/// The traffic of all replicas of an operator. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Network(Arc<Shared>);

struct Shared {
    config: Config,
    start: Instant,
    state: Mutex<State>,
}

/// The settings of a run's network.
pub(crate) struct Config {
    pub(crate) store: Store,
    pub(crate) faults: Vec<Fault>,
    pub(crate) timing: Timing,
    /// Maximum number of requests that are answered.
    pub(crate) request_limit: u64,
    /// Watches that a program opens when it starts.
    pub(crate) usual_watches: BTreeSet<String>,
    /// Takes a checkpoint around each write, if later runs are to continue from there.
    pub(crate) recorder: Option<Arc<Recorder>>,
}

#[derive(Default)]
struct State {
    /// Virtual time that elapsed in the run that this one continues.
    past: Duration,
    writes: Vec<Write>,
    reads: u32,
    requests: u64,
    starts: u32,
    entries: Vec<Entry>,
    used: BTreeSet<usize>,
    /// The process that last wrote a lease.
    leader: Option<u32>,
    deposed_writes: Vec<String>,
    /// Whether the operator is not restarted until the next step.
    stays_dead: bool,
    /// A stale revision that the next start reads from.
    stale: Option<u64>,
    refusals: Vec<Refusal>,
    /// The desired state that the operator last sent for each object.
    sent: BTreeMap<String, Sent>,
}

/// A write of the operator.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    /// Its number, starting at 1.
    pub(crate) number: u32,
    pub(crate) verb: &'static str,
    pub(crate) target: Target,
    /// The range of revisions that it created: (exclusive, inclusive).
    pub(crate) revisions: (u64, u64),
    pub(crate) conflicts: bool,
    /// Whether it created an object.
    pub(crate) creates: bool,
}

/// Statistics and timeline of a run's traffic.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) writes: Vec<Write>,
    pub(crate) reads: u32,
    pub(crate) requests: u64,
    pub(crate) entries: Vec<Entry>,
    pub(crate) used: Vec<Fault>,
    pub(crate) deposed_writes: Vec<String>,
}

impl Network {
    pub(crate) fn new(config: Config) -> Self {
        Self::with_state(config, State::default())
    }

    fn with_state(config: Config, state: State) -> Self {
        Self(Arc::new(Shared { config, start: Instant::now(), state: Mutex::new(state) }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when the run began.
    pub(crate) fn start(&self) -> Instant {
        self.0.start
    }

    /// Returns the time since the run began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.lock().past + self.0.start.elapsed()
    }

    /// Adds an entry to the timeline.
    pub(crate) fn note(&self, actor: Actor, text: impl Into<String>, fault: bool) {
        let entry = Entry {
            at: self.elapsed(),
            revision: self.0.config.store.latest(),
            actor,
            text: text.into(),
            is_fault: fault,
        };
        self.lock().entries.push(entry);
    }

    /// Records that a fault not tied to a request was injected.
    pub(crate) fn injected(&self, fault: &Fault) {
        self.note(Actor::Fault, fault.to_string(), true);
        if let Some(index) = self.0.config.faults.iter().position(|one| one == fault) {
            self.lock().used.insert(index);
        }
    }

    /// Returns the number of faults injected so far.
    pub(crate) fn faults(&self) -> usize {
        self.lock().entries.iter().filter(|entry| entry.is_fault).count()
    }

    /// Returns the number of requests so far, and the number of writes among them.
    pub(crate) fn counts(&self) -> (u64, usize) {
        let state = self.lock();
        (state.requests, state.writes.len())
    }

    /// Whether all faults of the plan were injected.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.lock().used.len() == self.0.config.faults.len()
    }

    /// Returns the desired state that the operator sent for an object that it created.
    pub(crate) fn sent(&self, key: &str) -> Option<Sent> {
        self.lock().sent.get(key).cloned()
    }

    /// Whether a crash lasts until the user's next step.
    pub(crate) fn stays_dead(&self) -> bool {
        self.lock().stays_dead
    }

    /// Allows the operator to be restarted after such a crash.
    pub(crate) fn revive(&self) {
        self.lock().stays_dead = false;
    }

    /// Returns the traffic of the run.
    pub(crate) fn finish(&self) -> Traffic {
        let mut state = self.lock();
        let used = state.used.iter().filter_map(|index| self.0.config.faults.get(*index).cloned()).collect();
        Traffic {
            writes: std::mem::take(&mut state.writes),
            reads: state.reads,
            requests: state.requests,
            entries: std::mem::take(&mut state.entries),
            used,
            deposed_writes: std::mem::take(&mut state.deposed_writes),
        }
    }

    /// Returns the connections of a process that is being started.
    pub(crate) fn process(&self, replica: u32) -> Process {
        let mut state = self.lock();
        state.starts += 1;
        let (start, stale) = (state.starts, state.stale.take());
        drop(state);
        let watches = Watches {
            held_until: stale.map(|_| Instant::now() + self.0.config.timing.staleness),
            stale_revision: stale,
            ..Watches::default()
        };
        self.note(Actor::Operator(start), format!("replica {replica} starts"), false);
        Process(Arc::new(ProcessState {
            network: self.clone(),
            start,
            dead: watch::Sender::new(false),
            cut_off_until: watch::Sender::new(Instant::now()),
            watches: watch::Sender::new(watches),
            activity: Mutex::new(Activity {
                requests: 0,
                streams: BTreeMap::new(),
                awaited: self.0.config.usual_watches.clone(),
                since: Instant::now(),
            }),
            clock: Mutex::default(),
        }))
    }
}
