//! A process of the operator: whether it is alive, its connectivity, and its requests in flight.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kube::Client;
use tokio::{sync::watch, time::Instant};

use super::{Network, forward::Faulty};
use crate::{command::ProcessHelper, timeline::Actor, timing::ProgramClock};

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
    /// For an external program.
    pub(super) clock: Mutex<ProgramClock>,
}

/// Requests and watches in flight of a process.
pub(super) struct Activity {
    /// Requests without a response, except watches.
    pub(super) requests: usize,
    /// Open watches.
    pub(super) streams: BTreeMap<String, usize>,
    /// Watches that it is expected to open: those of a start, or those that broke.
    pub(super) awaited: BTreeSet<String>,
    /// When a watch was last opened or broken.
    pub(super) since: Instant,
}

/// A request in flight.
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

/// An open watch.
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
    /// Whether events are held indefinitely; otherwise `held_until` applies.
    pub(super) silent: bool,
    pub(super) held_until: Option<Instant>,
    /// Until when watches of single resources are held, by `resource.group`.
    pub(super) held_kinds: BTreeMap<String, Instant>,
    /// Incremented when all watches are broken.
    pub(super) epoch: u64,
    /// Watches that get one error that their resourceVersion is expired.
    pub(super) expired: BTreeSet<String>,
    pub(super) open: BTreeSet<String>,
    pub(super) stale_revision: Option<u64>,
}

impl Watches {
    /// Returns until when events of a resource are held.
    pub(super) fn held_until(&self, group_resource: &str) -> Option<Instant> {
        self.held_until.max(self.held_kinds.get(group_resource).copied())
    }

    /// Returns until when events of any resource are held.
    fn last_held(&self) -> Option<Instant> {
        self.held_until.max(self.held_kinds.values().max().copied())
    }
}

impl Process {
    /// Returns a client whose traffic passes through this network.
    pub(crate) fn client(&self, inner: Client) -> Client {
        let namespace = inner.default_namespace().to_owned();
        Client::new(Faulty { inner, process: self.clone() }, namespace)
    }

    pub(crate) fn actor(&self) -> Actor {
        Actor::Operator(self.0.start)
    }

    /// Cuts all connections permanently: the process is dead.
    pub(crate) fn kill(&self) {
        self.0.dead.send_replace(true);
    }

    /// Waits until the process is killed.
    pub(crate) async fn dead(&self) {
        let mut dead = self.0.dead.subscribe();
        // The sender is part of this process, so it is never dropped first.
        let _ = dead.wait_for(|dead| *dead).await;
    }

    /// Holds all watch events until [`Process::expire_watches`].
    pub(crate) fn silence_watches(&self) {
        self.0.watches.send_modify(|watches| watches.silent = true);
    }

    /// Starts to measure the CPU time of a program as this process's.
    pub(crate) fn is_program(&self, pid: u32, helper: Option<ProcessHelper>) {
        *self.clock() = ProgramClock::of(pid, helper);
    }

    /// Returns how long a program was runnable so far.
    pub(crate) fn busy(&self) -> Duration {
        self.clock().busy()
    }

    fn clock(&self) -> MutexGuard<'_, ProgramClock> {
        self.0.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn activity(&self) -> MutexGuard<'_, Activity> {
        self.0.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the open watches.
    pub(crate) fn open_watches(&self) -> BTreeSet<String> {
        self.activity().streams.keys().cloned().collect()
    }

    /// Returns since when the process is idle, without requests in flight or watches left to open.
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

    /// Marks the open watches as expected to be reopened.
    fn await_watches(&self) {
        let mut activity = self.activity();
        activity.awaited = activity.streams.keys().cloned().collect();
        activity.since = Instant::now();
    }

    /// Ends all watches and expires their resourceVersions.
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

    /// Waits while the process can't reach the API server: forever if it is dead.
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
