//! JSON patches (RFC 6902), with the API server's deviations from the standard.
//!
//! The `json-patch` crate follows the standard where the server does not: here a `test` for null passes on an absent
//! path, `replace` adds a missing field, and negative indexes count from the end.

use std::collections::BTreeMap;

use serde_json::Value;
use steersman_gostd::{json::RawMessage, strconv};

use crate::value::go_json;

/// Maximum number of operations in a patch.
const MAX_OPERATIONS: usize = 10_000;

/// Maximum total size, in bytes, of the values that the `copy` operations of a patch create.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// The reasons a JSON patch can be refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonPatchError {
    /// The patch is not a list of operations. HTTP 400.
    #[error("{0}")]
    Malformed(String),
    /// The patch has too many operations. HTTP 413.
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooManyOperations(usize),
    /// An operation does not apply to the document. HTTP 422.
    #[error("{0}")]
    DoesNotApply(String),
    /// A `test` operation found another value. HTTP 422.
    #[error("testing value {0} failed: test failed")]
    TestFailed(String),
}

/// Applies all operations of a JSON patch in order and returns the resulting document.
///
/// ```
/// use serde_json::json;
/// use steersman_patch::json_patch;
///
/// let live = json!({"metadata": {"labels": {"app": "web"}}});
/// let patch = br#"[
///     {"op": "test", "path": "/metadata/labels/app", "value": "web"},
///     {"op": "add", "path": "/metadata/labels/tier", "value": "front"}
/// ]"#;
/// assert_eq!(json_patch(&live, patch)?["metadata"]["labels"]["tier"], "front");
/// # Ok::<(), steersman_patch::JsonPatchError>(())
/// ```
pub fn json_patch(document: &Value, patch: &[u8]) -> Result<Value, JsonPatchError> {
    let operations = decode(patch)?;
    if operations.len() > MAX_OPERATIONS {
        return Err(JsonPatchError::TooManyOperations(operations.len()));
    }
    let mut document = document.clone();
    let mut copied = 0;
    for operation in &operations {
        operation.run(&mut document, &mut copied)?;
    }
    Ok(document)
}

fn decode(patch: &[u8]) -> Result<Vec<Operation<'_>>, JsonPatchError> {
    let malformed = |message: String| JsonPatchError::Malformed(message);
    let items: Value = serde_json::from_slice(patch).map_err(|e| malformed(e.to_string()))?;
    let kind = match &items {
        Value::Array(items) => items
            .iter()
            .find(|item| !item.is_object() && !item.is_null())
            .map(|other| (json_kind(other), "jsonpatch.Operation")),
        Value::Null => return Ok(Vec::new()),
        other => Some((json_kind(other), "jsonpatch.Patch")),
    };
    if let Some((kind, target)) = kind {
        return Err(malformed(format!("json: cannot unmarshal {kind} into Go value of type {target}")));
    }
    // Keep the raw JSON: `test` compares values as written.
    let text = std::str::from_utf8(patch).map_err(|e| malformed(e.to_string()))?;
    Ok(RawMessage::new(text)
        .items()
        .into_iter()
        .flatten()
        .map(|item| Operation(fields(item).unwrap_or_default()))
        .collect())
}

fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

const MISSING: &str = "missing value";

/// One operation, with its fields as raw JSON.
struct Operation<'a>(BTreeMap<String, RawMessage<'a>>);

