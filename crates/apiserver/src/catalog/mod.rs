//! The catalog of served resources: built-in ones, custom ones and aggregated group versions.

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

/// An immutable snapshot of everything served.
/// A new one replaces it when a definition or an APIService changes.
#[derive(Debug)]
pub struct Catalog {
    custom: BTreeMap<String, Group>,
    /// Aggregated group versions; listed in discovery, but not found by lookups here.
    remote: Vec<RemoteVersion>,
    documents: discovery::Documents,
    /// All resources by storage name, built on first use.
    stored: OnceLock<HashMap<Arc<str>, Vec<Arc<Resource>>>>,
}

impl Catalog {
    /// Creates a catalog of the built-in resources, the `custom` ones and the aggregated group versions.
    pub(crate) fn new(custom: BTreeMap<String, Group>, remote: Vec<RemoteVersion>) -> Self {
        Self { custom, remote, documents: discovery::Documents::default(), stored: OnceLock::new() }
    }

    /// Returns the groups of custom resources.
    pub(crate) fn custom_groups(&self) -> &BTreeMap<String, Group> {
        &self.custom
    }

    /// Returns the group versions of extension API servers.
    pub(crate) fn remote(&self) -> &[RemoteVersion] {
        &self.remote
    }

    /// Finds a resource by group, version and plural name.
    #[must_use]
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        let version = self.group(group)?.versions.iter().find(|v| v.name == version)?;
        version.resources.iter().find(|r| r.plural == plural)
    }

    /// Finds a resource by group, version and kind.
    #[must_use]
    pub fn find_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let version = self.group(group)?.versions.iter().find(|v| v.name == version)?;
        version.resources.iter().find(|r| r.kind == kind)
    }

    /// Returns a group by name.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<&Group> {
        groups().iter().find(|(n, _)| n == name).map(|(_, g)| g).or_else(|| self.custom.get(name))
    }

    /// Iterates over all groups, in discovery order.
    pub fn groups(&self) -> impl Iterator<Item = (&str, &Group)> {
        let fixed = groups().iter().map(|(n, g)| (n.as_str(), g));
        fixed.chain(self.custom.iter().map(|(n, g)| (n.as_str(), g)))
    }

    /// Iterates over all resources in all versions.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.groups().flat_map(|(_, g)| g.versions.iter().flat_map(|v| v.resources.iter()))
    }

    /// Returns the resource in all its API versions, by storage name.
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

/// A document built at most once per catalog.
#[derive(Debug, Default)]
pub(crate) struct Lazy(OnceLock<Bytes>);

impl Lazy {
    pub(crate) fn get(&self, make: impl FnOnce() -> Value) -> Bytes {
        self.0.get_or_init(|| make().to_string().into()).clone()
    }
}
