//! DeviceClass.

use crate::kind::{Column, Kind};

pub(super) const KIND: Kind = Kind {
    has_generation: true,
    columns: &[Column::NAME, Column::AGE],
    ..Kind::new("resource.k8s.io", "deviceclasses")
};
