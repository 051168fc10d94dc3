//! PriorityClass.

use jiff::Timestamp;
use serde_json::Value;
use steersman_api::{object, table::Cell};

use crate::{
    cells::{flag, number, text},
    check::{Errors, FieldErrors, FieldPath, Read, default},
    kind::{Change, Column, Kind, Rules},
};

pub(super) const KIND: Kind = Kind {
    rules: &PriorityClass,
    has_generation: true,
    columns: &[
        Column::NAME,
        Column::integer("Value"),
        Column::boolean("Global-Default"),
        Column::AGE,
        Column::string("PreemptionPolicy"),
    ],
    cell,
    ..Kind::new("scheduling.k8s.io", "priorityclasses")
};

struct PriorityClass;

const MAX_USER_VALUE: i64 = 1_000_000_000;

impl Rules for PriorityClass {
    fn default(&self, _: &str, object: &mut Value) {
        default(object::ensure(object), "preemptionPolicy", "PreemptLowerPriority");
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let name = object::name(object);
        let value = object.int("value");
        if name.starts_with("system-") {
            let known = match name {
                "system-node-critical" => Some(MAX_USER_VALUE * 2 + 1000),
                "system-cluster-critical" => Some(MAX_USER_VALUE * 2),
                _ => None,
            };
            let why = match known {
                None => Some(format!("{name} is not a known system priority class")),
                Some(known) if known != value => {
                    Some(format!("value of {name} PriorityClass must be {known}"))
                }
                Some(_) if object.flag("globalDefault") => {
                    Some(format!("globalDefault of {name} PriorityClass must be false"))
                }
                Some(_) => None,
            };
            if let Some(why) = why {
                errors.forbidden("metadata.name", format!("priority class names with 'system-' prefix are reserved for system use only. error: {why}"));
            }
        } else if value > MAX_USER_VALUE {
            errors.forbidden(
                "value",
                format!("maximum allowed value of a user defined priority is {MAX_USER_VALUE}"),
            );
        }
        if let Some(policy) = object.opt_str("preemptionPolicy") {
            errors.one_of(FieldPath::root("preemptionPolicy"), policy, &["PreemptLowerPriority", "Never"]);
        }
    }

    fn is_new_generation(&self, _: &Value, _: &Value) -> bool {
        false
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        if change.object.int("value") != change.old.int("value") {
            errors.forbidden("value", "may not be changed in an update.");
        }
        change.immutable(&["preemptionPolicy"], errors);
    }
}

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    match column {
        "Value" => Some(number(object, &["value"]).into()),
        "Global-Default" => Some(flag(object, &["globalDefault"], false)),
        "PreemptionPolicy" => Some(text(object, &["preemptionPolicy"])),
        _ => None,
    }
}
