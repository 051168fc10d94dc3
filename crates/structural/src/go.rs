//! Formats values like Go's `fmt` and `encoding/json`.

use std::fmt::Write as _;

use serde_json::Value;
use steersman_gostd::{json, strconv};

/// Quotes a string like `%q`.
#[must_use]
pub fn quote(text: &str) -> String {
    strconv::quote(text)
}

/// Formats a float like `%v`.
#[must_use]
pub fn float(value: f64) -> String {
    strconv::format_float(value, b'g', None, false)
}

/// Serializes a value like `json.Marshal`: keys sorted, HTML characters escaped.
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

/// Appends a float as JSON; NaN and infinities, which JSON cannot represent, as 0.
pub(crate) fn json_float(out: &mut String, value: f64) {
    out.push_str(json::format_float(value, false).as_deref().unwrap_or("0"));
}

/// Appends a JSON string.
pub(crate) fn json_string(out: &mut String, text: &str) {
    json::append_string(out, text, true);
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
