//! Work queue of a controller: which objects wait, which are being processed, and which are delayed.
//!
//! An object is in the queue once, however often it changes, and never with two workers: a change while it is being
//! processed makes it wait again afterwards.
//!
//! Higher priorities come first, except in every [`FAIR`]th turn, which takes the object that has waited longest:
//! low-priority work is never starved. The backoff belongs to the object rather than to its name: see [`Queue::identify`].

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use crate::kind::Key;

/// Priority of an object; higher comes first.
pub(crate) type Priority = i32;
/// Priority of a change that just happened.
pub(crate) const NORMAL: Priority = 0;
/// Priority of objects of the initial list: changes overtake them.
pub(crate) const LISTED: Priority = -100;

/// Interval of turns that take the object that has waited longest, whatever its priority.
const FAIR: u32 = 8;

/// Exponential backoff after failures.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    pub(crate) base: Duration,
    pub(crate) limit: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { base: Duration::from_millis(5), limit: Duration::from_secs(1000) }
    }
}

impl Backoff {
    fn after(self, failures: u32) -> Duration {
        let factor = 2_u32.checked_pow(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.base.checked_mul(factor).unwrap_or(self.limit).min(self.limit)
    }
}

/// Token-bucket rate limit, in objects per second, with a burst.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RateLimit {
    pub(crate) per_second: f64,
    pub(crate) burst: f64,
}

/// An object that a worker has taken. It must be returned with [`Queue::done`].
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) key: Key,
    /// How long it has been ready.
    pub(crate) waited: Duration,
}

/// How the processing of an object ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Done {
    /// It waits for a change.
    Rest,
    /// It is requeued after a delay.
    After(Duration),
    /// It is requeued with backoff.
    Failed,
}

/// Depth of the queue, for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Depth {
    pub(crate) ready: usize,
    pub(crate) listed: usize,
    pub(crate) running: usize,
    pub(crate) later: usize,
    /// Total time of the work in progress.
    pub(crate) unfinished: Duration,
    /// Longest work in progress.
    pub(crate) longest: Duration,
}

/// Work queue of a controller; see the module.
#[derive(Debug)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    wake: Notify,
    backoff: Backoff,
    limit: Option<RateLimit>,
}

#[derive(Debug)]
struct Inner {
    items: HashMap<Key, Item>,
    /// Ready entries. One is valid only if its number is that of its item: raising a priority adds another entry.
    ready: BinaryHeap<(Priority, Reverse<u64>, Key)>,
    /// The same entries in the order in which they became ready; valid by the same rule.
    arrivals: VecDeque<(u64, Key)>,
    /// Turns since the longest-waiting object was last taken first.
    turns: u32,
    /// Delayed entries; valid by the same rule.
    later: BinaryHeap<Reverse<(Instant, u64, Key)>>,
    numbers: u64,
    closed: bool,
    tokens: f64,
    refilled: Instant,
}

#[derive(Debug)]
struct Item {
    state: State,
    priority: Priority,
    number: u64,
    failures: u32,
    /// The hash of the uid that the failures belong to.
    uid: u64,
    since: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ready,
    Later,
    Running { again: Option<Priority> },
}

