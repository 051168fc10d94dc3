//! Logic, arithmetic and conversions between basic types.

use std::sync::Arc;

use steersman_gostd::strconv;

use super::{A, B, Library, unfit};
use crate::ast::op;
use crate::types::Type;
use crate::value::{Evaluated, Value, fail, print_double};

pub(super) fn add(library: &mut Library) {
    logic(library);
    arithmetic(library);
    conversions(library);
}

fn logic(library: &mut Library) {
    use Type::{Bool, Dyn, Int};
    let operator = |_: &[Value]| unfit();
    library.global(op::CONDITIONAL, [Bool, A, A], A, operator);
    library.global(op::AND, [Bool, Bool], Bool, operator);
    library.global(op::OR, [Bool, Bool], Bool, operator);
    library.global(op::NOT, [Bool], Bool, operator);
    library.global(op::NOT_STRICTLY_FALSE, [Bool], Bool, operator);
    library.global(op::EQUALS, [A, A], Bool, operator);
    library.global(op::NOT_EQUALS, [A, A], Bool, operator);
    let numbers = [Int, Type::Uint, Type::Double];
    for name in [op::LESS, op::LESS_EQUALS, op::GREATER, op::GREATER_EQUALS] {
        for ty in [Bool, Type::String, Type::Bytes, Type::Timestamp, Type::Duration] {
            library.global(name, [ty.clone(), ty], Bool, operator);
        }
        for a in &numbers {
            for b in &numbers {
                library.global(name, [a.clone(), b.clone()], Bool, operator);
            }
        }
    }
    library.global(op::IN, [A, Type::list(A)], Bool, operator);
    library.global(op::IN, [A, Type::map(A, B)], Bool, operator);
    library.global(op::INDEX, [Type::list(A), Int], A, operator);
    library.global(op::INDEX, [Type::map(A, B), A], B, operator);
    library.global(op::INDEX, [Type::optional(Type::list(A)), Int], Type::optional(A), operator);
    library.global(op::INDEX, [Type::optional(Type::map(A, B)), A], Type::optional(B), operator);
    library.global(op::OPT_INDEX, [Type::list(A), Int], Type::optional(A), operator);
    library.global(op::OPT_INDEX, [Type::optional(Type::list(A)), Int], Type::optional(A), operator);
    library.global(op::OPT_INDEX, [Type::map(A, B), A], Type::optional(B), operator);
    library.global(op::OPT_INDEX, [Type::optional(Type::map(A, B)), A], Type::optional(B), operator);
    library.global(op::MAP_INSERT, [Type::map(A, B), A, B], Type::map(A, B), operator);
    library.global(op::MAP_INSERT, [Type::map(A, B), Type::map(A, B)], Type::map(A, B), operator);
    library.global("dyn", [A], Dyn, |args| args.first().cloned().map_or_else(unfit, Ok));
    library.global("type", [A], Type::Type(Box::new(A)), |args| {
        args.first().map_or_else(unfit, |value| Ok(Value::Type(value.type_name().into())))
    });
    // The first match decides the type of a `dyn` argument.
    for ty in [Type::Bytes, Type::list(A), Type::map(A, B), Type::String] {
        let size: fn(&[Value]) -> Evaluated = |args| {
            args.first().map_or_else(unfit, |v| Ok(Value::Int(i64::try_from(v.size()).unwrap_or(i64::MAX))))
        };
        library.global("size", [ty.clone()], Int, size);
        library.member("size", [ty], Int, size);
    }
}

fn integer(result: Option<i64>) -> Evaluated {
    result.map_or_else(|| fail("integer overflow"), |value| Ok(Value::Int(value)))
}

fn unsigned(result: Option<u64>) -> Evaluated {
    result.map_or_else(|| fail("unsigned integer overflow"), |value| Ok(Value::Uint(value)))
}

