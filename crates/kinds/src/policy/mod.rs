//! `policy`.

mod pod_disruption_budget;

use crate::kind::Kind;

pub(crate) static KINDS: &[Kind] = &[pod_disruption_budget::KIND];
