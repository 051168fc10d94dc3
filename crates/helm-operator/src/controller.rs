//! A controller that keeps a release for each object of a kind.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::DynamicObject;
use steersman::{Context, Controller, Kind};
use steersman_chart::{Chart, Values};
use steersman_release::{Confinement, CrdPolicy, Kinds, Release, RenderLimits};

use crate::chart::ChartSource;
use crate::error::Result;
use crate::key::KeyStore;
use crate::reconcile::{Reconciler, effective_period};
use crate::retry::{FIRST_RETRY, FailedDeploys, LAST_RETRY};
use crate::watches::Ignore;

/// Finalizer that uninstalls a release before its object is deleted; operator-sdk's name.
pub const FINALIZER: &str = "helm.sdk.operatorframework.io/uninstall-release";

/// Minimum of concurrent reconciles, however few processors there are: hooks mostly wait.
pub(crate) const WORKERS: usize = 8;

/// How long a reconcile counts as one of these: what takes longer waits for a hook or for workloads.
const SLOW: Duration = Duration::from_secs(5);

/// What is about to happen to a release, or just did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Phase {
    Install,
    Upgrade,
    Uninstall,
}

/// Name and namespace of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespacedName {
    /// The release's name.
    pub name: String,
    /// The release's namespace.
    pub namespace: String,
}

/// Why an object gets no release: it is not retried until it, or something it depends on, changes, unless the refusal is
/// [transient](Refusal::transient).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The condition's reason: one word in camel case.
    pub reason: String,
    /// The condition's message: what is wrong, and where.
    pub message: String,
    /// Whether it may pass without a change of the object.
    pub is_transient: bool,
}

impl Refusal {
    /// A reason in one word, and a message for people.
    pub fn new(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into(), is_transient: false }
    }

    /// The same for what may pass by itself, a request that failed for instance: the object is tried again, with backoff.
    #[must_use]
    pub fn transient(self) -> Self {
        Self { is_transient: true, ..self }
    }
}

pub(crate) type Answer<T> = BoxFuture<'static, Result<T, Refusal>>;
pub(crate) type MapValues = Arc<dyn Fn(Arc<DynamicObject>, Values, Context) -> Answer<Values> + Send + Sync>;
pub(crate) type Before = Arc<dyn Fn(Phase, Arc<DynamicObject>, Context) -> Answer<()> + Send + Sync>;
pub(crate) type After =
    Arc<dyn Fn(Phase, Arc<DynamicObject>, Arc<Release>, Context) -> Answer<()> + Send + Sync>;
pub(crate) type Observe = Arc<dyn Fn(Arc<DynamicObject>, Context) -> Answer<Vec<Condition>> + Send + Sync>;
pub(crate) type NameRelease = Arc<dyn Fn(&DynamicObject) -> Result<NamespacedName, Refusal> + Send + Sync>;

/// A controller that keeps a release of one chart for each object of a kind, described.
///
/// ```no_run
/// # use steersman_chart::Chart;
/// # use steersman_helm_operator::{ReleaseController, Refusal};
/// # fn example(kind: steersman::Kind, chart: Chart) {
/// let controller = ReleaseController::new(kind, chart)
///     .map_values(|object, mut values, _context| async move {
///         let size = object.data["spec"]["size"].as_str().unwrap_or("small");
///         let replicas = match size {
///             "small" => 1,
///             "large" => 3,
///             other => return Err(Refusal::new("UnknownSize", format!("spec.size: {other:?} is no size"))),
///         };
///         values.set(&format!("replicaCount={replicas}")).map_err(|e| Refusal::new("Values", e.to_string()))?;
///         Ok(values)
///     })
///     .controller();
/// # let _ = controller;
/// # }
/// ```
#[must_use]
pub struct ReleaseController {
    pub(crate) reconciler: Reconciler,
    name: Option<String>,
    selector: Option<String>,
    concurrency: usize,
}

impl fmt::Debug for ReleaseController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReleaseController of {}", self.reconciler.kind)
    }
}

impl ReleaseController {
    /// A controller for a kind and a chart.
    pub fn new(kind: Kind, chart: Chart) -> Self {
        Self::with_source(kind, ChartSource::fixed(chart), OnceLock::new())
    }

    /// As [`ReleaseController::new`], with a chart on disk that is loaded again when it changes.
    ///
    /// # Errors
    /// Fails if the chart does not load.
    pub fn from_path(kind: Kind, chart: impl AsRef<Path>) -> Result<Self> {
        Ok(Self::with_source(kind, ChartSource::at(chart.as_ref())?, OnceLock::new()))
    }

    pub(crate) fn with_source(kind: Kind, chart: ChartSource, kinds: OnceLock<Kinds>) -> Self {
        let reconciler = Reconciler {
            kind,
            chart,
            kinds,
            keys: Arc::default(),
            confinement: None,
            overrides: BTreeMap::new(),
            suppress_overrides: false,
            watch_dependents: true,
            period: None,
            ignore: Vec::new(),
            crds: None,
            history_max: 10,
            render: RenderLimits::default(),
            map_values: None,
            before: None,
            after: None,
            name_release: None,
            observe: None,
            states: Mutex::new(HashMap::new()),
            failed_deploys: FailedDeploys::default(),
        };
        Self { reconciler, name: None, selector: None, concurrency: WORKERS }
    }

