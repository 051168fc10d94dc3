//! Runtime overload resolution, and the error for calls without a matching overload.

use std::sync::Arc;

use crate::ast::op;
use crate::library::Overload;
use crate::types::Type;
use crate::value::{EvalError, Evaluated, Value};

/// Calls the first overload that accepts these arguments.
pub(crate) fn dispatch(
    overloads: Option<&'static [Overload]>,
    is_member: bool,
    args: &[Value],
    name: &str,
) -> Evaluated {
    let fitting = overloads.into_iter().flatten().find(|overload| {
        overload.member == is_member
            && overload.args.len() == args.len()
            && (!overload.guarded || overload.args.iter().zip(args).all(|(ty, value)| fits(ty, value)))
    });
    match fitting {
        Some(overload) => (overload.call)(args),
        None => Err(EvalError::NoSuchOverload(missing(name, args))),
    }
}

/// Whether all overloads of a function can be dispatched to, whichever one a call was checked against.
pub(crate) fn is_one_for_all(name: &str) -> bool {
    const ALL: [&str; 8] =
        [op::ADD, op::SUBTRACT, op::MULTIPLY, op::DIVIDE, op::MODULO, op::NEGATE, "size", "matches"];
    ALL.contains(&name)
}

/// Returns the name in a "no such overload" error, as cel-go reports it.
/// Operators are unnamed if the first operand is supported and only the second is wrong.
fn missing(name: &str, args: &[Value]) -> Option<Arc<str>> {
    let operand = args.first();
    let is_whole = matches!(operand, Some(Value::Int(_) | Value::Uint(_)));
    let is_number = is_whole || matches!(operand, Some(Value::Double(_)));
    // In cel-go these types implement methods, which might include the operator.
    let has_methods = matches!(operand, Some(Value::String(_) | Value::Timestamp(_) | Value::Duration(_)));
    let takes_first = match name {
        op::IN | op::NOT => true,
        op::ADD => is_number || has_methods || matches!(operand, Some(Value::Bytes(_) | Value::List(_))),
        op::SUBTRACT | op::MULTIPLY | op::DIVIDE => is_number || has_methods,
        op::MODULO => is_whole || has_methods,
        op::NEGATE => has_methods || matches!(operand, Some(Value::Bool(_))),
        "size" | "matches" => has_methods,
        _ => {
            let types: Vec<_> = args.iter().map(Value::type_name).collect();
            return Some(format!("{name}({})", types.join(", ")).into());
        }
    };
    (!takes_first).then(|| name.into())
}

/// Returns cel-go's name for a value's type.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "types.Null",
        Value::Bool(_) => "types.Bool",
        Value::Int(_) => "types.Int",
        Value::Uint(_) => "types.Uint",
        Value::Double(_) => "types.Double",
        Value::String(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::Timestamp(_) => "types.Timestamp",
        Value::Duration(_) => "types.Duration",
        Value::Optional(_) => "*types.Optional",
        Value::Type(_) => "*types.Type",
        Value::Quantity(_) => "cel.Quantity",
        Value::Url(_) => "cel.URL",
        Value::Ip(_) => "cel.IP",
        Value::Cidr(_) => "cel.CIDR",
        Value::Format(_) => "cel.Format",
        Value::Semver(_) => "cel.Semver",
        _ => "ref.Val",
    }
}

fn fits(ty: &Type, value: &Value) -> bool {
    match (ty, value) {
        (Type::Dyn | Type::Param(_), _)
        | (Type::Null, Value::Null)
        | (Type::Bool, Value::Bool(_))
        | (Type::Int, Value::Int(_))
        | (Type::Uint, Value::Uint(_))
        | (Type::Double, Value::Double(_))
        | (Type::String, Value::String(_))
        | (Type::Bytes, Value::Bytes(_))
        | (Type::Timestamp, Value::Timestamp(_))
        | (Type::Duration, Value::Duration(_))
        | (Type::Optional(_), Value::Optional(_))
        | (Type::Map(..) | Type::Object(_), Value::Map(_))
        | (Type::Object(_), Value::Object(_))
        | (Type::Type(_), Value::Type(_)) => true,
        (Type::List(elem), Value::List(items)) => items.first().is_none_or(|item| fits(elem, item)),
        (Type::Opaque(name), value) => *name == value.type_name(),
        _ => false,
    }
}
