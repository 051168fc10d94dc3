//! Watching a resource's log.

use std::sync::Arc;

use tokio::sync::watch as signal;

use super::{Event, RevisionError, Store};

/// Maximum number of events read per acquisition of the store's lock.
const BATCH: usize = 256;

/// A position in the log of one resource.
#[derive(Debug)]
pub struct Cursor {
    store: Store,
    resource: Arc<str>,
    revision: u64,
    epoch: u64,
    signal: signal::Receiver<u64>,
}

/// Result of polling a cursor.
#[derive(Debug)]
pub enum Batch {
    /// The next changes, in order.
    Events(Vec<Arc<Event>>),
    /// No new changes; everything up to this revision has been read.
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

    /// Returns the revision up to which changes have been read.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Reads the next changes from the log, without waiting.
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

    /// Waits until there may be new changes.
    pub async fn changed(&mut self) {
        // The sender is dropped only with the store, which this cursor holds.
        let _ = self.signal.changed().await;
    }
}
