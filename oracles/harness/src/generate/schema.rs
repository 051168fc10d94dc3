//! JSON schemas for values, and values that meet them or not.

use serde_json::{Map, Value as Json, json};

use super::{Gen, value};

/// A chart with a schema, and values for it.
pub fn request(g: &mut Gen) -> Json {
    let schema = schema(g);
    let values = Json::Object(map(g, 2));
    let schema = if g.chance(3) {
        g.pick(&[
            "",
            "{",
            "[]",
            "true",
            "false",
            "{\"type\": \"nope\"}",
            "{\"type\": 1}",
            "null",
            "{\"$ref\": \"#/nope\"}",
            "{\"properties\": []}",
            "{\"minimum\": \"1\"}",
        ])
        .to_owned()
    } else {
        schema.to_string()
    };
    question(&schema, &values.to_string())
}

/// A request to render a chart with this schema, given these values.
pub fn question(schema: &str, values: &str) -> Json {
    json!({
        "op": "helm-template",
        "files": { "Chart.yaml": "apiVersion: v2\nname: top\nversion: 1.0.0\n", "values.schema.json": schema, "templates/a.yaml": "values: {{ toJson .Values }}\n" },
        "value_files": [values],
    })
}

/// A schema for an object, of one of the drafts.
pub fn schema(g: &mut Gen) -> Json {
    let mut schema = object(g, 2);
    match g.below(5) {
        0 => schema["$schema"] = json!("http://json-schema.org/draft-07/schema#"),
        1 => schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema"),
        2 => schema["$schema"] = json!("http://json-schema.org/draft-04/schema#"),
        3 => schema["$schema"] = json!("https://json-schema.org/draft/2019-09/schema"),
        _ => {}
    }
    schema
}

const KEYS: &[&str] = &["a", "b", "c", "name", "list", "a/b", "a~b", "é", "x y"];

fn map(g: &mut Gen, depth: usize) -> Map<String, Json> {
    let count = g.below(6);
    (0..count).map(|_| (g.mostly(&KEYS[..5], 5, &KEYS[5..]).to_owned(), any(g, depth))).collect()
}

fn any(g: &mut Gen, depth: usize) -> Json {
    match g.below(8) {
        0 | 1 if depth > 0 => Json::Object(map(g, depth - 1)),
        2 | 3 if depth > 0 => (0..g.below(4)).map(|_| any(g, depth - 1)).collect(),
        4 => json!(g.pick(&["a", "abc", "", "a@b.c", "http://x", "2020-01-01", "1.2.3.4", "ABC", "é"])),
        5 => json!(formatted(g)),
        _ => value::scalar(g),
    }
}

const FORMATS: &[&str] = &[
    "date",
    "date-time",
    "duration",
    "email",
    "hostname",
    "idn-email",
    "ipv4",
    "ipv6",
    "iri",
    "iri-reference",
    "json-pointer",
    "period",
    "regex",
    "relative-json-pointer",
    "semver",
    "time",
    "unheard-of",
    "uri",
    "uri-reference",
    "uri-template",
    "uuid",
];

/// Texts of all formats.
const FORMATTED: &[&str] = &[
    "2024-02-29",
    "2024-02-29T23:59:60Z",
    "2024-02-29t10:00:00.5+01:30",
    "P1Y2M3DT4H5M6S",
    "P3W",
    "a.b@c.d",
    "\"a b\"@[IPv6:::1]",
    "x@[1.2.3.4]",
    "a-b.example.com.",
    "192.168.0.1",
    "::1",
    "1:2:3:4:5:6:7:8",
    "::ffff:1.2.3.4",
    "fe80::1%eth0",
    "http://[::1]:80/a?b#c",
    "/a/b~0c~1",
    "1/a",
    "0#",
    "P1D/2024-02-29T10:00:00Z",
    "2024-02-29T10:00:00Z/P1D",
    "^a(b|c)+$",
    "1.2.3-rc.1+b.2",
    "23:59:60Z",
    "00:29:60+00:30",
    "/a/{b}/c",
    "http://x/{y}{z}",
    "123e4567-e89b-12d3-a456-426614174000",
];

