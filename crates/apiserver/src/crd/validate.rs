//! Judging objects by structural schemas, in the words of the validator that the real server uses.

use regex::Regex;
use serde_json::{Number, Value};

use crate::fields::FieldError;

/// Judges `value` at `path` by `schema`.
pub(super) fn check(schema: &Value, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let flag = |key: &str| schema[key].as_bool() == Some(true);
    if value.is_null() && flag("nullable") {
        return;
    }
    let expected = schema["type"].as_str().unwrap_or_default();
    if flag("x-kubernetes-int-or-string") {
        if !(value.is_string() || value.is_i64() || value.is_u64()) {
            errors.push(wrong_type(value, path, "integer,string"));
            return;
        }
    } else if !expected.is_empty() && !has_type(value, expected) {
        errors.push(wrong_type(value, path, expected));
        return;
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        let supported: Vec<String> =
            allowed.iter().map(|a| a.as_str().map_or_else(|| a.to_string(), str::to_owned)).collect();
        let supported: Vec<&str> = supported.iter().map(String::as_str).collect();
        errors.push(FieldError::not_supported(path, value.clone(), &supported));
    }
    match value {
        Value::Object(map) => object(schema, map, path, errors),
        Value::Array(list) => array(schema, list, path, errors),
        Value::String(text) => string(schema, text, path, errors),
        Value::Number(number) => numeric(schema, number, path, errors),
        _ => {}
    }
    combinations(schema, value, path, errors);
}

fn name(path: &str) -> String {
    if path.is_empty() { "<nil>".into() } else { path.to_owned() }
}

fn at(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn has_type(value: &Value, expected: &str) -> bool {
    type_of(value) == expected || (expected == "number" && value.is_number())
}

fn wrong_type(value: &Value, path: &str, expected: &str) -> FieldError {
    let actual = type_of(value);
    let detail = format!("{} in body must be of type {expected}: \"{actual}\"", name(path));
    FieldError::type_invalid(name(path), actual, detail)
}

fn object(schema: &Value, map: &serde_json::Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !map.contains_key(required) {
            errors.push(FieldError::required(at(path, required), ""));
        }
    }
    let bound = |key: &str| schema[key].as_u64().and_then(|n| usize::try_from(n).ok());
    if let Some(limit) = bound("maxProperties").filter(|l| map.len() > *l) {
        errors.push(FieldError::too_many(path, map.len(), limit));
    }
    if let Some(limit) = bound("minProperties").filter(|l| map.len() < *l) {
        let detail = format!("{} in body should have at least {limit} properties", name(path));
        errors.push(FieldError::invalid(path, Value::Object(map.clone()), detail));
    }
    let properties = schema["properties"].as_object();
    for (key, child) in map {
        match properties.and_then(|p| p.get(key)) {
            Some(property) => check(property, child, &at(path, key), errors),
            None => {
                let additional = &schema["additionalProperties"];
                if additional.is_object() {
                    check(additional, child, &at(path, key), errors);
                } else if *additional == Value::Bool(false) {
                    errors.push(FieldError::forbidden(at(path, key), "additional property is not allowed"));
                }
            }
        }
    }
}

fn array(schema: &Value, list: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    let bound = |key: &str| schema[key].as_u64().and_then(|n| usize::try_from(n).ok());
    if let Some(limit) = bound("maxItems").filter(|l| list.len() > *l) {
        errors.push(FieldError::too_many(path, list.len(), limit));
    }
    if let Some(limit) = bound("minItems").filter(|l| list.len() < *l) {
        let detail = format!("{path} in body should have at least {limit} items");
        errors.push(FieldError::invalid(path, Value::Array(list.to_vec()), detail));
    }
    for (index, item) in list.iter().enumerate() {
        check(&schema["items"], item, &format!("{path}[{index}]"), errors);
    }
    let keys: Option<Vec<&str>> = match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => Some(Vec::new()),
        Some("map") => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array();
            Some(keys.into_iter().flatten().filter_map(Value::as_str).collect())
        }
        _ => None,
    };
    let Some(keys) = keys else { return };
    let identity = |item: &Value| -> Value {
        if keys.is_empty() {
            item.clone()
        } else {
            Value::Object(keys.iter().filter_map(|k| Some(((*k).to_owned(), item.get(k)?.clone()))).collect())
        }
    };
    let mut seen: Vec<Value> = Vec::new();
    for (index, item) in list.iter().enumerate() {
        let id = identity(item);
        if seen.contains(&id) {
            errors.push(FieldError::duplicate(format!("{path}[{index}]"), id));
        } else {
            seen.push(id);
        }
    }
}