    /// Names the controller in logs and metrics. Default: the kind in lower case with `-controller`, as operator-sdk does.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Only objects with these labels. Default: all.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.selector = Some(selector.into());
        self
    }

    /// Concurrent reconciles. Default: 8. Those that have waited for five seconds, for a hook or for workloads, do not count, so
    /// that they hold up no other release.
    pub fn concurrency(mut self, workers: usize) -> Self {
        self.concurrency = workers;
        self
    }

    /// Values that win over those of objects, expanded already, by the keys that `--set-string` takes. Default: none.
    pub fn override_values(mut self, overrides: BTreeMap<String, String>) -> Self {
        self.reconciler.overrides = overrides;
        self
    }

    /// Hides override values in events. Default: they are shown.
    pub fn suppress_override_values(mut self, yes: bool) -> Self {
        self.reconciler.suppress_overrides = yes;
        self
    }

    /// Whether objects of releases are watched, and restored when they drift. Default: yes.
    pub fn watch_dependents(mut self, yes: bool) -> Self {
        self.reconciler.watch_dependents = yes;
        self
    }

    /// Resync period of each object; at most once a second, and never for zero. Default: only changes trigger reconciles.
    pub fn period(mut self, period: Duration) -> Self {
        self.reconciler.period = effective_period(period);
        self
    }

    /// Keeps objects, hooks and lookups of a release in its namespace. Default: they may be anywhere, as in operator-sdk.
    pub fn confined(mut self, confinement: Confinement) -> Self {
        self.reconciler.confinement = Some(confinement);
        self
    }

    /// Signs records with the key of other controllers of the same operator, which is read but once so.
    pub(crate) fn keys(mut self, keys: Arc<KeyStore>) -> Self {
        self.reconciler.keys = keys;
        self
    }

    /// Fields of released objects that may differ from the chart. Default: none.
    pub fn ignore(mut self, ignore: Vec<Ignore>) -> Self {
        self.reconciler.ignore = ignore;
        self
    }

    /// Policy for the chart's `crds/`. Default: those that are missing are created when a release is installed.
    pub fn crds(mut self, policy: CrdPolicy) -> Self {
        self.reconciler.crds = Some(policy);
        self
    }

    /// How many revisions are kept; 0 keeps all. Default: 10.
    pub fn history_max(mut self, max: usize) -> Self {
        self.reconciler.history_max = max;
        self
    }

    /// Limits what rendering the chart for one object may use. Default: a cost of 200 million, 256 MiB and one minute.
    pub fn render_limits(mut self, limits: RenderLimits) -> Self {
        self.reconciler.render = limits;
        self
    }

    /// Makes the values of an object's spec those of the chart. Default: they are the same.
    pub fn map_values<F, R>(mut self, map: F) -> Self
    where
        F: Fn(Arc<DynamicObject>, Values, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Values, Refusal>> + Send + 'static,
    {
        self.reconciler.map_values =
            Some(Arc::new(move |object, values, context| Box::pin(map(object, values, context))));
        self
    }

    /// Runs before something happens to a release; a refusal holds it back.
    pub fn before<F, R>(mut self, hook: F) -> Self
    where
        F: Fn(Phase, Arc<DynamicObject>, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), Refusal>> + Send + 'static,
    {
        self.reconciler.before =
            Some(Arc::new(move |phase, object, context| Box::pin(hook(phase, object, context))));
        self
    }

    /// Runs after something happened to a release.
    pub fn after<F, R>(mut self, hook: F) -> Self
    where
        F: Fn(Phase, Arc<DynamicObject>, Arc<Release>, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), Refusal>> + Send + 'static,
    {
        self.reconciler.after = Some(Arc::new(move |phase, object, release, context| {
            Box::pin(hook(phase, object, release, context))
        }));
        self
    }

    /// Adds conditions of the author's own to the status of objects whose release is as it should be; see
    /// [`Context::condition`].
    pub fn conditions<F, R>(mut self, observe: F) -> Self
    where
        F: Fn(Arc<DynamicObject>, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Vec<Condition>, Refusal>> + Send + 'static,
    {
        self.reconciler.observe = Some(Arc::new(move |object, context| Box::pin(observe(object, context))));
        self
    }

    /// Name and namespace of an object's release. When they change, the former release is uninstalled. Default: those of
    /// the object.
    pub fn release_name(
        mut self,
        name_release: impl Fn(&DynamicObject) -> Result<NamespacedName, Refusal> + Send + Sync + 'static,
    ) -> Self {
        self.reconciler.name_release = Some(Arc::new(name_release));
        self
    }

    /// The controller, to be given to an [`Operator`](steersman::Operator).
    pub fn controller(self) -> Controller<DynamicObject> {
        let Self { reconciler, name, selector, concurrency } = self;
        let kind = reconciler.kind.clone();
        let name = name.unwrap_or_else(|| format!("{}-controller", kind.name().to_lowercase()));
        let reconciler = Arc::new(reconciler);
        let cleaner = Arc::clone(&reconciler);
        let mut controller = Controller::of_kind(kind, move |object, context| {
            let reconciler = Arc::clone(&reconciler);
            async move { reconciler.reconcile(object, context).await }
        })
        .named(name)
        .concurrency(concurrency)
        .slow_after(SLOW)
        .backoff(FIRST_RETRY, LAST_RETRY)
        .finalizer(FINALIZER, move |object, context| {
            let cleaner = Arc::clone(&cleaner);
            async move { cleaner.clean_up(object, context).await }
        });
        if let Some(selector) = selector {
            controller = controller.labels(selector);
        }
        controller
    }
}
