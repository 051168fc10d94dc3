//! How sprig makes numbers of any value: by spf13/cast, which gives 0 for what it cannot read.

use steersman_gotemplate::{Kind, Value};

/// `cast.ToInt64`, which on 64-bit machines is `cast.ToInt` too.
pub(super) fn to_int64(value: &Value) -> i64 {
    match value {
        Value::Int(n, _) => *n,
        #[expect(clippy::cast_possible_wrap, reason = "Go's conversion wraps")]
        Value::Uint(n, _) => *n as i64,
        Value::Float(n, _) => float_to_int64(*n),
        Value::Bool(b) => i64::from(*b),
        Value::String(text) => {
            text.as_str().and_then(|text| parse_int(trim_zero_decimal(text), 0)).unwrap_or(0)
        }
        Value::Object(_) => calendar_number(value).unwrap_or(0),
        _ => 0,
    }
}

/// `cast.ToFloat64`.
#[expect(clippy::cast_precision_loss, reason = "Go's conversion rounds")]
pub(super) fn to_float64(value: &Value) -> f64 {
    match value {
        Value::Int(n, _) => *n as f64,
        Value::Uint(n, _) => *n as f64,
        Value::Float(n, _) => *n,
        Value::Bool(b) => f64::from(u8::from(*b)),
        Value::String(text) => text.as_str().and_then(parse_float).unwrap_or(0.0),
        Value::Object(_) => calendar_number(value).unwrap_or(0) as f64,
        _ => 0.0,
    }
}

/// Months and weekdays are the only named integers that cast knows.
fn calendar_number(value: &Value) -> Option<i64> {
    let Value::Object(object) = value else { return None };
    let known =
        matches!(object.kind(), Kind::Int(_)) && matches!(object.type_name(), "time.Month" | "time.Weekday");
    match object.underlying() {
        Some(Value::Int(n, _)) if known => Some(n),
        _ => None,
    }
}

/// Go's `int64(f)` on amd64: what does not fit gives the smallest integer.
pub(super) fn float_to_int64(n: f64) -> i64 {
    // 2^63 is the first float above the range.
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&n) {
        #[expect(clippy::cast_possible_truncation, reason = "in range, the fraction is to be dropped")]
        return n as i64;
    }
    i64::MIN
}

/// Drops ".000" at the end, as cast does before it reads an integer.
fn trim_zero_decimal(text: &str) -> &str {
    let whole = text.trim_end_matches('0');
    match whole.strip_suffix('.') {
        Some(integer) if whole.len() < text.len() => integer,
        _ => text,
    }
}

/// `strconv.ParseInt`; base 0 reads Go's prefixes and underscores. `None` for errors, those of range included.
pub(super) fn parse_int(text: &str, base: u32) -> Option<i64> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let magnitude = i128::from(parse_uint(digits, base)?);
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

fn parse_uint(text: &str, base: u32) -> Option<u64> {
    if base != 0 {
        return plain_digits(text, base);
    }
    let lower = text.to_ascii_lowercase();
    let (digits, base) = if let Some(digits) = lower.strip_prefix("0x") {
        (digits, 16)
    } else if let Some(digits) = lower.strip_prefix("0b") {
        (digits, 2)
    } else if let Some(digits) = lower.strip_prefix("0o") {
        (digits, 8)
    } else if lower.len() > 1
        && let Some(digits) = lower.strip_prefix('0')
    {
        (digits, 8)
    } else {
        // Without a prefix underscores stand between digits only.
        if lower.starts_with('_') {
            return None;
        }
        (lower.as_str(), 10)
    };
    if digits.ends_with('_') || digits.contains("__") {
        return None;
    }
    plain_digits(&digits.replace('_', ""), base)
}

fn plain_digits(text: &str, base: u32) -> Option<u64> {
    // Rust's parser takes a sign here, Go's does not.
    if text.is_empty() || text.starts_with(['+', '-']) {
        return None;
    }
    u64::from_str_radix(text, base).ok()
}

