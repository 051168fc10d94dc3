//! Following a resource's log.

use std::sync::Arc;

use tokio::sync::watch as signal;

use super::{Event, RevisionError, Store};

/// At most so many events are taken out of the log per lock.
const BATCH: usize = 256;

/// A place in the log of one resource.
#[derive(Debug)]
pub struct Cursor {
    store: Store,
    resource: Arc<str>,
    revision: u64,
    epoch: u64,
    signal: signal::Receiver<u64>,
}

/// What a cursor found.
#[derive(Debug)]
pub enum Batch {
    /// The next changes, in order.
    Events(Vec<Arc<Event>>),
    /// Nothing new; everything up to this revision has been read.
    Idle(u64),
    /// The resource is no longer served.
    Ended,
}

impl Cursor {
    pub(super) fn new(
        store: Store,
        resource: Arc<str>,
        revision: u64,
        epoch: u64,
        signal: signal::Receiver<u64>,
    ) -> Self {
        Self { store, resource, revision, epoch, signal }
    }

    /// The revision up to which everything has been read.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// What is in the log after this place, without waiting.
    pub fn poll(&mut self) -> Result<Batch, RevisionError> {
        self.signal.borrow_and_update();
        let inner = self.store.lock();
        let Some(table) = inner.tables.get(&*self.resource) else { return Ok(Batch::Ended) };
        if self.revision < table.compacted {
            return Err(RevisionError::TooOld);
        }
        let later = table.after(self.revision).take_while(|e| e.revision <= inner.published);
        let events: Vec<_> = later.take(BATCH).cloned().collect();
        if let Some(last) = events.last() {
            self.revision = last.revision;
            return Ok(Batch::Events(events));
        }
        // The last changes before the end may not be durable yet.
        if table.epoch != self.epoch && table.after(inner.published).next().is_none() {
            return Ok(Batch::Ended);
        }
        self.revision = inner.published;
        Ok(Batch::Idle(self.revision))
    }

    /// Waits until there may be something new.
    pub async fn changed(&mut self) {
        // The sender lives as long as the store that this cursor holds.
        let _ = self.signal.changed().await;
    }
}
