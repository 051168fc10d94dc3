//! Strategic merge patch: a merge patch that knows which lists are keyed.

use serde_json::{Map, Value};

use crate::schema::{Field, Schema, Type, TypeId};

/// Why a patch did not apply.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct StrategicError(String);

/// Applies `patch` to `document`, whose type is the root of `schema`.
pub(crate) fn strategic(schema: &Schema, document: &Value, patch: &Value) -> Result<Value, StrategicError> {
    let mut result = document.clone();
    let Value::Object(patch) = patch else {
        return Err(StrategicError("the patch is not an object".into()));
    };
    merge_map(schema, Some(schema.root()), &mut result, patch)?;
    Ok(result)
}

fn field<'a>(schema: &'a Schema, ty: Option<TypeId>, key: &str) -> (Option<TypeId>, Option<&'a Field>) {
    match ty.map(|t| schema.get(t)) {
        Some(Type::Struct(s)) => {
            let found = s.fields.get(key);
            (found.map(|f| f.ty), found)
        }
        Some(Type::Map { values, .. }) => (Some(*values), None),
        _ => (None, None),
    }
}

fn merge_map(
    schema: &Schema,
    ty: Option<TypeId>,
    target: &mut Value,
    patch: &Map<String, Value>,
) -> Result<(), StrategicError> {
    match patch.get("$patch").and_then(Value::as_str) {
        Some("replace") => {
            let mut clean = patch.clone();
            clean.remove("$patch");
            *target = Value::Object(clean);
            return Ok(());
        }
        Some("delete") => {
            *target = Value::Object(Map::new());
            return Ok(());
        }
        Some("merge") | None => {}
        Some(other) => return Err(StrategicError(format!("Unknown patch type found: {other}"))),
    }
    let map = crate::object::ensure(target);
    if let Some(keep) = patch.get("$retainKeys").and_then(Value::as_array) {
        map.retain(|key, _| keep.iter().any(|k| k.as_str() == Some(key)));
    }
    for (key, value) in patch {
        if matches!(key.as_str(), "$patch" | "$retainKeys") || key.starts_with("$setElementOrder/") {
            continue;
        }
        if let Some(list) = key.strip_prefix("$deleteFromPrimitiveList/") {
            if let (Some(Value::Array(items)), Some(gone)) = (map.get_mut(list), value.as_array()) {
                items.retain(|item| !gone.contains(item));
            }
            continue;
        }
        if value.is_null() {
            map.remove(key);
            continue;
        }
        let (child, info) = field(schema, ty, key);
        match (value, map.get_mut(key)) {
            (Value::Object(patch), Some(existing)) => {
                if info.is_some_and(|f| f.patch_strategies.iter().any(|s| s == "replace")) {
                    *existing = value.clone();
                } else {
                    merge_map(schema, child, existing, patch)?;
                }
            }
            (Value::Object(patch), None) => {
                let mut fresh = Value::Object(Map::new());
                merge_map(schema, child, &mut fresh, patch)?;
                if patch.get("$patch").and_then(Value::as_str) != Some("delete") {
                    map.insert(key.clone(), fresh);
                }
            }
            (Value::Array(items), existing) => {
                let order = patch.get(&format!("$setElementOrder/{key}")).and_then(Value::as_array);
                let current = existing.map(std::mem::take).unwrap_or_default();
                let merged = merge_list(schema, child, info, current, items, order)?;
                map.insert(key.clone(), merged);
            }
            _ => {
                map.insert(key.clone(), value.clone());
            }
        }
    }
    // An order may come without any change to the list itself.
    for (key, value) in patch {
        if let Some(list) = key.strip_prefix("$setElementOrder/")
            && !patch.contains_key(list)
            && let (Some(Value::Array(items)), Some(order)) = (map.get_mut(list), value.as_array())
        {
            let merge_key = field(schema, ty, list).1.and_then(|f| f.patch_merge_key.clone());
            sort(items, order, merge_key.as_deref());
        }
    }
    Ok(())
}

