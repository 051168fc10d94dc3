//! ResourceSlice.

use crate::kind::{Column, Kind, Selectable};

pub(super) const KIND: Kind = Kind {
    has_generation: true,
    selectable: &[
        Selectable::new("spec.nodeName", &["spec", "nodeName"]),
        Selectable::new("spec.driver", &["spec", "driver"]),
    ],
    columns: &[
        Column::NAME,
        Column::string("Node"),
        Column::string("Driver"),
        Column::string("Pool"),
        Column::AGE,
    ],
    ..Kind::new("resource.k8s.io", "resourceslices")
};
