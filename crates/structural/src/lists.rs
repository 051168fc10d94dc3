//! Uniqueness of items in lists of type set and map.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::fields::FieldError;
use crate::go;
use crate::path::{child, index, key, shown};
use crate::schema::Schema;

/// Reports duplicate items.
pub(crate) fn check(value: &Value, schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            if let Some(values) = schema.additional() {
                for (name, value) in map {
                    check(value, values, &key(path, name), errors);
                }
            }
            for (name, value) in map {
                if let Some(field) = schema.properties.get(name) {
                    check(value, field, &child(path, name), errors);
                }
            }
        }
        Value::Array(items) => {
            match schema.list_type.as_deref() {
                Some("set") => {
                    for i in repeated(items.iter().map(Some)) {
                        errors.push(FieldError::duplicate(index(path, i), items[i].clone()));
                    }
                }
                Some("map") => check_keys(items, schema, path, errors),
                _ => {}
            }
            if let Some(item) = schema.item() {
                for (i, value) in items.iter().enumerate() {
                    check(value, item, &index(path, i), errors);
                }
            }
        }
        _ => {}
    }
}

fn check_keys(items: &[Value], schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(i) = items.iter().position(|item| !item.is_null() && !item.is_object()) {
        let detail = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(shown(&index(path, i)), items[i].clone(), detail));
        return;
    }
    let keys: Vec<Value> = items
        .iter()
        .map(|item| {
            let named = |name: &String| Some((name.clone(), item.get(name)?.clone()));
            Value::Object(schema.list_map_keys.iter().filter_map(named).collect::<Map<_, _>>())
        })
        .collect();
    let found = match schema.list_map_keys.as_slice() {
        [name] => repeated(keys.iter().map(|key| key.get(name))),
        _ => repeated(keys.iter().map(Some)),
    };
    for i in found {
        errors.push(FieldError::duplicate(index(path, i), keys[i].clone()));
    }
}

/// Returns the index of the second occurrence of each repeated value.
fn repeated<'a>(values: impl Iterator<Item = Option<&'a Value>>) -> Vec<usize> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for (i, value) in values.enumerate() {
        // Whole floats are distinct from the integers they equal.
        let identity = match value {
            None => "-".to_owned(),
            Some(Value::Number(n)) if !n.is_i64() => format!("float {}", n.as_f64().unwrap_or_default()),
            Some(value) => go::json(value),
        };
        let times = seen.entry(identity).or_default();
        *times += 1;
        if *times == 2 {
            found.push(i);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_floats_are_not_the_integers_that_they_equal() {
        let places = |values: Value| repeated(values.as_array().unwrap().iter().map(Some));
        assert_eq!(places(json!([1, 1.0, 2])), [0; 0]);
        assert_eq!(places(json!([1, 1.0, 1, 1.0, 1])), [2, 3]);
        assert_eq!(places(json!(["1", 1, "1"])), [2]);
    }
}