/// `strconv.ParseFloat(text, 64)`; `None` for errors, those of range included.
pub(super) fn parse_float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let lower = unsigned.to_ascii_lowercase();
    let negative = text.starts_with('-');
    let signed = |n: f64| if negative { -n } else { n };
    match lower.as_str() {
        "inf" | "infinity" => return Some(signed(f64::INFINITY)),
        "nan" if unsigned.len() == text.len() => return Some(f64::NAN),
        _ => {}
    }
    if let Some(hex) = lower.strip_prefix("0x") {
        return parse_hex_float(hex).map(signed);
    }
    if lower.starts_with(|c: char| !c.is_ascii_digit() && c != '.') || lower.contains(['i', 'n']) {
        return None;
    }
    // An underscore stands between two digits.
    let digit =
        |at: Option<usize>| at.and_then(|at| lower.as_bytes().get(at)).is_some_and(u8::is_ascii_digit);
    if lower.match_indices('_').any(|(at, _)| !digit(at.checked_sub(1)) || !digit(Some(at + 1))) {
        return None;
    }
    let n: f64 = lower.replace('_', "").parse().ok()?;
    n.is_finite().then(|| signed(n))
}

/// A hexadecimal float after its `0x`: the exponent is required, underscores may stand between digits.
fn parse_hex_float(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once('p')?;
    if mantissa.ends_with('_')
        || mantissa.contains("__")
        || mantissa.contains("_.")
        || mantissa.contains("._")
    {
        return None;
    }
    let exponent: i64 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: String = whole.chars().chain(fraction.chars()).filter(|c| *c != '_').collect();
    if digits.is_empty() {
        return None;
    }
    let fraction_digits = i64::try_from(fraction.chars().filter(|c| *c != '_').count()).ok()?;
    // A u128 holds 32 digits; more than a double keeps anyway, and the rest only counts as a sticky bit.
    let (kept, dropped) = digits.split_at(digits.len().min(30));
    let mut bits = u128::from_str_radix(kept, 16).ok()?;
    let sticky = dropped.chars().try_fold(false, |sticky, c| Some(sticky | (c.to_digit(16)? != 0)))?;
    bits = bits << 1 | u128::from(sticky);
    let scale = exponent - 4 * fraction_digits + 4 * i64::try_from(dropped.len()).ok()? - 1;
    scale_by_power_of_two(bits, scale)
}

/// `bits * 2^scale`, rounded once to the nearest double; `None` if it overflows.
fn scale_by_power_of_two(bits: u128, scale: i64) -> Option<f64> {
    if bits == 0 {
        return Some(0.0);
    }
    let width = i64::from(128 - bits.leading_zeros());
    let top = width + scale;
    if top > 1024 {
        return None;
    }
    // Bits that a double of this size keeps: fewer where it is subnormal.
    let keep = 53.min(top + 1074);
    if keep < 0 {
        return Some(0.0);
    }
    let drop = width - keep;
    let (mut kept, mut exponent) = (bits, scale);
    if drop > 0 {
        let half = 1u128 << (drop - 1);
        let rest = bits & ((half << 1) - 1);
        kept = if drop == 128 { 0 } else { bits >> drop };
        exponent += drop;
        if rest > half || (rest == half && kept & 1 == 1) {
            kept += 1;
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "at most 53 bits are left")]
    let mut n = kept as f64;
    while exponent > 0 {
        let step = exponent.min(1000);
        n *= 2f64.powi(i32::try_from(step).ok()?);
        exponent -= step;
    }
    while exponent < 0 {
        let step = (-exponent).min(1000);
        n /= 2f64.powi(i32::try_from(step).ok()?);
        exponent += step;
    }
    n.is_finite().then_some(n)
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
        assert_eq!(int("-0b101"), -5);
        assert_eq!(int("1_000"), 1000);
        assert_eq!(int("12.00"), 12);
        assert_eq!(int("12.50"), 0);
        assert_eq!(int("9223372036854775808"), 0);
        assert_eq!(int("+-1"), 0);
        assert_eq!(to_int64(&Value::float(1e19)), i64::MIN);
        assert_eq!(to_int64(&Value::float(-2.9)), -2);
    }

    #[test]
    fn floats_are_read_as_go_literals() {
        let float = |text: &str| to_float64(&Value::string(text));
        assert_eq!(float("1.5e3"), 1500.0);
        assert_eq!(float(".5"), 0.5);
        assert_eq!(float("0x1.8p1"), 3.0);
        assert_eq!(float("-Infinity"), f64::NEG_INFINITY);
        assert_eq!(float("1e400"), 0.0);
        assert_eq!(float("1_0"), 10.0);
        assert_eq!(float("1__0"), 0.0);
        assert_eq!(float("1.5 "), 0.0);
    }
}
