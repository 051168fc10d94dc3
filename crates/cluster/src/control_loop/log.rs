//! The store's log as the source of the caches.
//!
//! The control loop runs in the API server's process. Reading the log spares it dozens of watches when a cluster starts,
//! and per-kind code to decode their events.

use std::sync::Arc;

use futures::{Stream, StreamExt as _, stream};
use serde::de::DeserializeOwned;
use steersman_api::store::{Batch, Entry, Event, Store};

/// A list of a resource, or a change to it.
#[derive(Debug)]
pub(super) enum LogUpdate {
    /// All objects. Changes from there on follow.
    Listed(Vec<Arc<Entry>>),
    /// One object changed.
    Changed(Arc<Event>),
}

/// Lists a resource, unless it is known up to a revision, and follows it until it is no longer served.
///
/// It is listed again if the log no longer reaches back far enough.
pub(super) fn list_and_follow(
    store: Store,
    resource: &str,
    known: Option<u64>,
) -> impl Stream<Item = LogUpdate> + Send + use<> {
    let cursor = known.and_then(|revision| store.follow(resource, revision).ok());
    let resource = resource.to_owned();
    let batches = stream::unfold((store, resource, cursor), |(store, resource, mut cursor)| async {
        while let Some(place) = &mut cursor {
            match place.poll() {
                Ok(Batch::Events(events)) => {
                    let updates: Vec<_> = events.into_iter().map(LogUpdate::Changed).collect();
                    return Some((stream::iter(updates), (store, resource, cursor)));
                }
                Ok(Batch::Idle(_)) => place.changed().await,
                Ok(Batch::Ended) => return None,
                Err(_) => cursor = None,
            }
        }
        let (snapshot, cursor) = store.snapshot_and_follow(&resource, "");
        Some((stream::iter(vec![LogUpdate::Listed(snapshot.entries)]), (store, resource, Some(cursor))))
    });
    batches.flatten()
}

/// Decodes an object from the store.
///
/// It is parsed from a `str`, as the client's responses are: any other source would instantiate the deserializer of each
/// type again.
pub(super) fn decode<T: DeserializeOwned>(json: &[u8]) -> Option<T> {
    let decoded = serde_json::from_str(std::str::from_utf8(json).ok()?);
    decoded.map_err(|error| tracing::debug!(%error, "cannot decode a stored object")).ok()
}

#[cfg(test)]
mod tests {
    use std::{iter, pin::pin};

    use futures::FutureExt as _;
    use serde_json::json;
    use steersman_api::store::{Draft, History};

    use super::*;

    fn create(store: &Store, name: &str) -> u64 {
        let draft = Draft::new(&json!({"metadata": {"name": name}}), Vec::new()).unwrap();
        store.create("pods", &format!("default/{name}"), draft).unwrap().revision()
    }

    fn names(update: Option<LogUpdate>) -> Vec<String> {
        match update {
            Some(LogUpdate::Listed(entries)) => {
                let names = entries.iter().map(|entry| entry.name().to_owned());
                iter::once("all:".to_owned()).chain(names).collect()
            }
            Some(LogUpdate::Changed(event)) => vec![event.entry.name().to_owned()],
            None => vec!["end".to_owned()],
        }
    }

    #[tokio::test]
    async fn a_resource_is_listed_and_followed_to_its_end() {
        let store = Store::new(History::default(), None);
        create(&store, "a");
        let mut updates = pin!(list_and_follow(store.clone(), "pods", None));
        assert_eq!(names(updates.next().await), ["all:", "a"]);
        create(&store, "b");
        create(&store, "c");
        assert_eq!(names(updates.next().await), ["b"]);
        assert_eq!(names(updates.next().await), ["c"]);
        assert!(updates.next().now_or_never().is_none(), "there is nothing yet");
        store.end_watches("pods");
        assert_eq!(names(updates.next().await), ["end"]);
    }

    #[tokio::test]
    async fn what_is_known_is_not_listed_unless_the_log_has_gone_on() {
        let store = Store::new(History { events: 2, bytes: usize::MAX }, None);
        let known = create(&store, "a");
        create(&store, "b");
        let mut updates = pin!(list_and_follow(store.clone(), "pods", Some(known)));
        assert_eq!(names(updates.next().await), ["b"]);
        for name in ["c", "d", "e", "f"] {
            create(&store, name);
        }
        assert_eq!(names(updates.next().await), ["all:", "a", "b", "c", "d", "e", "f"]);
        create(&store, "g");
        assert_eq!(names(updates.next().await), ["g"]);
        let mut updates = pin!(list_and_follow(store.clone(), "pods", Some(known)));
        assert_eq!(names(updates.next().await).len(), 8, "the log begins later");
    }
}
