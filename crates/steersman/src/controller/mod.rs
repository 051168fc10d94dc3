//! Controllers: one kind, and the function that reconciles its objects.

mod engine;
mod reads;
mod watch;
mod work;

use std::{
    marker::PhantomData,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::{Stream, StreamExt as _, future::BoxFuture, stream::BoxStream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResourceExt, core::DynamicObject};

pub use self::watch::Watch;
pub(crate) use self::{
    engine::Engine,
    reads::{IndexQuery, Query},
    watch::{PanicGuard, Relation},
};
use crate::{
    action::Action,
    cache::Snapshot,
    context::Context,
    error::{BoxError, Error, Result},
    kind::{Key, Kind, Object},
    queue::{Backoff, RateLimit},
};

/// A user's reconcile or cleanup function, on an object of any type.
pub(crate) type ReconcileFn =
    Arc<dyn Fn(Snapshot, Context) -> BoxFuture<'static, Result<Action>> + Send + Sync>;

/// A reconcile function: any `async fn(Arc<K>, Context) -> Result<Action, E>`.
pub trait Reconcile<K>: Send + Sync + 'static {
    /// Brings one object to its desired state.
    fn reconcile(&self, object: Arc<K>, context: Context) -> BoxFuture<'static, Result<Action>>;
}

impl<K, F, R, E> Reconcile<K> for F
where
    F: Fn(Arc<K>, Context) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Action, E>> + Send + 'static,
    E: Into<BoxError>,
{
    fn reconcile(&self, object: Arc<K>, context: Context) -> BoxFuture<'static, Result<Action>> {
        let work = self(object, context);
        Box::pin(async move { work.await.map_err(|error| Error::from_boxed(error.into())) })
    }
}

/// Options of a controller.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) concurrency: usize,
    pub(crate) slow_after: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) backoff: Backoff,
    pub(crate) rate_limit: Option<RateLimit>,
    pub(crate) sync_timeout: Duration,
    pub(crate) period: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            concurrency: 16,
            slow_after: None,
            timeout: None,
            backoff: Backoff::default(),
            rate_limit: None,
            sync_timeout: Duration::from_secs(120),
            period: None,
        }
    }
}

/// A finalizer and its cleanup.
#[derive(Clone)]
pub(crate) struct Finalizer {
    pub(crate) name: &'static str,
    pub(crate) cleanup: ReconcileFn,
    /// Whether the runtime adds it to objects that lack it.
    pub(crate) is_set: bool,
}

impl Finalizer {
    /// Whether an object waits for the cleanup.
    fn is_due(&self, state: &Snapshot) -> bool {
        state.meta().is_ok_and(|meta| meta.deleting() && meta.has_finalizer(self.name))
    }
}

/// Builder of a controller, added with [`crate::Operator::controller`].
///
/// ```no_run
/// # use std::sync::Arc;
/// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
/// use steersman::{Action, Context, Controller};
///
/// async fn reconcile(map: Arc<ConfigMap>, ctx: Context) -> steersman::Result<Action> {
///     Ok(Action::await_change())
/// }
/// let controller = Controller::of_existing::<ConfigMap>(reconcile).owns::<Deployment>().concurrency(4);
/// ```
#[must_use]
pub struct Controller<K> {
    pub(crate) spec: ControllerSpec,
    read: fn(&Snapshot, &Kind) -> Result<K>,
    marker: PhantomData<fn() -> K>,
}

/// A controller with its object type erased.
pub(crate) struct ControllerSpec {
    pub(crate) name: Option<String>,
    pub(crate) primary: Watch,
    pub(crate) crd: Option<fn() -> CustomResourceDefinition>,
    pub(crate) reconcile: ReconcileFn,
    pub(crate) watches: Vec<Watch>,
    pub(crate) finalizers: Vec<Finalizer>,
    /// Finalizers on objects that the controller's own objects control.
    pub(crate) secondary: Vec<(Kind, Finalizer)>,
    /// Behind a lock, since streams need not be `Sync`, and this is.
    pub(crate) streams: Mutex<Vec<BoxStream<'static, Key>>>,
    pub(crate) options: Options,
}

impl Controller<()> {
    /// Creates a controller for a kind that the operator defines; its CRD is part of the manifests.
    pub fn of<K: Object + CustomResourceExt>(reconcile: impl Reconcile<K>) -> Controller<K> {
        let mut controller = Self::of_existing(reconcile);
        controller.spec.crd = Some(K::crd);
        controller
    }

