//! Go's `time.Duration`: nanoseconds, read and written as `1h30m`.

use crate::unicode;

/// Nanoseconds in a second.
pub const SECOND: i64 = 1_000_000_000;
/// Nanoseconds in a minute.
pub const MINUTE: i64 = 60 * SECOND;
/// Nanoseconds in an hour.
pub const HOUR: i64 = 60 * MINUTE;

/// Error for an invalid duration; displays as the error of Go's `time.ParseDuration` does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("time: {problem} {}", quote(.input))]
pub struct DurationError {
    /// What is wrong, such as `invalid duration`.
    problem: String,
    input: Vec<u8>,
}

/// Go's `time.ParseDuration`, in nanoseconds.
///
/// # Errors
/// If the input is not a duration, or does not fit 64 bits.
pub fn parse_duration(text: &[u8]) -> Result<i64, DurationError> {
    let fail = |problem: &str| DurationError { problem: problem.to_owned(), input: text.to_vec() };
    let invalid = || fail("invalid duration");
    let (negative, mut rest) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    };
    if rest == b"0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = 0u64;
    while !rest.is_empty() {
        let (whole, after) = leading_int(rest).ok_or_else(invalid)?;
        let mut has_digits = after.len() < rest.len();
        rest = after;
        let (mut fraction, mut scale) = (0, 1.0);
        if let Some(after_point) = rest.strip_prefix(b".") {
            (fraction, scale, rest) = leading_fraction(after_point);
            has_digits |= rest.len() < after_point.len();
        }
        if !has_digits {
            return Err(invalid());
        }
        let end = rest.iter().position(|b| *b == b'.' || b.is_ascii_digit()).unwrap_or(rest.len());
        let (unit, after) = rest.split_at_checked(end).unwrap_or((rest, &[]));
        rest = after;
        let nanos: u64 = match unit {
            b"" => return Err(fail("missing unit in duration")),
            b"ns" => 1,
            b"us" | b"\xC2\xB5s" | b"\xCE\xBCs" => 1_000,
            b"ms" => 1_000_000,
            b"s" => SECOND.unsigned_abs(),
            b"m" => MINUTE.unsigned_abs(),
            b"h" => HOUR.unsigned_abs(),
            unit => return Err(fail(&format!("unknown unit {} in duration", quote(unit)))),
        };
        if whole > (1 << 63) / nanos {
            return Err(invalid());
        }
        // A float is exact enough here: it holds nanoseconds up to hours, the largest unit.
        let part = whole * nanos + (fraction as f64 * (nanos as f64 / scale)) as u64;
        total = total
            .checked_add(part)
            .filter(|total| part <= 1 << 63 && *total <= 1 << 63)
            .ok_or_else(invalid)?;
    }
    if negative {
        // -2^63 is its own negation.
        return Ok((total as i64).wrapping_neg());
    }
    i64::try_from(total).map_err(|_| invalid())
}

/// Go's `Duration.String`.
#[must_use]
pub fn format_duration(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let second = SECOND.unsigned_abs();
    match nanos {
        0 => "0s".to_owned(),
        1..1_000 => format!("{sign}{nanos}ns"),
        1_000..1_000_000 => format!("{sign}{}µs", fraction(nanos, 1_000)),
        _ if nanos < second => format!("{sign}{}ms", fraction(nanos, 1_000_000)),
        _ => {
            let minutes = nanos / second / 60;
            let mut out = sign.to_owned();
            if minutes >= 60 {
                out += &format!("{}h", minutes / 60);
            }
            if minutes > 0 {
                out += &format!("{}m", minutes % 60);
            }
            out + &fraction(nanos % (60 * second), second) + "s"
        }
    }
}

/// Formats `amount / unit` with as many decimals as needed; the unit is a power of ten.
fn fraction(amount: u64, unit: u64) -> String {
    match amount % unit {
        0 => (amount / unit).to_string(),
        rest => {
            let digits = unit.ilog10() as usize;
            format!("{}.{}", amount / unit, format!("{rest:0digits$}").trim_end_matches('0'))
        }
    }
}

/// Parses the number at the start, and returns it with the rest; `None` if it exceeds 2^63.
#[must_use]
pub fn leading_int(text: &[u8]) -> Option<(u64, &[u8])> {
    let len = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let (digits, rest) = text.split_at_checked(len)?;
    let mut n = 0u64;
    for digit in digits {
        n = n.checked_mul(10)?.checked_add(u64::from(digit - b'0')).filter(|n| *n <= 1 << 63)?;
    }
    Some((n, rest))
}

/// Parses the digits after a decimal point: the number, its divisor and the rest.
///
/// Digits that would overflow are dropped.
fn leading_fraction(text: &[u8]) -> (u64, f64, &[u8]) {
    let len = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let (digits, rest) = text.split_at_checked(len).unwrap_or((text, &[]));
    let (mut n, mut scale) = (0u64, 1.0);
    for digit in digits {
        if n > ((1 << 63) - 1) / 10 {
            break;
        }
        let next = n * 10 + u64::from(digit - b'0');
        if next > 1 << 63 {
            break;
        }
        n = next;
        scale *= 10.0;
    }
    (n, scale, rest)
}

/// Quotes as Go's `time` package does: bytes that are not printable ASCII become `\xNN`.
#[must_use]
pub fn quote(text: &[u8]) -> String {
    let mut out = String::from("\"");
    for (c, raw) in unicode::chars(text) {
        if c.is_ascii() && c >= ' ' {
            if c == '"' || c == '\\' {
                out.push('\\');
            }
            out.push(c);
        } else {
            for byte in raw {
                out.push_str(&format!("\\x{byte:02x}"));
            }
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written_as_go_does() {
        for (text, nanos, written) in [
            ("0", 0, "0s"),
            ("1h30m", 90 * MINUTE, "1h30m0s"),
            ("-1.5s", -1_500_000_000, "-1.5s"),
            ("+1us", 1_000, "1µs"),
            ("1µs1μs", 2_000, "2µs"),
            (".5ms", 500_000, "500µs"),
            ("1.000000001s", 1_000_000_001, "1.000000001s"),
            ("999ns", 999, "999ns"),
            ("100h", 100 * HOUR, "100h0m0s"),
            ("-2562047h47m16.854775808s", i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(parse_duration(text.as_bytes()), Ok(nanos), "{text}");
            assert_eq!(format_duration(nanos), written, "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_in_gos_words() {
        for (text, problem) in [
            ("", "time: invalid duration \"\""),
            ("-", "time: invalid duration \"-\""),
            (".s", "time: invalid duration \".s\""),
            ("1", "time: missing unit in duration \"1\""),
            ("1d", "time: unknown unit \"d\" in duration \"1d\""),
            ("1é", "time: unknown unit \"\\xc3\\xa9\" in duration \"1\\xc3\\xa9\""),
            ("2562047h47m16.854775808s", "time: invalid duration \"2562047h47m16.854775808s\""),
            ("9223372036854775809ns", "time: invalid duration \"9223372036854775809ns\""),
        ] {
            assert_eq!(parse_duration(text.as_bytes()).unwrap_err().to_string(), problem);
        }
    }
}
