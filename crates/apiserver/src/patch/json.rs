//! JSON patch (RFC 6902) with the deviations of the library that the real server uses.
//!
//! The json-patch crate follows the RFC where the real server does not: there, a `test` for null passes on an absent path,
//! which finalizers rely on.

use serde::Deserialize;
use serde_json::Value;

/// Patches of more operations than this are refused.
const MAX_OPERATIONS: usize = 10_000;

/// Why a patch did not apply.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JsonPatchError {
    /// The patch is not a list of operations.
    #[error("{0}")]
    Malformed(String),
    /// There are more operations than a request may have.
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooLarge(usize),
    /// An operation could not be carried out.
    #[error("{0}")]
    Failed(String),
}

#[derive(Debug, Deserialize)]
struct Operation {
    op: String,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    from: Option<String>,
    // Tells an absent value from null.
    #[serde(default, deserialize_with = "present")]
    value: Option<Value>,
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// A parsed patch.
#[derive(Debug)]
pub(crate) struct JsonPatch(Vec<Operation>);

impl JsonPatch {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, JsonPatchError> {
        let operations: Vec<Operation> =
            serde_json::from_slice(bytes).map_err(|e| JsonPatchError::Malformed(e.to_string()))?;
        if operations.len() > MAX_OPERATIONS {
            return Err(JsonPatchError::TooLarge(operations.len()));
        }
        Ok(Self(operations))
    }

    /// Applies all operations, or none.
    pub(crate) fn apply(&self, document: &Value) -> Result<Value, JsonPatchError> {
        let mut document = document.clone();
        for operation in &self.0 {
            apply(operation, &mut document).map_err(JsonPatchError::Failed)?;
        }
        Ok(document)
    }
}

fn apply(operation: &Operation, document: &mut Value) -> Result<(), String> {
    let path = pointer(operation.path.as_deref().unwrap_or_default())?;
    let value = || operation.value.clone().unwrap_or_default();
    match operation.op.as_str() {
        "add" => add(document, &path, value()),
        "remove" => remove(document, &path).map(drop),
        "replace" => {
            let slot = find_mut(document, &path).ok_or_else(|| {
                format!("replace operation does not apply: doc is missing key: {}", show(&path))
            })?;
            *slot = value();
            Ok(())
        }
        "move" => {
            let from = pointer(operation.from.as_deref().unwrap_or_default())?;
            let value = remove(document, &from)?;
            add(document, &path, value)
        }
        "copy" => {
            let from = pointer(operation.from.as_deref().unwrap_or_default())?;
            let value = find(document, &from).cloned().ok_or_else(|| {
                format!("copy operation does not apply: doc is missing from path: {}", show(&from))
            })?;
            add(document, &path, value)
        }
        "test" => {
            let expected = value();
            match find(document, &path) {
                Some(actual) if equal(actual, &expected) => Ok(()),
                None if expected.is_null() => Ok(()),
                _ => Err(format!("testing value {} failed", show(&path))),
            }
        }
        other => Err(format!("Unexpected kind: {other}")),
    }
}

fn equal(a: &Value, b: &Value) -> bool {
    a == b
}

fn show(path: &[String]) -> String {
    path.iter().fold(String::new(), |mut out, part| {
        out.push('/');
        out.push_str(part);
        out
    })
}

fn pointer(text: &str) -> Result<Vec<String>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let Some(rest) = text.strip_prefix('/') else { return Err(format!("invalid path {text}")) };
    Ok(rest.split('/').map(|part| part.replace("~1", "/").replace("~0", "~")).collect())
}

fn find<'a>(document: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(document, |value, part| match value {
        Value::Object(map) => map.get(part),
        Value::Array(list) => list.get(index(part, list.len())?),
        _ => None,
    })
}

fn find_mut<'a>(document: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(document, |value, part| match value {
        Value::Object(map) => map.get_mut(part),
        Value::Array(list) => {
            let at = index(part, list.len())?;
            list.get_mut(at)
        }
        _ => None,
    })
}

