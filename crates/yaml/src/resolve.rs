//! Types of plain scalars, by YAML 1.1 as goyaml implements it.

use crate::go;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Resolved {
    Null,
    Bool(bool),
    Int(i64),
    /// Only if an `i64` cannot hold the value.
    Uint(u64),
    Float(f64),
    /// Read as a string, but a string of this form is quoted.
    Timestamp,
    String,
}

impl Resolved {
    /// Returns the short tag used in goyaml's messages.
    pub(crate) fn tag(self) -> &'static str {
        match self {
            Resolved::Null => "!!null",
            Resolved::Bool(_) => "!!bool",
            Resolved::Int(_) | Resolved::Uint(_) => "!!int",
            Resolved::Float(_) => "!!float",
            Resolved::Timestamp => "!!timestamp",
            Resolved::String => "!!str",
        }
    }
}

/// Resolves a plain scalar. `timestamps` is false if a tag requires another type: dates are then not recognized.
#[inline]
pub(crate) fn resolve(text: &str, timestamps: bool) -> Resolved {
    match text.as_bytes().first() {
        None => Resolved::Null,
        Some(b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~') => {
            resolve_word(text)
        }
        Some(b'0'..=b'9' | b'+' | b'-') => resolve_number(text, timestamps),
        Some(b'.') => resolve_point(text),
        _ => Resolved::String,
    }
}

fn resolve_word(text: &str) -> Resolved {
    if text.len() > 5 {
        return Resolved::String;
    }
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Resolved::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Resolved::Bool(false)
        }
        "~" | "null" | "Null" | "NULL" => Resolved::Null,
        _ => Resolved::String,
    }
}

fn resolve_point(text: &str) -> Resolved {
    match text {
        ".nan" | ".NaN" | ".NAN" => return Resolved::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" => return Resolved::Float(f64::INFINITY),
        _ => {}
    }
    if !underscores_separate_digits(text) {
        return Resolved::String;
    }
    let plain = without_underscores(text);
    match is_decimal(&plain).then(|| finite(&plain)).flatten() {
        Some(value) => Resolved::Float(value),
        None => Resolved::String,
    }
}

fn resolve_number(text: &str, timestamps: bool) -> Resolved {
    match text {
        "+.inf" | "+.Inf" | "+.INF" => return Resolved::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Resolved::Float(f64::NEG_INFINITY),
        _ => {}
    }
    // The forms below use only these bytes, and so do most strings that begin with a digit.
    if !text.bytes().all(|byte| byte.is_ascii_hexdigit() || b"xXoO_+-.:tTzZ, ".contains(&byte)) {
        return Resolved::String;
    }
    if timestamps && is_timestamp(text) {
        return Resolved::Timestamp;
    }
    let plain = without_underscores(text);
    if let Some(value) = go::parse_int(&plain) {
        return Resolved::Int(value);
    }
    if let Some(value) = go::parse_uint(&plain) {
        return Resolved::Uint(value);
    }
    if let Some(value) = is_decimal(&plain).then(|| finite(&plain)).flatten() {
        return Resolved::Float(value);
    }
    resolve_binary(&plain)
}

/// Parses a binary integer. A sign may follow the prefix: `0b-1`.
fn resolve_binary(plain: &str) -> Resolved {
    let digits = match (plain.strip_prefix("0b"), plain.strip_prefix("-0b")) {
        (Some(digits), _) => digits.to_owned(),
        (_, Some(digits)) => format!("-{digits}"),
        _ => return Resolved::String,
    };
    i64::from_str_radix(&digits, 2).map_or(Resolved::String, Resolved::Int)
}

fn without_underscores(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains('_') { text.replace('_', "").into() } else { text.into() }
}

fn finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

/// Matches `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`.
fn is_decimal(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (text, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| !exponent.is_empty() && digits(exponent))
}

/// Go's rule for underscores in numbers that goyaml passes on unchanged, which all begin with a point.
fn underscores_separate_digits(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    bytes
        .iter()
        .enumerate()
        .filter(|&(_, &byte)| byte == b'_')
        .all(|(at, _)| is_digit(at.checked_sub(1)) && is_digit(Some(at + 1)))
}

/// Whether it has the form `0o-17`, which only goyaml v3 reads as a number.
pub(crate) fn is_signed_octal(text: &str) -> bool {
    let plain = without_underscores(text);
    plain.strip_prefix("0o").is_some_and(|digits| i64::from_str_radix(digits, 8).is_ok())
}

/// Whether other YAML 1.1 parsers would read the string as a number in base 60.
///
/// The form is `[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?`
pub(crate) fn is_base_60(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !text.starts_with(|first: char| first.is_ascii_digit()) {
        return false;
    }
    let (places, fraction) = text.split_once('.').unwrap_or((text, ""));
    let loose_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let mut places = places.split(':');
    let first = places.next().unwrap_or_default();
    let mut count = 0;
    let sixties = places.all(|place| {
        count += 1;
        matches!(place.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9'])
    });
    loose_digits(first) && sixties && count > 0 && loose_digits(fraction)
}

/// Whether it is a date or time in a form of goyaml's.
///
/// A date may be alone, or followed by `T` or `t` and a time with a zone, or by blanks and a time without a zone.
pub(crate) fn is_timestamp(text: &str) -> bool {
    let mut rest = Digits(text.as_bytes());
    let Some(year) = rest.exactly_four() else {
        return false;
    };
    let date = (|| {
        rest.byte(b'-')?;
        let month = rest.one_or_two()?;
        rest.byte(b'-')?;
        let day = rest.one_or_two()?;
        (matches!(month, 1..=12) && day >= 1 && day <= days_in(month, year)).then_some(())
    })();
    if date.is_none() {
        return false;
    }
    match rest.0.first() {
        None => true,
        Some(b'T' | b't') => {
            rest.0 = &rest.0[1..];
            rest.time().is_some() && rest.zone().is_some() && rest.0.is_empty()
        }
        Some(b' ') => {
            while let [b' ', more @ ..] = rest.0 {
                rest.0 = more;
            }
            rest.time().is_some() && rest.0.is_empty()
        }
        Some(_) => false,
    }
}

fn days_in(month: u32, year: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        _ => 31,
    }
}

