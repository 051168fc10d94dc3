//! ClusterRole.

use steersman_api::names::NameRule;

use crate::{kind::Kind, rbac::role::Role};

pub(super) const KIND: Kind = Kind {
    rules: &Role { namespaced: false },
    names: NameRule::PathSegment,
    allows_create_on_update: true,
    ..Kind::new("rbac.authorization.k8s.io", "clusterroles")
};
