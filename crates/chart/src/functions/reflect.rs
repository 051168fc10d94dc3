//! Defaults, emptiness, types and equality.

use steersman_gotemplate::{CallError, Funcs, Kind, List, Map, Str, Value};

use super::Host;
use super::args::define;
use super::gofmt::MAX_DEPTH;

pub(super) fn register<H: Host>(funcs: &mut Funcs<H>) {
    define!(funcs {
        "default" (default: &Value; given: &[Value]) => match given.first() {
            Some(given) if !is_empty(given) => given.clone(),
            _ => default.clone(),
        };
        "empty" (value: &Value) => is_empty(value);
        "coalesce" (; values: &[Value]) =>
            values.iter().find(|value| !is_empty(value)).cloned().unwrap_or(Value::Nil);
        "all" (; values: &[Value]) => !values.iter().any(is_empty);
        "any" (; values: &[Value]) => !values.iter().all(is_empty);
        "ternary" (yes: &Value, no: &Value, condition: bool) => if condition { yes.clone() } else { no.clone() };
        "typeOf" (value: &Value) => value.type_name();
        "typeIs" (name: &Str, value: &Value) => *name == *value.type_name();
        "typeIsLike" (name: &Str, value: &Value) => {
            let actual = value.type_name();
            *name == *actual || actual.strip_prefix('*').is_some_and(|pointee| *name == *pointee)
        };
        "kindOf" (value: &Value) => value.kind().to_string();
        "kindIs" (kind: &Str, value: &Value) => *kind == *value.kind().to_string();
        "deepEqual" (a: &Value, b: &Value) => deep_equal(a, b);
        "deepCopy" | "mustDeepCopy" (value: &Value) => deep_copy(value);
    });
}

/// Whether the value is zero or empty; structs never are.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Nil => true,
        Value::Bool(b) => !b,
        Value::Int(n, _) => *n == 0,
        Value::Uint(n, _) => *n == 0,
        Value::Float(n, _) => *n == 0.0,
        Value::Complex(re, im) => *re == 0.0 && *im == 0.0,
        Value::String(text) | Value::Bytes(text) => text.is_empty(),
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.is_empty(),
        Value::Object(object) => match object.underlying() {
            Some(underlying) => is_empty(&underlying),
            None => object.kind() != Kind::Struct && !object.truth(),
        },
    }
}

/// `reflect.DeepEqual`: types must agree too, and a nil slice differs from an empty one.
pub(super) fn deep_equal(a: &Value, b: &Value) -> bool {
    equal(a, b, 0)
}

fn equal(a: &Value, b: &Value, depth: usize) -> bool {
    if depth > MAX_DEPTH {
        // Maps that contain themselves: all that was seen was equal, which is what Go concludes too.
        return true;
    }
    match (a, b) {
        (Value::Nil, Value::Nil) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a, x), Value::Int(b, y)) => a == b && x == y,
        (Value::Uint(a, x), Value::Uint(b, y)) => a == b && x == y,
        (Value::Float(a, x), Value::Float(b, y)) => a == b && x == y,
        (Value::Complex(a, x), Value::Complex(b, y)) => a == b && x == y,
        (Value::String(a), Value::String(b)) | (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::List(a), Value::List(b)) => {
            a.ty().name == b.ty().name
                && a.is_nil() == b.is_nil()
                && a.len() == b.len()
                && (std::ptr::eq(&raw const **a, &raw const **b)
                    || a.iter().zip(b.iter()).all(|(a, b)| equal(a, b, depth + 1)))
        }
        (Value::Map(a), Value::Map(b)) => {
            a.ty().name == b.ty().name && a.is_nil() == b.is_nil() && (a.ptr_eq(b) || equal_maps(a, b, depth))
        }
        (Value::Object(a), Value::Object(b)) => {
            std::rc::Rc::ptr_eq(a, b)
                || (a.type_name() == b.type_name()
                    && a.kind() == b.kind()
                    && a.display() == b.display()
                    && equal(&a.json(), &b.json(), depth + 1))
        }
        _ => false,
    }
}

fn equal_maps(a: &Map, b: &Map, depth: usize) -> bool {
    let (a, b) = (a.borrow(), b.borrow());
    a.len() == b.len() && a.iter().zip(b.iter()).all(|((x, a), (y, b))| x == y && equal(a, b, depth + 1))
}

/// A value that shares no map with this one.
pub(super) fn deep_copy(value: &Value) -> Result<Value, CallError> {
    if matches!(value, Value::Nil) {
        // copystructure asks a nil interface for its type.
        return Err(CallError::new("reflect: call of reflect.Value.Type on zero Value"));
    }
    copy(value, 0)
}

fn copy(value: &Value, depth: usize) -> Result<Value, CallError> {
    if depth > MAX_DEPTH {
        return Err(CallError::new("the value is nested too deeply or contains itself"));
    }
    Ok(match value {
        Value::List(list) if list.is_nil() => value.clone(),
        Value::List(list) => {
            let items = list.iter().map(|item| copy(item, depth + 1)).collect::<Result<_, _>>()?;
            Value::List(List::new(list.ty(), items))
        }
        Value::Map(map) if map.is_nil() => value.clone(),
        Value::Map(map) => {
            let entries = map
                .borrow()
                .iter()
                .map(|(key, item)| Ok((key.clone(), copy(item, depth + 1)?)))
                .collect::<Result<_, CallError>>()?;
            Value::Map(Map::with_type(map.ty(), entries))
        }
        other => other.clone(),
    })
}
