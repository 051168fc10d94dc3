//! Store of the objects of one kind, kept up to date by watches and by the operator's own writes.
//!
//! The response to a write goes into the store at once, so the operator always reads its own writes. The watch
//! delivers the same state again later; that event is not passed to the author of the write, but to all others. A
//! state by another writer in between is never skipped, even though it is older than what the store already holds.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
};

use std::time::Duration;

use tokio::{sync::watch, time::Instant};

use kube::core::{Selector, SelectorExt as _};

use super::{
    selector,
    snapshot::{Incoming, Snapshot},
    watch::Selection,
};
use crate::kind::{Key, Kind};

/// Author of a write: a controller, on behalf of one of its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Author {
    pub(crate) controller: Arc<str>,
    pub(crate) object: Key,
}

/// A change of one object.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    pub(crate) key: &'a Key,
    /// The previous state. `None`: the object was added.
    pub(crate) old: Option<&'a Snapshot>,
    /// The current state. `None`: the object was deleted.
    pub(crate) new: Option<&'a Snapshot>,
    /// Whether it comes from a list rather than from a watch event.
    pub(crate) listed: bool,
    /// The author, if the operator itself made the change.
    pub(crate) author: Option<&'a Author>,
}

/// Events that subscribers receive.
#[derive(Debug)]
pub(crate) enum CacheEvent<'a> {
    Changed(Change<'a>),
    /// The first list is complete.
    Synced,
}

type Subscriber = Arc<dyn Fn(&CacheEvent<'_>) + Send + Sync>;
/// Returns the values under which an index holds an object.
pub(crate) type IndexFn = Arc<dyn Fn(&Snapshot) -> Vec<String> + Send + Sync>;

/// Sync progress of a store.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    /// Whether each watch has delivered its first list.
    pub(crate) synced: bool,
    /// The error of the last attempt, until one succeeds.
    pub(crate) error: Option<String>,
    /// Whether the API server does not serve the kind.
    pub(crate) absent: bool,
}

/// Store of the objects of one kind.
pub(crate) struct Store {
    pub(crate) kind: Kind,
    pub(crate) selection: Selection,
    /// The selection's label selector, parsed, if it is valid.
    labels: Option<Selector>,
    /// The operator's field manager; its field sets are kept.
    manager: Arc<str>,
    state: RwLock<State>,
    subscribers: RwLock<Vec<Subscriber>>,
    pub(crate) progress: watch::Sender<Progress>,
    /// Number of watches that have not delivered their first list.
    unsynced: AtomicUsize,
    /// Number of lists so far.
    epoch: AtomicU32,
    heard: Mutex<Instant>,
    /// Objects that may exist although the cache does not hold them: a write of them got no response.
    doubtful: Mutex<HashSet<Key>>,
}

#[derive(Default)]
struct State {
    objects: HashMap<Key, Entry>,
    /// Own writes that the watch has not delivered yet.
    own: HashMap<Key, OwnWrite>,
    indexes: HashMap<&'static str, Index>,
    /// Fingerprint of the last apply, and the resourceVersion that it led to.
    applied: HashMap<Key, (u64, u64)>,
    /// Field sets, each shared by thousands of objects.
    sets: HashSet<Arc<[u8]>>,
    /// Number of sets at which unused ones are collected.
    most_sets: usize,
    bytes: usize,
}

struct Entry {
    snapshot: Snapshot,
    /// The last resourceVersion that the watch delivered, zero if none.
    delivered: u64,
    /// The last list that contained it.
    epoch: u32,
}

#[derive(Default)]
struct OwnWrite {
    writes: Vec<(u64, Author)>,
    /// Uid and author of a deletion that removed the object at once. Until the watch confirms it, the object is
    /// hidden.
    deleted: Option<(String, Author)>,
}

struct Index {
    values: IndexFn,
    keys: HashMap<String, BTreeSet<Key>>,
}

impl Index {
    fn add(&mut self, key: &Key, snapshot: &Snapshot) {
        for value in (self.values)(snapshot) {
            self.keys.entry(value).or_default().insert(key.clone());
        }
    }