impl Queue {
    pub(crate) fn new(backoff: Backoff, limit: Option<RateLimit>) -> Self {
        let inner = Inner {
            items: HashMap::new(),
            ready: BinaryHeap::new(),
            arrivals: VecDeque::new(),
            turns: 0,
            later: BinaryHeap::new(),
            numbers: 0,
            closed: false,
            tokens: limit.map_or(0.0, |limit| limit.burst),
            refilled: Instant::now(),
        };
        Self { inner: Mutex::new(inner), wake: Notify::new(), backoff, limit }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enqueues an object.
    pub(crate) fn add(&self, key: &Key, priority: Priority) {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let now = Instant::now();
        match inner.items.get_mut(key) {
            None => inner.push(key.clone(), priority, now),
            Some(item) => match &mut item.state {
                State::Running { again } => {
                    *again = Some(again.map_or(priority, |other| other.max(priority)));
                    return;
                }
                State::Ready if item.priority >= priority => return,
                State::Ready => {
                    let since = item.since;
                    inner.push(key.clone(), priority, since);
                }
                State::Later => inner.push(key.clone(), priority, now),
            },
        }
        self.wake.notify_one();
    }

    /// Waits for the next object and returns it. `None`: the queue is closed.
    pub(crate) async fn next(&self) -> Option<Job> {
        loop {
            let wait = {
                let mut inner = self.lock();
                if inner.closed {
                    return None;
                }
                let now = Instant::now();
                inner.promote(now);
                match inner.take(now, self.limit) {
                    Ok(job) => {
                        // Each call wakes one worker, so each worker wakes the next while there is more.
                        if !inner.ready.is_empty() {
                            self.wake.notify_one();
                        }
                        return Some(job);
                    }
                    Err(wait) => wait,
                }
            };
            match wait {
                Some(moment) => {
                    tokio::select! {
                        () = self.wake.notified() => {}
                        () = tokio::time::sleep_until(moment) => {}
                    }
                }
                None => self.wake.notified().await,
            }
        }
    }

    /// Returns an object after processing.
    pub(crate) fn done(&self, key: &Key, done: Done) {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let now = Instant::now();
        let Some(item) = inner.items.get_mut(key) else { return };
        let State::Running { again } = item.state else { return };
        item.failures = if done == Done::Failed { item.failures.saturating_add(1) } else { 0 };
        let after = match done {
            Done::Rest => None,
            Done::After(after) => Some(after),
            Done::Failed => Some(self.backoff.after(item.failures)),
        };
        match (again, after) {
            (Some(priority), _) => inner.push(key.clone(), priority, now),
            (None, Some(after)) => {
                let moment = now.checked_add(after).unwrap_or(now + Duration::from_secs(86_400 * 365));
                inner.push_later(key.clone(), moment);
            }
            (None, None) => {
                inner.items.remove(key);
                return;
            }
        }
        self.wake.notify_one();
    }

    /// Ends [`Queue::next`] for all workers.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_waiters();
        self.wake.notify_one();
    }

    /// Sets the uid of the object being processed. Failures of an earlier object of that name are forgotten.
    pub(crate) fn identify(&self, key: &Key, uid: &str) {
        let mut hasher = DefaultHasher::new();
        uid.hash(&mut hasher);
        let uid = hasher.finish();
        if let Some(item) = self.lock().items.get_mut(key).filter(|item| item.uid != uid) {
            item.uid = uid;
            item.failures = 0;
        }
    }

    /// Number of consecutive failures of an object.
    pub(crate) fn failures(&self, key: &Key) -> u32 {
        self.lock().items.get(key).map_or(0, |item| item.failures)
    }

    /// Describes waiting, running and delayed objects, for the debug endpoint.
    pub(crate) fn describe(&self) -> serde_json::Value {
        let inner = self.lock();
        let now = Instant::now();
        let mut items: Vec<_> = inner.items.iter().collect();
        items.sort_unstable_by_key(|(key, _)| *key);
        let items = items.into_iter().map(|(key, item)| {
            let (state, seconds) = match item.state {
                State::Ready => ("ready", now.duration_since(item.since).as_secs_f64()),
                State::Running { .. } => ("running", now.duration_since(item.since).as_secs_f64()),
                State::Later => ("later", item.since.duration_since(now).as_secs_f64()),
            };
            serde_json::json!({
                "object": key.to_string(), "state": state, "seconds": seconds, "priority": item.priority,
                "failures": item.failures,
            })
        });
        items.collect()
    }

    pub(crate) fn depth(&self) -> Depth {
        let inner = self.lock();
        let now = Instant::now();
        let mut depth = Depth::default();
        for item in inner.items.values() {
            match item.state {
                State::Ready if item.priority < NORMAL => depth.listed += 1,
                State::Ready => depth.ready += 1,
                State::Later => depth.later += 1,
                State::Running { .. } => {
                    let time = now.duration_since(item.since);
                    depth.running += 1;
                    depth.unfinished += time;
                    depth.longest = depth.longest.max(time);
                }
            }
        }
        depth
    }
}

