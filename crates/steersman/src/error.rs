//! Errors, and how the runtime handles them.

use std::{error::Error as StdError, time::Duration};

use crate::kind::Key;

/// Error of a reconciler, a cleanup or the runtime. Any error converts into it.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Result type of most functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of the runtime.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The API server refused a request, or could not be reached.
    #[error("{}", describe(.0))]
    Kube(#[from] kube::Error),
    /// An object could not be converted from or to its type.
    #[error("{what} can't be converted: {source}")]
    Convert {
        /// The object.
        what: String,
        /// What does not match the type.
        source: serde_json::Error,
    },
    /// An object to be applied has no name.
    #[error("a {0} without a name can't be applied")]
    Nameless(String),
    /// An owner reference that Kubernetes does not honour, such as one across namespaces.
    #[error("{child} can't be owned by {owner}: {reason}; use apply_unowned and delete it in a finalizer")]
    Ownership {
        /// The object to be owned.
        child: String,
        /// The object that would own it.
        owner: String,
        /// The rule that forbids it.
        reason: &'static str,
    },
    /// The object is being deleted, and can't be changed to the desired state. The reconciler runs again once it is
    /// gone.
    #[error("{kind} {key} is being deleted")]
    Terminating {
        /// The object's kind.
        kind: String,
        /// The object.
        key: Key,
    },
    /// A cache has not synced in time.
    #[error("the cache of {kind} did not sync within {waited:?}: {reason}")]
    CacheSync {
        /// The kind of the cache.
        kind: String,
        /// The time that was waited.
        waited: Duration,
        /// The last error of the watch.
        reason: String,
    },
    /// The cluster does not serve a kind, most often because its CRD is not installed.
    #[error("the cluster does not serve {kind}: {reason}")]
    Absent {
        /// The kind.
        kind: String,
        /// The API server's message.
        reason: String,
    },
    /// A reconcile took longer than the controller allows.
    #[error("the reconcile took longer than {0:?}")]
    Timeout(Duration),
    /// A reconciler panicked.
    #[error("panicked: {0}")]
    Panic(String),
    /// This replica is no longer the leader and must not write.
    #[error("no longer the leader: the write was not sent")]
    Deposed,
    /// The lease passed to another replica, or could not be renewed in time. The process should exit and restart.
    #[error("lost the leadership on lease {0}")]
    LeadershipLost(String),
    /// A port can't be opened.
    #[error("can't listen on {address}: {source}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// A certificate of the webhook or metrics server can't be read or issued.
    #[error("the TLS certificate can't be used: {0}")]
    Certificate(String),
    /// The configuration can't be used: no cluster, or an invalid flag or file.
    #[error("invalid configuration: {0}")]
    Config(String),
    /// Two controllers have the same name, which would mix up their metrics and owners.
    #[error("two controllers are named {0}; name one of them with Controller::named")]
    DuplicateName(String),
    /// A recorded run made requests for which the operator declares no permissions.
    #[error("{0} permissions were used but not declared")]
    Undeclared(usize),
    /// The doctor found problems.
    #[error("{0} problems found")]
    Unhealthy(usize),
    /// A list in a namespace that the operator does not watch: no cache covers it.
    #[error(
        "{kind} in namespace {namespace} can't be listed: the operator does not watch that namespace; \
         add it to Operator::namespaces, or use Context::client"
    )]
    NotWatched {
        /// The kind.
        kind: String,
        /// The namespace.
        namespace: String,
    },
    /// A selector is invalid.
    #[error("invalid label selector: {0}")]
    Selector(String),
    /// Some objects of a set could not be applied or pruned. All others were.
    #[error("{} of {total} objects failed: {}", .failures.len(), join(.failures))]
    Set {
        /// The failed objects, and why they failed.
        failures: Vec<(String, Error)>,
        /// Number of objects to be applied or pruned.
        total: usize,
    },
    /// A failure that a retry can't fix: the object is not reconciled again until it changes.
    #[error("{}", describe(&**.0))]
    Terminal(#[source] BoxError),
    /// Anything else.
    #[error("{}", describe(&**.0))]
    Other(#[source] BoxError),
}

/// Returns an error message for people: the API server's own, if the error or its source is a response. `kube` prints
/// the whole status a second time, in Rust's notation.
pub(crate) fn describe(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = Some(error);
    while let Some(error) = source {
        if let Some(kube::Error::Api(status)) = error.downcast_ref::<kube::Error>() {
            let plain = if status.message.is_empty() {
                format!("the API server answered {} {}", status.code, status.reason)
            } else {
                status.message.clone()
            };
            text = text.replace(&error.to_string(), plain.trim_end());
        }
        source = error.source();
    }
    text
}

fn join(failures: &[(String, Error)]) -> String {
    let texts: Vec<String> = failures.iter().map(|(what, error)| format!("{what}: {error}")).collect();
    texts.join("; ")
}

impl Error {
    /// Wraps a failure that a retry can't fix, such as an invalid spec: it is not retried until a change.
    pub fn terminal(error: impl Into<BoxError>) -> Self {
        Self::Terminal(error.into())
    }

    /// Wraps any failure.
    pub fn other(error: impl Into<BoxError>) -> Self {
        Self::from_boxed(error.into())
    }

    /// Recovers the runtime's own error from one that passed through user types.
    pub(crate) fn from_boxed(error: BoxError) -> Self {
        match error.downcast::<Self>() {
            Ok(own) => *own,
            Err(error) => match error.downcast::<kube::Error>() {
                Ok(error) => Self::Kube(*error),
                Err(error) => Self::Other(error),
            },
        }
    }

    /// Returns how the runtime handles the error.
    pub(crate) fn class(&self) -> Class {
        let mut source: Option<&(dyn StdError + 'static)> = Some(self);
        while let Some(error) = source {
            if let Some(own) = error.downcast_ref::<Self>() {
                match own {
                    Self::Terminal(_) => return Class::Terminal,
                    Self::Terminating { .. } => return Class::Transient,
                    Self::Set { failures, .. } => {
                        let classes = failures.iter().map(|(_, error)| error.class());
                        return classes.max_by_key(|class| class.urgency()).unwrap_or(Class::Failure);
                    }
                    _ => {}
                }
            }
            if let Some(kube::Error::Api(status)) = error.downcast_ref::<kube::Error>()
                && status.is_conflict()
            {
                return Class::Transient;
            }
            source = error.source();
        }
        Class::Failure
    }

    /// Whether the API server does not have the object, or does not serve its kind.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        match self {
            // By the code: for a kind that it does not serve, the API server gives no reason.
            Self::Kube(kube::Error::Api(status)) => status.code == 404,
            Self::Absent { .. } => true,
            _ => false,
        }
    }
}

