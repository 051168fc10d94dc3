//! Quantities such as `100m` and `1Gi`.

use std::cmp::Ordering;

use super::{Library, unfit};
use crate::types::Type;
use crate::value::{EvalError, Evaluated, Value, fail};

/// Quantities are counted in billionths.
const SCALE: i128 = 1_000_000_000;

/// An amount of something, exact to a billionth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(i128);

impl Quantity {
    /// Reads a quantity; `None` if it is none. What is finer than a billionth is rounded up, away from zero.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || number.len() > 30 {
            return None;
        }
        // Numerator and denominator of the unit.
        let (up, down): (i128, i128) = match suffix {
            "" => (1, 1),
            "n" => (1, 1_000_000_000),
            "u" => (1, 1_000_000),
            "m" => (1, 1_000),
            "k" => (1_000, 1),
            "M" => (1_000_000, 1),
            "G" => (1_000_000_000, 1),
            "T" => (1_000_000_000_000, 1),
            "P" => (1_000_000_000_000_000, 1),
            "E" => (1_000_000_000_000_000_000, 1),
            "Ki" => (1 << 10, 1),
            "Mi" => (1 << 20, 1),
            "Gi" => (1 << 30, 1),
            "Ti" => (1 << 40, 1),
            "Pi" => (1 << 50, 1),
            "Ei" => (1 << 60, 1),
            exponent => {
                let power: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
                let ten = 10_i128.checked_pow(power.unsigned_abs())?;
                if power < 0 { (1, ten) } else { (ten, 1) }
            }
        };
        let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        let down = down.checked_mul(10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?)?;
        let amount = digits.checked_mul(up)?.checked_mul(SCALE)?;
        let amount = amount.div_euclid(down) + i128::from(amount.rem_euclid(down) != 0);
        Some(Self(if negative { -amount } else { amount }))
    }

    fn is_integer(self) -> bool {
        self.0 % SCALE == 0 && i64::try_from(self.0 / SCALE).is_ok()
    }
}

const TYPE: Type = Type::Opaque("kubernetes.Quantity");

fn read(text: &str) -> Result<Quantity, EvalError> {
    Quantity::parse(text).ok_or_else(|| {
        let rule = "quantities must match the regular expression \
                    '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        EvalError(rule.into())
    })
}

fn pair(args: &[Value], accept: fn(Ordering) -> bool) -> Evaluated {
    match args {
        [Value::Quantity(a), Value::Quantity(b)] => Ok(Value::Bool(accept(a.cmp(b)))),
        _ => unfit(),
    }
}

fn combined(args: &[Value], sign: i128) -> Evaluated {
    let other = match args {
        [_, Value::Quantity(other)] => other.0,
        [_, Value::Int(other)] => i128::from(*other) * SCALE,
        _ => return unfit(),
    };
    match args {
        [Value::Quantity(a), _] => match other.checked_mul(sign).and_then(|other| a.0.checked_add(other)) {
            Some(sum) => Ok(Value::Quantity(Quantity(sum))),
            None => fail("quantity overflow"),
        },
        _ => unfit(),
    }
}

pub(super) fn add(library: &mut Library) {
    use Type::{Bool, Double, Int, String};
    library.global("quantity", [String], TYPE, |args| match args {
        [Value::String(text)] => Ok(Value::Quantity(read(text)?)),
        _ => unfit(),
    });
    library.global("isQuantity", [String], Bool, |args| match args {
        [Value::String(text)] => Ok(Value::Bool(Quantity::parse(text).is_some())),
        _ => unfit(),
    });
    library.member("isLessThan", [TYPE, TYPE], Bool, |args| pair(args, Ordering::is_lt));
    library.member("isGreaterThan", [TYPE, TYPE], Bool, |args| pair(args, Ordering::is_gt));
    library.member("compareTo", [TYPE, TYPE], Int, |args| match args {
        [Value::Quantity(a), Value::Quantity(b)] => Ok(Value::Int(a.cmp(b) as i64)),
        _ => unfit(),
    });
    library.member("sign", [TYPE], Int, |args| match args {
        [Value::Quantity(a)] => Ok(Value::Int(i64::try_from(a.0.signum()).unwrap_or(0))),
        _ => unfit(),
    });
    library.member("isInteger", [TYPE], Bool, |args| match args {
        [Value::Quantity(a)] => Ok(Value::Bool(a.is_integer())),
        _ => unfit(),
    });
    library.member("asInteger", [TYPE], Int, |args| match args {
        [Value::Quantity(a)] if a.is_integer() => {
            Ok(Value::Int(i64::try_from(a.0 / SCALE).unwrap_or(i64::MAX)))
        }
        [Value::Quantity(_)] => fail("cannot convert value to integer"),
        _ => unfit(),
    });
    library.member("asApproximateFloat", [TYPE], Double, |args| match args {
        [Value::Quantity(a)] => Ok(Value::Double(a.0 as f64 / SCALE as f64)),
        _ => unfit(),
    });
    for other in [TYPE, Int] {
        library.member("add", [TYPE, other.clone()], TYPE, |args| combined(args, 1));
        library.member("sub", [TYPE, other], TYPE, |args| combined(args, -1));
    }
}
