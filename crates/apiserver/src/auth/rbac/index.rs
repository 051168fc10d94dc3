//! Index of role bindings by user and group.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use serde::Deserialize;

use steersman_api::status::quote;

use super::rule::{Rule, or_default};
use crate::auth::{Attributes, User, account_user};

/// The relevant fields of a stored role.
#[derive(Debug, Deserialize)]
pub(super) struct RoleObject {
    #[serde(default, deserialize_with = "or_default")]
    pub(super) rules: Vec<Rule>,
}

/// The relevant fields of a stored binding.
#[derive(Debug, Deserialize)]
pub(super) struct BindingObject {
    #[serde(rename = "roleRef")]
    pub(super) role: RoleRef,
    #[serde(default, deserialize_with = "or_default")]
    subjects: Vec<Subject>,
}

/// The `roleRef` of a binding.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RoleRef {
    pub(crate) kind: String,
    pub(crate) name: String,
}

#[derive(Debug, Clone, Deserialize)]
struct Subject {
    kind: String,
    name: String,
    #[serde(default)]
    namespace: String,
}

impl Subject {
    /// Returns the index key: whether the subject is a group, and its name.
    fn key(&self, namespace: &str) -> Option<(bool, Arc<str>)> {
        match self.kind.as_str() {
            "User" => Some((false, self.name.as_str().into())),
            "Group" => Some((true, self.name.as_str().into())),
            "ServiceAccount" => {
                let own = if self.namespace.is_empty() { namespace } else { &self.namespace };
                (!own.is_empty()).then(|| (false, account_user(own, &self.name).into()))
            }
            _ => None,
        }
    }

    fn applies(&self, user: &User, namespace: &str) -> bool {
        match self.key(namespace) {
            Some((true, group)) => user.groups.iter().any(|g| **g == *group),
            Some((false, name)) => *user.name == *name,
            None => false,
        }
    }

    fn describe(&self, namespace: &str) -> String {
        if self.kind == "ServiceAccount" {
            let own = if self.namespace.is_empty() { namespace } else { &self.namespace };
            return format!("{} {}", self.kind, quote(&format!("{}/{own}", self.name)));
        }
        format!("{} {}", self.kind, quote(&self.name))
    }
}

/// An indexed binding.
#[derive(Debug)]
pub(super) struct Binding {
    name: Arc<str>,
    /// Empty for cluster role bindings.
    namespace: Arc<str>,
    role: RoleRef,
    subjects: Vec<Subject>,
}

impl Binding {
    /// Formats the binding as authorization reasons name it.
    fn describe(&self, user: &User) -> String {
        let (kind, name) = if self.namespace.is_empty() {
            ("ClusterRoleBinding", self.name.to_string())
        } else {
            ("RoleBinding", format!("{}/{}", self.name, self.namespace))
        };
        let subject = self.subjects.iter().find(|s| s.applies(user, &self.namespace));
        let subject = subject.map(|s| s.describe(&self.namespace)).unwrap_or_default();
        format!("{kind} {} of {} {} to {subject}", quote(&name), self.role.kind, quote(&self.role.name))
    }
}

/// The bindings of one namespace, or the cluster role bindings.
#[derive(Debug, Clone, Default)]
struct Bindings {
    all: BTreeMap<Arc<str>, Arc<Binding>>,
    users: HashMap<Arc<str>, Vec<Arc<Binding>>>,
    groups: HashMap<Arc<str>, Vec<Arc<Binding>>>,
}

impl Bindings {
    fn side(&mut self, group: bool) -> &mut HashMap<Arc<str>, Vec<Arc<Binding>>> {
        if group { &mut self.groups } else { &mut self.users }
    }

    fn put(&mut self, binding: Binding) {
        self.remove(&Arc::clone(&binding.name));
        let binding = Arc::new(binding);
        let keys: BTreeSet<_> = binding.subjects.iter().filter_map(|s| s.key(&binding.namespace)).collect();
        for (group, key) in keys {
            self.side(group).entry(key).or_default().push(Arc::clone(&binding));
        }
        self.all.insert(Arc::clone(&binding.name), binding);
    }

    fn remove(&mut self, name: &str) {
        let Some(binding) = self.all.remove(name) else { return };
        for (group, key) in binding.subjects.iter().filter_map(|s| s.key(&binding.namespace)) {
            let side = self.side(group);
            if let Some(list) = side.get_mut(&key) {
                list.retain(|other| !Arc::ptr_eq(other, &binding));
                if list.is_empty() {
                    side.remove(&key);
                }
            }
        }
    }

