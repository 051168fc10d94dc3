//! The saved state of a control loop, from which others continue.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
};

use tokio::time::Instant;

use super::{Caches, ClockChange, ControlLoop, Graph, ResourceInfo, events::EventCorrelator, queue::Queue};
use crate::workloads::{Autoscalers, Evictions, Kubelet, NodeCapacity};

/// The state of a control loop that has reconciled everything up to a revision.
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
    /// Copies the state, in which everything up to `revision` has been reconciled.
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

    /// Continues from the state of another control loop.
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
        self.watch_kinds(Some(saved.revision));
        let cached = std::mem::replace(&mut self.watched, saved.watched.clone());
        let uncached: Vec<_> = self
            .resources
            .iter()
            .filter(|(name, _)| saved.watched.contains_key(*name) && !cached.contains_key(*name))
            .map(|(_, info)| Arc::clone(info))
            .collect();
        for info in uncached {
            self.watch_metadata(&info, Some(saved.revision));
        }
    }
}
