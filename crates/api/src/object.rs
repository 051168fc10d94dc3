//! Accessors for the fields common to all objects, on plain JSON values.

use serde_json::{Map, Number, Value};

/// Returns the string at `path`, if present.
#[inline]
pub fn text<'a>(value: &'a Value, path: &[&str]) -> Option<&'a str> {
    get(value, path)?.as_str()
}

/// Returns the value at `path`, if present.
#[inline]
pub fn get<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |v, key| v.get(key))
}

/// Returns the object at `key`, creating it if absent or of another type.
#[inline]
pub fn child<'a>(value: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    let root = ensure(value);
    ensure(root.entry(key).or_insert(Value::Null))
}

/// Returns the value as an object, replacing a value of another type.
#[inline]
pub fn ensure(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}

/// Whether objects and lists are nested deeper than `limit`.
pub fn is_deeper(value: &Value, limit: usize) -> bool {
    match value {
        Value::Object(_) | Value::Array(_) if limit == 0 => true,
        Value::Object(map) => map.values().any(|child| is_deeper(child, limit - 1)),
        Value::Array(list) => list.iter().any(|child| is_deeper(child, limit - 1)),
        _ => false,
    }
}

/// Returns the metadata mutably, creating it if absent.
#[inline]
pub fn metadata(value: &mut Value) -> &mut Map<String, Value> {
    child(value, "metadata")
}

/// Returns a string field of the metadata, or an empty string.
#[inline]
pub fn meta_text<'a>(value: &'a Value, key: &str) -> &'a str {
    text(value, &["metadata", key]).unwrap_or_default()
}

/// Returns the object's name, or an empty string.
#[inline]
pub fn name(value: &Value) -> &str {
    meta_text(value, "name")
}

/// Returns the object's namespace, or an empty string.
#[inline]
pub fn namespace(value: &Value) -> &str {
    meta_text(value, "namespace")
}

/// Returns the object's uid, or an empty string.
#[inline]
pub fn uid(value: &Value) -> &str {
    meta_text(value, "uid")
}

/// Whether `deletionTimestamp` is set.
#[inline]
pub fn is_deleting(value: &Value) -> bool {
    get(value, &["metadata", "deletionTimestamp"]).is_some_and(|v| !v.is_null())
}

/// Returns the object's finalizers.
pub fn finalizers(value: &Value) -> Vec<&str> {
    get(value, &["metadata", "finalizers"])
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Returns the object's generation, or 0.
#[inline]
pub fn generation(value: &Value) -> i64 {
    get(value, &["metadata", "generation"]).and_then(Value::as_i64).unwrap_or_default()
}

/// Returns the store key of an object: `namespace/name` or `name`.
pub fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// Copies `field` from `from` to `to`, or removes it from `to` if `from` lacks it.
pub fn carry(from: &Value, to: &mut Value, field: &str) {
    let Some(target) = to.as_object_mut() else { return };
    match from.get(field) {
        Some(value) => target.insert(field.into(), value.clone()),
        None => target.remove(field),
    };
}

/// Whether two objects are equal, ignoring metadata and the fields in `skip`.
pub fn same_except(a: &Value, b: &Value, skip: &[&str]) -> bool {
    fn rest<'a>(v: &'a Value, skip: &'a [&str]) -> impl Iterator<Item = (&'a String, &'a Value)> {
        v.as_object().into_iter().flatten().filter(move |(k, v)| {
            !matches!(k.as_str(), "metadata" | "apiVersion" | "kind")
                && !skip.contains(&k.as_str())
                && !is_nothing(v)
        })
    }
    rest(a, skip).count() == rest(b, skip).count() && rest(a, skip).all(|(k, v)| b.get(k) == Some(v))
}

/// Copies an object without some of its fields, which are never cloned.
pub fn copy_without(value: &Value, fields: &[&str]) -> Map<String, Value> {
    let kept = value.as_object().into_iter().flatten().filter(|(k, _)| !fields.contains(&k.as_str()));
    kept.map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// Returns the value at a path such as `spec.rules[0].hosts[]`, or null.
pub fn at<'a>(value: &'a Value, place: &str) -> &'a Value {
    place.split(['.', '[', ']']).filter(|step| !step.is_empty()).fold(value, |value, step| {
        let item = step.parse::<usize>().ok().and_then(|index| value.get(index));
        item.or_else(|| value.get(step)).unwrap_or(&Value::Null)
    })
}

/// Whether a value is null, an empty list or an empty map, which most kinds treat alike.
#[inline]
pub fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// Normalises a float as a round trip through Go's JSON does: an integral one becomes an integer.
pub fn normal_number(float: f64) -> Value {
    if float.fract() == 0.0 && float.abs() < 9.0e15 {
        // Integral and within the range of i64.
        #[allow(clippy::cast_possible_truncation)]
        let integer = float as i64;
        return Value::from(integer);
    }
    Number::from_f64(float).map_or(Value::Null, Value::Number)
}

/// Applies [`normal_number`] to all numbers in a value.
pub fn normalise_numbers(value: &mut Value) {
    match value {
        Value::Number(n) if n.is_f64() => {
            if let Some(float) = n.as_f64() {
                *value = normal_number(float);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalise_numbers),
        Value::Object(map) => map.values_mut().for_each(normalise_numbers),
        _ => {}
    }
}
