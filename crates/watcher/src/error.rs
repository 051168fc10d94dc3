//! Errors of the watcher.

use kube::core::Status;

/// A request or an event that failed. The stream continues: polling it again retries.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A page of the list was refused or could not be read. A new list follows.
    #[error("list failed: {0}")]
    InitialListFailed(#[source] kube::Error),

    /// A watch was refused. It is requested again, after 410 Gone with a new list.
    #[error("watch refused: {0}")]
    WatchStartFailed(#[source] kube::Error),

    /// A watch broke, or one of its events could not be decoded. It resumes at the last version; a streaming list restarts.
    #[error("watch failed: {0}")]
    WatchFailed(#[source] kube::Error),

    /// The server sent an error as an event. After 410 Gone a new list follows.
    #[error("watch failed: {0}")]
    WatchError(#[source] Box<Status>),

    /// A list, an object or the end of a streaming list has no resource version. A new list follows.
    #[error("missing metadata.resourceVersion")]
    NoResourceVersion,
}

/// The result of a watch.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Returns the API server's status, if the error is one.
    #[must_use]
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::InitialListFailed(kube::Error::Api(status))
            | Self::WatchStartFailed(kube::Error::Api(status))
            | Self::WatchFailed(kube::Error::Api(status))
            | Self::WatchError(status) => Some(status),
            _ => None,
        }
    }

    /// Whether the server no longer has the requested resourceVersion or continue token (410).
    pub(crate) fn is_expired(&self) -> bool {
        self.status().is_some_and(|status| status.code == 410)
    }

    /// Whether a line of a watch is not an event: `kube` reads any other JSON as a status, with code 0.
    pub(crate) fn is_undecodable(&self) -> bool {
        match self {
            Self::WatchFailed(kube::Error::SerdeError(_)) => true,
            Self::WatchFailed(kube::Error::Api(status)) => status.code == 0,
            _ => false,
        }
    }
}
