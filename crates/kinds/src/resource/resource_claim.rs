//! ResourceClaim.

use crate::kind::{Column, Kind};

pub(super) const KIND: Kind = Kind {
    has_status: true,
    reset_fields: &[("status", &[&["metadata"], &["spec"]])],
    columns: &[Column::NAME, Column::string("State"), Column::AGE],
    ..Kind::new("resource.k8s.io", "resourceclaims")
};
