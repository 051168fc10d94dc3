//! The clock of the control loop's timers.

use std::sync::Arc;

use steersman_api::environment::SteppedEnvironment;
use tokio::time::Instant;

/// Tokio's clock, plus the amount by which the cluster's clock has been set forward.
#[derive(Debug, Clone)]
pub(crate) struct Clock(Arc<SteppedEnvironment>);

impl Clock {
    pub(crate) fn new(environment: Arc<SteppedEnvironment>) -> Self {
        Self(environment)
    }

    pub(crate) fn now(&self) -> Instant {
        let now = Instant::now();
        // If the sum overflows, no timer is due any more.
        now.checked_add(self.0.stepped()).unwrap_or(now)
    }

    /// Returns the time on tokio's clock at which this clock reaches `at`.
    pub(crate) fn deadline(&self, at: Instant) -> Instant {
        at.checked_sub(self.0.stepped()).unwrap_or_else(Instant::now)
    }
}

/// Translates times to another clock, on which less or more time has passed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClockChange {
    pub(super) from: Instant,
    pub(super) to: Instant,
}

impl ClockChange {
    /// Returns the same time on the other clock.
    pub(crate) fn carry(self, moment: Instant) -> Instant {
        match moment.checked_duration_since(self.from) {
            Some(ahead) => self.to + ahead,
            None => self.to.checked_sub(self.from.duration_since(moment)).unwrap_or(self.to),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn moments_keep_their_distance_from_the_present() {
        let (from, second) = (Instant::now(), Duration::from_secs(1));
        let clock = ClockChange { from, to: from + second * 100 };
        assert_eq!(clock.carry(from + second), from + second * 101);
        assert_eq!(clock.carry(from - second), from + second * 99);
    }
}
