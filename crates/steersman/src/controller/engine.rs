//! A running controller.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, atomic::AtomicUsize},
};

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    ControllerSpec, Finalizer, Options, PanicGuard, ReconcileFn, Watch,
    reads::{self, Query, Reads},
    watch::{Relation, controller_key},
};
use crate::{
    cache::{self, CacheEvent, Change, Selection, Store},
    context::Shared,
    error::{Error, Result},
    kind::{Key, Kind},
    metrics::Metrics,
    queue::{self, Queue},
};

/// A running controller: its queue, and what its workers need.
pub(crate) struct Engine {
    pub(crate) name: Arc<str>,
    pub(crate) kind: Kind,
    pub(crate) queue: Queue,
    pub(crate) options: Options,
    pub(crate) guard: PanicGuard,
    pub(super) reconcile: ReconcileFn,
    pub(super) finalizers: Vec<Finalizer>,
    pub(super) secondary: Vec<(Kind, Finalizer)>,
    /// The watches; that of its own kind comes first.
    watches: RwLock<Vec<Watch>>,
    store: RwLock<Option<Arc<Store>>>,
    reads: Mutex<Reads>,
    pending: Mutex<PendingCleanup>,
    /// Objects to verify before they are reconciled. Another writer deleted an object that they control.
    recheck: Mutex<HashSet<Key>>,
    /// Number of slow reconciles whose workers have substitutes.
    pub(super) slow: AtomicUsize,
}

/// Controlled objects that wait for a cleanup, with the index of its finalizer, by owner.
#[derive(Debug, Default)]
struct PendingCleanup(HashMap<Key, BTreeSet<(usize, Key)>>);

impl PendingCleanup {
    fn remove(&mut self, owner: &Key, which: &(usize, Key)) {
        if let Some(all) = self.0.get_mut(owner) {
            all.remove(which);
            if all.is_empty() {
                self.0.remove(owner);
            }
        }
    }
}

impl Engine {
    pub(crate) fn new(
        spec: ControllerSpec,
        metrics: &Metrics,
    ) -> (Arc<Self>, Vec<futures::stream::BoxStream<'static, Key>>) {
        let kind = spec.primary.kind.clone();
        let name: Arc<str> = spec.name.unwrap_or_else(|| kind.name().to_lowercase()).into();
        let mut watches = vec![spec.primary];
        watches.extend(spec.watches);
        // A finalizer needs a watch, and its cleanup gets whole objects.
        for (kind, _) in &spec.secondary {
            if !watches.iter().any(|other| other.kind == *kind && other.is_owned_full()) {
                watches.push(Watch::owned_kind(kind.clone()));
            }
        }
        let engine = Self {
            guard: PanicGuard::new(Arc::clone(&name), metrics),
            name,
            kind,
            queue: Queue::new(spec.options.backoff, spec.options.rate_limit),
            options: spec.options,
            reconcile: spec.reconcile,
            finalizers: spec.finalizers,
            secondary: spec.secondary,
            watches: RwLock::new(watches),
            store: RwLock::default(),
            reads: Mutex::default(),
            pending: Mutex::default(),
            recheck: Mutex::default(),
            slow: AtomicUsize::default(),
        };
        (Arc::new(engine), spec.streams.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Starts the watches and waits for their initial lists.
    pub(crate) async fn sync(self: &Arc<Self>, shared: &Shared) -> Result<()> {
        let watches = self.watches.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut stores = Vec::new();
        for watch in watches {
            let store = self.subscribe(&watch, shared);
            if matches!(watch.relation, Relation::Primary) {
                *self.store.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&store));
            }
            if !watch.optional {
                stores.push(store);
            }
        }
        for store in stores {
            cache::synced(&store, self.options.sync_timeout).await?;
        }
        Ok(())
    }

    /// Runs the workers until the queue is closed.
    pub(crate) async fn run(
        self: Arc<Self>,
        shared: Arc<Shared>,
        streams: Vec<futures::stream::BoxStream<'static, Key>>,
    ) {
        let mut sources = JoinSet::new();
        for mut stream in streams {
            let engine = Arc::clone(&self);
            sources.spawn(async move {
                let feed = async {
                    while let Some(key) = stream.next().await {
                        engine.queue.add(&key, queue::NORMAL);
                    }
                };
                if std::panic::AssertUnwindSafe(feed).catch_unwind().await.is_err() {
                    engine.guard.report("a stream of Controller::on, which ends here");
                }
            });
        }
        let mut workers = JoinSet::new();
        let (substitutes, mut wanted) = mpsc::unbounded_channel();
        let worker = || Arc::clone(&self).work(Arc::clone(&shared), substitutes.clone());
        for _ in 0..self.options.concurrency {
            workers.spawn(worker());
        }
        loop {
            tokio::select! {
                Some(()) = wanted.recv() => drop(workers.spawn(worker())),
                ended = workers.join_next() => {
                    if ended.is_none() {
                        return;
                    }
                }
            }
        }
    }

