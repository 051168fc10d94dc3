//! What a reconciler asks for when it is done.

use std::time::Duration;

/// When an object is looked at again, if nothing changes before that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use]
pub struct Action {
    pub(crate) after: Option<Duration>,
}

impl Action {
    /// When it, or anything that belongs to it, changes.
    pub fn await_change() -> Self {
        Self { after: None }
    }

    /// After some time at the latest.
    pub fn requeue(after: Duration) -> Self {
        Self { after: Some(after) }
    }

    /// The earlier of two.
    pub fn or_sooner(self, other: Self) -> Self {
        let after = match (self.after, other.after) {
            (Some(one), Some(two)) => Some(one.min(two)),
            (one, two) => one.or(two),
        };
        Self { after }
    }
}