/// Negative indices count from the end.
fn index(part: &str, length: usize) -> Option<usize> {
    let at: i64 = part.parse().ok()?;
    let length = i64::try_from(length).ok()?;
    usize::try_from(if at < 0 { at + length } else { at }).ok()
}

fn parent<'a, 'p>(
    document: &'a mut Value,
    path: &'p [String],
    what: &str,
) -> Result<(&'a mut Value, &'p str), String> {
    let missing = || format!("{what} operation does not apply: doc is missing path: {}", show(path));
    let (last, head) = path.split_last().ok_or_else(missing)?;
    Ok((find_mut(document, head).ok_or_else(missing)?, last))
}

fn add(document: &mut Value, path: &[String], value: Value) -> Result<(), String> {
    if path.is_empty() {
        *document = value;
        return Ok(());
    }
    let (container, key) = parent(document, path, "add")?;
    match container {
        Value::Object(map) => {
            map.insert(key.to_owned(), value);
            Ok(())
        }
        Value::Array(list) if key == "-" => {
            list.push(value);
            Ok(())
        }
        Value::Array(list) => match index(key, list.len() + 1).filter(|i| *i <= list.len()) {
            Some(at) => {
                list.insert(at, value);
                Ok(())
            }
            None => Err(format!("Unable to access invalid index: {key}: invalid index referenced")),
        },
        _ => Err(format!("add operation does not apply: doc is missing path: {}", show(path))),
    }
}

fn remove(document: &mut Value, path: &[String]) -> Result<Value, String> {
    let (container, key) = parent(document, path, "remove")?;
    match container {
        Value::Object(map) => map.remove(key),
        Value::Array(list) => index(key, list.len()).filter(|i| *i < list.len()).map(|i| list.remove(i)),
        _ => None,
    }
    .ok_or_else(|| format!("remove operation does not apply: doc is missing path: {}", show(path)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(document: &Value, patch: &Value) -> Option<Value> {
        JsonPatch::parse(patch.to_string().as_bytes()).unwrap().apply(document).ok()
    }

    #[test]
    fn a_test_for_null_passes_on_an_absent_path() {
        let patch = json!([
            {"op": "test", "path": "/metadata/finalizers", "value": null},
            {"op": "add", "path": "/metadata/finalizers", "value": ["a"]},
        ]);
        assert_eq!(run(&json!({"metadata": {}}), &patch), Some(json!({"metadata": {"finalizers": ["a"]}})));
        assert_eq!(run(&json!({"metadata": {"finalizers": ["b"]}}), &patch), None);
    }

    #[test]
    fn all_operations() {
        let document = json!({"a": [1, 2], "b": {"c~/d": 1}});
        for (patch, result) in [
            (json!([{"op": "add", "path": "/a/-", "value": 3}]), json!({"a": [1, 2, 3], "b": {"c~/d": 1}})),
            (json!([{"op": "add", "path": "/a/0", "value": 3}]), json!({"a": [3, 1, 2], "b": {"c~/d": 1}})),
            (json!([{"op": "remove", "path": "/b/c~0~1d"}]), json!({"a": [1, 2], "b": {}})),
            (json!([{"op": "move", "from": "/a", "path": "/x"}]), json!({"x": [1, 2], "b": {"c~/d": 1}})),
            (
                json!([{"op": "copy", "from": "/a/1", "path": "/a/0"}]),
                json!({"a": [2, 1, 2], "b": {"c~/d": 1}}),
            ),
            (json!([{"op": "replace", "path": "/a/1", "value": 9}]), json!({"a": [1, 9], "b": {"c~/d": 1}})),
        ] {
            assert_eq!(run(&document, &patch), Some(result));
        }
        for bad in [
            json!([{"op": "remove", "path": "/zzz"}]),
            json!([{"op": "replace", "path": "/zzz", "value": 1}]),
            json!([{"op": "add", "path": "/x/y", "value": 1}]),
            json!([{"op": "add", "path": "/a/7", "value": 1}]),
            json!([{"op": "fly", "path": "/a"}]),
        ] {
            assert_eq!(run(&document, &bad), None, "{bad}");
        }
    }
}
