//! The areas of the Helm oracle, and our crates' answers.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use steersman_gotemplate::{Funcs, MissingKey, Set, Value, fmt};
use steersman_yaml as yaml;

use crate::answer::Answer;
use crate::generate::{self, written::Written};
use crate::suite::{Area, Known};
use crate::wire;

mod charts;
mod normal;

/// Returns all areas.
pub fn all() -> Vec<Area> {
    let area =
        |name, cases, generate, ours, normal| Area { name, cases, written: false, generate, ours, normal };
    let written = |name, cases: &Written, generate, ours, normal| Area {
        written: true,
        ..area(name, cases.cases(), generate, ours, normal)
    };
    vec![
        area("fmt", 8000, |g, _| generate::format::request(g), format, as_is),
        area("template", 14000, |g, _| generate::template::request(g), template, as_is),
        area("function", 20000, |g, _| generate::function::request(g), charts::files, normal::addresses),
        area("program", 6000, |g, _| generate::function::program(g), charts::files, normal::addresses),
        area(
            "shape",
            generate::function::shapes(),
            |_, case| generate::function::shape(case),
            charts::files,
            as_is,
        ),
        written(
            "written",
            &generate::written::RENDERED,
            |_, case| generate::written::RENDERED.request(case),
            charts::files,
            normal::addresses,
        ),
        written(
            "written-chart",
            &generate::written::MANIFESTS,
            |_, case| generate::written::MANIFESTS.request(case),
            charts::template,
            normal::schema,
        ),
        written(
            "written-lint",
            &generate::written::LINTED,
            |_, case| generate::written::LINTED.request(case),
            charts::lint,
            normal::schema,
        ),
        written(
            "written-set",
            &generate::written::SET,
            |_, case| generate::written::SET.request(case),
            charts::set,
            normal::set_json,
        ),
        area("yaml", 10000, |g, _| generate::yaml::request(g), yaml_text, as_is),
        area("json", 3000, |g, _| generate::json::request(g), json_text, as_is),
        area("set", 5000, |g, _| generate::set::request(g), charts::set, normal::set_json),
        area("values", 4000, |g, _| generate::chart::values_request(g), charts::values, as_is),
        area("manifests", 2000, |g, _| generate::manifest::request(g), charts::template, as_is),
        area("ignore", 1000, |g, _| generate::ignore::request(g), charts::template, as_is),
        area("schema", 1500, |g, _| generate::schema::request(g), charts::template, normal::schema),
        area("kube-version", 500, |g, _| generate::semver::kube_request(g), charts::kube_version, as_is),
        area("lint", 2000, |g, _| generate::lint::request(g), charts::lint, normal::schema),
        area("chart", 4000, |g, _| generate::chart::request(g), charts::template, normal::schema),
    ]
}

fn as_is(_: &Json, answer: Answer) -> Answer {
    answer
}

/// Known and accepted differences.
pub const KNOWN: &[Known] = &[
    Known {
        area: "ignore",
        reason: "gobwas/glob loses characters beyond ASCII, and all that stands before an empty or open brace",
        applies: |request, _, _| {
            let list = request["files"]["templates/list.yaml"].as_str().unwrap_or_default();
            let pattern = list.split(".Files.Glob ").nth(1).and_then(|rest| rest.split(" }}").next());
            pattern.is_some_and(|pattern| pattern.contains('{'))
                || paths(request).any(|path| !path.is_ascii())
        },
    },
    Known {
        area: "function",
        reason: "toYamlPretty of a struct or a time: goyaml writes Go's field names in lower case, and times unquoted",
        applies: |request, _, _| {
            request["files"]["templates/t"].as_str().is_some_and(|text| text.contains("toYamlPretty"))
        },
    },
];

/// Returns the paths of the files in a request's chart.
fn paths(request: &Json) -> impl Iterator<Item = &String> {
    request["files"].as_object().into_iter().flatten().map(|(path, _)| path)
}

