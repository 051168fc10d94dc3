//! `scheduling.k8s.io`.

mod priority_class;

use crate::kind::Kind;

pub(crate) static KINDS: &[Kind] = &[priority_class::KIND];
