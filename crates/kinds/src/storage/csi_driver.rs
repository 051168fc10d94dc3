//! CSIDriver.

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_api::{object, table::Cell};

use crate::{
    cells::{flag, joined, list, or_none, plain},
    check::default,
    kind::{Column, Kind, Rules},
};

pub(super) const KIND: Kind = Kind {
    rules: &CsiDriver,
    allows_unconditional_update: false,
    columns: &[
        Column::NAME,
        Column::boolean("AttachRequired"),
        Column::boolean("PodInfoOnMount"),
        Column::boolean("StorageCapacity"),
        Column::string("TokenRequests"),
        Column::boolean("RequiresRepublish"),
        Column::string("Modes"),
        Column::AGE,
    ],
    cell,
    ..Kind::new("storage.k8s.io", "csidrivers")
};

struct CsiDriver;

impl Rules for CsiDriver {
    fn default(&self, _: &str, object: &mut Value) {
        let spec = object::child(object, "spec");
        default(spec, "attachRequired", true);
        default(spec, "podInfoOnMount", false);
        default(spec, "storageCapacity", false);
        default(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
        default(spec, "volumeLifecycleModes", json!(["Persistent"]));
        default(spec, "requiresRepublish", false);
        default(spec, "seLinuxMount", false);
    }
}

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    Some(match column {
        "AttachRequired" => flag(object, &["spec", "attachRequired"], true),
        "PodInfoOnMount" => flag(object, &["spec", "podInfoOnMount"], false),
        "StorageCapacity" => flag(object, &["spec", "storageCapacity"], false),
        "RequiresRepublish" => flag(object, &["spec", "requiresRepublish"], false),
        "TokenRequests" => match object["spec"]["tokenRequests"].as_array() {
            Some(requests) => joined(requests, "audience").into(),
            None => "<unset>".into(),
        },
        "Modes" => {
            let modes = list(object, &["spec", "volumeLifecycleModes"]);
            or_none(modes.iter().map(plain).collect::<Vec<_>>().join(","))
        }
        _ => return None,
    })
}
