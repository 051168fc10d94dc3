//! The context of a reconcile: reads, writes, events and the clock.

mod difference;
pub(crate) mod events;
mod read;
mod set;
mod write;

use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, OwnerReference};
use kube::{Client, core::PartialObjectMeta};

pub use self::events::EVENTS;
pub(crate) use self::events::RECONCILE_FAILED;
use self::events::{Message, Recorder, Subject};
pub use self::set::ANNOTATIONS;
pub use self::{
    read::Objects,
    set::{Desired, SetProgress},
};
use crate::{
    cache::{Author, Caches, KindCaches, Snapshot, Store},
    conditions,
    controller::{Engine, Watch},
    environment::Environment,
    error::{Error, Result},
    kind::{Key, Kind, Object},
    metrics::Metrics,
    shard::Shards,
};

/// State that the controllers of an operator share.
pub(crate) struct Shared {
    /// The operator's name, which is also its field manager.
    pub(crate) name: Arc<str>,
    /// Its writes pass only while the operator may write. [`Primary::client`] is for writes on behalf of an object.
    pub(crate) client: Client,
    pub(crate) caches: Caches,
    pub(crate) events: Recorder,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) metrics: Metrics,
    /// Set if replicas share the objects.
    pub(crate) shards: Option<Arc<Shards>>,
}

/// The object being reconciled.
pub(crate) struct Primary {
    pub(crate) kind: Kind,
    pub(crate) key: Key,
    pub(crate) uid: String,
    pub(crate) generation: i64,
    /// Its writes pass only while this replica may write on behalf of the object.
    pub(crate) client: Client,
}

/// Context of a reconcile: cached reads, writes, events and the clock, on behalf of one object. Cheap to clone.
///
/// Reads see the reconciler's own writes. Those do not trigger the reconciler again, since it has seen the response;
/// changes by all other writers do.
#[derive(Clone)]
pub struct Context {
    pub(crate) shared: Arc<Shared>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) primary: Arc<Primary>,
}

