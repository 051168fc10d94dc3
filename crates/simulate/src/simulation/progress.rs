//! How far a simulation is.

use std::sync::Arc;

/// How far a simulation is. See [`Simulation::on_progress`](super::Simulation::on_progress).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// The runs without faults have begun, which all others are compared with.
    FaultFree,
    /// A plan was tried.
    Tried {
        /// Plans tried so far, this one included.
        tried: usize,
        /// Plans known so far: what crashes lead to adds pairs of them.
        planned: usize,
        /// Plans whose run failed.
        failed: usize,
    },
}

type Tell = dyn Fn(&Progress) + Send + Sync;

/// Who is told of the progress. Cheap to clone.
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
