//! Values as Go's `fmt` and `encoding/json` write them.

use std::fmt::Write as _;

use serde_json::Value;
use steersman_gostd::strconv;

/// Text in quotes, as `%q` writes it.
#[must_use]
pub fn quote(text: &str) -> String {
    strconv::quote(text.as_bytes())
}

/// A float as `%v` writes it.
#[must_use]
pub fn float(value: f64) -> String {
    strconv::format_float(value, b'g', None, false)
}

/// A value as `json.Marshal` writes it: keys sorted, and what browsers could take for markup escaped.
#[must_use]
pub fn json(value: &Value) -> String {
    let mut out = String::new();
    write_json(&mut out, value);
    out
}

pub(crate) fn write_json(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => match number.as_i64() {
            Some(number) => {
                let _ = write!(out, "{number}");
            }
            None => json_float(out, number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => json_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_json(out, item);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (i, (key, item)) in map.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                json_string(out, key);
                out.push(':');
                write_json(out, item);
            }
            out.push('}');
        }
    }
}

/// A float in JSON: digits for most, an exponent for the very large and small.
pub(crate) fn json_float(out: &mut String, value: f64) {
    let magnitude = value.abs();
    if magnitude == 0.0 || (1e-6..1e21).contains(&magnitude) {
        out.push_str(&strconv::format_float(value, b'f', None, false));
        return;
    }
    let text = strconv::format_float(value, b'e', None, false);
    match text.split_once("e-0") {
        Some((digits, exponent)) => {
            let _ = write!(out, "{digits}e-{exponent}");
        }
        None => out.push_str(&text),
    }
}

/// Text in JSON.
pub(crate) fn json_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn json_is_as_go_writes_it() {
        let value = json!({"b": "a<b>&\u{1}", "a": [1.0, 1.5, 1e21, 1e-7, null, true]});
        assert_eq!(
            super::json(&value),
            r#"{"a":[1,1.5,1e+21,1e-7,null,true],"b":"a\u003cb\u003e\u0026\u0001"}"#
        );
        assert_eq!(super::float(1e6), "1e+06");
    }
}
