//! `rbac.authorization.k8s.io`.

mod cluster_role;
mod cluster_role_binding;
mod role;
mod role_binding;

use crate::kind::Kind;

const GROUP: &str = "rbac.authorization.k8s.io";

pub(crate) static KINDS: &[Kind] =
    &[cluster_role::KIND, cluster_role_binding::KIND, role::KIND, role_binding::KIND];
