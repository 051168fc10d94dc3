//! Tests of schema validation: one per concept, with Helm's output.

use serde_json::{Value as Json, json};

use super::{FetchSchema, Schema};
use crate::values::Values;

/// Returns Helm's error for the values; empty if they are valid.
fn check(schema: &Json, values: Json) -> String {
    check_text(&schema.to_string(), values)
}

fn check_text(schema: &str, values: Json) -> String {
    let schema = Schema::compile(schema.as_bytes(), None);
    schema.check(&Values::from_json(values).0, &mut Vec::new()).err().unwrap_or_default()
}

#[test]
fn reasons_are_nested_and_references_passed_over() {
    let schema = json!({
        "properties": {
            "a": {"$ref": "#/$defs/short"},
            "b": {"anyOf": [{"type": "null"}, {"allOf": [{"minLength": 2}, {"pattern": "^x"}]}]}
        },
        "additionalProperties": false,
        "$defs": {"short": {"maxLength": 1}}
    });
    let told = "- at '': validation failed
  - at '': additional properties 'c' not allowed
  - at '/a': maxLength: got 2, want 1
  - at '/b': 'anyOf' failed
    - at '/b': got string, want null
    - at '/b': 'allOf' failed
      - at '/b': minLength: got 1, want 2
      - at '/b': 'y' does not match pattern '^x'
";
    let lines = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(|line| line.trim_start().to_owned()).collect();
        lines.sort();
        lines
    };
    let got = check(&schema, json!({"a": "ab", "b": "y", "c": 1}));
    // At the top level the group is not printed.
    assert_eq!(
        lines(&got),
        lines(told)[..].iter().filter(|l| *l != "- at '': validation failed").cloned().collect::<Vec<_>>()
    );
    assert_eq!(check(&schema, json!({"a": "a", "b": null})), "");
}

#[test]
fn a_ref_hides_its_siblings_before_2019() {
    let schema = |draft: &str| {
        json!({
            "$schema": draft,
            "properties": {"a": {"$ref": "#/definitions/n", "maximum": 1}},
            "definitions": {"n": {"type": "number"}}
        })
    };
    assert_eq!(check(&schema("http://json-schema.org/draft-07/schema#"), json!({"a": 2})), "");
    assert_eq!(
        check(&schema("https://json-schema.org/draft/2019-09/schema"), json!({"a": 2})),
        "- at '/a': maximum: got 2, want 1\n"
    );
}

#[test]
fn the_outermost_dynamic_anchor_counts() {
    let schema = json!({
        "$id": "http://h.example/strict",
        "$dynamicAnchor": "node",
        "$ref": "tree",
        "unevaluatedProperties": false,
        "$defs": {"tree": {
            "$id": "tree",
            "$dynamicAnchor": "node",
            "properties": {"child": {"$dynamicRef": "#node"}}
        }}
    });
    let told = check(&schema, json!({"child": {"child": {"x": 1}}}));
    assert!(told.contains("- at '/child/child/x': false schema\n"), "{told}");
    assert_eq!(check(&schema, json!({"child": {"child": {}}})), "");
}

#[test]
fn recursive_references_go_to_the_outermost_resource() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "$id": "http://h.example/",
        "$recursiveAnchor": true,
        "required": ["data"],
        "allOf": [{"$ref": "tree"}],
        "$defs": {"tree": {
            "$id": "tree",
            "$recursiveAnchor": true,
            "properties": {"child": {"$recursiveRef": "#"}}
        }}
    });
    let told = check(&schema, json!({"data": 1, "child": {}}));
    assert!(told.contains("- at '/child': missing property 'data'"), "{told}");
}

