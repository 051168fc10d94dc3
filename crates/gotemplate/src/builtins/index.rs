//! Indexing, slicing, lengths and calls of function values.

use crate::budget::Budget;
use crate::exec::Rv;
use crate::func::CallError;
use crate::str::Str;
use crate::value::{Kind, List, Object, UintType, Value};

/// Converts an index to an offset of at most `limit`.
fn position(index: &Rv, limit: usize) -> Result<usize, CallError> {
    let held = index.value.underlying();
    let position = match held.as_ref() {
        _ if index.is_interface() => None,
        Value::Int(n, _) => Some(*n),
        Value::Uint(n, _) => Some(n.cast_signed()),
        _ => None,
    };
    let Some(position) = position else {
        return Err(match (&index.value, index.is_interface()) {
            (Value::Nil, false) => CallError::new("cannot index slice/array with nil"),
            _ => CallError::new(format!("cannot index slice/array with type {}", index.type_name())),
        });
    };
    usize::try_from(position)
        .ok()
        .filter(|position| *position <= limit)
        .ok_or_else(|| CallError::new(format!("index out of range: {position}")))
}

/// Built-in `index`: `index x 1 2 3` is `x[1][2][3]`.
pub(super) fn index(item: &Rv, indexes: &[Rv]) -> Result<Rv, CallError> {
    if matches!(item.value, Value::Nil) {
        return Err(CallError::new("index of untyped nil"));
    }
    let mut item = item.clone();
    for index in indexes {
        let index = Rv::concrete(index.value.clone());
        let held = item.value.underlying();
        item = match held.as_ref() {
            Value::Nil => return Err(CallError::new("index of nil pointer")),
            Value::Object(object) if is_nil_pointer(object.as_ref()) => {
                return Err(CallError::new("index of nil pointer"));
            }
            Value::List(list) => match list.get(position(&index, list.len())?) {
                Some(value) => Rv::element(value.clone(), list.ty().elem),
                None => return Err(CallError::new("reflect: slice index out of range")),
            },
            Value::Bytes(bytes) => byte_at(bytes, &index, "reflect: slice index out of range")?,
            Value::String(text) => byte_at(text, &index, "reflect: string index out of range")?,
            Value::Map(map) => {
                let key = index.value.underlying();
                let key = match (&index.value, key.as_ref()) {
                    (Value::String(key), _) => key,
                    (Value::Nil, _) => {
                        return Err(CallError::new("value is nil; should be of type string"));
                    }
                    (other, _) => {
                        let ty = other.type_str();
                        return Err(CallError::new(format!("value has type {ty}; should be string")));
                    }
                };
                let elem = map.ty().elem;
                Rv::element(map.get(key).unwrap_or_else(|| elem.zero()), elem)
            }
            other => return Err(CallError::new(format!("can't index item of type {}", pointee(other)))),
        };
    }
    Ok(item)
}

fn byte_at(bytes: &Str, index: &Rv, out_of_range: &str) -> Result<Rv, CallError> {
    match bytes.get(position(index, bytes.len())?) {
        Some(byte) => Ok(Rv::concrete(Value::Uint(u64::from(*byte), UintType::Uint8))),
        None => Err(CallError::new(out_of_range)),
    }
}

fn is_nil_pointer(object: &dyn Object) -> bool {
    object.kind() == Kind::Ptr && !object.truth()
}

/// Returns the pointee's type name for a pointer, otherwise the value's own.
fn pointee(value: &Value) -> &str {
    let name = value.type_str();
    if value.kind() == Kind::Ptr { name.strip_prefix('*').unwrap_or(name) } else { name }
}

/// Built-in `slice`: `slice x 1 2` is `x[1:2]`.
pub(super) fn slice(budget: &Budget, item: &Rv, indexes: &[Rv]) -> Result<Rv, CallError> {
    let held = item.value.underlying();
    let len = match held.as_ref() {
        Value::Nil => return Err(CallError::new("slice of untyped nil")),
        Value::Object(object) if is_nil_pointer(object.as_ref()) => {
            return Err(CallError::new("slice of nil pointer"));
        }
        _ if indexes.len() > 3 => {
            return Err(CallError::new(format!("too many slice indexes: {}", indexes.len())));
        }
        Value::String(_) if indexes.len() == 3 => {
            return Err(CallError::new("cannot 3-index slice a string"));
        }
        Value::String(text) | Value::Bytes(text) => text.len(),
        Value::List(list) => list.len(),
        other => return Err(CallError::new(format!("can't slice item of type {}", pointee(other)))),
    };
    let mut bounds = [0, len, len];
    for (bound, index) in bounds.iter_mut().zip(indexes) {
        *bound = position(index, len)?;
    }
    let [from, to, cap] = bounds;
    for (low, high) in [(from, to), (to, cap)].into_iter().take(if indexes.len() == 3 { 2 } else { 1 }) {
        if low > high {
            return Err(CallError::new(format!("invalid slice index: {low} > {high}")));
        }
    }
    let range = from..to;
    match held.as_ref() {
        Value::List(_) => budget.charge_elements(range.len())?,
        _ => budget.charge_memory(range.len())?,
    }
    Ok(Rv::concrete(match held.as_ref() {
        Value::String(text) => Value::string(text.get(range).unwrap_or_default()),
        Value::Bytes(bytes) => Value::Bytes(bytes.get(range).unwrap_or_default().into()),
        Value::List(list) => {
            Value::List(List::new(list.ty(), list.get(range).map(<[Value]>::to_vec).unwrap_or_default()))
        }
        _ => Value::Nil,
    }))
}

/// Built-in `len`.
pub(super) fn length(item: &Rv) -> Result<Value, CallError> {
    let held = item.value.underlying();
    let len = match held.as_ref() {
        Value::Nil if item.is_interface() => return Err(CallError::new("len of nil pointer")),
        Value::Object(object) if is_nil_pointer(object.as_ref()) => {
            return Err(CallError::new("len of nil pointer"));
        }
        Value::Nil => return Err(CallError::new("reflect: call of reflect.Value.Type on zero Value")),
        Value::String(text) | Value::Bytes(text) => text.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        other => return Err(CallError::new(format!("len of type {}", pointee(other)))),
    };
    Ok(Value::int(i64::try_from(len).unwrap_or(i64::MAX)))
}

/// Built-in `call`. Always fails, as no [`Value`] is a function.
pub(super) fn call(callee: &str, function: &Rv, _args: &[Rv]) -> Result<Rv, CallError> {
    Err(match &function.value {
        Value::Nil => CallError::new("call of nil"),
        other => CallError::new(format!("non-function {callee} of type {}", other.type_str())),
    })
}
