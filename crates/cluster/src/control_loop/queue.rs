//! Work queue with delays and backoff.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use super::{Clock, ClockChange, Controller};

/// An object to be reconciled by a controller.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WorkItem {
    /// The controller.
    pub(crate) controller: Controller,
    /// Namespace, or empty.
    pub(crate) namespace: String,
    /// Name; for the garbage collector a uid.
    pub(crate) name: String,
}

impl WorkItem {
    pub(crate) fn new(controller: Controller, namespace: &str, name: &str) -> Self {
        Self { controller, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// FIFO queue without duplicates, with timers for delayed items.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    clock: Clock,
    ready: VecDeque<WorkItem>,
    queued: BTreeSet<WorkItem>,
    timers: BTreeMap<(Instant, u64), WorkItem>,
    sequence: u64,
    failures: HashMap<WorkItem, u32>,
    /// Items that are not handed out, because a request of theirs is late.
    held: HashSet<WorkItem>,
}

const FIRST_RETRY: Duration = Duration::from_millis(5);
const LAST_RETRY: Duration = Duration::from_secs(10);
/// A thousand years. A longer delay never fires, and could overflow the clock.
const NEVER: Duration = Duration::from_secs(1000 * 365 * 24 * 60 * 60);

impl Queue {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            ready: VecDeque::new(),
            queued: BTreeSet::new(),
            timers: BTreeMap::new(),
            sequence: 0,
            failures: HashMap::new(),
            held: HashSet::new(),
        }
    }

    /// Returns the same items, with their timers on another clock.
    pub(super) fn on_clock(&self, change: ClockChange, clock: Clock) -> Self {
        let timers = self.timers.iter();
        let timers = timers.map(|((at, number), item)| ((change.carry(*at), *number), item.clone()));
        Self { timers: timers.collect(), clock, ..self.clone() }
    }

    pub(crate) fn push(&mut self, item: WorkItem) {
        if !self.held.contains(&item) && self.queued.insert(item.clone()) {
            self.ready.push_back(item);
        }
    }

    pub(crate) fn push_after(&mut self, item: WorkItem, delay: Duration) {
        if delay >= NEVER {
            return;
        }
        self.sequence += 1;
        self.timers.insert((self.clock.now() + delay, self.sequence), item);
    }

    pub(crate) fn pop(&mut self) -> Option<WorkItem> {
        let item = self.ready.pop_front()?;
        self.queued.remove(&item);
        Some(item)
    }

    /// Holds an item back until it is released.
    pub(crate) fn hold(&mut self, item: WorkItem) {
        if self.queued.remove(&item) {
            self.ready.retain(|ready| *ready != item);
        }
        self.held.insert(item);
    }

    /// Releases and enqueues an item, since changes may have been missed meanwhile.
    pub(crate) fn release(&mut self, item: WorkItem) {
        self.held.remove(&item);
        self.push(item);
    }

    /// Enqueues an item after a failure, with exponential backoff.
    pub(crate) fn retry(&mut self, item: WorkItem) {
        let failures = self.failures.entry(item.clone()).or_default();
        let delay =
            FIRST_RETRY.saturating_mul(1_u32.checked_shl(*failures).unwrap_or(u32::MAX)).min(LAST_RETRY);
        *failures += 1;
        self.push_after(item, delay);
    }

    /// Resets the backoff of an item that was reconciled.
    pub(crate) fn forget_failures(&mut self, item: &WorkItem) {
        self.failures.remove(item);
    }

    /// Returns when the next timer is due, on tokio's clock.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.timers.first_key_value().map(|((at, _), _)| self.clock.deadline(*at))
    }

    /// Enqueues the items whose timers are due.
    pub(crate) fn fire(&mut self) {
        let now = self.clock.now();
        while let Some(entry) = self.timers.first_entry().filter(|entry| entry.key().0 <= now) {
            let item = entry.remove();
            self.push(item);
        }
    }
}
