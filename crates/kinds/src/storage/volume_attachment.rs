//! VolumeAttachment.

use jiff::Timestamp;
use serde_json::Value;
use steersman_api::table::Cell;

use crate::{
    cells::{flag, text},
    kind::{Column, Kind},
};

pub(super) const KIND: Kind = Kind {
    has_status: true,
    allows_unconditional_update: false,
    reset_fields: &[("status", &[&["metadata"], &["spec"]])],
    columns: &[
        Column::NAME,
        Column::string("Attacher").format("name"),
        Column::string("PV"),
        Column::string("Node"),
        Column::boolean("Attached"),
        Column::AGE,
    ],
    cell,
    ..Kind::new("storage.k8s.io", "volumeattachments")
};

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    Some(match column {
        "Attacher" => text(object, &["spec", "attacher"]),
        "PV" => text(object, &["spec", "source", "persistentVolumeName"]),
        "Node" => text(object, &["spec", "nodeName"]),
        "Attached" => flag(object, &["status", "attached"], false),
        _ => return None,
    })
}
