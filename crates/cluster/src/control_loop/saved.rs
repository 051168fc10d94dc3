//! The state of a control loop, from which others go on.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
};

use futures::{Stream, StreamExt as _, future, stream};
use kube::{Api, core::ApiResource, runtime::watcher::Event};
use steersman_api::{
    resource::Resource,
    store::{Batch, Event as LogEvent, EventKind},
};
use steersman_apiserver::Server;
use tokio::time::Instant;

use super::{
    Caches, ClockChange, ControlLoop, Graph, Kind, ResourceInfo,
    events::EventCorrelator,
    queue::Queue,
    watch::{Change, listing},
};
use crate::workloads::{Autoscalers, Evictions, Kubelet, NodeCapacity};

/// What a control loop knew when it had dealt with everything up to a revision.
pub(crate) struct SavedLoop {
    revision: u64,
    at: Instant,
    caches: Caches,
    graph: Graph,
    resources: BTreeMap<String, Arc<ResourceInfo>>,
    kubelet: Kubelet,
    capacity: NodeCapacity,
    evictions: Evictions,
    autoscalers: Autoscalers,
    queue: Queue,
    events: EventCorrelator,
    watched: HashMap<String, Arc<str>>,
}

impl fmt::Debug for SavedLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedLoop").field("revision", &self.revision).finish_non_exhaustive()
    }
}

impl ControlLoop {
    /// Copies what is known, everything up to a revision having been dealt with.
    pub(super) fn save(&self, revision: u64) -> SavedLoop {
        SavedLoop {
            revision,
            at: self.clock.now(),
            caches: self.caches.clone(),
            graph: self.graph.clone(),
            resources: self.resources.clone(),
            kubelet: self.kubelet.clone(),
            capacity: self.capacity.clone(),
            evictions: self.evictions.clone(),
            autoscalers: self.autoscalers.clone(),
            queue: self.queue.clone(),
            events: self.events.clone(),
            watched: self.watched.clone(),
        }
    }

    /// Goes on from what another control loop knew.
    pub(super) fn load(&mut self, saved: &SavedLoop, server: &Server) {
        let clock = ClockChange { from: saved.at, to: self.clock.now() };
        self.caches = saved.caches.clone();
        self.graph = saved.graph.clone();
        self.resources = saved.resources.clone();
        self.kubelet = saved.kubelet.on_clock(clock);
        self.capacity = saved.capacity.clone();
        self.evictions = saved.evictions.on_clock(clock);
        self.autoscalers = saved.autoscalers.on_clock(clock);
        self.queue = saved.queue.on_clock(clock, self.clock.clone());
        self.events = saved.events.clone();
        self.resume_kinds(server, saved.revision);
        let cached = std::mem::replace(&mut self.watched, saved.watched.clone());
        let uncached: Vec<_> = self
            .resources
            .iter()
            .filter(|(name, _)| saved.watched.contains_key(*name) && !cached.contains_key(*name))
            .map(|(_, info)| Arc::clone(info))
            .collect();
        for info in uncached {
            self.resume_metadata(server, &info, saved.revision);
        }
    }

    /// Watches a kind that has a cache, which is right up to a revision.
    pub(super) fn resume_kind<K: Kind>(&mut self, server: &Server, revision: u64) {
        self.watched_name(&super::qualified(&K::group(&()), &K::plural(&())));
        let catalog = server.catalog();
        let resource = catalog.find(&K::group(&()), &K::version(&()), &K::plural(&()));
        // Objects that are stored in another version have to be listed.
        let resource = resource.filter(|resource| resource.is_storage_version());
        let news = logged(server, resource, revision).map(|event| {
            let change: Change = Box::new(move |control| control.handle_logged::<K>(&event));
            change
        });
        let later = listing(Api::<K>::all(self.watch_client.clone())).map(|event| {
            let change: Change = Box::new(move |control| control.handle_event::<K>(event));
            change
        });
        self.changes.push(news.chain(later).boxed());
    }

    /// Takes a change from the log, of which no more is read than is news: most are of the controllers' own writes.
    fn handle_logged<K: Kind>(&mut self, event: &LogEvent) {
        let entry = &event.entry;
        let name = (entry.namespace().to_owned(), entry.name().to_owned());
        if event.kind == EventKind::Deleted {
            return self.remove_object::<K>(&name, Some(&entry.uid()), true);
        }
        if K::cache(&self.caches).is_current(&name, event.revision) {
            return;
        }
        match serde_json::from_slice(&entry.json()) {
            Ok(object) => self.put_object::<K>(object),
            Err(error) => tracing::debug!(%error, "an object of the store can't be read"),
        }
    }

    /// Watches the metadata of a kind whose objects are known up to a revision.
    fn resume_metadata(&mut self, server: &Server, resource: &ResourceInfo, revision: u64) {
        let ApiResource { group, version, plural, .. } = &resource.api;
        let catalog = server.catalog();
        let news = logged(server, catalog.find(group, version, plural), revision);
        let news = news.filter_map(|event| {
            let object = serde_json::from_slice(event.entry.outline());
            future::ready(object.ok().map(|object| {
                Ok(if event.kind == EventKind::Deleted {
                    Event::Delete(object)
                } else {
                    Event::Apply(object)
                })
            }))
        });
        let later = listing(Api::all_with(self.watch_client.clone(), &resource.api));
        self.push_metadata(resource, true, news.chain(later));
    }
}

/// The changes of a resource after a revision, until it is no longer served. They come from the store, since runs that go on from a
/// checkpoint are short, and the requests for dozens of watches would be a good part of them.
fn logged(
    server: &Server,
    resource: Option<&Arc<Resource>>,
    revision: u64,
) -> impl Stream<Item = Arc<LogEvent>> + Send + use<> {
    let cursor = resource.and_then(|resource| server.store().follow(&resource.storage, revision).ok());
    let batches = stream::unfold(cursor, |cursor| async {
        let mut cursor = cursor?;
        loop {
            match cursor.poll() {
                Ok(Batch::Events(events)) => return Some((stream::iter(events), Some(cursor))),
                Ok(Batch::Idle(_)) => cursor.changed().await,
                Ok(Batch::Ended) | Err(_) => return None,
            }
        }
    });
    batches.flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_with_a_cache_is_stored_in_its_version() {
        let server = Server::builder().build();
        for [group, version, plural] in super::super::kinds::cached_kinds() {
            let catalog = server.catalog();
            let resource = catalog.find(&group, &version, &plural).unwrap();
            assert!(resource.is_storage_version(), "{plural}.{group} in {version} would be listed");
        }
    }
}
