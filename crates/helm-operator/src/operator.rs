//! Builds controllers from watches.yaml.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kube::Client;
use steersman::{Kind, Operator};
use steersman_release::{Confinement, CrdPolicy, Kinds, RenderLimits};

use crate::chart::ChartSource;
use crate::controller::{ReleaseController, WORKERS};
use crate::error::{Error, Result};
use crate::key::KeyStore;
use crate::overrides;
use crate::watches::{Crds, WatchConfig};

/// Defaults for watches, from the program's flags.
#[derive(Clone, Debug)]
pub struct Defaults {
    /// Resync period of each object, at least one second; zero disables it. One minute by default.
    pub reconcile_period: Duration,
    /// Maximum number of concurrent reconciles per kind. By default the number of processors, at least eight.
    pub max_concurrent_reconciles: usize,
    /// Confines objects, hooks and lookups of a release to its namespace. False by default, as in operator-sdk.
    pub confined: bool,
    /// Cluster-scoped kinds that confined releases may have. Example: `ClusterRole.rbac.authorization.k8s.io`. None
    /// by default.
    pub allowed_cluster_kinds: Vec<String>,
    /// Hides override values in events. False by default.
    pub suppress_override_values: bool,
    /// How long to wait for the cluster to serve a watched kind. Zero by default.
    pub kind_timeout: Duration,
    /// Limits of rendering a chart for one object. By default a cost of 200 million, 256 MiB and one minute.
    pub render: RenderLimits,
}

impl Default for Defaults {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            reconcile_period: Duration::from_secs(60),
            max_concurrent_reconciles: processors.max(WORKERS),
            confined: false,
            allowed_cluster_kinds: Vec::new(),
            suppress_override_values: false,
            kind_timeout: Duration::ZERO,
            render: RenderLimits::default(),
        }
    }
}

/// Poll interval for a kind that the cluster does not serve yet.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Adds a controller for each watch to an operator.
///
/// # Errors
/// Fails if a chart does not load or cannot be fetched, if an override value cannot be expanded, or if the cluster does not
/// serve a watched kind.
pub async fn add_watches(
    mut operator: Operator,
    watches: &[WatchConfig],
    defaults: &Defaults,
    client: &Client,
) -> Result<Operator> {
    let kinds = Kinds::new(client.clone());
    let keys = Arc::new(KeyStore::default());
    for watch in watches {
        let controller = controller(watch, defaults, &kinds).await?.keys(Arc::clone(&keys));
        operator = operator.controller(controller.controller());
    }
    Ok(operator)
}

async fn controller(watch: &WatchConfig, defaults: &Defaults, kinds: &Kinds) -> Result<ReleaseController> {
    let source = ChartSource::of(watch).await?;
    let overrides = overrides::expand(&watch.override_values, |name| std::env::var(name).ok())?;
    let kind = find(watch, defaults.kind_timeout, kinds).await?;
    let mut controller = ReleaseController::with_source(kind, source, OnceLock::from(kinds.clone()))
        .override_values(overrides)
        .suppress_override_values(defaults.suppress_override_values)
        .watch_dependents(watch.watch_dependent_resources)
        .period(watch.reconcile_period.unwrap_or(defaults.reconcile_period))
        .concurrency(watch.max_concurrent_reconciles.unwrap_or(defaults.max_concurrent_reconciles))
        .ignore(watch.ignore.clone())
        .history_max(watch.max_release_history.unwrap_or(10))
        .render_limits(defaults.render);
    if let Some(crds) = watch.crds {
        controller = controller.crds(match crds {
            Crds::Skip => CrdPolicy::Skip,
            Crds::Create => CrdPolicy::Create,
            Crds::CreateReplace => CrdPolicy::CreateReplace,
        });
    }
    if watch.confined.unwrap_or(defaults.confined) {
        let allowed = watch.allowed_cluster_kinds.as_ref().unwrap_or(&defaults.allowed_cluster_kinds);
        let confinement = allowed.iter().fold(Confinement::new(), |all, kind| all.allow(kind));
        controller = controller.confined(confinement);
    }
    if let Some(selector) = watch.selector()? {
        controller = controller.labels(selector);
    }
    Ok(controller)
}

async fn find(watch: &WatchConfig, kind_timeout: Duration, kinds: &Kinds) -> Result<Kind> {
    let api_version = watch.api_version();
    let deadline = tokio::time::Instant::now() + kind_timeout;
    loop {
        if let Some(found) = kinds.find_opt(&api_version, &watch.kind).await? {
            return Ok(Kind::dynamic(found.resource, found.namespaced));
        }
        if tokio::time::Instant::now() >= deadline {
            return Err(Error::Absent(format!("{api_version} {}", watch.kind)));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
