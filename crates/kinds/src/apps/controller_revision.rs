//! ControllerRevision.

use jiff::Timestamp;
use serde_json::Value;
use steersman_api::{
    group_version::{qualified, split_api_version},
    table::Cell,
};

use crate::{
    cells::{list, number},
    check::{Errors, FieldErrors, FieldPath, Read},
    kind::{Change, Column, Kind, Rules},
};

pub(super) const KIND: Kind = Kind {
    rules: &ControllerRevision,
    columns: &[Column::NAME, Column::string("Controller"), Column::string("Revision"), Column::AGE],
    cell,
    ..Kind::new("apps", "controllerrevisions")
};

struct ControllerRevision;

impl Rules for ControllerRevision {
    fn validate(&self, object: &Value, errors: &mut Errors) {
        errors.not_negative(FieldPath::root("revision"), object.int("revision"));
        match object.at("data") {
            Value::Null => errors.required("data", "data is mandatory"),
            Value::Object(_) => {}
            _ => errors.required("data", "data must be a valid JSON object"),
        }
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        change.whole_metadata(errors);
        errors.not_negative(FieldPath::root("revision"), change.object.int("revision"));
        change.immutable(&["data"], errors);
    }
}

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    match column {
        "Controller" => Some(owner(object)),
        "Revision" => Some(number(object, &["revision"]).into()),
        _ => None,
    }
}

fn owner(object: &Value) -> Cell {
    let owners = list(object, &["metadata", "ownerReferences"]);
    let Some(owner) = owners.iter().find(|o| o["controller"] == true) else { return "<none>".into() };
    let part = |key: &str| owner[key].as_str().unwrap_or_default();
    let group = split_api_version(part("apiVersion")).0;
    let kind = part("kind").to_lowercase();
    format!("{}/{}", qualified(&kind, group), part("name")).into()
}
