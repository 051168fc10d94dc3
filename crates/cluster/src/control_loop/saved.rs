//! The state of a control loop, from which others go on.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
};

use futures::{AsyncBufReadExt as _, Stream, StreamExt as _, future, stream};
use http::{HeaderValue, Request, header};
use kube::{
    Api, Client, Resource,
    core::{DynamicObject, PartialObjectMeta},
    runtime::watcher::Event,
};
use serde::Deserialize;
use tokio::time::Instant;

use super::{
    Caches, ControlLoop, Graph, Kind, ResourceInfo,
    events::EventCorrelator,
    queue::Queue,
    watch::{Change, listing},
};
use crate::workloads;

const METADATA: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");

/// The beginning of a line that ends a watch.
const ERROR: &str = "{\"type\":\"ERROR\"";

/// The type of an event that ends an object.
const DELETED: &str = "DELETED";

/// A watch event as it is sent.
#[derive(Deserialize)]
struct Line<T> {
    #[serde(rename = "type")]
    kind: String,
    object: T,
}

/// What says whether an object is news.
#[derive(Deserialize)]
struct Outline {
    metadata: OutlineMeta,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OutlineMeta {
    namespace: String,
    name: String,
    uid: Option<String>,
    resource_version: String,
}

/// What a control loop knew when it had dealt with everything up to a revision.
pub(crate) struct SavedLoop {
    revision: u64,
    at: Instant,
    caches: Caches,
    graph: Graph,
    resources: BTreeMap<String, Arc<ResourceInfo>>,
    kubelet: workloads::Kubelet,
    capacity: workloads::NodeCapacity,
    evictions: workloads::Evictions,
    autoscalers: workloads::Autoscalers,
    queue: Queue,
    events: EventCorrelator,
    watched: HashMap<String, Arc<str>>,
}

impl fmt::Debug for SavedLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedLoop").field("revision", &self.revision).finish_non_exhaustive()
    }
}

/// Carries moments over to another clock, on which less or more time has passed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClockChange {
    from: Instant,
    to: Instant,
}

impl ClockChange {
    /// The same moment on the other clock.
    pub(crate) fn carry(self, moment: Instant) -> Instant {
        match moment.checked_duration_since(self.from) {
            Some(ahead) => self.to + ahead,
            None => self.to.checked_sub(self.from.duration_since(moment)).unwrap_or(self.to),
        }
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
    pub(super) fn load(&mut self, saved: &SavedLoop) {
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
        self.resume_kinds(saved.revision);
        let cached = std::mem::replace(&mut self.watched, saved.watched.clone());
        let uncached: Vec<_> = self
            .resources
            .iter()
            .filter(|(name, _)| saved.watched.contains_key(*name) && !cached.contains_key(*name))
            .map(|(_, info)| Arc::clone(info))
            .collect();
        for info in uncached {
            self.resume_metadata(&info, saved.revision);
        }
    }

    /// Watches a kind that has a cache, which is right up to a revision.
    pub(super) fn resume_kind<K: Kind>(&mut self, revision: u64) {
        self.watched_name(&super::qualified(&K::group(&()), &K::plural(&())));
        let (client, request) = (self.watch_client.clone(), request(&K::url_path(&(), None), revision, None));
        let lines = lines(client, request).map(|line| {
            let change: Change = Box::new(move |control| control.handle_line::<K>(&line));
            change
        });
        let later = listing(Api::<K>::all(self.watch_client.clone())).map(|event| {
            let change: Change = Box::new(move |control| control.handle_event::<K>(event));
            change
        });
        self.changes.push(lines.chain(later).boxed());
    }

    /// Takes a watch event, of which no more is read than is news: most are of the controllers' own writes.
    fn handle_line<K: Kind>(&mut self, line: &str) {
        let outline = match serde_json::from_str::<Line<Outline>>(line) {
            Ok(outline) => outline,
            Err(error) => return tracing::debug!(%error, "an event of a watch can't be read"),
        };
        let metadata = outline.object.metadata;
        let name = (metadata.namespace, metadata.name);
        if outline.kind == DELETED {
            return self.remove_object::<K>(&name, metadata.uid.as_deref(), true);
        }
        let version = metadata.resource_version.parse().unwrap_or(u64::MAX);
        if K::cache(&self.caches).is_current(&name, version) {
            return;
        }
        match serde_json::from_str::<Line<K>>(line) {
            Ok(line) => self.put_object(line.object),
            Err(error) => tracing::debug!(%error, "an event of a watch can't be read"),
        }
    }

    /// Watches the metadata of a kind whose objects are known up to a revision.
    fn resume_metadata(&mut self, resource: &ResourceInfo, revision: u64) {
        let request = request(&DynamicObject::url_path(&resource.api, None), revision, Some(METADATA));
        let news = lines(self.watch_client.clone(), request).filter_map(|line| {
            let event = serde_json::from_str::<Line<PartialObjectMeta<DynamicObject>>>(&line);
            future::ready(event.ok().map(|event| {
                Ok(if event.kind == DELETED {
                    Event::Delete(event.object)
                } else {
                    Event::Apply(event.object)
                })
            }))
        });
        let later = listing(Api::all_with(self.watch_client.clone(), &resource.api));
        self.push_metadata(resource, true, news.chain(later));
    }
}

fn request(path: &str, revision: u64, accept: Option<HeaderValue>) -> Request<Vec<u8>> {
    let mut request = Request::new(Vec::new());
    // Paths of resources are URIs.
    *request.uri_mut() = format!("{path}?watch=true&resourceVersion={revision}").parse().unwrap_or_default();
    request.headers_mut().extend(accept.map(|accept| (header::ACCEPT, accept)));
    request
}

/// The events of a watch until it fails or ends, as they are sent.
fn lines(client: Client, request: Request<Vec<u8>>) -> impl Stream<Item = String> + Send {
    let opened = stream::once(async move { client.request_stream(request).await });
    let lines = opened.flat_map(|opened| match opened {
        Ok(body) => body.lines().map(Result::ok).boxed(),
        Err(_) => stream::empty().boxed(),
    });
    let lines = lines.map(|line| line.filter(|line| !line.starts_with(ERROR)));
    lines.take_while(|line| future::ready(line.is_some())).filter_map(future::ready)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn moments_keep_their_distance_from_the_present() {
        let (from, second) = (Instant::now(), Duration::from_secs(1));
        let clock = ClockChange { from, to: from + second * 100 };
        assert_eq!(clock.carry(from + second), from + second * 101);
        assert_eq!(clock.carry(from - second), from + second * 99);
    }
}
