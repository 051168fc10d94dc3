//! Server-side apply and the tracking of who owns which field.

use serde_json::Value;

use crate::{
    call::Call,
    schema::{Identity, Schema, Type, TypeId},
    status::ApiResult,
};

/// Records that the caller changed `old` into `object` (both stored), by any way but apply. `requested` is the object in
/// the version of the request where that differs from the stored one.
pub(crate) fn track(_call: &Call, old: Option<&Value>, _requested: Option<&Value>, object: &mut Value) {
    let metadata = crate::object::metadata(object);
    match old.and_then(|o| o["metadata"].get("managedFields")) {
        Some(fields) => metadata.insert("managedFields".into(), fields.clone()),
        None => metadata.remove("managedFields"),
    };
}

/// What becomes of `current` when the caller applies `intent` to it. Both are in the version of the request.
pub(crate) fn apply(call: &Call, current: Option<&Value>, intent: &Value) -> ApiResult<Value> {
    let Some(current) = current else { return Ok(intent.clone()) };
    let mut result = current.clone();
    match call.resource.strategy.schema(&call.resource.version) {
        Some(schema) => merge(&schema, schema.root(), &mut result, intent),
        None => crate::patch::merge(&mut result, intent),
    }
    Ok(result)
}

/// Lays `intent` over `target`, element by element where lists are keyed.
fn merge(schema: &Schema, ty: TypeId, target: &mut Value, intent: &Value) {
    match (schema.get(ty), &mut *target, intent) {
        (Type::Struct(s), Value::Object(map), Value::Object(fields)) if !s.atomic => {
            for (key, value) in fields {
                match (map.get_mut(key), s.fields.get(key)) {
                    (Some(existing), Some(field)) => merge(schema, field.ty, existing, value),
                    _ => {
                        map.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (Type::Map { values, atomic: false }, Value::Object(map), Value::Object(fields)) => {
            for (key, value) in fields {
                match map.get_mut(key) {
                    Some(existing) => merge(schema, *values, existing, value),
                    None => {
                        map.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (Type::List { items, identity }, Value::Array(list), Value::Array(wanted)) => match identity {
            Identity::Atomic => *target = intent.clone(),
            Identity::Set => {
                for item in wanted {
                    if !list.contains(item) {
                        list.push(item.clone());
                    }
                }
            }
            Identity::Map(keys) => {
                for item in wanted {
                    let same = |c: &Value| keys.iter().all(|k| c.get(k) == item.get(k));
                    match list.iter_mut().find(|c| same(c)) {
                        Some(existing) => merge(schema, *items, existing, item),
                        None => list.push(item.clone()),
                    }
                }
            }
        },
        _ => *target = intent.clone(),
    }
}
