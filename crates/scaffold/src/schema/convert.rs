//! Converts JSON Schema (values.schema.json) to a structural schema.
//!
//! Constraints that a structural schema cannot express are dropped, which leaves the field open.

use serde_json::{Map, Value, json};

use super::infer::scalar_type;
use super::{Builder, MAX_DEPTH, entries, open, set_default, shorten};

/// Maximum length of a chain of references.
const MAX_REFERENCES: usize = 16;

/// Keywords with the same meaning in both.
const SAME: [&str; 12] = [
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "enum",
];

/// Converts a chart's values.schema.json to the schema of its values.
pub(super) fn convert(root: &Value, values: &Value, builder: &mut Builder<'_>) -> Value {
    let mut converter = Converter { root, builder };
    let schema = converter.schema(root, Some(values), &mut Vec::new());
    if schema.get("type").and_then(Value::as_str) == Some("object") {
        return schema;
    }
    // Values are always an object, even if the schema does not declare it.
    let mut schema = converter.object(resolve(root, root).unwrap_or(root), Some(values), &mut Vec::new());
    schema["type"] = "object".into();
    schema
}

struct Converter<'r, 'b, 'c> {
    root: &'r Value,
    builder: &'b mut Builder<'c>,
}

impl<'r> Converter<'r, '_, '_> {
    /// Converts a schema; `value` is the chart's default value for it.
    fn schema(&mut self, written: &'r Value, value: Option<&Value>, path: &mut Vec<&'r str>) -> Value {
        let mut schema = match resolve(self.root, written) {
            Some(resolved) => self.resolved(resolved, value, path),
            None => open(),
        };
        let description =
            written.get("description").or_else(|| resolve(self.root, written)?.get("description"));
        if let Some(text) = description.and_then(Value::as_str).filter(|text| !text.trim().is_empty()) {
            schema["description"] = shorten(text.trim()).into();
        }
        self.builder.describe(&mut schema, path);
        schema
    }

    fn resolved(&mut self, written: &'r Value, value: Option<&Value>, path: &mut Vec<&'r str>) -> Value {
        if !self.builder.has_room(path) {
            return open();
        }
        let (types, is_nullable) = types(written);
        let mut schema = match types[..] {
            ["object"] => self.object(written, value, path),
            ["array"] => self.array(written, path),
            ["integer", "string"] | ["string", "integer"] => json!({ "x-kubernetes-int-or-string": true }),
            [kind @ ("boolean" | "integer" | "number" | "string")] => json!({ "type": kind }),
            _ => return open(),
        };
        for key in SAME {
            if let Some(constraint) = written.get(key).filter(|constraint| is_sound(key, constraint)) {
                schema[key] = constraint.clone();
            }
        }
        if let Some(only) = written.get("const").filter(|only| !only.is_null()) {
            schema["enum"] = json!([only]);
        }
        for (key, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
            match written.get(key) {
                Some(Value::Bool(yes)) if schema.get(bound).is_some() => schema[key] = (*yes).into(),
                Some(limit @ Value::Number(_)) => {
                    schema[bound] = limit.clone();
                    schema[key] = true.into();
                }
                _ => {}
            }
        }
        set_default(&mut schema, value);
        if is_nullable && schema.get("enum").is_none() {
            schema["nullable"] = true.into();
        }
        schema
    }

    fn object(&mut self, written: &'r Value, value: Option<&Value>, path: &mut Vec<&'r str>) -> Value {
        let mut properties = Map::new();
        for (key, field) in written.get("properties").into_iter().flat_map(entries) {
            path.push(key);
            let default = value.and_then(|value| value.get(key));
            properties.insert(key.clone(), self.schema(field, default, path));
            path.pop();
        }
        let mut schema = json!({ "type": "object" });
        let more = written.get("additionalProperties");
        let has_more_rules = ["patternProperties", "allOf", "anyOf", "oneOf", "if", "unevaluatedProperties"]
            .iter()
            .any(|key| written.get(*key).is_some());
        match more {
            Some(more @ Value::Object(_)) if properties.is_empty() && !has_more_rules => {
                path.push("*");
                schema["additionalProperties"] = self.schema(more, None, path);
                path.pop();
            }
            // Where the chart rejects unknown fields, the cluster prunes them; kubectl warns about them before.
            Some(Value::Bool(false)) if !properties.is_empty() && !has_more_rules => {}
            _ => schema["x-kubernetes-preserve-unknown-fields"] = true.into(),
        }
        // An object with defaults in the chart is merged over them, and the chart validates the result.
        if value.is_none()
            && let Some(required) = written.get("required").and_then(Value::as_array)
        {
            let known = |key: &&Value| key.as_str().is_some_and(|key| properties.contains_key(key));
            let required: Vec<&Value> = required.iter().filter(known).collect();
            if !required.is_empty() {
                schema["required"] = json!(required);
            }
        }
        if !properties.is_empty() {
            schema["properties"] = properties.into();
        }
        schema
    }

    fn array(&mut self, written: &'r Value, path: &mut Vec<&'r str>) -> Value {
        let items = match written.get("items") {
            Some(items @ Value::Object(_)) => {
                path.push("*");
                let items = self.schema(items, None, path);
                path.pop();
                items
            }
            _ => open(),
        };
        json!({ "type": "array", "items": items })
    }
}

/// Returns the types that a schema allows except null, and whether it allows null.
///
/// No types are returned if the schema declares none, or in a way that a structural schema cannot express.
fn types(written: &Value) -> (Vec<&str>, bool) {
    if ["anyOf", "oneOf", "allOf", "not", "if"].iter().any(|key| written.get(*key).is_some())
        && written.get("type").is_none()
    {
        return (Vec::new(), false);
    }
    let mut types: Vec<&str> = match written.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ if written.get("properties").is_some() => vec!["object"],
        _ => {
            let constant = written.get("const").into_iter();
            let listed = written.get("enum").and_then(Value::as_array).into_iter().flatten();
            let mut types: Vec<&str> = constant.chain(listed).map(scalar_type).collect();
            types.sort_unstable();
            types.dedup();
            types
        }
    };
    let count = types.len();
    types.retain(|kind| *kind != "null");
    let is_nullable = types.len() < count;
    (types, is_nullable)
}

/// Whether a constraint has the same meaning in a structural schema as in JSON Schema.
fn is_sound(key: &str, constraint: &Value) -> bool {
    match key {
        "pattern" => constraint.as_str().is_some_and(|text| steersman_regexp::compile(text).is_ok()),
        "enum" => constraint.as_array().is_some_and(|listed| {
            !listed.is_empty()
                && listed.iter().all(|one| one.is_string() || one.is_number() || one.is_boolean())
        }),
        "format" => constraint.is_string(),
        _ => constraint.is_number(),
    }
}

/// Resolves a reference within the document; a schema without a reference is returned unchanged.
fn resolve<'r>(root: &'r Value, mut schema: &'r Value) -> Option<&'r Value> {
    for _ in 0..MAX_REFERENCES.min(MAX_DEPTH) {
        let Some(reference) = schema.get("$ref").and_then(Value::as_str) else {
            return schema.is_object().then_some(schema);
        };
        schema = root.pointer(reference.strip_prefix('#')?)?;
    }
    None
}
