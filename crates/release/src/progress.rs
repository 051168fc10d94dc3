//! Progress of an operation.

use std::fmt;
use std::sync::Arc;

use crate::object::ObjectId;
use crate::write::Outcome;

/// A step of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// A custom resource definition was installed or left alone.
    Definition {
        /// Its name.
        name: String,
        /// What happened to it.
        outcome: Outcome,
    },
    /// A hook starts.
    Hook {
        /// Its event.
        event: &'static str,
        /// Its kind and name.
        hook: String,
    },
    /// Output of a hook's container.
    Log {
        /// The pod.
        pod: String,
        /// The container.
        container: String,
        /// The output.
        text: String,
    },
    /// An object was written.
    Written {
        /// The object.
        id: ObjectId,
        /// What happened to it.
        outcome: Outcome,
    },
    /// An object was deleted.
    Deleted {
        /// The object.
        id: ObjectId,
    },
    /// The operation waits for objects.
    Waiting {
        /// Those that are not ready, with what they lack.
        left: Vec<String>,
        /// Total number of objects.
        total: usize,
    },
    /// An interrupted operation is being recovered.
    Recovering {
        /// The state in which it was left.
        what: String,
    },
}

type Listener = Arc<dyn Fn(&Progress) + Send + Sync>;

/// Passes progress to a listener, if there is one.
#[derive(Clone, Default)]
pub(crate) struct Reporter(Option<Listener>);

impl Reporter {
    pub(crate) fn new(listener: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }

    pub(crate) fn report(&self, progress: &Progress) {
        if let Some(listener) = &self.0 {
            listener(progress);
        }
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reporter").field(&self.0.is_some()).finish()
    }
}
