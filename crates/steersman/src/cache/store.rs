//! The objects of one kind, kept up to date by watches and by the operator's own writes.
//!
//! A write's answer goes into the store at once, so the operator always reads its own writes. The watch brings the
//! same state again later; its author is not called for it, all others are. A state of another writer that
//! lies between is never skipped, even though it is older than what the store already holds.

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

/// Who wrote: a controller, on behalf of one of its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Author {
    pub(crate) controller: Arc<str>,
    pub(crate) object: Key,
}

/// A change of one object.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    pub(crate) key: &'a Key,
    /// The state that was held before. `None` when the object appeared.
    pub(crate) old: Option<&'a Snapshot>,
    /// The state now. `None` when the object is gone.
    pub(crate) new: Option<&'a Snapshot>,
    /// Whether it comes from a list rather than from something that just happened.
    pub(crate) listed: bool,
    /// The operator's own hand, if it was that.
    pub(crate) author: Option<&'a Author>,
}

/// What subscribers hear of.
#[derive(Debug)]
pub(crate) enum CacheEvent<'a> {
    Changed(Change<'a>),
    /// The first list is complete.
    Synced,
}

type Subscriber = Arc<dyn Fn(&CacheEvent<'_>) + Send + Sync>;
/// The values under which an index finds an object.
pub(crate) type IndexFn = Arc<dyn Fn(&Snapshot) -> Vec<String> + Send + Sync>;

/// How far a store is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    /// Whether each watch has delivered its first list.
    pub(crate) synced: bool,
    /// Why the last attempt failed, until one succeeds.
    pub(crate) error: Option<String>,
    /// Whether the API server does not know the kind.
    pub(crate) absent: bool,
}

/// The objects of one kind.
pub(crate) struct Store {
    pub(crate) kind: Kind,
    pub(crate) selection: Selection,
    /// The selection's labels, if they can be read.
    labels: Option<Selector>,
    /// The operator's field manager, whose field sets are kept.
    manager: Arc<str>,
    state: RwLock<State>,
    subscribers: RwLock<Vec<Subscriber>>,
    pub(crate) progress: watch::Sender<Progress>,
    /// Watches that have not delivered their first list.
    unsynced: AtomicUsize,
    /// Counts lists.
    epoch: AtomicU32,
    heard: Mutex<Instant>,
    /// Objects that may be there though the cache does not know it: a write of them got no answer.
    doubtful: Mutex<HashSet<Key>>,
}

#[derive(Default)]
struct State {
    objects: HashMap<Key, Entry>,
    /// Own writes that the watch has not caught up with.
    own: HashMap<Key, Own>,
    indexes: HashMap<&'static str, Index>,
    /// The fingerprint of what was last applied, and the version that it led to.
    applied: HashMap<Key, (u64, u64)>,
    /// Field sets, which thousands of objects share.
    sets: HashSet<Arc<[u8]>>,
    /// At this number of sets, unused ones are collected.
    most_sets: usize,
    bytes: usize,
}

struct Entry {
    snapshot: Snapshot,
    /// The last state that the watch delivered, zero if none.
    delivered: u64,
    /// The list that it was seen in.
    epoch: u32,
}

#[derive(Default)]
struct Own {
    writes: Vec<(u64, Author)>,
    /// The identity of an object that was deleted at once, and who did it: until the watch says so, it is not seen.
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
        // Objects with owners have a set each: the search for unused ones must not come with every one of them.
        if self.sets.len() >= self.most_sets {
            self.sets.retain(|set| Arc::strong_count(set) > 1);
            self.most_sets = 64.max(self.sets.len() * 2);
        }
        let set: Arc<[u8]> = bytes.into();
        self.sets.insert(Arc::clone(&set));
        set
    }

    /// Whether an object was deleted by the operator itself, and the watch does not know yet.
    fn hidden(&self, key: &Key, snapshot: &Snapshot) -> bool {
        let Some(Own { deleted: Some((uid, _)), .. }) = self.own.get(key) else { return false };
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

    /// Notes that an object may be there from now on, whatever the cache knows. Says whether that is new.
    pub(crate) fn doubt(&self, key: &Key) -> bool {
        self.doubtful().insert(key.clone())
    }

    /// Notes that an answer has told of an object: the cache knows of it, or that it is gone.
    pub(crate) fn settle(&self, key: &Key) {
        self.doubtful().remove(key);
    }

    /// Whether an object that the cache does not know may be there.
    pub(crate) fn is_doubtful(&self, key: &Key) -> bool {
        self.doubtful().contains(key)
    }

    // No panic comes between steps that belong together: the author's only functions that run under the lock are those of
    // indexes, whose panics are caught before they get here.
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

    /// The objects that a filter keeps, in the order of their keys.
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

    /// The objects under one value of an index, which is made if it is new.
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

    /// How many objects it holds, and in how many bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        let state = self.read();
        (state.objects.len(), state.bytes)
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        let mut keys: Vec<_> = self.read().objects.keys().cloned().collect();
        keys.sort_unstable();
        keys
    }

    /// Hears of everything from now on, and of everything that is there. What happens meanwhile may come twice.
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

    /// Notes that the watch is alive.
    pub(crate) fn alive(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// How long ago the watch brought anything.
    pub(crate) fn silence(&self) -> Duration {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// Begins a list.
    pub(crate) fn begin(&self) -> u32 {
        self.epoch.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Takes a state that a watch delivered.
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
                // Another object of this name has come: the deleted one is gone.
                if own.deleted.as_ref().is_some_and(|(deleted, _)| *deleted != uid) {
                    own.deleted = None;
                }
                // A list may have skipped the states of others before the own one.
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
                    // Older than the own write, or the own write itself: the state stays, and those who have not
                    // seen this one are told, as of a new object, since what it was before is not known any more.
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

    /// Takes a deletion that a watch delivered.
    pub(crate) fn gone(&self, key: &Key, version: u64) {
        let (old, author) = {
            let mut state = self.write();
            // An object that the operator made anew after this deletion is not the deleted one.
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

    /// Ends a list: what it did not contain is gone.
    pub(crate) fn listed(&self, namespace: Option<&str>, epoch: u32) {
        let missing: Vec<(Key, u64)> = {
            let state = self.read();
            let mut missing: Vec<_> = state
                .objects
                .iter()
                // What the operator wrote while the list was under way is not missing.
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

    /// Notes that a watch delivered its first list.
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

    /// Whether its watch brings an object. A watch never tells that an object which it did not bring is gone.
    pub(crate) fn covers(&self, incoming: &Incoming) -> bool {
        if self.selection.is_everything() || self.read().objects.contains_key(&incoming.key()) {
            return true;
        }
        // Which fields select is the server's affair.
        self.selection.fields.is_none()
            && self.labels.as_ref().is_some_and(|labels| labels.matches(&incoming.labels()))
    }

    /// Takes the answer to an own write. Subscribers other than the author are notified when the watch delivers it.
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

    /// The fingerprint of what was last applied to an object, and the version that it led to.
    pub(crate) fn applied(&self, key: &Key) -> Option<(u64, u64)> {
        self.read().applied.get(key).copied()
    }

    pub(crate) fn note_applied(&self, key: &Key, applied: (u64, u64)) {
        self.write().applied.insert(key.clone(), applied);
    }

    /// Notes that the operator deleted an object at once.
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
