//! The caches of an operator: one per kind and selection, shared by its controllers.

mod selector;
mod snapshot;
pub(crate) mod store;
pub(crate) mod watch;
mod watch_backoff;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::FutureExt as _;
use kube::Client;
use tokio::task::JoinHandle;

pub use self::snapshot::{Meta, Owner, Snapshot, Text};
pub(crate) use self::{
    snapshot::Incoming,
    store::{Author, CacheEvent, Change, IndexFn, Store},
    watch::Selection,
};
use crate::{
    error::{Error, Result},
    kind::{Key, Kind},
};

/// Caches of an operator. Dropping them stops their watches.
pub(crate) struct Caches {
    client: Client,
    manager: Arc<str>,
    /// The namespaces to watch. Empty: all.
    namespaces: Vec<String>,
    /// Whether the API server supports streaming lists.
    streaming: bool,
    stores: Mutex<HashMap<(Kind, Selection), Running>>,
}

struct Running {
    store: Arc<Store>,
    watches: Vec<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        for watch in &self.watches {
            watch.abort();
        }
    }
}

impl Caches {
    pub(crate) fn new(client: Client, manager: Arc<str>, namespaces: Vec<String>, streaming: bool) -> Self {
        Self { client, manager, namespaces, streaming, stores: Mutex::default() }
    }

    /// Returns the cache of a kind; a new one starts to fill.
    pub(crate) fn start(&self, kind: &Kind, selection: &Selection) -> Arc<Store> {
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let running = stores.entry((kind.clone(), selection.clone())).or_insert_with(|| {
            let namespaces: Vec<Option<String>> = if kind.namespaced() && !self.namespaces.is_empty() {
                self.namespaces.iter().cloned().map(Some).collect()
            } else {
                vec![None]
            };
            let manager = Arc::clone(&self.manager);
            let store = Arc::new(Store::new(kind.clone(), selection.clone(), manager, namespaces.len()));
            let watches = namespaces
                .into_iter()
                .map(|namespace| {
                    let (store, client) = (Arc::clone(&store), self.client.clone());
                    tokio::spawn(
                        watch::run(store, client, namespace, selection.clone(), self.streaming).boxed(),
                    )
                })
                .collect();
            Running { store, watches }
        });
        Arc::clone(&running.store)
    }

    /// Returns the started caches of a kind that hold whole objects, whichever controller started them.
    pub(crate) fn of(&self, kind: &Kind) -> KindCaches {
        let stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let of_kind = stores.iter().filter(|((other, selection), _)| other == kind && !selection.metadata);
        let mut all: Vec<_> = of_kind.map(|(_, running)| Arc::clone(&running.store)).collect();
        // A cache without a selector comes first.
        all.sort_by_key(|store| !store.selection.is_everything());
        KindCaches { stores: all, namespaces: self.namespaces.clone() }
    }

    /// Whether objects of a kind in a namespace are watched.
    pub(crate) fn covers(&self, kind: &Kind, namespace: Option<&str>) -> bool {
        covers(&self.namespaces, kind, namespace)
    }

    /// Returns all started caches.
    pub(crate) fn all(&self) -> Vec<Arc<Store>> {
        let stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = stores.values().map(|running| Arc::clone(&running.store)).collect();
        all.sort_by_cached_key(|store| (store.kind.to_string(), store.selection.labels.clone()));
        all
    }
}

fn covers(namespaces: &[String], kind: &Kind, namespace: Option<&str>) -> bool {
    let known = |namespace: &str| namespaces.iter().any(|watched| watched == namespace);
    !kind.namespaced() || namespaces.is_empty() || namespace.is_none_or(known)
}

/// Caches of one kind's whole objects: consulted before a write and updated with its response.
pub(crate) struct KindCaches {
    stores: Vec<Arc<Store>>,
    namespaces: Vec<String>,
}

impl KindCaches {
    /// Returns an object, and the cache that holds it.
    pub(crate) fn get(&self, key: &Key) -> Option<(&Arc<Store>, Snapshot)> {
        self.stores.iter().find_map(|store| Some((store, store.get(key)?)))
    }

    /// Returns the objects under one value of an index.
    pub(crate) fn by_index(&self, name: &'static str, value: &str, make: &IndexFn) -> Vec<(Key, Snapshot)> {
        let all = self.stores.iter().flat_map(|store| store.by_index(name, value, make));
        all.collect::<BTreeMap<_, _>>().into_iter().collect()
    }

    /// Returns the cache that would hold an object if it existed.
    pub(crate) fn covering(&self, key: &Key) -> Option<&Arc<Store>> {
        let store = self.stores.first().filter(|store| store.selection.is_everything())?;
        covers(&self.namespaces, &store.kind, key.namespace()).then_some(store)
    }

    /// Stores the response to a write in the caches that cover the object.
    pub(crate) fn written(&self, incoming: Incoming, author: &Author, manager: &str) -> Snapshot {
        let key = incoming.key();
        let in_namespace =
            self.stores.first().is_some_and(|store| covers(&self.namespaces, &store.kind, key.namespace()));
        let mut holders: Vec<&Arc<Store>> = self.stores.iter().filter(|_| in_namespace).collect();
        holders.retain(|store| store.covers(&incoming));
        let Some((last, others)) = holders.split_last() else {
            return incoming.snapshot(manager, Arc::from);
        };
        for store in others {
            store.written(incoming.clone(), Some(author.clone()));
        }
        last.written(incoming, Some(author.clone()))
    }

    /// Records in all caches that a delete by the operator removed an object at once.
    pub(crate) fn deleted(&self, key: &Key, uid: &str, author: &Author) {
        for store in &self.stores {
            store.deleted(key, uid, author.clone());
        }
    }
}

/// Waits until a cache has synced.
pub(crate) async fn synced(store: &Store, limit: Duration) -> Result<()> {
    let mut progress = store.progress.subscribe();
    // The sender lives in the store, so the wait ends only with the sync or the timeout.
    let filled = tokio::time::timeout(limit, progress.wait_for(|progress| progress.synced)).await.is_ok();
    if filled {
        return Ok(());
    }
    let reason =
        progress.borrow().error.clone().unwrap_or_else(|| "the initial list is still in progress".into());
    Err(Error::CacheSync { kind: store.kind.to_string(), waited: limit, reason })
}
