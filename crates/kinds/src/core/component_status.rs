//! ComponentStatus.

use crate::kind::{Column, Kind};

pub(super) const KIND: Kind = Kind {
    deprecation: Some("v1 ComponentStatus is deprecated in v1.19+"),
    columns: &[Column::NAME, Column::string("Status"), Column::string("Message"), Column::string("Error")],
    ..Kind::new("", "componentstatuses")
};
