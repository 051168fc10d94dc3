//! Redaction of secrets, which are shown only on request.

use serde_json::Value;

use crate::{
    kinds::Kind,
    problem::{Problem, Result},
};

/// The placeholder for a redacted value.
const MARK: &str = "••••••";
/// The annotation with the object that kubectl applied, values included.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

pub(crate) fn is_secret(kind: &Kind) -> bool {
    kind.group.is_empty() && kind.plural == "secrets"
}

/// Returns the object without the values of secrets and of fields that its schema formats as
/// passwords.
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
    if hidden && let Some(applied) = annotations.and_then(|annotations| annotations.get_mut(LAST_APPLIED)) {
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

/// Rejects a body that contains placeholders, which would overwrite the real values.
pub(crate) fn refuse_marks(body: &Value) -> Result<()> {
    fn find(path: &str, value: &Value) -> Option<String> {
        match value {
            Value::String(text) => (text == MARK).then(|| path.to_owned()),
            Value::Object(members) => {
                members.iter().find_map(|(key, value)| find(&crate::field::join(path, key), value))
            }
            Value::Array(elements) => elements
                .iter()
                .enumerate()
                .find_map(|(index, value)| find(&format!("{path}[{index}]"), value)),
            _ => None,
        }
    }
    match find("", body) {
        None => Ok(()),
        Some(path) => {
            let detail = "is the placeholder of a hidden value; \
                          leave the field out (PATCH), or read with ?reveal=true";
            Err(Problem::invalid(&path, detail))
        }
    }
}
