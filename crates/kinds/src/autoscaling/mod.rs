//! `autoscaling`.

mod horizontal_pod_autoscaler;

use crate::kind::Kind;

pub(crate) static KINDS: &[Kind] = &[horizontal_pod_autoscaler::KIND];
