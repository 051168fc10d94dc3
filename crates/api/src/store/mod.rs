//! The object store: an ordered map of objects and a log of changes per resource, with one revision counter.
//! **Invariant:** one lock guards all state. It is held briefly: nothing is parsed, serialised or awaited under it.
//! **Invariant:** readers and watchers see only durable writes. A write is appended to the log immediately, so that the
//! next write builds on it, and is published once the journal has persisted it; if the journal fails, pending writes
//! are rolled back. Without a journal, writes are published immediately.
//! **Invariant:** watchers have no queue. Each is a position in the resource's log and reads on from there. The log is
//! bounded: a watcher that falls behind it gets an error that its revision has expired, and nothing accumulates for it.

mod durability;
mod encoded;
mod entry;
mod journal;
mod pairs;
mod watch;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use foldhash::quality::RandomState;
use tokio::sync::watch as signal;

use durability::Durability;
pub use durability::{JournalObserver, Undone, UndoneEvent};
pub use entry::{Draft, Entry, Event, EventKind, Template, frame};
pub use journal::{Journal, JournalError, Record};
pub use pairs::Pairs;
pub use watch::{Batch, Cursor};

/// Number of latest events per resource with a cached frame, for watchers that keep up.
const WARM_FRAMES: usize = 128;

/// Limits of the log of changes, per resource.
#[derive(Debug, Clone, Copy)]
pub struct History {
    /// Number of changes. Default: 20,000.
    pub events: usize,
    /// Bytes of superseded object versions. Default: 32 MiB.
    pub bytes: usize,
}

impl Default for History {
    fn default() -> Self {
        Self { events: 20_000, bytes: 32 << 20 }
    }
}

/// Why a write failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// A create found an existing object.
    #[error("object already exists")]
    Exists,
    /// The object is no longer at the expected revision.
    #[error("object was modified since it was read")]
    Changed,
}

/// The requested revision is older than the log, or newer than the current revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevisionError {
    /// Older than the log.
    TooOld,
    /// Newer than the current revision, which is given.
    TooNew(u64),
}

/// A consistent snapshot of one resource.
#[derive(Debug)]
pub struct Snapshot {
    /// Revision of the snapshot.
    pub revision: u64,
    /// Objects, sorted by key.
    pub entries: Vec<Arc<Entry>>,
}

#[derive(Debug)]
struct Table {
    objects: BTreeMap<Arc<str>, Arc<Entry>>,
    log: VecDeque<Arc<Event>>,
    /// Bytes of superseded versions that only the log holds.
    superseded: usize,
    /// Changes up to this revision have been removed from the log.
    compacted: u64,
    /// Incremented to end all watches, such as when a custom resource is no longer served.
    epoch: u64,
    tail: signal::Sender<u64>,
}

impl Table {
    fn new(revision: u64, compacted: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            log: VecDeque::new(),
            superseded: 0,
            compacted,
            epoch: 0,
            tail: signal::Sender::new(revision),
        }
    }

    /// Returns an independent copy, with everything published.
    fn fork(&self, revision: u64) -> Self {
        Self {
            objects: self.objects.clone(),
            log: self.log.clone(),
            superseded: self.superseded,
            compacted: self.compacted,
            epoch: self.epoch,
            tail: signal::Sender::new(revision),
        }
    }

    /// Appends a change to the log. Changes up to `published` are visible.
    fn append(&mut self, event: Event, history: &History, published: u64) {
        self.superseded += event.previous.as_ref().map_or(0, |p| p.size());
        let revision = event.revision;
        self.log.push_back(Arc::new(event));
        if let Some(cold) = self.log.len().checked_sub(WARM_FRAMES + 1).and_then(|i| self.log.get(i)) {
            cold.forget_frame();
        }
        while self.log.len() > history.events || self.superseded > history.bytes {
            // Unpublished changes may have to be rolled back.
            if self.log.front().is_none_or(|oldest| oldest.revision > published) {
                break;
            }
            let Some(old) = self.log.pop_front() else { break };
            self.superseded -= old.previous.as_ref().map_or(0, |p| p.size());
            self.compacted = old.revision;
        }
        if revision <= published {
            self.tail.send_replace(revision);
        }
    }

    /// Returns changes after a revision, oldest first.
    fn after(&self, revision: u64) -> impl Iterator<Item = &Arc<Event>> {
        let newest = self.log.back().map_or(0, |e| e.revision);
        let from = match newest <= revision {
            true => self.log.len(),
            false => self.log.partition_point(|e| e.revision <= revision),
        };
        self.log.range(from..)
    }
}