    /// Enqueues matching objects, and deleted ones with a pending cleanup.
    pub(crate) fn enqueue_matching(&self, which: impl Fn(&Key) -> bool) {
        let pending: Vec<Key> = self.pending().0.keys().cloned().collect();
        let keys = self.store().map(|store| store.keys()).unwrap_or_default();
        for key in keys.iter().chain(&pending).filter(|key| which(key)) {
            self.queue.add(key, queue::LISTED);
        }
    }

    /// Adds a watch while running.
    pub(crate) fn watch<'a>(
        self: &'a Arc<Self>,
        watch: Watch,
        shared: &'a Shared,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let new = {
                let mut watches = self.watches.write().unwrap_or_else(PoisonError::into_inner);
                let new = !watches.iter().any(|other| other.same(&watch));
                if new {
                    watches.push(watch.clone());
                }
                new
            };
            let store = if new {
                self.subscribe(&watch, shared)
            } else {
                shared.caches.start(&watch.kind, &watch.selection)
            };
            if watch.optional { Ok(()) } else { cache::synced(&store, self.options.sync_timeout).await }
        })
    }

    fn subscribe(self: &Arc<Self>, watch: &Watch, shared: &Shared) -> Arc<Store> {
        let store = shared.caches.start(&watch.kind, &watch.selection);
        // Weak, so that the caches do not keep the controller alive.
        let engine = Arc::downgrade(self);
        let watched = watch.clone();
        store.subscribe(Arc::new(move |event| {
            if let Some(engine) = engine.upgrade() {
                engine.handle_event(&watched, event);
            }
        }));
        store
    }

    /// Returns the cache of the controller's own kind.
    pub(crate) fn store(&self) -> Result<Arc<Store>> {
        let store = self.store.read().unwrap_or_else(PoisonError::into_inner).clone();
        store.ok_or_else(|| Error::other("the controller has not been started"))
    }

    /// Returns the selections that serve the reads of a kind or of its metadata: those of all its watches. A watch
    /// without a selector covers the others; a kind without a watch is read as a whole.
    pub(crate) fn selections(&self, kind: &Kind, metadata: bool) -> Vec<Selection> {
        let watches = self.watches.read().unwrap_or_else(PoisonError::into_inner);
        let mut selections = Vec::new();
        for Watch { selection, .. } in
            watches.iter().filter(|watch| watch.kind == *kind && watch.selection.metadata == metadata)
        {
            if selection.is_everything() {
                return vec![selection.clone()];
            }
            if !selections.contains(selection) {
                selections.push(selection.clone());
            }
        }
        if selections.is_empty() {
            selections.push(Selection { metadata, ..Selection::default() });
        }
        selections
    }

    /// Returns the kinds of the whole objects that the controller's own objects control.
    pub(crate) fn owned_kinds(&self) -> Vec<Kind> {
        let watches = self.watches.read().unwrap_or_else(PoisonError::into_inner);
        let mut kinds: Vec<Kind> = Vec::new();
        for watch in watches.iter().filter(|watch| watch.is_owned_full()) {
            if !kinds.contains(&watch.kind) {
                kinds.push(watch.kind.clone());
            }
        }
        kinds
    }

    /// Whether changes of a kind trigger the objects that read it.
    fn is_read(&self, kind: &Kind) -> bool {
        let watches = self.watches.read().unwrap_or_else(PoisonError::into_inner);
        watches.iter().any(|watch| watch.kind == *kind && matches!(watch.relation, Relation::Read))
    }

    pub(crate) fn note_read(&self, kind: &Kind, key: &Key, reader: &Key) {
        if self.is_read(kind) {
            self.reads().note(kind, key, reader);
        }
    }

    pub(crate) fn note_query(&self, kind: &Kind, query: impl FnOnce() -> Query, reader: &Key) {
        if self.is_read(kind) {
            self.reads().note_query(kind, query(), reader);
        }
    }

    pub(super) fn reads(&self) -> MutexGuard<'_, Reads> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pending(&self) -> MutexGuard<'_, PendingCleanup> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the objects to verify with the API server before they are reconciled.
    pub(super) fn recheck(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.recheck.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn exists(&self, key: &Key) -> bool {
        self.store().is_ok_and(|store| store.get(key).is_some())
    }

    /// Returns the controlled objects of an owner that wait for a cleanup. They stay recorded: it may be interrupted.
    pub(super) fn pending_cleanups(&self, owner: &Key) -> BTreeSet<(usize, Key)> {
        self.pending().0.get(owner).cloned().unwrap_or_default()
    }

    /// Removes a pending cleanup, unless the object still waits for it.
    pub(super) fn cleanup_done(&self, owner: &Key, which: &(usize, Key), waits: impl FnOnce() -> bool) {
        let mut pending = self.pending();
        // Evaluated under the lock: an object of the same name that starts to wait now is recorded afterwards.
        if !waits() {
            pending.remove(owner, which);
        }
    }

    fn handle_event(&self, watch: &Watch, event: &CacheEvent<'_>) {
        match event {
            CacheEvent::Changed(change) => self.changed(watch, change),
            CacheEvent::Synced if watch.optional => {
                // The kind has appeared: objects that waited for it are reconciled.
                self.enqueue_matching(|_| true);
            }
            CacheEvent::Synced => {}
        }
    }

    fn changed(&self, watch: &Watch, change: &Change<'_>) {
        self.track_pending_cleanup(watch, change);
        if !watch.passes(change, &self.guard) {
            return;
        }
        let priority = if change.listed { queue::LISTED } else { queue::NORMAL };
        let mut keys = match watch.relation {
            Relation::Primary => vec![change.key.clone()],
            Relation::Read => reads::affected(&self.reads, &watch.kind, change),
            Relation::Owned | Relation::Mapped(..) => {
                let mut keys: Vec<Key> = [change.old, change.new]
                    .into_iter()
                    .flatten()
                    .flat_map(|state| watch.affected(&self.kind, state, &self.guard))
                    .collect();
                keys.sort_unstable();
                keys.dedup();
                keys
            }
        };
        // The author of the write has seen it.
        if let Some(author) = change.author.filter(|author| author.controller == self.name) {
            keys.retain(|key| *key != author.object);
        }
        for key in keys {
            if matches!(watch.relation, Relation::Owned) && change.new.is_none() && self.exists(&key) {
                self.recheck().insert(key.clone());
            }
            self.queue.add(&key, priority);
        }
    }

    /// Tracks whether a controlled object waits for a cleanup: another replica may have done it.
    fn track_pending_cleanup(&self, watch: &Watch, change: &Change<'_>) {
        if !watch.is_owned_full() {
            return;
        }
        for (index, (_, finalizer)) in
            self.secondary.iter().enumerate().filter(|(_, (kind, _))| *kind == watch.kind)
        {
            let which = (index, change.key.clone());
            let owner = |state| controller_key(&self.kind, state);
            let (before, now) = (change.old.and_then(owner), change.new.and_then(owner));
            let mut pending = self.pending();
            for owner in [&before, &now].into_iter().flatten() {
                pending.remove(owner, &which);
            }
            if let Some(owner) = now.filter(|_| change.new.is_some_and(|state| finalizer.is_due(state))) {
                pending.0.entry(owner).or_default().insert(which);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use serde_json::json;

    use super::*;
    use crate::{
        action::Action,
        cache::{Incoming, Snapshot},
        context::Context,
        controller::Controller,
    };

    /// A ConfigMap of the Secret `owner`, with these finalizers and being deleted.
    fn deleted(finalizers: &[&str]) -> Snapshot {
        let owner =
            json!({"apiVersion": "v1", "kind": "Secret", "name": "owner", "uid": "1", "controller": true});
        let object = json!({"metadata": {
            "name": "map", "namespace": "lab", "resourceVersion": "1", "ownerReferences": [owner],
            "finalizers": finalizers, "deletionTimestamp": "2026-01-01T00:00:00Z",
        }});
        let incoming: Incoming = serde_json::from_value(object).unwrap();
        incoming.snapshot("test", Arc::from)
    }

    #[test]
    fn objects_that_another_replica_cleaned_up_are_forgotten() {
        let reconcile =
            |_: Arc<Secret>, _: Context| std::future::ready(Ok::<_, Error>(Action::await_change()));
        let cleanup =
            |_: Arc<ConfigMap>, _: Context| std::future::ready(Ok::<_, Error>(Action::await_change()));
        let controller = Controller::of_existing::<Secret>(reconcile)
            .finalizer_on::<ConfigMap>("steersman.dev/x", cleanup);
        let (engine, _) = Engine::new(controller.spec, &Metrics::new());
        // Predicates do not filter this.
        let watch = Watch::owned::<ConfigMap>().when(|_, _| false);
        let (key, owner) = (Key::namespaced("lab", "map"), Key::namespaced("lab", "owner"));
        let hear = |old: Option<&Snapshot>, new: Option<&Snapshot>| {
            let change = Change { key: &key, old, new, listed: false, author: None };
            engine.handle_event(&watch, &CacheEvent::Changed(change));
            engine.pending_cleanups(&owner).len()
        };
        let (waits, cleaned) = (deleted(&["steersman.dev/x", "others/y"]), deleted(&["others/y"]));
        assert_eq!(hear(None, Some(&waits)), 1);
        assert_eq!(hear(Some(&waits), Some(&cleaned)), 0);
        assert_eq!(hear(None, Some(&waits)), 1);
        assert_eq!(hear(Some(&waits), None), 0);
        assert!(engine.pending().0.is_empty());
    }
}
