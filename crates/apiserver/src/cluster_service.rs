//! Resolves services in front of webhooks and extension API servers.

use serde_json::Value;
use steersman_api::{object, store::Store};

/// The storage name of services.
pub(crate) const SERVICES: &str = "services";
/// The storage name of endpoint slices.
pub(crate) const ENDPOINT_SLICES: &str = "endpointslices.discovery.k8s.io";

/// A service in front of a webhook or an extension API server.
#[derive(Debug, Clone, Copy)]
pub struct ServiceTarget<'a> {
    /// The service's namespace.
    pub namespace: &'a str,
    /// The service's name.
    pub name: &'a str,
    /// The service's port.
    pub port: u16,
    /// The stored service, if it exists.
    pub object: Option<&'a Value>,
    /// The endpoints of the service.
    pub endpoints: Endpoints<'a>,
}

/// The endpoints of a service, looked up on demand.
#[derive(Debug, Clone, Copy)]
pub struct Endpoints<'a> {
    pub(crate) store: &'a Store,
    pub(crate) namespace: &'a str,
    pub(crate) service: &'a str,
}

impl Endpoints<'_> {
    /// Whether at least one endpoint is ready.
    #[must_use]
    pub fn any_ready(&self) -> bool {
        self.slices().iter().any(has_ready)
    }

    /// Returns the endpoint slices of the service.
    pub(crate) fn slices(&self) -> Vec<Value> {
        let prefix = format!("{}/", self.namespace);
        let entries = self.store.snapshot(ENDPOINT_SLICES, &prefix, None).entries;
        let of_service =
            |slice: &Value| slice["metadata"]["labels"]["kubernetes.io/service-name"] == self.service;
        entries.iter().map(|entry| entry.value()).filter(of_service).collect()
    }
}

/// Whether an endpoint of a slice is ready. Readiness defaults to true.
pub(crate) fn has_ready(slice: &Value) -> bool {
    let mut endpoints = slice["endpoints"].as_array().into_iter().flatten();
    endpoints.any(|endpoint| endpoint["conditions"]["ready"] != false)
}

/// Returns a stored service by name.
pub(crate) fn stored(store: &Store, namespace: &str, name: &str) -> Option<Value> {
    Some(store.get(SERVICES, &object::key(namespace, name))?.value())
}
