//! Progress of a simulation.

use std::sync::Arc;

/// Progress of a simulation. See [`Simulation::on_progress`](super::Simulation::on_progress).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// The fault-free runs, which all others are compared with, have started.
    FaultFree,
    /// A plan was tried.
    Tried {
        /// Plans tried so far, including this one.
        tried: usize,
        /// Plans known so far; pairs of crashes are added later.
        planned: usize,
        /// Plans whose run failed.
        failed: usize,
    },
}

type Tell = dyn Fn(&Progress) + Send + Sync;

/// The progress callback. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Listener(Option<Arc<Tell>>);

impl Listener {
    pub(super) fn new(listener: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }

    pub(super) fn tell(&self, progress: &Progress) {
        if let Some(listener) = &self.0 {
            listener(progress);
        }
    }
}
