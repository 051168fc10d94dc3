//! What is remembered of pods that are to be evicted.

use std::collections::HashMap;

use tokio::time::Instant;

use crate::control_loop::ClockChange;

/// When pods were first seen with a taint that they tolerate for a while, by uid.
#[derive(Debug, Clone, Default)]
pub(crate) struct Evictions(pub(super) HashMap<String, Instant>);

impl Evictions {
    /// The same pods on another clock.
    pub(crate) fn on_clock(&self, clock: ClockChange) -> Self {
        Self(self.0.iter().map(|(uid, since)| (uid.clone(), clock.carry(*since))).collect())
    }

    /// Forgets a pod that is gone.
    pub(crate) fn forget(&mut self, uid: &str) {
        self.0.remove(uid);
    }
}
