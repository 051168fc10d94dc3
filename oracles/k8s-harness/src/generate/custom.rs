//! Random structural schemas in CustomResourceDefinitions, and objects validated against them.

use serde_json::{Map, Value, json};

use super::random::Random;
use super::schemas::Schemas;
use crate::corpus::{Compared, Step};

pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const FORMATS: [&str; 11] = [
    "date-time",
    "email",
    "uuid",
    "byte",
    "ipv4",
    "date",
    "duration",
    "hostname",
    "uri",
    "cidr",
    "unheard-of",
];
const COLLECTION: &str = "/apis/{id}.example.com/v1/namespaces/{ns}/things";

/// Generates the dry run of a definition, possibly with an error in its schema.
pub(crate) fn definition(_: &Schemas, random: &mut Random) -> Vec<Step> {
    let mut schema = root(random);
    if random.percent(65) {
        spoil(&mut schema, random);
    }
    vec![Step {
        request: format!("POST {DEFINITIONS}?dryRun=All"),
        json: Some(crd(&schema)),
        // The whole definition is a single atomic field; the rest of managedFields differs by the
        // millisecond.
        without: vec!["/metadata/managedFields".to_owned()],
        ..Step::default()
    }]
}

/// Generates a valid definition, and objects that more or less match it.
pub(crate) fn case(_: &Schemas, random: &mut Random) -> Vec<Step> {
    let schema = root(random);
    let mut steps = establish(&crd(&schema));
    for _ in 0..12 {
        let validation = if random.percent(30) { "Strict" } else { "Warn" };
        steps.push(Step {
            request: format!("POST {COLLECTION}?dryRun=All&fieldValidation={validation}"),
            json: Some(object(&schema, random)),
            ..Step::default()
        });
    }
    for _ in 0..4 {
        let manager = *random.pick(&["one", "two"]);
        let force = if random.percent(30) { "&force=true" } else { "" };
        steps.push(Step {
            request: format!("PATCH {COLLECTION}/t?fieldManager={manager}{force}"),
            apply: Some(object(&schema, random)),
            ..Step::default()
        });
    }
    steps
}

/// Returns steps that create a definition and wait until it is established.
pub(crate) fn establish(crd: &Value) -> Vec<Step> {
    let quiet = |step: Step| Step { compare: Compared::Nothing, ..step };
    let name = crd.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    vec![
        quiet(Step { request: format!("POST {DEFINITIONS}"), json: Some(crd.clone()), ..Step::default() }),
        quiet(Step {
            request: format!("GET {DEFINITIONS}/{name}"),
            until: Some(json!("established")),
            ..Step::default()
        }),
        quiet(Step { request: format!("GET {COLLECTION}"), until: Some(json!(200)), ..Step::default() }),
    ]
}

/// Returns the definition of Things with a schema for `spec`.
pub(crate) fn crd(spec: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.{id}.example.com"},
        "spec": {
            "group": "{id}.example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    })
}

/// Returns a Thing with a given spec.
pub(crate) fn thing(spec: Value) -> Value {
    json!({"apiVersion": "{id}.example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec})
}

fn object(schema: &Value, random: &mut Random) -> Value {
    thing(value(schema, random))
}

fn root(random: &mut Random) -> Value {
    fields(random, 0)
}

fn fields(random: &mut Random, depth: usize) -> Value {
    let mut properties = Map::new();
    for name in ["a", "b", "my_field", "kind", "spec", "x-y"].iter().take(2 + random.below(5)) {
        properties.insert((*name).to_owned(), schema(random, depth + 1));
    }
    let required: Vec<Value> =
        properties.keys().filter(|_| random.percent(15)).map(|name| Value::from(name.clone())).collect();
    let mut made = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        made["required"] = Value::Array(required);
    }
    if random.percent(8) {
        made["maxProperties"] = json!(random.below(5));
    }
    if random.percent(10) {
        made["x-kubernetes-preserve-unknown-fields"] = json!(true);
    }
    if random.percent(8) {
        made["x-kubernetes-map-type"] = random.text(&["atomic", "granular"]);
    }
    made
}

/// Generates a structural schema.
fn schema(random: &mut Random, depth: usize) -> Value {
    let mut made = match random.below(if depth > 2 { 6 } else { 10 }) {
        0 | 1 => text(random),
        2 | 3 => number(random),
        4 => json!({"type": "boolean"}),
        5 => json!({"x-kubernetes-int-or-string": true}),
        6 => fields(random, depth),
        7 => json!({"type": "object", "additionalProperties": schema(random, depth + 1)}),
        8 => list(random, depth),
        _ => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
    };
    if random.percent(12) {
        made["nullable"] = json!(true);
    }
    if random.percent(20) {
        let default = value(&made, random);
        // The API server rejects an invalid default; one may be generated, since the value generator is
        // imprecise.
        if !default.is_null() && fits_shallowly(&made, &default) {
            made["default"] = default;
        }
    }
    made
}

fn text(random: &mut Random) -> Value {
    let mut made = json!({"type": "string"});
    match random.below(7) {
        0 => made["enum"] = json!(["red", "green", "blue"]),
        1 => made["pattern"] = random.text(&["^[a-z]+$", "x", "^$", "[0-9]{2,}"]),
        2 => made["format"] = random.text(&FORMATS),
        3 => {
            made["minLength"] = json!(random.below(3));
            made["maxLength"] = json!(2 + random.below(4));
        }
        _ => {}
    }
    made
}

fn number(random: &mut Random) -> Value {
    let mut made = json!({"type": random.pick(&["integer", "integer", "number"])});
    if random.percent(40) {
        made["minimum"] = json!(random.between(-2, 3));
    }
    if random.percent(30) {
        made["maximum"] = json!(random.between(3, 9));
    }
    if random.percent(10) {
        made["exclusiveMaximum"] = json!(random.percent(50));
    }
    if random.percent(10) {
        made["multipleOf"] = json!(2);
    }
    if random.percent(20) {
        made["format"] = random.text(&["int32", "int64"]);
    }
    made
}

fn list(random: &mut Random, depth: usize) -> Value {
    let mut made = match random.below(4) {
        0 => json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
        1 => json!({
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "w": schema(random, depth + 2)}},
        }),
        _ => json!({"type": "array", "items": schema(random, depth + 1)}),
    };
    if random.percent(20) {
        made["maxItems"] = json!(1 + random.below(3));
    }
    if random.percent(10) {
        made["minItems"] = json!(random.below(2));
    }
    made
}

