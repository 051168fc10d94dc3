//! Reinvocation: plugins that are called again because a later one changed the object.

use std::collections::BTreeSet;

use serde_json::Value;

/// Mutating plugins that want to be called again when a later one changes the object.
#[derive(Debug)]
pub(super) struct Reinvocation<K> {
    /// Plugins that saw the object in its present form.
    seen: BTreeSet<K>,
    /// Plugins that have to be called again.
    due: BTreeSet<K>,
    /// The object as the previous round left it, if a plugin may be called again.
    left: Option<Value>,
    /// Whether there was a previous round.
    again: bool,
}

impl<K> Default for Reinvocation<K> {
    fn default() -> Self {
        Self { seen: BTreeSet::new(), due: BTreeSet::new(), left: None, again: false }
    }
}

impl<K: Ord> Reinvocation<K> {
    /// Begins a round. A change between rounds counts as well.
    pub(super) fn begin(&mut self, object: &Value) {
        if self.left.as_ref().is_some_and(|left| left != object) {
            self.changed();
        }
    }

    /// Whether a plugin is skipped: in the second round, unless it has to be called again.
    pub(super) fn skips(&self, plugin: &K) -> bool {
        self.again && !self.due.contains(plugin)
    }

    /// Notes that the object changed: plugins that saw it have to be called again.
    pub(super) fn changed(&mut self) {
        self.due.append(&mut self.seen);
    }

    /// Notes that a reinvocable plugin saw the object.
    pub(super) fn saw(&mut self, plugin: K) {
        self.seen.insert(plugin);
    }

    /// Ends a round.
    pub(super) fn end(&mut self, object: &Value) {
        self.again = true;
        // Changes between rounds matter only if a plugin may be called again.
        self.left = (!self.seen.is_empty()).then(|| object.clone());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_plugins_that_saw_another_object_are_called_again() {
        let mut reinvocation = Reinvocation::default();
        reinvocation.begin(&json!(1));
        assert!(!reinvocation.skips(&"a"));
        reinvocation.saw("a");
        reinvocation.end(&json!(1));
        reinvocation.begin(&json!(2));
        assert!(!reinvocation.skips(&"a"));
        assert!(reinvocation.skips(&"b"));
    }

    #[test]
    fn no_object_is_kept_without_reinvocable_plugins() {
        let mut reinvocation = Reinvocation::default();
        reinvocation.begin(&json!(1));
        reinvocation.end(&json!(1));
        assert_eq!(reinvocation.left, None);
        reinvocation.begin(&json!(2));
        assert!(reinvocation.skips(&"a"));
    }
}
