//! JSON merge patches (RFC 7386), as the API server applies them.

use serde_json::{Map, Value};

/// The patch is neither an object nor a list. HTTP 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Invalid JSON Patch")]
pub struct MergePatchError;

/// Applies a merge patch to `document`: objects merge, null removes a field, anything else replaces.
///
/// ```
/// use serde_json::json;
/// use steersman_patch::merge_patch;
///
/// let live = json!({"data": {"a": "1", "b": "2"}});
/// let patched = merge_patch(&live, &json!({"data": {"a": null, "c": "3"}}))?;
/// assert_eq!(patched, json!({"data": {"b": "2", "c": "3"}}));
/// # Ok::<(), steersman_patch::MergePatchError>(())
/// ```
pub fn merge_patch(document: &Value, patch: &Value) -> Result<Value, MergePatchError> {
    match (document, patch) {
        (Value::Object(document), Value::Object(patch)) => {
            let mut out = document.clone();
            merge_objects(&mut out, patch);
            Ok(Value::Object(out))
        }
        (_, Value::Object(_) | Value::Array(_)) => Ok(without_nulls(patch)),
        _ => Err(MergePatchError),
    }
}

fn merge_objects(document: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch {
        if value.is_null() {
            document.remove(key);
            continue;
        }
        match (document.get_mut(key), value) {
            (Some(Value::Object(current)), Value::Object(value)) => merge_objects(current, value),
            // A list or scalar that replaces an object is copied verbatim, including nulls.
            (Some(current @ Value::Object(_)), value) => *current = value.clone(),
            (Some(current), value) => *current = without_nulls(value),
            (None, value) => {
                document.insert(key.clone(), without_nulls(value));
            }
        }
    }
}

/// Returns the value without null fields, including those inside lists.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k.clone(), without_nulls(v)));
            Value::Object(kept.collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        scalar => scalar.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_merge_and_null_removes() {
        let merged = merge_patch(&json!({"a": {"b": 1, "c": 2}}), &json!({"a": {"b": null, "d": 3}}));
        assert_eq!(merged, Ok(json!({"a": {"c": 2, "d": 3}})));
    }

    #[test]
    fn nulls_in_new_objects_are_dropped_but_not_from_lists() {
        let patch = json!({"a": {"b": null, "c": [null, {"d": null}]}});
        assert_eq!(merge_patch(&json!({}), &patch), Ok(json!({"a": {"c": [null, {}]}})));
    }

    #[test]
    fn a_list_in_place_of_an_object_keeps_its_nulls() {
        let merged = merge_patch(&json!({"a": {}}), &json!({"a": [{"b": null}]}));
        assert_eq!(merged, Ok(json!({"a": [{"b": null}]})));
    }

    #[test]
    fn a_scalar_is_no_patch() {
        assert_eq!(merge_patch(&json!({}), &json!(1)), Err(MergePatchError));
        assert_eq!(merge_patch(&json!({}), &Value::Null), Err(MergePatchError));
    }
}
