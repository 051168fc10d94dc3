//! ConfigMap.

use jiff::Timestamp;
use serde_json::Value;
use steersman_api::{fields::FieldError, table::Cell};

use crate::{
    cells::length,
    check::{self, Errors, FieldErrors, FieldPath, Read},
    core::config_data::{MAX_SIZE, decoded_length, immutable},
    kind::{Change, Column, Kind, Rules},
};

pub(super) const KIND: Kind = Kind {
    rules: &ConfigMap,
    columns: &[Column::NAME, Column::string("Data"), Column::AGE],
    cell,
    ..Kind::new("", "configmaps")
};

struct ConfigMap;

impl Rules for ConfigMap {
    fn validate(&self, object: &Value, errors: &mut Errors) {
        let mut size = 0;
        let at = FieldPath::root("data");
        for (key, value) in object.pairs("data") {
            errors.all(&at.key(key), key, check::config_key(key));
            if object.at("binaryData").opt(key).is_some() {
                errors.invalid(at.key(key), key, "duplicate of key present in binaryData");
            }
            size += value.as_str().map_or(0, str::len);
        }
        let at = FieldPath::root("binaryData");
        for (key, value) in object.pairs("binaryData") {
            errors.all(&at.key(key), key, check::config_key(key));
            size += decoded_length(value);
        }
        if size > MAX_SIZE {
            errors.push(FieldError::too_long("", MAX_SIZE));
        }
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        immutable(change, &["data", "binaryData"], errors);
        change.whole_metadata(errors);
        self.validate(change.object, errors);
    }
}

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    (column == "Data").then(|| (length(object, &["data"]) + length(object, &["binaryData"])).into())
}
