//! Progress of an operation.

use std::fmt;
use std::sync::Arc;

use crate::object::ObjectId;
use crate::write::Outcome;

/// A step of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// A custom resource definition was dealt with.
    Definition {
        /// Its name.
        name: String,
        /// What became of it.
        outcome: Outcome,
    },
    /// A hook begins to run.
    Hook {
        /// When hooks like it run.
        event: &'static str,
        /// Its kind and name.
        hook: String,
    },
    /// What a hook's container wrote.
    Log {
        /// The pod.
        pod: String,
        /// The container.
        container: String,
        /// What it wrote.
        text: String,
    },
    /// An object was written.
    Written {
        /// Which one.
        id: ObjectId,
        /// What became of it.
        outcome: Outcome,
    },
    /// An object was deleted.
    Deleted {
        /// Which one.
        id: ObjectId,
    },
    /// Objects are waited for.
    Waiting {
        /// Those that are not ready, with what they lack.
        left: Vec<String>,
        /// How many there are in all.
        total: usize,
    },
    /// An interrupted operation is recovered.
    Recovering {
        /// What was found.
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
