//! The byte store: per resource an ordered map of objects and a log of changes, under one revision counter.
//!
//! **Invariant:** one short lock guards everything, and nothing is parsed, serialised or awaited while it is held.
//!
//! **Invariant:** readers and watchers see what is durable and nothing else. A write takes its place in the log at once, so
//! that the next writer builds on it, and is published when the journal has it; a journal that fails undoes what it does
//! not have. Without a journal both are one step.
//!
//! **Invariant:** watchers own no queue. Each holds a place in the resource's log and reads on from there; the log is a
//! bounded window, so a watcher that falls behind it is told that its version has expired and nothing accumulates for it.

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

/// Frames of this many latest events per resource stay encoded for watchers that keep up.
const WARM_FRAMES: usize = 128;

/// How much history a store remembers per resource.
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

/// Why a write did not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// A create found the key taken.
    #[error("the key exists")]
    Exists,
    /// The object is not at the version that the writer read.
    #[error("the object changed")]
    Changed,
}

/// The version asked for is older than the window, or newer than the present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevisionError {
    /// No longer remembered.
    TooOld,
    /// Not reached yet; the current revision.
    TooNew(u64),
}

/// A consistent picture of one resource.
#[derive(Debug)]
pub struct Snapshot {
    /// The revision at which it was taken.
    pub revision: u64,
    /// The objects, ordered by key.
    pub entries: Vec<Arc<Entry>>,
}

#[derive(Debug)]
struct Table {
    objects: BTreeMap<Arc<str>, Arc<Entry>>,
    log: VecDeque<Arc<Event>>,
    /// Bytes held only by the log.
    superseded: usize,
    /// Changes up to here have left the log.
    compacted: u64,
    /// Moves when a custom resource is withdrawn, which ends its watches.
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

    /// A copy that changes apart from this one, all of which may be seen.
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

    /// Appends a change to the log, of which everything up to `published` may be seen.
    fn append(&mut self, event: Event, history: &History, published: u64) {
        self.superseded += event.previous.as_ref().map_or(0, |p| p.size());
        let revision = event.revision;
        self.log.push_back(Arc::new(event));
        if let Some(cold) = self.log.len().checked_sub(WARM_FRAMES + 1).and_then(|i| self.log.get(i)) {
            cold.forget_frame();
        }
        while self.log.len() > history.events || self.superseded > history.bytes {
            // What is not published yet may have to be undone.
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

    /// Changes after a revision, oldest first.
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
    /// The last revision that a write was given.
    revision: u64,
    /// The last revision that readers and watchers see: the last that is durable.
    published: u64,
    /// What happened up to here is not known: it was before a restart.
    restored: u64,
    tables: HashMap<Arc<str>, Table, RandomState>,
}

impl Inner {
    fn table(&mut self, resource: &str) -> &mut Table {
        let (published, restored) = (self.published, self.restored);
        self.tables.entry(resource.into()).or_insert_with(|| Table::new(published, restored))
    }
}

/// What the store and its journal's observer share.
#[derive(Debug)]
struct Shared {
    inner: Mutex<Inner>,
    durability: signal::Sender<Durability>,
    /// Called with the changes that a failed journal has undone, latest first.
    on_undo: OnceLock<durability::OnUndo>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here panics half way through a change, so a poisoned lock still guards whole data.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All objects of one server. Cheap to clone; clones share the contents.
#[derive(Debug, Clone)]
pub struct Store {
    shared: Arc<Shared>,
    /// Parts that many objects share.
    records: Arc<encoded::Records>,
    history: History,
    journal: Option<Arc<dyn Journal>>,
}

impl Store {
    /// An empty store that hands its writes to a journal, if there is one.
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

    /// A store in memory with the same objects, revisions and history, which changes apart from this one. Versions of objects
    /// are shared, so that the copy takes little time and memory.
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

    /// The latest revision that readers and watchers see.
    #[must_use]
    pub fn revision(&self) -> u64 {
        let inner = self.lock();
        inner.published
    }

    /// The revision of the latest write, which may not be durable yet.
    pub fn latest(&self) -> u64 {
        self.lock().revision
    }

    /// The object at `key` of `resource` as the latest write left it: what the next write builds on.
    #[must_use]
    pub fn get(&self, resource: &str, key: &str) -> Option<Arc<Entry>> {
        self.lock().tables.get(resource)?.objects.get(key).cloned()
    }

    /// The object at `key` of `resource` as readers see it: without what is not durable yet.
    #[must_use]
    pub fn read(&self, resource: &str, key: &str) -> Option<Arc<Entry>> {
        let inner = self.lock();
        let table = inner.tables.get(resource)?;
        match table.after(inner.published).find(|event| event.entry.key() == key) {
            Some(pending) => pending.previous.clone(),
            None => table.objects.get(key).cloned(),
        }
    }

    /// The number of objects of `resource`.
    #[must_use]
    pub fn count(&self, resource: &str) -> usize {
        self.lock().tables.get(resource).map_or(0, |t| t.objects.len())
    }

    /// Stores a new object.
    pub fn create(&self, resource: &str, key: &str, draft: Draft) -> Result<Arc<Entry>, WriteError> {
        self.commit(resource, key, None, draft)
    }

    /// Replaces an object that is still at revision `expected`.
    pub fn update(
        &self,
        resource: &str,
        key: &str,
        expected: u64,
        draft: Draft,
    ) -> Result<Arc<Entry>, WriteError> {
        self.commit(resource, key, Some(expected), draft)
    }

    /// Removes an object that is still at revision `expected`, and gives its last version and the revision of its end.
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

    /// What may be seen right after the write of `revision`: without a journal the write itself.
    fn published_with(&self, inner: &Inner, revision: u64) -> u64 {
        if self.journal.is_some() { inner.published } else { revision }
    }

    /// Hands the change to the journal while the lock still fixes the order.
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

    /// Puts a recorded object back at its old revision. Only for a store that is not served yet.
    pub fn restore(&self, record: &Record, mut draft: Draft) {
        draft.share(&self.records);
        let mut inner = self.lock();
        inner.revision = inner.revision.max(record.revision);
        inner.published = inner.revision;
        let key: Arc<str> = record.key.as_str().into();
        let entry = Arc::new(Entry::new(Arc::clone(&key), record.revision, record.created, draft));
        inner.table(&record.resource).objects.insert(key, entry);
    }

    /// Ends the restoring: history before the present is unknown.
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

    /// The objects as the latest writes left them, whose keys start with `prefix` and come after `after`: what a write is
    /// judged by.
    pub fn snapshot(&self, resource: &str, prefix: &str, after: Option<&str>) -> Snapshot {
        let inner = self.lock();
        let entries = inner.tables.get(resource).map_or_else(Vec::new, |table| range(table, prefix, after));
        Snapshot { revision: inner.revision, entries }
    }

    /// The same as readers see them: without what is not durable yet.
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

    /// The objects as they were at `revision`, with the same bounds as [`Store::list`].
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

    /// Starts to follow `resource` after `revision`.
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

    /// The objects as readers see them, and a cursor that continues right after them.
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

    /// Ends all watches of `resource` once they have read everything: it is no longer served in this form.
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

/// Takes changes back, so that what was there before them is left.
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