impl Operation<'_> {
    fn text(&self, field: &str) -> Option<Result<String, String>> {
        let raw = self.0.get(field).filter(|raw| raw.get() != "null")?;
        Some(serde_json::from_str(raw.get()).map_err(|_| {
            let kind = serde_json::from_str(raw.get()).map_or("value", |value: Value| json_kind(&value));
            format!("json: cannot unmarshal {kind} into Go value of type string")
        }))
    }

    fn path(&self) -> Result<String, String> {
        self.text("path").unwrap_or_else(|| Err(format!("operation missing path field: {MISSING}")))
    }

    fn from(&self) -> Result<String, String> {
        self.text("from").unwrap_or_else(|| Err(format!("operation, missing from field: {MISSING}")))
    }

    fn value(&self) -> Value {
        self.0.get("value").and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or(Value::Null)
    }

    fn run(&self, document: &mut Value, copied: &mut usize) -> Result<(), JsonPatchError> {
        let kind = self.text("op").and_then(Result::ok).unwrap_or_else(|| "unknown".into());
        let done = match kind.as_str() {
            "add" => self.add(document),
            "remove" => self.remove(document),
            "replace" => self.replace(document),
            "move" => self.relocate(document),
            "test" => return self.test(document),
            "copy" => self.copy(document, copied),
            _ => Err(format!("Unexpected kind: {kind}")),
        };
        done.map_err(JsonPatchError::DoesNotApply)
    }

    fn add(&self, document: &mut Value) -> Result<(), String> {
        let path = self.path().map_err(|_| format!("add operation failed to decode path: {MISSING}"))?;
        let Some((target, key)) = find(document, &path) else {
            return Err(format!("add operation does not apply: doc is missing path: \"{path}\": {MISSING}"));
        };
        add(target, &key, self.value()).map_err(|e| format!("error in add for path: '{path}': {e}"))
    }

    fn remove(&self, document: &mut Value) -> Result<(), String> {
        let path = self.path().map_err(|_| format!("remove operation failed to decode path: {MISSING}"))?;
        let Some((target, key)) = find(document, &path) else {
            return Err(format!(
                "remove operation does not apply: doc is missing path: \"{path}\": {MISSING}"
            ));
        };
        remove(target, &key).map_err(|e| format!("error in remove for path: '{path}': {e}"))?;
        Ok(())
    }

    fn replace(&self, document: &mut Value) -> Result<(), String> {
        let path = self.path().map_err(|e| format!("replace operation failed to decode path: {e}"))?;
        if path.is_empty() {
            let value = self.value();
            if !value.is_object() && !value.is_array() {
                return Err("replace operation value must be object or array: %!w(<nil>)".into());
            }
            *document = value;
            return Ok(());
        }
        let Some((target, key)) = find(document, &path) else {
            return Err(format!("replace operation does not apply: doc is missing path: {path}: {MISSING}"));
        };
        match target {
            Value::Object(map) => {
                map.insert(key, self.value());
                Ok(())
            }
            Value::Array(items) => match existing(items, &key) {
                Ok(index) => {
                    items[index] = self.value();
                    Ok(())
                }
                Err(_) => {
                    Err(format!("replace operation does not apply: doc is missing key: {path}: {MISSING}"))
                }
            },
            _ => Err(format!("replace operation does not apply: doc is missing path: {path}: {MISSING}")),
        }
    }

    fn relocate(&self, document: &mut Value) -> Result<(), String> {
        let from = self.from().map_err(|e| format!("move operation failed to decode from: {e}"))?;
        let Some((source, key)) = find(document, &from) else {
            return Err(format!(
                "move operation does not apply: doc is missing from path: {from}: {MISSING}"
            ));
        };
        let value = remove(source, &key).map_err(|e| format!("error in move for path: '{key}': {e}"))?;
        let path = self.path().map_err(|e| format!("move operation failed to decode path: {e}"))?;
        let Some((target, key)) = find(document, &path) else {
            return Err(format!(
                "move operation does not apply: doc is missing destination path: {path}: {MISSING}"
            ));
        };
        add(target, &key, value).map_err(|e| format!("error in move for path: '{path}': {e}"))
    }

    fn copy(&self, document: &mut Value, copied: &mut usize) -> Result<(), String> {
        let from = self.from().map_err(|e| format!("copy operation failed to decode from: {e}"))?;
        let Some((source, key)) = find(document, &from) else {
            return Err(format!(
                "copy operation does not apply: doc is missing from path: {from}: {MISSING}"
            ));
        };
        let value = get(source, &key).map_err(|e| format!("error in copy for from: '{from}': {e}"))?.cloned();
        let value = value.unwrap_or(Value::Null);
        let path = self.path().map_err(|_| format!("copy operation failed to decode path: {MISSING}"))?;
        let Some((target, key)) = find(document, &path) else {
            return Err(format!(
                "copy operation does not apply: doc is missing destination path: {path}: {MISSING}"
            ));
        };
        *copied += go_json(&value).len();
        if *copied > MAX_COPIED_BYTES {
            return Err(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit {MAX_COPIED_BYTES}"
            ));
        }
        add(target, &key, value).map_err(|e| format!("error while adding value during copy: {e}"))
    }

    fn test(&self, document: &mut Value) -> Result<(), JsonPatchError> {
        let fail = |why: String| JsonPatchError::DoesNotApply(why);
        let path = self.path().map_err(|e| fail(format!("test operation failed to decode path: {e}")))?;
        let expected = self.0.get("value").copied().filter(|raw| raw.get() != "null");
        let passes = if path.is_empty() {
            expected.is_some_and(|raw| equals(document, raw))
        } else {
            let Some((target, key)) = find(document, &path) else {
                return Err(fail(format!(
                    "test operation does not apply: is missing path: {path}: {MISSING}"
                )));
            };
            match get(target, &key).map_err(|e| fail(format!("error in test for path: '{path}': {e}")))? {
                None | Some(Value::Null) => expected.is_none(),
                Some(value) => expected.is_some_and(|raw| equals(value, raw)),
            }
        };
        if passes { Ok(()) } else { Err(JsonPatchError::TestFailed(path)) }
    }
}

