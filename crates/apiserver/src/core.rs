//! The state shared by all requests of a server.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use steersman_api::{allocator::Allocators, environment::Environment, store::Store};
use tokio::sync::broadcast;

use crate::{
    admission::{Admission, policy::Policies, webhook::Webhooks},
    aggregation::Aggregator,
    auth::{Authenticator, Authorizer, Recorder, User, rbac::Rbac, token::Tokens},
    catalog::Catalog,
    connector::Connector,
    crd::Definitions,
    expiry::Expiry,
    flow_control::FlowControl,
    settings::Settings,
};

/// The shared state of a server.
pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) environment: Arc<dyn Environment>,
    /// When the server started.
    pub(crate) started: jiff::Timestamp,
    /// Replaces authentication by certificates and tokens.
    pub(crate) authenticator: Option<Arc<dyn Authenticator>>,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    /// Tracks the stored roles, whichever authorizer is used.
    pub(crate) rbac: Arc<Rbac>,
    pub(crate) tokens: Tokens,
    /// The user of requests without credentials.
    pub(crate) anonymous: User,
    pub(crate) recorder: Option<Arc<dyn Recorder>>,
    pub(crate) admission: Vec<Arc<dyn Admission>>,
    pub(crate) webhooks: Webhooks,
    pub(crate) aggregator: Aggregator,
    pub(crate) flow_control: FlowControl,
    pub(crate) policies: Policies,
    pub(crate) connector: Option<Arc<dyn Connector>>,
    pub(crate) allocators: Allocators,
    /// Held during writes that count towards a quota.
    pub(crate) quotas: Mutex<()>,
    pub(crate) definitions: Definitions,
    pub(crate) expiry: Expiry,
    /// Announces users whose open watches are closed.
    pub(crate) ended_watches: broadcast::Sender<Arc<str>>,
    pub(crate) served: RwLock<Arc<Catalog>>,
    pub(crate) settings: RwLock<Arc<Settings>>,
}

impl Core {
    /// Returns the current catalog.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.served.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the current settings.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the settings.
    pub(crate) fn configure(&self, settings: Settings) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    /// Whether an admission plugin is enabled.
    pub(crate) fn has_plugin(&self, name: &str) -> bool {
        !self.settings().disabled_plugins.contains(name)
    }

    /// Schedules the expiry of the event at `key`, unless it is written again.
    pub(crate) fn lease(&self, key: &str) {
        self.expiry.lease(&self.store, self.environment.now(), self.settings().event_ttl, key);
    }

    /// Replaces the catalog.
    pub(crate) fn set_catalog(&self, catalog: Catalog) {
        *self.served.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(catalog);
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("revision", &self.store.revision()).finish_non_exhaustive()
    }
}
