//! The network between an operator and the API server: it numbers what passes, and breaks what the plan says.

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

/// What the traffic of a run goes by.
pub(crate) struct Config {
    pub(crate) store: Store,
    pub(crate) faults: Vec<Fault>,
    pub(crate) timing: Timing,
    /// Requests that are answered.
    pub(crate) request_limit: u64,
    /// Watches that a program opens when it starts.
    pub(crate) usual_watches: BTreeSet<String>,
    /// What takes a checkpoint around each write, if runs are to go on from there.
    pub(crate) recorder: Option<Arc<Recorder>>,
}

#[derive(Default)]
struct State {
    /// Virtual time before this network, in the run that this one goes on from.
    past: Duration,
    writes: Vec<Write>,
    reads: u32,
    requests: u64,
    starts: u32,
    entries: Vec<Entry>,
    used: BTreeSet<usize>,
    /// Who wrote a lease last.
    leader: Option<u32>,
    deposed_writes: Vec<String>,
    /// Whether the operator stays dead until the next step.
    stays_dead: bool,
    /// A revision that the next start does not see yet.
    stale: Option<u64>,
    refusals: Vec<Refusal>,
    /// What the operator last demanded of each object.
    sent: BTreeMap<String, Sent>,
}

/// A write of the operator.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    /// Its number, from 1 on.
    pub(crate) number: u32,
    pub(crate) verb: &'static str,
    pub(crate) target: Target,
    /// The revisions that it made: after the first, up to the second.
    pub(crate) revisions: (u64, u64),
    pub(crate) conflicts: bool,
    /// Whether it made an object.
    pub(crate) creates: bool,
}

/// What a run's traffic came to.
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

    /// The beginning of the run.
    pub(crate) fn start(&self) -> Instant {
        self.0.start
    }

    /// Time since the beginning of the run.
    pub(crate) fn elapsed(&self) -> Duration {
        self.lock().past + self.0.start.elapsed()
    }

    /// Notes something in the timeline.
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

    /// Notes that a fault that is not tied to a request has happened.
    pub(crate) fn injected(&self, fault: &Fault) {
        self.note(Actor::Fault, fault.to_string(), true);
        if let Some(index) = self.0.config.faults.iter().position(|one| one == fault) {
            self.lock().used.insert(index);
        }
    }

    /// How often faults were injected so far.
    pub(crate) fn faults(&self) -> usize {
        self.lock().entries.iter().filter(|entry| entry.is_fault).count()
    }

    /// How many requests were made so far, and how many of them were writes.
    pub(crate) fn counts(&self) -> (u64, usize) {
        let state = self.lock();
        (state.requests, state.writes.len())
    }

    /// Whether all that the plan has has happened.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.lock().used.len() == self.0.config.faults.len()
    }

    /// What the operator demands of an object that it made.
    pub(crate) fn sent(&self, key: &str) -> Option<Sent> {
        self.lock().sent.get(key).cloned()
    }

    /// Whether a crash was to last until the user's next step.
    pub(crate) fn stays_dead(&self) -> bool {
        self.lock().stays_dead
    }

    /// Lets the operator start again after such a crash.
    pub(crate) fn revive(&self) {
        self.lock().stays_dead = false;
    }

    /// What passed.
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

    /// The connections of a process that starts now.
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
