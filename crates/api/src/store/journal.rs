//! The door to persistence. The store itself knows no disk.

use std::{fmt, sync::Arc};

use super::JournalObserver;

/// One committed write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Resource such as `pods` or `deployments.apps`.
    pub resource: String,
    /// `namespace/name`, or `name`.
    pub key: String,
    /// The write's place in the log: the object's resourceVersion.
    pub revision: u64,
    /// The revision that created the object.
    pub created: u64,
    /// The object's JSON without its resourceVersion; `None` for a deletion.
    pub object: Option<Box<[u8]>>,
}

/// A write was undone because the journal could not keep it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the write was undone, because it can't be kept: {0}")]
pub struct JournalError(pub(super) Arc<str>);

/// Keeps every committed write, and reports to an observer what became of it.
///
/// A write is seen and answered when the observer is told that it is durable, and undone when the observer is told that
/// the journal failed.
pub trait Journal: Send + Sync + fmt::Debug {
    /// Takes the observer to report to. Called once, before the first write.
    fn start(&self, observer: JournalObserver);

    /// Takes the next write. Called in revision order under the store's lock: it must only enqueue.
    fn append(&self, record: Record);
}
