//! An object being transformed by kustomizations, with its previous ids.

use std::fmt;

use serde_json::{Value, json};

use crate::role::is_cluster_scoped;

/// The id of an object: group, version, kind, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Id {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)?;
        if self.namespace.is_empty() { Ok(()) } else { write!(f, " in namespace {}", self.namespace) }
    }
}

impl Id {
    /// Whether it is of a built-in cluster-scoped kind.
    pub(super) fn is_cluster_scoped(&self) -> bool {
        is_cluster_scoped(&self.group, &self.kind)
    }

    /// Returns the namespace used in comparisons.
    pub(super) fn effective_namespace(&self) -> &str {
        match self.namespace.as_str() {
            _ if self.is_cluster_scoped() => "_non_namespaceable_",
            "" => "default",
            namespace => namespace,
        }
    }

    pub(super) fn equals(&self, other: &Self) -> bool {
        self.has_type_of(other)
            && self.name == other.name
            && self.effective_namespace() == other.effective_namespace()
    }

    fn has_type_of(&self, other: &Self) -> bool {
        self.group == other.group && self.version == other.version && self.kind == other.kind
    }
}

/// An object with its previous ids.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    pub(super) content: Value,
    /// Its ids before each change of its name or namespace, oldest first.
    pub(super) previous: Vec<Id>,
    pub(super) prefixes: Vec<String>,
    pub(super) suffixes: Vec<String>,
}

impl Resource {
    pub(super) fn new(content: Value) -> Self {
        Self { content, previous: Vec::new(), prefixes: Vec::new(), suffixes: Vec::new() }
    }

    /// Returns the current id.
    pub(super) fn id(&self) -> Id {
        let text = |pointer: &str| {
            self.content.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let api_version = text("/apiVersion");
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        Id {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: text("/kind"),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
        }
    }

    /// Returns the original id.
    pub(super) fn original_id(&self) -> Id {
        self.previous.first().cloned().unwrap_or_else(|| self.id())
    }

    /// Returns the previous ids and the current one.
    pub(super) fn ids(&self) -> impl Iterator<Item = Id> {
        self.previous.iter().cloned().chain([self.id()])
    }

    /// Records the current id before it changes.
    pub(super) fn store_id(&mut self) {
        self.previous.push(self.id());
    }

    pub(super) fn set_metadata(&mut self, field: &str, value: &str) {
        let Some(object) = self.content.as_object_mut() else { return };
        let metadata = object.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert(field.to_owned(), value.into());
        }
    }

    /// Whether prefixes and suffixes of both are compatible: one list ends with the other.
    pub(super) fn has_affixes_of(&self, other: &Self, allow_empty: bool) -> bool {
        let ends_alike = |one: &[String], other: &[String]| {
            (allow_empty && (one.is_empty() || other.is_empty()))
                || one.ends_with(other)
                || other.ends_with(one)
        };
        ends_alike(&self.prefixes, &other.prefixes) && ends_alike(&self.suffixes, &other.suffixes)
    }
}
