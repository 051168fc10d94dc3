//! Parsing numbers and booleans.

use super::quote::quote;

/// Error for an invalid number; displays as Go's `strconv.NumError` does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("strconv.{function}: parsing {}: {kind}", quote(.input))]
pub struct NumError {
    /// Go's name of the function, such as `ParseInt`.
    pub function: &'static str,
    /// The input.
    pub input: Vec<u8>,
    /// Why it is invalid.
    pub kind: NumErrorKind,
}

/// Why a number is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NumErrorKind {
    /// It is not a number.
    #[error("invalid syntax")]
    Syntax,
    /// It is a number that the type cannot hold.
    #[error("value out of range")]
    Range,
    /// The base is neither 0 nor between 2 and 36.
    #[error("invalid base {0}")]
    Base(u32),
}

impl NumError {
    fn new(function: &'static str, input: &[u8], kind: NumErrorKind) -> Self {
        Self { function, input: input.to_vec(), kind }
    }
}

/// Go's `strconv.ParseUint`: base 0 reads the prefixes `0x`, `0o`, `0b`, `0` and underscores.
pub fn parse_uint(text: &[u8], base: u32, bits: u32) -> Result<u64, NumError> {
    unsigned(text, base, bits).map_err(|kind| NumError::new("ParseUint", text, kind))
}

/// Go's `strconv.ParseInt`; see [`parse_uint`] for the base.
pub fn parse_int(text: &[u8], base: u32, bits: u32) -> Result<i64, NumError> {
    signed(text, base, bits).map_err(|kind| NumError::new("ParseInt", text, kind))
}

/// Go's `strconv.Atoi`: a decimal `int`.
pub fn atoi(text: &[u8]) -> Result<i64, NumError> {
    signed(text, 10, 64).map_err(|kind| NumError::new("Atoi", text, kind))
}

/// Go's `strconv.ParseBool`.
pub fn parse_bool(text: &[u8]) -> Result<bool, NumError> {
    match text {
        b"1" | b"t" | b"T" | b"true" | b"TRUE" | b"True" => Ok(true),
        b"0" | b"f" | b"F" | b"false" | b"FALSE" | b"False" => Ok(false),
        _ => Err(NumError::new("ParseBool", text, NumErrorKind::Syntax)),
    }
}

/// Go's `strconv.ParseFloat` with 64 bits: decimal, hexadecimal (`0x1p-2`), underscores, `inf`, `nan`.
pub fn parse_float(text: &[u8]) -> Result<f64, NumError> {
    float(text).map_err(|kind| NumError::new("ParseFloat", text, kind))
}

fn unsigned(text: &[u8], base: u32, bits: u32) -> Result<u64, NumErrorKind> {
    let any_base = base == 0;
    let (base, digits) = match base {
        2..=36 => (base, text),
        0 => match text {
            [b'0', b'b' | b'B', rest @ ..] if !rest.is_empty() => (2, rest),
            [b'0', b'o' | b'O', rest @ ..] if !rest.is_empty() => (8, rest),
            [b'0', b'x' | b'X', rest @ ..] if !rest.is_empty() => (16, rest),
            [b'0', rest @ ..] => (8, rest),
            _ => (10, text),
        },
        _ => return Err(NumErrorKind::Base(base)),
    };
    if text.is_empty() {
        return Err(NumErrorKind::Syntax);
    }
    let max = if bits == 0 || bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
    let mut value = 0u64;
    let mut underscores = false;
    for &byte in digits {
        if byte == b'_' && any_base {
            underscores = true;
            continue;
        }
        let digit = char::from(byte).to_digit(base).ok_or(NumErrorKind::Syntax)?;
        value = value
            .checked_mul(u64::from(base))
            .and_then(|value| value.checked_add(u64::from(digit)))
            .filter(|&value| value <= max)
            .ok_or(NumErrorKind::Range)?;
    }
    if underscores && !underscores_fit(text) {
        return Err(NumErrorKind::Syntax);
    }
    Ok(value)
}

fn signed(text: &[u8], base: u32, bits: u32) -> Result<i64, NumErrorKind> {
    let (negative, magnitude) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let magnitude = unsigned(magnitude, base, bits)?;
    let limit = 1u64 << (if bits == 0 { 63 } else { bits.clamp(1, 64) - 1 });
    if magnitude > limit || (magnitude == limit && !negative) {
        return Err(NumErrorKind::Range);
    }
    Ok(if negative { 0i64.wrapping_sub_unsigned(magnitude) } else { magnitude.cast_signed() })
}

/// Whether every underscore is between digits; a base prefix counts as a digit.
fn underscores_fit(text: &[u8]) -> bool {
    let text = match text {
        [b'-' | b'+', rest @ ..] => rest,
        _ => text,
    };
    let (hex, digits, mut after_digit) = match text {
        [b'0', b'x' | b'X', rest @ ..] => (true, rest, true),
        [b'0', b'b' | b'B' | b'o' | b'O', rest @ ..] => (false, rest, true),
        _ => (false, text, false),
    };
    let mut after_underscore = false;
    for byte in digits {
        let digit = byte.is_ascii_digit() || (hex && byte.is_ascii_hexdigit());
        let underscore = *byte == b'_';
        if (underscore && !after_digit) || (after_underscore && !digit) {
            return false;
        }
        after_digit = digit;
        after_underscore = underscore;
    }
    !after_underscore
}

