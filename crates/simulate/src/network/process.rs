//! A process of the operator: whether it lives, what it can reach, and what it has under way.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kube::Client;
use tokio::{sync::watch, time::Instant};

use super::{Network, forward::Faulty};
use crate::{command::Helper, timeline::Actor, timing::ProgramClock};

/// One process of the operator, from its start to its crash. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Process(pub(super) Arc<ProcessState>);

pub(super) struct ProcessState {
    pub(super) network: Network,
    pub(super) start: u32,
    pub(super) dead: watch::Sender<bool>,
    pub(super) cut_off_until: watch::Sender<Instant>,
    pub(super) watches: watch::Sender<Watches>,
    pub(super) activity: Mutex<Activity>,
    /// Of a program outside of this process.
    pub(super) clock: Mutex<ProgramClock>,
}

/// What a process has under way.
pub(super) struct Activity {
    /// Requests without an answer, watches apart.
    pub(super) requests: usize,
    /// Open watches.
    pub(super) streams: BTreeMap<String, usize>,
    /// Watches that it is about to open: those of a start, or those that broke.
    pub(super) awaited: BTreeSet<String>,
    /// When a watch was last opened or broken.
    pub(super) since: Instant,
}

/// A request under way.
pub(super) struct Pending(Process);

impl Pending {
    pub(super) fn begin(process: &Process) -> Self {
        process.activity().requests += 1;
        Self(process.clone())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.activity().requests -= 1;
    }
}

/// A watch that is open.
pub(super) struct Stream {
    process: Process,
    identity: String,
}

impl Stream {
    pub(super) fn open(process: &Process, identity: String) -> Self {
        let mut activity = process.activity();
        *activity.streams.entry(identity.clone()).or_default() += 1;
        activity.since = Instant::now();
        drop(activity);
        Self { process: process.clone(), identity }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut activity = self.process.activity();
        if let Some(open) = activity.streams.get_mut(&self.identity) {
            *open -= 1;
            if *open == 0 {
                activity.streams.remove(&self.identity);
            }
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Watches {
    /// Without end while it is set; else until a moment.
    pub(super) silent: bool,
    pub(super) held_until: Option<Instant>,
    /// Watches of single resources, by `resource.group`.
    pub(super) held_kinds: BTreeMap<String, Instant>,
    /// Moves when all watches are broken.
    pub(super) epoch: u64,
    /// Watches that are told once that their version is too old.
    pub(super) expired: BTreeSet<String>,
    pub(super) open: BTreeSet<String>,
    pub(super) stale_revision: Option<u64>,
}

impl Watches {
    /// Until when events of a resource are held.
    pub(super) fn held_until(&self, group_resource: &str) -> Option<Instant> {
        self.held_until.max(self.held_kinds.get(group_resource).copied())
    }

    /// Until when events of any resource are held.
    fn last_held(&self) -> Option<Instant> {
        self.held_until.max(self.held_kinds.values().max().copied())
    }
}

impl Process {
    /// A client whose traffic goes through here.
    pub(crate) fn client(&self, inner: Client) -> Client {
        let namespace = inner.default_namespace().to_owned();
        Client::new(Faulty { inner, process: self.clone() }, namespace)
    }

    pub(crate) fn actor(&self) -> Actor {
        Actor::Operator(self.0.start)
    }

    /// Cuts all connections for good: the process is dead.
    pub(crate) fn kill(&self) {
        self.0.dead.send_replace(true);
    }

    /// Waits until the process is to die.
    pub(crate) async fn dead(&self) {
        let mut dead = self.0.dead.subscribe();
        // The sender lives in this process.
        let _ = dead.wait_for(|dead| *dead).await;
    }

    /// Holds all watch events back until [`Process::expire_watches`].
    pub(crate) fn silence_watches(&self) {
        self.0.watches.send_modify(|watches| watches.silent = true);
    }

    /// Has the time of a program counted as this process's.
    pub(crate) fn is_program(&self, pid: u32, helper: Option<Helper>) {
        *self.clock() = ProgramClock::of(pid, helper);
    }

    /// How long a program worked so far, or would have on a machine of its own.
    pub(crate) fn busy(&self) -> Duration {
        self.clock().busy()
    }

    fn clock(&self) -> MutexGuard<'_, ProgramClock> {
        self.0.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn activity(&self) -> MutexGuard<'_, Activity> {
        self.0.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The watches that are open.
    pub(crate) fn open_watches(&self) -> BTreeSet<String> {
        self.activity().streams.keys().cloned().collect()
    }

    /// Since when the process waits for events: not while it has requests under way or watches still to open.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let activity = self.activity();
        let is_late = activity.since.elapsed() >= self.0.network.0.config.timing.startup;
        let has_watches = !activity.streams.is_empty()
            && activity.awaited.iter().all(|identity| activity.streams.contains_key(identity));
        if activity.requests > 0 || !(has_watches || is_late) {
            return None;
        }
        let held = self.0.watches.borrow().last_held().unwrap_or(activity.since);
        Some(activity.since.max(held).max(*self.0.cut_off_until.borrow()))
    }

    /// Notes that the open watches will be opened again.
    fn await_watches(&self) {
        let mut activity = self.activity();
        activity.awaited = activity.streams.keys().cloned().collect();
        activity.since = Instant::now();
    }

    /// Ends all watches, whose versions are then too old.
    pub(crate) fn expire_watches(&self) {
        self.await_watches();
        self.0.watches.send_modify(|watches| {
            watches.silent = false;
            watches.epoch += 1;
            watches.expired = watches.open.clone();
        });
    }

    pub(super) fn break_watches(&self) {
        self.await_watches();
        self.0.watches.send_modify(|watches| watches.epoch += 1);
    }

    pub(super) fn hold_watches(&self) {
        let until = Instant::now() + self.0.network.0.config.timing.delay;
        self.0.watches.send_modify(|watches| watches.held_until = Some(until));
    }

    pub(super) fn hold_kind(&self, group_resource: &str) {
        let until = Instant::now() + self.0.network.0.config.timing.delay;
        self.0.watches.send_modify(|watches| {
            watches.held_kinds.insert(group_resource.to_owned(), until);
        });
    }

    /// Waits as long as the process can't reach the API server: for ever if it is dead.
    pub(super) async fn reach(&self) {
        loop {
            if *self.0.dead.borrow() {
                std::future::pending::<()>().await;
            }
            let until = *self.0.cut_off_until.borrow();
            if Instant::now() >= until {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}
