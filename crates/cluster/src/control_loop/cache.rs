//! Informer cache of one kind: the watched objects, with the controllers' own writes already in place.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

use kube::{Resource, ResourceExt as _};

/// Namespace (empty for kinds without one) and name.
pub(crate) type Name = (String, String);

/// All objects of one kind.
#[derive(Debug)]
pub(crate) struct Cache<K> {
    objects: BTreeMap<Name, Arc<K>>,
    /// Names by the uid of the controlling owner; those without one stand under the empty uid.
    owned: BTreeMap<String, BTreeSet<Name>>,
    /// Uids of objects that a controller deleted and whose end was not seen yet.
    gone: HashSet<String>,
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self { objects: self.objects.clone(), owned: self.owned.clone(), gone: self.gone.clone() }
    }
}

impl<K> Default for Cache<K> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), owned: BTreeMap::new(), gone: HashSet::new() }
    }
}

/// Namespace and name of an object.
pub(crate) fn name_of<K: Resource>(object: &K) -> Name {
    (object.meta().namespace.clone().unwrap_or_default(), object.meta().name.clone().unwrap_or_default())
}

/// The uid of the owner that controls an object, or nothing.
pub(crate) fn controller_uid<K: Resource>(object: &K) -> &str {
    let owners = object.meta().owner_references.iter().flatten();
    owners.into_iter().find(|o| o.controller == Some(true)).map_or("", |o| o.uid.as_str())
}

fn version<K: Resource>(object: &K) -> u64 {
    object.meta().resource_version.as_deref().and_then(|v| v.parse().ok()).unwrap_or_default()
}

impl<K: Resource + Clone> Cache<K> {
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.objects.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// All objects in order of their names.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<K>> {
        self.objects.values()
    }

    /// The objects of a namespace in order of their names.
    pub(crate) fn within(&self, namespace: &str) -> impl Iterator<Item = &Arc<K>> {
        let start = (namespace.to_owned(), String::new());
        let namespace = namespace.to_owned();
        self.objects.range(start..).take_while(move |((n, _), _)| *n == namespace).map(|(_, object)| object)
    }

    /// The objects that the owner with `uid` controls; with an empty one those without a controller.
    pub(crate) fn controlled_by(&self, uid: &str) -> impl Iterator<Item = &Arc<K>> {
        self.owned.get(uid).into_iter().flatten().filter_map(|name| self.objects.get(name))
    }

    /// Whether this version of an object, or a newer one, is known.
    pub(super) fn is_current(&self, name: &Name, wanted: u64) -> bool {
        self.objects.get(name).is_some_and(|object| version(&**object) >= wanted)
    }

    /// Stores an object unless a newer version is cached. Returns the former and the new one if it did.
    pub(super) fn put(&mut self, object: K) -> Option<(Option<Arc<K>>, Arc<K>)> {
        let name = name_of(&object);
        if object.uid().is_some_and(|uid| self.gone.contains(&uid)) {
            return None;
        }
        let old = self.objects.get(&name).cloned();
        if old.as_ref().is_some_and(|old| version(&**old) >= version(&object)) {
            return None;
        }
        if let Some(old) = &old {
            self.forget_owner(&name, controller_uid(&**old));
        }
        let new = Arc::new(object);
        self.owned.entry(controller_uid(&*new).to_owned()).or_default().insert(name.clone());
        self.objects.insert(name, Arc::clone(&new));
        Some((old, new))
    }

    fn forget_owner(&mut self, name: &Name, uid: &str) {
        if let Some(names) = self.owned.get_mut(uid) {
            names.remove(name);
            if names.is_empty() {
                self.owned.remove(uid);
            }
        }
    }

    /// Removes an object. `seen`: the watch delivered the deletion, so that no older state can follow.
    pub(super) fn remove(&mut self, name: &Name, uid: Option<&str>, seen: bool) -> Option<Arc<K>> {
        match uid {
            Some(uid) if seen => {
                self.gone.remove(uid);
            }
            Some(uid) => {
                self.gone.insert(uid.to_owned());
            }
            None => {}
        }
        let known = self.objects.get(name)?;
        if uid.is_some() && known.meta().uid.as_deref() != uid {
            return None;
        }
        let old = self.objects.remove(name)?;
        self.forget_owner(name, controller_uid(&*old));
        Some(old)
    }

    /// Takes the names of all objects, and returns those of objects that are no longer there.
    pub(super) fn relisted(&mut self, listed: &HashSet<Name>) -> Vec<Name> {
        self.gone.clear();
        self.objects.keys().filter(|name| !listed.contains(*name)).cloned().collect()
    }
}
