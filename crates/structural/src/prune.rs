//! Pruning: removes fields unknown to the schema.

use serde_json::{Map, Value};

use crate::schema::Schema;

/// Prunes the unknown fields of a value and returns their paths, sorted.
/// With `is_resource`, the value is a resource, and its type and metadata are kept.
pub(crate) fn prune(value: &mut Value, schema: &Schema, is_resource: bool) -> Vec<String> {
    let mut pruner = Pruner { path: String::new(), unknown: Vec::new() };
    pruner.prune(value, Some(schema), is_resource);
    pruner.unknown.sort_unstable();
    pruner.unknown
}

/// Whether every resource has this field.
pub(crate) fn is_meta(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata")
}

struct Pruner {
    path: String,
    unknown: Vec<String>,
}

impl Pruner {
    fn prune(&mut self, value: &mut Value, schema: Option<&Schema>, is_resource: bool) {
        if let Some(schema) = schema.filter(|s| s.preserves_unknown()) {
            return self.keep(value, schema, is_resource);
        }
        match value {
            Value::Object(map) => self.fields(map, schema, is_resource),
            Value::Array(items) => {
                let item = schema.and_then(Schema::item);
                for (i, value) in items.iter_mut().enumerate() {
                    let length = self.enter_item(i);
                    self.prune(value, item, false);
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }

    fn fields(&mut self, map: &mut Map<String, Value>, schema: Option<&Schema>, is_resource: bool) {
        let is_resource = is_resource || schema.is_some_and(|s| s.embedded_resource);
        map.retain(|key, value| {
            if schema.is_some() && is_resource && is_meta(key) {
                return true;
            }
            let is_root = self.path.is_empty();
            let length = self.enter(key);
            let known = match schema {
                Some(schema) => match schema.properties.get(key) {
                    Some(field) => Some(Some(field)),
                    None => schema.additional_properties.as_deref().map(|a| a.schema.as_ref()),
                },
                None => None,
            };
            match known {
                Some(field) => self.prune(value, field, false),
                None if schema.is_some() && is_root && is_meta(key) => {}
                None => self.unknown.push(self.path.clone()),
            }
            self.path.truncate(length);
            known.is_some()
        });
    }

    /// Prunes within the specified fields of a value that preserves unknown fields.
    fn keep(&mut self, value: &mut Value, schema: &Schema, is_resource: bool) {
        match value {
            Value::Object(map) => {
                let is_resource = is_resource || schema.embedded_resource;
                for (key, value) in map {
                    if is_resource && is_meta(key) {
                        continue;
                    }
                    let field = match schema.properties.get(key) {
                        Some(field) => Some(field),
                        None if schema.additional_properties.is_some() => schema.additional(),
                        None => continue,
                    };
                    let length = self.enter(key);
                    self.prune(value, field, false);
                    self.path.truncate(length);
                }
            }
            Value::Array(items) => {
                let Some(item) = schema.item() else { return };
                for (i, value) in items.iter_mut().enumerate() {
                    let length = self.enter_item(i);
                    self.keep(value, item, false);
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }

    fn enter(&mut self, key: &str) -> usize {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        length
    }

    fn enter_item(&mut self, index: usize) -> usize {
        let length = self.path.len();
        self.path.push_str(&format!("[{index}]"));
        length
    }
}