#[derive(Debug)]
struct Inner {
    /// Revision of the latest write.
    revision: u64,
    /// Latest durable revision, which readers and watchers see.
    published: u64,
    /// Changes up to this revision are unknown, since they precede a restart.
    restored: u64,
    tables: HashMap<Arc<str>, Table, RandomState>,
}

impl Inner {
    fn table(&mut self, resource: &str) -> &mut Table {
        let (published, restored) = (self.published, self.restored);
        self.tables.entry(resource.into()).or_insert_with(|| Table::new(published, restored))
    }
}

/// State shared between the store and its journal's observer.
#[derive(Debug)]
struct Shared {
    inner: Mutex<Inner>,
    durability: signal::Sender<Durability>,
    /// Callback with the changes that were rolled back, latest first.
    on_undo: OnceLock<durability::OnUndo>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics in the middle of a change, so data behind a poisoned lock is consistent.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All objects of one server. Cheap to clone; clones share the content.
#[derive(Debug, Clone)]
pub struct Store {
    shared: Arc<Shared>,
    /// Field sets shared between objects.
    records: Arc<encoded::Records>,
    history: History,
    journal: Option<Arc<dyn Journal>>,
}

impl Store {
    /// Creates an empty store. With a journal, writes are published once it has persisted them.
    #[must_use]
    pub fn new(history: History, journal: Option<Arc<dyn Journal>>) -> Self {
        let inner = Inner { revision: 1, published: 1, restored: 0, tables: HashMap::default() };
        let shared = Arc::new(Shared {
            inner: Mutex::new(inner),
            durability: signal::Sender::new(Durability::new(1)),
            on_undo: OnceLock::new(),
        });
        if let Some(journal) = &journal {
            journal.start(JournalObserver::new(&shared));
        }
        Self { shared, records: Arc::default(), history, journal }
    }

    /// Returns an independent in-memory copy with the same objects, revisions and history.
    ///
    /// Object versions are shared, so that a copy takes little time and memory.
    ///
    /// ```
    /// # use serde_json::json;
    /// # use steersman_api::store::{Draft, History, Store};
    /// let store = Store::new(History::default(), None);
    /// let draft = || Draft::new(&json!({"metadata": {"name": "one"}}), Vec::new());
    /// store.create("things", "one", draft()?)?;
    /// let fork = store.fork();
    /// fork.create("things", "two", draft()?)?;
    /// assert_eq!((store.count("things"), fork.count("things")), (1, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn fork(&self) -> Self {
        let inner = self.lock();
        let revision = inner.revision;
        let tables = inner.tables.iter().map(|(name, table)| (Arc::clone(name), table.fork(revision)));
        let inner =
            Inner { revision, published: revision, restored: inner.restored, tables: tables.collect() };
        let shared = Arc::new(Shared {
            inner: Mutex::new(inner),
            durability: signal::Sender::new(Durability::new(revision)),
            on_undo: OnceLock::new(),
        });
        Self { shared, records: Arc::default(), history: self.history, journal: None }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.shared.lock()
    }

    /// Returns the latest published revision, which readers and watchers see.
    #[must_use]
    pub fn revision(&self) -> u64 {
        let inner = self.lock();
        inner.published
    }

    /// Returns the revision of the latest write, which may not be durable yet.
    pub fn latest(&self) -> u64 {
        self.lock().revision
    }

    /// Returns an object as of the latest write, durable or not. For writers.
    #[must_use]
    pub fn get(&self, resource: &str, key: &str) -> Option<Arc<Entry>> {
        self.lock().tables.get(resource)?.objects.get(key).cloned()
    }

    /// Returns an object as of the latest durable write. For readers.
    #[must_use]
    pub fn read(&self, resource: &str, key: &str) -> Option<Arc<Entry>> {
        let inner = self.lock();
        let table = inner.tables.get(resource)?;
        match table.after(inner.published).find(|event| event.entry.key() == key) {
            Some(pending) => pending.previous.clone(),
            None => table.objects.get(key).cloned(),
        }
    }

    /// Returns the number of objects of `resource`.
    #[must_use]
    pub fn count(&self, resource: &str) -> usize {
        self.lock().tables.get(resource).map_or(0, |t| t.objects.len())
    }