fn string(schema: &Value, text: &str, path: &str, errors: &mut Vec<FieldError>) {
    let length = text.chars().count();
    let bound = |key: &str| schema[key].as_u64().and_then(|n| usize::try_from(n).ok());
    if let Some(limit) = bound("maxLength").filter(|l| length > *l) {
        errors.push(FieldError::too_long(path, limit));
    }
    if let Some(limit) = bound("minLength").filter(|l| length < *l) {
        let detail = format!("{path} in body should be at least {limit} chars long");
        errors.push(FieldError::invalid(path, text, detail));
    }
    if let Some(pattern) = schema["pattern"].as_str() {
        let matches = Regex::new(pattern).is_ok_and(|r| r.is_match(text));
        if !matches {
            errors.push(FieldError::invalid(path, text, format!("{path} in body should match '{pattern}'")));
        }
    }
    if let Some(format) = schema["format"].as_str()
        && !follows(format, text)
    {
        let detail = format!("{path} in body must be of type {format}: {}", crate::status::quote(text));
        errors.push(FieldError::type_invalid(path, text, detail));
    }
}

/// The formats that are easily told; others are not judged.
fn follows(format: &str, text: &str) -> bool {
    match format {
        "date-time" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.parse::<jiff::civil::Date>().is_ok(),
        "ipv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
        "byte" => base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).is_ok(),
        "uuid" => {
            text.len() == 36
                && text.split('-').map(str::len).eq([8, 4, 4, 4, 12])
                && text.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())
        }
        _ => true,
    }
}

fn numeric(schema: &Value, number: &Number, path: &str, errors: &mut Vec<FieldError>) {
    let Some(value) = number.as_f64() else { return };
    let bound = |key: &str| schema[key].as_f64();
    let flag = |key: &str| schema[key].as_bool() == Some(true);
    let show = |key: &str| schema[key].to_string();
    let mut complain = |detail: String| {
        errors.push(FieldError::invalid(
            path,
            Value::Number(number.clone()),
            format!("{path} in body {detail}"),
        ));
    };
    match bound("maximum") {
        Some(limit) if flag("exclusiveMaximum") && value >= limit => {
            complain(format!("should be less than {}", show("maximum")));
        }
        Some(limit) if value > limit => {
            complain(format!("should be less than or equal to {}", show("maximum")));
        }
        _ => {}
    }
    match bound("minimum") {
        Some(limit) if flag("exclusiveMinimum") && value <= limit => {
            complain(format!("should be greater than {}", show("minimum")));
        }
        Some(limit) if value < limit => {
            complain(format!("should be greater than or equal to {}", show("minimum")));
        }
        _ => {}
    }
    if let Some(factor) = bound("multipleOf").filter(|f| *f > 0.0) {
        let quotient = value / factor;
        if (quotient - quotient.round()).abs() > 1e-9 {
            complain(format!("should be a multiple of {}", show("multipleOf")));
        }
    }
}

fn combinations(schema: &Value, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let judge = |schema: &Value| {
        let mut found = Vec::new();
        check(schema, value, path, &mut found);
        found
    };
    let invalid = |detail: &str| {
        FieldError::invalid(name(path), value.clone(), format!("{} in body {detail}", name(path)))
    };
    for part in schema["allOf"].as_array().into_iter().flatten() {
        errors.extend(judge(part));
    }
    if let Some(parts) = schema["anyOf"].as_array() {
        let results: Vec<_> = parts.iter().map(judge).collect();
        if !results.iter().any(Vec::is_empty) {
            errors.push(invalid("must validate at least one schema (anyOf)"));
            errors.extend(results.into_iter().min_by_key(Vec::len).unwrap_or_default());
        }
    }
    if let Some(parts) = schema["oneOf"].as_array() {
        let results: Vec<_> = parts.iter().map(judge).collect();
        let passed = results.iter().filter(|r| r.is_empty()).count();
        if passed != 1 {
            errors.push(invalid(&format!(
                "must validate one and only one schema (oneOf). Found {} valid alternatives",
                if passed == 0 { "none".to_owned() } else { passed.to_string() }
            )));
            if passed == 0 {
                errors.extend(results.into_iter().min_by_key(Vec::len).unwrap_or_default());
            }
        }
    }
    if schema["not"].is_object() && judge(&schema["not"]).is_empty() {
        errors.push(invalid("must not validate the schema (not)"));
    }
}
