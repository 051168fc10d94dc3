//! APIService.

use steersman_api::names::NameRule;

use crate::kind::{Column, Kind};

pub(super) const KIND: Kind = Kind {
    names: NameRule::PathSegment,
    has_status: true,
    allows_unconditional_update: false,
    reset_fields: &[("status", &[&["metadata"], &["spec"]])],
    columns: &[Column::NAME, Column::string("Service"), Column::string("Available"), Column::AGE],
    ..Kind::new("apiregistration.k8s.io", "apiservices")
};
