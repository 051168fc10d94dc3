//! Defaults, emptiness, types and equality.

use steersman_gotemplate::{Budget, CallError, Funcs, Kind, List, Map, Str, Value, deep_equal_within};

use super::args::define;
use super::gofmt::MAX_DEPTH;
use super::{Host, deeper, map_memory};

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
        "deepEqual" [budget] (a: &Value, b: &Value) => deep_equal_within(budget, a, b)?;
        "deepCopy" | "mustDeepCopy" [budget] (value: &Value) => deep_copy(budget, value);
    });
}

/// Whether the value is zero or empty; a struct never is.
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

/// Copies a value so that the copy shares no map with it.
pub(super) fn deep_copy(budget: &Budget, value: &Value) -> Result<Value, CallError> {
    if matches!(value, Value::Nil) {
        // copystructure calls `Type` on a nil interface, which panics.
        return Err(CallError::new("reflect: call of reflect.Value.Type on zero Value"));
    }
    copy(budget, value, 0)
}

fn copy(budget: &Budget, value: &Value, depth: usize) -> Result<Value, CallError> {
    if depth > MAX_DEPTH {
        return Err(CallError::new("the value is nested too deeply or contains itself"));
    }
    Ok(match value {
        Value::List(list) if list.is_nil() => value.clone(),
        Value::List(list) => {
            budget.charge_elements(2 + list.len())?;
            let items = list.iter().map(|item| deeper(|| copy(budget, item, depth + 1)));
            let items = items.collect::<Result<_, _>>()?;
            Value::List(List::new(list.ty(), items))
        }
        Value::Map(map) if map.is_nil() => value.clone(),
        Value::Map(map) => {
            budget.charge_memory(map_memory(map.len()))?;
            let entries = map
                .borrow()
                .iter()
                .map(|(key, item)| Ok((key.clone(), deeper(|| copy(budget, item, depth + 1))?)))
                .collect::<Result<_, CallError>>()?;
            Value::Map(Map::with_type(map.ty(), entries))
        }
        other => other.clone(),
    })
}
