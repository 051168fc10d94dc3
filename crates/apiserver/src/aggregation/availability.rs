//! Availability checks of the servers behind APIServices, which maintain the `Available` condition.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use serde_json::Value;
use steersman_api::{environment::EnvironmentExt as _, object, status::quote};
use tokio::time::{Instant, sleep_until, timeout};

use super::{Documents, RESOURCE, Remote, fetch::fetch_all, lock, proxy::fetch};
use crate::{
    cluster_service::{self, has_ready},
    conditions,
    core::Core,
};

/// Interval between checks of an available server.
const RESYNC: Duration = Duration::from_secs(30);
/// Initial backoff after a failed check, doubled for each retry.
const FIRST_RETRY: Duration = Duration::from_millis(5);
/// Maximum backoff after failed checks.
const LAST_RETRY: Duration = Duration::from_secs(5);
/// Timeout of a check.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of attempts to update an APIService that changes concurrently.
const ATTEMPTS: usize = 8;

/// The result of a check.
struct Verdict {
    status: &'static str,
    reason: &'static str,
    message: String,
}

impl Verdict {
    fn unavailable(reason: &'static str, message: String) -> Self {
        Self { status: "False", reason, message }
    }

    fn is_available(&self) -> bool {
        self.status == "True"
    }
}

