//! Number constants, each convertible to every Go type that can hold it.

use steersman_gostd::strconv;

/// A number constant.
#[derive(Clone, Debug)]
pub(crate) struct Number {
    pub(crate) int: Option<i64>,
    pub(crate) uint: Option<u64>,
    pub(crate) float: Option<f64>,
    /// Its value where no type is required.
    pub(crate) ideal: Ideal,
}

/// A number constant where no type is required; its spelling decides.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ideal {
    Complex(f64, f64),
    Float(f64),
    Int(i64),
    /// Too large for an `int`; evaluating it is an error.
    Overflow,
}

/// Reason that a number is invalid, as the parser reports it.
pub(super) type Wrong = String;

impl Number {
    /// Parses a character constant, with its quotes.
    pub(super) fn from_char(text: &[u8]) -> Result<Self, Wrong> {
        let body = text.get(1..).unwrap_or_default();
        let (value, _, tail) = strconv::unquote_char(body, b'\'').ok_or("invalid syntax")?;
        if tail != b"'" {
            return Err(format!("malformed character constant: {}", String::from_utf8_lossy(text)));
        }
        let int = i64::from(value);
        let (uint, float) = (u64::from(value), f64::from(value));
        Ok(Self { int: Some(int), uint: Some(uint), float: Some(float), ideal: Ideal::Int(int) })
    }

    /// Parses a complex constant such as `1+2i`.
    pub(super) fn from_complex(text: &[u8]) -> Result<Self, Wrong> {
        let mut scan = Scan { text, at: 0 };
        let real = scan.float_token();
        let sign_at = scan.at;
        if !scan.accept(|b| matches!(b, b'+' | b'-')) {
            return Err(BAD_COMPLEX.into());
        }
        // The scan accepts a second sign in the imaginary part, which strconv then rejects.
        scan.float_token();
        let imaginary = text.get(sign_at..scan.at).unwrap_or_default();
        if !scan.accept(|b| b == b'i') {
            return Err(BAD_COMPLEX.into());
        }
        let real = strconv::parse_float(real).map_err(|e| e.to_string())?;
        let imaginary = strconv::parse_float(imaginary).map_err(|e| e.to_string())?;
        Ok(Self::complex(real, imaginary))
    }

    /// Parses any other number.
    pub(super) fn from_number(text: &[u8]) -> Result<Self, Wrong> {
        if let Some(head) = text.strip_suffix(b"i")
            && let Ok(imaginary) = strconv::parse_float(head)
        {
            return Ok(Self::complex(0.0, imaginary));
        }
        let mut uint = strconv::parse_uint(text, 0, 64).ok();
        let mut int = strconv::parse_int(text, 0, 64).ok();
        if int == Some(0) {
            uint = Some(0);
        }
        #[expect(clippy::cast_precision_loss, reason = "Go's conversion")]
        let mut float = int.map(|n| n as f64).or(uint.map(|n| n as f64));
        if float.is_none()
            && let Ok(value) = strconv::parse_float(text)
        {
            if !text.iter().any(|b| b".eEpP".contains(b)) {
                return Err(format!("integer overflow: {}", strconv::quote(text)));
            }
            float = Some(value);
            int = exact_int(value);
            uint = exact_uint(value);
        }
        let Some(value) = float else {
            return Err(format!("illegal number syntax: {}", strconv::quote(text)));
        };
        let hex_int = matches!(text, [b'0', b'x' | b'X', rest @ ..] if !rest.is_empty() && !rest.iter().any(|b| b"pP".contains(b)));
        let ideal = if !hex_int && text.iter().any(|b| b".eEpP".contains(b)) {
            Ideal::Float(value)
        } else {
            int.map_or(Ideal::Overflow, Ideal::Int)
        };
        Ok(Self { int, uint, float, ideal })
    }

    fn complex(real: f64, imaginary: f64) -> Self {
        let float = (imaginary == 0.0).then_some(real);
        Self {
            int: float.and_then(exact_int),
            uint: float.and_then(exact_uint),
            float,
            ideal: Ideal::Complex(real, imaginary),
        }
    }
}

const BAD_COMPLEX: &str = "syntax error scanning complex number";

#[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
fn exact_int(value: f64) -> Option<i64> {
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value);
    (fits && value.trunc() == value).then_some(value as i64)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be in range")]
fn exact_uint(value: f64) -> Option<u64> {
    let fits = (0.0..18_446_744_073_709_551_616.0).contains(&value);
    (fits && value.trunc() == value).then_some(value as u64)
}

/// Scans complex constants as Go's `fmt.Sscan` does, which differs slightly from other constants.
struct Scan<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    fn accept(&mut self, valid: impl Fn(u8) -> bool) -> bool {
        let found = self.text.get(self.at).is_some_and(|b| valid(*b));
        self.at += usize::from(found);
        found
    }

    fn float_token(&mut self) -> &'a [u8] {
        let start = self.at;
        self.accept(|b| matches!(b, b'+' | b'-'));
        // As in Go, the start of "inf" is consumed even if the rest does not follow.
        if self.accept(|b| matches!(b, b'i' | b'I')) {
            return self.text.get(start..self.at).unwrap_or_default();
        }
        let hex = self.accept(|b| b == b'0') && self.accept(|b| matches!(b, b'x' | b'X'));
        let digit = |b: u8| b == b'_' || if hex { b.is_ascii_hexdigit() } else { b.is_ascii_digit() };
        while self.accept(digit) {}
        if self.accept(|b| b == b'.') {
            while self.accept(digit) {}
        }
        let exponent = if hex { [b'p', b'P'] } else { [b'e', b'E'] };
        if self.accept(|b| exponent.contains(&b)) {
            self.accept(|b| matches!(b, b'+' | b'-'));
            while self.accept(|b| b == b'_' || b.is_ascii_digit()) {}
        }
        self.text.get(start..self.at).unwrap_or_default()
    }
}