/// Returns the fields of raw JSON, the last of those with the same key; `None` if it is not an object.
fn fields(raw: RawMessage<'_>) -> Option<BTreeMap<String, RawMessage<'_>>> {
    raw.fields()?.map(|(key, value)| Some((serde_json::from_str(key).ok()?, value))).collect()
}

/// Whether the value equals the raw JSON. Scalars are compared as written: `1` is not equal to `1.0`.
fn equals(value: &Value, raw: RawMessage<'_>) -> bool {
    match value {
        Value::Object(map) => {
            let Some(other) = fields(raw) else { return false };
            map.len() == other.len()
                && map.iter().all(|(key, value)| {
                    other.get(key).is_some_and(|&raw| match (value, raw.get()) {
                        (Value::Null, text) => text == "null",
                        (_, "null") => false,
                        _ => equals(value, raw),
                    })
                })
        }
        Value::Array(items) => {
            let Some(other) = raw.items() else { return false };
            let other: Vec<RawMessage<'_>> = other.collect();
            items.len() == other.len() && items.iter().zip(other).all(|(value, raw)| equals(value, raw))
        }
        scalar => go_json(scalar) == raw.get(),
    }
}

/// Resolves a JSON pointer to its parent container and the last key.
fn find<'a>(document: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    // Anything before the first slash is ignored.
    let (_, rest) = path.split_once('/')?;
    let mut parts: Vec<&str> = rest.split('/').collect();
    let key = parts.pop()?;
    let mut target = document;
    for part in parts {
        let part = unescape(part);
        target = match target {
            Value::Object(map) => map.get_mut(&part)?,
            Value::Array(items) => {
                let index = existing(items, &part).ok()?;
                items.get_mut(index)?
            }
            _ => return None,
        };
    }
    if !target.is_object() && !target.is_array() {
        return None;
    }
    Some((target, unescape(key)))
}

fn unescape(part: &str) -> String {
    let mut out = String::with_capacity(part.len());
    let mut rest = part;
    while let Some(at) = rest.find('~') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (replacement, length) = match rest.as_bytes().get(1) {
            Some(b'1') => ("/", 2),
            Some(b'0') => ("~", 2),
            _ => ("~", 1),
        };
        out.push_str(replacement);
        rest = &rest[length..];
    }
    out.push_str(rest);
    out
}

fn number(key: &str) -> Result<i64, String> {
    strconv::atoi(key.as_bytes()).map_err(|error| error.to_string())
}

fn out_of_range(index: i64) -> String {
    format!("Unable to access invalid index: {index}: invalid index referenced")
}

/// Resolves an index in a list of `length`; negative indexes count from the end.
fn place(index: i64, length: usize) -> Result<usize, String> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    if index >= length || index < -length {
        return Err(out_of_range(index));
    }
    let place = if index < 0 { index + length } else { index };
    usize::try_from(place).map_err(|_| out_of_range(index))
}

