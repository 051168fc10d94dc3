//! Compares and prints JSON values as Go does.

use std::cmp::Ordering;

use serde_json::{Number, Value};
use steersman_gostd::strconv::quote;

/// Orders any two values: numbers < strings < booleans < lists < maps < null.
pub(crate) fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            for (x, y) in a.iter().zip(b) {
                let order = compare(x, y);
                if order != Ordering::Equal {
                    return order;
                }
            }
            a.len().cmp(&b.len())
        }
        (Value::Object(a), Value::Object(b)) => {
            let mut x: Vec<_> = a.iter().collect();
            let mut y: Vec<_> = b.iter().collect();
            x.sort_by(|p, q| p.0.cmp(q.0));
            y.sort_by(|p, q| p.0.cmp(q.0));
            for ((xn, xv), (yn, yv)) in x.iter().zip(&y) {
                let order = xn.cmp(yn).then_with(|| compare(xv, yv));
                if order != Ordering::Equal {
                    return order;
                }
            }
            x.len().cmp(&y.len())
        }
        (a, b) => rank(a).cmp(&rank(b)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => {
            let (a, b) = (a.as_f64().unwrap_or(f64::NAN), b.as_f64().unwrap_or(f64::NAN));
            a.partial_cmp(&b).unwrap_or(Ordering::Equal)
        }
    }
}

/// Whether two values are equal; `1` equals `1.0`.
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b) == Ordering::Equal,
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(x, y)| equal(x, y)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(k, x)| b.get(k).is_some_and(|y| equal(x, y)))
        }
        (a, b) => a == b,
    }
}

/// Serializes JSON like Go's encoder: `<`, `>`, `&` and the line separators are escaped.
pub(crate) fn go_json(value: &Value) -> String {
    let mut out = String::new();
    write_go_json(&mut out, value);
    out
}

/// Appends JSON as Go's encoder writes it.
pub(crate) fn write_go_json(out: &mut String, value: &Value) {
    match value {
        Value::String(text) => write_go_text(out, text),
        other => escape(out, &other.to_string()),
    }
}

/// Returns the Go type that a value is decoded into.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Whether a string needs no escaping in JSON quotes.
pub(crate) fn is_plain(text: &str) -> bool {
    // A lookup table: called for every field name of every object written.
    static PLAIN: [bool; 256] = {
        let mut plain = [false; 256];
        let mut c = b' ';
        while c <= b'~' {
            plain[c as usize] = !matches!(c, b'"' | b'\\' | b'<' | b'>' | b'&');
            c += 1;
        }
        plain
    };
    text.bytes().all(|c| PLAIN[usize::from(c)])
}

/// Appends a string in JSON quotes.
pub(crate) fn write_text(out: &mut String, text: &str) {
    if !text.bytes().all(|c| (b' '..=b'~').contains(&c)) {
        return out.push_str(&Value::from(text).to_string());
    }
    out.reserve(text.len() + 16);
    out.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
}

/// Appends a string in JSON quotes as Go's encoder writes it.
pub(crate) fn write_go_text(out: &mut String, text: &str) {
    if is_plain(text) {
        out.reserve(text.len() + 2);
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        escape(out, &Value::from(text).to_string());
    }
}

/// Appends JSON, escaping what Go's encoder escapes in addition.
fn escape(out: &mut String, json: &str) {
    out.reserve(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            _ => out.push(c),
        }
    }
}

/// Formats a value for a message: strings quoted, lists in brackets.
pub(crate) fn readable(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(readable).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(map) => map.iter().map(|(k, v)| format!("{k}={}", readable(v))).collect(),
        other => other.to_string(),
    }
}

/// Formats a value like Go's `%v`.
pub(crate) fn go_print(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(go_print).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|a, b| a.0.cmp(b.0));
            let entries: Vec<_> = entries.iter().map(|(k, v)| format!("{k}:{}", go_print(v))).collect();
            format!("map[{}]", entries.join(" "))
        }
        other => other.to_string(),
    }
}