fn arithmetic(library: &mut Library) {
    use Type::{Bytes, Double, Int, String, Uint};
    library.global(op::ADD, [Int, Int], Int, |args| match args {
        [Value::Int(a), Value::Int(b)] => integer(a.checked_add(*b)),
        _ => unfit(),
    });
    library.global(op::SUBTRACT, [Int, Int], Int, |args| match args {
        [Value::Int(a), Value::Int(b)] => integer(a.checked_sub(*b)),
        _ => unfit(),
    });
    library.global(op::MULTIPLY, [Int, Int], Int, |args| match args {
        [Value::Int(a), Value::Int(b)] => integer(a.checked_mul(*b)),
        _ => unfit(),
    });
    library.global(op::DIVIDE, [Int, Int], Int, |args| match args {
        [Value::Int(_), Value::Int(0)] => fail("division by zero"),
        [Value::Int(a), Value::Int(b)] => integer(a.checked_div(*b)),
        _ => unfit(),
    });
    library.global(op::MODULO, [Int, Int], Int, |args| match args {
        [Value::Int(_), Value::Int(0)] => fail("modulus by zero"),
        [Value::Int(a), Value::Int(b)] => integer(a.checked_rem(*b)),
        _ => unfit(),
    });
    library.global(op::NEGATE, [Int], Int, |args| match args {
        [Value::Int(a)] => integer(a.checked_neg()),
        _ => unfit(),
    });
    library.global(op::ADD, [Uint, Uint], Uint, |args| match args {
        [Value::Uint(a), Value::Uint(b)] => unsigned(a.checked_add(*b)),
        _ => unfit(),
    });
    library.global(op::SUBTRACT, [Uint, Uint], Uint, |args| match args {
        [Value::Uint(a), Value::Uint(b)] => unsigned(a.checked_sub(*b)),
        _ => unfit(),
    });
    library.global(op::MULTIPLY, [Uint, Uint], Uint, |args| match args {
        [Value::Uint(a), Value::Uint(b)] => unsigned(a.checked_mul(*b)),
        _ => unfit(),
    });
    library.global(op::DIVIDE, [Uint, Uint], Uint, |args| match args {
        [Value::Uint(_), Value::Uint(0)] => fail("division by zero"),
        [Value::Uint(a), Value::Uint(b)] => unsigned(a.checked_div(*b)),
        _ => unfit(),
    });
    library.global(op::MODULO, [Uint, Uint], Uint, |args| match args {
        [Value::Uint(_), Value::Uint(0)] => fail("modulus by zero"),
        [Value::Uint(a), Value::Uint(b)] => unsigned(a.checked_rem(*b)),
        _ => unfit(),
    });
    library.global(op::NEGATE, [Double], Double, |args| match args {
        [Value::Double(a)] => Ok(Value::Double(-a)),
        _ => unfit(),
    });
    library.global(op::ADD, [Double, Double], Double, |args| match args {
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a + b)),
        _ => unfit(),
    });
    library.global(op::SUBTRACT, [Double, Double], Double, |args| match args {
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a - b)),
        _ => unfit(),
    });
    library.global(op::MULTIPLY, [Double, Double], Double, |args| match args {
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a * b)),
        _ => unfit(),
    });
    library.global(op::DIVIDE, [Double, Double], Double, |args| match args {
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a / b)),
        _ => unfit(),
    });
    library.global(op::ADD, [String, String], String, |args| match args {
        [Value::String(a), Value::String(b)] => Ok(Value::string(format!("{a}{b}"))),
        _ => unfit(),
    });
    library.global(op::ADD, [Bytes, Bytes], Bytes, |args| match args {
        [Value::Bytes(a), Value::Bytes(b)] => Ok(Value::Bytes(a.iter().chain(b.iter()).copied().collect())),
        _ => unfit(),
    });
    library.global(op::ADD, [Type::list(A), Type::list(A)], Type::list(A), |args| match args {
        [Value::List(a), Value::List(b)] => Ok(Value::List(Arc::new(a.joined(b)))),
        _ => unfit(),
    });
}

