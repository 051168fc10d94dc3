//! Webhooks, indexed from the stored configurations.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use steersman_api::store::Store;

use super::{client::Caller, hook::Hook};

const MUTATING: &str = "mutatingwebhookconfigurations.admissionregistration.k8s.io";
const VALIDATING: &str = "validatingwebhookconfigurations.admissionregistration.k8s.io";
/// The webhooks of a server, in call order.
#[derive(Debug)]
pub(crate) struct Webhooks {
    pub(super) mutating: RwLock<Arc<[Hook]>>,
    pub(super) validating: RwLock<Arc<[Hook]>>,
    /// Held while configurations are read and compiled, so that requests need not wait.
    learning: Mutex<()>,
    pub(crate) caller: Caller,
}

pub(super) fn current(hooks: &RwLock<Arc<[Hook]>>) -> Arc<[Hook]> {
    Arc::clone(&hooks.read().unwrap_or_else(PoisonError::into_inner))
}

impl Webhooks {
    pub(crate) fn new(caller: Caller) -> Self {
        let none = || RwLock::new(Arc::from([]));
        Self { mutating: none(), validating: none(), learning: Mutex::new(()), caller }
    }

    /// Copies the webhooks for another server with its own caller.
    pub(crate) fn fork(&self, caller: Caller) -> Self {
        Self {
            mutating: RwLock::new(current(&self.mutating)),
            validating: RwLock::new(current(&self.validating)),
            learning: Mutex::new(()),
            caller,
        }
    }

    /// Updates the index from the store, if `storage` holds webhook configurations.
    pub(crate) fn learn(&self, store: &Store, storage: &str) {
        let hooks = match storage {
            MUTATING => &self.mutating,
            VALIDATING => &self.validating,
            _ => return,
        };
        // Read under the lock, so that the last of concurrent writers sees the latest state.
        let _learning = self.learning.lock().unwrap_or_else(PoisonError::into_inner);
        // Configurations are sorted by name; their webhooks keep the listed order.
        let learnt = store
            .snapshot(storage, "", None)
            .entries
            .iter()
            .flat_map(|entry| {
                let configuration = entry.value();
                let list = configuration["webhooks"].as_array().cloned().unwrap_or_default();
                list.iter().map(Hook::new).collect::<Vec<_>>()
            })
            .collect();
        *hooks.write().unwrap_or_else(PoisonError::into_inner) = learnt;
    }

    /// Rebuilds the whole index from the store.
    pub(crate) fn learn_all(&self, store: &Store) {
        self.learn(store, MUTATING);
        self.learn(store, VALIDATING);
    }
}
