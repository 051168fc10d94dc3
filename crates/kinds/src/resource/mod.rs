//! `resource.k8s.io`.

mod device_class;
mod resource_claim;
mod resource_claim_template;
mod resource_slice;

use crate::kind::Kind;

pub(crate) static KINDS: &[Kind] =
    &[device_class::KIND, resource_claim::KIND, resource_claim_template::KIND, resource_slice::KIND];
