//! Formatting floats.
//!
//! The digits come from Rust's formatting, which is shortest or correctly rounded as Go's is; the layout is ours.

use std::fmt::{Arguments, LowerExp};
use std::io::Write as _;
use std::str::FromStr;

/// Go's `strconv.FormatFloat`.
///
/// `verb` is one of `b e E f g G x X`; `precision` is `None` for the fewest digits that parse back to the same number;
/// `single` formats as a `float32`.
pub fn format_float(value: f64, verb: u8, precision: Option<usize>, single: bool) -> String {
    let mut out = Vec::new();
    append_float(&mut out, value, verb, precision, single);
    String::from_utf8(out).unwrap_or_default()
}

/// Appends the result of [`format_float`].
pub fn append_float(out: &mut Vec<u8>, value: f64, verb: u8, precision: Option<usize>, single: bool) {
    if value.is_nan() {
        return out.extend_from_slice(b"NaN");
    }
    if value.is_infinite() {
        return out.extend_from_slice(if value > 0.0 { b"+Inf" } else { b"-Inf" });
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    let value = value.abs();
    match verb {
        b'b' => binary(out, value, single),
        b'x' | b'X' => hexadecimal(out, value, verb, precision, single),
        b'e' | b'E' => {
            let digits = Digits::new(value, precision.map(|p| p.saturating_add(1)), single);
            let precision = precision.unwrap_or(digits.len.saturating_sub(1));
            digits.exponent_form(out, precision, verb);
        }
        b'f' => {
            let digits = match precision {
                Some(precision) => Digits::fixed(value, precision, single),
                None => Digits::new(value, None, single),
            };
            let decimals = digits.decimals();
            digits.plain_form(out, precision.unwrap_or(decimals));
        }
        b'g' | b'G' => general(out, value, verb, precision, single),
        _ => out.extend_from_slice(&[b'%', verb]),
    }
}

fn general(out: &mut Vec<u8>, value: f64, verb: u8, precision: Option<usize>, single: bool) {
    let digits = Digits::new(value, precision.map(|p| p.max(1)), single);
    let mut precision_used = precision.map_or(digits.len, |p| p.max(1));
    let mut limit = precision_used;
    let len = isize::try_from(digits.len).unwrap_or(isize::MAX);
    if limit > digits.len && len >= digits.point {
        limit = digits.len;
    }
    if precision.is_none() {
        limit = 6;
    }
    let exponent = digits.point - 1;
    if exponent < -4 || exponent >= isize::try_from(limit).unwrap_or(isize::MAX) {
        precision_used = precision_used.min(digits.len);
        return digits.exponent_form(
            out,
            precision_used.saturating_sub(1),
            if verb == b'g' { b'e' } else { b'E' },
        );
    }
    if isize::try_from(precision_used).is_ok_and(|p| p > digits.point) {
        precision_used = digits.len;
    }
    let decimals = isize::try_from(precision_used).unwrap_or(isize::MAX) - digits.point;
    digits.plain_form(out, usize::try_from(decimals).unwrap_or(0));
}

/// Upper bound on the significant digits, and on the decimals, of any float.
const MOST_DIGITS: usize = 1100;

/// Decimal digits `0.d1d2d3... * 10^point`, without trailing zeros; none for zero.
struct Digits {
    text: [u8; MOST_DIGITS + 8],
    len: usize,
    point: isize,
}

impl Digits {
    /// The shortest digits, or `count` correctly rounded ones.
    fn new(value: f64, count: Option<usize>, single: bool) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the value came from a float32")]
        match count.map(|count| count.clamp(1, MOST_DIGITS) - 1) {
            Some(count) => Self::written(format_args!("{value:.count$e}")),
            None if single => Self::shortest(value as f32),
            None => Self::shortest(value),
        }
    }

    fn written(form: Arguments<'_>) -> Self {
        let mut buffer = [0u8; MOST_DIGITS + 16];
        let mut writer = buffer.as_mut_slice();
        let written = writer.write_fmt(form);
        debug_assert!(written.is_ok(), "the buffer holds any float");
        let unused = writer.len();
        let end = buffer.len() - unused;
        Self::from_exponent_form(buffer.get(..end).unwrap_or_default())
    }

    /// Returns the fewest digits that parse back to the same number.
    fn shortest<F: LowerExp + FromStr + PartialEq>(value: F) -> Self {
        let shortest = Self::written(format_args!("{value:e}"));
        // Where two decimals are equally near, Rust picks the upper one and Go the even one, as exact formatting does.
        // Shorter results have no such neighbours.
        let Some(decimals @ 6..) = shortest.len.checked_sub(1) else { return shortest };
        let exact = format!("{value:.decimals$e}");
        if exact.parse().is_ok_and(|parsed: F| parsed == value) {
            Self::from_exponent_form(exact.as_bytes())
        } else {
            shortest
        }
    }

    /// Returns the digits rounded to `decimals` decimals.
    fn fixed(value: f64, decimals: usize, single: bool) -> Self {
        // The magnitude determines the number of significant digits, except for a carry from rounding.
        let point = Self::new(value, Some(17), single).point;
        if value == 0.0 {
            return Self::new(value, None, single);
        }
        let wanted = point.saturating_add(isize::try_from(decimals.min(MOST_DIGITS)).unwrap_or(isize::MAX));
        match usize::try_from(wanted) {
            Ok(count @ 1..) => Self::new(value, Some(count), single),
            // Less than one digit is left: the value rounds to zero or to one unit of the last decimal.
            Ok(0) => {
                let exact = Self::new(value, Some(MOST_DIGITS), single);
                let text = exact.text.get(..exact.len).unwrap_or_default();
                if text > b"5" { Self::one(exact.point) } else { Self::zero() }
            }
            Err(_) => Self::zero(),
        }
    }

    fn zero() -> Self {
        Self { text: [0; MOST_DIGITS + 8], len: 0, point: 0 }
    }

    /// Returns one unit of the place above the first digit of a number with this point.
    fn one(point: isize) -> Self {
        let mut digits = Self::zero();
        if let Some(first) = digits.text.first_mut() {
            *first = b'1';
        }
        digits.len = 1;
        digits.point = point + 1;
        digits
    }

    /// Parses Rust's exponent form, such as `1.5e-7`.
    fn from_exponent_form(form: &[u8]) -> Self {
        let mut digits = Self::zero();
        let mut parts = form.split(|&b| b == b'e');
        for &byte in parts.next().unwrap_or_default().iter().filter(|b| b.is_ascii_digit()) {
            if let Some(place) = digits.text.get_mut(digits.len) {
                *place = byte;
                digits.len += 1;
            }
        }
        let exponent = parts.next().and_then(|e| std::str::from_utf8(e).ok()?.parse::<isize>().ok());
        digits.point = exponent.unwrap_or(0) + 1;
        while digits.len > 0 && digits.text.get(digits.len - 1) == Some(&b'0') {
            digits.len -= 1;
        }
        if digits.len == 0 {
            digits.point = 0;
        }
        digits
    }

    fn digits(&self) -> &[u8] {
        self.text.get(..self.len).unwrap_or_default()
    }

    /// Returns the number of digits after the decimal point.
    fn decimals(&self) -> usize {
        usize::try_from(isize::try_from(self.len).unwrap_or(0) - self.point).unwrap_or(0)
    }

    fn exponent_form(&self, out: &mut Vec<u8>, precision: usize, letter: u8) {
        let digits = self.digits();
        out.push(digits.first().copied().unwrap_or(b'0'));
        if precision > 0 {
            out.push(b'.');
            let rest = digits.get(1..).unwrap_or_default();
            let rest = rest.get(..precision).unwrap_or(rest);
            out.extend_from_slice(rest);
            out.resize(out.len() + precision - rest.len(), b'0');
        }
        let exponent = if digits.is_empty() { 0 } else { self.point - 1 };
        let sign = if exponent < 0 { '-' } else { '+' };
        out.push(letter);
        out.extend_from_slice(format!("{sign}{:02}", exponent.unsigned_abs()).as_bytes());
    }

    fn plain_form(&self, out: &mut Vec<u8>, decimals: usize) {
        let digits = self.digits();
        let whole = usize::try_from(self.point).unwrap_or(0);
        if whole == 0 {
            out.push(b'0');
        } else {
            let integral = digits.get(..whole).unwrap_or(digits);
            out.extend_from_slice(integral);
            out.resize(out.len() + whole - integral.len(), b'0');
        }
        if decimals > 0 {
            out.push(b'.');
            let end = out.len() + decimals;
            let leading = usize::try_from(-self.point).unwrap_or(0).min(decimals);
            out.resize(out.len() + leading, b'0');
            let fraction = digits.get(whole..).unwrap_or_default();
            out.extend_from_slice(fraction.get(..decimals - leading).unwrap_or(fraction));
            out.resize(end, b'0');
        }
    }
}

