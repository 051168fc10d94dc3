//! CSINode.

use jiff::Timestamp;
use serde_json::Value;
use steersman_api::table::Cell;

use crate::{
    cells::list,
    kind::{Column, Kind},
};

pub(super) const KIND: Kind = Kind {
    allows_unconditional_update: false,
    columns: &[Column::NAME, Column::integer("Drivers"), Column::AGE],
    cell,
    ..Kind::new("storage.k8s.io", "csinodes")
};

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    (column == "Drivers").then(|| list(object, &["spec", "drivers"]).len().into())
}
