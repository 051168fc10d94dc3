//! Builds controllers from watches.yaml.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use steersman::{Controller, Key, Kind, Operator, predicate};
use steersman_watches::LabelSelector;

use crate::error::{Error, Result};
use crate::metrics::Metrics;
use crate::progress::Observer;
use crate::proxy::{Proxy, Recent};
use crate::ready;
use crate::reconcile::Reconciler;
use crate::resources::Resources;
use crate::runner::{Runner, RunnerOptions};
use crate::runs::Runs;
use crate::settings;
use crate::watches::{Watch, WatchConfig, Watches};

/// Poll interval for a kind that the cluster does not serve yet.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Backoff of failed runs: first and maximum delay.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(300);

/// Which events of plays are logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogEvents {
    /// Tasks as they start, debug messages and failures.
    #[default]
    Tasks,
    /// The result of every task, too.
    Everything,
    /// None.
    Nothing,
}

/// Defaults for watches, from the program's flags.
#[derive(Clone, Debug)]
pub struct Defaults {
    /// Resync period of each object; zero for never. Ten hours by default.
    pub reconcile_period: Duration,
    /// Concurrent runs per kind. The number of processors by default.
    pub max_concurrent_reconciles: usize,
    /// Ansible's verbosity, 0 to 7. Two by default.
    pub verbosity: u8,
    /// Whether created objects get an owner reference. True by default.
    pub inject_owner_ref: bool,
    /// Runs every play with `--check --diff`, and writes nothing: no objects, finalizers, status or events. False by default.
    pub check: bool,
    /// The objects to run plays for; others are ignored. Empty by default, which means all.
    pub only: Vec<Key>,
    /// Receives the progress of runs. None by default.
    pub observer: Option<Observer>,
    /// Which events of plays are logged. [`LogEvents::Tasks`] by default.
    pub log_events: LogEvents,
    /// Whether the output of plays is logged. False by default.
    pub debug_logs: bool,
    /// Timeout for a watched kind to appear in the cluster. Zero by default.
    pub kind_timeout: Duration,
    /// How plays are run.
    pub runner: RunnerOptions,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            reconcile_period: Duration::from_secs(10 * 3600),
            max_concurrent_reconciles: std::thread::available_parallelism().map_or(1, usize::from),
            verbosity: 2,
            inject_owner_ref: true,
            check: false,
            only: Vec::new(),
            observer: None,
            log_events: LogEvents::default(),
            debug_logs: false,
            kind_timeout: Duration::ZERO,
            runner: RunnerOptions::default(),
        }
    }
}

/// Adds a controller for each watch to an operator.
///
/// # Errors
/// Fails if there is no Python with ansible-core, or the cluster does not have a watched kind.
pub fn add_watches<'a>(
    mut operator: Operator,
    watches: &'a Watches,
    defaults: &'a Defaults,
    client: &'a Client,
) -> BoxFuture<'a, Result<Operator>> {
    Box::pin(async move {
        let warnings = watches.warnings.clone();
        let runner = Runner::new(defaults.runner.clone(), watches.role_directories(), warnings).await?;
        let proxy = Arc::new(Proxy::start().await?);
        let resources = Resources::default();
        let metrics = Arc::new(Metrics::default());
        for watch in &watches.entries {
            let kind = find(&watch.config, defaults.kind_timeout, &resources, client).await?;
            let reconciler = Reconciler {
                watch: watch.clone(),
                kind,
                runner: runner.clone(),
                proxy: Arc::clone(&proxy),
                resources: resources.clone(),
                metrics: Arc::clone(&metrics),
                period: period(&watch.config, defaults),
                verbosity: verbosity(&watch.config, defaults, environment),
                inject_owner: defaults.inject_owner_ref,
                check: defaults.check,
                only: defaults.only.clone(),
                observer: defaults.observer.clone(),
                log_events: defaults.log_events,
                debug_logs: defaults.debug_logs,
                watched: Arc::default(),
                recent: Arc::new(Recent::default()),
                runs: Runs::default(),
            };
            let selector = selector(&watch.config)?;
            let selected = |controller: Controller<DynamicObject>| match &selector {
                Some(selector) => controller.labels(selector.clone()),
                None => controller,
            };
            if watch.config.manage_status && !defaults.check {
                let (kind, runs) = (reconciler.kind.clone(), reconciler.runs.clone());
                let name = watch.config.kind.to_lowercase();
                operator = operator.controller(selected(ready::controller(kind, &name, runs)));
            }
            let workers = concurrency(&watch.config, defaults, environment);
            operator = operator.controller(selected(controller(reconciler, watch, workers)));
        }
        Ok(operator.metrics_source(move || metrics.render(env!("CARGO_PKG_VERSION"))))
    })
}

