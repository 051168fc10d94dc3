//! Checks that a schema is structural: every field has one type, declared outside of logical junctors.

use crate::fields::FieldError;
use crate::path::{child, index, property};
use crate::schema::{Items, Schema};

/// Returns why a schema cannot be structural.
/// Definitions with such schemas are invalid for other reasons too.
pub(crate) fn unsupported(schema: &Schema) -> Option<&'static str> {
    let here = [
        (!schema.id.is_empty(), "OpenAPIV3Schema 'id' is not supported"),
        (!schema.schema.is_empty(), "OpenAPIV3Schema 'schema' is not supported"),
        (
            schema.reference.as_deref().is_some_and(|r| !r.is_empty()),
            "OpenAPIV3Schema '$ref' is not supported",
        ),
        (!schema.pattern_properties.is_empty(), "OpenAPIV3Schema 'patternProperties' is not supported"),
        (!schema.dependencies.is_empty(), "OpenAPIV3Schema 'dependencies' is not supported"),
        (schema.additional_items.is_some(), "OpenAPIV3Schema 'additionalItems' is not supported"),
        (!schema.definitions.is_empty(), "OpenAPIV3Schema 'definitions' is not supported"),
    ];
    if let Some((_, why)) = here.iter().find(|(is_so, _)| *is_so) {
        return Some(why);
    }
    let combined = schema.not.as_deref().into_iter();
    let combined = combined.chain(&schema.all_of).chain(&schema.any_of).chain(&schema.one_of);
    if let Some(why) = combined.filter_map(unsupported).next() {
        return Some(why);
    }
    if schema.preserve_unknown == Some(false) {
        return Some("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined");
    }
    match schema.items.as_ref() {
        Some(Items::Many(items)) if !items.is_empty() => {
            return Some("OpenAPIV3Schema 'items' must be a schema, but is an array");
        }
        Some(Items::One(item)) => {
            if let Some(why) = unsupported(item) {
                return Some(why);
            }
        }
        _ => {}
    }
    schema.properties.values().chain(schema.additional()).find_map(unsupported)
}

/// Returns the violations that make a schema non-structural, sorted.
pub(crate) fn check(schema: &Schema, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    invariants(schema, Level::Root, path, &mut errors);
    complete(schema, Some(schema), path, path, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

fn invariants(schema: &Schema, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    if schema.kind == "array" && schema.item().is_none() {
        errors.push(FieldError::required(child(path, "items"), "must be specified"));
    }
    if let Some(item) = schema.item() {
        invariants(item, Level::Item, &child(path, "items"), errors);
    }
    for (name, field) in &schema.properties {
        invariants(field, Level::Field, &property(path, name), errors);
    }
    let additional = child(path, "additionalProperties");
    if schema.additional_properties.is_some() {
        if level == Level::Root {
            errors.push(FieldError::forbidden(additional.as_str(), "must not be used at the root"));
        }
        if let Some(values) = schema.additional() {
            invariants(values, Level::Field, &additional, errors);
        }
    }
    extensions(schema, path, errors);
    combinations(schema, is_int_or_string(&schema.any_of), is_nested_int_or_string(schema), path, errors);

    let type_path = child(path, "type");
    let is_embedded = schema.embedded_resource;
    if is_embedded && schema.kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(wrong_type(&type_path, &schema.kind, detail));
    } else if schema.kind.is_empty() && !schema.int_or_string && !schema.preserves_unknown() {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(type_path.as_str(), detail));
    }
    if is_embedded && schema.additional_properties.is_some() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(additional, detail));
    }
    if level == Level::Root && !schema.kind.is_empty() && schema.kind != "object" {
        errors.push(FieldError::invalid(type_path, schema.kind.as_str(), "must be object at the root"));
    }
    metadata(schema, level, path, errors);
    if is_embedded && !schema.preserves_unknown() && schema.properties.is_empty() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(child(path, "properties"), detail));
    }
}

