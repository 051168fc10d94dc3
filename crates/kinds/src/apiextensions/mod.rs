//! `apiextensions.k8s.io`.

mod custom_resource_definition;

use crate::kind::Kind;

pub(crate) static KINDS: &[Kind] = &[custom_resource_definition::KIND];