    /// Returns the bindings of a user, repeated if several subjects match.
    fn of<'a>(&'a self, user: &User) -> impl Iterator<Item = &'a Arc<Binding>> {
        let by_group = user.groups.iter().filter_map(|group| self.groups.get(group.as_str()));
        self.users.get(user.name.as_str()).into_iter().chain(by_group).flatten()
    }

    /// Returns the bindings of a user by name, without duplicates.
    fn sorted(&self, user: &User) -> BTreeMap<&str, &Arc<Binding>> {
        self.of(user).map(|binding| (&*binding.name, binding)).collect()
    }
}

/// All roles and bindings.
#[derive(Debug, Clone, Default)]
pub(super) struct Index {
    cluster_roles: HashMap<Arc<str>, Arc<[Rule]>>,
    /// By `namespace/name`.
    roles: HashMap<Arc<str>, Arc<[Rule]>>,
    everywhere: Bindings,
    namespaces: HashMap<Arc<str>, Bindings>,
}

impl Index {
    /// Indexes a role; a key without a namespace is a cluster role's.
    pub(super) fn put_role(&mut self, key: &str, role: RoleObject) {
        let roles = if key.contains('/') { &mut self.roles } else { &mut self.cluster_roles };
        roles.insert(key.into(), role.rules.into());
    }

    pub(super) fn remove_role(&mut self, key: &str) {
        let roles = if key.contains('/') { &mut self.roles } else { &mut self.cluster_roles };
        roles.remove(key);
    }

    /// Indexes a binding; a key without a namespace is a cluster role binding's.
    pub(super) fn put_binding(&mut self, key: &str, binding: BindingObject) {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let BindingObject { role, subjects } = binding;
        let binding = Binding { name: name.into(), namespace: namespace.into(), role, subjects };
        if namespace.is_empty() {
            self.everywhere.put(binding);
        } else {
            self.namespaces.entry(namespace.into()).or_default().put(binding);
        }
    }

    pub(super) fn remove_binding(&mut self, key: &str) {
        let Some((namespace, name)) = key.split_once('/') else { return self.everywhere.remove(key) };
        if let Some(bindings) = self.namespaces.get_mut(namespace) {
            bindings.remove(name);
            if bindings.all.is_empty() {
                self.namespaces.remove(namespace);
            }
        }
    }

    /// Returns the rules of a role referenced by a binding in `namespace`.
    ///
    /// # Errors
    /// If the role does not exist or its kind is unknown.
    pub(super) fn rules(&self, role: &RoleRef, namespace: &str) -> Result<&Arc<[Rule]>, Unresolved> {
        let missing = |resource| Unresolved::Missing { resource, name: role.name.clone() };
        match role.kind.as_str() {
            "ClusterRole" => self.cluster_roles.get(role.name.as_str()).ok_or_else(|| missing("clusterrole")),
            "Role" => {
                let key = format!("{namespace}/{}", role.name);
                self.roles.get(key.as_str()).ok_or_else(|| missing("role"))
            }
            _ => Err(Unresolved::Kind(role.kind.clone())),
        }
    }

    /// Returns a binding that allows the action.
    pub(super) fn allowing(&self, user: &User, asked: &Attributes<'_>) -> Option<&Binding> {
        let local = self.namespaces.get(asked.namespace).filter(|_| !asked.namespace.is_empty());
        let bindings = self.everywhere.of(user).chain(local.into_iter().flat_map(|b| b.of(user)));
        bindings.map(|b| &**b).find(|binding| {
            self.rules(&binding.role, &binding.namespace)
                .is_ok_and(|rules| rules.iter().any(|rule| rule.allows(asked)))
        })
    }

    /// Returns why `user` is allowed the action.
    pub(super) fn reason(&self, user: &User, asked: &Attributes<'_>) -> Option<String> {
        Some(format!("RBAC: allowed by {}", self.allowing(user, asked)?.describe(user)))
    }

    /// Returns all rules of a user in a namespace, and the roles that could not be resolved.
    pub(super) fn rules_of(&self, user: &User, namespace: &str) -> (Vec<Rule>, Vec<Unresolved>) {
        let local = self.namespaces.get(namespace).filter(|_| !namespace.is_empty());
        let local = local.map(|bindings| bindings.sorted(user)).unwrap_or_default();
        let (mut rules, mut errors) = (Vec::new(), Vec::new());
        for binding in self.everywhere.sorted(user).into_values().chain(local.into_values()) {
            match self.rules(&binding.role, &binding.namespace) {
                Ok(found) => rules.extend_from_slice(found),
                Err(error) => errors.push(error),
            }
        }
        (rules, errors)
    }
}

/// A role reference that cannot be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unresolved {
    /// The role does not exist.
    #[error("{resource}.rbac.authorization.k8s.io {} not found", quote(name))]
    Missing {
        /// Singular resource name, as the real server's cache words it.
        resource: &'static str,
        /// The role's name.
        name: String,
    },
    /// The kind is not a role kind.
    #[error("unsupported role reference kind: {}", quote(.0))]
    Kind(String),
}
