//! Status conditions.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Operations on the list of conditions in a status.
///
/// ```
/// use steersman::{Conditions as _, condition};
///
/// let mut conditions = Vec::new();
/// let now = jiff::Timestamp::now();
/// conditions.set(condition("Ready", false, "Waiting", "1 of 3 pods", Some(1), now));
/// conditions.set(condition("Ready", true, "AllRunning", "3 of 3 pods", Some(1), now));
/// assert!(conditions.is_true("Ready") && conditions.len() == 1);
/// ```
pub trait Conditions {
    /// Sets a condition. Its transition time moves only if its status changes, so setting an equal one changes
    /// nothing.
    fn set(&mut self, condition: Condition);

    /// Returns the condition of a type.
    fn find(&self, type_: &str) -> Option<&Condition>;

    /// Whether a condition exists and is true.
    fn is_true(&self, type_: &str) -> bool {
        self.find(type_).is_some_and(|condition| condition.status == "True")
    }

    /// Removes the condition of a type.
    fn unset(&mut self, type_: &str);
}

impl Conditions for Vec<Condition> {
    fn set(&mut self, mut condition: Condition) {
        match self.iter_mut().find(|other| other.type_ == condition.type_) {
            Some(other) => {
                if other.status == condition.status {
                    condition.last_transition_time = other.last_transition_time.clone();
                }
                *other = condition;
            }
            None => self.push(condition),
        }
    }

    fn find(&self, type_: &str) -> Option<&Condition> {
        self.iter().find(|condition| condition.type_ == type_)
    }

    fn unset(&mut self, type_: &str) {
        self.retain(|condition| condition.type_ != type_);
    }
}

/// Builds a condition. [`crate::Context::condition`] fills in the generation and the time.
#[must_use]
pub fn condition(
    type_: &str,
    status: bool,
    reason: &str,
    message: impl Into<String>,
    generation: Option<i64>,
    now: Timestamp,
) -> Condition {
    // Kubernetes writes these times in whole seconds.
    let seconds = Timestamp::from_second(now.as_second()).unwrap_or(now);
    Condition {
        type_: type_.to_owned(),
        status: if status { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: message.into(),
        observed_generation: generation,
        last_transition_time: Time(seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transition_times_are_stable() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut conditions = Vec::new();
        conditions.set(condition("Ready", false, "Waiting", "no pods", Some(1), at(1)));
        conditions.set(condition("Ready", false, "Waiting", "one pod", Some(2), at(2)));
        assert_eq!(conditions[0].last_transition_time, Time(at(1)));
        assert_eq!(conditions[0].message, "one pod");
        assert!(!conditions.is_true("Ready"));
        conditions.set(condition("Ready", true, "Done", "", Some(2), at(3)));
        assert_eq!(conditions[0].last_transition_time, Time(at(3)));
        assert!(conditions.is_true("Ready"));
        assert_eq!(conditions.len(), 1);
        conditions.unset("Ready");
        assert!(conditions.find("Ready").is_none());
    }
}
