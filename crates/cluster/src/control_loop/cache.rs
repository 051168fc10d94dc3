//! Informer cache of one kind, which already includes the controllers' own writes.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

use kube::Resource;

/// Namespace (empty if cluster-scoped) and name.
pub(crate) type Name = (String, String);

/// All objects of one kind.
#[derive(Debug)]
pub(crate) struct Cache<K> {
    index: Index,
    /// Slots that the index refers to. Free slots are `None`.
    objects: Vec<Option<Arc<K>>>,
}

/// Index of a kind's objects by name and by owner. Not generic, so that its maps are compiled once for all kinds.
#[derive(Debug, Clone, Default)]
struct Index {
    places: BTreeMap<Name, usize>,
    free: Vec<usize>,
    /// Names by the uid of the controlling owner. Those without one are under the empty uid.
    owned: BTreeMap<String, BTreeSet<Name>>,
    /// Uids of objects that a controller deleted, until the watch delivers the deletion.
    gone: HashSet<String>,
}

impl Index {
    fn get(&self, namespace: &str, name: &str) -> Option<usize> {
        self.places.get(&(namespace.to_owned(), name.to_owned())).copied()
    }

    fn within(&self, namespace: &str) -> impl Iterator<Item = usize> {
        let start = (namespace.to_owned(), String::new());
        let namespace = namespace.to_owned();
        self.places.range(start..).take_while(move |((n, _), _)| *n == namespace).map(|(_, place)| *place)
    }

    fn controlled_by(&self, uid: &str) -> impl Iterator<Item = usize> {
        self.owned.get(uid).into_iter().flatten().filter_map(|name| self.places.get(name).copied())
    }

    /// Returns the slot of a name. A new name gets a free slot, or slot number `places`.
    fn place(&mut self, name: &Name, places: usize) -> usize {
        match self.places.get(name) {
            Some(place) => *place,
            None => {
                let place = self.free.pop().unwrap_or(places);
                self.places.insert(name.clone(), place);
                place
            }
        }
    }

    fn remove(&mut self, name: &Name) -> Option<usize> {
        let place = self.places.remove(name)?;
        self.free.push(place);
        Some(place)
    }

    fn add_owner(&mut self, name: &Name, uid: &str) {
        self.owned.entry(uid.to_owned()).or_default().insert(name.clone());
    }

    fn forget_owner(&mut self, name: &Name, uid: &str) {
        if let Some(names) = self.owned.get_mut(uid) {
            names.remove(name);
            if names.is_empty() {
                self.owned.remove(uid);
            }
        }
    }

    fn relisted(&mut self, listed: &HashSet<Name>) -> Vec<Name> {
        self.gone.clear();
        self.places.keys().filter(|name| !listed.contains(*name)).cloned().collect()
    }
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self { index: self.index.clone(), objects: self.objects.clone() }
    }
}

impl<K> Default for Cache<K> {
    fn default() -> Self {
        Self { index: Index::default(), objects: Vec::new() }
    }
}

/// Returns the namespace and name of an object.
pub(crate) fn name_of<K: Resource>(object: &K) -> Name {
    (object.meta().namespace.clone().unwrap_or_default(), object.meta().name.clone().unwrap_or_default())
}

/// Returns the uid of the owner that controls an object, or the empty string.
pub(crate) fn controller_uid<K: Resource>(object: &K) -> &str {
    let owners = object.meta().owner_references.iter().flatten();
    owners.into_iter().find(|o| o.controller == Some(true)).map_or("", |o| o.uid.as_str())
}

fn version<K: Resource>(object: &K) -> u64 {
    object.meta().resource_version.as_deref().and_then(|v| v.parse().ok()).unwrap_or_default()
}

impl<K: Resource + Clone> Cache<K> {
    fn at(&self, place: usize) -> Option<&Arc<K>> {
        self.objects.get(place)?.as_ref()
    }

    fn find(&self, name: &Name) -> Option<&Arc<K>> {
        self.at(*self.index.places.get(name)?)
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.at(self.index.get(namespace, name)?).cloned()
    }

    /// Returns all objects, ordered by name.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<K>> {
        self.index.places.values().filter_map(|place| self.at(*place))
    }

    /// Returns the objects of a namespace, ordered by name.
    pub(crate) fn within(&self, namespace: &str) -> impl Iterator<Item = &Arc<K>> {
        self.index.within(namespace).filter_map(|place| self.at(place))
    }

    /// Returns the objects that the owner with `uid` controls, or those without a controller if it is empty.
    pub(crate) fn controlled_by(&self, uid: &str) -> impl Iterator<Item = &Arc<K>> {
        self.index.controlled_by(uid).filter_map(|place| self.at(place))
    }

    /// Whether this version of an object, or a newer one, is cached.
    pub(super) fn is_current(&self, name: &Name, wanted: u64) -> bool {
        self.find(name).is_some_and(|object| version(&**object) >= wanted)
    }

    /// Stores an object unless it or a newer version is cached. If stored, returns the old and the new object.
    pub(super) fn put(&mut self, object: K) -> Option<(Option<Arc<K>>, Arc<K>)> {
        let name = name_of(&object);
        if object.meta().uid.as_ref().is_some_and(|uid| self.index.gone.contains(uid)) {
            return None;
        }
        let old = self.find(&name).cloned();
        if old.as_ref().is_some_and(|old| version(&**old) >= version(&object)) {
            return None;
        }
        if let Some(old) = &old {
            self.index.forget_owner(&name, controller_uid(&**old));
        }
        let new = Arc::new(object);
        self.index.add_owner(&name, controller_uid(&*new));
        let place = self.index.place(&name, self.objects.len());
        match self.objects.get_mut(place) {
            Some(object) => *object = Some(Arc::clone(&new)),
            None => self.objects.push(Some(Arc::clone(&new))),
        }
        Some((old, new))
    }

    /// Removes an object. `seen`: the watch delivered the deletion, so no older state can follow.
    pub(super) fn remove(&mut self, name: &Name, uid: Option<&str>, seen: bool) -> Option<Arc<K>> {
        match uid {
            Some(uid) if seen => {
                self.index.gone.remove(uid);
            }
            Some(uid) => {
                self.index.gone.insert(uid.to_owned());
            }
            None => {}
        }
        let known = self.find(name)?;
        if uid.is_some() && known.meta().uid.as_deref() != uid {
            return None;
        }
        let place = self.index.remove(name)?;
        let old = self.objects.get_mut(place)?.take()?;
        self.index.forget_owner(name, controller_uid(&*old));
        Some(old)
    }

    /// Given the names of all existing objects, returns the cached ones that no longer exist.
    pub(super) fn relisted(&mut self, listed: &HashSet<Name>) -> Vec<Name> {
        self.index.relisted(listed)
    }
}
