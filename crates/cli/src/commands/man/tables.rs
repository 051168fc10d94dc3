//! Renders tables of terms, of a file's fields, and of metrics.

use std::collections::BTreeSet;

use serde_json::Value;
use steersman_core::vocabulary::Term;

use super::flags::cell;

/// Renders a table of terms with their descriptions.
pub(super) fn terms(title: &str, terms: &[Term]) -> String {
    let rows = terms.iter().map(|term| format!("| `{}` | {} |\n", term.name, cell(term.description)));
    format!("| {title} | meaning |\n| --- | --- |\n{}", rows.collect::<String>())
}

/// Renders the fields of a JSON schema, nested fields after their parent with their paths.
pub(super) fn fields(schema: &Value) -> String {
    let mut text = String::from("| field | type | meaning |\n| --- | --- | --- |\n");
    add_fields(&mut text, schema, schema, "");
    text
}

fn add_fields(text: &mut String, root: &Value, schema: &Value, prefix: &str) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let (is_list, target) = match field["items"].as_object() {
            Some(_) => (true, resolved(root, &field["items"])),
            None => (false, resolved(root, field)),
        };
        let meaning = field["description"].as_str().or(target["description"].as_str()).unwrap_or_default();
        let path = format!("{prefix}{name}{}", if is_list { "[]" } else { "" });
        let kind = type_name(root, field);
        *text += &format!("| `{path}` | {} | {} |\n", cell(&kind), cell(meaning));
        add_fields(text, root, target, &format!("{path}."));
    }
}

/// Resolves a reference, including a nullable one.
fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let choice =
        schema["anyOf"].as_array().and_then(|choices| choices.iter().find(|one| one["$ref"].is_string()));
    let pointer = choice.unwrap_or(schema)["$ref"].as_str().and_then(|text| text.strip_prefix('#'));
    pointer.and_then(|pointer| root.pointer(pointer)).unwrap_or(schema)
}

fn type_name(root: &Value, schema: &Value) -> String {
    let target = resolved(root, schema);
    if let Some(values) = target["enum"].as_array() {
        let values: Vec<String> =
            values.iter().filter_map(Value::as_str).map(|one| format!("`{one}`")).collect();
        return values.join(" or ");
    }
    let named = match &target["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).find(|one| *one != "null"),
        other => other.as_str(),
    };
    match named {
        Some("array") => format!("list of {}", type_name(root, &target["items"])),
        Some("object") if target["additionalProperties"].is_object() => {
            format!("map of {}", type_name(root, &target["additionalProperties"]))
        }
        Some(other) => other.to_owned(),
        None => "any".to_owned(),
    }
}

/// Renders the metrics of an OpenMetrics exposition: name, type, labels and help.
pub(super) fn metrics(exposition: &str) -> String {
    let mut current: Option<(&str, &str, &str)> = None;
    let mut help = "";
    let mut labels: BTreeSet<String> = BTreeSet::new();
    let mut table = String::from("| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n");
    let mut finish = |current: Option<(&str, &str, &str)>, labels: &mut BTreeSet<String>| {
        let Some((name, kind, help)) = current else { return };
        let suffix = if kind == "counter" { "_total" } else { "" };
        let labels = std::mem::take(labels).into_iter().collect::<Vec<_>>().join(", ");
        table += &format!("| `{name}{suffix}` | {kind} | {labels} | {} |\n", cell(help));
    };
    for line in exposition.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            finish(current.take(), &mut labels);
            help = rest.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            current = Some((name, kind, help));
        } else if let Some((_, rest)) = line.split_once('{') {
            let pairs = rest.split('}').next().unwrap_or_default();
            let names = pairs.split("\",").filter_map(|pair| pair.split_once('=')).map(|(name, _)| name);
            labels.extend(names.filter(|name| *name != "le").map(|name| format!("`{name}`")));
        }
    }
    finish(current.take(), &mut labels);
    table
}
