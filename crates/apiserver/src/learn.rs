//! Updates state derived from stored objects.
//! These are definitions, roles, webhooks, policies, APIServices and flow schemas.

use std::sync::Arc;

use steersman_api::store::{EventKind, UndoneEvent};

use crate::{aggregation, catalog::Resource, core::Core, crd, expiry, flow_control};

impl Core {
    /// Updates derived state from the object stored at `key`.
    pub(crate) fn learn(self: &Arc<Self>, resource: &Resource, name: &str, key: &str) {
        crd::after_write(self, resource, name);
        self.rbac.learn(&resource.storage, key);
        self.webhooks.learn(&self.store, &resource.storage);
        self.policies.learn(&self.store, &resource.storage);
        aggregation::learn(self, &resource.storage, key);
        flow_control::learn(self, &resource.storage, key);
        if *resource.storage == *aggregation::RESOURCE {
            // Recreates APIServices that the server maintains.
            aggregation::register_custom(self);
        }
        if *resource.storage == *expiry::EVENTS {
            self.lease(key);
        }
    }

    /// Updates derived state after changes were undone; the latest change comes first.
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
            definitions |= **storage == *crd::RESOURCE;
            self.rbac.learn(storage, event.entry.key());
            self.webhooks.learn(&self.store, storage);
            self.policies.learn(&self.store, storage);
            aggregation::learn(self, storage, event.entry.key());
            self.flow_control.forget(storage);
        }
        if definitions {
            crd::rebuild(self);
        }
    }
}
