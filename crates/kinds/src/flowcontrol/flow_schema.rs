//! FlowSchema.

use crate::kind::{Column, Kind};

pub(super) const KIND: Kind = Kind {
    has_generation: true,
    has_status: true,
    reset_fields: &[("status", &[&["metadata"], &["spec"]])],
    columns: &[
        Column::NAME,
        Column::string("PriorityLevel"),
        Column::string("MatchingPrecedence"),
        Column::string("DistinguisherMethod"),
        Column::AGE,
        Column::string("MissingPL"),
    ],
    ..Kind::new("flowcontrol.apiserver.k8s.io", "flowschemas")
};