/// Lists the objects that plays run for, each with its kind, in one namespace or in all.
///
/// # Errors
/// Fails if the cluster does not have a watched kind, or listing it is forbidden.
pub fn list_objects<'a>(
    watches: &'a Watches,
    namespace: Option<&'a str>,
    client: &'a Client,
) -> BoxFuture<'a, Result<BTreeSet<(String, Key)>>> {
    Box::pin(async move {
        let resources = Resources::default();
        let mut all = BTreeSet::new();
        for watch in &watches.entries {
            let config = &watch.config;
            let kind = find(config, Duration::ZERO, &resources, client).await?;
            let api: Api<DynamicObject> = match namespace {
                Some(namespace) if kind.namespaced() => {
                    Api::namespaced_with(client.clone(), namespace, kind.resource())
                }
                _ => Api::all_with(client.clone(), kind.resource()),
            };
            let params = ListParams { label_selector: selector(config)?, ..ListParams::default() };
            let found = api.list(&params).await?;
            let present = found.items.iter().filter(|one| one.metadata.deletion_timestamp.is_none());
            all.extend(present.map(|one| {
                let name = one.metadata.name.as_deref().unwrap_or_default();
                (config.kind.clone(), Key::new(one.metadata.namespace.as_deref(), name))
            }));
        }
        Ok(all)
    })
}

fn selector(config: &WatchConfig) -> Result<Option<String>> {
    let selector = config.selector.as_ref().map(LabelSelector::text).transpose();
    Ok(selector.map_err(Error::Watches)?.filter(|selector| !selector.is_empty()))
}

fn controller(reconciler: Reconciler, watch: &Watch, workers: usize) -> Controller<DynamicObject> {
    let config = &watch.config;
    let kind = reconciler.kind.clone();
    let is_check = reconciler.check;
    let reconciler = Arc::new(reconciler);
    let cleaner = Arc::clone(&reconciler);
    let annotations = config.watch_annotations_changes;
    let mut controller = Controller::of_kind(kind, move |object, context| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(object, context).await }
    })
    .named(format!("{}-controller", config.kind.to_lowercase()))
    .concurrency(workers)
    .backoff(FIRST_RETRY, LAST_RETRY)
    .when(move |old, new| {
        predicate::generation_changed(old, new)
            || settings::changed(old, new)
            || annotations && predicate::annotations_changed(old, new)
    });
    if let Some(finalizer) = config.finalizer.as_ref().filter(|_| !is_check) {
        // Leaked once per watch, for the lifetime of the program.
        let name: &'static str = finalizer.name.clone().leak();
        controller = controller.finalizer(name, move |object, context| {
            let cleaner = Arc::clone(&cleaner);
            async move { cleaner.finalize(object, context).await }
        });
    }
    controller
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn period(config: &WatchConfig, defaults: &Defaults) -> Duration {
    config.reconcile_period.filter(|period| !period.is_zero()).unwrap_or(defaults.reconcile_period)
}

/// Returns the concurrency. The kind's environment variable takes precedence over the flag; invalid values are ignored.
fn concurrency(
    config: &WatchConfig,
    defaults: &Defaults,
    variable: impl Fn(&str) -> Option<String>,
) -> usize {
    let suffix = config.environment_suffix();
    let named =
        ["MAX_CONCURRENT_RECONCILES", "WORKER"].iter().find_map(|name| variable(&format!("{name}_{suffix}")));
    let number = named.and_then(|text| text.trim().parse().ok()).filter(|number| *number > 0);
    number.unwrap_or(defaults.max_concurrent_reconciles)
}

fn verbosity(config: &WatchConfig, defaults: &Defaults, variable: impl Fn(&str) -> Option<String>) -> u8 {
    let named = variable(&format!("ANSIBLE_VERBOSITY_{}", config.environment_suffix()));
    named.as_deref().and_then(settings::verbosity).unwrap_or(defaults.verbosity)
}

async fn find(
    config: &WatchConfig,
    timeout: Duration,
    resources: &Resources,
    client: &Client,
) -> Result<Kind> {
    let api_version = config.api_version();
    let deadline = tokio::time::Instant::now() + timeout;
    let mut is_announced = false;
    loop {
        if let Some(found) = resources.by_kind(client, &api_version, &config.kind).await? {
            return Ok(found.kind);
        }
        if tokio::time::Instant::now() >= deadline {
            return Err(Error::Absent(format!("{api_version} {}", config.kind)));
        }
        if !std::mem::replace(&mut is_announced, true) {
            tracing::info!("waiting for the CustomResourceDefinition of {api_version} {}", config.kind);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_a_kind_win_over_flags() {
        let config = WatchConfig {
            group: "cache.example.com".into(),
            kind: "Memcached".into(),
            reconcile_period: Some(Duration::ZERO),
            ..WatchConfig::default()
        };
        let defaults = Defaults { max_concurrent_reconciles: 3, ..Defaults::default() };
        let one = |name: &'static str, value: &'static str| {
            move |asked: &str| (asked == name).then(|| value.to_owned())
        };
        let workers = |name, value| concurrency(&config, &defaults, one(name, value));
        assert_eq!(workers("MAX_CONCURRENT_RECONCILES_MEMCACHED_CACHE_EXAMPLE_COM", "7"), 7);
        assert_eq!(workers("WORKER_MEMCACHED_CACHE_EXAMPLE_COM", "5"), 5);
        assert_eq!(workers("WORKER_MEMCACHED_CACHE_EXAMPLE_COM", "-5"), 3);
        let level = |value| {
            verbosity(&config, &defaults, one("ANSIBLE_VERBOSITY_MEMCACHED_CACHE_EXAMPLE_COM", value))
        };
        assert_eq!((level("4"), level("8"), level("x")), (4, 2, 2));
        assert_eq!(period(&config, &defaults), Duration::from_secs(36000), "0s cannot switch it off here");
    }
}