/// Checks servers forever: on changes of their APIServices or services, and periodically.
pub(crate) async fn keep_checking(core: &Arc<Core>) {
    let aggregator = &core.aggregator;
    let mut scheduled: BTreeMap<String, Instant> = BTreeMap::new();
    let mut failures: BTreeMap<String, u32> = BTreeMap::new();
    let (mut running, mut busy) = (FuturesUnordered::new(), BTreeSet::new());
    loop {
        for name in std::mem::take(&mut *lock(&aggregator.dirty)) {
            failures.remove(&name);
            scheduled.insert(name, Instant::now());
        }
        let now = Instant::now();
        let due: Vec<String> = scheduled
            .iter()
            .filter(|(name, at)| **at <= now && !busy.contains(*name))
            .map(|(name, _)| name.clone())
            .collect();
        for name in due {
            scheduled.remove(&name);
            busy.insert(name.clone());
            running.push(async {
                let outcome = check(core, &name).await;
                (name, outcome)
            });
        }
        let next = scheduled.iter().filter(|(name, _)| !busy.contains(*name)).map(|(_, at)| *at).min();
        tokio::select! {
            Some((name, outcome)) = running.next() => {
                busy.remove(&name);
                let wait = match outcome {
                    // The APIService was deleted.
                    None => continue,
                    Some(true) => {
                        failures.remove(&name);
                        RESYNC
                    }
                    Some(false) => {
                        let failed = failures.entry(name.clone()).or_default();
                        *failed += 1;
                        FIRST_RETRY.saturating_mul(1 << (*failed).min(16)).min(LAST_RETRY)
                    }
                };
                // If it changed meanwhile, it is already scheduled.
                scheduled.entry(name).or_insert_with(|| Instant::now() + wait);
            }
            () = aggregator.changed.notified() => {}
            () = async {
                match next {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            } => {}
        }
    }
}

/// Checks one server and returns whether it is available; `None` if the APIService does not exist.
async fn check(core: &Arc<Core>, name: &str) -> Option<bool> {
    let remote = core.aggregator.remotes().get(name).cloned()?;
    let verdict = judge(core, &remote).await;
    let documents = if verdict.is_available() { fetch_all(core, &remote).await } else { None };
    learn_documents(core, &remote, documents);
    record(core, name, &verdict);
    Some(verdict.is_available())
}

/// Determines whether a server is available.
async fn judge(core: &Core, remote: &Remote) -> Verdict {
    let (namespace, name) = (quote(&remote.namespace), remote.service.as_str());
    let Some(service) = cluster_service::stored(&core.store, &remote.namespace, name) else {
        let message = format!("service/{name} in {namespace} is not present");
        return Verdict::unavailable("ServiceNotFound", message);
    };
    let target = remote.target(&core.store, Some(&service));
    let is_known = core.aggregator.client.as_ref().is_some_and(|client| client.knows(target));
    if !is_known
        && service["spec"]["type"] == "ClusterIP"
        && let Some(verdict) = judge_endpoints(remote, &service, &target.service.endpoints.slices())
    {
        return verdict;
    }
    let host = match object::text(&service, &["spec", "clusterIP"]) {
        Some(address) if !matches!(address, "" | "None") => address.to_owned(),
        _ => format!("{name}.{}.svc", remote.namespace),
    };
    let url = format!("https://{host}:{}{}", remote.port, remote.path());
    let why = match timeout(TIMEOUT, fetch(core, remote, &remote.path(), "application/json")).await {
        Ok(Ok(answer)) if answer.status.is_success() => {
            let message = "all checks passed".to_owned();
            return Verdict { status: "True", reason: "Passed", message };
        }
        Ok(Ok(answer)) => format!("bad status from {url}: {}", answer.status.as_u16()),
        Ok(Err(why)) => format!("Get {}: {why}", quote(&url)),
        Err(_) => format!("Get {}: context deadline exceeded", quote(&url)),
    };
    let message = format!("failing or missing response from {url}: {why}");
    Verdict::unavailable("FailedDiscoveryCheck", message)
}

/// Returns why a server is not reachable through its service, if so.
fn judge_endpoints(remote: &Remote, service: &Value, slices: &[Value]) -> Option<Verdict> {
    let (namespace, name) = (quote(&remote.namespace), remote.service.as_str());
    let mut ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let Some(port) = ports.find(|port| port["port"] == remote.port) else {
        let message = format!("service/{name} in {namespace} is not listening on port {}", remote.port);
        return Some(Verdict::unavailable("ServicePortError", message));
    };
    if slices.is_empty() {
        let message = format!("cannot find endpointslices for service/{name} in {namespace}");
        return Some(Verdict::unavailable("EndpointsNotFound", message));
    }
    let port = port["name"].as_str().unwrap_or_default();
    let leads = |slice: &Value| {
        let mut ports = slice["ports"].as_array().into_iter().flatten();
        has_ready(slice)
            && ports.any(|p| p["name"].as_str().unwrap_or_default() == port && p["port"].is_u64())
    };
    if slices.iter().any(leads) {
        return None;
    }
    let port = quote(port);
    let message =
        format!("endpointslices for service/{name} in {namespace} have no addresses with port name {port}");
    Some(Verdict::unavailable("MissingEndpoints", message))
}

/// Stores the discovery and OpenAPI documents of a server. Without new ones, the old are marked stale.
fn learn_documents(core: &Core, remote: &Remote, new: Option<Documents>) {
    let changed = {
        let mut all = lock(&core.aggregator.documents);
        let old = all.get(&remote.name);
        let next = match new {
            Some(new) => new,
            None => old.map(|old| old.stale()).unwrap_or_default(),
        };
        let changed = old.is_none_or(|old| **old != next);
        all.insert(remote.name.clone(), Arc::new(next));
        changed
    };
    if changed {
        crate::crd::rebuild(core);
    }
}

/// Updates the condition if it changed.
fn record(core: &Arc<Core>, name: &str, verdict: &Verdict) {
    let catalog = core.catalog();
    let Some(resource) = catalog.find("apiregistration.k8s.io", "v1", "apiservices") else { return };
    for _ in 0..ATTEMPTS {
        let Some(entry) = core.store.get(RESOURCE, name) else { return };
        let old = entry.value();
        if old["spec"]["service"].is_null() {
            return;
        }
        let mut next = old.clone();
        let now = core.environment.now_string();
        let status = object::child(&mut next, "status");
        conditions::set(status, "Available", verdict.status, verdict.reason, &verdict.message, &now);
        if next == old {
            return;
        }
        if conditions::store(core, resource, &entry, &old, next).is_some() {
            super::learn(core, RESOURCE, name);
            return;
        }
    }
}
