//! The catalog: built-in resources and those that custom resource definitions add.

pub(crate) mod discovery;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use serde_json::Value;
use steersman_kinds::groups;

use crate::aggregation::RemoteVersion;

pub(crate) use steersman_api::group_version::{api_version, internal_package, split_api_version};
pub use steersman_api::resource::{Group, Resource, Subresource, Verb, Version};

/// An immutable picture of everything that is served. A new one replaces it when a definition or an APIService changes.
#[derive(Debug)]
pub struct Catalog {
    custom: BTreeMap<String, Group>,
    /// What other servers have, which is listed and not to be found here.
    remote: Vec<RemoteVersion>,
    documents: discovery::Documents,
    /// All resources by the table in which they are stored, made on first use.
    stored: OnceLock<HashMap<Arc<str>, Vec<Arc<Resource>>>>,
}

impl Catalog {
    /// A catalog of the built-in resources, `custom` ones, and those of other servers.
    pub(crate) fn new(custom: BTreeMap<String, Group>, remote: Vec<RemoteVersion>) -> Self {
        Self { custom, remote, documents: discovery::Documents::default(), stored: OnceLock::new() }
    }

    /// The groups of custom resources.
    pub(crate) fn custom_groups(&self) -> &BTreeMap<String, Group> {
        &self.custom
    }

    /// The group versions of other servers.
    pub(crate) fn remote(&self) -> &[RemoteVersion] {
        &self.remote
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
        groups().iter().find(|(n, _)| n == name).map(|(_, g)| g).or_else(|| self.custom.get(name))
    }

    /// All groups, in discovery order.
    pub fn groups(&self) -> impl Iterator<Item = (&str, &Group)> {
        let fixed = groups().iter().map(|(n, g)| (n.as_str(), g));
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
        groups().iter().any(|(n, _)| n == name)
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
