//! How Go prints and parses numbers and strings, where Rust's way differs.

use std::{
    fmt::{LowerExp, Write as _},
    str::FromStr,
};

/// The shortest decimal digits that read back as the same number, and the power of ten of the first one.
struct Digits {
    negative: bool,
    digits: String,
    exponent: i32,
}

impl Digits {
    fn of<F: LowerExp + FromStr + PartialEq>(value: F) -> Self {
        let shortest = Digits::from_scientific(&format!("{value:e}"));
        // Where two decimals are equally near, Rust takes the upper and Go the even one, as exact formatting does. Fewer
        // digits than these have no such neighbours.
        if shortest.digits.len() < 7 {
            return shortest;
        }
        let exact = format!("{value:.*e}", shortest.digits.len() - 1);
        if exact.parse().is_ok_and(|parsed: F| parsed == value) {
            Digits::from_scientific(&exact)
        } else {
            shortest
        }
    }

    /// From Rust's `{:e}` form.
    fn from_scientific(text: &str) -> Self {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        Digits {
            negative,
            digits: mantissa.chars().filter(char::is_ascii_digit).collect(),
            exponent: exponent.parse().unwrap_or(0),
        }
    }

    /// `d.ddde±xx`, the exponent with at least `width` digits.
    fn scientific(&self, width: usize) -> String {
        let mut out = self.sign();
        let (first, rest) = self.digits.split_at(1.min(self.digits.len()));
        out.push_str(first);
        if !rest.is_empty() {
            out.push('.');
            out.push_str(rest);
        }
        let sign = if self.exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "e{sign}{:0width$}", self.exponent.unsigned_abs());
        out
    }

    /// Digits with a decimal point where it falls.
    fn positional(&self) -> String {
        let mut out = self.sign();
        let Ok(exponent) = usize::try_from(self.exponent) else {
            out.push_str("0.");
            out.extend(std::iter::repeat_n('0', self.exponent.unsigned_abs() as usize - 1));
            out.push_str(&self.digits);
            return out;
        };
        let whole = exponent + 1;
        match self.digits.split_at_checked(whole) {
            Some((whole, "")) => out.push_str(whole),
            Some((whole, fraction)) => {
                let _ = write!(out, "{whole}.{fraction}");
            }
            None => {
                out.push_str(&self.digits);
                out.extend(std::iter::repeat_n('0', whole - self.digits.len()));
            }
        }
        out
    }

    fn sign(&self) -> String {
        if self.negative { "-".to_owned() } else { String::new() }
    }

    fn general(&self) -> String {
        if (-4..6).contains(&self.exponent) { self.positional() } else { self.scientific(2) }
    }
}

fn non_finite(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        Some("NaN")
    } else if value.is_infinite() {
        Some(if value > 0.0 { "+Inf" } else { "-Inf" })
    } else {
        None
    }
}

/// `strconv.FormatFloat(value, 'g', -1, 64)`.
pub(crate) fn float_general(value: f64) -> String {
    non_finite(value).map_or_else(|| Digits::of(value).general(), str::to_owned)
}

/// `strconv.FormatFloat(value, 'g', -1, 32)`, which is how sigs.k8s.io/yaml makes strings of numbers.
pub(crate) fn float_general_32(value: f64) -> String {
    let value = value as f32;
    non_finite(f64::from(value)).map_or_else(|| Digits::of(value).general(), str::to_owned)
}

/// A number as encoding/json writes it, or what it is called if it has no JSON form.
pub(crate) fn float_json(value: f64) -> Result<String, &'static str> {
    match non_finite(value) {
        Some(name) => Err(name),
        None => Ok(json_digits(&Digits::of(value), value.abs(), 1e-6, 1e21)),
    }
}

/// As [`float_json`], with the fewer digits that an `f32` needs.
pub(crate) fn float_json_32(value: f32) -> Result<String, &'static str> {
    match non_finite(f64::from(value)) {
        Some(name) => Err(name),
        None => Ok(json_digits(&Digits::of(value), value.abs(), 1e-6, 1e21)),
    }
}

fn json_digits<F: PartialOrd + Default>(digits: &Digits, magnitude: F, low: F, high: F) -> String {
    if magnitude != F::default() && (magnitude < low || magnitude >= high) {
        digits.scientific(1)
    } else {
        digits.positional()
    }
}

/// Whether Go's `unicode.IsPrint` holds, near enough: Rust's tables serve, marks included.
fn is_printable(character: char) -> bool {
    match character {
        ' '..='~' => true,
        '\0'..='\u{A0}' | '\u{AD}' => false,
        _ => character.escape_debug().len() == 1 || is_mark(character),
    }
}

