//! Reads.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{
    api::GetParams,
    core::{Request, Selector, SelectorExt as _},
};

use super::Context;
use crate::{
    cache::{Incoming, IndexFn, Snapshot, Store},
    controller::guarded,
    error::{Error, Result},
    kind::{Key, Kind},
};

/// Objects of one kind, to be read.
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

    /// From the cache of their metadata alone.
    pub(super) fn metadata(mut self) -> Self {
        self.metadata = true;
        self
    }

    async fn store(&self) -> Result<Arc<Store>> {
        self.context.filled(&self.kind, self.metadata).await
    }

    /// In another namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// In all namespaces.
    pub fn all_namespaces(mut self) -> Self {
        self.namespace = None;
        self
    }

    /// Only those with these labels. See [`Objects::matching`] for a selector from an object.
    pub fn labels<'a>(mut self, labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let labels = labels.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        self.labels = Some(labels.collect());
        self
    }

    /// Only those that a selector matches.
    ///
    /// # Errors
    /// Fails if the selector can't be read.
    pub fn matching(mut self, selector: LabelSelector) -> Result<Self> {
        self.labels = Some(Selector::try_from(selector).map_err(|error| Error::Selector(error.to_string()))?);
        Ok(self)
    }

    /// Asks the API server instead of the cache. For [`Objects::get`] alone.
    pub fn live(mut self) -> Self {
        self.live = true;
        self
    }

    fn key(&self, name: &str) -> Key {
        let namespace = self.namespace.as_deref().filter(|_| self.kind.namespaced());
        Key::new(namespace, name)
    }

    /// The object of a name.
    ///
    /// # Errors
    /// Fails if the object does not fit the type, or the API server or the cache can't be asked.
    pub async fn get(self, name: &str) -> Result<Option<K>> {
        let snapshot = if self.live {
            self.fetch(name).await?
        } else {
            let key = self.key(name);
            self.context.engine.note_read(&self.kind, &key, &self.context.primary.key);
            self.store().await?.get(&key)
        };
        snapshot.map(|snapshot| (self.read)(&snapshot, &self.kind)).transpose()
    }

    async fn fetch(&self, name: &str) -> Result<Option<Snapshot>> {
        let request = Request::new(self.kind.url(self.namespace.as_deref()))
            .get(name, &GetParams::default())
            .map_err(kube::Error::BuildRequest)?;
        match self.context.primary.client.request::<Incoming>(request).await {
            Ok(found) => Ok(Some(found.snapshot(&self.context.shared.name, Arc::from))),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// All of them, by namespace and name.
    ///
    /// # Errors
    /// Fails if an object does not fit the type, or the cache can't be asked.
    pub async fn list(self) -> Result<Vec<K>> {
        let store = self.store().await?;
        let namespace = self.namespace.as_deref().filter(|_| self.kind.namespaced());
        let found = store.list(|key| namespace.is_none() || key.namespace() == namespace);
        self.finish(found)
    }

    /// Those whose controller is the object that is reconciled.
    ///
    /// # Errors
    /// As [`Objects::list`].
    pub async fn owned(self) -> Result<Vec<K>> {
        let uid = self.context.primary.uid.clone();
        let owners: IndexFn = Arc::new(|snapshot| {
            let Ok(meta) = snapshot.meta() else { return Vec::new() };
            meta.controller().map(|owner| owner.uid.to_string()).into_iter().collect()
        });
        let found = self.store().await?.by_index("\0controller", &uid, &owners);
        self.finish(found)
    }

    /// Those for which `index` gives a value. The cache remembers the index under its name from the first call on, so the
    /// function must be the same each time. An object for which it panics is under no value.
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
        let (read, kind) = (self.read, self.kind.clone());
        // It runs on the watch's way too.
        let values: IndexFn = Arc::new(move |snapshot| {
            guarded(&kind, || read(snapshot, &kind).map(|object| index(&object)).unwrap_or_default())
                .unwrap_or_default()
        });
        let mut found = self.store().await?.by_index(name, value, &values);
        if self.kind.namespaced()
            && let Some(namespace) = &self.namespace
        {
            found.retain(|(key, _)| key.namespace() == Some(namespace));
        }
        self.finish(found)
    }

    fn finish(&self, found: Vec<(Key, Snapshot)>) -> Result<Vec<K>> {
        let mut objects = Vec::with_capacity(found.len());
        for (_, snapshot) in found {
            if let Some(selector) = &self.labels {
                let meta = snapshot.meta()?;
                let labels = meta.labels.iter().map(|(name, value)| (name.to_string(), value.to_string()));
                if !selector.matches(&labels.collect()) {
                    continue;
                }
            }
            objects.push((self.read)(&snapshot, &self.kind)?);
        }
        Ok(objects)
    }
}
