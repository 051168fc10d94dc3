//! Go's `time.Duration`: nanoseconds, read and written as `1h30m`.

use std::any::Any;

use steersman_gotemplate::{CallError, IntType, Kind, Object, Signature, Type, Value};

use super::unicode;

pub(super) const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// A duration in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Duration(pub(super) i64);

impl Duration {
    /// `time.ParseDuration`; the error is Go's text.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        let fail = |what: &str| format!("time: {what} {}", quote(text));
        let invalid = || fail("invalid duration");
        let (negative, mut rest) = match text.split_first() {
            Some((b'-', rest)) => (true, rest),
            Some((b'+', rest)) => (false, rest),
            _ => (false, text),
        };
        if rest == b"0" {
            return Ok(Self(0));
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
            // A float keeps nanoseconds exact up to hours, the largest unit.
            let part = whole * nanos + (fraction as f64 * (nanos as f64 / scale)) as u64;
            total = total
                .checked_add(part)
                .filter(|total| part <= 1 << 63 && *total <= 1 << 63)
                .ok_or_else(invalid)?;
        }
        if negative {
            // -2^63 is its own negation.
            return Ok(Self((total as i64).wrapping_neg()));
        }
        i64::try_from(total).map(Self).map_err(|_| invalid())
    }

    /// Rounded to a multiple of `unit`, halves away from zero.
    pub(super) fn round(self, unit: Self) -> Self {
        if unit.0 <= 0 {
            return self;
        }
        let rest = (self.0 % unit.0).abs();
        let away = i128::from(rest) * 2 >= i128::from(unit.0);
        let toward_zero = self.0 - self.0 % unit.0;
        Self(match (away, self.0 < 0) {
            (false, _) => toward_zero,
            (true, true) => toward_zero.checked_sub(unit.0).unwrap_or(i64::MIN),
            (true, false) => toward_zero.checked_add(unit.0).unwrap_or(i64::MAX),
        })
    }

    fn truncate(self, unit: Self) -> Self {
        if unit.0 <= 0 { self } else { Self(self.0 - self.0 % unit.0) }
    }

    /// As a value that templates can ask for its hours and minutes.
    pub(super) fn into_value(self) -> Value {
        Value::Object(std::rc::Rc::new(self))
    }
}

impl std::fmt::Display for Duration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        let second = SECOND.unsigned_abs();
        match nanos {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanos}ns"),
            1_000..1_000_000 => write!(f, "{}µs", Fraction(nanos, 1_000)),
            _ if nanos < second => write!(f, "{}ms", Fraction(nanos, 1_000_000)),
            _ => {
                let minutes = nanos / second / 60;
                if minutes >= 60 {
                    write!(f, "{}h", minutes / 60)?;
                }
                if minutes > 0 {
                    write!(f, "{}m", minutes % 60)?;
                }
                write!(f, "{}s", Fraction(nanos % (60 * second), second))
            }
        }
    }
}

/// `.0 / .1`, with as many decimals as it takes; the latter is a power of ten.
struct Fraction(u64, u64);

impl std::fmt::Display for Fraction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0 / self.1)?;
        match self.0 % self.1 {
            0 => Ok(()),
            rest => {
                let digits = self.1.ilog10() as usize;
                write!(f, ".{}", format!("{rest:0digits$}").trim_end_matches('0'))
            }
        }
    }
}

/// The number at the start and what follows; `None` if it overflows.
pub(super) fn leading_int(text: &[u8]) -> Option<(u64, &[u8])> {
    let len = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let (digits, rest) = text.split_at_checked(len)?;
    let mut n = 0u64;
    for digit in digits {
        n = n.checked_mul(10)?.checked_add(u64::from(digit - b'0')).filter(|n| *n <= 1 << 63)?;
    }
    Some((n, rest))
}

/// The digits after a decimal point as a number, what to divide it by, and what follows. Digits that would overflow
/// are dropped.
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

/// The `time` package's own quoting: bytes that are not printable ASCII as `\xNN`.
pub(super) fn quote(text: &[u8]) -> String {
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

const NAME: &str = "time.Duration";

impl Object for Duration {
    fn type_name(&self) -> &str {
        NAME
    }

    fn kind(&self) -> Kind {
        Kind::Int(IntType::Int64)
    }

    fn method(&self, name: &str) -> Option<Signature> {
        match name {
            "Hours" | "Minutes" | "Seconds" | "Milliseconds" | "Microseconds" | "Nanoseconds" | "String"
            | "Abs" => Some(Signature { params: &[], variadic: None }),
            "Round" | "Truncate" => Some(Signature { params: &[Type::Named(NAME)], variadic: None }),
            _ => None,
        }
    }

    fn call(&self, name: &str, args: &[Value]) -> Result<Value, CallError> {
        // Whole units and the rest apart, so that large durations keep their nanoseconds.
        let float = |unit: i64| Value::float((self.0 / unit) as f64 + (self.0 % unit) as f64 / unit as f64);
        Ok(match name {
            "Hours" => float(HOUR),
            "Minutes" => float(MINUTE),
            "Seconds" => float(SECOND),
            "Milliseconds" => Value::int64(self.0 / 1_000_000),
            "Microseconds" => Value::int64(self.0 / 1_000),
            "Nanoseconds" => Value::int64(self.0),
            "Abs" => Self(self.0.checked_abs().unwrap_or(i64::MAX)).into_value(),
            "Round" => self.round(Self::argument(args)?).into_value(),
            "Truncate" => self.truncate(Self::argument(args)?).into_value(),
            _ => Value::string(self.to_string()),
        })
    }

    fn display(&self) -> String {
        self.to_string()
    }

    fn is_stringer(&self) -> bool {
        true
    }

    fn json(&self) -> Value {
        Value::int64(self.0)
    }

    fn truth(&self) -> bool {
        self.0 != 0
    }

    fn underlying(&self) -> Option<Value> {
        Some(Value::int64(self.0))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Duration {
    /// The duration that a method was given, a plain integer constant included.
    pub(super) fn argument(args: &[Value]) -> Result<Self, CallError> {
        match args.first() {
            Some(Value::Int(n, _)) => Some(Self(*n)),
            Some(Value::Object(object)) => object.as_any().downcast_ref::<Self>().copied(),
            _ => None,
        }
        .ok_or_else(|| CallError::new("expected time.Duration"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_and_write_as_in_go() {
        for (text, nanos, canonical) in [
            ("1h15m30.918s", 4_530_918_000_000, "1h15m30.918s"),
            ("-1.5h", -5_400_000_000_000, "-1h30m0s"),
            ("100ms", 100_000_000, "100ms"),
            ("1500us", 1_500_000, "1.5ms"),
            ("3µs", 3_000, "3µs"),
            ("0", 0, "0s"),
            ("-9223372036854775808ns", i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            let duration = Duration::parse(text.as_bytes()).unwrap();
            assert_eq!((duration.0, duration.to_string().as_str()), (nanos, canonical), "{text}");
        }
        let error = |text: &str| Duration::parse(text.as_bytes()).unwrap_err();
        assert_eq!(error("1"), r#"time: missing unit in duration "1""#);
        assert_eq!(error("1d"), r#"time: unknown unit "d" in duration "1d""#);
        assert_eq!(error("é"), r#"time: invalid duration "\xc3\xa9""#);
    }
}
