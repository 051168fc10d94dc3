//! What is to be looked at, now or later.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use super::Duty;

/// One object that one controller has to look at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    /// Whose business it is.
    pub(crate) duty: Duty,
    /// Namespace, or empty.
    pub(crate) namespace: String,
    /// Name; for the garbage collector a uid.
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(duty: Duty, namespace: &str, name: &str) -> Self {
        Self { duty, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// First in, first out, each key once; and keys that come back at a time.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    ready: VecDeque<Key>,
    queued: BTreeSet<Key>,
    timers: BTreeMap<(Instant, u64), Key>,
    sequence: u64,
    failures: HashMap<Key, u32>,
    /// Keys that are not handed out, since a request of theirs is late.
    held: HashSet<Key>,
}

const FIRST_RETRY: Duration = Duration::from_millis(5);
const LAST_RETRY: Duration = Duration::from_secs(10);
/// A thousand years. What is later is never, and need not fit into what the clock counts in.
const NEVER: Duration = Duration::from_secs(1000 * 365 * 24 * 60 * 60);

impl Queue {
    pub(crate) fn push(&mut self, key: Key) {
        if !self.held.contains(&key) && self.queued.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    pub(crate) fn push_after(&mut self, key: Key, delay: Duration) {
        if delay >= NEVER {
            return;
        }
        self.sequence += 1;
        self.timers.insert((Instant::now() + delay, self.sequence), key);
    }

    pub(crate) fn pop(&mut self) -> Option<Key> {
        let key = self.ready.pop_front()?;
        self.queued.remove(&key);
        Some(key)
    }

    /// Hands a key out no more, until it is let go.
    pub(crate) fn hold(&mut self, key: Key) {
        if self.queued.remove(&key) {
            self.ready.retain(|ready| *ready != key);
        }
        self.held.insert(key);
    }

    /// Hands a key out again: what happened meanwhile concerns it.
    pub(crate) fn let_go(&mut self, key: Key) {
        self.held.remove(&key);
        self.push(key);
    }

    /// Brings a key back after a failure, later each time.
    pub(crate) fn retry(&mut self, key: Key) {
        let failures = self.failures.entry(key.clone()).or_default();
        let delay =
            FIRST_RETRY.saturating_mul(1_u32.checked_shl(*failures).unwrap_or(u32::MAX)).min(LAST_RETRY);
        *failures += 1;
        self.push_after(key, delay);
    }

    /// The key was dealt with.
    pub(crate) fn succeeded(&mut self, key: &Key) {
        self.failures.remove(key);
    }

    /// When the next timer is due.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.timers.first_key_value().map(|((at, _), _)| *at)
    }

    /// Makes due keys ready.
    pub(crate) fn fire(&mut self) {
        let now = Instant::now();
        while let Some(entry) = self.timers.first_entry().filter(|entry| entry.key().0 <= now) {
            let key = entry.remove();
            self.push(key);
        }
    }
}
