//! The door to persistence. The store itself knows no disk.

use std::{fmt, future::Future, pin::Pin};

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

/// A journal could not keep a write.
#[derive(Debug, thiserror::Error)]
#[error("journal: {0}")]
pub struct JournalError(pub Box<dyn std::error::Error + Send + Sync>);

/// Receives every committed write, and is waited for before the writer is told of success.
///
/// Readers and watchers may see a write a moment before its writer is answered.
pub trait Journal: Send + Sync + fmt::Debug {
    /// Takes the next write. Called in revision order under the store's lock: it must only enqueue.
    fn append(&self, record: Record);

    /// Resolves when every write up to `revision` is durable.
    fn durable(&self, revision: u64) -> Pin<Box<dyn Future<Output = Result<(), JournalError>> + Send + '_>>;
}