    /// Creates an object.
    pub fn create(&self, resource: &str, key: &str, draft: Draft) -> Result<Arc<Entry>, WriteError> {
        self.commit(resource, key, None, draft)
    }

    /// Replaces an object, if it is still at revision `expected`.
    pub fn update(
        &self,
        resource: &str,
        key: &str,
        expected: u64,
        draft: Draft,
    ) -> Result<Arc<Entry>, WriteError> {
        self.commit(resource, key, Some(expected), draft)
    }

    /// Deletes an object, if it is still at revision `expected`. Returns its last version and the revision of the
    /// deletion.
    pub fn delete(&self, resource: &str, key: &str, expected: u64) -> Result<(Arc<Entry>, u64), WriteError> {
        let mut inner = self.lock();
        let revision = inner.revision + 1;
        let published = self.published_with(&inner, revision);
        let table = inner.table(resource);
        let current =
            table.objects.get(key).filter(|e| e.revision() == expected).ok_or(WriteError::Changed)?;
        let entry = Arc::clone(current);
        table.objects.remove(key);
        let event = Event::new(revision, EventKind::Deleted, Arc::clone(&entry), Some(Arc::clone(&entry)));
        table.append(event, &self.history, published);
        (inner.revision, inner.published) = (revision, published);
        self.record(resource, &entry, revision, false);
        Ok((entry, revision))
    }

    fn commit(
        &self,
        resource: &str,
        key: &str,
        expected: Option<u64>,
        mut draft: Draft,
    ) -> Result<Arc<Entry>, WriteError> {
        draft.share(&self.records);
        let mut inner = self.lock();
        let revision = inner.revision + 1;
        let published = self.published_with(&inner, revision);
        let table = inner.table(resource);
        let current = table.objects.get(key).cloned();
        let (shared_key, created, kind) = match (&current, expected) {
            (None, None) => (Arc::from(key), revision, EventKind::Added),
            (Some(_), None) => return Err(WriteError::Exists),
            (Some(c), Some(e)) if c.revision() == e => {
                (Arc::clone(c.shared_key()), c.created(), EventKind::Modified)
            }
            _ => return Err(WriteError::Changed),
        };
        let entry = Arc::new(Entry::new(Arc::clone(&shared_key), revision, created, draft));
        table.objects.insert(shared_key, Arc::clone(&entry));
        table.append(Event::new(revision, kind, Arc::clone(&entry), current), &self.history, published);
        (inner.revision, inner.published) = (revision, published);
        self.record(resource, &entry, revision, true);
        Ok(entry)
    }

    /// Returns the published revision right after the write of `revision`: without a journal, that revision.
    fn published_with(&self, inner: &Inner, revision: u64) -> u64 {
        if self.journal.is_some() { inner.published } else { revision }
    }

    /// Passes the change to the journal, under the lock to preserve the order.
    fn record(&self, resource: &str, entry: &Arc<Entry>, revision: u64, present: bool) {
        if let Some(journal) = &self.journal {
            journal.append(Record {
                resource: resource.into(),
                key: entry.key().into(),
                revision,
                created: entry.created(),
                object: present.then(|| entry.bytes()),
            });
        }
    }

    /// Restores a recorded object at its old revision. Only for a store that is not served yet.
    pub fn restore(&self, record: &Record, mut draft: Draft) {
        draft.share(&self.records);
        let mut inner = self.lock();
        inner.revision = inner.revision.max(record.revision);
        inner.published = inner.revision;
        let key: Arc<str> = record.key.as_str().into();
        let entry = Arc::new(Entry::new(Arc::clone(&key), record.revision, record.created, draft));
        inner.table(&record.resource).objects.insert(key, entry);
    }

    /// Completes the restore at `revision`. Changes before it are unknown.
    pub fn restored(&self, revision: u64) {
        let mut inner = self.lock();
        inner.revision = inner.revision.max(revision);
        let revision = inner.revision;
        (inner.published, inner.restored) = (revision, revision);
        for table in inner.tables.values_mut() {
            table.compacted = revision;
        }
        self.shared.durability.send_replace(Durability::new(revision));
    }

    /// Returns objects as of the latest write, durable or not. For the validation of writes.
    ///
    /// Includes keys that start with `prefix` and sort after `after`.
    pub fn snapshot(&self, resource: &str, prefix: &str, after: Option<&str>) -> Snapshot {
        let inner = self.lock();
        let entries = inner.tables.get(resource).map_or_else(Vec::new, |table| range(table, prefix, after));
        Snapshot { revision: inner.revision, entries }
    }

