//! Schemas that [`super::explain`] decides alone.
//!
//! Compiling a schema costs more than rendering a small chart does, most of it for checking it against its metaschema. What
//! people write is a few keywords with nothing unusual in them, which can be seen at a glance to be a schema.

use serde_json::Value as Json;

/// How deep such a schema may be.
const MAX_DEPTH: usize = 64;

/// Keywords that some draft knows, and that are left to the library.
const STANDARD: &[&str] = &[
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveAnchor",
    "$recursiveRef",
    "$vocabulary",
    "additionalItems",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "dependentRequired",
    "dependentSchemas",
    "deprecated",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "id",
    "maxContains",
    "minContains",
    "multipleOf",
    "prefixItems",
    "propertyNames",
    "readOnly",
    "unevaluatedItems",
    "unevaluatedProperties",
    "writeOnly",
];

/// Whether a schema has nothing but keywords whose meaning is the same in every draft, shaped as they have to be, and
/// references to places in itself that do not lead back to where they are.
pub(super) fn is_plain(schema: &Json, draft: u16) -> bool {
    let known = schema.get("$schema").is_none_or(|url| url.as_str().is_some_and(is_draft));
    known && Reader { root: schema, draft, following: Vec::new() }.schema(schema, 0)
}

struct Reader<'a> {
    root: &'a Json,
    draft: u16,
    /// The references that led here.
    following: Vec<&'a str>,
}

impl<'a> Reader<'a> {
    fn schema(&mut self, schema: &'a Json, depth: usize) -> bool {
        match schema {
            // The oldest draft knows no such schemas but behind `additionalProperties`.
            Json::Bool(_) => self.draft > 4,
            Json::Object(keywords) if depth < MAX_DEPTH => {
                keywords.iter().all(|(keyword, value)| self.keyword(keyword, value, depth))
            }
            _ => false,
        }
    }

    fn keyword(&mut self, keyword: &str, value: &'a Json, depth: usize) -> bool {
        match keyword {
            "$schema" => depth == 0,
            "title" | "description" => value.is_string(),
            "$comment" => value.is_string() && self.draft >= 7,
            "default" => true,
            "examples" => value.is_array() && self.draft > 4,
            "type" => match value {
                Json::String(name) => is_type(name),
                Json::Array(names) => {
                    !names.is_empty()
                        && names.iter().all(|name| name.as_str().is_some_and(is_type))
                        && distinct(names)
                }
                _ => false,
            },
            "enum" => value.as_array().is_some_and(|items| !items.is_empty() && distinct(items)),
            "const" => self.draft > 4,
            "format" => value.is_string(),
            "pattern" => value.as_str().is_some_and(is_simple_pattern),
            "minimum" | "maximum" => value.is_number(),
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
                value.is_u64()
            }
            "uniqueItems" => value.is_boolean(),
            "required" => is_names(value) && (self.draft > 4 || value.get(0).is_some()),
            "properties" | "definitions" | "$defs" => self.schemas(value, depth),
            "patternProperties" => {
                value.as_object().is_some_and(|entries| entries.keys().all(|key| is_simple_pattern(key)))
                    && self.schemas(value, depth)
            }
            "additionalProperties" => value.is_boolean() || self.schema(value, depth + 1),
            "items" | "not" => self.schema(value, depth + 1),
            "if" | "then" | "else" => self.draft >= 7 && self.schema(value, depth + 1),
            "allOf" | "anyOf" | "oneOf" => value.as_array().is_some_and(|schemas| {
                !schemas.is_empty() && schemas.iter().all(|schema| self.schema(schema, depth + 1))
            }),
            "$ref" => self.reference(value, depth),
            "dependencies" => {
                self.draft < 2019
                    && value.as_object().is_some_and(|entries| {
                        entries.values().all(|entry| is_names(entry) || self.schema(entry, depth + 1))
                    })
            }
            _ => !STANDARD.contains(&keyword) && is_note(value, depth),
        }
    }

    fn schemas(&mut self, value: &'a Json, depth: usize) -> bool {
        value.as_object().is_some_and(|schemas| schemas.values().all(|schema| self.schema(schema, depth + 1)))
    }

    fn reference(&mut self, value: &'a Json, depth: usize) -> bool {
        let Some(reference) = value.as_str() else { return false };
        let Some(pointer) = reference.strip_prefix('#').filter(|pointer| is_definition(pointer)) else {
            return false;
        };
        let Some(target) = self.root.pointer(pointer).filter(|_| !self.following.contains(&reference)) else {
            return false;
        };
        self.following.push(reference);
        let plain = self.schema(target, depth + 1);
        self.following.pop();
        plain
    }
}

