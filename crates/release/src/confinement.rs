//! Confinement: keeping a release within its namespace.
//!
//! What a chart renders follows the values that it is given, and those of an operator come from people with fewer
//! rights than the operator has. A confined release writes, deletes and looks up objects of its own namespace, and of
//! those cluster-scoped kinds that are allowed by name. Definitions in a chart's `crds/` are not rendered from values
//! and stay possible.

use std::collections::BTreeSet;
use std::fmt;

use crate::error::{Error, Result};
use crate::kinds::Kind;
use crate::object::Object;

/// The cluster-scoped kinds that a confined release may have. None by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confinement {
    allowed: BTreeSet<GroupKind>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GroupKind {
    group: String,
    kind: String,
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.kind)
        } else {
            write!(f, "{}.{}", self.kind, self.group)
        }
    }
}

impl Confinement {
    /// No cluster-scoped kinds at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// Allows a cluster-scoped kind, as in `ClusterRole.rbac.authorization.k8s.io`; without a group it is the core's.
    #[must_use]
    pub fn allow(mut self, kind: &str) -> Self {
        let (kind, group) = kind.trim().split_once('.').unwrap_or((kind.trim(), ""));
        self.allowed.insert(GroupKind { group: group.to_owned(), kind: kind.to_owned() });
        self
    }

    /// Whether objects of a kind in a namespace are within that of the release.
    fn admits(&self, kind: &Kind, namespace: &str, own: &str) -> bool {
        if kind.namespaced {
            return namespace == own;
        }
        let resource = &kind.resource;
        self.allowed.iter().any(|allowed| allowed.group == resource.group && allowed.kind == resource.kind)
    }

    /// Whether an object is within a namespace.
    pub(crate) fn admits_object(&self, object: &Object, own: &str) -> bool {
        self.admits(&object.kind, &object.id.namespace, own)
    }

    /// Refuses an object outside of a namespace.
    pub(crate) fn check(&self, object: &Object, own: &str) -> Result<()> {
        if self.admits_object(object, own) {
            return Ok(());
        }
        Err(Error::Confined {
            object: object.id.to_string(),
            namespace: own.to_owned(),
            help: self.help(&object.kind),
        })
    }

    /// Refuses a `lookup` that leads out of a namespace, with what to do about it.
    pub(crate) fn check_lookup(&self, kind: &Kind, namespace: &str, own: &str) -> Result<(), String> {
        if self.admits(kind, namespace, own) {
            return Ok(());
        }
        let resource = &kind.resource;
        let place = match namespace {
            _ if !kind.namespaced => "the cluster".to_owned(),
            "" => "all namespaces".to_owned(),
            namespace => format!("namespace {namespace}"),
        };
        let help = self.help(kind);
        Err(format!(
            "lookup of {} in {place} is refused: the release is confined to namespace {own}; {help}",
            resource.kind
        ))
    }

    fn help(&self, kind: &Kind) -> String {
        if kind.namespaced {
            return "switch the confinement off to allow it".to_owned();
        }
        let resource = &kind.resource;
        let kind = GroupKind { group: resource.group.clone(), kind: resource.kind.clone() };
        format!("allow the kind as {kind} to have it")
    }
}

#[cfg(test)]
mod tests {
    use kube::api::ApiResource;

    use super::*;

    fn kind(group: &str, name: &str, namespaced: bool) -> Kind {
        let resource = ApiResource {
            group: group.into(),
            version: "v1".into(),
            api_version: format!("{group}/v1"),
            kind: name.into(),
            plural: name.to_lowercase(),
        };
        Kind { resource, namespaced }
    }

    #[test]
    fn kinds_of_the_cluster_are_allowed_by_name_and_group() {
        let confinement = Confinement::new().allow(" Role.example.com ").allow("Node");
        let admits = |group: &str, name: &str| confinement.admits(&kind(group, name, false), "", "lab");
        assert!(admits("example.com", "Role") && admits("", "Node"));
        assert!(!admits("", "Role") && !admits("example.com", "Node") && !admits("example.org", "Role"));
        assert!(!Confinement::new().admits(&kind("", "Node", false), "", "lab"));
        let inside = |namespace: &str| confinement.admits(&kind("", "Pod", true), namespace, "lab");
        assert!(inside("lab") && !inside("den") && !inside(""));
    }

    #[test]
    fn a_refused_lookup_says_what_to_do() {
        let said = |kind: Kind, namespace: &str| {
            Confinement::new().check_lookup(&kind, namespace, "lab").unwrap_err()
        };
        let within =
            "is refused: the release is confined to namespace lab; switch the confinement off to allow it";
        assert_eq!(said(kind("", "Pod", true), "den"), format!("lookup of Pod in namespace den {within}"));
        assert_eq!(said(kind("", "Pod", true), ""), format!("lookup of Pod in all namespaces {within}"));
        let cluster = "lookup of Role in the cluster is refused: the release is confined to namespace lab; allow the kind as";
        assert_eq!(
            said(kind("example.com", "Role", false), ""),
            format!("{cluster} Role.example.com to have it")
        );
        assert_eq!(said(kind("", "Role", false), "den"), format!("{cluster} Role to have it"));
        assert_eq!(Confinement::new().check_lookup(&kind("", "Pod", true), "lab", "lab"), Ok(()));
    }
}
