//! External edits: changes other clients make to fields that the operator has set.

use std::fmt;

use serde_json::{Value, json};

/// Maximum number of edits of an object to try until the API server accepts one.
const TRIED: usize = 20;

/// A change of one field.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Edit {
    /// The field, as a JSON pointer.
    pub(crate) pointer: String,
    pub(crate) old: Value,
    pub(crate) new: Value,
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "someone changes {} from {} to {}", self.pointer, self.old, self.new)
    }
}

impl Edit {
    /// Returns the edit as a JSON patch.
    pub(crate) fn patch(&self) -> Value {
        json!([{"op": "replace", "path": self.pointer, "value": self.new}])
    }
}

/// Returns edits of the fields in which a live object equals what the operator sent.
///
/// They are ordered: replicas, other numbers, booleans, strings. Metadata is not edited, since operators find their objects
/// by labels.
pub(crate) fn candidates(sent: &Value, live: &Value) -> Vec<Edit> {
    let mut found = Vec::new();
    for (name, value) in sent.as_object().into_iter().flatten() {
        if !matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status") {
            walk(&format!("/{}", escape(name)), value, live, &mut found);
        }
    }
    found.sort_by_key(|edit| match &edit.old {
        Value::Number(_) => u8::from(edit.pointer != "/spec/replicas"),
        Value::Bool(_) => 2,
        _ => 3,
    });
    found.truncate(TRIED);
    found
}

fn walk(pointer: &str, sent: &Value, live: &Value, found: &mut Vec<Edit>) {
    match sent {
        Value::Object(fields) => {
            for (name, value) in fields {
                walk(&format!("{pointer}/{}", escape(name)), value, live, found);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                walk(&format!("{pointer}/{index}"), value, live, found);
            }
        }
        value => {
            let is_live = live.pointer(pointer) == Some(value);
            let new = other_value(value, live["kind"] == "Secret" && pointer.starts_with("/data/"));
            if let Some(new) = new.filter(|_| is_live) {
                found.push(Edit { pointer: pointer.to_owned(), old: value.clone(), new });
            }
        }
    }
}

fn other_value(value: &Value, is_base64: bool) -> Option<Value> {
    match value {
        Value::Number(number) => Some(json!(number.as_i64()?.checked_add(1)?)),
        Value::Bool(is_on) => Some(json!(!is_on)),
        Value::String(_) if is_base64 => Some(json!("ZWRpdGVk")),
        Value::String(text) => Some(json!(format!("{text}-edited"))),
        _ => None,
    }
}

/// Escapes a name for a JSON pointer.
fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_replicas_is_edited_before_anything_else() {
        let sent = json!({"kind": "Deployment", "metadata": {"labels": {"a": "b"}}, "spec": {
            "minReadySeconds": 1, "replicas": 2, "paused": false,
            "template": {"metadata": {"annotations": {"x.com/y": "z"}}, "spec": {"containers": [{"image": "web"}]}},
        }});
        let pointers = |live: &Value| -> Vec<String> {
            candidates(&sent, live).into_iter().map(|edit| edit.pointer).collect()
        };
        assert_eq!(
            pointers(&sent),
            [
                "/spec/replicas",
                "/spec/minReadySeconds",
                "/spec/paused",
                "/spec/template/metadata/annotations/x.com~1y",
                "/spec/template/spec/containers/0/image"
            ]
        );
        // Fields that differ from what the operator sent are no longer the operator's.
        let mut live = sent.clone();
        live["spec"]["replicas"] = json!(5);
        live["spec"]["template"] = json!({});
        assert_eq!(pointers(&live), ["/spec/minReadySeconds", "/spec/paused"]);
    }

    #[test]
    fn a_secret_is_given_what_is_base64() {
        let secret = json!({"kind": "Secret", "data": {"password": "YWJj"}});
        let [edit] = candidates(&secret, &secret).try_into().unwrap();
        assert_eq!(edit.patch(), json!([{"op": "replace", "path": "/data/password", "value": "ZWRpdGVk"}]));
    }
}
