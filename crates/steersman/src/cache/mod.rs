//! The caches of an operator: one per kind and selection, shared by its controllers.

mod pace;
mod snapshot;
pub(crate) mod store;
pub(crate) mod watch;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kube::Client;
use tokio::task::JoinHandle;

pub use self::snapshot::{Meta, Owner, Snapshot, Text};
pub(crate) use self::{
    snapshot::Incoming,
    store::{Author, Change, IndexFn, Notice, Store},
    watch::Selection,
};
use crate::{
    error::{Error, Result},
    kind::Kind,
};

/// The caches of an operator. Their watches end with it.
pub(crate) struct Caches {
    client: Client,
    manager: Arc<str>,
    /// The namespaces to watch. Empty: all.
    namespaces: Vec<String>,
    /// Whether the API server streams lists.
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

    /// The cache of a kind, which starts to fill if it is new.
    pub(crate) fn start(&self, kind: &Kind, selection: &Selection) -> Arc<Store> {
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let running = stores.entry((kind.clone(), selection.clone())).or_insert_with(|| {
            let namespaces: Vec<Option<String>> = if kind.namespaced() && !self.namespaces.is_empty() {
                self.namespaces.iter().cloned().map(Some).collect()
            } else {
                vec![None]
            };
            let store = Arc::new(Store::new(kind.clone(), Arc::clone(&self.manager), namespaces.len()));
            let watches = namespaces
                .into_iter()
                .map(|namespace| {
                    tokio::spawn(watch::run(
                        Arc::clone(&store),
                        self.client.clone(),
                        namespace,
                        selection.clone(),
                        self.streaming,
                    ))
                })
                .collect();
            Running { store, watches }
        });
        Arc::clone(&running.store)
    }

    /// The cache of a kind, if it has been started.
    pub(crate) fn find(&self, kind: &Kind, selection: &Selection) -> Option<Arc<Store>> {
        let stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.get(&(kind.clone(), selection.clone())).map(|running| Arc::clone(&running.store))
    }

    /// The caches that there are.
    pub(crate) fn all(&self) -> Vec<(Selection, Arc<Store>)> {
        let stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = stores
            .iter()
            .map(|((_, selection), running)| (selection.clone(), Arc::clone(&running.store)))
            .collect();
        all.sort_by_cached_key(|(selection, store)| (store.kind.to_string(), selection.labels.clone()));
        all
    }
}

/// Waits until a cache is filled.
pub(crate) async fn synced(store: &Store, limit: Duration) -> Result<()> {
    let mut progress = store.progress.subscribe();
    // The sender lives in the store, so the wait ends only by success or by time.
    let filled = tokio::time::timeout(limit, progress.wait_for(|progress| progress.synced)).await.is_ok();
    if filled {
        return Ok(());
    }
    let reason =
        progress.borrow().error.clone().unwrap_or_else(|| "the first list is still under way".into());
    Err(Error::CacheSync { kind: store.kind.to_string(), waited: limit, reason })
}
