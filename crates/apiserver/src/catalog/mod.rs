//! What is served: built-in resources and those that custom resource definitions add.

mod builtin;
pub(crate) mod discovery;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::{store::Entry, strategy::Strategy};

/// A resource as served in one version.
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
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Verbs of the resource itself.
    pub verbs: Vec<String>,
    /// Subresources such as `status`.
    pub subresources: Vec<Subresource>,
    /// Version in which objects are stored.
    pub storage_version: String,
    /// `apiVersion` of stored objects; the group differs from `group` where two groups share a storage.
    pub(crate) storage_api_version: String,
    /// Table of the store.
    pub(crate) storage: Arc<str>,
    /// Whether a custom resource definition defines it.
    pub(crate) custom: bool,
    pub(crate) strategy: Arc<dyn Strategy>,
    /// See [`Resource::nothing`].
    pub(crate) nothing: OnceLock<Value>,
}

/// A part of a resource with a path of its own.
#[derive(Debug, Clone)]
pub struct Subresource {
    /// Name such as `status`.
    pub name: String,
    /// Kind that it speaks.
    pub kind: String,
    /// Group of that kind.
    pub group: String,
    /// Version of that kind.
    pub version: String,
    /// Verbs that it has.
    pub verbs: Vec<String>,
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
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// The Go type of the real server behind a kind of this resource, as some of its refusals print it.
    pub(crate) fn internal_type(&self, kind: &str) -> String {
        if self.custom {
            let list = if kind == self.list_kind { "List" } else { "" };
            return format!("*unstructured.Unstructured{list}");
        }
        format!("*{}.{kind}", internal_package(split_api_version(&self.storage_api_version).0))
    }

    /// The object without content: what a typed encoder writes of it. Every new object is compared with it.
    pub(crate) fn nothing(&self) -> &Value {
        self.nothing.get_or_init(|| {
            let mut nothing = json!({"apiVersion": self.api_version(), "kind": self.kind});
            if self.strategy.typed()
                && let Some(schema) = self.strategy.schema(&self.version)
            {
                schema.encode(&mut nothing);
            }
            nothing
        })
    }

    /// The subresource of that name.
    #[must_use]
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    /// What clients are told whenever they use a resource that is on its way out.
    pub(crate) fn deprecation(&self) -> Option<&'static str> {
        match (self.group.as_str(), self.plural.as_str()) {
            ("", "endpoints") => {
                Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
            }
            ("", "componentstatuses") => Some("v1 ComponentStatus is deprecated in v1.19+"),
            _ => None,
        }
    }

    /// Whether objects are stored in this version.
    pub(crate) fn is_storage_version(&self) -> bool {
        split_api_version(&self.storage_api_version) == (self.group.as_str(), self.version.as_str())
    }

    /// Whether the stored bytes are what clients of this version see.
    pub(crate) fn serves_bytes(&self, entry: &Entry) -> bool {
        self.is_storage_version() && !self.strategy.outdates(entry.revision())
    }

    /// A stored object as it reads today, in the stored version.
    pub(crate) fn read(&self, entry: &Entry) -> Value {
        self.read_as(entry, entry.revision())
    }

    /// The same with a resourceVersion other than its own.
    pub(crate) fn read_as(&self, entry: &Entry, revision: u64) -> Value {
        self.refreshed(entry, entry.value_as(revision))
    }

    /// The same with packed records of fields, for whoever writes it back.
    pub(crate) fn read_packed(&self, entry: &Entry) -> Value {
        self.refreshed(entry, entry.packed())
    }

    fn refreshed(&self, entry: &Entry, mut object: Value) -> Value {
        if self.strategy.outdates(entry.revision()) {
            self.strategy.refresh(&mut object);
        }
        object
    }
}

/// `group/version`, or the version alone in the core group.
pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// The Go package in which the real server keeps the types of a built-in group.
pub(crate) fn internal_package(group: &str) -> &str {
    match group.split('.').next().unwrap_or_default() {
        "" => "core",
        "internal" => "apiserverinternal",
        first => first,
    }
}

/// Splits an apiVersion into group and version.
pub(crate) fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
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

/// An immutable picture of everything that is served. A new one replaces it when a definition changes.
#[derive(Debug)]
pub struct Catalog {
    custom: BTreeMap<String, Group>,
    documents: discovery::Documents,
    /// All resources by the table in which they are stored, once somebody asks.
    stored: OnceLock<HashMap<Arc<str>, Vec<Arc<Resource>>>>,
}

impl Catalog {
    /// A catalog of the built-in resources and `custom` ones.
    pub(crate) fn new(custom: BTreeMap<String, Group>) -> Self {
        Self { custom, documents: discovery::Documents::default(), stored: OnceLock::new() }
    }

    /// The resource at a path.
    #[must_use]
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        let version = self.group(group)?.versions.iter().find(|v| v.name == version)?;
        version.resources.iter().find(|r| r.plural == plural)
    }

    /// The resource of a kind.
    #[must_use]
    pub fn find_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let version = self.group(group)?.versions.iter().find(|v| v.name == version)?;
        version.resources.iter().find(|r| r.kind == kind)
    }

    /// A group by its name.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<&Group> {
        builtin::groups().iter().find(|(n, _)| n == name).map(|(_, g)| g).or_else(|| self.custom.get(name))
    }

    /// All groups, in discovery order.
    pub fn groups(&self) -> impl Iterator<Item = (&str, &Group)> {
        let fixed = builtin::groups().iter().map(|(n, g)| (n.as_str(), g));
        fixed.chain(self.custom.iter().map(|(n, g)| (n.as_str(), g)))
    }

    /// All resources in all versions.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.groups().flat_map(|(_, g)| g.versions.iter().flat_map(|v| v.resources.iter()))
    }

    /// All resources whose objects are in one table of the store: the same in all versions.
    pub(crate) fn stored_as(&self, storage: &str) -> &[Arc<Resource>] {
        let stored = self.stored.get_or_init(|| {
            let mut stored: HashMap<_, Vec<_>> = HashMap::new();
            for resource in self.resources() {
                stored.entry(Arc::clone(&resource.storage)).or_default().push(Arc::clone(resource));
            }
            stored
        });
        stored.get(storage).map_or(&[], Vec::as_slice)
    }

    /// Whether a group is built in.
    pub(crate) fn is_builtin_group(name: &str) -> bool {
        builtin::groups().iter().any(|(n, _)| n == name)
    }

    pub(crate) fn documents(&self) -> &discovery::Documents {
        &self.documents
    }
}

/// A document that is made at most once per catalog.
#[derive(Debug, Default)]
pub(crate) struct Lazy(OnceLock<Bytes>);

impl Lazy {
    pub(crate) fn get(&self, make: impl FnOnce() -> Value) -> Bytes {
        self.0.get_or_init(|| make().to_string().into()).clone()
    }
}