struct Digits<'a>(&'a [u8]);

impl Digits<'_> {
    fn byte(&mut self, byte: u8) -> Option<()> {
        let (&first, rest) = self.0.split_first()?;
        (first == byte).then(|| self.0 = rest)
    }

    fn digit(&mut self) -> Option<u32> {
        let (&first, rest) = self.0.split_first()?;
        let digit = char::from(first).to_digit(10)?;
        self.0 = rest;
        Some(digit)
    }

    fn exactly_four(&mut self) -> Option<u32> {
        let mut value = 0;
        for _ in 0..4 {
            value = value * 10 + self.digit()?;
        }
        Some(value)
    }

    fn one_or_two(&mut self) -> Option<u32> {
        let first = self.digit()?;
        Some(self.digit().map_or(first, |second| first * 10 + second))
    }

    fn two(&mut self) -> Option<u32> {
        Some(self.digit()? * 10 + self.digit()?)
    }

    fn time(&mut self) -> Option<()> {
        let hour = self.one_or_two()?;
        self.byte(b':')?;
        let minute = self.one_or_two()?;
        self.byte(b':')?;
        let second = self.one_or_two()?;
        if let [b'.' | b',', b'0'..=b'9', ..] = self.0 {
            self.0 = &self.0[1..];
            while self.digit().is_some() {}
        }
        (hour < 24 && minute < 60 && second < 60).then_some(())
    }

    fn zone(&mut self) -> Option<()> {
        if self.byte(b'Z').is_some() {
            return Some(());
        }
        self.byte(b'+').or_else(|| self.byte(b'-'))?;
        let hour = self.two()?;
        self.byte(b':')?;
        let minute = self.two()?;
        (hour <= 24 && minute <= 60).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        for text in ["y", "Y", "yes", "YES", "true", "on", "On"] {
            assert_eq!(resolve(text, true), Resolved::Bool(true), "{text}");
        }
        for text in ["n", "N", "no", "NO", "false", "OFF"] {
            assert_eq!(resolve(text, true), Resolved::Bool(false), "{text}");
        }
        for text in ["", "~", "null", "Null", "NULL"] {
            assert_eq!(resolve(text, true), Resolved::Null, "{text}");
        }
        for text in ["yEs", "nuLL", "<<", "=", "oN", "truely", "nil"] {
            assert_eq!(resolve(text, true), Resolved::String, "{text}");
        }
    }

    #[test]
    fn numbers() {
        for (text, value) in [
            ("017", Resolved::Int(15)),
            ("0o17", Resolved::Int(15)),
            ("0b11", Resolved::Int(3)),
            ("0b-11", Resolved::Int(-3)),
            ("-0b11", Resolved::Int(-3)),
            ("1_000", Resolved::Int(1000)),
            ("+_1", Resolved::Int(1)),
            ("0x1F", Resolved::Int(31)),
            ("-0", Resolved::Int(0)),
            ("9223372036854775808", Resolved::Uint(1 << 63)),
            ("08", Resolved::Float(8.0)),
            ("1.", Resolved::Float(1.0)),
            (".5", Resolved::Float(0.5)),
            (".5_0", Resolved::Float(0.5)),
            ("1e3", Resolved::Float(1000.0)),
            ("1_0.5", Resolved::Float(10.5)),
            ("18446744073709551616", Resolved::Float(18_446_744_073_709_551_616.0)),
            ("-.inf", Resolved::Float(f64::NEG_INFINITY)),
        ] {
            assert_eq!(resolve(text, true), value, "{text}");
        }
        for text in [
            "1e400", "0x", "-", "+", "--1", "12:30", "12:30:45", "1.2.3", "._5", ".5_", "._", ".", "1e",
            "0x1p3", "-0b-1",
        ] {
            assert_eq!(resolve(text, true), Resolved::String, "{text}");
        }
    }

    #[test]
    fn timestamps() {
        for text in [
            "2001-01-01",
            "2001-1-1",
            "2024-02-29",
            "2001-12-14t21:59:43.10-05:00",
            "2001-12-14T1:2:3Z",
            "2001-12-14   21:59:43,1",
        ] {
            assert_eq!(resolve(text, true), Resolved::Timestamp, "{text}");
        }
        for text in [
            "2001-02-29",
            "2001-13-01",
            "2001-12-14T21:59:43",
            "2001-12-14 21:59:43Z",
            "2001-12-14 ",
            "2001-12-14T24:00:00Z",
            "2001-12-14T23:60:00Z",
            "2001-12-14T23:59:60Z",
            "201-01-01",
            "20011-01-01",
        ] {
            assert_eq!(resolve(text, true), Resolved::String, "{text}");
        }
    }

    #[test]
    fn base_60() {
        for text in ["12:30:45", "1:2", "+1_0:59.5_", "-1:0"] {
            assert!(is_base_60(text), "{text}");
        }
        for text in ["12:60", "12", "1:", ":1", "a:1", "1:123", "1:2.x"] {
            assert!(!is_base_60(text), "{text}");
        }
    }
}
