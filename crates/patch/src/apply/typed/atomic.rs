//! Finds atomic lists and maps in a value.

use serde_json::Value;

use super::super::types::{ListMerge, TypeId, Types};
use super::trail::Trail;

impl Types {
    /// Returns the paths of all atomic lists and maps in a value of type `ty`.
    pub(super) fn atomics(&self, ty: TypeId, value: &Value) -> Vec<String> {
        let mut found = Vec::new();
        self.find_atomics(ty, value, &Trail::ROOT, &mut found);
        found
    }

    fn find_atomics(&self, ty: TypeId, value: &Value, at: &Trail<'_>, found: &mut Vec<String>) {
        let atom = self.atom(ty);
        match value {
            Value::Object(entries) => {
                let Some(map) = &atom.map else { return };
                if map.atomic {
                    found.push(at.path().to_string());
                }
                for (name, value) in entries {
                    // Only declared fields are searched, not entries of maps (additionalProperties).
                    if let Some(field) = map.fields.get(name) {
                        self.find_atomics(field.ty, value, &at.field(name), found);
                    }
                }
            }
            Value::Array(items) => {
                let Some(list) = &atom.list else { return };
                if list.merge == ListMerge::Atomic {
                    found.push(at.path().to_string());
                }
                for (index, item) in items.iter().enumerate() {
                    self.find_atomics(list.elem, item, &at.index(index), found);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn configured(object: &Value, config: &Value) -> Result<Value, String> {
        let text = json!({"type": "string"});
        let part =
            json!({"type": "object", "properties": {"name": text, "args": {"type": "array", "items": text}}});
        let schema = json!({"type": "object", "properties": {
            "parts": {
                "type": "array", "items": part,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            },
            "selector": {
                "type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": text,
            },
        }});
        let (types, ty) = Types::from_structural(&schema, None);
        types.configure(ty, object, config)
    }

    #[test]
    fn what_is_told_apart_is_merged() {
        let object = json!({"parts": [{"name": "a", "args": ["x"]}], "selector": {"k": "v"}});
        let merged = configured(&object, &json!({"parts": [{"name": "b"}]}));
        let expected = json!([{"name": "a", "args": ["x"]}, {"name": "b"}]);
        assert_eq!(merged.map(|merged| merged["parts"].clone()), Ok(expected));
    }

    #[test]
    fn what_is_one_leaf_is_named() {
        let config = json!({"parts": [{"name": "a", "args": ["y"]}], "selector": {"l": "w"}});
        assert_eq!(
            configured(&json!({}), &config),
            Err("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .parts[0].args, .selector".into())
        );
    }

    #[test]
    fn what_is_not_declared_is_refused() {
        assert_eq!(
            configured(&json!({}), &json!({"nope": 1})),
            Err("failed to convert patch object to typed object: .nope: field not declared in schema".into())
        );
    }
}
