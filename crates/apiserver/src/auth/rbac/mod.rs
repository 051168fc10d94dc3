//! Role-based access control from the stored roles and bindings.

mod escalation;
mod index;
mod rule;

use std::sync::{PoisonError, RwLock};

use serde_json::Value;

pub(crate) use escalation::check as check_escalation;
pub(crate) use index::Unresolved;
pub(crate) use rule::{Rule, quote_list};

use super::{Attributes, Authorizer, Decision, User};
use index::{Index, RoleRef};
use steersman_api::{
    status::aggregate,
    store::{Entry, Store},
};

/// The group of roles and bindings.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";
const ROLES: &str = "roles.rbac.authorization.k8s.io";
const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
const ROLE_BINDINGS: &str = "rolebindings.rbac.authorization.k8s.io";
const CLUSTER_ROLE_BINDINGS: &str = "clusterrolebindings.rbac.authorization.k8s.io";

/// Members of this group may do everything, regardless of roles.
pub(crate) const MASTERS: &str = "system:masters";

/// The RBAC authorizer, backed by an index of the stored roles and bindings.
#[derive(Debug)]
pub(crate) struct Rbac {
    store: Store,
    /// Built on first use: many servers are used only by their administrator.
    index: RwLock<Option<Index>>,
}

impl Rbac {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, index: RwLock::new(None) }
    }

    /// Copies the authorizer for a copy of the store.
    pub(crate) fn fork(&self, store: Store) -> Self {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner).clone();
        Self { store, index: RwLock::new(index) }
    }

    fn with<R>(&self, look: impl FnOnce(&Index) -> R) -> R {
        if let Some(index) = &*self.index.read().unwrap_or_else(PoisonError::into_inner) {
            return look(index);
        }
        // Read under the index's lock: concurrent writers wait and then apply their changes.
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        look(index.get_or_insert_with(|| {
            let mut index = Index::default();
            for storage in [ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS] {
                for entry in self.store.snapshot(storage, "", None).entries {
                    take(&mut index, storage, entry.key(), Some(&entry));
                }
            }
            index
        }))
    }

    /// Updates the index from the object stored at `key`, if it is a role or binding.
    pub(crate) fn learn(&self, storage: &str, key: &str) {
        if !storage.ends_with(GROUP) {
            return;
        }
        // Read under the index's lock, so that the last of concurrent writers sees the latest state.
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = &mut *index {
            take(index, storage, key, self.store.get(storage, key).as_deref());
        }
    }

    /// Returns all rules of a user in a namespace, and the roles that could not be resolved.
    pub(crate) fn rules_of(&self, user: &User, namespace: &str) -> (Vec<Rule>, Vec<Unresolved>) {
        self.with(|index| index.rules_of(user, namespace))
    }

    /// Returns the rules of the role that a binding references.
    fn rules(&self, role: &RoleRef, namespace: &str) -> Result<Vec<Rule>, Unresolved> {
        self.with(|index| index.rules(role, namespace).map(|rules| rules.to_vec()))
    }
}

fn take(index: &mut Index, storage: &str, key: &str, entry: Option<&Entry>) {
    let bindings = matches!(storage, ROLE_BINDINGS | CLUSTER_ROLE_BINDINGS);
    // Stored objects were validated, so they parse; one that does not would grant nothing.
    match (entry, bindings) {
        (Some(entry), true) => match serde_json::from_slice(entry.outline()) {
            Ok(binding) => index.put_binding(key, binding),
            Err(_) => index.remove_binding(key),
        },
        (Some(entry), false) => match serde_json::from_slice(entry.outline()) {
            Ok(role) => index.put_role(key, role),
            Err(_) => index.remove_role(key),
        },
        (None, true) => index.remove_binding(key),
        (None, false) => index.remove_role(key),
    }
}

impl Authorizer for Rbac {
    fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Decision {
        if user.is_in(MASTERS) {
            return Decision::Allow;
        }
        self.with(|index| {
            if index.allowing(user, attributes).is_some() {
                return Decision::Allow;
            }
            let (_, errors) = index.rules_of(user, attributes.namespace);
            let reason =
                if errors.is_empty() { String::new() } else { format!("RBAC: {}", aggregate(&errors)) };
            Decision::Deny(reason)
        })
    }

    fn reason(&self, user: &User, attributes: &Attributes<'_>) -> String {
        if user.is_in(MASTERS) {
            return String::new();
        }
        self.with(|index| index.reason(user, attributes)).unwrap_or_default()
    }
}

/// Returns the `roleRef` of a binding.
fn role_of(binding: &Value) -> RoleRef {
    let text = |key: &str| binding["roleRef"][key].as_str().unwrap_or_default().to_owned();
    RoleRef { kind: text("kind"), name: text("name") }
}
