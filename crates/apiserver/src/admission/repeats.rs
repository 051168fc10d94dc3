//! Who is asked a second time about a write, as it was changed after they had been asked.

use std::collections::BTreeSet;

use serde_json::Value;

/// Those who may change a write, and want to see it again when others do so after them.
#[derive(Debug)]
pub(super) struct Repeats<K> {
    /// Who saw it, as it is so far.
    seen: BTreeSet<K>,
    /// Who has to see it again.
    due: BTreeSet<K>,
    /// The object as it was left by the round before, if anybody cares.
    left: Option<Value>,
    /// Whether there was a round before.
    again: bool,
}

impl<K> Default for Repeats<K> {
    fn default() -> Self {
        Self { seen: BTreeSet::new(), due: BTreeSet::new(), left: None, again: false }
    }
}

impl<K: Ord> Repeats<K> {
    /// Begins a round. What others changed in between is a change as well.
    pub(super) fn begin(&mut self, object: &Value) {
        if self.left.as_ref().is_some_and(|left| left != object) {
            self.changed();
        }
    }

    /// Whether somebody is passed over: in the second round, all who need not see the object again.
    pub(super) fn skips(&self, who: &K) -> bool {
        self.again && !self.due.contains(who)
    }

    /// The object has changed: whoever saw it before has to see it again.
    pub(super) fn changed(&mut self) {
        self.due.append(&mut self.seen);
    }

    /// Somebody who wants to see changes that come later has seen the object.
    pub(super) fn saw(&mut self, who: K) {
        self.seen.insert(who);
    }

    /// Ends a round.
    pub(super) fn end(&mut self, object: &Value) {
        self.again = true;
        // What others change is of interest only to whoever may see it again.
        self.left = (!self.seen.is_empty()).then(|| object.clone());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_who_saw_something_else_is_asked_again() {
        let mut repeats = Repeats::default();
        repeats.begin(&json!(1));
        assert!(!repeats.skips(&"a"));
        repeats.saw("a");
        repeats.end(&json!(1));
        repeats.begin(&json!(2));
        assert!(!repeats.skips(&"a"));
        assert!(repeats.skips(&"b"));
    }

    #[test]
    fn nothing_is_kept_for_nobody() {
        let mut repeats = Repeats::default();
        repeats.begin(&json!(1));
        repeats.end(&json!(1));
        assert_eq!(repeats.left, None);
        repeats.begin(&json!(2));
        assert!(repeats.skips(&"a"));
    }
}
