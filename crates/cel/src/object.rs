//! Objects of named types.

use std::sync::Arc;

use crate::value::{Value, equal};

/// An object of a named type.
#[derive(Clone, Debug)]
pub struct Object {
    /// The name of its type, such as `Object.spec`.
    pub name: Arc<str>,
    /// Its fields, which do not repeat.
    pub fields: Vec<(Arc<str>, Value)>,
}

impl Object {
    /// The value of a field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.fields.iter().find(|(key, _)| **key == *name).map(|(_, value)| value)
    }

    /// The field that a value names.
    pub(crate) fn get(&self, name: &Value) -> Option<&Value> {
        match name {
            Value::String(name) => self.field(name),
            _ => None,
        }
    }

    pub(crate) fn same(&self, other: &Self) -> bool {
        let in_other =
            |(key, value): &(Arc<str>, Value)| other.field(key).is_some_and(|other| equal(value, other));
        self.name == other.name && self.fields.len() == other.fields.len() && self.fields.iter().all(in_other)
    }
}