fn merge_list(
    schema: &Schema,
    ty: Option<TypeId>,
    info: Option<&Field>,
    current: Value,
    patch: &[Value],
    order: Option<&Vec<Value>>,
) -> Result<Value, StrategicError> {
    let merges = info.is_some_and(|f| f.patch_strategies.iter().any(|s| s == "merge"));
    let replaces = patch.iter().any(|p| p.get("$patch").and_then(Value::as_str) == Some("replace"));
    if !merges || replaces {
        let kept = patch
            .iter()
            .filter(|p| p.get("$patch").and_then(Value::as_str) != Some("replace"))
            .cloned()
            .collect();
        return Ok(Value::Array(kept));
    }
    let mut items = match current {
        Value::Array(items) => items,
        _ => Vec::new(),
    };
    let element = match ty.map(|t| schema.get(t)) {
        Some(Type::List { items, .. }) => Some(*items),
        _ => None,
    };
    let Some(merge_key) = info.and_then(|f| f.patch_merge_key.as_deref()) else {
        for item in patch {
            if !items.contains(item) {
                items.push(item.clone());
            }
        }
        if let Some(order) = order {
            sort(&mut items, order, None);
        }
        return Ok(Value::Array(items));
    };
    for item in patch {
        let Value::Object(fields) = item else {
            return Err(StrategicError(format!(
                "map: {item} does not contain declared merge key: {merge_key}"
            )));
        };
        let Some(identity) = fields.get(merge_key) else {
            return Err(StrategicError(format!(
                "map: {item} does not contain declared merge key: {merge_key}"
            )));
        };
        let same = |candidate: &Value| candidate.get(merge_key) == Some(identity);
        if fields.get("$patch").and_then(Value::as_str) == Some("delete") {
            items.retain(|i| !same(i));
            continue;
        }
        match items.iter_mut().find(|i| same(i)) {
            Some(existing) => merge_map(schema, element, existing, fields)?,
            None => {
                let mut fresh = Value::Object(Map::new());
                merge_map(schema, element, &mut fresh, fields)?;
                items.push(fresh);
            }
        }
    }
    if let Some(order) = order {
        sort(&mut items, order, Some(merge_key));
    }
    Ok(Value::Array(items))
}

/// Brings the elements that `order` names into that order; the others keep their places relative to them.
fn sort(items: &mut Vec<Value>, order: &[Value], merge_key: Option<&str>) {
    let rank = |item: &Value| {
        order.iter().position(|o| match merge_key {
            Some(key) => o.get(key) == item.get(key),
            None => o == item,
        })
    };
    let mut named: Vec<Value> = Vec::new();
    let mut others: Vec<(Option<usize>, Value)> = Vec::new();
    let mut last = None;
    for item in items.drain(..) {
        match rank(&item) {
            Some(r) => {
                last = Some(r);
                named.push(item);
            }
            None => others.push((last, item)),
        }
    }
    named.sort_by_key(|item| rank(item));
    for (after, item) in others.into_iter().rev() {
        let at = after
            .map_or(0, |r| named.iter().position(|i| rank(i).is_some_and(|x| x > r)).unwrap_or(named.len()));
        named.insert(at, item);
    }
    *items = named;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(document: Value, patch: Value) -> Value {
        let schema = crate::schema::definition("io.k8s.api.apps.v1.Deployment").unwrap();
        strategic(&schema, &document, &patch).unwrap()
    }

    fn containers(list: Value) -> Value {
        json!({"spec": {"template": {"spec": {"containers": list}}}})
    }

    #[test]
    fn keyed_lists_merge_by_key() {
        let before = containers(json!([{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]));
        let after = run(before.clone(), containers(json!([{"name": "b", "image": "b:2"}, {"name": "c"}])));
        assert_eq!(
            after,
            containers(json!([{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:2"}, {"name": "c"}]))
        );
        let after = run(before.clone(), containers(json!([{"name": "a", "$patch": "delete"}])));
        assert_eq!(after, containers(json!([{"name": "b", "image": "b:1"}])));
        let after = run(before, containers(json!([{"$patch": "replace"}, {"name": "z"}])));
        assert_eq!(after, containers(json!([{"name": "z"}])));
    }

    #[test]
    fn plain_lists_are_replaced_and_nulls_remove() {
        let before = json!({"metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["x"]}});
        let after = run(before, json!({"metadata": {"labels": {"a": null}, "finalizers": ["y"]}}));
        assert_eq!(after, json!({"metadata": {"labels": {"b": "2"}, "finalizers": ["x", "y"]}}));
    }
}