/// Introduces an error into a schema.
fn spoil(schema: &mut Value, random: &mut Random) {
    let mut at = schema;
    for _ in 0..random.below(3) {
        let Some(names) = at
            .get("properties")
            .and_then(Value::as_object)
            .map(|fields| fields.keys().cloned().collect::<Vec<_>>())
        else {
            break;
        };
        if names.is_empty() {
            break;
        }
        let name = random.pick(&names).clone();
        at = &mut at["properties"][name];
    }
    let faults = [
        ("type", json!("text")),
        ("type", json!("array")),
        ("type", Value::Null),
        ("default", json!({"zz": 1})),
        ("default", json!("text")),
        ("default", json!(7)),
        ("default", Value::Null),
        ("additionalProperties", json!(false)),
        ("additionalProperties", json!({"type": "string"})),
        ("uniqueItems", json!(true)),
        ("x-kubernetes-list-type", json!("map")),
        ("x-kubernetes-list-type", json!("bag")),
        ("x-kubernetes-list-map-keys", json!(["zz"])),
        ("x-kubernetes-map-type", json!("bag")),
        ("x-kubernetes-int-or-string", json!(true)),
        ("x-kubernetes-embedded-resource", json!(true)),
        ("x-kubernetes-preserve-unknown-fields", json!(false)),
        ("allOf", json!([{"type": "string"}])),
        ("anyOf", json!([{"minimum": 1}, {"properties": {"a": {"minLength": 1}}}])),
        ("oneOf", json!([{"required": ["a"]}, {"default": 1}])),
        ("not", json!({"required": ["zz"]})),
        ("not", json!({"type": "string"})),
        ("pattern", json!("(")),
        ("enum", json!([])),
        ("items", json!({"type": "string"})),
        ("minimum", json!("x")),
        ("maxLength", json!(-1)),
        ("nullable", json!("yes")),
        ("required", json!("a")),
        ("properties", json!({"": {"type": "string"}})),
        ("format", json!("int32")),
        ("description", json!(5)),
        ("nonsense", json!(5)),
        ("$ref", json!("#/x")),
    ];
    let (key, value) = random.pick(&faults);
    if let Some(fields) = at.as_object_mut() {
        if value.is_null() && *key == "type" {
            fields.remove("type");
        } else {
            fields.insert((*key).to_owned(), value.clone());
        }
    }
}

/// Generates a value that usually matches a schema.
fn value(schema: &Value, random: &mut Random) -> Value {
    if random.percent(4) {
        return random
            .pick(&[json!(null), json!("x"), json!(3), json!(2.5), json!([]), json!({}), json!(false)])
            .clone();
    }
    if schema.get("x-kubernetes-int-or-string").is_some() {
        return if random.percent(50) { json!(random.between(0, 9)) } else { json!(random.word()) };
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array)
        && !words.is_empty()
        && random.percent(85)
    {
        return random.pick(words).clone();
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => random.text(&[
            "x",
            "web",
            "ab",
            "",
            "red",
            "2001-02-03T04:05:06Z",
            "10.0.0.1",
            "a@b.example",
            "aGk=",
            "12",
            "1h",
            "ä",
        ]),
        Some("integer") => json!(random.between(-1, 9)),
        Some("number") => json!(random.between(-4, 30) as f64 / 4.0),
        Some("boolean") => json!(random.percent(50)),
        Some("array") => {
            let items = schema.get("items").unwrap_or(&Value::Null);
            (0..random.below(4)).map(|_| value(items, random)).collect()
        }
        _ => {
            let mut map = Map::new();
            for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten()
            {
                let needed = schema
                    .get("required")
                    .and_then(Value::as_array)
                    .is_some_and(|names| names.iter().any(|entry| entry == name));
                if random.percent(if needed { 92 } else { 60 }) {
                    map.insert(name.clone(), value(property, random));
                }
            }
            if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
                for _ in 0..random.below(3) {
                    map.insert(random.word().to_owned(), value(values, random));
                }
            }
            if random.percent(12) {
                map.insert("unknown".to_owned(), json!({"deep": 1}));
            }
            Value::Object(map)
        }
    }
}

/// Whether a default is plausible enough to try.
fn fits_shallowly(schema: &Value, value: &Value) -> bool {
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => {
            schema.get("format").is_none() && schema.get("pattern").is_none() && value.is_string()
        }
        Some("integer") => {
            let bound = |name: &str| schema.get(name).and_then(Value::as_i64);
            value.as_i64().is_some_and(|number| {
                bound("minimum").is_none_or(|least| number >= least)
                    && bound("maximum").is_none_or(|most| number < most)
                    && bound("multipleOf").is_none_or(|part| number % part == 0)
            })
        }
        Some("boolean") => value.is_boolean(),
        _ => false,
    }
}
