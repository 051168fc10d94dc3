//! The state that all requests of a server share.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use steersman_api::{
    allocator::Allocators,
    environment::Environment,
    store::{EventKind, Store, UndoneEvent},
};
use tokio::sync::broadcast;

use crate::{
    admission::{Admission, policy::Policies, webhook::Webhooks},
    aggregation::{self, Aggregator},
    auth::{Authenticator, Authorizer, Recorder, User, rbac::Rbac, token::Tokens},
    catalog::Catalog,
    connector::Connector,
    expiry::{self, Expiry},
    flow_control::{self, FlowControl},
    settings::Settings,
};

/// Everything that requests share.
pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) environment: Arc<dyn Environment>,
    /// When the server was made.
    pub(crate) started: jiff::Timestamp,
    /// Replaces authentication by certificates and tokens.
    pub(crate) authenticator: Option<Arc<dyn Authenticator>>,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    /// Follows the stored roles, whichever authorizer is used.
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
    /// Held by writes that a quota counts.
    pub(crate) quotas: Mutex<()>,
    pub(crate) definitions: crate::crd::Definitions,
    pub(crate) expiry: Expiry,
    /// Names users whose open watches end.
    pub(crate) ended_watches: broadcast::Sender<Arc<str>>,
    pub(crate) served: RwLock<Arc<Catalog>>,
    pub(crate) settings: RwLock<Arc<Settings>>,
}

impl Core {
    /// The catalog at this moment.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.served.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Learns from what is stored at `key` now.
    pub(crate) fn learn(self: &Arc<Self>, resource: &crate::catalog::Resource, name: &str, key: &str) {
        crate::crd::after_write(self, resource, name);
        self.rbac.learn(&resource.storage, key);
        self.webhooks.learn(&self.store, &resource.storage);
        self.policies.learn(&self.store, &resource.storage);
        aggregation::learn(self, &resource.storage, key);
        flow_control::learn(self, &resource.storage, key);
        if *resource.storage == *aggregation::RESOURCE {
            // One that the server keeps comes back.
            aggregation::register_custom(self);
        }
        if *resource.storage == *expiry::EVENTS {
            self.lease(key);
        }
    }

    /// Forgets what was learned from changes that were undone, which come latest first.
    pub(crate) fn unlearn(&self, events: &[UndoneEvent]) {
        let catalog = self.catalog();
        let mut definitions = false;
        for (storage, event) in events {
            let resource = catalog.resources().find(|r| r.storage == *storage);
            if let Some(resource) = resource.filter(|_| event.kind != EventKind::Deleted) {
                resource.strategy.release(&self.allocators, &event.entry.value());
            }
            if let (Some(resource), Some(former)) = (resource, &event.previous) {
                resource.strategy.claim(&self.allocators, &former.value());
            }
            if **storage == *expiry::EVENTS {
                self.lease(event.entry.key());
            }
            definitions |= **storage == *crate::crd::RESOURCE;
            self.rbac.learn(storage, event.entry.key());
            self.webhooks.learn(&self.store, storage);
            self.policies.learn(&self.store, storage);
            aggregation::learn(self, storage, event.entry.key());
            self.flow_control.forget(storage);
        }
        if definitions {
            crate::crd::rebuild(self);
        }
    }

    /// Serves something else from now on.
    pub(crate) fn set_catalog(&self, catalog: Catalog) {
        *self.served.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(catalog);
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("revision", &self.store.revision()).finish_non_exhaustive()
    }
}
