//! sprig's conversion of any value to a number, by spf13/cast, which returns 0 for invalid input.

use steersman_gostd::strconv::{self, NumErrorKind};
use steersman_gotemplate::{Kind, Value};

/// `cast.ToInt64`, which on 64-bit machines is `cast.ToInt` too.
pub(super) fn to_int64(value: &Value) -> i64 {
    match value {
        Value::Int(n, _) => *n,
        // Go's conversion wraps.
        Value::Uint(n, _) => *n as i64,
        Value::Float(n, _) => float_to_int64(*n),
        Value::Bool(b) => i64::from(*b),
        Value::String(text) => strconv::parse_int(trim_zero_decimal(text), 0, 64).unwrap_or(0),
        Value::Object(_) => calendar_number(value).unwrap_or(0),
        _ => 0,
    }
}

/// `cast.ToFloat64`.
pub(super) fn to_float64(value: &Value) -> f64 {
    match value {
        Value::Int(n, _) => *n as f64,
        Value::Uint(n, _) => *n as f64,
        Value::Float(n, _) => *n,
        Value::Bool(b) => f64::from(u8::from(*b)),
        Value::String(text) => strconv::parse_float(text).unwrap_or(0.0),
        Value::Object(_) => calendar_number(value).unwrap_or(0) as f64,
        _ => 0.0,
    }
}

/// Months and weekdays are the only named integers that cast supports.
fn calendar_number(value: &Value) -> Option<i64> {
    let Value::Object(object) = value else { return None };
    let known =
        matches!(object.kind(), Kind::Int(_)) && matches!(object.type_name(), "time.Month" | "time.Weekday");
    match object.underlying() {
        Some(Value::Int(n, _)) if known => Some(n),
        _ => None,
    }
}

/// Go's `int64(f)` on amd64: out of range values become the smallest integer.
fn float_to_int64(n: f64) -> i64 {
    // 2^63 is the first float above the range.
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&n) { n as i64 } else { i64::MIN }
}

/// Drops ".000" at the end, as cast does before it reads an integer.
fn trim_zero_decimal(text: &[u8]) -> &[u8] {
    let zeros = text.iter().rev().take_while(|b| **b == b'0').count();
    let whole = text.get(..text.len() - zeros).unwrap_or(text);
    match whole.strip_suffix(b".") {
        Some(integer) if zeros > 0 => integer,
        _ => text,
    }
}

/// Parses a decimal integer as `strconv` does with its error ignored: clamped if out of range, else 0.
pub(super) fn nearest_int(text: &[u8]) -> i64 {
    strconv::parse_int(text, 10, 64).unwrap_or_else(|error| match error.kind {
        NumErrorKind::Range if text.starts_with(b"-") => i64::MIN,
        NumErrorKind::Range => i64::MAX,
        _ => 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_as_go_literals() {
        let int = |text: &str| to_int64(&Value::string(text));
        assert_eq!(int("42"), 42);
        assert_eq!(int("08"), 0);
        assert_eq!(int("010"), 8);
        assert_eq!(int("0x_1f"), 31);
        assert_eq!(int("12.00"), 12);
        assert_eq!(int("12.50"), 0);
        assert_eq!(int("9223372036854775808"), 0);
        assert_eq!(to_int64(&Value::float(1e19)), i64::MIN);
        assert_eq!(to_int64(&Value::float(-2.9)), -2);
        assert_eq!(nearest_int(b"-99999999999999999999"), i64::MIN);
    }
}
