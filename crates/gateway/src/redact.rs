//! Secrets, which are shown only if they are asked for.

use serde_json::Value;

use crate::{
    kinds::Kind,
    problem::{Problem, Result},
};

/// What stands for a value that is not shown.
const MARK: &str = "••••••";
/// Where kubectl keeps what was applied, values included.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

pub(crate) fn is_secret(kind: &Kind) -> bool {
    kind.group.is_empty() && kind.plural == "secrets"
}

/// An object without the values of secrets and of fields that its schema calls passwords.
pub(crate) fn hide(object: &Value, kind: &Kind) -> Value {
    let mut object = object.clone();
    let schema = kind.schema();
    let mut hidden = false;
    if let Some(schema) = schema {
        hide_passwords(&mut object, schema, &mut hidden);
    }
    if is_secret(kind) {
        for name in ["data", "stringData"] {
            if let Some(values) = object.get_mut(name).and_then(Value::as_object_mut) {
                values.values_mut().for_each(|value| *value = MARK.into());
                hidden = true;
            }
        }
    }
    let annotations = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    if hidden
        && let Some(applied) = annotations.and_then(|annotations| annotations.get_mut(LAST_APPLIED))
    {
        *applied = MARK.into();
    }
    object
}

fn hide_passwords(value: &mut Value, schema: &Value, hidden: &mut bool) {
    if schema["format"] == "password" && !value.is_null() {
        *value = MARK.into();
        *hidden = true;
        return;
    }
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let inner = schema["properties"].get(key).or_else(|| schema.get("additionalProperties"));
                if let Some(inner) = inner {
                    hide_passwords(value, inner, hidden);
                }
            }
        }
        Value::Array(elements) => {
            if let Some(inner) = schema.get("items") {
                elements.iter_mut().for_each(|element| hide_passwords(element, inner, hidden));
            }
        }
        _ => {}
    }
}

/// Refuses a body with marks in it, which would take the place of the real values.
pub(crate) fn refuse_marks(body: &Value) -> Result<()> {
    fn find(path: &str, value: &Value) -> Option<String> {
        match value {
            Value::String(text) => (text == MARK).then(|| path.to_owned()),
            Value::Object(members) => {
                members.iter().find_map(|(key, value)| find(&crate::field::join(path, key), value))
            }
            Value::Array(elements) => {
                elements.iter().enumerate().find_map(|(index, value)| find(&format!("{path}[{index}]"), value))
            }
            _ => None,
        }
    }
    match find("", body) {
        None => Ok(()),
        Some(path) => {
            let detail = "is the mark of a value that was not shown; leave the field out (PATCH), or ask with ?reveal=true";
            Err(Problem::invalid(&path, detail))
        }
    }
}
