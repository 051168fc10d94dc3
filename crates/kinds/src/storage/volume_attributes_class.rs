//! VolumeAttributesClass.

use jiff::Timestamp;
use serde_json::Value;
use steersman_api::table::Cell;

use crate::{
    cells::text,
    kind::{Column, Kind},
};

pub(super) const KIND: Kind = Kind {
    columns: &[Column::NAME, Column::string("DriverName"), Column::AGE],
    cell,
    ..Kind::new("storage.k8s.io", "volumeattributesclasses")
};

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    (column == "DriverName").then(|| text(object, &["driverName"]))
}
