//! Descriptions of built-in types and their fields, as kubectl explain shows them.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::Value;

/// By definition name: the type's description under the empty name, and those of its fields.
type Descriptions = BTreeMap<String, BTreeMap<String, String>>;

/// Parsed when a document is first requested.
static DESCRIBED: LazyLock<Descriptions> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../data/descriptions.json")).unwrap_or_default());

/// Adds the descriptions of a type and its fields to its schema.
pub(super) fn describe(name: &str, schema: &mut Value) {
    let Some(described) = DESCRIBED.get(name) else { return };
    add(schema, described.get(""));
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (field, property) in properties.into_iter().flatten() {
        add(property, described.get(field));
    }
}

/// Returns the description of a field common to all kinds.
pub(super) fn of_every_kind(field: &str) -> Option<&'static str> {
    DESCRIBED.get("io.k8s.api.core.v1.Pod")?.get(field).map(String::as_str)
}

fn add(schema: &mut Value, description: Option<&String>) {
    let (Some(schema), Some(description)) = (schema.as_object_mut(), description) else { return };
    // A reference cannot have siblings.
    if let Some(reference) = schema.remove("$ref") {
        schema.insert("allOf".into(), serde_json::json!([{"$ref": reference}]));
    }
    schema.insert("description".into(), description.as_str().into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearly_every_type_is_described() {
        let all = steersman_api::schema::definitions();
        let silent: Vec<&String> = all
            .keys()
            .filter(|name| !name.ends_with("List") && !DESCRIBED.contains_key(name.as_str()))
            .collect();
        assert!(silent.len() * 20 < all.len(), "{} of {}: {silent:?}", silent.len(), all.len());
        let mut pod = all["io.k8s.api.core.v1.Pod"].clone();
        describe("io.k8s.api.core.v1.Pod", &mut pod);
        assert!(pod["description"].as_str().unwrap().starts_with("Pod is a collection of containers"));
        assert!(pod["properties"]["spec"]["description"].is_string());
        for (name, schema) in all {
            let mut described = schema.clone();
            describe(name, &mut described);
            assert_eq!(described.get("properties").is_some(), schema.get("properties").is_some(), "{name}");
        }
        assert!(of_every_kind("metadata").unwrap().starts_with("Standard object's metadata"));
    }
}
