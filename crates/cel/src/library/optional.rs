//! Optional values.

use std::sync::Arc;

use super::{A, Library, unfit};
use crate::types::Type;
use crate::value::{Evaluated, Value, fail};

pub(super) fn add(library: &mut Library) {
    let optional = || Type::optional(A);
    library.global("optional.of", [A], optional(), |args| match args {
        [value] => Ok(Value::Optional(Some(Arc::new(value.clone())))),
        _ => unfit(),
    });
    library.global("optional.ofNonZeroValue", [A], optional(), |args| match args {
        [value] => Ok(Value::Optional((!is_zero(value)).then(|| Arc::new(value.clone())))),
        _ => unfit(),
    });
    library.global("optional.none", [], optional(), |_| Ok(Value::Optional(None)));
    library.member("hasValue", [optional()], Type::Bool, |args| match args {
        [Value::Optional(inner)] => Ok(Value::Bool(inner.is_some())),
        _ => unfit(),
    });
    library.member("value", [optional()], A, |args| match args {
        [Value::Optional(Some(inner))] => Ok((**inner).clone()),
        [Value::Optional(None)] => fail("optional.none() dereference"),
        _ => unfit(),
    });
    // The evaluator short-circuits these: the second operand is evaluated only if the first is absent.
    library.member("or", [optional(), optional()], optional(), |_| unfit());
    library.member("orValue", [optional(), A], A, |_| unfit());
    let list = || [Type::list(optional())];
    library.global("optional.unwrap", list(), Type::list(A), unwrapped);
    library.member("unwrapOpt", list(), Type::list(A), unwrapped);
}

/// Returns the values of the present optionals in a list.
fn unwrapped(args: &[Value]) -> Evaluated {
    let [Value::List(items)] = args else { return unfit() };
    let mut out = Vec::new();
    for item in items.iter() {
        match item {
            Value::Optional(inner) => out.extend(inner.as_deref().cloned()),
            other => return fail(format!("value {other} is not optional")),
        }
    }
    Ok(Value::list(out))
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) | Value::Int(0) | Value::Uint(0) | Value::Duration(0) => true,
        Value::Double(number) => *number == 0.0,
        Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_) => value.size() == 0,
        Value::Object(object) => object.fields.is_empty(),
        _ => false,
    }
}
