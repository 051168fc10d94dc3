//! What became of the writes that a journal took: published when they are durable, undone when they can't be kept.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    fmt,
    sync::{Arc, Weak},
};

use super::{Event, JournalError, Record, Shared, Store};

/// How far the journal is.
#[derive(Debug, Clone)]
pub(super) struct Durability {
    /// Everything up to here that was not undone is durable.
    revision: u64,
    /// Why the journal takes no writes at the moment.
    failure: Option<Arc<str>>,
    /// First and last revisions of writes that were undone, and why. One entry for each time that the journal failed.
    undone: Vec<(u64, u64, Arc<str>)>,
}

impl Durability {
    pub(super) fn new(revision: u64) -> Self {
        Self { revision, failure: None, undone: Vec::new() }
    }

    /// Whether the write of a revision is durable; nothing while that is open.
    fn of(&self, revision: u64) -> Option<Result<(), JournalError>> {
        let undone = self.undone.iter().find(|(first, last, _)| (*first..=*last).contains(&revision));
        match undone {
            Some((_, _, why)) => Some(Err(JournalError(Arc::clone(why)))),
            None => (self.revision >= revision).then_some(Ok(())),
        }
    }
}

/// A change with the resource that it belongs to.
pub type UndoneEvent = (Arc<str>, Arc<Event>);

/// Called with the changes that were undone, latest first.
pub(super) struct OnUndo(UndoHook);

type UndoHook = Box<dyn Fn(&[UndoneEvent]) + Send + Sync>;

impl fmt::Debug for OnUndo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnUndo").finish_non_exhaustive()
    }
}

impl Store {
    /// Waits until the write of `revision` is durable and seen by readers. Immediate without a journal.
    pub async fn durable(&self, revision: u64) -> Result<(), JournalError> {
        if self.journal.is_none() {
            return Ok(());
        }
        let mut durability = self.shared.durability.subscribe();
        let settled = durability.wait_for(|d| d.of(revision).is_some()).await;
        // The sender lives as long as this store.
        settled.ok().and_then(|d| d.of(revision)).unwrap_or(Ok(()))
    }

    /// Waits until every write so far is durable and seen by readers. Immediate without a journal.
    ///
    /// # Errors
    /// Fails if the latest write was undone because the journal could not keep it.
    pub async fn sync(&self) -> Result<(), JournalError> {
        self.durable(self.latest()).await
    }

    /// Why writes can't be kept at the moment. Each one is undone and refused until the journal has recovered.
    #[must_use]
    pub fn failure(&self) -> Option<Arc<str>> {
        self.shared.durability.borrow().failure.clone()
    }

    /// Sets what is called, without the store's lock, with the changes that were undone. May be called once.
    pub fn on_undo(&self, call: impl Fn(&[UndoneEvent]) + Send + Sync + 'static) {
        let _ = self.shared.on_undo.set(OnUndo(Box::new(call)));
    }
}

/// Where a journal reports what became of the writes that it took.
#[derive(Debug, Clone)]
pub struct JournalObserver {
    /// Weak, since the store owns its journal.
    shared: Weak<Shared>,
}

/// What a failure of the journal undid.
#[derive(Debug, Default)]
pub struct Undone {
    /// Writes up to here that are not durable are void: the journal must drop those that it still holds.
    pub through: u64,
    /// The objects that were written to, as they were before, should anything of the failed writes have been kept.
    pub records: Vec<Record>,
}

impl JournalObserver {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::downgrade(shared) }
    }

    /// Everything up to `revision` is durable: readers and watchers see it, and its writers are answered.
    pub fn durable(&self, revision: u64) {
        let Some(shared) = self.shared.upgrade() else { return };
        let mut inner = shared.lock();
        let before = std::mem::replace(&mut inner.published, revision);
        for table in inner.tables.values() {
            // Watchers are woken where there is something new.
            if table.log.back().is_some_and(|last| last.revision > before) {
                table.tail.send_replace(revision);
            }
        }
        drop(inner);
        // Writers come last: what they were answered can be read.
        shared.durability.send_modify(|d| d.revision = revision);
    }

    /// Writes can't be kept: undoes all that are not durable, and refuses their writers.
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
                // Nothing was kept since the last failure.
                Some((first, last, _)) if *first == published + 1 => *last = through,
                _ if through > published => d.undone.push((published + 1, through, why)),
                _ => {}
            }
        });
        Undone { through, records: former(&events) }
    }

    /// The journal keeps writes again.
    pub fn recovered(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.durability.send_modify(|d| d.failure = None);
        }
    }
}

/// The objects before changes, which come latest first.
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
