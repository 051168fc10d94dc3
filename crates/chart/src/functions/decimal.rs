//! Decimal arithmetic as in sprig's `addf`, `subf`, `mulf` and `divf`: exact, except for quotients.

use num_bigint::{BigInt, Sign};

/// Decimals that a quotient is rounded to.
const DIVISION_PRECISION: i64 = 16;

/// `value * 10^exponent`.
#[derive(Clone, Debug)]
pub(super) struct Decimal {
    value: BigInt,
    exponent: i64,
}

impl Decimal {
    /// Returns the shortest decimal that parses back to `n`; `None` if it is not finite.
    pub(super) fn from_float(n: f64) -> Option<Self> {
        if !n.is_finite() {
            return None;
        }
        let text = format!("{n:e}");
        let (mantissa, exponent) = text.split_once('e')?;
        let decimals = mantissa.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let value = mantissa.replace('.', "").parse().ok()?;
        Some(Self { value, exponent: exponent.parse::<i64>().ok()? - i64::try_from(decimals).ok()? })
    }

    /// Returns the length in 64-bit words.
    pub(super) fn digits(&self) -> usize {
        usize::try_from(self.value.bits() / 64).unwrap_or(usize::MAX)
    }

    /// Converts to the nearest double.
    pub(super) fn to_float(&self) -> f64 {
        if self.value.sign() == Sign::NoSign {
            return 0.0;
        }
        format!("{}e{}", self.value, self.exponent).parse().unwrap_or(f64::NAN)
    }

    /// Returns both values at the smaller exponent.
    fn aligned(&self, other: &Self) -> (BigInt, BigInt, i64) {
        let exponent = self.exponent.min(other.exponent);
        let scaled = |d: &Self| &d.value * power_of_ten(d.exponent - exponent);
        (scaled(self), scaled(other), exponent)
    }

    pub(super) fn add(&self, other: &Self) -> Self {
        let (a, b, exponent) = self.aligned(other);
        Self { value: a + b, exponent }
    }

    pub(super) fn sub(&self, other: &Self) -> Self {
        let (a, b, exponent) = self.aligned(other);
        Self { value: a - b, exponent }
    }

    pub(super) fn mul(&self, other: &Self) -> Self {
        Self { value: &self.value * &other.value, exponent: self.exponent + other.exponent }
    }

    /// Divides to 16 decimals, rounding halves away from zero; `None` if `other` is zero.
    pub(super) fn div(&self, other: &Self) -> Option<Self> {
        if other.value.sign() == Sign::NoSign {
            return None;
        }
        let shift = self.exponent - other.exponent + DIVISION_PRECISION;
        let (a, b) = if shift < 0 {
            (self.value.clone(), &other.value * power_of_ten(-shift))
        } else {
            (&self.value * power_of_ten(shift), other.value.clone())
        };
        let quotient = &a / &b;
        let remainder = &a % &b;
        let rounds_up = BigInt::from(remainder.magnitude() * 2u32) >= BigInt::from(b.magnitude().clone());
        let step = match (rounds_up, a.sign() == b.sign()) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => -1,
        };
        Some(Self { value: quotient + step, exponent: -DIVISION_PRECISION })
    }
}

fn power_of_ten(exponent: i64) -> BigInt {
    BigInt::from(10).pow(u32::try_from(exponent).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(n: f64) -> Decimal {
        Decimal::from_float(n).unwrap()
    }

    #[test]
    fn arithmetic_is_decimal() {
        assert_eq!(decimal(0.1).add(&decimal(0.2)).to_float(), 0.3);
        assert_eq!(decimal(1.1).sub(&decimal(1.0)).to_float(), 0.1);
        assert_eq!(decimal(1.1).mul(&decimal(1.1)).to_float(), 1.21);
        assert_eq!(decimal(2.0).div(&decimal(3.0)).unwrap().to_float(), 0.666_666_666_666_666_7);
        assert_eq!(decimal(-2.0).div(&decimal(3e-5)).unwrap().to_float(), -66_666.666_666_666_67);
        assert!(decimal(1.0).div(&decimal(0.0)).is_none());
        assert!(Decimal::from_float(f64::NAN).is_none());
    }
}