/// How a failed reconcile is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Reported, and retried with backoff.
    Failure,
    /// Expected with several writers: retried with backoff, without a report.
    Transient,
    /// Reported, and not retried until the object changes.
    Terminal,
}

impl Class {
    /// Rank among several classes: a retry beats none, and a reported failure beats an expected one.
    fn urgency(self) -> u8 {
        match self {
            Self::Terminal => 0,
            Self::Transient => 1,
            Self::Failure => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> kube::Error {
        kube::Error::Api(Box::new(kube::core::Status {
            code: 403,
            reason: "Forbidden".into(),
            message: "pods is forbidden".into(),
            ..Default::default()
        }))
    }

    #[test]
    fn the_api_servers_answers_are_told_in_its_own_words() {
        assert_eq!(Error::from(refused()).to_string(), "pods is forbidden");
        #[derive(Debug, thiserror::Error)]
        #[error("while listing: {0}")]
        struct Listing(#[source] kube::Error);
        assert_eq!(Error::other(Listing(refused())).to_string(), "while listing: pods is forbidden");
        assert_eq!(Error::terminal(Listing(refused())).to_string(), "while listing: pods is forbidden");
    }

    #[test]
    fn what_has_to_be_tried_again_decides_over_a_set() {
        let class = |errors: Vec<Error>| {
            let failures = errors.into_iter().map(|error| ("it".to_owned(), error)).collect();
            Error::Set { failures, total: 5 }.class()
        };
        assert_eq!(class(vec![Error::terminal("a"), Error::terminal("b")]), Class::Terminal);
        let gone = || Error::Terminating { kind: "pods".into(), key: Key::cluster("x") };
        assert_eq!(class(vec![Error::terminal("a"), gone()]), Class::Transient);
        assert_eq!(class(vec![Error::other("a"), gone()]), Class::Failure);
    }

    #[derive(Debug, thiserror::Error)]
    enum Authors {
        #[error("wrapped")]
        Wrapped(#[source] Error),
    }

    #[test]
    fn terminal_errors_are_found_behind_the_authors_types() {
        let error = Error::other(Authors::Wrapped(Error::terminal("no")));
        assert_eq!(error.class(), Class::Terminal);
        assert_eq!(Error::other("yes").class(), Class::Failure);
    }
}
