//! PodTemplate.

use jiff::Timestamp;
use serde_json::Value;
use steersman_api::{object, table::Cell};

use crate::{
    cells::{self, labels, or_none},
    check::{Errors, FieldPath, Read, made},
    core::pod,
    kind::{Column, Kind, Rules},
};

pub(super) const KIND: Kind = Kind {
    rules: &PodTemplate,
    has_generation: true,
    columns: &[
        Column::NAME,
        Column::string("Containers"),
        Column::string("Images"),
        Column::string("Pod Labels"),
    ],
    cell,
    ..Kind::new("", "podtemplates")
};

struct PodTemplate;

impl Rules for PodTemplate {
    fn default(&self, _: &str, object: &mut Value) {
        pod::defaults::spec(made(object::child(object, "template"), "spec"));
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        pod::validate_template(FieldPath::root("template"), object.at("template"), errors);
    }

    fn is_new_generation(&self, object: &Value, old: &Value) -> bool {
        object.at("template") != old.at("template")
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some_and(|old| object::generation(old) == object::generation(object)) {
            return Vec::new();
        }
        pod::warnings_of("template", object.at("template"))
    }
}

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    match column {
        "Pod Labels" => Some(or_none(labels(object::get(object, &["template", "metadata", "labels"])))),
        _ => cells::workload(column, object),
    }
}