/// Reports a type that is missing or wrong.
pub(crate) fn wrong_type(path: &str, kind: &str, detail: &str) -> FieldError {
    if kind.is_empty() { FieldError::required(path, detail) } else { FieldError::invalid(path, kind, detail) }
}

fn extensions(schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    let detail = "must be false if x-kubernetes-int-or-string is true";
    if schema.int_or_string && schema.preserves_unknown() {
        errors.push(FieldError::invalid(child(path, "x-kubernetes-preserve-unknown-fields"), true, detail));
    }
    if schema.int_or_string && schema.embedded_resource {
        errors.push(FieldError::invalid(child(path, "x-kubernetes-embedded-resource"), true, detail));
    }
}

/// Validates `kind`, `apiVersion` and `metadata` of a resource: fixed types, and only names restricted.
fn metadata(schema: &Schema, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let is_resource = level == Level::Root || schema.embedded_resource;
    for name in ["kind", "apiVersion"] {
        if let Some(field) = schema.properties.get(name).filter(|f| is_resource && f.kind != "string") {
            let place = child(&property(path, name), "type");
            errors.push(FieldError::invalid(place, field.kind.as_str(), "must be string"));
        }
    }
    let Some(metadata) = schema.properties.get("metadata") else { return };
    let place = property(path, "metadata");
    if is_resource && metadata.kind != "object" {
        errors.push(FieldError::invalid(child(&place, "type"), metadata.kind.as_str(), "must be object"));
    }
    if level == Level::Root {
        let mut rest = metadata.clone();
        if !rest.properties.is_empty() && rest.properties.keys().all(|k| k == "name" || k == "generateName") {
            rest.properties.clear();
        }
        rest.kind.clear();
        rest.default = None;
        if rest != Schema::default() {
            let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            errors.push(FieldError::forbidden(place, detail));
        }
    }
}

/// Whether these are the two alternatives of int-or-string, the only ones that may have types.
pub(crate) fn is_int_or_string(any_of: &[Schema]) -> bool {
    let only = |kind: &str| Schema { kind: kind.to_owned(), ..Schema::default() };
    matches!(any_of, [a, b] if *a == only("integer") && *b == only("string"))
}

/// Whether the first `allOf` schema contains the int-or-string alternatives.
pub(crate) fn is_nested_int_or_string(schema: &Schema) -> bool {
    schema.all_of.first().is_some_and(|first| is_int_or_string(&first.any_of))
}

fn combinations(
    schema: &Schema,
    skip_any_of: bool,
    skip_first_any_of: bool,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    if !skip_any_of {
        for (i, part) in schema.any_of.iter().enumerate() {
            nested(part, false, &index(&child(path, "anyOf"), i), errors);
        }
    }
    for (i, part) in schema.all_of.iter().enumerate() {
        nested(part, skip_first_any_of && i == 0, &index(&child(path, "allOf"), i), errors);
    }
    for (i, part) in schema.one_of.iter().enumerate() {
        nested(part, false, &index(&child(path, "oneOf"), i), errors);
    }
    if let Some(part) = &schema.not {
        nested(part, false, &child(path, "not"), errors);
    }
    if !schema.pattern.text.is_empty()
        && let Err(why) = schema.pattern.compiled()
    {
        let detail = format!("must be a valid regular expression, but isn't: {why}");
        errors.push(FieldError::invalid(child(path, "pattern"), schema.pattern.text.as_str(), detail));
    }
}

