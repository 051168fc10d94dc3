//! The cluster's handle to its control loop.

use std::sync::{Arc, Mutex, PoisonError, atomic::AtomicU64};

use tokio::sync::{Notify, oneshot, watch as signal};

use super::SavedLoop;

/// Handle that wakes the control loop and waits for it.
#[derive(Debug, Clone)]
pub(crate) struct LoopHandle {
    /// Wakes the loop.
    pub(crate) wake: Arc<Notify>,
    /// The revision up to which everything has been reconciled.
    pub(crate) settled: signal::Sender<u64>,
    /// How often a controller panicked.
    pub(crate) panics: Arc<AtomicU64>,
    /// Callers that wait for the loop's state once everything has been reconciled.
    savers: Arc<Mutex<Vec<oneshot::Sender<SavedLoop>>>>,
}

impl LoopHandle {
    pub(crate) fn new() -> Self {
        Self {
            wake: Arc::new(Notify::new()),
            settled: signal::Sender::new(0),
            panics: Arc::default(),
            savers: Arc::default(),
        }
    }

    pub(super) fn take_savers(&self) -> Vec<oneshot::Sender<SavedLoop>> {
        std::mem::take(&mut self.savers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the loop's state once everything has been reconciled, or `None` if the loop has ended.
    pub(crate) async fn save(&self) -> Option<SavedLoop> {
        let (sender, saved) = oneshot::channel();
        self.savers.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        self.wake.notify_one();
        saved.await.ok()
    }
}
