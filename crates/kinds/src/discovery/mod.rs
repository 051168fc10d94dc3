//! `discovery.k8s.io`.

mod endpoint_slice;

use crate::kind::Kind;

pub(crate) static KINDS: &[Kind] = &[endpoint_slice::KIND];
