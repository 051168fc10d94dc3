//! What runs tell others than the cluster: a screen, or a command that shows what a change would do.

use std::fmt;
use std::sync::Arc;

use steersman::Key;

/// Something that happened in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The kind of the object that the run is for.
    pub kind: String,
    /// The object.
    pub object: Key,
    /// What happened.
    pub step: Step,
}

/// A step of a run. Values of Secrets that the run came across are replaced by `********` in all texts.
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
    /// A host is done with a task.
    #[non_exhaustive]
    Done {
        /// The task's name.
        name: String,
        /// Its file and line.
        path: Option<String>,
        /// Whether it failed and nothing ignores that.
        failed: bool,
        /// Whether it changed something, or would have.
        changed: bool,
        /// What it says.
        message: Option<String>,
        /// Difference between before and after, as Ansible shows it. None unless the play runs with `--diff`.
        diff: Option<String>,
    },
    /// The run is over.
    #[non_exhaustive]
    Ended {
        /// Why it failed. None: it did not.
        failure: Option<String>,
    },
}

/// Is told what happens in runs. Cheap to clone.
#[derive(Clone)]
pub struct Observer(Arc<dyn Fn(Progress) + Send + Sync>);

impl Observer {
    /// Has a function told. It is called from the runs' own tasks, and must not block.
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
