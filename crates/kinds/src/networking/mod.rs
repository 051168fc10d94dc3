//! `networking.k8s.io`.

mod ingress;
mod ingress_class;
mod ip_address;
mod network_policy;
mod service_cidr;

use crate::kind::Kind;

pub(crate) static KINDS: &[Kind] =
    &[ingress::KIND, ingress_class::KIND, ip_address::KIND, network_policy::KIND, service_cidr::KIND];
