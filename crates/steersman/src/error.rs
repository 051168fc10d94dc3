//! What can go wrong, and what the runtime makes of it.

use std::{error::Error as StdError, time::Duration};

use crate::kind::Key;

/// What a reconciler, a cleanup or the runtime may fail with. Any error converts into it.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// The result of most calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The runtime's errors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The API server refused or could not be reached.
    #[error("{}", describe(.0))]
    Kube(#[from] kube::Error),
    /// An object could not be read as, or written from, its type.
    #[error("{what} can't be converted: {source}")]
    Convert {
        /// Which object.
        what: String,
        /// What does not fit.
        source: serde_json::Error,
    },
    /// An object to be applied lacks a name.
    #[error("a {0} without a name can't be applied")]
    Nameless(String),
    /// An owner reference across namespaces, which Kubernetes does not honour.
    #[error("{child} can't be owned by {owner}: {reason}; use apply_unowned and delete it in a finalizer")]
    Ownership {
        /// The object to be owned.
        child: String,
        /// The object that would own it.
        owner: String,
        /// Which rule forbids it.
        reason: &'static str,
    },
    /// An object that is being deleted can't be changed to the desired state. The reconciler runs again once it is gone.
    #[error("{kind} {key} is being deleted")]
    Terminating {
        /// The object's kind.
        kind: String,
        /// The object.
        key: Key,
    },
    /// A cache has not been filled in time.
    #[error("the cache of {kind} has not been filled within {waited:?}: {reason}")]
    CacheSync {
        /// The kind of the cache.
        kind: String,
        /// How long it was waited for.
        waited: Duration,
        /// The last error of the watch.
        reason: String,
    },
    /// The cluster does not know a kind, most often since its CRD is not installed.
    #[error("the cluster does not know {kind}: {reason}")]
    Absent {
        /// The kind.
        kind: String,
        /// What the API server said.
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
    /// The lease passed to another replica, or could not be renewed in time. The process should end, and start anew.
    #[error("lost the leadership on lease {0}")]
    LeadershipLost(String),
    /// A port can't be opened.
    #[error("can't listen on {address}: {source}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// A certificate of the webhook or metrics server can't be read or made.
    #[error("the TLS certificate can't be used: {0}")]
    Certificate(String),
    /// There is no way to a cluster.
    #[error("no way to a cluster: {0}")]
    Config(String),
    /// Two controllers share one name, which would mix up their metrics and owners.
    #[error("two controllers are named {0}; name one of them with Controller::named")]
    DuplicateName(String),
    /// A recorded run made requests that the operator does not declare.
    #[error("{0} permissions were used and not declared")]
    Undeclared(usize),
    /// The doctor found something.
    #[error("{0} problems were found")]
    Unhealthy(usize),
    /// A list in a namespace that the operator does not watch: no cache covers it.
    #[error(
        "{kind} in namespace {namespace} can't be listed: the operator does not watch that namespace; \
         add it to Operator::namespaces, or ask with Context::client"
    )]
    NotWatched {
        /// The kind.
        kind: String,
        /// The namespace.
        namespace: String,
    },
    /// A selector that can't be read.
    #[error("not a label selector: {0}")]
    Selector(String),
    /// Some objects of a set could not be applied or pruned. All the others have been.
    #[error("{} of {total} objects failed: {}", .failures.len(), join(.failures))]
    Set {
        /// Which, and why.
        failures: Vec<(String, Error)>,
        /// How many objects were to be applied or pruned.
        total: usize,
    },
    /// A failure that trying again can't mend: the object rests until it changes.
    #[error("{}", describe(&**.0))]
    Terminal(#[source] BoxError),
    /// Anything else.
    #[error("{}", describe(&**.0))]
    Other(#[source] BoxError),
}

/// The text of an error for people: where it or its source is an answer of the API server, the server's own words.
/// `kube` writes the whole status a second time, in Rust's notation.
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
    /// A failure that trying again can't mend, such as a spec that makes no sense: the object rests until it changes.
    pub fn terminal(error: impl Into<BoxError>) -> Self {
        Self::Terminal(error.into())
    }

    /// Any failure.
    pub fn other(error: impl Into<BoxError>) -> Self {
        Self::from_boxed(error.into())
    }

    /// Finds the runtime's own error in one that went through the author's types.
    pub(crate) fn from_boxed(error: BoxError) -> Self {
        match error.downcast::<Self>() {
            Ok(own) => *own,
            Err(error) => match error.downcast::<kube::Error>() {
                Ok(error) => Self::Kube(*error),
                Err(error) => Self::Other(error),
            },
        }
    }

    /// What the runtime does about it.
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

    /// Whether the API server does not know the object or its kind.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        match self {
            // By the code: for a kind that it does not know, the API server gives no reason.
            Self::Kube(kube::Error::Api(status)) => status.code == 404,
            Self::Absent { .. } => true,
            _ => false,
        }
    }
}

/// How a failed reconcile is dealt with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Reported, and tried again with growing delays.
    Failure,
    /// Expected when several parties write: tried again without any alarm.
    Transient,
    /// Reported, and left until the object changes.
    Terminal,
}

impl Class {
    /// Which of several decides: what has to be tried again is, and what is an alarm is reported.
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
