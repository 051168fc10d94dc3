//! ResourceClaimTemplate.

use crate::kind::{Column, Kind};

pub(super) const KIND: Kind =
    Kind { columns: &[Column::NAME, Column::AGE], ..Kind::new("resource.k8s.io", "resourceclaimtemplates") };
