//! The clock that timers go by.

use std::sync::Arc;

use steersman_api::environment::SteppedEnvironment;
use tokio::time::Instant;

/// Tokio's clock, ahead by as much as the cluster's has been set forward.
#[derive(Debug, Clone)]
pub(crate) struct Clock(Arc<SteppedEnvironment>);

impl Clock {
    pub(crate) fn new(environment: Arc<SteppedEnvironment>) -> Self {
        Self(environment)
    }

    pub(crate) fn now(&self) -> Instant {
        let now = Instant::now();
        // Past what the clock counts in nothing is due any more.
        now.checked_add(self.0.stepped()).unwrap_or(now)
    }

    /// The moment at which tokio's clock has to be for this one to be at `at`.
    pub(crate) fn deadline(&self, at: Instant) -> Instant {
        at.checked_sub(self.0.stepped()).unwrap_or_else(Instant::now)
    }
}
