//! Compares an object with an assertion: every expected field must match.

use std::fmt;

use serde_json::Value;

/// The first field where an object differs from the expected one.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// The differing field, such as `spec.containers[0].image`; empty for the whole object.
    pub path: String,
    /// The expected value of the field.
    pub expected: Value,
    /// The actual value; `None` if the object does not have the field.
    pub actual: Option<Value>,
    reason: Reason,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Reason {
    Missing,
    Type,
    Length,
    NoItem,
    Value,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, expected, actual, reason } = self;
        if !path.is_empty() {
            write!(f, ".{path}: ")?;
        }
        let null = Value::Null;
        let actual = actual.as_ref().unwrap_or(&null);
        let length = |value: &Value| value.as_array().map_or(0, Vec::len);
        match reason {
            Reason::Missing => f.write_str("key is missing from map"),
            Reason::Type => write!(f, "type mismatch: {} != {}", go_type(expected), go_type(actual)),
            Reason::Length => write!(f, "slice length mismatch: {} != {}", length(expected), length(actual)),
            Reason::NoItem => write!(f, "no item of the list has {}", shown(expected)),
            Reason::Value => {
                write!(f, "value mismatch, expected: {} != actual: {}", shown(expected), shown(actual))
            }
        }
    }
}

/// How the items of lists are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListMatch {
    /// Both lists have the same length and match item by item, as in kuttl. The default.
    #[default]
    Exact,
    /// Each expected item matches some item of the list, in any order; further items are ignored.
    Partial,
}

/// Checks that `actual` has every field of `expected`; keys that only `actual` has are ignored.
///
/// # Errors
/// Fails with the first difference, in the order of the keys.
pub fn subset(expected: &Value, actual: &Value, lists: ListMatch) -> Result<(), Mismatch> {
    compare(expected, actual, lists, &mut String::new())
}

fn compare(expected: &Value, actual: &Value, lists: ListMatch, path: &mut String) -> Result<(), Mismatch> {
    let differs = |reason, path: &str| {
        Err(Mismatch {
            path: path.to_owned(),
            expected: expected.clone(),
            actual: Some(actual.clone()),
            reason,
        })
    };
    if go_type(expected) != go_type(actual) {
        return differs(Reason::Type, path);
    }
    let length = path.len();
    match (expected, actual) {
        (Value::Object(wanted), Value::Object(present)) => {
            for (key, value) in wanted {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
                match present.get(key) {
                    Some(actual) => compare(value, actual, lists, path)?,
                    None => {
                        let path = path.clone();
                        return Err(Mismatch {
                            path,
                            expected: value.clone(),
                            actual: None,
                            reason: Reason::Missing,
                        });
                    }
                }
                path.truncate(length);
            }
            Ok(())
        }
        (Value::Array(wanted), Value::Array(present)) if lists == ListMatch::Partial => {
            let has = |item: &Value| present.iter().any(|actual| subset(item, actual, lists).is_ok());
            match wanted.iter().find(|item| !has(item)) {
                Some(item) => Err(Mismatch {
                    path: path.clone(),
                    expected: item.clone(),
                    actual: Some(actual.clone()),
                    reason: Reason::NoItem,
                }),
                None => Ok(()),
            }
        }
        (Value::Array(wanted), Value::Array(present)) => {
            if wanted.len() != present.len() {
                return differs(Reason::Length, path);
            }
            for (index, (value, actual)) in wanted.iter().zip(present).enumerate() {
                path.push_str(&format!("[{index}]"));
                compare(value, actual, lists, path)?;
                path.truncate(length);
            }
            Ok(())
        }
        _ if expected == actual => Ok(()),
        _ => differs(Reason::Value, path),
    }
}

/// Returns the Go type of a decoded value: assertions distinguish integers from other numbers.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.as_i64().is_some() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Formats a value for people: strings without quotes, the rest as JSON.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn verdict(expected: Value, actual: Value) -> Result<(), String> {
        subset(&expected, &actual, ListMatch::Exact).map_err(|mismatch| mismatch.to_string())
    }

    #[test]
    fn further_keys_are_ignored_but_items_are_not() {
        assert_eq!(verdict(json!({"a": {"b": 1}}), json!({"a": {"b": 1, "c": 2}, "d": 3})), Ok(()));
        assert_eq!(verdict(json!({}), json!({"a": 1})), Ok(()));
        assert_eq!(verdict(json!([{"a": 1}]), json!([{"a": 1, "b": 2}])), Ok(()));
        let failed = |text: &str| Err(text.to_owned());
        assert_eq!(
            verdict(json!({"a": [1]}), json!({"a": [1, 2]})),
            failed(".a: slice length mismatch: 1 != 2")
        );
        assert_eq!(
            verdict(json!({"a": {"b": 1}}), json!({"a": {}})),
            failed(".a.b: key is missing from map")
        );
        assert_eq!(verdict(json!({"a": 1}), json!({"a": "1"})), failed(".a: type mismatch: int64 != string"));
        assert_eq!(
            verdict(json!({"a": 1}), json!({"a": 1.5})),
            failed(".a: type mismatch: int64 != float64")
        );
        assert_eq!(
            verdict(json!({"a": [{"b": 1}]}), json!({"a": [{"b": 2}]})),
            failed(".a[0].b: value mismatch, expected: 1 != actual: 2")
        );
        assert_eq!(verdict(json!({"a": null}), json!({"a": null})), Ok(()));
        assert_eq!(verdict(json!({"a": null}), json!({})), failed(".a: key is missing from map"));
        assert!(verdict(json!({"a": [2, 1]}), json!({"a": [1, 2]})).is_err());
    }

    #[test]
    fn partial_lists_need_each_expected_item() {
        let partial = |expected: Value, actual: Value| subset(&expected, &actual, ListMatch::Partial);
        assert!(partial(json!([{"a": 2}, {"a": 1}]), json!([{"a": 1}, {"b": 1}, {"a": 2}])).is_ok());
        let mismatch = partial(json!({"x": [{"a": 3}]}), json!({"x": [{"a": 1}]})).unwrap_err();
        assert_eq!(mismatch.to_string(), r#".x: no item of the list has {"a":3}"#);
    }
}
