//! The result of a reconcile.

use std::time::Duration;

/// When to reconcile an object again, if nothing changes before that.
///
/// ```
/// use std::time::Duration;
/// use steersman::Action;
///
/// let soon = Action::await_change().or_sooner(Action::requeue(Duration::from_secs(60)));
/// assert_eq!(soon, Action::requeue(Duration::from_secs(60)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use]
pub struct Action {
    pub(crate) after: Option<Duration>,
}

impl Action {
    /// Waits for a change of the object, or of anything that concerns it.
    pub fn await_change() -> Self {
        Self { after: None }
    }

    /// Requeues the object after this time; a change triggers a reconcile earlier.
    pub fn requeue(after: Duration) -> Self {
        Self { after: Some(after) }
    }

    /// Returns the earlier of two actions.
    pub fn or_sooner(self, other: Self) -> Self {
        let after = match (self.after, other.after) {
            (Some(one), Some(two)) => Some(one.min(two)),
            (one, two) => one.or(two),
        };
        Self { after }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earlier_of_two_counts() {
        let after = |seconds| Action::requeue(Duration::from_secs(seconds));
        let rest = Action::await_change();
        assert_eq!(rest.after, None);
        assert_eq!(after(3).after, Some(Duration::from_secs(3)));
        assert_eq!(after(3).or_sooner(after(5)), after(3));
        assert_eq!(after(5).or_sooner(after(3)), after(3));
        assert_eq!(rest.or_sooner(after(5)), after(5));
        assert_eq!(after(5).or_sooner(rest), after(5));
        assert_eq!(rest.or_sooner(rest), rest);
    }
}
