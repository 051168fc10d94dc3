//! PriorityLevelConfiguration.

use crate::kind::{Column, Kind};

pub(super) const KIND: Kind = Kind {
    has_generation: true,
    has_status: true,
    reset_fields: &[("status", &[&["metadata"], &["spec"]])],
    columns: &[
        Column::NAME,
        Column::string("Type"),
        Column::string("NominalConcurrencyShares"),
        Column::string("Queues"),
        Column::string("HandSize"),
        Column::string("QueueLengthLimit"),
        Column::AGE,
    ],
    ..Kind::new("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations")
};