    fn remove(&mut self, key: &Key, snapshot: &Snapshot) {
        for value in (self.values)(snapshot) {
            if let Some(keys) = self.keys.get_mut(&value) {
                keys.remove(key);
                if keys.is_empty() {
                    self.keys.remove(&value);
                }
            }
        }
    }
}

impl State {
    fn insert(&mut self, key: Key, entry: Entry) -> Option<Snapshot> {
        self.bytes += entry.snapshot.size();
        for index in self.indexes.values_mut() {
            if let Some(old) = self.objects.get(&key) {
                index.remove(&key, &old.snapshot);
            }
            index.add(&key, &entry.snapshot);
        }
        let old = self.objects.insert(key, entry)?.snapshot;
        self.bytes -= old.size();
        Some(old)
    }

    fn remove(&mut self, key: &Key) -> Option<Snapshot> {
        self.applied.remove(key);
        let old = self.objects.remove(key)?.snapshot;
        self.bytes -= old.size();
        for index in self.indexes.values_mut() {
            index.remove(key, &old);
        }
        Some(old)
    }

    /// Shares equal field sets.
    fn intern(&mut self, bytes: Vec<u8>) -> Arc<[u8]> {
        if let Some(known) = self.sets.get(bytes.as_slice()) {
            return Arc::clone(known);
        }
        // Objects with owners have a set each, so unused sets must not be searched for on every insert.
        if self.sets.len() >= self.most_sets {
            self.sets.retain(|set| Arc::strong_count(set) > 1);
            self.most_sets = 64.max(self.sets.len() * 2);
        }
        let set: Arc<[u8]> = bytes.into();
        self.sets.insert(Arc::clone(&set));
        set
    }

    /// Whether the operator itself deleted an object and the watch has not confirmed it yet.
    fn hidden(&self, key: &Key, snapshot: &Snapshot) -> bool {
        let Some(OwnWrite { deleted: Some((uid, _)), .. }) = self.own.get(key) else { return false };
        snapshot.meta().is_ok_and(|meta| *meta.uid == **uid)
    }
}

impl Store {
    pub(crate) fn new(kind: Kind, selection: Selection, manager: Arc<str>, watches: usize) -> Self {
        Self {
            kind,
            labels: selection.labels.as_deref().and_then(selector::parse),
            selection,
            manager,
            state: RwLock::default(),
            subscribers: RwLock::default(),
            progress: watch::Sender::new(Progress::default()),
            unsynced: watches.into(),
            epoch: AtomicU32::new(0),
            heard: Mutex::new(Instant::now()),
            doubtful: Mutex::default(),
        }
    }

    fn doubtful(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.doubtful.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks an object as possibly existing, whatever the cache holds. Returns whether it was unmarked before.
    pub(crate) fn doubt(&self, key: &Key) -> bool {
        self.doubtful().insert(key.clone())
    }

    /// Removes the mark: a response has settled whether the object exists.
    pub(crate) fn settle(&self, key: &Key) {
        self.doubtful().remove(key);
    }

    /// Whether an object that the cache does not hold may exist.
    pub(crate) fn is_doubtful(&self, key: &Key) -> bool {
        self.doubtful().contains(key)
    }

    // No panic can happen between steps that belong together: the only user functions that run under the lock are index
    // functions, and their panics are caught before they get here.
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Snapshot> {
        let state = self.read();
        let snapshot = &state.objects.get(key)?.snapshot;
        (!state.hidden(key, snapshot)).then(|| snapshot.clone())
    }

    /// Returns the objects that a filter keeps, ordered by key.
    pub(crate) fn list(&self, keep: impl Fn(&Key) -> bool) -> Vec<(Key, Snapshot)> {
        let state = self.read();
        let mut found: Vec<_> = state
            .objects
            .iter()
            .filter(|(key, entry)| keep(key) && !state.hidden(key, &entry.snapshot))
            .map(|(key, entry)| (key.clone(), entry.snapshot.clone()))
            .collect();
        found.sort_unstable_by(|(one, _), (two, _)| one.cmp(two));
        found
    }

    /// Returns the objects under one value of an index; a new index is built first.
    pub(crate) fn by_index(&self, name: &'static str, value: &str, make: &IndexFn) -> Vec<(Key, Snapshot)> {
        let missing = !self.read().indexes.contains_key(name);
        if missing {
            let mut state = self.write();
            let mut index = Index { values: Arc::clone(make), keys: HashMap::new() };
            for (key, entry) in &state.objects {
                index.add(key, &entry.snapshot);
            }
            state.indexes.entry(name).or_insert(index);
        }
        let state = self.read();
        let Some(keys) = state.indexes.get(name).and_then(|index| index.keys.get(value)) else {
            return Vec::new();
        };
        keys.iter()
            .filter_map(|key| {
                let snapshot = &state.objects.get(key)?.snapshot;
                (!state.hidden(key, snapshot)).then(|| (key.clone(), snapshot.clone()))
            })
            .collect()
    }

    /// Returns the number of objects, and their size in bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        let state = self.read();
        (state.objects.len(), state.bytes)
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        let mut keys: Vec<_> = self.read().objects.keys().cloned().collect();
        keys.sort_unstable();
        keys
    }

