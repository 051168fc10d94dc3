//! Errors of release operations.

use crate::record::Release;

/// Error of a release operation. The messages are Helm's where Helm has them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The release, or the revision of it, does not exist.
    #[error("release: not found")]
    NotFound {
        /// The release's name.
        name: String,
    },
    /// The release has no deployed revision.
    #[error("{name:?} has no deployed releases")]
    NotDeployed {
        /// The release's name.
        name: String,
    },
    /// The name is in use by an existing release.
    #[error("cannot re-use a name that is still in use")]
    NameInUse,
    /// Another process is working on the release, or was until a moment ago.
    #[error("another operation (install/upgrade/rollback) is in progress")]
    InProgress {
        /// Time until the lock of the other process expires.
        remaining: std::time::Duration,
    },
    /// The release name is invalid.
    #[error(
        "release name {0:?}: invalid release name, must match regex \
         ^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$ and the length must not be longer than 53"
    )]
    InvalidName(String),
    /// A negative revision was requested.
    #[error("invalid release revision")]
    InvalidRevision,
    /// The revision to roll back to is not in the history.
    #[error("release has no {0} version")]
    NoSuchRevision(i64),
    /// The given labels include some that Helm reserves.
    #[error(
        "user supplied labels contains system reserved label name. System labels: [name owner status version createdAt \
         modifiedAt]"
    )]
    SystemLabels,
    /// Loading, values or rendering failed.
    #[error(transparent)]
    Chart(#[from] steersman_chart::Error),
    /// A rendered document is not a Kubernetes object.
    #[error("{0}")]
    Manifest(String),
    /// The cluster does not serve a kind.
    #[error("no matches for kind {kind:?} in version {api_version:?}")]
    UnknownKind {
        /// The kind.
        kind: String,
        /// Its version.
        api_version: String,
    },
    /// An object exists and does not carry the release's ownership metadata.
    #[error(
        "Unable to continue with {operation}: {object} exists and cannot be imported into the current release: {reason}"
    )]
    InvalidOwnership {
        /// `install` or `update`.
        operation: &'static str,
        /// The object.
        object: String,
        /// Which metadata are wrong.
        reason: String,
    },
    /// An object is outside of the namespace that the release is confined to.
    #[error("{object} is refused: the release is confined to namespace {namespace}; {help}")]
    Confined {
        /// The object.
        object: String,
        /// The release's namespace.
        namespace: String,
        /// How to allow it.
        help: String,
    },
    /// The revision to roll back to was not written by this program, or was changed since.
    #[error("cannot roll back to revision {0}: its record failed verification")]
    Unverified(i64),
    /// The API server refused a request for an object.
    #[error("{object}: {}", answer(.source))]
    Object {
        /// The object.
        object: String,
        /// The API server's error.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API server could not be queried.
    #[error("{context}: {}", answer(.source))]
    Kube {
        /// The operation that failed.
        context: &'static str,
        /// The API server's error.
        #[source]
        source: Box<kube::Error>,
    },
    /// A stored record is invalid.
    #[error("cannot read release record {key}: {reason}")]
    Record {
        /// The name of the Secret or ConfigMap.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A hook failed.
    #[error("{0}")]
    Hook(String),
    /// An object did not become ready, or was not deleted, in time.
    #[error("timed out waiting for {}: {}", if .what.is_empty() { "the condition" } else { "objects" }, .what.join("; "))]
    Timeout {
        /// The objects that were still waited for, and what they lack.
        what: Vec<String>,
    },
    /// A workload failed permanently while it was waited for.
    #[error("{0}")]
    Workload(String),
    /// The operation failed: the revision is recorded as failed and, with `atomic`, undone.
    #[error("{message}")]
    Failed {
        /// What went wrong, and how it was handled.
        message: String,
        /// The failed revision.
        release: Box<Release>,
        /// What went wrong.
        #[source]
        source: Box<Error>,
    },
    /// The release is already uninstalled, with its history kept.
    #[error("the release named {0:?} is already deleted")]
    AlreadyDeleted(String),
    /// An uninstall completed with errors.
    #[error("uninstallation completed with {} error(s): {}", .0.len(), .0.join("; "))]
    Uninstall(Vec<String>),
    /// A post-renderer failed.
    #[error("error while running post render on files: {0}")]
    PostRender(String),
}

impl Error {
    /// Wraps an error of the API server.
    pub(crate) fn kube(context: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Kube { context, source: Box::new(source) }
    }

    /// Wraps an error of the API server about an object.
    pub(crate) fn object(object: impl ToString) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Object { object: object.to_string(), source: Box::new(source) }
    }

    /// Returns the HTTP status of the API server's response, if there was one.
    pub fn status_code(&self) -> Option<u16> {
        match self {
            Self::Object { source, .. } | Self::Kube { source, .. } => code(source),
            Self::Failed { source, .. } => source.status_code(),
            _ => None,
        }
    }
}

/// Returns the HTTP status of a response.
pub(crate) fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// Result of a release operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Returns the API server's message, without the rest of the response, which is no use to a reader.
fn answer(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        kube::Error::Api(status) if !status.reason.is_empty() => status.reason.clone(),
        kube::Error::Api(status) => format!("the API server answered with {}", status.code),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn answered(code: u16, message: &str, reason: &str) -> kube::Error {
        let status = Status { code, message: message.into(), reason: reason.into(), ..Status::default() };
        kube::Error::Api(Box::new(status))
    }

    #[test]
    fn what_the_cluster_said_is_told_and_nothing_else() {
        for (message, reason, expected) in [
            ("no such thing", "NotFound", "no such thing"),
            ("", "NotFound", "NotFound"),
            ("", "", "the API server answered with 404"),
        ] {
            let error = Error::object("ConfigMap/a")(answered(404, message, reason));
            assert_eq!(error.to_string(), format!("ConfigMap/a: {expected}"));
            let error = Error::kube("cannot list")(answered(404, message, reason));
            assert_eq!(error.to_string(), format!("cannot list: {expected}"));
        }
        let error = Error::kube("cannot list")(kube::Error::LinesCodecMaxLineLengthExceeded);
        assert_eq!(
            error.to_string(),
            format!("cannot list: {}", kube::Error::LinesCodecMaxLineLengthExceeded)
        );
        assert_eq!(error.status_code(), None, "it did not answer");
    }

    #[test]
    fn the_code_of_an_answer_is_kept() {
        assert_eq!(Error::object("a")(answered(409, "", "")).status_code(), Some(409));
        let source = Error::kube("a")(answered(403, "", ""));
        assert_eq!(source.status_code(), Some(403));
        let failed =
            Error::Failed { message: String::new(), release: Box::default(), source: Box::new(source) };
        assert_eq!(failed.status_code(), Some(403));
        assert_eq!(Error::NameInUse.status_code(), None);
    }

    #[test]
    fn what_was_waited_for_is_named() {
        assert_eq!(
            Error::Timeout { what: vec!["a".into(), "b".into()] }.to_string(),
            "timed out waiting for objects: a; b"
        );
        assert_eq!(Error::Timeout { what: Vec::new() }.to_string(), "timed out waiting for the condition: ");
    }
}
