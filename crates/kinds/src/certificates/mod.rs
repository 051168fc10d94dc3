//! `certificates.k8s.io`.

mod certificate_signing_request;

use crate::kind::Kind;

pub(crate) static KINDS: &[Kind] = &[certificate_signing_request::KIND];