/// Returns a string field of a request.
fn text<'a>(request: &'a Json, field: &str) -> &'a str {
    request[field].as_str().unwrap_or_default()
}

/// Returns a value field of a request; the generators produce none that is unknown here.
fn value(request: &Json, field: &str) -> Value {
    wire::value(&request[field]).unwrap_or_else(|problem| panic!("{field}: {problem}"))
}

fn answered<T: Into<Json>, E: ToString>(result: Result<T, E>) -> Answer {
    match result {
        Ok(result) => Answer::Ok(result.into()),
        Err(error) => Answer::err("error", error),
    }
}

fn format(request: &Json) -> Answer {
    let args: Vec<Value> = match value(request, "args") {
        Value::List(args) => args.to_vec(),
        _ => Vec::new(),
    };
    let text = match text(request, "print") {
        "print" => fmt::sprint(&args),
        "println" => fmt::sprintln(&args),
        _ => fmt::sprintf(&wire::bytes(&request["format"]), &args),
    };
    answered(text.map(|text| wire::text(text.as_bytes())))
}

fn template(request: &Json) -> Answer {
    let missing_key = match text(request, "missingkey") {
        "zero" => MissingKey::Zero,
        "error" => MissingKey::Error,
        _ => MissingKey::Default,
    };
    let mut set: Set<()> = Set::new(Arc::new(Funcs::new())).named("t").missing_key(missing_key);
    if let Err(error) = set.parse("t", &wire::bytes(&request["text"])) {
        return Answer::err("parse", error);
    }
    let mut out = Vec::new();
    match set.execute(&mut (), "t", value(request, "data"), &mut out) {
        Ok(()) => Answer::Ok(wire::text(&out)),
        Err(error) => Answer::err("exec", error),
    }
}

/// Encodes a JSON value like the oracle: every number as a `float64`.
fn spelled(value: &Json) -> Json {
    match value {
        Json::Number(n) => wire::spell(&Value::float(n.as_f64().unwrap_or(f64::NAN))),
        Json::Array(items) => items.iter().map(spelled).collect(),
        Json::Object(fields) => {
            let inner: Json = fields.iter().map(|(k, v)| (k.clone(), spelled(v))).collect();
            if fields.contains_key("$t") || fields.contains_key("$b64") {
                wire::tagged("map", inner)
            } else {
                inner
            }
        }
        other => other.clone(),
    }
}

fn yaml_text(request: &Json) -> Answer {
    let bytes = wire::bytes(&request["text"]);
    let written = |result: Result<String, yaml::Error>| answered(result);
    match text(request, "do") {
        "marshal" => written(yaml::to_string(&value(request, "value"))),
        "pretty" => written(yaml::to_string_pretty(&value(request, "value"))),
        "to-json" => written(yaml::from_slice(&bytes).and_then(|v| yaml::json::to_string(&v))),
        "to-json-strict" => written(yaml::from_slice_strict(&bytes).and_then(|v| yaml::json::to_string(&v))),
        "round-trip" => written(yaml::from_slice(&bytes).and_then(|v| yaml::to_string(&v))),
        "unmarshal" => answered(yaml::from_slice_f64(&bytes).map(|v| json!({ "value": spelled(&v) }))),
        "unmarshal-map" => {
            answered(yaml::object_from_slice(&bytes).map(|v| json!({ "value": spelled(&v.into()) })))
        }
        other => Answer::err("request", format!("unknown do {other}")),
    }
}

fn json_text(request: &Json) -> Answer {
    use yaml::json::{Options, from_slice, to_string_with};
    let bytes = wire::bytes(&request["text"]);
    let options = match text(request, "do") {
        "decode" => return answered(from_slice(&bytes).map(|v| json!({ "value": spelled(&v) }))),
        "raw" => Options { escape_html: false, ..Options::default() },
        "pretty" => Options { pretty: true, ..Options::default() },
        _ => Options::default(),
    };
    answered(to_string_with(&value(request, "value"), options))
}
