//! Pods that wait for taint-based eviction.

use std::collections::HashMap;

use tokio::time::Instant;

use crate::control_loop::ClockChange;

/// When pods were first observed with a taint that they tolerate for a limited time, by uid.
#[derive(Debug, Clone, Default)]
pub(crate) struct Evictions(pub(super) HashMap<String, Instant>);

impl Evictions {
    /// Returns the same pods, with times on another clock.
    pub(crate) fn on_clock(&self, clock: ClockChange) -> Self {
        Self(self.0.iter().map(|(uid, since)| (uid.clone(), clock.carry(*since))).collect())
    }

    /// Forgets a deleted pod.
    pub(crate) fn forget(&mut self, uid: &str) {
        self.0.remove(uid);
    }
}
