//! Go's `%v`, `%q` and `strconv.FormatFloat`.

use std::fmt::Write as _;

use steersman_gotemplate::{FloatType, Str, Value};

use super::unicode;

/// Nesting beyond which a value is taken to contain itself.
pub(super) const MAX_DEPTH: usize = 1000;

/// What sprig makes of any value that should be a string: strings and bytes as they are, all else as `%v` prints it.
pub(super) fn strval(value: &Value) -> Str {
    match value {
        Value::String(text) | Value::Bytes(text) => text.clone(),
        other => sprint(other),
    }
}

/// What `%v` prints.
pub(super) fn sprint(value: &Value) -> Str {
    let mut out = Vec::new();
    write_value(&mut out, value, 0);
    Str::from(out)
}

fn write_value(out: &mut Vec<u8>, value: &Value, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Nil => out.extend_from_slice(b"<nil>"),
        Value::Bool(b) => out.extend_from_slice(b.to_string().as_bytes()),
        Value::Int(n, _) => out.extend_from_slice(n.to_string().as_bytes()),
        Value::Uint(n, _) => out.extend_from_slice(n.to_string().as_bytes()),
        Value::Float(n, ty) => out.extend_from_slice(float(*n, *ty).as_bytes()),
        Value::Complex(re, im) => {
            let re = float(*re, FloatType::Float64);
            let im = float(*im, FloatType::Float64);
            let sign = if im.starts_with(['-', '+']) { "" } else { "+" };
            out.extend_from_slice(format!("({re}{sign}{im}i)").as_bytes());
        }
        Value::String(text) => out.extend_from_slice(text),
        Value::Bytes(bytes) => {
            let numbers: Vec<_> = bytes.iter().map(u8::to_string).collect();
            out.extend_from_slice(format!("[{}]", numbers.join(" ")).as_bytes());
        }
        Value::List(list) => {
            out.push(b'[');
            for (i, item) in list.iter().enumerate() {
                if i > 0 {
                    out.push(b' ');
                }
                write_value(out, item, depth + 1);
            }
            out.push(b']');
        }
        Value::Map(map) => {
            out.extend_from_slice(b"map[");
            for (i, (key, item)) in map.borrow().iter().enumerate() {
                if i > 0 {
                    out.push(b' ');
                }
                out.extend_from_slice(key);
                out.push(b':');
                write_value(out, item, depth + 1);
            }
            out.push(b']');
        }
        Value::Object(object) => out.extend_from_slice(object.display().as_bytes()),
    }
}

/// `strconv.FormatFloat(n, 'g', -1, bits)`.
pub(super) fn float(n: f64, ty: FloatType) -> String {
    if n.is_nan() {
        return "NaN".into();
    }
    if n.is_infinite() {
        return if n < 0.0 { "-Inf" } else { "+Inf" }.into();
    }
    // Rust's `{:e}` gives the same shortest digits; only the layout differs.
    let scientific = match ty {
        #[expect(clippy::cast_possible_truncation, reason = "a float32 held widened")]
        FloatType::Float32 => format!("{:e}", n as f32),
        FloatType::Float64 => format!("{n:e}"),
    };
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    match ty {
        #[expect(clippy::cast_possible_truncation, reason = "a float32 held widened")]
        FloatType::Float32 => format!("{}", n as f32),
        FloatType::Float64 => format!("{n}"),
    }
}

/// `strconv.Quote`.
pub(super) fn quote(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for (c, raw) in unicode::chars(bytes) {
        match c {
            char::REPLACEMENT_CHARACTER if raw.len() == 1 => {
                let _ = write!(out, "\\x{:02x}", raw.first().copied().unwrap_or_default());
            }
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            _ if unicode::is_print(c) => out.push(c),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0C' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0B' => out.push_str("\\v"),
            c if c < ' ' || c == '\x7F' => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c if u32::from(c) < 0x10000 => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => {
                let _ = write!(out, "\\U{:08x}", u32::from(c));
            }
        }
    }
    out.push('"');
    out
}
