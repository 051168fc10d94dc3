//! `flowcontrol.apiserver.k8s.io`.

mod flow_schema;
mod priority_level_configuration;

use crate::kind::Kind;

pub(crate) static KINDS: &[Kind] = &[flow_schema::KIND, priority_level_configuration::KIND];