/// Schemas in logical junctors may only restrict values.
fn nested(schema: &Schema, skip_any_of: bool, path: &str, errors: &mut Vec<FieldError>) {
    combinations(schema, skip_any_of, false, path, errors);
    if let Some(item) = schema.item() {
        nested(item, false, &child(path, "items"), errors);
    }
    for (name, field) in &schema.properties {
        nested(field, false, &property(path, name), errors);
    }
    let has_additional =
        schema.additional_properties.as_deref().is_some_and(|a| a.allows || a.schema.is_some());
    let forbidden = [
        ("type", !schema.kind.is_empty(), "must be empty to be structural"),
        ("additionalProperties", has_additional, "must be undefined to be structural"),
        ("default", schema.default.is_some(), "must be undefined to be structural"),
        ("title", !schema.title.is_empty(), "must be empty to be structural"),
        ("description", !schema.description.is_empty(), "must be empty to be structural"),
        ("nullable", schema.nullable, "must be false to be structural"),
        (
            "x-kubernetes-preserve-unknown-fields",
            schema.preserves_unknown(),
            "must be false to be structural",
        ),
        ("x-kubernetes-embedded-resource", schema.embedded_resource, "must be false to be structural"),
        ("x-kubernetes-int-or-string", schema.int_or_string, "must be false to be structural"),
        ("x-kubernetes-list-map-keys", !schema.list_map_keys.is_empty(), "must be empty to be structural"),
        ("x-kubernetes-list-type", schema.list_type.is_some(), "must be undefined to be structural"),
        ("x-kubernetes-map-type", schema.map_type.is_some(), "must be undefined to be structural"),
        ("x-kubernetes-validations", !schema.rules.is_empty(), "must be empty to be structural"),
    ];
    for (name, is_there, detail) in forbidden {
        if is_there {
            errors.push(FieldError::forbidden(child(path, name), detail));
        }
    }
    if schema.properties.contains_key("metadata") {
        let detail = "must not be specified in a nested context";
        errors.push(FieldError::forbidden(property(path, "metadata"), detail));
    }
}

/// Fields used in logical junctors must also be specified outside of them.
fn complete(
    part: &Schema,
    whole: Option<&Schema>,
    whole_path: &str,
    part_path: &str,
    errors: &mut Vec<FieldError>,
) {
    if whole.is_none() {
        errors.push(missing(whole_path, part_path));
        return;
    }
    if let Some(not) = &part.not {
        complete_nested(not, whole, whole_path, &child(part_path, "not"), errors);
    }
    for (name, parts) in [("allOf", &part.all_of), ("anyOf", &part.any_of), ("oneOf", &part.one_of)] {
        for (i, nested) in parts.iter().enumerate() {
            complete_nested(nested, whole, whole_path, &index(&child(part_path, name), i), errors);
        }
    }
}

fn complete_nested(
    part: &Schema,
    whole: Option<&Schema>,
    whole_path: &str,
    part_path: &str,
    errors: &mut Vec<FieldError>,
) {
    let Some(known) = whole else {
        errors.push(missing(whole_path, part_path));
        return;
    };
    complete(part, whole, whole_path, part_path, errors);
    if let Some(item) = part.item() {
        let (whole_path, part_path) = (child(whole_path, "items"), child(part_path, "items"));
        complete_nested(item, known.item(), &whole_path, &part_path, errors);
    }
    for (name, field) in &part.properties {
        let (whole_path, part_path) = (property(whole_path, name), property(part_path, name));
        match known.properties.get(name) {
            Some(known) => complete_nested(field, Some(known), &whole_path, &part_path, errors),
            None => errors.push(missing(&whole_path, &part_path)),
        }
    }
}

fn missing(whole_path: &str, part_path: &str) -> FieldError {
    FieldError::required(whole_path, format!("because it is defined in {part_path}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn fields_that_every_resource_has_have_their_types() {
        let complaints = |properties: Value, level: Level| {
            let mut errors = Vec::new();
            let schema = Schema::parse(&json!({"type": "object", "properties": properties}));
            metadata(&schema, level, "", &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let right = json!({"kind": {"type": "string"}, "apiVersion": {"type": "string"}, "metadata": {"type": "object"}});
        let wrong = json!({"kind": {"type": "integer"}, "apiVersion": {"type": "object"}, "metadata": {"type": "string"}});
        assert_eq!(complaints(right, Level::Root), [""; 0]);
        assert_eq!(complaints(wrong.clone(), Level::Root).len(), 3);
        assert_eq!(complaints(wrong, Level::Field), [""; 0]);
    }
}
