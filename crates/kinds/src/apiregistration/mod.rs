//! `apiregistration.k8s.io`.

mod api_service;

use crate::kind::Kind;

pub(crate) static KINDS: &[Kind] = &[api_service::KIND];
