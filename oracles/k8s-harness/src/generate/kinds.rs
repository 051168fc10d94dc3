//! One sound object of each kind that is generated from.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

/// A kind, where its objects live and one of them.
#[derive(Debug, Deserialize)]
pub(crate) struct Kind {
    /// The collection's path; `{ns}` and `{id}` are filled in when a case runs.
    pub(crate) path: String,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) object: Value,
}

/// The kinds, read from the file beside this one.
pub(crate) static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    // A fault in the file shows in the test below; the generator then has nothing to work on.
    serde_saphyr::from_str(include_str!("kinds.yaml")).unwrap_or_default()
});

impl Kind {
    /// The path of the object.
    pub(crate) fn object_path(&self) -> String {
        format!(
            "{}/{}",
            self.path,
            self.object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
        )
    }

    /// The object with apiVersion and kind.
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
