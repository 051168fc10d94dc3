//! `coordination.k8s.io`.

mod lease;

use crate::kind::Kind;

pub(crate) static KINDS: &[Kind] = &[lease::KIND];
