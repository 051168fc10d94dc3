//! Outcome of journalled writes: published once they are durable, rolled back if the journal fails.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    fmt,
    sync::{Arc, Weak},
};

use super::{Event, JournalError, Record, Shared, Store};

/// Progress of the journal.
#[derive(Debug, Clone)]
pub(super) struct Durability {
    /// All writes up to this revision are durable, except those rolled back.
    revision: u64,
    /// Why the journal currently rejects writes.
    failure: Option<Arc<str>>,
    /// First and last revisions of writes that were rolled back, and the reason; one entry for each failure of the
    /// journal.
    undone: Vec<(u64, u64, Arc<str>)>,
}

impl Durability {
    pub(super) fn new(revision: u64) -> Self {
        Self { revision, failure: None, undone: Vec::new() }
    }

    /// Returns the outcome of a revision's write; `None` while it is pending.
    fn of(&self, revision: u64) -> Option<Result<(), JournalError>> {
        let undone = self.undone.iter().find(|(first, last, _)| (*first..=*last).contains(&revision));
        match undone {
            Some((_, _, why)) => Some(Err(JournalError(Arc::clone(why)))),
            None => (self.revision >= revision).then_some(Ok(())),
        }
    }
}

/// A change that was rolled back, with its resource.
pub type UndoneEvent = (Arc<str>, Arc<Event>);

/// Callback with the changes that were rolled back, latest first.
pub(super) struct OnUndo(UndoHook);

type UndoHook = Box<dyn Fn(&[UndoneEvent]) + Send + Sync>;

impl fmt::Debug for OnUndo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnUndo").finish_non_exhaustive()
    }
}

impl Store {
    /// Waits until the write of `revision` is durable and visible to readers. Immediate without a journal.
    pub async fn durable(&self, revision: u64) -> Result<(), JournalError> {
        if self.journal.is_none() {
            return Ok(());
        }
        let mut durability = self.shared.durability.subscribe();
        let settled = durability.wait_for(|d| d.of(revision).is_some()).await;
        // The sender is dropped only with the store.
        settled.ok().and_then(|d| d.of(revision)).unwrap_or(Ok(()))
    }

    /// Waits until every write so far is durable and visible to readers. Immediate without a journal.
    ///
    /// # Errors
    /// Fails if the latest write was rolled back because the journal failed.
    pub async fn sync(&self) -> Result<(), JournalError> {
        self.durable(self.latest()).await
    }

    /// Returns why the journal is failing, if it is. Writes are rolled back and rejected until it has recovered.
    #[must_use]
    pub fn failure(&self) -> Option<Arc<str>> {
        self.shared.durability.borrow().failure.clone()
    }

    /// Sets the callback for changes that are rolled back, called without the store's lock. Later calls have no effect.
    pub fn on_undo(&self, call: impl Fn(&[UndoneEvent]) + Send + Sync + 'static) {
        let _ = self.shared.on_undo.set(OnUndo(Box::new(call)));
    }
}

/// Receives a journal's reports about the outcome of writes.
#[derive(Debug, Clone)]
pub struct JournalObserver {
    /// Weak, since the store owns its journal.
    shared: Weak<Shared>,
}

/// The writes that a failure of the journal rolled back.
#[derive(Debug, Default)]
pub struct Undone {
    /// Pending writes up to this revision are void: the journal must drop those that it still holds.
    pub through: u64,
    /// Previous versions of the affected objects, to overwrite what was persisted of failed writes.
    pub records: Vec<Record>,
}

impl JournalObserver {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::downgrade(shared) }
    }

    /// Reports writes up to `revision` as durable: publishes them to readers and watchers, and wakes their writers.
    pub fn durable(&self, revision: u64) {
        let Some(shared) = self.shared.upgrade() else { return };
        let mut inner = shared.lock();
        let before = std::mem::replace(&mut inner.published, revision);
        for table in inner.tables.values() {
            // Wake watchers only of resources with new events.
            if table.log.back().is_some_and(|last| last.revision > before) {
                table.tail.send_replace(revision);
            }
        }
        drop(inner);
        // Writers are woken last, so that they can read their own writes.
        shared.durability.send_modify(|d| d.revision = revision);
    }

    /// Reports that the journal failed: rolls back all pending writes and fails their writers.
    #[must_use]
    pub fn failed(&self, why: &str) -> Undone {
        let Some(shared) = self.shared.upgrade() else {
            return Undone { through: u64::MAX, ..Undone::default() };
        };
        let mut inner = shared.lock();
        let (published, through) = (inner.published, inner.revision);
        let mut events: Vec<UndoneEvent> = Vec::new();
        for (resource, table) in &mut inner.tables {
            while let Some(event) = table.log.pop_back_if(|last| last.revision > published) {
                table.superseded -= event.previous.as_ref().map_or(0, |p| p.size());
                let key = Arc::clone(event.entry.shared_key());
                match &event.previous {
                    Some(previous) => table.objects.insert(key, Arc::clone(previous)),
                    None => table.objects.remove(&key),
                };
                events.push((Arc::clone(resource), event));
            }
        }
        drop(inner);
        events.sort_by_key(|(_, event)| Reverse(event.revision));
        if let Some(OnUndo(call)) = shared.on_undo.get() {
            call(&events);
        }
        let why: Arc<str> = why.into();
        shared.durability.send_modify(|d| {
            d.failure = Some(Arc::clone(&why));
            match d.undone.last_mut() {
                // No write was published since the last failure.
                Some((first, last, _)) if *first == published + 1 => *last = through,
                _ if through > published => d.undone.push((published + 1, through, why)),
                _ => {}
            }
        });
        Undone { through, records: former(&events) }
    }

    /// Reports that the journal accepts writes again.
    pub fn recovered(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.durability.send_modify(|d| d.failure = None);
        }
    }
}

/// Returns the previous versions of changed objects. `events` are sorted latest first.
fn former(events: &[UndoneEvent]) -> Vec<Record> {
    let oldest: BTreeMap<(&str, &str), &Event> =
        events.iter().map(|(resource, event)| ((&**resource, event.entry.key()), &**event)).collect();
    let record = |((resource, key), event): ((&str, &str), &Event)| Record {
        resource: resource.to_owned(),
        key: key.to_owned(),
        revision: event.previous.as_ref().map_or(event.revision, |p| p.revision()),
        created: event.previous.as_ref().map_or(event.revision, |p| p.created()),
        object: event.previous.as_ref().map(|p| p.bytes()),
    };
    oldest.into_iter().map(record).collect()
}
