//! ClusterRoleBinding.

use steersman_api::names::NameRule;

use crate::{
    kind::Kind,
    rbac::role_binding::{Binding, COLUMNS, cell},
};

pub(super) const KIND: Kind = Kind {
    rules: &Binding { namespaced: false },
    names: NameRule::PathSegment,
    allows_create_on_update: true,
    columns: COLUMNS,
    cell,
    ..Kind::new("rbac.authorization.k8s.io", "clusterrolebindings")
};