/// Whether a pointer names an entry of the root's definitions, in characters that stand for themselves.
fn is_definition(pointer: &str) -> bool {
    let name = pointer.strip_prefix("/definitions/").or_else(|| pointer.strip_prefix("/$defs/"));
    name.is_some_and(|name| {
        name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
    })
}

/// Whether the value of a keyword that no draft knows is a mere note, which nothing can refer to by name.
fn is_note(value: &Json, depth: usize) -> bool {
    match value {
        Json::Object(entries) if depth < MAX_DEPTH => entries
            .iter()
            .all(|(key, value)| !key.starts_with('$') && key != "id" && is_note(value, depth + 1)),
        Json::Array(items) if depth < MAX_DEPTH => items.iter().all(|item| is_note(item, depth + 1)),
        Json::Object(_) | Json::Array(_) => false,
        _ => true,
    }
}

/// Whether this is a list of names, each there once.
fn is_names(value: &Json) -> bool {
    value.as_array().is_some_and(|names| names.iter().all(Json::is_string) && distinct(names))
}

/// Whether this is the address of a draft.
fn is_draft(url: &str) -> bool {
    let url = url.strip_suffix('#').unwrap_or(url);
    let place = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let Some(draft) = place.and_then(|place| place.strip_prefix("json-schema.org/")) else { return false };
    matches!(
        draft,
        "schema"
            | "draft-04/schema"
            | "draft-06/schema"
            | "draft-07/schema"
            | "draft/2019-09/schema"
            | "draft/2020-12/schema"
    )
}

fn is_type(name: &str) -> bool {
    matches!(name, "null" | "boolean" | "number" | "integer" | "string" | "array" | "object")
}

/// Whether a pattern means the same to every regular expression library.
fn is_simple_pattern(pattern: &str) -> bool {
    let simple = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'^' | b'$' | b'-' | b'_' | b'/' | b':');
    pattern.bytes().all(simple)
}

