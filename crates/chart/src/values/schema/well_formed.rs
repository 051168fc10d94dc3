//! A quick scan that finds most schemas valid without checking them against their metaschema.
//!
//! Most schemas have only common keywords in their common forms. The scan costs a twentieth of the full check, which
//! would take longer than the rest of the compilation.

use super::draft::Draft;
use super::node::{Node, Number};

/// Maximum nesting of a schema that the scan accepts.
const MAX_DEPTH: usize = 64;

/// Whether a schema is certainly valid against the metaschema of its draft.
///
/// True only if it has no other keywords than those listed here, each in its required form.
pub(super) fn is_well_formed(schema: &Node, draft: Draft) -> bool {
    Reader { draft }.schema(schema, 0)
}

#[derive(Clone, Copy)]
struct Reader {
    draft: Draft,
}

impl Reader {
    fn schema(self, schema: &Node, depth: usize) -> bool {
        match schema {
            // Draft 4 allows boolean schemas only for `additionalProperties`.
            Node::Bool(_) => self.draft > Draft::V4,
            Node::Object(keywords) if depth < MAX_DEPTH => {
                keywords.iter().all(|(keyword, value)| self.keyword(keyword, value, depth + 1))
            }
            _ => false,
        }
    }

    fn keyword(self, keyword: &str, value: &Node, depth: usize) -> bool {
        let since = |draft: Draft| self.draft >= draft;
        match keyword {
            "type" => match value {
                Node::String(name) => is_type(name),
                Node::Array(names) => !names.is_empty() && are_strings(names, is_type),
                _ => false,
            },
            "properties" | "definitions" => self.members(value, depth),
            "description" | "title" | "format" => value.as_str().is_some(),
            "default" => true,
            "items" => self.schema(value, depth) || (!since(Draft::V2020) && self.items(value, depth)),
            "additionalProperties" | "additionalItems" => {
                matches!(value, Node::Bool(_)) || self.schema(value, depth)
            }
            "not" => self.schema(value, depth),
            "allOf" | "anyOf" | "oneOf" => self.items(value, depth),
            "$ref" => value.as_str().is_some_and(is_plain_text),
            "enum" => value.as_array().is_some_and(|values| !values.is_empty() && are_distinct(values)),
            "required" => value.as_array().is_some_and(|names| self.are_names(names)),
            "pattern" => value.as_str().is_some_and(is_plain_text),
            "patternProperties" => {
                value.as_object().is_some_and(|members| members.keys().all(|key| is_plain_text(key)))
                    && self.members(value, depth)
            }
            "dependencies" => value.as_object().is_some_and(|members| {
                let is_list = |value: &Node| value.as_array().is_some_and(|names| self.are_names(names));
                members.values().all(|value| is_list(value) || self.schema(value, depth))
            }),
            "minimum" | "maximum" => matches!(value, Node::Number(_)),
            "exclusiveMinimum" | "exclusiveMaximum" => since(Draft::V6) && matches!(value, Node::Number(_)),
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
                matches!(value, Node::Number(Number::Int(0..)))
            }
            "uniqueItems" => matches!(value, Node::Bool(_)),
            "const" => true,
            "examples" => value.as_array().is_some(),
            "contains" | "propertyNames" => since(Draft::V6) && self.schema(value, depth),
            "if" | "then" | "else" => since(Draft::V7) && self.schema(value, depth),
            "$comment" => value.as_str().is_some(),
            "$defs" => self.members(value, depth),
            // Other keywords are custom ones, which metaschemas ignore. A nested `$schema` only matters in resources,
            // which have an `$id`.
            "$schema" => {
                value.as_str().is_some_and(|url| url.starts_with("http") && Draft::from_url(url).is_some())
            }
            _ => !keyword.starts_with('$') && !is_known(keyword),
        }
    }

    /// Whether these are distinct strings; draft 4 requires at least one.
    fn are_names(self, names: &[Node]) -> bool {
        are_strings(names, |_| true) && (self.draft >= Draft::V6 || !names.is_empty())
    }

    fn members(self, value: &Node, depth: usize) -> bool {
        value.as_object().is_some_and(|members| members.values().all(|member| self.schema(member, depth)))
    }

    fn items(self, value: &Node, depth: usize) -> bool {
        value
            .as_array()
            .is_some_and(|items| !items.is_empty() && items.iter().all(|item| self.schema(item, depth)))
    }
}

/// Whether a draft defines the keyword; those listed above are not included.
fn is_known(keyword: &str) -> bool {
    matches!(
        keyword,
        "contentEncoding"
            | "contentMediaType"
            | "contentSchema"
            | "dependentRequired"
            | "dependentSchemas"
            | "deprecated"
            | "id"
            | "maxContains"
            | "minContains"
            | "multipleOf"
            | "prefixItems"
            | "readOnly"
            | "unevaluatedItems"
            | "unevaluatedProperties"
            | "writeOnly"
    )
}

