//! `node.k8s.io`.

mod runtime_class;

use crate::kind::Kind;

pub(crate) static KINDS: &[Kind] = &[runtime_class::KIND];
