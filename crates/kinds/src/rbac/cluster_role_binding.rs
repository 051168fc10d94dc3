//! ClusterRoleBinding.

use steersman_api::names::NameRule;

use crate::{
    kind::{Column, Kind},
    rbac::role_binding::{Binding, cell},
};

pub(super) const KIND: Kind = Kind {
    rules: &Binding { namespaced: false },
    names: NameRule::PathSegment,
    allows_create_on_update: true,
    columns: &[
        Column::NAME,
        Column::string("Role"),
        Column::AGE,
        Column::string("Users").wide(),
        Column::string("Groups").wide(),
        Column::string("ServiceAccounts").wide(),
    ],
    cell,
    ..Kind::new("rbac.authorization.k8s.io", "clusterrolebindings")
};
