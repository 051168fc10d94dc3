//! `merge` and `mergeOverwrite`, with the rules of mergo v1.0.1 for maps.

use steersman_gotemplate::{CallError, Map, Type, Value};

use super::deeper;
use super::gofmt::MAX_DEPTH;
use super::reflect::is_empty;

/// Brings `source` into `target`, in place and map by map.
///
/// What is there and not empty stays, unless `overwrite`. A map that `target` lacks is shared with `source` afterwards.
pub(super) fn merge(target: &Map, source: &Map, overwrite: bool) -> Result<(), CallError> {
    merge_maps(target, source, overwrite, 0)
}

fn merge_maps(target: &Map, source: &Map, overwrite: bool, depth: usize) -> Result<(), CallError> {
    if depth > MAX_DEPTH {
        return Err(CallError::new("the maps are nested too deeply or contain themselves"));
    }
    if target.is_nil() {
        return Ok(());
    }
    // A snapshot, since both may be the same map.
    let entries: Vec<_> = source.borrow().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    for (key, value) in entries {
        if matches!(value, Value::Nil) {
            if overwrite {
                put(target, source, key.as_bytes(), value)?;
            }
            continue;
        }
        let present = target.get(&key);
        if let (Some(Value::Map(below)), Value::Map(from)) = (&present, &value) {
            deeper(|| merge_maps(below, from, overwrite, depth + 1))?;
        }
        let is_slice = matches!(value, Value::List(_) | Value::Bytes(_));
        if let Some(present) = present.filter(|present| !is_empty_value(present)) {
            let both_maps = matches!((&present, &value), (Value::Map(_), Value::Map(_)));
            if both_maps || !overwrite {
                // A slice is written even where nothing changes, which a typed map may refuse.
                if is_slice {
                    put(target, source, key.as_bytes(), present)?;
                }
                continue;
            }
        }
        put(target, source, key.as_bytes(), value)?;
    }
    Ok(())
}

fn put(target: &Map, source: &Map, key: &[u8], value: Value) -> Result<(), CallError> {
    if target.ty().elem == Type::String && source.ty().elem == Type::Any {
        return Err(CallError::new(
            "reflect.Value.SetMapIndex: value of type interface {} is not assignable to type string",
        ));
    }
    target.insert(key, value);
    Ok(())
}

/// As mergo sees it: no struct is empty, and neither is a pointer to one.
fn is_empty_value(value: &Value) -> bool {
    !matches!(value, Value::Object(object) if object.underlying().is_none()) && is_empty(value)
}