/// A text of some format, at times with a character changed, lost or added.
fn formatted(g: &mut Gen) -> String {
    let mut text: Vec<char> = g.pick(FORMATTED).chars().collect();
    let at = g.below(text.len());
    let other =
        g.pick(&["0", "9", ":", ".", "-", "/", "T", "Z", "P", "{", "}", "~", "%", "@", "é", " ", "(", "["]);
    match g.below(6) {
        0 => {
            text.remove(at);
        }
        1 => text.splice(at..at, other.chars()).for_each(drop),
        2 => text.splice(at..=at, other.chars()).for_each(drop),
        _ => {}
    }
    text.into_iter().collect()
}

fn object(g: &mut Gen, depth: usize) -> Json {
    let mut schema = json!({ "type": "object" });
    let properties: Map<String, Json> = (0..1 + g.below(4))
        .map(|_| (g.mostly(&KEYS[..5], 8, &KEYS[5..]).to_owned(), rule(g, depth)))
        .collect();
    schema["properties"] = Json::Object(properties);
    if g.chance(40) {
        let (first, second) = (g.pick(&KEYS[..4]), g.pick(&KEYS[4..]));
        schema["required"] = if g.chance(50) { json!([first]) } else { json!([first, second]) };
    }
    if g.chance(20) {
        schema["additionalProperties"] =
            if g.chance(60) { json!(false) } else { json!({ "type": "string" }) };
    }
    if g.chance(8) {
        schema["minProperties"] = json!(g.below(3));
    }
    if g.chance(8) {
        schema["maxProperties"] = json!(g.below(3));
    }
    if g.chance(6) {
        schema["patternProperties"] = json!({ "^[a-c]$": rule(g, 0) });
    }
    if g.chance(6) {
        schema["propertyNames"] = json!({ "pattern": "^[a-z]+$" });
    }
    if g.chance(5) {
        schema["dependencies"] = json!({ "a": ["b"] });
    }
    schema
}

fn rule(g: &mut Gen, depth: usize) -> Json {
    match g.below(if depth > 0 { 22 } else { 15 }) {
        0 => json!({ "type": "string" }),
        1 => json!({ "type": "integer" }),
        2 => json!({ "type": "number", "minimum": g.between(-2, 5), "maximum": 10 }),
        3 => json!({ "type": ["boolean", "null"] }),
        4 => json!({ "enum": ["a", 1, null, true] }),
        5 => json!({ "const": *g.one(&[&json!(1), &json!("a"), &json!({ "b": [1] })]) }),
        6 => json!({ "type": "string", "minLength": 2, "maxLength": 3 }),
        7 => json!({ "pattern": g.pick(&["^[a-z]+$", "b", "^\\d+$", "^(a|b)"]) }),
        8 => json!({ "exclusiveMinimum": 1, "exclusiveMaximum": 9 }),
        9 => json!({ "multipleOf": g.one(&[2.0, 0.5, 3.0]) }),
        10 => json!({ "type": g.pick(&["null", "array", "object", "boolean"]) }),
        11 => json!({ "format": g.pick(FORMATS) }),
        12 => json!(g.chance(50)),
        13 => json!({ "not": { "type": "string" } }),
        14 => json!({ "type": ["string", "number"], "title": "t", "default": "x" }),
        15 => {
            json!({ "type": "array", "items": rule(g, depth - 1), "minItems": g.below(3), "maxItems": 2, "uniqueItems": g.chance(50) })
        }
        16 => json!({ "anyOf": [rule(g, depth - 1), rule(g, depth - 1)] }),
        17 => json!({ "oneOf": [rule(g, depth - 1), rule(g, depth - 1)] }),
        18 => json!({ "allOf": [rule(g, depth - 1), rule(g, depth - 1)] }),
        19 => json!({ "if": rule(g, depth - 1), "then": rule(g, depth - 1), "else": rule(g, depth - 1) }),
        20 => json!({ "type": "array", "contains": rule(g, depth - 1) }),
        _ => object(g, depth - 1),
    }
}
