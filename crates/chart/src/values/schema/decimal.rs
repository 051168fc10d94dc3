//! Exact decimals, compared and divided as Go's `big.Rat` does, without expanding powers of ten.

use std::cmp::Ordering;

use num_bigint::BigUint;

/// Go rejects larger exponents, and ignores keywords that have one.
const MAX_EXPONENT: i64 = 1_000_000;
/// Maximum length of a number to divide: converting decimal digits takes quadratic time.
const MAX_DIGITS: usize = 10_000;

/// A number: `digits`, without leading or trailing zeros, times ten to the `exponent`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Decimal {
    negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

impl From<i64> for Decimal {
    fn from(number: i64) -> Self {
        Self::new(number < 0, number.unsigned_abs().to_string().into_bytes(), 0)
    }
}

impl Decimal {
    fn new(negative: bool, mut digits: Vec<u8>, mut exponent: i64) -> Self {
        while digits.pop_if(|digit| *digit == b'0').is_some() {
            exponent += 1;
        }
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        digits.drain(..zeros);
        if digits.is_empty() {
            return Self { negative: false, digits, exponent: 0 };
        }
        Self { negative, digits, exponent }
    }

    /// Parses a JSON number; `None` if its exponent is too large.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (negative, mantissa) = mantissa.strip_prefix('-').map_or((false, mantissa), |rest| (true, rest));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let exponent = exponent.parse::<i64>().ok()?.checked_sub(i64::try_from(fraction.len()).ok()?)?;
        if exponent.unsigned_abs() > MAX_EXPONENT.unsigned_abs() {
            return None;
        }
        Some(Self::new(negative, [whole.as_bytes(), fraction.as_bytes()].concat(), exponent))
    }

    pub(super) fn is_integer(&self) -> bool {
        self.exponent >= 0
    }

    /// Returns the lowest 64 bits of an integer, as Go's `big.Int.Int64` does.
    pub(super) fn low_bits(&self) -> i64 {
        let times_ten = |number: u64, digit: u8| {
            number.wrapping_mul(10).wrapping_add(u64::from(digit.wrapping_sub(b'0')))
        };
        let number = self.digits.iter().fold(0, |number, digit| times_ten(number, *digit));
        // The 64 lowest bits of ten to the 64th are zero.
        let number = (0..self.exponent.min(64)).fold(number, |number, _| times_ten(number, b'0'));
        let number = number.cast_signed();
        if self.negative { number.wrapping_neg() } else { number }
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let sign = |number: &Self| match number.digits.as_slice() {
            [] => 0,
            _ if number.negative => -1,
            _ => 1,
        };
        let size = |number: &Self| {
            (i64::try_from(number.digits.len()).unwrap_or(i64::MAX)).saturating_add(number.exponent)
        };
        let magnitude = || size(self).cmp(&size(other)).then_with(|| self.digits.cmp(&other.digits));
        sign(self).cmp(&sign(other)).then_with(|| match sign(self) {
            0 => Ordering::Equal,
            1 => magnitude(),
            _ => magnitude().reverse(),
        })
    }

    /// Whether the number is a multiple of another; false if either is too long to divide.
    pub(super) fn is_multiple_of(&self, other: &Self) -> bool {
        if self.digits.is_empty() {
            return true;
        }
        // A number that does not end with a zero is not a multiple of ten.
        let Ok(shift) = u64::try_from(self.exponent - other.exponent) else { return false };
        if self.digits.len().max(other.digits.len()) > MAX_DIGITS {
            return false;
        }
        let number = |digits: &[u8]| BigUint::parse_bytes(digits, 10).unwrap_or_default();
        let divisor = number(&other.digits);
        if divisor == BigUint::ZERO {
            return false;
        }
        let power = BigUint::from(10_u8).modpow(&BigUint::from(shift), &divisor);
        number(&self.digits) * power % divisor == BigUint::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn numbers_compare_by_value() {
        let ascending = ["-1e400", "-12", "-1.5", "0", "1e-400", "0.3", "0.30000000000000004", "3", "1e400"];
        for (at, a) in ascending.iter().enumerate() {
            for (other, b) in ascending.iter().enumerate() {
                assert_eq!(decimal(a).compare(&decimal(b)), at.cmp(&other), "{a} {b}");
            }
        }
        for (a, b) in [("1", "1.0"), ("10e-1", "1"), ("-0.0", "0"), ("12300", "1.23E+4")] {
            assert_eq!(decimal(a), decimal(b));
        }
        assert_eq!(Decimal::parse("1e1000001"), None);
        assert_eq!(Decimal::parse("1e99999999999999999999"), None);
    }

    #[test]
    fn multiples_are_exact() {
        for (number, of) in [("0.3", "0.1"), ("0", "7"), ("1e1000000", "8"), ("-9", "3"), ("1.5", "0.25")] {
            assert!(decimal(number).is_multiple_of(&decimal(of)), "{number} {of}");
        }
        for (number, of) in [("0.30000000000000004", "0.1"), ("1e1000000", "7"), ("1", "10"), ("2.5", "2")] {
            assert!(!decimal(number).is_multiple_of(&decimal(of)), "{number} {of}");
        }
    }

    #[test]
    fn whole_numbers_keep_their_low_bits() {
        assert_eq!(decimal("18446744073709551617").low_bits(), 1);
        assert_eq!(decimal("-3.0").low_bits(), -3);
        assert_eq!(decimal("1e70").low_bits(), 0);
        assert!(decimal("1e3").is_integer() && !decimal("1e-1").is_integer());
    }
}
