//! `merge` and `mergeOverwrite`, with the rules of mergo v1.0.1 for maps.

use steersman_gotemplate::{Budget, CallError, Map, Type, Value};

use super::gofmt::MAX_DEPTH;
use super::reflect::is_empty;
use super::{MAP_ENTRY, deeper};

/// Merges `source` into `target` in place, map by map.
///
/// Existing non-empty values are kept unless `overwrite`. A map that `target` lacks is shared with `source` afterwards.
/// `changed` is called for every map that receives a map or a list.
pub(super) fn merge(
    budget: &Budget,
    target: &Map,
    source: &Map,
    overwrite: bool,
    changed: &mut dyn FnMut(&Map),
) -> Result<(), CallError> {
    Merge { budget, overwrite, changed }.maps(target, source, 0)
}

struct Merge<'a> {
    budget: &'a Budget,
    overwrite: bool,
    changed: &'a mut dyn FnMut(&Map),
}

impl Merge<'_> {
    fn maps(&mut self, target: &Map, source: &Map, depth: usize) -> Result<(), CallError> {
        if depth > MAX_DEPTH {
            return Err(CallError::new("the maps are nested too deeply or contain themselves"));
        }
        if target.is_nil() {
            return Ok(());
        }
        // Charged per visit: shared parts are visited each time they are reached.
        self.budget.charge_cost(4 * source.len())?;
        self.budget.charge_memory(source.len() * MAP_ENTRY)?;
        // A snapshot, since both may be the same map.
        let entries: Vec<_> =
            source.borrow().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        for (key, value) in entries {
            if matches!(value, Value::Nil) {
                if self.overwrite {
                    self.put(target, source, key.as_bytes(), value)?;
                }
                continue;
            }
            let present = target.get(&key);
            if let (Some(Value::Map(below)), Value::Map(from)) = (&present, &value) {
                deeper(|| self.maps(below, from, depth + 1))?;
            }
            let is_slice = matches!(value, Value::List(_) | Value::Bytes(_));
            if let Some(present) = present.filter(|present| !is_empty_value(present)) {
                let both_maps = matches!((&present, &value), (Value::Map(_), Value::Map(_)));
                if both_maps || !self.overwrite {
                    // mergo writes a slice even if nothing changes, which a typed map may reject.
                    if is_slice {
                        self.put(target, source, key.as_bytes(), present)?;
                    }
                    continue;
                }
            }
            self.put(target, source, key.as_bytes(), value)?;
        }
        Ok(())
    }

    fn put(&mut self, target: &Map, source: &Map, key: &[u8], value: Value) -> Result<(), CallError> {
        if target.ty().elem == Type::String && source.ty().elem == Type::Any {
            return Err(CallError::new(
                "reflect.Value.SetMapIndex: value of type interface {} is not assignable to type string",
            ));
        }
        if is_container(&value) {
            (self.changed)(target);
        }
        target.insert(key, value);
        Ok(())
    }
}

/// Whether a value may contain the map that it is put into.
pub(super) fn is_container(value: &Value) -> bool {
    matches!(value, Value::Map(_) | Value::List(_))
}

/// Whether mergo considers a value empty: never a struct or a pointer to one.
fn is_empty_value(value: &Value) -> bool {
    !matches!(value, Value::Object(object) if object.underlying().is_none()) && is_empty(value)
}
