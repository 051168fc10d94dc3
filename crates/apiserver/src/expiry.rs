//! Event expiry: events are deleted after a lifetime, by default one hour like the real `--event-ttl`.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use steersman_api::{environment::Environment, store::Store};
use tokio::sync::Notify;

/// The storage name of events.
pub(crate) const EVENTS: &str = "events";

/// The lease of an event, as of its last write.
#[derive(Debug, Clone)]
struct Lease {
    expires: Timestamp,
    key: String,
    revision: u64,
}

/// Event leases in order of expiry.
#[derive(Debug, Default)]
pub(crate) struct Expiry {
    leases: Mutex<VecDeque<Lease>>,
    /// Wakes up the expiry task when a lease is added.
    added: Notify,
}

impl Expiry {
    /// Copies the leases for a copy of the store.
    pub(crate) fn fork(&self) -> Self {
        Self { leases: Mutex::new(self.lock().clone()), added: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Lease>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Schedules the expiry of the event at `key`, unless it is written again.
    pub(crate) fn lease(&self, store: &Store, now: Timestamp, lifetime: Duration, key: &str) {
        let Some(entry) = store.get(EVENTS, key) else { return };
        let expires = now.checked_add(lifetime).unwrap_or(Timestamp::MAX);
        self.lock().push_back(Lease { expires, key: key.to_owned(), revision: entry.revision() });
        self.added.notify_one();
    }

    /// Deletes expired events and returns the time until the next expiry.
    fn expire(&self, store: &Store, environment: &dyn Environment) -> Option<Duration> {
        loop {
            let now = environment.now();
            let mut leases = self.lock();
            let first = leases.front()?;
            if first.expires > now {
                return Some(Duration::try_from(first.expires.duration_since(now)).unwrap_or_default());
            }
            let Some(Lease { key, revision, .. }) = leases.pop_front() else { continue };
            drop(leases);
            // An event written since then has a newer lease.
            let _ = store.delete(EVENTS, &key, revision);
        }
    }

    /// Deletes events when they expire, forever.
    pub(crate) async fn keep_expiring(&self, store: &Store, environment: &dyn Environment) {
        loop {
            match self.expire(store, environment) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => self.added.notified().await,
            }
        }
    }
}
