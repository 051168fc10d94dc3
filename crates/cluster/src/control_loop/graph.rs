//! Ownership graph over all kinds, for the garbage collector.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::ApiResource;

pub(crate) const ORPHAN: &str = "orphan";
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// A resource from discovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResourceInfo {
    pub(crate) api: ApiResource,
    pub(crate) namespaced: bool,
    /// Whether its objects can be listed, watched and deleted.
    pub(crate) collectable: bool,
}

impl ResourceInfo {
    /// `plural.group`, or `plural`.
    pub(crate) fn qualified(&self) -> String {
        qualified(&self.api.group, &self.api.plural)
    }
}

pub(crate) fn qualified(group: &str, plural: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

/// An object, reduced to what ownership needs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) resource: Arc<str>,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) owners: Vec<OwnerReference>,
    pub(crate) deleting: bool,
    pub(crate) orphan: bool,
    pub(crate) foreground: bool,
}

impl Node {
    fn new(resource: &Arc<str>, meta: &ObjectMeta) -> Self {
        let has = |finalizer: &str| meta.finalizers.iter().flatten().any(|f| f == finalizer);
        Self {
            resource: Arc::clone(resource),
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            owners: meta.owner_references.clone().unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
            orphan: has(ORPHAN),
            foreground: has(FOREGROUND),
        }
    }

    /// Whether it is in foreground deletion, waiting for its dependents.
    pub(crate) fn waits_for_dependents(&self) -> bool {
        self.deleting && self.foreground
    }
}

/// All objects by uid.
#[derive(Debug, Clone, Default)]
pub(crate) struct Graph {
    nodes: HashMap<String, Node>,
    dependents: HashMap<String, BTreeSet<String>>,
}

impl Graph {
    pub(crate) fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// Returns the uids of the objects that name `uid` as an owner, in order.
    pub(crate) fn dependents(&self, uid: &str) -> Vec<String> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// Adds an object and returns the uids that the garbage collector must check.
    pub(crate) fn put(&mut self, resource: &Arc<str>, meta: &ObjectMeta) -> Vec<String> {
        let Some(uid) = meta.uid.clone() else { return Vec::new() };
        let node = Node::new(resource, meta);
        let old = self.nodes.get(&uid);
        if old == Some(&node) {
            return Vec::new();
        }
        let mut dirty = Vec::new();
        let became_waiting = node.waits_for_dependents() && !old.is_some_and(Node::waits_for_dependents);
        if became_waiting {
            dirty.extend(self.dependents(&uid));
        }
        let former: Vec<OwnerReference> = old.map(|o| o.owners.clone()).unwrap_or_default();
        for owner in &former {
            if !node.owners.iter().any(|o| o.uid == owner.uid) {
                self.unlink(&owner.uid, &uid);
            }
            // An owner may have been waiting for this reference to be removed.
            dirty.push(owner.uid.clone());
        }
        for owner in &node.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(uid.clone());
        }
        if !node.owners.is_empty() || (node.deleting && (node.orphan || node.foreground)) {
            dirty.push(uid.clone());
        }
        self.nodes.insert(uid, node);
        dirty
    }

    /// Removes an object and returns the uids to check: its dependents, and owners that waited for it.
    pub(crate) fn remove(&mut self, uid: &str) -> Vec<String> {
        let Some(node) = self.nodes.remove(uid) else { return Vec::new() };
        let mut dirty = self.dependents(uid);
        for owner in node.owners {
            self.unlink(&owner.uid, uid);
            dirty.push(owner.uid);
        }
        dirty
    }

    /// Removes all objects of a resource that is no longer served, and returns the uids to check.
    pub(crate) fn remove_resource(&mut self, resource: &str) -> Vec<String> {
        let mut uids: Vec<String> =
            self.nodes.iter().filter(|(_, n)| *n.resource == *resource).map(|(uid, _)| uid.clone()).collect();
        uids.sort_unstable();
        uids.iter().flat_map(|uid| self.remove(uid)).collect()
    }

    fn unlink(&mut self, owner: &str, dependent: &str) {
        if let Some(set) = self.dependents.get_mut(owner) {
            set.remove(dependent);
            if set.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }
}
