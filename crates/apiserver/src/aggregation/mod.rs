//! API aggregation: requests for the group version of an APIService are proxied to its server.
//!
//! **Invariant:** the server behind an APIService identifies the user by headers that are set only here; those sent
//! by a client are never forwarded.

mod authentication;
mod availability;
mod documents;
mod fetch;
mod learn;
mod priority;
mod proxy;
mod registration;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use serde_json::Value;
use steersman_api::{
    BoxFuture,
    http::{Body, Route},
    object,
    store::Store,
};
use tokio::sync::Notify;

pub(crate) use authentication::publish;
pub use authentication::{ClientAuthentication, RequestHeaderAuthentication};
pub(crate) use availability::keep_checking;
pub(crate) use documents::{Documents, OldDocument, RemoteVersion};
pub(crate) use learn::{learn, learn_all};
pub(crate) use priority::{group_priority, version_priority};
pub(crate) use proxy::proxy;
pub(crate) use registration::{populate, register_custom};

use crate::cluster_service::{Endpoints, ServiceTarget};

/// The storage name of APIServices.
pub(crate) const RESOURCE: &str = "apiservices.apiregistration.k8s.io";

/// The body of a proxied request.
pub type ProxyBody = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// The server behind an APIService.
#[derive(Debug, Clone, Copy)]
pub struct ApiServiceTarget<'a> {
    /// The API group it serves.
    pub group: &'a str,
    /// The service in front of it.
    pub service: ServiceTarget<'a>,
    /// CA certificates in PEM to verify the server's certificate; empty for none.
    pub ca_bundle: &'a [u8],
    /// Whether to skip TLS verification.
    pub insecure: bool,
}

/// Connects to the servers behind APIServices.
pub trait ApiServiceClient: Send + Sync + fmt::Debug {
    /// Whether the server's address is known regardless of its service's endpoints.
    fn knows(&self, target: ApiServiceTarget<'_>) -> bool;

    /// Sends a request, with the user in headers that the server trusts.
    /// A response that switches protocols carries in its extensions what the listener needs for the upgrade.
    ///
    /// # Errors
    /// If the server cannot be reached.
    fn send<'a>(
        &'a self,
        target: ApiServiceTarget<'a>,
        request: Request<ProxyBody>,
    ) -> BoxFuture<'a, Result<Response<Body>, String>>;
}

/// A group version served by an extension API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remote {
    /// Name of the APIService: `version.group`.
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) version: String,
    namespace: String,
    service: String,
    port: u16,
    ca_bundle: Vec<u8>,
    insecure: bool,
    group_priority: i64,
    version_priority: i64,
    /// Whether its `Available` condition is true.
    available: bool,
}

impl Remote {
    /// Parses an APIService; `None` if its group version is served locally.
    fn new(object: &Value) -> Option<Self> {
        let spec = &object["spec"];
        let service = spec.get("service").filter(|service| service.is_object())?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let conditions = object["status"]["conditions"].as_array();
        Some(Self {
            name: object::name(object).to_owned(),
            group: text(&spec["group"]),
            version: text(&spec["version"]),
            namespace: text(&service["namespace"]),
            service: text(&service["name"]),
            port: service["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(443),
            ca_bundle: STANDARD.decode(text(&spec["caBundle"])).unwrap_or_default(),
            insecure: spec["insecureSkipTLSVerify"] == true,
            group_priority: spec["groupPriorityMinimum"].as_i64().unwrap_or_default(),
            version_priority: spec["versionPriority"].as_i64().unwrap_or_default(),
            available: conditions
                .is_some_and(|list| list.iter().any(|c| c["type"] == "Available" && c["status"] == "True")),
        })
    }

    /// Returns the path of its resources.
    fn path(&self) -> String {
        format!("/apis/{}/{}", self.group, self.version)
    }

    fn target<'a>(&'a self, store: &'a Store, object: Option<&'a Value>) -> ApiServiceTarget<'a> {
        let (namespace, name) = (self.namespace.as_str(), self.service.as_str());
        let endpoints = Endpoints { store, namespace, service: name };
        ApiServiceTarget {
            group: &self.group,
            service: ServiceTarget { namespace, name, port: self.port, object, endpoints },
            ca_bundle: &self.ca_bundle,
            insecure: self.insecure,
        }
    }

    /// Whether the other value differs in anything but availability.
    fn is_other(&self, other: &Self) -> bool {
        Self { available: other.available, ..self.clone() } != *other
    }
}

/// Aggregated group versions by APIService name.
type Remotes = BTreeMap<String, Arc<Remote>>;

/// The state of API aggregation.
#[derive(Debug)]
pub(crate) struct Aggregator {
    client: Option<Arc<dyn ApiServiceClient>>,
    remotes: RwLock<Arc<Remotes>>,
    /// Discovery and OpenAPI documents by APIService name.
    documents: Mutex<BTreeMap<String, Arc<Documents>>>,
    /// APIServices to check immediately.
    dirty: Mutex<BTreeSet<String>>,
    /// Wakes up the availability checks.
    changed: Notify,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Aggregator {
    pub(crate) fn new(client: Option<Arc<dyn ApiServiceClient>>) -> Self {
        Self {
            client,
            remotes: RwLock::default(),
            documents: Mutex::default(),
            dirty: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Copies the state for another server with its own client; all servers are checked immediately.
    pub(crate) fn fork(&self, client: Option<Arc<dyn ApiServiceClient>>) -> Self {
        let remotes = self.remotes();
        Self {
            client,
            dirty: Mutex::new(remotes.keys().cloned().collect()),
            remotes: RwLock::new(remotes),
            documents: Mutex::new(lock(&self.documents).clone()),
            changed: Notify::new(),
        }
    }

    fn remotes(&self) -> Arc<Remotes> {
        Arc::clone(&self.remotes.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the extension server of a group version.
    pub(crate) fn find(&self, group: &str, version: &str) -> Option<Arc<Remote>> {
        let remotes = self.remotes();
        if remotes.is_empty() {
            return None;
        }
        remotes.get(&format!("{version}.{group}")).cloned()
    }

    /// Returns the extension server for a non-resource path.
    pub(crate) fn find_route(&self, route: &Route) -> Option<Arc<Remote>> {
        match route {
            Route::GroupVersion(group, version) if !group.is_empty() => self.find(group, version),
            Route::Other(path) => {
                let (group, version) = path.strip_prefix("/openapi/v3/apis/")?.split_once('/')?;
                self.find(group, version)
            }
            _ => None,
        }
    }

    /// Returns the aggregated group versions with their documents.
    pub(crate) fn versions(&self) -> Vec<RemoteVersion> {
        let documents = lock(&self.documents);
        let remotes = self.remotes();
        remotes.values().map(|remote| RemoteVersion::new(remote, documents.get(&remote.name))).collect()
    }

    /// Schedules an immediate check of an APIService.
    fn mark_dirty(&self, name: &str) {
        lock(&self.dirty).insert(name.to_owned());
        self.changed.notify_one();
    }
}