impl Context {
    /// The object's namespace and name.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.primary.key
    }

    /// The object's namespace; empty if it is cluster-scoped.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.primary.key.namespace().unwrap_or_default()
    }

    /// The object's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.primary.key.name()
    }

    /// Returns a client for requests that this type does not offer. Its reads are live, and its writes stop with the
    /// leadership. The caches do not know those writes until a watch delivers them: see [`Context::observe`].
    #[must_use]
    pub fn client(&self) -> Client {
        self.primary.client.clone()
    }

    /// The current time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.shared.environment.now()
    }

    /// Returns a random number.
    #[must_use]
    pub fn random(&self) -> u64 {
        self.shared.environment.random()
    }

    /// Number of consecutive failures of this object before this attempt.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.engine.queue.failures(&self.primary.key)
    }

    /// Records a `Normal` event about the object. Repetitions are counted in one event.
    ///
    /// ```
    /// use steersman::Context;
    ///
    /// fn scaled(ctx: &Context, replicas: i32) {
    ///     ctx.event("Scaled", format!("scaled to {replicas} replicas"));
    /// }
    /// ```
    pub fn event(&self, reason: &str, note: impl Into<String>) {
        self.record(false, reason, note.into());
    }

    /// Records a `Warning` event about the object. Repetitions are counted in one event.
    pub fn warn(&self, reason: &str, note: impl Into<String>) {
        self.record(true, reason, note.into());
    }

    fn record(&self, warning: bool, reason: &str, note: String) {
        self.shared.events.record(Message {
            object: self.primary.subject(),
            warning,
            reason: reason.to_owned(),
            action: "Reconcile".to_owned(),
            note,
        });
    }

    /// Returns a condition for the object's current generation. [Set](crate::Conditions::set) it in its status.
    #[must_use]
    pub fn condition(
        &self,
        type_: &str,
        status: bool,
        reason: &str,
        message: impl Into<String>,
    ) -> Condition {
        let generation = (self.primary.generation > 0).then_some(self.primary.generation);
        conditions::condition(type_, status, reason, message, generation, self.now())
    }

    /// Returns an owner reference to the object as the controller of another one.
    #[must_use]
    pub fn owner_reference(&self) -> OwnerReference {
        let resource = self.primary.kind.resource();
        OwnerReference {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
            name: self.primary.key.name().to_owned(),
            uid: self.primary.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    /// Reads objects of a kind from the cache, by default in the object's own namespace. The cache holds what the
    /// controller's watches of the kind select; a kind without a watch is cached as a whole from the first read on. Changes
    /// of what was read trigger a reconcile if the kind is watched with [`Watch::read`].
    pub fn objects<K: Object>(&self) -> Objects<K> {
        Objects::new(self.clone(), Kind::of::<K>(), |snapshot, _| snapshot.parse())
    }

    /// As [`Context::objects`], for a kind that is known at run time.
    pub fn objects_of(&self, kind: &Kind) -> Objects<kube::core::DynamicObject> {
        Objects::new(self.clone(), kind.clone(), Snapshot::dynamic)
    }

    /// As [`Context::objects`], for metadata only, from a cache of their own: see [`Watch::metadata_only`]. Only its watch
    /// updates that cache, so a read right after an own write may not see it.
    pub fn metadata<K: Object>(&self) -> Objects<PartialObjectMeta<K>> {
        Objects::new(self.clone(), Kind::of::<K>(), |snapshot, _| snapshot.parse()).metadata()
    }

    /// Returns an object in the object's namespace, or a cluster-scoped one, from the cache.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Secret;
    /// use steersman::Context;
    ///
    /// async fn password(ctx: &Context) -> steersman::Result<Option<Vec<u8>>> {
    ///     let secret = ctx.get::<Secret>("credentials").await?;
    ///     Ok(secret.and_then(|secret| secret.data?.remove("password")).map(|bytes| bytes.0))
    /// }
    /// ```
    ///
    /// # Errors
    /// Fails if the object does not match the type, or if the cache of an undeclared kind does not sync.
    pub async fn get<K: Object>(&self, name: &str) -> Result<Option<K>> {
        self.objects::<K>().get(name).await
    }

    /// Returns the objects of a kind that have this object as their controller, from the cache.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use steersman::Context;
    ///
    /// async fn running(ctx: &Context) -> steersman::Result<usize> {
    ///     Ok(ctx.owned::<Pod>().await?.len())
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Context::get`].
    pub async fn owned<K: Object>(&self) -> Result<Vec<K>> {
        self.objects::<K>().owned().await
    }

    /// Adds a watch at run time. Does nothing if the controller has an equal one.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Secret;
    /// use steersman::{Context, Watch};
    ///
    /// async fn watch_secrets(ctx: &Context) -> steersman::Result<()> {
    ///     ctx.watch(Watch::read::<Secret>().labels("for=operators")).await
    /// }
    /// ```
    ///
    /// # Errors
    /// Fails if the initial list does not arrive in time, unless the watch is [optional](Watch::optional).
    pub async fn watch(&self, watch: Watch) -> Result<()> {
        self.engine.watch(watch, &self.shared).await
    }

    /// Requeues the object at once.
    pub fn requeue(&self) {
        self.engine.queue.add(&self.primary.key, crate::queue::NORMAL);
    }

    fn author(&self) -> Author {
        Author { controller: Arc::clone(&self.engine.name), object: self.primary.key.clone() }
    }

    /// Returns the caches that hold whole objects of a kind.
    fn caches(&self, kind: &Kind) -> KindCaches {
        self.shared.caches.of(kind)
    }

    /// Returns an object from the caches, own writes included. Unlike [`Context::objects_of`] this neither starts a cache
    /// nor waits for one, and later changes of the object do not trigger a reconcile.
    #[must_use]
    pub fn cached(&self, kind: &Kind, key: &Key) -> Option<Snapshot> {
        self.caches(kind).get(key).map(|(_, snapshot)| snapshot)
    }

    /// Returns the synced caches that serve the reads of a kind.
    fn filled<'a>(&'a self, kind: &'a Kind, metadata: bool) -> BoxFuture<'a, Result<Vec<Arc<Store>>>> {
        Box::pin(async move {
            let mut stores = Vec::new();
            for selection in self.engine.selections(kind, metadata) {
                let store = self.shared.caches.start(kind, &selection);
                let progress = store.progress.borrow().clone();
                if progress.absent {
                    let error = progress.error.unwrap_or_else(|| format!("{kind} does not exist"));
                    return Err(Error::Absent { kind: kind.to_string(), reason: error });
                }
                if !progress.synced {
                    crate::cache::synced(&store, self.engine.options.sync_timeout).await?;
                }
                stores.push(store);
            }
            Ok(stores)
        })
    }
}

impl Primary {
    pub(crate) fn subject(&self) -> Subject {
        let resource = self.kind.resource();
        Subject {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
            namespace: self.key.namespace().map(str::to_owned),
            name: self.key.name().to_owned(),
            uid: self.uid.clone(),
        }
    }
}