    /// Creates a controller for a kind that is defined elsewhere, such as a built-in one.
    pub fn of_existing<K: Object>(reconcile: impl Reconcile<K>) -> Controller<K> {
        Controller::new(Kind::of::<K>(), |snapshot, _| snapshot.parse(), reconcile)
    }

    /// Creates a controller for a kind that is known at run time.
    pub fn of_kind(kind: Kind, reconcile: impl Reconcile<DynamicObject>) -> Controller<DynamicObject> {
        Controller::new(kind, Snapshot::dynamic, reconcile)
    }
}

impl<K: Send + Sync + 'static> Controller<K> {
    fn new(kind: Kind, read: fn(&Snapshot, &Kind) -> Result<K>, reconcile: impl Reconcile<K>) -> Self {
        let step = step(kind.clone(), read, reconcile);
        let spec = ControllerSpec {
            name: None,
            primary: Watch::primary(kind),
            crd: None,
            reconcile: step,
            watches: Vec::new(),
            finalizers: Vec::new(),
            secondary: Vec::new(),
            streams: Mutex::default(),
            options: Options::default(),
        };
        Self { spec, read, marker: PhantomData }
    }

    /// Names the controller in logs and metrics. Default: its kind in lower case.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.spec.name = Some(name.into());
        self
    }

    /// Watches objects that this controller's objects own: a change triggers the owner.
    pub fn owns<O: Object>(self) -> Self {
        self.watch(Watch::owned::<O>())
    }

    /// Watches objects that reconcilers read: a change triggers those whose last reconcile read the object. See
    /// [`Watch::read`].
    pub fn watches<O: Object>(self) -> Self {
        self.watch(Watch::read::<O>())
    }

    /// Watches objects of a kind, with a function that maps a change to the objects to reconcile.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// use kube::ResourceExt as _;
    /// use steersman::{Action, Context, Controller, Key};
    ///
    /// async fn reconcile(_: Arc<ConfigMap>, _: Context) -> steersman::Result<Action> {
    ///     Ok(Action::await_change())
    /// }
    /// let controller = Controller::of_existing::<ConfigMap>(reconcile).watches_mapped(|secret: &Secret| {
    ///     let target = secret.annotations().get("example.com/target");
    ///     target.map(|name| Key::new(secret.namespace().as_deref(), name)).into_iter().collect()
    /// });
    /// ```
    pub fn watches_mapped<O: Object>(self, map: impl Fn(&O) -> Vec<Key> + Send + Sync + 'static) -> Self {
        self.watch(Watch::mapped("mapped", map))
    }

    /// Adds a watch, with all the options of [`Watch`].
    pub fn watch(mut self, watch: Watch) -> Self {
        self.spec.watches.push(watch);
        self
    }

    /// Reconciles the objects whose keys a stream yields, for example from a source outside the cluster.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use futures::StreamExt as _;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use steersman::{Action, Context, Controller, Key};
    ///
    /// async fn reconcile(_: Arc<ConfigMap>, _: Context) -> steersman::Result<Action> {
    ///     Ok(Action::await_change())
    /// }
    /// let names = futures::stream::iter(["one", "two"]).map(|name| Key::namespaced("default", name));
    /// let controller = Controller::of_existing::<ConfigMap>(reconcile).on(names);
    /// ```
    pub fn on(mut self, stream: impl Stream<Item = Key> + Send + 'static) -> Self {
        self.spec.streams.get_mut().unwrap_or_else(PoisonError::into_inner).push(stream.boxed());
        self
    }

    /// Selects objects by label, in the syntax of `kubectl --selector`. Default: all.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.spec.primary = self.spec.primary.labels(selector);
        self
    }

    /// Filters changes of its own objects by a predicate; see [`Watch::when`]. Default: all changes that the reconciler
    /// did not make itself.
    pub fn when(mut self, predicate: impl Fn(&Snapshot, &Snapshot) -> bool + Send + Sync + 'static) -> Self {
        self.spec.primary = self.spec.primary.when(predicate);
        self
    }

    /// Adds a finalizer. It is on the object before the reconciler sees it, and the object is deleted once the cleanup
    /// has succeeded. A cleanup that returns [`Action::requeue`] is not finished yet. Several finalizers are cleaned
    /// up one after the other, in the order in which they were added.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use steersman::{Action, Context, Controller};
    ///
    /// async fn reconcile(_: Arc<ConfigMap>, _: Context) -> steersman::Result<Action> {
    ///     Ok(Action::await_change())
    /// }
    /// async fn clean_up(map: Arc<ConfigMap>, _: Context) -> steersman::Result<Action> {
    ///     // Delete what the cluster does not know of. `Action::requeue` is "not finished yet".
    ///     Ok(Action::await_change())
    /// }
    /// let controller = Controller::of_existing::<ConfigMap>(reconcile).finalizer("example.com/cleanup", clean_up);
    /// ```
    pub fn finalizer(mut self, name: &'static str, cleanup: impl Reconcile<K>) -> Self {
        let cleanup = step(self.spec.primary.kind.clone(), self.read, cleanup);
        self.spec.finalizers.push(Finalizer { name, cleanup, is_set: true });
        self
    }

    /// As [`Controller::finalizer`], but never adds it: a webhook puts it on the objects that need it.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use steersman::{Action, Context, Controller};
    ///
    /// async fn reconcile(_: Arc<ConfigMap>, _: Context) -> steersman::Result<Action> {
    ///     Ok(Action::await_change())
    /// }
    /// let controller = Controller::of_existing::<ConfigMap>(reconcile).honour_finalizer("example.com/cleanup", reconcile);
    /// ```
    pub fn honour_finalizer(mut self, name: &'static str, cleanup: impl Reconcile<K>) -> Self {
        let cleanup = step(self.spec.primary.kind.clone(), self.read, cleanup);
        self.spec.finalizers.push(Finalizer { name, cleanup, is_set: false });
        self
    }

    /// Handles a finalizer on objects that this controller's objects own. The reconciler sets it in the object that it
    /// applies. The cleanup gets that object, in the context of its owner, which may be gone.
    pub fn finalizer_on<O: Object>(mut self, name: &'static str, cleanup: impl Reconcile<O>) -> Self {
        let kind = Kind::of::<O>();
        let cleanup = step(kind.clone(), |snapshot, _| snapshot.parse(), cleanup);
        self.spec.secondary.push((kind, Finalizer { name, cleanup, is_set: false }));
        self
    }

    /// Maximum number of concurrent reconciles. Default: 16. One object is never reconciled twice at a time.
    pub fn concurrency(mut self, workers: usize) -> Self {
        self.spec.options.concurrency = workers.max(1);
        self
    }

    /// Time after which a reconcile no longer counts towards [`Controller::concurrency`]. A slow one, which waits for
    /// something external, then holds up no other object. At most 100 reconciles are exempt at a time. Default: all
    /// count.
    pub fn slow_after(mut self, limit: Duration) -> Self {
        self.spec.options.slow_after = Some(limit);
        self
    }

    /// Timeout of a reconcile. Default: none.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.spec.options.timeout = Some(limit);
        self
    }

    /// Exponential backoff after failures: the first delay, which doubles each time, and its limit. Default: 5 ms and
    /// 1000 s.
    pub fn backoff(mut self, first: Duration, limit: Duration) -> Self {
        self.spec.options.backoff = Backoff { base: first, limit };
        self
    }

    /// Token-bucket rate limit, in reconciles per second. Default: none.
    pub fn rate_limit(mut self, per_second: f64, burst: f64) -> Self {
        self.spec.options.rate_limit = Some(RateLimit { per_second, burst });
        self
    }

    /// Resync period of each object. Default: none; only changes trigger reconciles.
    pub fn period(mut self, period: Duration) -> Self {
        self.spec.options.period = Some(period);
        self
    }

    /// Timeout of the initial list of each watch. Default: 2 minutes.
    pub fn sync_timeout(mut self, limit: Duration) -> Self {
        self.spec.options.sync_timeout = limit;
        self
    }
}

fn step<K: Send + Sync + 'static>(
    kind: Kind,
    read: fn(&Snapshot, &Kind) -> Result<K>,
    reconcile: impl Reconcile<K>,
) -> ReconcileFn {
    let reconcile = Arc::new(reconcile);
    Arc::new(move |snapshot, context| {
        let (reconcile, kind) = (Arc::clone(&reconcile), kind.clone());
        // All user code runs inside the future, where panics are caught.
        Box::pin(async move {
            // An object that does not match the type will not do so on a retry.
            let object = read(&snapshot, &kind).map_err(Error::terminal)?;
            reconcile.reconcile(Arc::new(object), context).await
        })
    })
}