fn float(text: &[u8]) -> Result<f64, NumErrorKind> {
    if let Some(value) = special(text) {
        return Ok(value);
    }
    let (sign, body) = match text {
        [b'-', rest @ ..] => (-1.0, rest),
        [b'+', rest @ ..] => (1.0, rest),
        _ => (1.0, text),
    };
    if body.contains(&b'_') && !underscores_fit(text) {
        return Err(NumErrorKind::Syntax);
    }
    let plain: Vec<u8> = body.iter().copied().filter(|&b| b != b'_').collect();
    let value = match plain.as_slice() {
        [b'0', b'x' | b'X', rest @ ..] if !rest.is_empty() => hexadecimal(rest)?,
        decimal => {
            // Rust also parses "inf" and "nan", which were handled above.
            let numeric = decimal.iter().all(|b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
            let text = std::str::from_utf8(decimal).ok().filter(|_| numeric).ok_or(NumErrorKind::Syntax)?;
            if text.starts_with(['+', '-']) {
                return Err(NumErrorKind::Syntax);
            }
            text.parse().map_err(|_| NumErrorKind::Syntax)?
        }
    };
    if value.is_infinite() { Err(NumErrorKind::Range) } else { Ok(sign * value) }
}

fn special(text: &[u8]) -> Option<f64> {
    let (sign, name) = match text {
        [b'-', rest @ ..] => (Some(-1.0), rest),
        [b'+', rest @ ..] => (Some(1.0), rest),
        _ => (None, text),
    };
    if name.eq_ignore_ascii_case(b"inf") || name.eq_ignore_ascii_case(b"infinity") {
        return Some(sign.unwrap_or(1.0) * f64::INFINITY);
    }
    (sign.is_none() && name.eq_ignore_ascii_case(b"nan")).then_some(f64::NAN)
}

/// Parses a hexadecimal float without sign and `0x`.
///
/// Digits, at most one point, and a mandatory binary exponent.
fn hexadecimal(text: &[u8]) -> Result<f64, NumErrorKind> {
    let mut mantissa = 0u64;
    let mut lost = false;
    let mut exponent = 0i64;
    let mut digits = false;
    let mut point = false;
    let mut rest = text;
    while let [byte, tail @ ..] = rest {
        match (*byte, char::from(*byte).to_digit(16)) {
            (b'.', _) if !point => point = true,
            (_, Some(digit)) => {
                digits = true;
                if mantissa >> 60 == 0 {
                    mantissa = mantissa << 4 | u64::from(digit);
                    exponent -= if point { 4 } else { 0 };
                } else {
                    lost |= digit != 0;
                    exponent += if point { 0 } else { 4 };
                }
            }
            _ => break,
        }
        rest = tail;
    }
    let [b'p' | b'P', rest @ ..] = rest else { return Err(NumErrorKind::Syntax) };
    let (sign, power) = match rest {
        [b'-', rest @ ..] => (-1, rest),
        [b'+', rest @ ..] => (1, rest),
        _ => (1, rest),
    };
    if !digits || power.is_empty() || !power.iter().all(u8::is_ascii_digit) {
        return Err(NumErrorKind::Syntax);
    }
    // Beyond a few thousand, the result is zero or infinite whatever the digits.
    let power = power.iter().fold(0i64, |e, d| if e < 100_000 { e * 10 + i64::from(d - b'0') } else { e });
    Ok(scale(mantissa, lost, exponent + sign * power))
}

/// Returns `mantissa * 2^exponent`, rounded to nearest even.
///
/// `lost` is whether non-zero digits follow the mantissa.
fn scale(mantissa: u64, lost: bool, exponent: i64) -> f64 {
    if mantissa == 0 {
        return 0.0;
    }
    let shift = mantissa.leading_zeros();
    let mantissa = mantissa << shift;
    let exponent = exponent - i64::from(shift);
    // The value is mantissa * 2^exponent with the top bit set: 1.xxx * 2^(exponent + 63).
    let top = exponent + 63;
    if top > 1023 {
        return f64::INFINITY;
    }
    let keep = if top >= -1022 { 53 } else { 53 - (-1022 - top) };
    if keep < 0 {
        return 0.0;
    }
    let drop = u32::try_from(64 - keep).unwrap_or(64);
    let (kept, rest, half) = if drop >= 64 {
        (0, mantissa, 1u64 << 63)
    } else {
        (mantissa >> drop, mantissa & ((1 << drop) - 1), 1 << (drop - 1))
    };
    let up = rest > half || (rest == half && (lost || kept & 1 == 1));
    let rounded = kept + u64::from(up);
    // Both factors are exact, and so is each product unless it overflows to infinity.
    let unit = exponent + i64::from(drop);
    #[expect(clippy::cast_precision_loss, reason = "at most 53 bits are set")]
    let value = rounded as f64;
    let half_unit = unit / 2;
    let power = |e: i64| 2f64.powi(i32::try_from(e).unwrap_or(0));
    value * power(half_unit) * power(unit - half_unit)
}
