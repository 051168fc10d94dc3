//! Random documents and values with the recorded results of Go's packages.

use serde::Deserialize;
use serde_json::{Value, json};
use steersman_recordings::Recordings;
use steersman_yaml::{
    Error, from_slice, from_slice_f64, from_slice_strict, json, to_string, to_string_pretty,
};

#[derive(Deserialize)]
struct Case {
    request: Value,
    answer: Result<Value, Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    text: String,
}

/// Decodes a value in which numbers of Go's types are objects with a tag. `None` if JSON cannot represent it.
fn untagged(value: &Value) -> Option<Value> {
    match value {
        Value::Array(items) => items.iter().map(untagged).collect(),
        Value::Object(fields) => match (fields.get("$t").and_then(Value::as_str), fields.get("v")) {
            (Some("float64"), Some(Value::String(text))) => {
                serde_json::Number::from_f64(text.parse().ok()?).map(Value::Number)
            }
            (Some(kind), Some(Value::String(text))) if kind.starts_with("uint") => {
                text.parse::<u64>().ok().map(Value::from)
            }
            (Some(kind), Some(Value::String(text))) if kind.starts_with("int") => {
                text.parse::<i64>().ok().map(Value::from)
            }
            _ if fields.keys().any(|key| key.starts_with('$')) => None,
            _ => fields.iter().map(|(key, value)| Some((key.clone(), untagged(value)?))).collect(),
        },
        other => Some(other.clone()),
    }
}

/// Converts all numbers to floats, as Go reads them.
fn floats(value: &Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().into(),
        Value::Array(items) => items.iter().map(floats).collect(),
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), floats(value))).collect(),
        other => other.clone(),
    }
}

/// Runs a request; `None` if JSON cannot represent its value.
fn ours(area: &str, request: &Value) -> Option<Result<Value, Error>> {
    let text = request["text"].as_str().map(str::as_bytes);
    let value = || untagged(&request["value"]);
    let written = |result: Result<String, Error>| Some(result.map(Value::from));
    let as_json = |options: json::Options| written(json::to_string_with(&value()?, options));
    match (area, request["do"].as_str()?) {
        ("yaml", "marshal") => written(to_string(&value()?)),
        ("yaml", "pretty") => written(to_string_pretty(&value()?)),
        ("yaml", "to-json") => written(from_slice(text?).and_then(|value| json::to_string(&value))),
        ("yaml", "to-json-strict") => {
            written(from_slice_strict(text?).and_then(|value| json::to_string(&value)))
        }
        ("yaml", "round-trip") => written(from_slice(text?).and_then(|value| to_string(&value))),
        ("yaml", "unmarshal") => Some(from_slice_f64(text?).map(|value| json!({ "value": floats(&value) }))),
        ("json", "decode") => Some(json::from_slice(text?).map(|value| json!({ "value": floats(&value) }))),
        ("json", "raw") => as_json(json::Options { escape_html: false, ..json::Options::default() }),
        ("json", "pretty") => as_json(json::Options { pretty: true, ..json::Options::default() }),
        ("json", "encode") => as_json(json::Options::default()),
        _ => None,
    }
}

fn compare(area: &str) -> usize {
    let recordings = Recordings::of(concat!(env!("CARGO_MANIFEST_DIR"), "/../../oracles/harness"));
    let mut tried = 0;
    for Case { request, answer } in recordings.read(area) {
        let Some(ours) = ours(area, &request) else { continue };
        tried += 1;
        match (ours, answer) {
            (Ok(ours), Ok(theirs)) if theirs.is_string() => assert_eq!(ours, theirs, "{request}"),
            (Ok(ours), Ok(theirs)) => {
                let theirs = untagged(&theirs).map(|value| floats(&value));
                assert!(
                    theirs.is_none() || theirs.as_ref() == Some(&floats(&ours)),
                    "{request}\n{ours}\n{theirs:?}"
                );
            }
            (Err(error), Err(refusal)) => assert_eq!(error.to_string(), refusal.text, "{request}"),
            (ours, theirs) => {
                panic!("{request}\n  ours   {ours:?}\n  theirs {:?}", theirs.map_err(|refusal| refusal.text))
            }
        }
    }
    tried
}

#[test]
fn yaml_is_as_recorded() {
    assert!(compare("yaml") > 1_000);
}

#[test]
fn json_is_as_recorded() {
    assert!(compare("json") > 250);
}