#[test]
fn what_an_applicator_evaluates_is_not_left() {
    let schema = json!({
        "properties": {
            "object": {
                "anyOf": [{"properties": {"a": true}}, {"properties": {"b": {"type": "null"}}}],
                "if": {"properties": {"c": true}},
                "unevaluatedProperties": false
            },
            "list": {"prefixItems": [true], "contains": {"type": "string"}, "unevaluatedItems": false}
        }
    });
    assert_eq!(check(&schema, json!({"object": {"a": 1, "b": null, "c": 1}, "list": [1, "x"]})), "");
    let everything = json!({"allOf": [{"additionalProperties": true}], "unevaluatedProperties": false});
    assert_eq!(check(&everything, json!({"a": 1})), "");
    assert_eq!(check(&schema, json!({"object": {"b": 1}})), "- at '/object/b': false schema\n");
    assert_eq!(check(&schema, json!({"list": [1, "x", 2]})), "- at '/list/2': false schema\n");
}

#[test]
fn a_cycle_of_references_is_a_failure() {
    let schema = json!({"properties": {"a": {"allOf": [{"$ref": "#/properties/a"}]}}});
    let told = check(&schema, json!({"a": 1}));
    let line = "both /properties/a/allOf/0/$ref and /properties/a resolve to \"file:///values.schema.json#/properties/a\" \
        causing reference cycle";
    assert!(told.contains(line), "{told}");
}

#[test]
fn resources_have_addresses_and_anchors_of_their_own() {
    let schema = json!({
        "properties": {"a": {"$ref": "sub/x.json#here"}, "b": {"$ref": "file:///sub/x.json#/$defs/y"}},
        "$defs": {"x": {
            "$id": "sub/x.json",
            "$anchor": "here",
            "type": "string",
            "$defs": {"y": {"type": "null"}}
        }}
    });
    assert_eq!(check(&schema, json!({"a": 1})), "- at '/a': got number, want string\n");
    assert_eq!(check(&schema, json!({"b": 1})), "- at '/b': got number, want null\n");
}

#[test]
fn a_resource_is_checked_against_its_own_metaschema() {
    let schema = |minimum: Json| {
        json!({"$defs": {"x": {
            "id": "http://h.example/x",
            "$schema": "http://json-schema.org/draft-04/schema#",
            "minimum": 1,
            "exclusiveMinimum": minimum
        }}})
    };
    assert_eq!(check(&schema(json!(true)), json!({})), "");
    assert_eq!(
        check(&schema(json!(1)), json!({})),
        "\"file:///values.schema.json#\" is not valid against metaschema: jsonschema validation failed with \
         'https://json-schema.org/draft/2020-12/schema#'\n- at '': 'allOf' failed\n  - at '/$defs/x/exclusiveMinimum': got number, want boolean"
    );
}

#[test]
fn what_cannot_be_compiled_is_told_in_helms_words() {
    let address = "file:///values.schema.json";
    let cases = [
        (json!({"$ref": "#/nope"}), format!("json-pointer in \"{address}#/nope\" not found")),
        (json!({"$ref": "#nope"}), format!("anchor in \"{address}#nope\" not found in schema \"{address}\"")),
        (json!({"$ref": "#/~2"}), format!("invalid json-pointer \"{address}#/~2\"")),
        (
            json!({"$ref": "ftp://h/x"}),
            "failing loading \"ftp://h/x\": no URLLoader registered for \"ftp://h/x\"".to_owned(),
        ),
        (
            json!({"$defs": {"x": {"$anchor": "y"}, "z": {"$anchor": "y"}}}),
            format!("duplicate anchor \"y\" in \"{address}\" at \"/$defs/x\" and \"/$defs/z\""),
        ),
        (
            json!({"$defs": {"x": {"$id": "y"}, "z": {"$id": "y"}}}),
            format!("duplicate id \"file:///y\" in \"{address}\" at \"/$defs/z\" and \"/$defs/x\""),
        ),
        (json!({"$schema": address}), format!("draft \"{address}\" is not supported")),
        (
            json!({"properties": {"a": {"$ref": "#/x"}}, "x": {"type": "nope"}}),
            format!(
                "\"{address}#/x\" is not valid against metaschema: jsonschema validation failed with \
                 'https://json-schema.org/draft/2020-12/schema#'\n- at '': 'allOf' failed\n  - at '/type': 'anyOf' \
                 failed\n    - at '/type': value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', \
                 'string'\n    - at '/type': got string, want array"
            ),
        ),
    ];
    for (schema, told) in cases {
        assert_eq!(check(&schema, json!({})), told, "{schema}");
    }
    assert_eq!(check_text("{\"a\": tru", json!({})), "unexpected EOF");
    assert_eq!(check_text(" ", json!({})), "EOF");
    assert_eq!(check_text("{} x", json!({})), "invalid character after top-level value");
}

