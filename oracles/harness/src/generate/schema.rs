//! JSON schemas, and values that may or may not be valid.

use serde_json::{Map, Value as Json, json};

use super::{Gen, value};

/// Generates a chart with a schema, and values for it.
pub fn request(g: &mut Gen) -> Json {
    let schema = if g.chance(35) { referring(g) } else { schema(g) };
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

/// Builds a request to render a chart with a schema and values.
pub fn question(schema: &str, values: &str) -> Json {
    json!({
        "op": "helm-template",
        "files": { "Chart.yaml": "apiVersion: v2\nname: top\nversion: 1.0.0\n", "values.schema.json": schema, "templates/a.yaml": "values: {{ toJson .Values }}\n" },
        "value_files": [values],
    })
}

/// Generates a schema for an object, in one of the drafts.
pub fn schema(g: &mut Gen) -> Json {
    let mut schema = object(g, 2);
    if g.chance(85) {
        schema["$schema"] = json!(dialect(*g.one(&[4, 6, 7, 2019, 2020])));
    }
    schema
}

/// Values of `$id` in definitions.
const IDS: &[&str] = &["file:///item.json", "file:///sub/item.json#", "http://h.example/x/", "urn:x:y"];

/// Generates a schema with definitions that refer to each other by every means of its draft.
fn referring(g: &mut Gen) -> Json {
    let draft = *g.one(&[4, 6, 7, 2019, 2020, 2020, 2020]);
    let (container, id) =
        (if draft < 2019 { "definitions" } else { "$defs" }, if draft == 4 { "id" } else { "$id" });
    let names = ["a", "b", "c"];
    let mut definitions = names.map(|_| if g.chance(50) { object(g, 1) } else { rule(g, 1) });
    // A schema that is not an object has no `$id`, and a reference to it would refer to a file.
    let ids: Vec<Option<&str>> =
        definitions.iter().map(|schema| (schema.is_object() && g.chance(25)).then(|| g.pick(IDS))).collect();
    let mut targets =
        vec!["#".to_owned(), "#anchor0".into(), "#anchor1".into(), "#node".into(), "#node".into()];
    targets.extend(names.map(|name| format!("#/{container}/{name}")));
    targets.extend(ids.iter().flatten().flat_map(|id| {
        let id = id.trim_end_matches('#');
        [id.to_owned(), format!("{id}#node"), format!("{id}#/properties/a")]
    }));
    if g.chance(6) {
        let odd = [
            "#/nope",
            "#/~2",
            "#nope",
            "urn:unknown",
            "ftp://x/y",
            "#%zz",
            "http://json-schema.org/draft-07/schema#",
        ];
        targets.push(g.pick(&odd).to_owned());
    }
    for (index, (schema, own)) in definitions.iter_mut().zip(&ids).enumerate() {
        if let Some(schema) = schema.as_object_mut() {
            if let Some(own) = own {
                schema.insert(id.into(), json!(own));
                if g.chance(20) {
                    let other = g.pick(&[
                        "http://json-schema.org/draft-07/schema#",
                        "http://json-schema.org/draft-04/schema",
                        "https://json-schema.org/draft/2019-09/schema",
                        "https://json-schema.org/draft/2020-12/schema",
                    ]);
                    schema.insert("$schema".into(), json!(other));
                }
            } else if draft < 2019 && g.chance(60) {
                schema.insert(id.into(), json!(format!("#anchor{index}")));
            }
            if g.chance(60) {
                schema.insert("$anchor".into(), json!(format!("anchor{index}")));
            }
            if g.chance(if own.is_some() || index == 2 { 60 } else { 0 }) {
                schema.insert("$dynamicAnchor".into(), json!("node"));
            }
            if g.chance(20) {
                schema.insert("$recursiveAnchor".into(), json!(true));
            }
            applied(g, schema, &targets);
        }
    }
    let definitions = names.iter().map(|name| (*name).to_owned()).zip(definitions).collect();
    let mut root = object(g, 1);
    if let Some(root) = root.as_object_mut() {
        root.insert(container.into(), Json::Object(definitions));
        applied(g, root, &targets);
        if g.chance(20) {
            root.insert("$recursiveAnchor".into(), json!(true));
        }
        if draft != 2020 || g.chance(50) {
            root.insert("$schema".into(), json!(dialect(draft)));
        }
    }
    root
}

/// Returns the URI of a draft's metaschema.
fn dialect(draft: i32) -> String {
    match draft {
        2019 => "https://json-schema.org/draft/2019-09/schema".into(),
        2020 => "https://json-schema.org/draft/2020-12/schema".into(),
        old => format!("http://json-schema.org/draft-0{old}/schema#"),
    }
}

/// Adds references, and keywords about unevaluated properties and items.
fn applied(g: &mut Gen, schema: &mut Map<String, Json>, targets: &[String]) {
    for name in ["a", "b", "list"] {
        if g.chance(30)
            && let Some(properties) = schema.get_mut("properties").and_then(Json::as_object_mut)
        {
            properties.insert(name.into(), reference(g, targets));
        }
    }
    if g.chance(25) {
        schema.insert(
            (*g.one(&["allOf", "anyOf", "oneOf"])).into(),
            json!([reference(g, targets), rule(g, 0)]),
        );
    }
    if g.chance(10) {
        schema.insert("if".into(), reference(g, targets));
        schema.insert("then".into(), json!({ "properties": { "c": true } }));
        schema.insert("else".into(), rule(g, 0));
    }
    if g.chance(8) {
        schema.insert("dependentSchemas".into(), json!({ "a": reference(g, targets), "b": rule(g, 0) }));
    }
    if g.chance(8) {
        schema.insert("dependentRequired".into(), json!({ "a": ["b", "c"], "name": [] }));
    }
    if g.chance(25) {
        let rest = if g.chance(60) { json!(false) } else { rule(g, 0) };
        schema.insert((*g.one(&["unevaluatedProperties", "unevaluatedItems"])).into(), rest);
    }
    if g.chance(12) {
        schema.insert("prefixItems".into(), json!([rule(g, 0), true]));
    }
    if g.chance(12) {
        schema.insert("contains".into(), rule(g, 0));
        schema.insert((*g.one(&["minContains", "maxContains"])).into(), json!(g.below(3)));
    }
    if g.chance(12) {
        schema.remove("type");
    }
}

fn reference(g: &mut Gen, targets: &[String]) -> Json {
    let keyword = g.mostly(&["$ref"], 5, &["$dynamicRef", "$recursiveRef"]);
    let target = targets[g.below(targets.len())].as_str();
    let target = if keyword == "$recursiveRef" { "#" } else { target };
    let mut schema = json!({ keyword: target });
    if g.chance(20) {
        schema[*g.one(&["minLength", "maxProperties", "const", "minItems"])] = json!(g.below(3));
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

/// Strings of all formats.
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

/// Generates a string of some format, sometimes with a character changed, removed or added.
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
