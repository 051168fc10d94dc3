//! Confinement of a release to its namespace.
//!
//! What a chart renders depends on its values, and an operator's values come from people with fewer permissions than
//! the operator has. A confined release writes, deletes and looks up objects in its own namespace, and those of
//! cluster-scoped kinds that are allowed by name. CRDs in a chart's `crds/` are not rendered from values and stay
//! possible.

use std::collections::BTreeSet;
use std::fmt;

use crate::error::{Error, Result};
use crate::kinds::Kind;
use crate::object::Object;

/// Cluster-scoped kinds that a confined release may have. None by default.
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
    /// Creates a confinement without any cluster-scoped kind.
    pub fn new() -> Self {
        Self::default()
    }

    /// Allows a cluster-scoped kind, such as `ClusterRole.rbac.authorization.k8s.io`. The group is omitted for the
    /// core group.
    #[must_use]
    pub fn allow(mut self, kind: &str) -> Self {
        let (kind, group) = kind.trim().split_once('.').unwrap_or((kind.trim(), ""));
        self.allowed.insert(GroupKind { group: group.to_owned(), kind: kind.to_owned() });
        self
    }

    /// Whether a confined release of namespace `own` may have objects of a kind in a namespace.
    fn admits(&self, kind: &Kind, namespace: &str, own: &str) -> bool {
        if kind.namespaced {
            return namespace == own;
        }
        let resource = &kind.resource;
        self.allowed.iter().any(|allowed| allowed.group == resource.group && allowed.kind == resource.kind)
    }

    /// Whether a confined release of a namespace may have an object.
    pub(crate) fn admits_object(&self, object: &Object, own: &str) -> bool {
        self.admits(&object.kind, &object.id.namespace, own)
    }

    /// Refuses an object that a confined release of a namespace may not have.
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

    /// Refuses a `lookup` outside the namespace, with advice in the message.
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
            return "disable the confinement to allow it".to_owned();
        }
        let resource = &kind.resource;
        let kind = GroupKind { group: resource.group.clone(), kind: resource.kind.clone() };
        format!("add {kind} to the allowed cluster-scoped kinds")
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
            "is refused: the release is confined to namespace lab; disable the confinement to allow it";
        assert_eq!(said(kind("", "Pod", true), "den"), format!("lookup of Pod in namespace den {within}"));
        assert_eq!(said(kind("", "Pod", true), ""), format!("lookup of Pod in all namespaces {within}"));
        let cluster =
            "lookup of Role in the cluster is refused: the release is confined to namespace lab; add";
        assert_eq!(
            said(kind("example.com", "Role", false), ""),
            format!("{cluster} Role.example.com to the allowed cluster-scoped kinds")
        );
        assert_eq!(
            said(kind("", "Role", false), "den"),
            format!("{cluster} Role to the allowed cluster-scoped kinds")
        );
        assert_eq!(Confinement::new().check_lookup(&kind("", "Pod", true), "lab", "lab"), Ok(()));
    }
}
