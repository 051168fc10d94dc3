//! Differential tests of random expressions against Kubernetes' own CEL.
//! Compares compile errors, results, runtime cost and estimated cost.
//!
//! With the libraries themselves (`oracles/kubernetes/build libs`) by `make oracle-kubernetes`, with recorded answers by `make test`.

mod grammar;
mod maker;

use std::collections::{BTreeMap, HashSet};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use maker::Maker;
use serde_json::{Value as Json, json};
use steersman_cel::{Cidr, Environment, Program, Range, Sizes, Type, Value};
use steersman_formats::Url;
use steersman_libs_oracle::{Area, Judgement, cases};

const CEL: Area = Area { name: "cel", package: env!("CARGO_MANIFEST_DIR"), recorded: 10_000 };

fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(n) => n.as_i64().map_or_else(|| Value::Double(n.as_f64().unwrap_or(0.0)), Value::Int),
        Json::String(text) => Value::string(text.as_str()),
        Json::Array(items) => Value::list(items.iter().map(value).collect()),
        Json::Object(map) => {
            Value::map(map.iter().map(|(k, v)| (Value::string(k.as_str()), value(v))).collect())
        }
    }
}

/// Whether a value equals the oracle's. Values that JSON cannot represent are objects there, with the type as key.
fn is_written(value: &Value, json: &Json) -> bool {
    let text = |kind: &str| json[kind].as_str();
    match value {
        Value::Null => json.is_null(),
        Value::Bool(value) => json.as_bool() == Some(*value),
        Value::Int(value) => json.as_i64() == Some(*value),
        Value::Uint(value) => json["uint"].as_u64() == Some(*value),
        Value::Double(value) => text("double").is_some_and(|text| {
            text.parse::<f64>().is_ok_and(|n| n.to_bits() == value.to_bits() || n.is_nan() && value.is_nan())
        }),
        Value::String(text) => json.as_str() == Some(text),
        Value::Bytes(bytes) => text("bytes") == Some(&BASE64_STANDARD.encode(bytes)),
        Value::Timestamp(time) => text("timestamp") == Some(&time.to_string()),
        Value::Duration(nanos) => json["duration"].as_i64() == Some(*nanos),
        Value::List(items) => json.as_array().is_some_and(|theirs| {
            items.len() == theirs.len()
                && items.iter().zip(theirs).all(|(ours, theirs)| is_written(ours, theirs))
        }),
        Value::Map(entries) => json["map"].as_object().is_some_and(|theirs| {
            let is_there = |(key, value): &(Value, Value)| {
                let name = match key {
                    Value::Null => "null_type NULL_VALUE".to_owned(),
                    key => format!("{} {key}", key.type_name()),
                };
                theirs.get(&name).is_some_and(|theirs| is_written(value, theirs))
            };
            entries.len() == theirs.len() && entries.iter().all(is_there)
        }),
        Value::Optional(inner) => {
            json["optional"].as_array().is_some_and(|theirs| match (inner, theirs.as_slice()) {
                (None, []) => true,
                (Some(ours), [theirs]) => is_written(ours, theirs),
                _ => false,
            })
        }
        Value::Type(name) => text("type") == Some(name),
        Value::Quantity(quantity) => text("quantity") == Some(&quantity.to_string()),
        Value::Url(url) => text("url").is_some_and(|text| Url::parse(text).as_ref() == Some(&**url)),
        Value::Ip(ip) => text("ip") == Some(&ip.to_string()),
        Value::Cidr(cidr) => text("cidr").is_some_and(|text| Cidr::parse(text) == Some(*cidr)),
        Value::Semver(_) => text("semver").is_some(),
        _ => json.is_object(),
    }
}

/// The variables of all expressions but `self`, which is dynamic.
fn variables() -> BTreeMap<&'static str, (Type, Json)> {
    let strings = || Type::list(Type::String);
    let ints = || Type::list(Type::Int);
    BTreeMap::from([
        ("text", (Type::String, json!("some text"))),
        ("names", (strings(), json!(["one", "two", "three"]))),
        ("count", (Type::Int, json!(7))),
        ("ratio", (Type::Double, json!(0.75))),
        ("flag", (Type::Bool, json!(true))),
        ("amounts", (ints(), json!([10, 20, 5]))),
        ("matrix", (Type::list(ints()), json!([[1, 2], [3]]))),
        ("labels", (Type::map(Type::String, Type::String), json!({"a": "b", "c": "d"}))),
    ])
}

/// How large variables can be, by path.
struct Known<'a>(&'a Json);