/// Whether no two items are equal, for few items that are plain enough to tell.
fn distinct(items: &[Json]) -> bool {
    let simple = |item: &Json| item.is_string() || item.is_boolean() || item.is_null() || item.is_i64();
    items.len() <= 100
        && items.iter().all(simple)
        && items
            .iter()
            .enumerate()
            .all(|(index, item)| !items.iter().skip(index + 1).any(|other| item == other))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::is_plain;

    #[test]
    fn everyday_schemas_are_plain() {
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
        assert!(is_plain(&schema, 7));
    }

    #[test]
    fn what_may_mean_something_else_is_not() {
        let schemas = [
            json!({"$id": "https://example.com/a"}),
            json!({"$schema": "https://example.com/own"}),
            json!({"type": "text"}),
            json!({"type": ["string", "string"]}),
            json!({"minLength": -1}),
            json!({"properties": []}),
            json!({"enum": []}),
            json!({"required": ["a", "a"]}),
            json!({"pattern": "\\d"}),
            json!({"items": [{"type": "string"}]}),
            json!({"$ref": "other.json"}),
            json!({"$ref": "#/definitions/none"}),
            json!({"$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#/definitions/a"}}}),
            json!({"unheard": {"of": {"$id": "a"}}}),
        ];
        for schema in schemas {
            assert!(!is_plain(&schema, 7), "{schema}");
        }
    }

    #[test]
    fn keywords_are_plain_in_their_shapes_and_drafts() {
        // A keyword, a value, and the first draft that it is plain in; 0 if it is in none.
        let keywords = [
            ("title", json!("a"), 4),
            ("title", json!(1), 0),
            ("description", json!("a"), 4),
            ("description", json!([]), 0),
            ("$comment", json!("a"), 7),
            ("$comment", json!(1), 0),
            ("default", json!({"a": [1]}), 4),
            ("examples", json!([1]), 6),
            ("examples", json!(1), 0),
            ("type", json!("null"), 4),
            ("type", json!("boolean"), 4),
            ("type", json!("nope"), 0),
            ("type", json!(1), 0),
            ("type", json!([]), 0),
            ("type", json!(["number", "array"]), 4),
            ("type", json!(["number", "nope"]), 0),
            ("type", json!(["number", 1]), 0),
            ("enum", json!([1, "a", null, true]), 4),
            ("enum", json!([1, 1]), 0),
            ("enum", json!([1.5]), 0),
            ("enum", json!([{"a": 1}]), 0),
            ("enum", json!({}), 0),
            ("const", json!([1]), 6),
            ("format", json!("date"), 4),
            ("format", json!(1), 0),
            ("pattern", json!("^a-b_c/d:9$"), 4),
            ("pattern", json!("a+"), 0),
            ("pattern", json!("\u{e9}"), 0),
            ("pattern", json!(1), 0),
            ("minimum", json!(1.5), 4),
            ("minimum", json!("1"), 0),
            ("maximum", json!(1), 4),
            ("maximum", json!(null), 0),
            ("minLength", json!(0), 4),
            ("maxLength", json!(1.5), 0),
            ("maxLength", json!(2), 4),
            ("minItems", json!("1"), 0),
            ("minItems", json!(1), 4),
            ("maxItems", json!(1), 4),
            ("minProperties", json!(1), 4),
            ("maxProperties", json!(-1), 0),
            ("maxProperties", json!(1), 4),
            ("uniqueItems", json!(true), 4),
            ("uniqueItems", json!(1), 0),
            ("required", json!(["a", "b"]), 4),
            ("required", json!([]), 6),
            ("required", json!([1]), 0),
            ("required", json!("a"), 0),
            ("properties", json!({"a": {"type": "string"}}), 4),
            ("properties", json!({"a": true}), 6),
            ("properties", json!({"a": {"type": "nope"}}), 0),
            ("definitions", json!({"a": {}}), 4),
            ("definitions", json!({"a": 1}), 0),
            ("$defs", json!({"a": {}}), 4),
            ("$defs", json!([]), 0),
            ("patternProperties", json!({"^a": {}}), 4),
            ("patternProperties", json!({"a.": {}}), 0),
            ("patternProperties", json!({"^a": 1}), 0),
            ("patternProperties", json!([]), 0),
            ("additionalProperties", json!(false), 4),
            ("additionalProperties", json!({"type": "string"}), 4),
            ("additionalProperties", json!(1), 0),
            ("items", json!({}), 4),
            ("items", json!(false), 6),
            ("items", json!([]), 0),
            ("not", json!({"type": "string"}), 4),
            ("not", json!(1), 0),
            ("if", json!({}), 7),
            ("then", json!({}), 7),
            ("else", json!({}), 7),
            ("else", json!(1), 0),
            ("allOf", json!([{}]), 4),
            ("anyOf", json!([{}, {"type": "string"}]), 4),
            ("oneOf", json!([{}, 1]), 0),
            ("oneOf", json!([]), 0),
            ("allOf", json!({}), 0),
            ("multipleOf", json!(2), 0),
            ("exclusiveMinimum", json!(2), 0),
            ("contains", json!({}), 0),
            ("prefixItems", json!([]), 0),
            ("unheard-of", json!({"a": [1, {"b": null}]}), 4),
            ("unheard-of", json!({"a": [{"$b": 1}]}), 0),
            ("unheard-of", json!({"id": 1}), 0),
        ];
        for (keyword, value, first) in keywords {
            for draft in [4, 6, 7, 2019, 2020] {
                let expected = first > 0 && draft >= first;
                let schema = json!({ "properties": { "p": { keyword: value } } });
                assert_eq!(is_plain(&schema, draft), expected, "{keyword} {value} in {draft}");
            }
        }
        for (draft, expected) in [(4, true), (6, true), (7, true), (2019, false), (2020, false)] {
            assert_eq!(is_plain(&json!({"dependencies": {"a": ["b"], "c": {}}}), draft), expected, "{draft}");
        }
        assert!(!is_plain(&json!({"dependencies": {"a": ["b", "b"]}}), 7));
        assert!(
            !is_plain(&json!({"dependencies": {"a": 1}}), 7) && !is_plain(&json!({"dependencies": []}), 7)
        );
        assert!(is_plain(&json!(true), 6) && !is_plain(&json!(true), 4) && !is_plain(&json!(1), 7));
    }

    #[test]
    fn drafts_are_known_by_their_addresses() {
        let with = |url: &str| is_plain(&json!({"$schema": url}), 7);
        for url in [
            "http://json-schema.org/schema",
            "http://json-schema.org/draft-04/schema#",
            "https://json-schema.org/draft-06/schema",
            "http://json-schema.org/draft-07/schema",
            "https://json-schema.org/draft/2019-09/schema",
            "https://json-schema.org/draft/2020-12/schema#",
        ] {
            assert!(with(url), "{url}");
        }
        for url in
            ["", "#", "json-schema.org/schema", "ftp://json-schema.org/schema", "http://a.b/draft-07/schema"]
        {
            assert!(!with(url), "{url}");
        }
        assert!(!with("http://json-schema.org/draft-05/schema"));
        assert!(!is_plain(&json!({"$schema": 1}), 7));
        let inside = json!({"items": {"$schema": "http://json-schema.org/draft-07/schema#"}});
        assert!(!is_plain(&inside, 7));
    }

    #[test]
    fn references_lead_to_definitions_and_not_back() {
        let with = |reference: &str| {
            is_plain(
                &json!({
                    "properties": {"p": {"$ref": reference}, "q": {"$ref": reference}},
                    "definitions": {"a-b.c_9": {"type": "string"}, "bad": {"type": "nope"}, "a b": {}},
                    "$defs": {"a": {"$ref": "#/definitions/a-b.c_9"}},
                    "a": {}
                }),
                7,
            )
        };
        let fine = json!({
            "properties": {"p": {"$ref": "#/$defs/a"}, "q": {"$ref": "#/$defs/a"}},
            "definitions": {"a-b.c_9": {"type": "string"}},
            "$defs": {"a": {"$ref": "#/definitions/a-b.c_9"}}
        });
        assert!(is_plain(&fine, 7));
        for reference in ["#/definitions/bad", "#/definitions/a b", "#/a", "#", "", "/definitions/a-b.c_9"] {
            assert!(!with(reference), "{reference}");
        }
        assert!(!is_plain(&json!({"$ref": 1}), 7));
        let circle =
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}});
        assert!(!is_plain(&circle, 7));
    }

    #[test]
    fn depth_and_length_are_bounded() {
        let nested = |depth: usize| (0..depth).fold(json!({}), |inner, _| json!({ "items": inner }));
        assert!(is_plain(&nested(63), 7) && !is_plain(&nested(64), 7));
        let noted = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!([inner]));
        assert!(is_plain(&json!({ "note": noted(64) }), 7) && !is_plain(&json!({ "note": noted(65) }), 7));
        let listed = |count: usize| json!({ "enum": (0..count).collect::<Vec<_>>() });
        assert!(is_plain(&listed(100), 7) && !is_plain(&listed(101), 7));
    }
}