fn conversions(library: &mut Library) {
    use Type::{Bool, Bytes, Double, Int, String, Timestamp, Uint};
    let same: fn(&[Value]) -> Evaluated = |args| args.first().cloned().map_or_else(unfit, Ok);
    for (name, ty) in [
        ("bool", Bool),
        ("int", Int),
        ("uint", Uint),
        ("double", Double),
        ("string", String),
        ("bytes", Bytes),
    ] {
        library.global(name, [ty.clone()], ty, same);
    }
    library.global("bool", [String], Bool, |args| match args {
        [Value::String(text)] => match strconv::parse_bool(text.as_bytes()) {
            Ok(value) => Ok(Value::Bool(value)),
            Err(_) => fail("type conversion error from 'string' to 'bool'"),
        },
        _ => unfit(),
    });
    let to_int: fn(&[Value]) -> Evaluated = |args| match args {
        [Value::Uint(n)] => integer(i64::try_from(*n).ok()),
        [Value::Double(n)]
            if n.is_finite() && *n > -9_223_372_036_854_775_808.0 && *n < 9_223_372_036_854_775_808.0 =>
        {
            Ok(Value::Int(*n as i64))
        }
        [Value::Double(_)] => integer(None),
        [Value::String(text)] => match strconv::parse_int(text.as_bytes(), 10, 64) {
            Ok(number) => Ok(Value::Int(number)),
            Err(_) => fail("type conversion error from 'string' to 'int'"),
        },
        [Value::Timestamp(time)] => Ok(Value::Int(time.second())),
        [Value::Duration(nanos)] => Ok(Value::Int(*nanos)),
        _ => unfit(),
    };
    for ty in [Uint, Double, String, Timestamp, Type::Duration] {
        library.global("int", [ty], Int, to_int);
    }
    let to_uint: fn(&[Value]) -> Evaluated = |args| match args {
        [Value::Int(n)] => unsigned(u64::try_from(*n).ok()),
        [Value::Double(n)] if n.is_finite() && *n >= 0.0 && *n < 18_446_744_073_709_551_616.0 => {
            Ok(Value::Uint(*n as u64))
        }
        [Value::Double(_)] => unsigned(None),
        [Value::String(text)] => match strconv::parse_uint(text.as_bytes(), 10, 64) {
            Ok(number) => Ok(Value::Uint(number)),
            Err(_) => fail("type conversion error from 'string' to 'uint'"),
        },
        _ => unfit(),
    };
    for ty in [Int, Double, String] {
        library.global("uint", [ty], Uint, to_uint);
    }
    let to_double: fn(&[Value]) -> Evaluated = |args| match args {
        [Value::Int(n)] => Ok(Value::Double(*n as f64)),
        [Value::Uint(n)] => Ok(Value::Double(*n as f64)),
        [Value::String(text)] => match strconv::parse_float(text.as_bytes()) {
            Ok(number) => Ok(Value::Double(number)),
            Err(_) => fail("type conversion error from 'string' to 'double'"),
        },
        _ => unfit(),
    };
    for ty in [Int, Uint, String] {
        library.global("double", [ty], Double, to_double);
    }
    for ty in [Bool, Int, Uint, Double, Bytes, Timestamp, Type::Duration] {
        library.global("string", [ty], String, to_string);
    }
    library.global("bytes", [String], Bytes, |args| match args {
        [Value::String(text)] => Ok(Value::Bytes(Arc::from(text.as_bytes()))),
        _ => unfit(),
    });
}

/// Implements `string(x)`.
pub(super) fn to_string(args: &[Value]) -> Evaluated {
    match args {
        [Value::Bool(value)] => Ok(Value::string(value.to_string())),
        [Value::Int(value)] => Ok(Value::string(value.to_string())),
        [Value::Uint(value)] => Ok(Value::string(value.to_string())),
        [Value::Double(value)] => Ok(Value::string(print_double(*value))),
        [Value::Bytes(bytes)] => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Value::string(text)),
            Err(_) => fail("invalid UTF-8 in bytes, cannot convert to string"),
        },
        [Value::Timestamp(time)] => Ok(Value::string(time.to_string())),
        [Value::Duration(nanos)] => Ok(Value::string(super::time::print_duration_seconds(*nanos))),
        _ => unfit(),
    }
}
