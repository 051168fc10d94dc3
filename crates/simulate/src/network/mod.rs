//! The network between an operator and the API server: it numbers what passes, and breaks what the plan says.

mod forward;
mod process;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use steersman_api::store::Store;
use tokio::{sync::watch, time::Instant};

pub(crate) use self::process::Process;
use self::process::{Activity, ProcessState, Watches};
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
    store: Store,
    faults: Vec<Fault>,
    timing: Timing,
    /// Requests that are answered.
    request_limit: u64,
    /// Watches that a program opens when it starts.
    usual_watches: BTreeSet<String>,
    start: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
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
}

/// A write of the operator.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    pub(crate) target: Target,
    /// The revisions that it made: after the first, up to the second.
    pub(crate) revisions: (u64, u64),
    pub(crate) conflicts: bool,
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
    pub(crate) fn new(
        store: Store,
        faults: Vec<Fault>,
        timing: Timing,
        request_limit: u64,
        usual_watches: BTreeSet<String>,
    ) -> Self {
        let (start, state) = (Instant::now(), Mutex::default());
        Self(Arc::new(Shared { store, faults, timing, request_limit, usual_watches, start, state }))
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
        self.0.start.elapsed()
    }

    /// Notes something in the timeline.
    pub(crate) fn note(&self, actor: Actor, text: impl Into<String>, fault: bool) {
        let entry = Entry {
            at: self.elapsed(),
            revision: self.0.store.latest(),
            actor,
            text: text.into(),
            is_fault: fault,
        };
        self.lock().entries.push(entry);
    }

    /// Notes that a fault that is not tied to a request has happened.
    pub(crate) fn injected(&self, fault: &Fault) {
        self.note(Actor::Fault, fault.to_string(), true);
        if let Some(index) = self.0.faults.iter().position(|one| one == fault) {
            self.lock().used.insert(index);
        }
    }

    /// How many requests were made so far, and how many of them were writes.
    pub(crate) fn counts(&self) -> (u64, usize) {
        let state = self.lock();
        (state.requests, state.writes.len())
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
        let used = state.used.iter().filter_map(|index| self.0.faults.get(*index).cloned()).collect();
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
            held_until: stale.map(|_| Instant::now() + self.0.timing.staleness),
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
                awaited: self.0.usual_watches.clone(),
                since: Instant::now(),
            }),
            clock: Mutex::default(),
        }))
    }
}
