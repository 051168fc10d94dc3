//! Reads from the caches and from the API server.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt as _};

use super::Context;
use crate::{
    cache::{IndexFn, Snapshot, Store},
    controller::{IndexQuery, Query},
    error::{Error, Result},
    kind::{Key, Kind},
};

/// Query for objects of one kind.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use steersman::Context;
///
/// async fn pods(ctx: &Context) -> steersman::Result<Vec<Pod>> {
///     ctx.objects::<Pod>().labels([("app", ctx.name())]).list().await
/// }
/// ```
#[must_use]
pub struct Objects<K> {
    context: Context,
    kind: Kind,
    read: fn(&Snapshot, &Kind) -> Result<K>,
    namespace: Option<String>,
    labels: Option<Selector>,
    live: bool,
    metadata: bool,
}

impl<K> Objects<K> {
    pub(super) fn new(context: Context, kind: Kind, read: fn(&Snapshot, &Kind) -> Result<K>) -> Self {
        let namespace = context.primary.key.namespace().map(str::to_owned);
        Self { context, kind, read, namespace, labels: None, live: false, metadata: false }
    }

    /// Reads from the metadata-only cache.
    pub(super) fn metadata(mut self) -> Self {
        self.metadata = true;
        self
    }

    async fn stores(&self) -> Result<Vec<Arc<Store>>> {
        self.context.filled(&self.kind, self.metadata).await
    }

    /// Collects the matches in all caches.
    async fn collect(&self, find: impl Fn(&Store) -> Vec<(Key, Snapshot)>) -> Result<Vec<(Key, Snapshot)>> {
        let stores = self.stores().await?;
        if let [store] = stores.as_slice() {
            return Ok(find(store));
        }
        let all: BTreeMap<Key, Snapshot> = stores.iter().flat_map(|store| find(store)).collect();
        Ok(all.into_iter().collect())
    }

    /// Records that all matching objects are read. Called before the read: a change in between must not be lost.
    fn note(&self, namespace: Option<&str>, index: Option<IndexQuery>) {
        let query = || Query { namespace: namespace.map(str::to_owned), labels: self.labels.clone(), index };
        self.context.engine.note_query(&self.kind, query, &self.context.primary.key);
    }

    /// The namespace to read in. `None`: all watched ones, or the kind is cluster-scoped.
    fn place(&self) -> Result<Option<&str>> {
        let namespace = self.namespace.as_deref().filter(|_| self.kind.namespaced());
        match namespace {
            Some(namespace) if !self.context.shared.caches.covers(&self.kind, Some(namespace)) => {
                Err(Error::NotWatched { kind: self.kind.to_string(), namespace: namespace.to_owned() })
            }
            namespace => Ok(namespace),
        }
    }

    /// Reads in another namespace. Default: that of the object being reconciled.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Reads in all namespaces.
    pub fn all_namespaces(mut self) -> Self {
        self.namespace = None;
        self
    }

    /// Selects objects with these labels. See [`Objects::matching`] for a `LabelSelector`.
    pub fn labels<'a>(mut self, labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let labels = labels.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        self.labels = Some(labels.collect());
        self
    }

    /// Selects objects that match a label selector.
    ///
    /// # Errors
    /// Fails if the selector is invalid.
    pub fn matching(mut self, selector: LabelSelector) -> Result<Self> {
        self.labels = Some(Selector::try_from(selector).map_err(|error| Error::Selector(error.to_string()))?);
        Ok(self)
    }

    /// Reads from the API server instead of the cache. For [`Objects::get`] only.
    pub fn live(mut self) -> Self {
        self.live = true;
        self
    }

    fn key(&self, name: &str) -> Key {
        let namespace = self.namespace.as_deref().filter(|_| self.kind.namespaced());
        Key::new(namespace, name)
    }

    /// Returns the object of a name. It is read from the API server if the operator does not watch its namespace.
    ///
    /// # Errors
    /// Fails if the object does not match the type, or if the API server or the cache can't be read.
    pub async fn get(self, name: &str) -> Result<Option<K>> {
        let key = self.key(name);
        let snapshot = if self.live || !self.context.shared.caches.covers(&self.kind, key.namespace()) {
            self.context.fetch(&self.kind, &key).await?
        } else {
            self.context.engine.note_read(&self.kind, &key, &self.context.primary.key);
            self.stores().await?.iter().find_map(|store| store.get(&key))
        };
        snapshot.map(|snapshot| (self.read)(&snapshot, &self.kind)).transpose()
    }

    /// Returns all selected objects, ordered by namespace and name.
    ///
    /// # Errors
    /// Fails if an object does not match the type, if the cache can't be read, or if the operator does not watch the
    /// namespace.
    pub async fn list(self) -> Result<Vec<K>> {
        let namespace = self.place()?;
        self.note(namespace, None);
        let wanted = |key: &Key| namespace.is_none() || key.namespace() == namespace;
        let found = self.collect(|store| store.list(wanted)).await?;
        self.finish(found)
    }

    /// Returns the selected objects whose controller is the object being reconciled.
    ///
    /// # Errors
    /// As [`Objects::list`].
    pub async fn owned(self) -> Result<Vec<K>> {
        let index = IndexQuery::by_controller(&self.context.primary.uid);
        self.note(None, Some(index.clone()));
        let found = self.collect(|store| store.by_index(index.name, &index.value, &index.values)).await?;
        self.finish(found)
    }

    /// Returns the selected objects for which `index` returns `value` among its values. The cache keeps the index under
    /// its name from the first call on, so the function must be the same each time. An object for which it panics has no
    /// values.
    ///
    /// # Errors
    /// As [`Objects::list`].
    pub async fn by_index(
        self,
        name: &'static str,
        value: &str,
        index: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) -> Result<Vec<K>>
    where
        K: 'static,
    {
        let (read, kind, guard) = (self.read, self.kind.clone(), self.context.engine.guard.clone());
        // It also runs when the watch delivers an object.
        let values: IndexFn = Arc::new(move |snapshot| {
            let values = || read(snapshot, &kind).map(|object| index(&object)).unwrap_or_default();
            guard.run(name, values).unwrap_or_default()
        });
        let namespace = self.place()?;
        let index = IndexQuery { name, value: value.to_owned(), values };
        self.note(namespace, Some(index.clone()));
        let mut found = self.collect(|store| store.by_index(name, value, &index.values)).await?;
        found.retain(|(key, _)| namespace.is_none() || key.namespace() == namespace);
        self.finish(found)
    }

    fn finish(&self, found: Vec<(Key, Snapshot)>) -> Result<Vec<K>> {
        let mut objects = Vec::with_capacity(found.len());
        for (_, snapshot) in found {
            if let Some(selector) = &self.labels
                && !selector.matches(&snapshot.meta()?.labels())
            {
                continue;
            }
            objects.push((self.read)(&snapshot, &self.kind)?);
        }
        Ok(objects)
    }
}
