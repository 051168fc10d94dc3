//! Correlates a value with its old value for validation ratcheting: unchanged values need not be valid.

use serde_json::Value;

use crate::schema::Schema;

/// A new value, its correlated old value, and their schema.
#[derive(Clone, Copy)]
pub(crate) struct Pair<'a> {
    pub(crate) new: &'a Value,
    pub(crate) old: &'a Value,
    pub(crate) schema: &'a Schema,
}

impl<'a> Pair<'a> {
    /// Correlates a field, if both objects have it and its schema is known.
    pub(crate) fn key(&self, name: &str) -> Option<Self> {
        let (new, old) = (self.new.as_object()?.get(name)?, self.old.as_object()?.get(name)?);
        Some(Self { new, old, schema: self.schema.field(name)? })
    }

    /// Correlates the list item at this index with the old item that has the same map keys.
    pub(crate) fn index(&self, index: usize) -> Option<Self> {
        let new = self.new.as_array()?.get(index)?;
        let old = same_keys(self.schema, new, self.old.as_array()?)?;
        Some(Self { new, old, schema: self.schema.item()? })
    }

    /// Whether the value is unchanged. Fields unknown to the schema count as changed.
    pub(crate) fn is_unchanged(&self) -> bool {
        match (self.new, self.old) {
            (Value::Array(new), Value::Array(old)) => {
                if new.len() != old.len() {
                    return false;
                }
                for i in 0..new.len() {
                    match self.index(i) {
                        Some(pair) if pair.is_unchanged() => {}
                        Some(_) => return false,
                        None => return !self.schema.is_list_map() && same(self.new, self.old),
                    }
                }
                true
            }
            (Value::Object(new), Value::Object(old)) => {
                new.len() == old.len()
                    && new.keys().all(|key| self.key(key).is_some_and(|pair| pair.is_unchanged()))
            }
            (new, old) => same(new, old),
        }
    }
}

/// For lists of type map, returns the item in `list` with the same keys as `item`.
pub(crate) fn same_keys<'a>(schema: &Schema, item: &Value, list: &'a [Value]) -> Option<&'a Value> {
    if schema.kind != "array" || !schema.is_list_map() || schema.list_map_keys.is_empty() {
        return None;
    }
    let keys = |item: &Value| -> Option<Vec<String>> {
        let fields = item.as_object()?;
        schema.list_map_keys.iter().map(|name| scalar(fields.get(name)?)).collect()
    };
    let wanted = keys(item)?;
    list.iter().find(|other| keys(other).is_some_and(|found| found == wanted))
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::Array(_) | Value::Object(_) => None,
        Value::Number(n) if !n.is_i64() => Some(format!("float {}", n.as_f64()?)),
        other => Some(other.to_string()),
    }
}

/// Equality that distinguishes whole floats from integers.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a.is_i64() == b.is_i64() && (a == b || a.as_f64() == b.as_f64())
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(k, a)| b.get(k).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}
