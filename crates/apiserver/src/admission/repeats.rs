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
    /// The object as it was left by the first round.
    left: Option<Value>,
}

impl<K> Default for Repeats<K> {
    fn default() -> Self {
        Self { seen: BTreeSet::new(), due: BTreeSet::new(), left: None }
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
        self.left.is_some() && !self.due.contains(who)
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
        self.left = Some(object.clone());
    }
}
