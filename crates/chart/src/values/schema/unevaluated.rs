//! Tracks the properties or items that no keyword has evaluated yet.

use super::node::Node;
use super::subschema::Subschema;

/// Flags of the unevaluated properties or items; empty if none is left or no caller needs them.
#[derive(Debug, Default)]
pub(super) struct Unevaluated {
    flags: Vec<bool>,
    count: usize,
}

impl Unevaluated {
    /// Returns the initial state for a value that a schema is applied to.
    pub(super) fn new(value: &Node, schema: &Subschema, caller_needs: bool) -> Self {
        let evaluates = schema.evaluates;
        let (size, evaluated) = match value {
            Node::Object(object)
                if !evaluates.all_properties && (caller_needs || schema.unevaluated_properties.is_some()) =>
            {
                (object.len(), 0)
            }
            Node::Array(items)
                if !evaluates.all_items && (caller_needs || schema.unevaluated_items.is_some()) =>
            {
                (items.len(), evaluates.first_items)
            }
            _ => (0, 0),
        };
        if evaluated >= size {
            return Self::default();
        }
        let mut flags = vec![true; size];
        flags.iter_mut().take(evaluated).for_each(|flag| *flag = false);
        Self { flags, count: size - evaluated }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the number of unevaluated properties or items.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Marks the property or item at an index as evaluated.
    pub(super) fn evaluate(&mut self, index: usize) {
        if let Some(flag) = self.flags.get_mut(index).filter(|flag| **flag) {
            *flag = false;
            self.count -= 1;
        }
    }

    /// Marks what another schema evaluated of the same value.
    pub(super) fn merge(&mut self, other: &Self) {
        if other.is_empty() {
            *self = Self::default();
        } else if !self.is_empty() {
            for (index, _) in other.flags.iter().enumerate().filter(|(_, is_left)| !**is_left) {
                self.evaluate(index);
            }
        }
    }

    /// Returns the flags of all properties or items, and marks them all as evaluated.
    pub(super) fn take(&mut self) -> impl Iterator<Item = bool> + use<> {
        std::mem::take(self).flags.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_evaluated_counts_once() {
        let mut left = Unevaluated { flags: vec![true; 2], count: 2 };
        left.evaluate(0);
        left.evaluate(0);
        left.evaluate(2);
        assert_eq!((left.count(), left.is_empty()), (1, false));
        left.evaluate(1);
        assert!(left.is_empty());
    }
}