impl Sizes for Known<'_> {
    fn max_size(&self, path: &[String]) -> Option<u64> {
        self.0[path.join(".")].as_u64()
    }
}

/// Compares our result for a request with the libraries'.
fn judge(request: &Json, answer: &Json) -> Judgement {
    // cel-go itself fails on some.
    let internal =
        answer["result"]["evalError"].as_str().is_some_and(|text| text.starts_with("internal error"));
    if internal || answer.get("panic").is_some() {
        return Judgement::default();
    }
    let theirs = &answer["result"];
    let expr = request["expr"].as_str().unwrap_or_default();
    let mut environment = Environment::new().with("self", Type::Dyn);
    for (name, (ty, _)) in variables() {
        environment = environment.with(name, ty);
    }
    let (same, ours) = match Program::compile(&environment, expr) {
        Err(error) => {
            // Syntax errors of a generated parser list the expected tokens in their own way.
            let text = theirs["compileError"].as_str();
            let same = text.is_some_and(|text| text == error.to_string() || text.contains("Syntax error"));
            (same, format!("compileError {error}"))
        }
        Ok(program) => {
            let Range { min, max } = program.estimate(&Known(&request["sizes"]));
            let given = request["vars"].as_object().into_iter().flatten();
            let (result, cost) =
                program.run(given.map(|(name, json)| (name.as_str(), value(json))), 1_000_000);
            let output = program.output().to_string();
            let right = match &result {
                Err(error) => theirs["evalError"].as_str() == Some(&error.to_string()),
                Ok(value) => {
                    theirs["type"] == value.type_name()
                        && theirs["cost"] == cost
                        && is_written(value, &theirs["value"])
                }
            };
            let same = right && theirs["estimate"] == json!([min, max]);
            (same, format!("{result:?} cost {cost} of {output} estimate [{min},{max}]"))
        }
    };
    Judgement::one((!same).then(|| format!("{expr}\n  ours   {ours}\n  theirs {theirs}")))
}

#[test]
fn expressions_are_as_recorded() {
    CEL.replay(judge);
}

#[test]
#[ignore = "needs the Kubernetes oracle: make oracle-kubernetes"]
fn expressions_are_as_in_kubernetes() {
    let selves = [
        json!({"s": "abc", "i": 5, "t": true, "d": 2.5, "z": null, "l": [1, 2, 3], "ls": ["x", "y"],
            "m": {"a": "b", "n": 1}, "x": [1, "a", null, [2]], "big": 9_007_199_254_740_993_i64, "for": 1, "n_1": 2}),
        json!({"s": "", "i": 0, "t": false, "d": 0.0, "z": null, "l": [], "ls": [], "m": {}, "x": []}),
        json!({"s": "héllo", "i": -3, "t": true, "d": -1e30, "l": [3, 1, 1], "ls": ["b", "a", "b"],
            "m": {"a": "longer than ten characters", "z": [1]}, "x": [{"a": 1}, 2.0], "big": i64::MIN}),
    ];
    let sizes = [
        json!({}),
        json!({"text": 25, "names": 4, "names.@items": 13, "amounts": 6, "matrix": 3, "matrix.@items": 2, "labels": 5,
            "labels.@keys": 8, "labels.@values": 21, "self.s": 9, "self.l": 11, "self.ls": 3, "self.ls.@items": 7}),
        json!({"text": u64::MAX, "names": 1_000_000, "names.@items": 1_000_000, "amounts": u64::MAX, "labels": 0,
            "labels.a": 3, "self": 10}),
    ];
    let types: Json =
        variables().iter().map(|(name, (ty, _))| ((*name).to_owned(), json!(ty.to_string()))).collect();
    let vars = selves.map(|this| {
        let given = variables().into_iter().map(|(name, (_, json))| (name.to_owned(), json));
        given.chain([("self".to_owned(), this)]).collect::<Json>()
    });
    let request = |number: usize, expr: String| {
        // Most often the first; coprime strides, so that all pairs occur.
        let (vars, sizes) = (&vars[[0, 0, 1, 2][number % 4]], &sizes[[1, 0, 1, 1, 2][number % 5]]);
        json!({"op": "cel", "expr": expr, "vars": vars, "types": types, "sizes": sizes})
    };
    let random = (0..cases(60_000)).map(|seed| Maker::new(seed as u64).random());
    let mut seen = HashSet::new();
    let expressions = Maker::each().into_iter().chain(random).filter(|text| seen.insert(text.clone()));
    let requests = expressions.enumerate().map(|(number, expr)| request(number, expr)).collect();
    CEL.compare(requests, judge);
}