#[test]
fn numbers_are_exact_and_shown_as_written() {
    let schema =
        r#"{"properties": {"a": {"enum": [1e3, 1.10]}, "b": {"multipleOf": 0.01}, "c": {"maximum": 1e400}}}"#;
    assert_eq!(check_text(schema, json!({"a": 1000, "b": 4.35, "c": 1e300})), "");
    assert_eq!(check_text(schema, json!({"a": 1})), "- at '/a': value must be one of 1e3, 1.10\n");
}

#[test]
fn other_documents_are_fetched_once() {
    let fetch = FetchSchema::new(|url| match url {
        "http://h.example/a" => Ok(json!({"$ref": "b#/$defs/x"})),
        "http://h.example/b" => Ok(json!({"$defs": {"x": {"type": "string"}}})),
        _ => Err("not found".to_owned()),
    });
    let told = |schema: Json| {
        let mut warnings = Vec::new();
        let schema = Schema::compile(schema.to_string().as_bytes(), Some(&fetch));
        let outcome = schema.check(&Values::from_json(json!({"a": 1})).0, &mut warnings);
        (outcome.err().unwrap_or_default(), warnings)
    };
    let (reasons, _) = told(json!({"properties": {"a": {"$ref": "http://h.example/a"}}}));
    assert_eq!(reasons, "- at '/a': got number, want string\n");
    let (reasons, _) = told(json!({"properties": {"a": {"$ref": "http://h.example/c"}}}));
    assert_eq!(reasons, "failing loading \"http://h.example/c\": not found");
    let (reasons, warnings) =
        told(json!({"properties": {"a": {"$ref": "urn:x:y"}, "b": {"$ref": "urn:x:y"}}}));
    assert_eq!(reasons, "");
    assert_eq!(warnings, ["WARNING: unresolved URN reference ignored; using permissive schema: urn:x:y"]);
}

#[test]
fn hostile_schemas_end() {
    // Each of sixty levels applies the next one twice.
    let levels = (0..60).map(|level| {
        let next = json!({"$ref": format!("#/$defs/{}", level + 1)});
        (level.to_string(), json!({"allOf": [next, next]}))
    });
    let mut definitions: serde_json::Map<String, Json> = levels.collect();
    definitions.insert("60".into(), json!({}));
    let told = check(&json!({"$ref": "#/$defs/0", "$defs": definitions}), json!({}));
    assert_eq!(told, "unable to validate schema: validation exceeds the step limit");

    // A chain of references longer than the stack would hold without growing.
    let chain = |length: usize| {
        let links = (0..length).map(|at| (at.to_string(), json!({"$ref": format!("#/$defs/{}", at + 1)})));
        let mut links: serde_json::Map<String, Json> = links.collect();
        links.insert(length.to_string(), json!({"required": ["a"]}));
        json!({"$ref": "#/$defs/0", "$defs": links})
    };
    assert_eq!(check(&chain(5_000), json!({})), "- at '': missing property 'a'\n");
    assert_eq!(
        check(&chain(50_000), json!({})),
        "unable to validate schema: validation exceeds the step limit"
    );

    let deep = format!("{}true{}", "{\"not\":".repeat(490), "}".repeat(490));
    assert_eq!(check_text(&deep, json!({})), "");
    let deeper = format!("{}true{}", "{\"not\":".repeat(600), "}".repeat(600));
    assert_eq!(check_text(&deeper, json!({})), "exceeded max depth");
}