/// Returns the mantissa and the binary exponent of a float's last place.
fn parts(value: f64, single: bool) -> (u64, i64, u32) {
    let (bits, mantissa_bits, bias) = if single {
        #[expect(clippy::cast_possible_truncation, reason = "the value came from a float32")]
        let bits = u64::from((value as f32).to_bits());
        (bits, 23, 127)
    } else {
        (value.to_bits(), 52, 1023)
    };
    let exponent = (bits >> mantissa_bits).cast_signed();
    let fraction = bits & ((1 << mantissa_bits) - 1);
    if exponent == 0 {
        (fraction, 1 - bias, mantissa_bits)
    } else {
        (fraction | 1 << mantissa_bits, exponent - bias, mantissa_bits)
    }
}

fn binary(out: &mut Vec<u8>, value: f64, single: bool) {
    let (mantissa, exponent, bits) = parts(value, single);
    out.extend_from_slice(format!("{mantissa}p{:+}", exponent - i64::from(bits)).as_bytes());
}

fn hexadecimal(out: &mut Vec<u8>, value: f64, verb: u8, precision: Option<usize>, single: bool) {
    let (mut mantissa, mut exponent, bits) = parts(value, single);
    if mantissa == 0 {
        exponent = 0;
    }
    // The leading digit sits at bit 60, and fifteen hexadecimal digits follow it.
    mantissa <<= 60 - bits;
    while mantissa != 0 && mantissa & (1 << 60) == 0 {
        mantissa <<= 1;
        exponent -= 1;
    }
    if let Some(precision @ ..15) = precision {
        let shift = u32::try_from(precision * 4).unwrap_or(0);
        let extra = (mantissa << shift) & ((1 << 60) - 1);
        mantissa >>= 60 - shift;
        if extra | (mantissa & 1) > 1 << 59 {
            mantissa += 1;
        }
        mantissa <<= 60 - shift;
        if mantissa & (1 << 61) != 0 {
            mantissa >>= 1;
            exponent += 1;
        }
    }
    let digit = |mantissa: u64| {
        let digit = char::from_digit(u32::try_from((mantissa >> 60) & 15).unwrap_or(0), 16).unwrap_or('0');
        u8::try_from(if verb == b'X' { digit.to_ascii_uppercase() } else { digit }).unwrap_or(b'0')
    };
    out.extend_from_slice(&[b'0', verb, if (mantissa >> 60) & 1 == 1 { b'1' } else { b'0' }]);
    mantissa <<= 4;
    match precision {
        None if mantissa != 0 => {
            out.push(b'.');
            while mantissa != 0 {
                out.push(digit(mantissa));
                mantissa <<= 4;
            }
        }
        Some(precision @ 1..) => {
            out.push(b'.');
            for _ in 0..precision {
                out.push(digit(mantissa));
                mantissa <<= 4;
            }
        }
        _ => {}
    }
    out.push(if verb == b'x' { b'p' } else { b'P' });
    let sign = if exponent < 0 { '-' } else { '+' };
    out.extend_from_slice(format!("{sign}{:02}", exponent.unsigned_abs()).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::format_float;

    #[test]
    fn of_two_shortest_decimals_the_even_one_is_taken() {
        assert_eq!(format_float(181_348_103_489_077.63, b'g', None, false), "1.8134810348907762e+14");
        assert_eq!(format_float(181_348_103_489_077.63, b'f', None, false), "181348103489077.62");
        assert_eq!(format_float(16_777_217.0, b'g', None, true), "1.6777216e+07");
    }
}
