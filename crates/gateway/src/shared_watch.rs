//! Watches shared by event streams: one per credentials, path and selectors.
//!
//! Credentials are part of the key, so a stream sees only what the cluster sends to its own caller. The latest events are kept,
//! bounded in number and bytes: each stream reads them at its own pace, and one that falls behind continues with a watch of its
//! own.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use bytes::Bytes;
use serde_json::Value;
use tokio::{sync::watch as signal, task::AbortHandle};

use crate::{
    problem::Result,
    upstream::{Cluster, CredentialsHash},
    watch::{Event, Target, Watch},
};

/// The number of events that a watch keeps.
const KEPT: usize = 512;
/// The total size of the objects that a watch keeps.
const KEPT_BYTES: usize = 8 << 20;
/// The number of renditions kept with an event.
const RENDITIONS: usize = 4;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A change, as received from the cluster.
pub(crate) struct Change {
    /// ADDED, MODIFIED or DELETED.
    pub(crate) kind: &'static str,
    pub(crate) object: Value,
    frames: Mutex<Vec<(String, Bytes)>>,
}

impl Change {
    pub(crate) fn new(kind: &'static str, object: Value) -> Self {
        Self { kind, object, frames: Mutex::default() }
    }

    /// Returns the frame of this change in one rendition, made by the first stream that needs it.
    pub(crate) fn frame(&self, rendition: &str, make: impl FnOnce() -> Result<Bytes>) -> Result<Bytes> {
        let mut frames = lock(&self.frames);
        if let Some((_, frame)) = frames.iter().find(|(known, _)| known == rendition) {
            return Ok(frame.clone());
        }
        let frame = make()?;
        if frames.len() < RENDITIONS {
            frames.push((rendition.to_owned(), frame.clone()));
        }
        Ok(frame)
    }
}

/// An event for a stream.
pub(crate) enum Next {
    Changed(Arc<Change>),
    /// Nothing else happened up to this resourceVersion.
    Bookmark,
    /// The resourceVersion is too old: the cluster no longer has the events after it.
    Expired,
}

struct Entry {
    version: u64,
    bytes: usize,
    /// None for a bookmark.
    change: Option<Arc<Change>>,
}

/// The latest events of a watch.
struct Recent {
    /// The resourceVersion after which every event is in `entries`, or was sent to streams that had joined.
    complete_since: u64,
    /// The sequence number of the first entry.
    first: u64,
    entries: VecDeque<Entry>,
    bytes: usize,
}

impl Recent {
    fn next(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    fn push(&mut self, entry: Entry) {
        self.bytes += entry.bytes;
        self.entries.push_back(entry);
        while self.entries.len() > KEPT || (self.bytes > KEPT_BYTES && self.entries.len() > 1) {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.bytes -= oldest.bytes;
            self.complete_since = oldest.version;
            self.first += 1;
        }
    }

    fn entry(&self, number: u64) -> Option<&Entry> {
        self.entries.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }
}

/// A watch of the cluster, closed with its last stream.
struct SharedWatch {
    recent: Arc<Mutex<Recent>>,
    /// The sequence number of the next entry; the channel closes when the watch ends.
    next: signal::Receiver<u64>,
    task: AbortHandle,
}

impl Drop for SharedWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl SharedWatch {
    fn start(mut watch: Watch, from: u64) -> Self {
        let recent = Recent { complete_since: from, first: 0, entries: VecDeque::new(), bytes: 0 };
        let recent = Arc::new(Mutex::new(recent));
        let (sender, next) = signal::channel(0);
        let shared = Arc::clone(&recent);
        let task = tokio::spawn(async move {
            // However the watch ends, each stream continues with its own watch, which reports the reason.
            while let Ok(event) = watch.next().await {
                let change = match event {
                    Event::Changed { kind, object } => Some(Arc::new(Change::new(kind, object))),
                    Event::Bookmark => None,
                    Event::Expired => return,
                };
                let Ok(version) = watch.version().parse() else { return };
                let bytes = if change.is_some() { watch.line_bytes() } else { 0 };
                let mut recent = lock(&shared);
                recent.push(Entry { version, bytes, change });
                let next = recent.next();
                drop(recent);
                sender.send_replace(next);
            }
        });
        Self { recent, next, task: task.abort_handle() }
    }