impl Inner {
    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn push(&mut self, key: Key, priority: Priority, since: Instant) {
        let number = self.number();
        self.ready.push((priority, Reverse(number), key.clone()));
        self.arrivals.push_back((number, key.clone()));
        self.set(key, State::Ready, priority, number, since);
    }

    fn push_later(&mut self, key: Key, moment: Instant) {
        let number = self.number();
        self.later.push(Reverse((moment, number, key.clone())));
        self.set(key, State::Later, NORMAL, number, moment);
    }

    /// Sets everything but the failures, which an object keeps.
    fn set(&mut self, key: Key, state: State, priority: Priority, number: u64, since: Instant) {
        let (failures, uid) = self.items.get(&key).map_or((0, 0), |item| (item.failures, item.uid));
        self.items.insert(key, Item { state, priority, number, failures, uid, since });
        // Stale entries are dropped when their turn comes, which may be much later: a busy queue must not grow by them.
        let most = 2 * self.items.len() + 64;
        let items = &self.items;
        let counts = |number: u64, key: &Key| items.get(key).is_some_and(|item| item.number == number);
        if self.ready.len() > most {
            self.ready.retain(|(_, Reverse(number), key)| counts(*number, key));
        }
        if self.arrivals.len() > most {
            self.arrivals.retain(|(number, key)| counts(*number, key));
        }
        if self.later.len() > most {
            self.later.retain(|Reverse((_, number, key))| counts(*number, key));
        }
    }

    /// Moves due entries from the delayed to the ready ones.
    fn promote(&mut self, now: Instant) {
        while let Some(Reverse((moment, number, key))) = self.later.peek() {
            let current = self.items.get(key).is_some_and(|item| item.number == *number);
            if current && *moment > now {
                return;
            }
            let due = current.then(|| key.clone());
            self.later.pop();
            if let Some(key) = due {
                self.push(key, NORMAL, now);
            }
        }
    }

    /// Takes the next object, or returns when to try again.
    fn take(&mut self, now: Instant, limit: Option<RateLimit>) -> Result<Job, Option<Instant>> {
        let later = self.later.peek().map(|Reverse((moment, ..))| *moment);
        let Some(key) = self.peek() else { return Err(later) };
        if let Some(limit) = limit {
            let refill = now.duration_since(self.refilled).as_secs_f64() * limit.per_second;
            self.tokens = (self.tokens + refill).min(limit.burst.max(1.0));
            self.refilled = now;
            if self.tokens < 1.0 {
                let missing = (1.0 - self.tokens) / limit.per_second.max(f64::MIN_POSITIVE);
                let wait = Duration::try_from_secs_f64(missing).unwrap_or(Duration::from_secs(3600));
                // A moment later than computed, since a timer that fires early would spin.
                return Err(Some(now + wait + Duration::from_millis(1)));
            }
            self.tokens -= 1.0;
        }
        self.turns = (self.turns + 1) % FAIR;
        let Some(item) = self.items.get_mut(&key) else { return Err(later) };
        let waited = now.duration_since(item.since);
        item.state = State::Running { again: None };
        item.since = now;
        Ok(Job { key, waited })
    }

    /// Returns the object whose turn it is, and drops stale entries before it.
    fn peek(&mut self) -> Option<Key> {
        let items = &self.items;
        let counts = |number: u64, key: &Key| {
            items.get(key).is_some_and(|item| item.state == State::Ready && item.number == number)
        };
        while self.ready.peek().is_some_and(|(_, Reverse(number), key)| !counts(*number, key)) {
            self.ready.pop();
        }
        while self.arrivals.front().is_some_and(|(number, key)| !counts(*number, key)) {
            self.arrivals.pop_front();
        }
        let first = self.ready.peek().map(|(_, _, key)| key);
        let oldest = self.arrivals.front().map(|(_, key)| key);
        if self.turns == FAIR - 1 { oldest.or(first).cloned() } else { first.cloned() }
    }
}

#[cfg(test)]
mod tests;
