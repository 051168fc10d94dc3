//! Merges OpenAPI v2 documents of extension API servers into the server's own.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::aggregation::OldDocument;

/// Adds paths and definitions of an extension server. Definitions with conflicting names are renamed.
pub(super) fn merge(
    paths: &mut Map<String, Value>,
    definitions: &mut Map<String, Value>,
    other: &OldDocument,
) {
    let mut renamed: BTreeMap<String, String> = BTreeMap::new();
    let mut new = Vec::new();
    for (name, definition) in &other.definitions {
        match definitions.get(name) {
            Some(known) if same_but_words(known, definition) => {}
            Some(_) => {
                let free = (2..).map(|number| format!("{name}_v{number}"));
                let free = free.into_iter().find(|free| !definitions.contains_key(free)).unwrap_or_default();
                new.push((free.clone(), definition));
                renamed.insert(name.clone(), free);
            }
            None => new.push((name.clone(), definition)),
        }
    }
    for (name, definition) in new {
        definitions.insert(name, refer(definition, &renamed));
    }
    for (path, item) in &other.paths {
        if !paths.contains_key(path) {
            paths.insert(path.clone(), refer(item, &renamed));
        }
    }
}

/// Whether two definitions are equal apart from descriptions and defaults.
fn same_but_words(a: &Value, b: &Value) -> bool {
    let is_word = |key: &String| matches!(key.as_str(), "description" | "default");
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let length = |map: &Map<String, Value>| map.keys().filter(|key| !is_word(key)).count();
            length(a) == length(b)
                && a.iter()
                    .filter(|(key, _)| !is_word(key))
                    .all(|(key, value)| b.get(key).is_some_and(|other| same_but_words(value, other)))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_but_words(a, b))
        }
        (a, b) => a == b,
    }
}

/// Updates references to renamed definitions.
fn refer(node: &Value, renamed: &BTreeMap<String, String>) -> Value {
    const PREFIX: &str = "#/definitions/";
    match node {
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| {
                let target = value.as_str().filter(|_| key == "$ref").and_then(|t| t.strip_prefix(PREFIX));
                let value = match target.and_then(|target| renamed.get(target)) {
                    Some(name) => format!("{PREFIX}{name}").into(),
                    None => refer(value, renamed),
                };
                (key.clone(), value)
            });
            Value::Object(entries.collect())
        }
        Value::Array(list) => list.iter().map(|value| refer(value, renamed)).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn definitions_of_the_same_name_keep_apart() {
        let map = |value: Value| match value {
            Value::Object(map) => map,
            other => panic!("{other}"),
        };
        let mut paths = map(json!({"/a": {"get": 1}}));
        let mut definitions = map(json!({
            "Meta": {"type": "object", "description": "ours"},
            "Kind": {"type": "string"},
        }));
        let other = OldDocument {
            paths: map(json!({"/a": {"get": 2}, "/b": {"get": {"$ref": "#/definitions/Kind"}}})),
            definitions: map(json!({
                "Meta": {"type": "object", "description": "theirs"},
                "Kind": {"properties": {"self": {"$ref": "#/definitions/Kind"}, "meta": {"$ref": "#/definitions/Meta"}}},
            })),
        };
        merge(&mut paths, &mut definitions, &other);
        assert_eq!(paths["/a"], json!({"get": 1}));
        assert_eq!(paths["/b"], json!({"get": {"$ref": "#/definitions/Kind_v2"}}));
        assert_eq!(definitions["Meta"]["description"], "ours");
        assert_eq!(definitions["Kind"], json!({"type": "string"}));
        let kind = &definitions["Kind_v2"]["properties"];
        assert_eq!(kind["self"], json!({"$ref": "#/definitions/Kind_v2"}));
        assert_eq!(kind["meta"], json!({"$ref": "#/definitions/Meta"}));
    }
}
