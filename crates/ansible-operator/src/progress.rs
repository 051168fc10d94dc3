//! Progress of runs, for a terminal, or for a command that previews a change.

use std::fmt;
use std::sync::Arc;

use steersman::Key;

/// A progress event of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The kind of the run's object.
    pub kind: String,
    /// The object.
    pub object: Key,
    /// The event.
    pub step: Step,
}

/// A step of a run. Values of Secrets that the run has accessed are replaced by `********` in all strings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// A task or handler starts.
    #[non_exhaustive]
    Task {
        /// Its name.
        name: String,
        /// Its file and line.
        path: Option<String>,
    },
    /// A host has finished a task.
    #[non_exhaustive]
    Done {
        /// The task's name.
        name: String,
        /// Its file and line.
        path: Option<String>,
        /// Whether it failed, and the failure is not ignored.
        failed: bool,
        /// Whether it changed something, or would in check mode.
        changed: bool,
        /// Its message.
        message: Option<String>,
        /// Difference between before and after, as Ansible shows it. None unless the play runs with `--diff`.
        diff: Option<String>,
    },
    /// The run has ended.
    #[non_exhaustive]
    Ended {
        /// The reason of its failure. None if it succeeded.
        failure: Option<String>,
    },
}

/// A callback for the progress of runs. Cheap to clone.
#[derive(Clone)]
pub struct Observer(Arc<dyn Fn(Progress) + Send + Sync>);

impl Observer {
    /// Creates an observer from a function, which is called from the runs' tasks, and must not block.
    pub fn new(tell: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    pub(crate) fn tell(&self, kind: &str, object: &Key, step: Step) {
        (self.0)(Progress { kind: kind.to_owned(), object: object.clone(), step });
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}
