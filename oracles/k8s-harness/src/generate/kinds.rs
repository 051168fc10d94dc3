//! A valid object of each kind that is used for generating cases.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

/// A kind, the path of its objects, and one of them.
#[derive(Debug, Deserialize)]
pub(crate) struct Kind {
    /// The collection's path; `{ns}` and `{id}` are substituted when a case runs.
    pub(crate) path: String,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) object: Value,
}

/// The kinds, read from the adjacent file.
pub(crate) static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    // An error in the file is found by the test below; without it, the generator has no input.
    serde_saphyr::from_str(include_str!("kinds.yaml")).unwrap_or_default()
});

impl Kind {
    /// Returns the path of the object.
    pub(crate) fn object_path(&self) -> String {
        format!(
            "{}/{}",
            self.path,
            self.object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
        )
    }

    /// Returns the object with apiVersion and kind.
    pub(crate) fn object(&self) -> Value {
        let mut object = self.object.clone();
        let version = if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        };
        if let Some(fields) = object.as_object_mut() {
            fields.insert("apiVersion".to_owned(), Value::from(version));
            fields.insert("kind".to_owned(), Value::from(self.kind.clone()));
        }
        object
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_kinds_can_be_read() {
        let kinds: Vec<super::Kind> =
            serde_saphyr::from_str(include_str!("kinds.yaml")).expect("kinds.yaml parses");
        assert!(kinds.len() > 20);
    }
}
