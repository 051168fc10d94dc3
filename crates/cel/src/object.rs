//! Objects of named types.

use std::sync::Arc;

use crate::value::{Value, equal};

/// An object of a named type, created by an expression.
#[derive(Clone, Debug)]
pub struct Object {
    /// The type name, such as `Object.spec`.
    pub name: Arc<str>,
    /// The fields, with unique names.
    pub fields: Vec<(Arc<str>, Value)>,
}

impl Object {
    /// Returns the value of a field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.fields.iter().find(|(key, _)| **key == *name).map(|(_, value)| value)
    }

    /// Returns the field named by a string value.
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