fn existing(items: &[Value], key: &str) -> Result<usize, String> {
    place(number(key)?, items.len())
}

fn get<'a>(target: &'a Value, key: &str) -> Result<Option<&'a Value>, String> {
    match target {
        Value::Array(items) => Ok(items.get(existing(items, key)?)),
        other => Ok(other.get(key)),
    }
}

fn add(target: &mut Value, key: &str, value: Value) -> Result<(), String> {
    match target {
        Value::Object(map) => {
            map.insert(key.to_owned(), value);
            Ok(())
        }
        Value::Array(items) if key == "-" => {
            items.push(value);
            Ok(())
        }
        Value::Array(items) => {
            let index =
                number(key).map_err(|e| format!("value was not a proper array index: '{key}': {e}"))?;
            items.insert(place(index, items.len() + 1)?, value);
            Ok(())
        }
        _ => Err(MISSING.into()),
    }
}

fn remove(target: &mut Value, key: &str) -> Result<Value, String> {
    match target {
        Value::Object(map) => {
            map.remove(key).ok_or_else(|| format!("Unable to remove nonexistent key: {key}: {MISSING}"))
        }
        Value::Array(items) => {
            let index = existing(items, key)?;
            Ok(items.remove(index))
        }
        _ => Err(MISSING.into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(document: Value, patch: Value) -> Result<Value, String> {
        json_patch(&document, patch.to_string().as_bytes()).map_err(|e| e.to_string())
    }

    #[test]
    fn a_test_for_null_passes_on_an_absent_field() {
        let patch =
            json!([{"op": "test", "path": "/a", "value": null}, {"op": "add", "path": "/a", "value": 1}]);
        assert_eq!(patched(json!({}), patch), Ok(json!({"a": 1})));
    }

    #[test]
    fn replace_adds_a_field_but_no_item() {
        assert_eq!(
            patched(json!({}), json!([{"op": "replace", "path": "/a", "value": 1}])),
            Ok(json!({"a": 1}))
        );
        let error = patched(json!({"a": []}), json!([{"op": "replace", "path": "/a/0", "value": 1}]));
        assert_eq!(
            error,
            Err("replace operation does not apply: doc is missing key: /a/0: missing value".into())
        );
    }

    #[test]
    fn items_are_added_counted_from_either_end() {
        let add = |index: &str| json!([{"op": "add", "path": format!("/a/{index}"), "value": 0}]);
        assert_eq!(patched(json!({"a": [1, 2]}), add("-")), Ok(json!({"a": [1, 2, 0]})));
        assert_eq!(patched(json!({"a": [1, 2]}), add("1")), Ok(json!({"a": [1, 0, 2]})));
        assert_eq!(patched(json!({"a": [1, 2]}), add("-1")), Ok(json!({"a": [1, 2, 0]})));
        assert_eq!(
            patched(json!({"a": [1, 2]}), add("4")),
            Err("error in add for path: '/a/4': Unable to access invalid index: 4: invalid index referenced"
                .into())
        );
    }

    #[test]
    fn keys_are_unescaped() {
        let patch = json!([{"op": "remove", "path": "/a~1b~0c"}]);
        assert_eq!(patched(json!({"a/b~c": 1}), patch), Ok(json!({})));
    }

    #[test]
    fn test_compares_numbers_as_written() {
        let test = |text: &str| {
            let patch = format!(r#"[{{"op":"test","path":"/a","value":{text}}}]"#);
            json_patch(&json!({"a": 1}), patch.as_bytes()).is_ok()
        };
        assert!(test("1"));
        assert!(!test("1.0"));
    }

    #[test]
    fn the_document_is_whole_or_untouched() {
        let document = json!({"a": 1});
        let patch = json!([{"op": "remove", "path": "/a"}, {"op": "remove", "path": "/b"}]);
        assert!(patched(document.clone(), patch).is_err());
        assert_eq!(document, json!({"a": 1}));
    }

    #[test]
    fn a_patch_is_a_list() {
        assert_eq!(
            patched(json!({}), json!({})),
            Err("json: cannot unmarshal object into Go value of type jsonpatch.Patch".into())
        );
    }
}
