//! Quantities such as `100m` and `1Gi`.

use std::cmp::Ordering;

use steersman_formats::quantity::Quantity;

use super::{Library, unfit};
use crate::types::Type;
use crate::value::{EvalError, Evaluated, Value, fail};

const TYPE: Type = Type::Opaque("kubernetes.Quantity");

fn read(text: &str) -> Result<Quantity, EvalError> {
    Quantity::parse(text).ok_or_else(|| {
        EvalError::from(if is_shaped(text) {
            if Quantity::parse(&format!("0{text}")).is_some() {
                return "unable to parse numeric part of quantity".into();
            }
            "unable to parse quantity's suffix"
        } else {
            "quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        })
    })
}

/// Whether a string is a number with a suffix, valid or not.
fn is_shaped(text: &str) -> bool {
    fn skip(text: &str, accept: fn(char) -> bool) -> &str {
        text.trim_start_matches(accept)
    }
    let rest = skip(text.strip_prefix(['+', '-']).unwrap_or(text), |c| c.is_ascii_digit());
    let rest = rest.strip_prefix('.').map_or(rest, |rest| skip(rest, |c| c.is_ascii_digit()));
    let rest = skip(rest, |c| "eEinumkKMGTP".contains(c));
    !text.is_empty() && skip(rest.strip_prefix(['+', '-']).unwrap_or(rest), |c| c.is_ascii_digit()).is_empty()
}

fn pair(args: &[Value], accept: fn(Ordering) -> bool) -> Evaluated {
    match args {
        [Value::Quantity(a), Value::Quantity(b)] => Ok(Value::Bool(accept(a.cmp(b)))),
        _ => unfit(),
    }
}

fn combined(args: &[Value], combine: fn(Quantity, Quantity) -> Quantity) -> Evaluated {
    match args {
        [Value::Quantity(a), Value::Quantity(b)] => Ok(Value::Quantity(combine(*a, *b))),
        [Value::Quantity(a), Value::Int(b)] => Ok(Value::Quantity(combine(*a, (*b).into()))),
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
    // A global function, unlike all others on quantities.
    library.global("sign", [TYPE], Int, |args| match args {
        [Value::Quantity(a)] => Ok(Value::Int(a.cmp(&Quantity::ZERO) as i64)),
        _ => unfit(),
    });
    library.member("isInteger", [TYPE], Bool, |args| match args {
        [Value::Quantity(a)] => Ok(Value::Bool(a.as_integer().is_some())),
        _ => unfit(),
    });
    library.member("asInteger", [TYPE], Int, |args| match args {
        [Value::Quantity(a)] => {
            a.as_integer().map_or_else(|| fail("cannot convert value to integer"), |n| Ok(Value::Int(n)))
        }
        _ => unfit(),
    });
    library.member("asApproximateFloat", [TYPE], Double, |args| match args {
        [Value::Quantity(a)] => Ok(Value::Double(a.as_approximate_float())),
        _ => unfit(),
    });
    for other in [TYPE, Int] {
        library.member("add", [TYPE, other.clone()], TYPE, |args| combined(args, Quantity::plus));
        library.member("sub", [TYPE, other], TYPE, |args| combined(args, Quantity::minus));
    }
}
