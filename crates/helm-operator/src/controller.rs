//! Controller that maintains a Helm release for each object of a kind.

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

/// Minimum number of concurrent reconciles, whatever the number of processors: hooks mostly wait.
pub(crate) const WORKERS: usize = 8;

/// Time after which a reconcile no longer counts as one of these: it waits for a hook or for workloads.
const SLOW: Duration = Duration::from_secs(5);

/// The operation on a release that is about to start, or has just ended.
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

/// Why an object gets no release. It is not retried until it, or something it depends on, changes, unless the refusal is
/// [transient](Refusal::transient).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The condition's reason, one word in CamelCase.
    pub reason: String,
    /// The condition's message: what is wrong, and where.
    pub message: String,
    /// Whether a retry may succeed without a change of the object.
    pub is_transient: bool,
}

impl Refusal {
    /// Creates a refusal with a reason, in one word, and a message for people.
    pub fn new(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into(), is_transient: false }
    }

    /// Marks the refusal as transient, such as a failed request: the object is retried, with backoff.
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

/// Builder of a controller that maintains a release of one chart for each object of a kind.
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
    /// Creates a controller for a kind and a chart.
    pub fn new(kind: Kind, chart: Chart) -> Self {
        Self::with_source(kind, ChartSource::fixed(chart), OnceLock::new())
    }

    /// As [`ReleaseController::new`], with a chart on disk that is reloaded when it changes.
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

    /// Selects objects by label. Default: all.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.selector = Some(selector.into());
        self
    }

    /// Maximum number of concurrent reconciles. Default: 8. Those that have waited for five seconds, for a hook or for
    /// workloads, do not count, so that they do not hold up other releases.
    pub fn concurrency(mut self, workers: usize) -> Self {
        self.concurrency = workers;
        self
    }

    /// Sets values that override those of objects, by the keys of `--set-string`. They must be expanded already.
    /// Default: none.
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

    /// Sets the resync period of each object, at least one second; zero disables it. Default: only changes trigger
    /// reconciles.
    pub fn period(mut self, period: Duration) -> Self {
        self.reconciler.period = effective_period(period);
        self
    }

    /// Confines objects, hooks and lookups of a release to its namespace. Default: not confined, as in operator-sdk.
    pub fn confined(mut self, confinement: Confinement) -> Self {
        self.reconciler.confinement = Some(confinement);
        self
    }

    /// Shares the signing key with other controllers of the same operator, so that it is read only once.
    pub(crate) fn keys(mut self, keys: Arc<KeyStore>) -> Self {
        self.reconciler.keys = keys;
        self
    }

    /// Sets fields of released objects that may differ from the chart. Default: none.
    pub fn ignore(mut self, ignore: Vec<Ignore>) -> Self {
        self.reconciler.ignore = ignore;
        self
    }

    /// Sets the policy for the chart's `crds/`. Default: an install creates missing ones.
    pub fn crds(mut self, policy: CrdPolicy) -> Self {
        self.reconciler.crds = Some(policy);
        self
    }

    /// Maximum number of revisions to keep; 0 keeps all. Default: 10.
    pub fn history_max(mut self, max: usize) -> Self {
        self.reconciler.history_max = max;
        self
    }

    /// Limits rendering of the chart for one object. Default: a cost of 200 million, 256 MiB and one minute.
    pub fn render_limits(mut self, limits: RenderLimits) -> Self {
        self.reconciler.render = limits;
        self
    }

    /// Maps the values in an object's spec to those of the chart. Default: they are used unchanged.
    pub fn map_values<F, R>(mut self, map: F) -> Self
    where
        F: Fn(Arc<DynamicObject>, Values, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Values, Refusal>> + Send + 'static,
    {
        self.reconciler.map_values =
            Some(Arc::new(move |object, values, context| Box::pin(map(object, values, context))));
        self
    }

    /// Adds a hook before each operation on a release; a refusal prevents the operation.
    pub fn before<F, R>(mut self, hook: F) -> Self
    where
        F: Fn(Phase, Arc<DynamicObject>, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), Refusal>> + Send + 'static,
    {
        self.reconciler.before =
            Some(Arc::new(move |phase, object, context| Box::pin(hook(phase, object, context))));
        self
    }

    /// Adds a hook after each operation on a release.
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

    /// Adds user-defined conditions to the status of objects whose release is in its desired state. See
    /// [`Context::condition`].
    pub fn conditions<F, R>(mut self, observe: F) -> Self
    where
        F: Fn(Arc<DynamicObject>, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Vec<Condition>, Refusal>> + Send + 'static,
    {
        self.reconciler.observe = Some(Arc::new(move |object, context| Box::pin(observe(object, context))));
        self
    }

    /// Sets the name and namespace of an object's release. When they change, the former release is uninstalled. Default:
    /// those of the object.
    pub fn release_name(
        mut self,
        name_release: impl Fn(&DynamicObject) -> Result<NamespacedName, Refusal> + Send + Sync + 'static,
    ) -> Self {
        self.reconciler.name_release = Some(Arc::new(name_release));
        self
    }

    /// Builds the controller, to be added to an [`Operator`](steersman::Operator).
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