fn is_mark(character: char) -> bool {
    // `escape_debug` escapes marks only for standing at the start of a text.
    format!("a{character}").escape_debug().count() == 2
}

/// `strconv.Quote`.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0C' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0B' => out.push_str("\\v"),
            _ if is_printable(character) => out.push(character),
            '\0'..='\x7F' => {
                let _ = write!(out, "\\x{:02x}", u32::from(character));
            }
            '\0'..='\u{FFFF}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => {
                let _ = write!(out, "\\U{:08x}", u32::from(character));
            }
        }
    }
    out.push('"');
    out
}

/// Bytes as text, each byte that is no UTF-8 replaced on its own.
pub(crate) fn lossy(mut bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    loop {
        match std::str::from_utf8(bytes) {
            Ok(text) => {
                out.push_str(text);
                return out;
            }
            Err(error) => {
                let (valid, rest) = bytes.split_at(error.valid_up_to());
                out.push_str(std::str::from_utf8(valid).unwrap_or_default());
                out.push('\u{FFFD}');
                bytes = rest.get(1..).unwrap_or_default();
            }
        }
    }
}

/// `strconv.ParseInt(text, 0, 64)`, for text without underscores.
pub(crate) fn parse_int(text: &str) -> Option<i64> {
    let (negative, magnitude) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let magnitude = parse_uint(magnitude)?;
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// `strconv.ParseUint(text, 0, 64)`, for text without underscores.
pub(crate) fn parse_uint(text: &str) -> Option<u64> {
    let (digits, radix) = match text.as_bytes() {
        [] => return None,
        [b'0', prefix, _, ..] if matches!(prefix | 0x20, b'b' | b'o' | b'x') => match prefix | 0x20 {
            b'b' => (&text[2..], 2),
            b'o' => (&text[2..], 8),
            _ => (&text[2..], 16),
        },
        [b'0'] => return Some(0),
        [b'0', ..] => (&text[1..], 8),
        _ => (text, 10),
    };
    // Rust would take a sign here, Go does not.
    if digits.starts_with(['+', '-']) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_go_prints_them() {
        for (value, general, json) in [
            (0.0, "0", "0"),
            (-0.0, "-0", "-0"),
            (1.0, "1", "1"),
            (1.5, "1.5", "1.5"),
            (100_000.0, "100000", "100000"),
            (1_000_000.0, "1e+06", "1000000"),
            (12_345_678.0, "1.2345678e+07", "12345678"),
            (0.0001, "0.0001", "0.0001"),
            (0.00001, "1e-05", "0.00001"),
            (1e-7, "1e-07", "1e-7"),
            (181_348_103_489_077.63, "1.8134810348907762e+14", "181348103489077.62"),
            (1e20, "1e+20", "100000000000000000000"),
            (1e21, "1e+21", "1e+21"),
            (-1.25e-100, "-1.25e-100", "-1.25e-100"),
            (f64::MAX, "1.7976931348623157e+308", "1.7976931348623157e+308"),
        ] {
            assert_eq!(float_general(value), general);
            assert_eq!(float_json(value).as_deref(), Ok(json));
        }
        assert_eq!(float_general(f64::NAN), "NaN");
        assert_eq!(float_json(f64::INFINITY), Err("+Inf"));
        assert_eq!(float_general_32(1.1), "1.1");
        assert_eq!(float_general_32(16_777_217.0), "1.6777216e+07");
    }

    #[test]
    fn integers_take_go_prefixes() {
        for (text, value) in [
            ("0", Some(0)),
            ("017", Some(15)),
            ("0o17", Some(15)),
            ("0X1f", Some(31)),
            ("-0b11", Some(-3)),
            ("+12", Some(12)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("08", None),
            ("0x", None),
            ("0x-1", None),
            ("+", None),
            ("--1", None),
            ("", None),
        ] {
            assert_eq!(parse_int(text), value, "{text}");
        }
        assert_eq!(parse_uint("18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_uint("-1"), None);
    }

    #[test]
    fn strings_quote_as_go_quotes_them() {
        assert_eq!(
            quote("a\"\\\n\u{1}\u{7f}é\u{a0}\u{301}\u{10FFFF}"),
            r#""a\"\\\n\x01\x7fé\u00a0"#.to_owned() + "\u{301}\\U0010ffff\""
        );
    }

    #[test]
    fn every_bad_byte_is_replaced() {
        assert_eq!(lossy(b"a\xE2\x80b\xFF"), "a\u{FFFD}\u{FFFD}b\u{FFFD}");
    }
}
