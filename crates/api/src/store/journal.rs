//! The interface for persistence. The store itself performs no I/O.

use std::{fmt, sync::Arc};

use super::JournalObserver;

/// One committed write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Resource such as `pods` or `deployments.apps`.
    pub resource: String,
    /// `namespace/name`, or `name`.
    pub key: String,
    /// Position of the write in the log: the object's resourceVersion.
    pub revision: u64,
    /// Revision that created the object.
    pub created: u64,
    /// JSON of the object without its resourceVersion; `None` for a deletion.
    pub object: Option<Box<[u8]>>,
}

/// A write was rolled back because the journal failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("write rolled back: journal failed: {0}")]
pub struct JournalError(pub(super) Arc<str>);

/// Persists every committed write, and reports the outcome to an observer.
/// A write becomes visible and its writer is answered once it is reported as durable. It is rolled back if the journal
/// reports a failure.
pub trait Journal: Send + Sync + fmt::Debug {
    /// Sets the observer to report to. Called once, before the first write.
    fn start(&self, observer: JournalObserver);

    /// Enqueues the next write. Called in revision order under the store's lock, so it must not block.
    fn append(&self, record: Record);
}