    /// Joins after a resourceVersion. None if events after it are no longer kept, or the watch has ended.
    fn join(self: &Arc<Self>, from: u64) -> Option<Subscription> {
        let recent = lock(&self.recent);
        if from < recent.complete_since || self.next.has_changed().is_err() {
            return None;
        }
        let known = recent.entries.iter().position(|entry| entry.version > from);
        let number = known.map_or(recent.next(), |at| recent.first + at as u64);
        Some(Subscription { number, version: from, next: self.next.clone(), watch: Arc::clone(self) })
    }
}

/// A stream's position in a shared watch.
struct Subscription {
    number: u64,
    version: u64,
    next: signal::Receiver<u64>,
    watch: Arc<SharedWatch>,
}

impl Subscription {
    /// Returns the next event. None if the stream has fallen behind or the watch has ended: then continue with a watch from its
    /// version.
    ///
    /// Cancel safe.
    async fn next(&mut self) -> Option<Next> {
        loop {
            {
                let recent = lock(&self.watch.recent);
                if self.number < recent.first {
                    return None;
                }
                if let Some(entry) = recent.entry(self.number) {
                    self.number += 1;
                    // A stream that listed after the watch began has already seen this event.
                    if entry.version <= self.version {
                        continue;
                    }
                    self.version = entry.version;
                    return Some(
                        entry
                            .change
                            .as_ref()
                            .map_or(Next::Bookmark, |change| Next::Changed(Arc::clone(change))),
                    );
                }
            }
            let number = self.number;
            self.next.wait_for(|next| *next > number).await.ok()?;
        }
    }
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    credentials: CredentialsHash,
    target: Target,
}

/// The open watches.
#[derive(Default)]
pub(crate) struct SharedWatches(Mutex<HashMap<Key, Weak<SharedWatch>>>);

impl SharedWatches {
    /// Joins the watch of a target after a resourceVersion, and starts it if there is none.
    ///
    /// None if the version is too old for the watch, or not a number: then the caller uses a watch of its own.
    fn join(&self, cluster: &Cluster, target: &Target, version: &str) -> Option<Subscription> {
        let from: u64 = version.parse().ok()?;
        let key = Key { credentials: cluster.credentials_hash(), target: target.clone() };
        let mut watches = lock(&self.0);
        let open = watches.get(&key).and_then(Weak::upgrade);
        if let Some(open) = open.filter(|open| open.next.has_changed().is_ok()) {
            return open.join(from);
        }
        watches.retain(|_, watch| watch.strong_count() > 0);
        let watch = Arc::new(SharedWatch::start(Watch::new(cluster, target, version), from));
        watches.insert(key, Arc::downgrade(&watch));
        watch.join(from)
    }
}

/// A stream's changes: from the shared watch, or from its own watch if it has fallen behind.
pub(crate) struct Changes {
    cluster: Cluster,
    target: Target,
    from: Source,
}

enum Source {
    Shared(Subscription),
    Own(Box<Watch>),
}

impl Changes {
    /// Starts with the changes after a resourceVersion.
    pub(crate) fn after(watches: &SharedWatches, cluster: &Cluster, target: Target, version: &str) -> Self {
        let from = match watches.join(cluster, &target, version) {
            Some(subscription) => Source::Shared(subscription),
            None => Source::Own(Box::new(Watch::new(cluster, &target, version))),
        };
        Self { cluster: cluster.clone(), target, from }
    }

    /// Returns the resourceVersion up to which all events have been returned.
    pub(crate) fn version(&self) -> String {
        match &self.from {
            Source::Shared(subscription) => subscription.version.to_string(),
            Source::Own(watch) => watch.version().to_owned(),
        }
    }

    /// Returns the next event. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Next> {
        loop {
            match &mut self.from {
                Source::Shared(subscription) => match subscription.next().await {
                    Some(next) => return Ok(next),
                    None => {
                        self.from =
                            Source::Own(Box::new(Watch::new(&self.cluster, &self.target, &self.version())));
                    }
                },
                Source::Own(watch) => {
                    return Ok(match watch.next().await? {
                        Event::Changed { kind, object } => Next::Changed(Arc::new(Change::new(kind, object))),
                        Event::Bookmark => Next::Bookmark,
                        Event::Expired => Next::Expired,
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(version: u64, bytes: usize) -> Entry {
        Entry { version, bytes, change: Some(Arc::new(Change::new("MODIFIED", Value::Null))) }
    }

    #[test]
    fn what_is_kept_has_bounds_and_says_since_when_it_is_complete() {
        let mut recent = Recent { complete_since: 10, first: 0, entries: VecDeque::new(), bytes: 0 };
        for version in 11..11 + KEPT as u64 {
            recent.push(entry(version, 1));
        }
        assert_eq!((recent.complete_since, recent.first), (10, 0));
        recent.push(entry(5000, 1));
        assert_eq!((recent.complete_since, recent.first, recent.entries.len()), (11, 1, KEPT));
        assert!(recent.entry(0).is_none());
        assert_eq!(recent.entry(1).map(|entry| entry.version), Some(12));
        recent.push(entry(5001, KEPT_BYTES));
        assert_eq!(recent.entries.len(), 1, "one event larger than the bound is kept alone");
        assert_eq!((recent.complete_since, recent.bytes), (5000, KEPT_BYTES));
    }

    #[test]
    fn a_frame_is_made_once_for_each_rendition() {
        let change = Change::new("ADDED", Value::Null);
        let make = |text: &'static str| move || Ok(Bytes::from_static(text.as_bytes()));
        assert_eq!(change.frame("a", make("1")).ok().as_deref(), Some(b"1".as_slice()));
        assert_eq!(change.frame("a", make("2")).ok().as_deref(), Some(b"1".as_slice()));
        assert_eq!(change.frame("b", make("3")).ok().as_deref(), Some(b"3".as_slice()));
    }
}