    /// Subscribes to all events, starting with the current objects. What changes meanwhile may be reported twice.
    pub(crate) fn subscribe(&self, subscriber: Subscriber) {
        self.subscribers.write().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&subscriber));
        for (key, snapshot) in self.list(|_| true) {
            let change = Change { key: &key, old: None, new: Some(&snapshot), listed: true, author: None };
            subscriber(&CacheEvent::Changed(change));
        }
        if self.progress.borrow().synced {
            subscriber(&CacheEvent::Synced);
        }
    }

    fn notify(&self, event: &CacheEvent<'_>) {
        let subscribers = self.subscribers.read().unwrap_or_else(PoisonError::into_inner).clone();
        for subscriber in subscribers {
            subscriber(event);
        }
    }

    /// Records a sign of life from the watch.
    pub(crate) fn alive(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Time since the last sign of life from the watch.
    pub(crate) fn silence(&self) -> Duration {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// Begins a list, and returns its number.
    pub(crate) fn begin(&self) -> u32 {
        self.epoch.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Stores a state that a watch delivered.
    pub(crate) fn deliver(&self, incoming: Incoming, epoch: u32, listed: bool) {
        let key = incoming.key();
        let version = incoming.version();
        let uid = incoming.uid().to_owned();
        let (old, new, author);
        {
            let mut state = self.write();
            let state = &mut *state;
            let manager = Arc::clone(&self.manager);
            let held = state.objects.get_mut(&key);
            let (held_version, delivered) =
                held.as_ref().map_or((0, 0), |entry| (entry.snapshot.version, entry.delivered));
            let repeated = delivered != 0 && delivered == version;
            author = state.own.get_mut(&key).and_then(|own| {
                let by = own.writes.iter().find(|(written, _)| *written == version).map(|(_, by)| by.clone());
                own.writes.retain(|(written, _)| *written > version);
                // Another object of this name exists: the deleted one is gone.
                if own.deleted.as_ref().is_some_and(|(deleted, _)| *deleted != uid) {
                    own.deleted = None;
                }
                // A list may have skipped states of other writers before the own one.
                by.filter(|_| !listed)
            });
            if state.own.get(&key).is_some_and(|own| own.writes.is_empty() && own.deleted.is_none()) {
                state.own.remove(&key);
            }
            match held {
                Some(entry) if version != 0 && version <= held_version => {
                    entry.epoch = epoch;
                    entry.delivered = version;
                    if repeated {
                        return;
                    }
                    // Older than the own write, or the own write itself: the held state is kept. Subscribers that
                    // have not seen this one are notified as of a new object, since its previous state is no longer
                    // known.
                    new = entry.snapshot.clone();
                    old = None;
                }
                _ => {
                    let snapshot = incoming.snapshot(&manager, |bytes| state.intern(bytes));
                    new = snapshot.clone();
                    old = state.insert(key.clone(), Entry { snapshot, delivered: version, epoch });
                }
            }
        }
        let change =
            Change { key: &key, old: old.as_ref(), new: Some(&new), listed, author: author.as_ref() };
        self.notify(&CacheEvent::Changed(change));
    }

    /// Handles a deletion that a watch delivered.
    pub(crate) fn gone(&self, key: &Key, version: u64) {
        let (old, author) = {
            let mut state = self.write();
            // An object that the operator recreated after this deletion is not the deleted one.
            if state.objects.get(key).is_some_and(|entry| version != 0 && entry.snapshot.version > version) {
                (None, None)
            } else {
                let own = state.own.remove(key);
                let old = state.remove(key);
                let uid = old.as_ref().and_then(|old| Some(old.meta().ok()?.uid.to_string()));
                let by = own.and_then(|own| own.deleted).filter(|(deleted, _)| Some(deleted) == uid.as_ref());
                (old, by.map(|(_, author)| author))
            }
        };
        let change = Change { key, old: old.as_ref(), new: None, listed: false, author: author.as_ref() };
        self.notify(&CacheEvent::Changed(change));
    }

    /// Ends a list: objects that it did not contain are gone.
    pub(crate) fn listed(&self, namespace: Option<&str>, epoch: u32) {
        let missing: Vec<(Key, u64)> = {
            let state = self.read();
            let mut missing: Vec<_> = state
                .objects
                .iter()
                // Objects that the operator wrote while the list was in progress are not missing.
                .filter(|(key, entry)| {
                    entry.epoch < epoch && (namespace.is_none() || key.namespace() == namespace)
                })
                .map(|(key, entry)| (key.clone(), entry.snapshot.version))
                .collect();
            missing.sort_unstable();
            missing
        };
        for (key, version) in missing {
            self.gone(&key, version);
        }
    }

    /// Records that a watch delivered a list, its first one or another.
    pub(crate) fn watch_synced(&self, first: bool) {
        let complete = first && self.unsynced.fetch_sub(1, Ordering::AcqRel) == 1;
        self.progress.send_modify(|progress| {
            progress.error = None;
            progress.absent = false;
            progress.synced |= complete;
        });
        if complete {
            self.notify(&CacheEvent::Synced);
        }
    }

    /// Whether its watch delivers an object. A watch never reports the deletion of an object that it did not deliver.
    pub(crate) fn covers(&self, incoming: &Incoming) -> bool {
        if self.selection.is_everything() || self.read().objects.contains_key(&incoming.key()) {
            return true;
        }
        // Only the server can evaluate a field selector.
        self.selection.fields.is_none()
            && self.labels.as_ref().is_some_and(|labels| labels.matches(&incoming.labels()))
    }

    /// Stores the response to an own write. Subscribers other than the author are notified when the watch delivers
    /// it.
    pub(crate) fn written(&self, incoming: Incoming, author: Option<Author>) -> Snapshot {
        let key = incoming.key();
        let version = incoming.version();
        let mut state = self.write();
        let state = &mut *state;
        let manager = Arc::clone(&self.manager);
        let epoch = self.epoch.load(Ordering::Acquire);
        let (held, delivered) =
            state.objects.get(&key).map_or((0, 0), |entry| (entry.snapshot.version, entry.delivered));
        let snapshot = incoming.snapshot(&manager, |bytes| state.intern(bytes));
        if version > held {
            state.insert(key.clone(), Entry { snapshot: snapshot.clone(), delivered, epoch });
            if let Some(author) = author {
                state.own.entry(key).or_default().writes.push((version, author));
            }
        }
        snapshot
    }

    /// Returns the fingerprint of the last apply to an object, and the resourceVersion that it led to.
    pub(crate) fn applied(&self, key: &Key) -> Option<(u64, u64)> {
        self.read().applied.get(key).copied()
    }

    pub(crate) fn note_applied(&self, key: &Key, applied: (u64, u64)) {
        self.write().applied.insert(key.clone(), applied);
    }

    /// Records that a delete by the operator removed an object at once.
    pub(crate) fn deleted(&self, key: &Key, uid: &str, author: Author) {
        let mut state = self.write();
        let same = state
            .objects
            .get(key)
            .is_some_and(|entry| entry.snapshot.meta().is_ok_and(|meta| *meta.uid == *uid));
        if same {
            state.own.entry(key.clone()).or_default().deleted = Some((uid.to_owned(), author));
        }
    }
}

#[cfg(test)]
mod tests;
