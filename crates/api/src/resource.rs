//! Resources as served, with their groups, versions and verbs.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use serde_json::{Value, json};

use crate::{
    group_version::{GroupKind, GroupResource, api_version, internal_package, qualified, split_api_version},
    store::Entry,
    strategy::Strategy,
};

/// A request verb, as used in discovery, audit logs and authorization.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads a collection.
    List,
    /// Watches a collection or an object.
    Watch,
    /// Creates an object, or posts to a subresource: POST.
    Create,
    /// Replaces an object: PUT.
    Update,
    /// Patches an object, or applies a configuration server-side: PATCH.
    Patch,
    /// Deletes one object.
    Delete,
    /// Deletes every object of a collection that the selectors match.
    DeleteCollection,
}

impl Verb {
    /// Returns the verb's name, such as `deletecollection`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// Whether the verb is read-only.
    #[must_use]
    pub fn is_read(self) -> bool {
        matches!(self, Self::Get | Self::List | Self::Watch)
    }

    /// Whether the verb is a deletion, with `DeleteOptions` as its body.
    #[must_use]
    pub fn is_delete(self) -> bool {
        matches!(self, Self::Delete | Self::DeleteCollection)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A resource in one served version.
#[derive(Clone)]
pub struct Resource {
    /// API group, empty for the core group.
    pub group: String,
    /// API version such as `v1`.
    pub version: String,
    /// Plural name as in paths.
    pub plural: String,
    /// Singular name.
    pub singular: String,
    /// Kind of one object.
    pub kind: String,
    /// Kind of a list.
    pub list_kind: String,
    /// Short names that kubectl understands.
    pub short_names: Vec<String>,
    /// Categories such as `all`.
    pub categories: Vec<String>,
    /// Whether objects are namespaced.
    pub namespaced: bool,
    /// Verbs of the resource itself.
    pub verbs: Vec<Verb>,
    /// Subresources such as `status`.
    pub subresources: Vec<Subresource>,
    /// Version in which objects are stored.
    pub storage_version: String,
    /// `apiVersion` of stored objects. Its group differs from `group` if two groups share their storage.
    pub storage_api_version: String,
    /// Name of the resource's table in the store.
    pub storage: Arc<str>,
    /// Whether it is a custom resource.
    pub custom: bool,
    /// Behaviour of the kind.
    pub strategy: Arc<dyn Strategy>,
    /// Cache of [`Resource::empty_object`].
    pub empty: EmptyObject,
}

/// Lazily encoded empty object of a kind.
#[derive(Debug, Clone, Default)]
pub struct EmptyObject(OnceLock<Value>);

/// A subresource.
#[derive(Debug, Clone)]
pub struct Subresource {
    /// Name such as `status`.
    pub name: String,
    /// Kind of its request and response bodies.
    pub kind: String,
    /// Group of that kind.
    pub group: String,
    /// Version of that kind.
    pub version: String,
    /// Supported verbs.
    pub verbs: Vec<Verb>,
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Resource({} {})", self.api_version(), self.plural)
    }
}

impl Resource {
    /// `group/version`, or the version alone in the core group.
    #[must_use]
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// `plural.group`, or the plural alone in the core group.
    #[must_use]
    pub fn qualified(&self) -> String {
        qualified(&self.plural, &self.group)
    }

    /// Returns the Go type of one of the resource's kinds, which kube-apiserver prints in some errors.
    pub fn internal_type(&self, kind: &str) -> String {
        if self.custom {
            let list = if kind == self.list_kind { "List" } else { "" };
            return format!("*unstructured.Unstructured{list}");
        }
        format!("*{}.{kind}", internal_package(split_api_version(&self.storage_api_version).0))
    }

    /// Returns an empty object as a typed encoder writes it. Managed fields of new objects are computed against it.
    pub fn empty_object(&self) -> &Value {
        self.empty.0.get_or_init(|| {
            let mut empty = json!({"apiVersion": self.api_version(), "kind": self.kind});
            if self.strategy.typed()
                && let Some(schema) = self.strategy.schema(&self.version)
            {
                schema.encode(&mut empty);
            }
            empty
        })
    }

    /// Returns the subresource called `name`.
    #[must_use]
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    /// Returns the deprecation warning sent with every response, if the resource is deprecated.
    #[must_use]
    pub fn deprecation(&self) -> Option<&str> {
        self.strategy.deprecation(&self.version)
    }

    /// Whether this is the storage version.
    pub fn is_storage_version(&self) -> bool {
        split_api_version(&self.storage_api_version) == (self.group.as_str(), self.version.as_str())
    }

    /// Whether the stored bytes can be served in this version without conversion.
    pub fn serves_bytes(&self, entry: &Entry) -> bool {
        self.is_storage_version() && !self.strategy.outdates(entry.revision())
    }

    /// Returns a stored object in its storage version, refreshed if its kind has changed since.
    pub fn read(&self, entry: &Entry) -> Value {
        self.read_as(entry, entry.revision())
    }

    /// Like [`Resource::read`], with another resourceVersion.
    pub fn read_as(&self, entry: &Entry, revision: u64) -> Value {
        self.refreshed(entry, entry.value_as(revision))
    }

    /// Like [`Resource::read`], with managed field sets as strings, for callers that write the object back.
    pub fn read_packed(&self, entry: &Entry) -> Value {
        self.refreshed(entry, entry.packed())
    }

    fn refreshed(&self, entry: &Entry, mut object: Value) -> Value {
        if self.strategy.outdates(entry.revision()) {
            self.strategy.refresh(&mut object);
        }
        object
    }
}

/// One API group.
#[derive(Debug, Clone, Default)]
pub struct Group {
    /// Versions, the preferred one first.
    pub versions: Vec<Version>,
}

/// One version of a group.
#[derive(Debug, Clone)]
pub struct Version {
    /// Name such as `v1`.
    pub name: String,
    /// Resources, ordered by name.
    pub resources: Vec<Arc<Resource>>,
}

impl<'a> From<&'a Resource> for GroupResource<'a> {
    fn from(resource: &'a Resource) -> Self {
        Self { group: &resource.group, resource: &resource.plural }
    }
}

impl<'a> From<&'a Arc<Resource>> for GroupResource<'a> {
    fn from(resource: &'a Arc<Resource>) -> Self {
        Self::from(&**resource)
    }
}

impl<'a> From<&'a Resource> for GroupKind<'a> {
    fn from(resource: &'a Resource) -> Self {
        Self { group: &resource.group, kind: &resource.kind }
    }
}

impl<'a> From<&'a Arc<Resource>> for GroupKind<'a> {
    fn from(resource: &'a Arc<Resource>) -> Self {
        Self::from(&**resource)
    }
}