fn is_type(name: &str) -> bool {
    matches!(name, "null" | "boolean" | "number" | "integer" | "string" | "array" | "object")
}

/// Whether a string is plain both as an address and as a pattern.
///
/// That is, an address without escapes, or a pattern with no special characters except anchors and dots.
fn is_plain_text(text: &str) -> bool {
    let is_plain =
        |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'^' | b'$' | b'-' | b'_' | b'/' | b'.' | b'#');
    text.bytes().all(is_plain)
}

fn are_strings(items: &[Node], allowed: fn(&str) -> bool) -> bool {
    items.iter().all(|item| item.as_str().is_some_and(allowed)) && are_distinct(items)
}

/// Whether all values differ; false if there are too many, or any that are not simple.
fn are_distinct(values: &[Node]) -> bool {
    let is_simple = |value: &Node| !value.is_container();
    let differs = |(index, value): (usize, &Node)| !values.iter().skip(index + 1).any(|it| value.equals(it));
    values.len() <= 100 && values.iter().all(is_simple) && values.iter().enumerate().all(differs)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::values::Values;
    use crate::values::schema::Schema;

    #[test]
    fn everyday_schemas_are_well_formed() {
        let schema = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "required": ["image"],
            "properties": {
                "image": {"$ref": "#/definitions/image"},
                "replicas": {"type": ["integer", "null"], "minimum": 0},
                "pullPolicy": {"enum": ["Always", "Never"]},
                "slider": {"type": "integer", "form": true, "hidden": {"value": false, "path": "image"}},
                "extra": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "object"}]}}
            },
            "additionalProperties": false,
            "definitions": {"image": {"type": "object", "properties": {"tag": {"type": "string"}}}}
        });
        assert!(is_well_formed(&schema.into(), Draft::V7));
        let nested =
            |depth: usize| Node::from((0..depth).fold(json!({}), |inner, _| json!({ "not": inner })));
        assert!(is_well_formed(&nested(63), Draft::V7) && !is_well_formed(&nested(64), Draft::V7));
    }

    /// Whatever the scan accepts is valid against the metaschema.
    ///
    /// The full check is forced by nesting the schema below a keyword that the scan never accepts.
    #[test]
    fn the_scan_passes_nothing_that_the_metaschema_refuses() {
        let keywords = [
            "$comment",
            "$defs",
            "$id",
            "$ref",
            "$schema",
            "additionalItems",
            "additionalProperties",
            "allOf",
            "anyOf",
            "const",
            "contains",
            "default",
            "definitions",
            "dependencies",
            "description",
            "else",
            "enum",
            "examples",
            "exclusiveMaximum",
            "exclusiveMinimum",
            "format",
            "id",
            "if",
            "items",
            "maxItems",
            "maxLength",
            "maxProperties",
            "maximum",
            "minItems",
            "minLength",
            "minProperties",
            "minimum",
            "multipleOf",
            "not",
            "oneOf",
            "pattern",
            "patternProperties",
            "properties",
            "propertyNames",
            "readOnly",
            "required",
            "then",
            "title",
            "type",
            "unheard-of",
            "uniqueItems",
        ];
        let values = [
            json!(null),
            json!(true),
            json!(0),
            json!(-1),
            json!(1.5),
            json!("string"),
            json!("a(b"),
            json!("#/a"),
            json!("http://json-schema.org/draft-07/schema"),
            json!("json-schema.org/draft-07/schema"),
            json!([]),
            json!(["a"]),
            json!(["a", "a"]),
            json!([1, 1.0]),
            json!(["string", "null"]),
            json!([{}]),
            json!([true]),
            json!([{"type": 1}]),
            json!({}),
            json!({"a": {}}),
            json!({"a": true}),
            json!({"a(": {}}),
            json!({"a": {"type": 1}}),
            json!({"type": "nope"}),
        ];
        let check = |schema: &Json| {
            Schema::compile(schema.to_string().as_bytes(), None).check(&Values::new().0, &mut Vec::new())
        };
        let mut well_formed = 0;
        for draft in Draft::ALL {
            for (keyword, value) in
                keywords.iter().flat_map(|keyword| values.iter().map(move |value| (keyword, value)))
            {
                let schema = json!({ *keyword: value });
                if is_well_formed(&Node::from(schema.clone()), draft) {
                    well_formed += 1;
                    let told = check(&json!({ "$schema": draft.url(), "multipleOf": 1, "not": schema }));
                    let told = told.err().unwrap_or_default();
                    assert!(!told.contains("metaschema"), "{draft:?} {schema}: {told}");
                }
            }
        }
        assert!(well_formed > 500, "{well_formed}");
    }
}