    /// Like [`Store::snapshot`], as of the latest durable write. For readers.
    pub fn list(&self, resource: &str, prefix: &str, after: Option<&str>) -> Snapshot {
        let inner = self.lock();
        let revision = inner.published;
        let Some(table) = inner.tables.get(resource) else {
            return Snapshot { revision, entries: Vec::new() };
        };
        let (present, later) = (range(table, prefix, after), table.after(revision).cloned().collect());
        drop(inner);
        Snapshot { revision, entries: rewind(present, later, prefix, after) }
    }

    /// Like [`Store::list`], as of `revision`.
    pub fn snapshot_at(
        &self,
        resource: &str,
        prefix: &str,
        after: Option<&str>,
        revision: u64,
    ) -> Result<Snapshot, RevisionError> {
        let inner = self.lock();
        if revision > inner.published {
            return Err(RevisionError::TooNew(inner.published));
        }
        let Some(table) = inner.tables.get(resource) else {
            return Ok(Snapshot { revision, entries: Vec::new() });
        };
        if revision < table.compacted {
            return Err(RevisionError::TooOld);
        }
        let (present, later) = (range(table, prefix, after), table.after(revision).cloned().collect());
        drop(inner);
        Ok(Snapshot { revision, entries: rewind(present, later, prefix, after) })
    }

    /// Watches `resource` from after `revision`.
    pub fn follow(&self, resource: &str, revision: u64) -> Result<Cursor, RevisionError> {
        let mut inner = self.lock();
        if revision > inner.published {
            return Err(RevisionError::TooNew(inner.published));
        }
        let table = inner.table(resource);
        if revision < table.compacted {
            return Err(RevisionError::TooOld);
        }
        let (signal, epoch) = (table.tail.subscribe(), table.epoch);
        drop(inner);
        Ok(Cursor::new(self.clone(), resource.into(), revision, epoch, signal))
    }

    /// Lists as [`Store::list`] does, and watches from there.
    pub fn snapshot_and_follow(&self, resource: &str, prefix: &str) -> (Snapshot, Cursor) {
        let mut inner = self.lock();
        let revision = inner.published;
        let table = inner.table(resource);
        let (present, later) = (range(table, prefix, None), table.after(revision).cloned().collect());
        let (signal, epoch) = (table.tail.subscribe(), table.epoch);
        drop(inner);
        let cursor = Cursor::new(self.clone(), resource.into(), revision, epoch, signal);
        (Snapshot { revision, entries: rewind(present, later, prefix, None) }, cursor)
    }

    /// Ends all watches of `resource` once they have read everything. For resources no longer served in this form.
    pub fn end_watches(&self, resource: &str) {
        let mut inner = self.lock();
        let table = inner.table(resource);
        table.epoch += 1;
        let tail = *table.tail.borrow();
        table.tail.send_replace(tail);
    }
}

fn range(table: &Table, prefix: &str, after: Option<&str>) -> Vec<Arc<Entry>> {
    let start = match after {
        Some(after) if after >= prefix => Bound::Excluded(after),
        _ => Bound::Included(prefix),
    };
    table
        .objects
        .range::<str, _>((start, Bound::Unbounded))
        .take_while(|(key, _)| key.starts_with(prefix))
        .map(|(_, entry)| Arc::clone(entry))
        .collect()
}

/// Reverts changes, returning the objects as they were before them.
fn rewind(
    present: Vec<Arc<Entry>>,
    later: Vec<Arc<Event>>,
    prefix: &str,
    after: Option<&str>,
) -> Vec<Arc<Entry>> {
    if later.is_empty() {
        return present;
    }
    let mut past: BTreeMap<Arc<str>, Arc<Entry>> =
        present.into_iter().map(|e| (Arc::clone(e.shared_key()), e)).collect();
    for event in later.into_iter().rev() {
        let key = event.entry.shared_key();
        if !key.starts_with(prefix) || after.is_some_and(|a| &**key <= a) {
            continue;
        }
        match &event.previous {
            Some(previous) => past.insert(Arc::clone(key), Arc::clone(previous)),
            None => past.remove(key),
        };
    }
    past.into_values().collect()
}

#[cfg(test)]
mod tests;
