//! The embedded files under templates/, and their rendering.

use std::sync::Arc;

use serde_json::Value as Json;
use steersman_gotemplate::{Funcs, MissingKey, Set, Value};

use crate::error::{Error, Result};

/// A file under templates/: its relative path and its content.
pub(crate) type Template = (&'static str, &'static str);

/// A template by its path under templates/.
macro_rules! template {
    ($path:literal) => {
        ($path, include_str!(concat!("../templates/", $path)))
    };
}
pub(crate) use template;

/// Renders a template. A key missing from the values is an error.
pub(crate) fn render(template: Template, values: &Json) -> Result<String> {
    let (name, text) = template;
    let failed = |reason: String| Error::Template { name: name.to_owned(), reason };
    let mut set: Set<()> = Set::new(Arc::new(Funcs::new())).missing_key(MissingKey::Error);
    set.parse(name, text.as_bytes()).map_err(|error| failed(error.to_string()))?;
    let mut out = Vec::new();
    set.execute(&mut (), name, value(values), &mut out).map_err(|error| failed(error.to_string()))?;
    String::from_utf8(out).map_err(|error| failed(error.to_string()))
}

fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(yes) => Value::Bool(*yes),
        Json::Number(number) => Value::int(number.as_i64().unwrap_or_default()),
        Json::String(text) => Value::string(text.as_str()),
        Json::Array(items) => Value::list(items.iter().map(value).collect()),
        Json::Object(entries) => Value::map(entries.iter().map(|(key, item)| (key.as_str(), value(item)))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_that_is_not_there_is_an_error() {
        assert_eq!(render(("t", "a {{ .B }}"), &json!({"B": "c"})).unwrap(), "a c");
        assert!(render(("t", "a {{ .C }}"), &json!({"B": "c"})).is_err());
    }
}
