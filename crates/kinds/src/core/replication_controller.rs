//! ReplicationController.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use steersman_api::{object, table::Cell};

use crate::{
    cells::{self, labels, number, or_none},
    check::{self, Errors, FieldErrors, FieldPath, Read, default, made},
    core::pod,
    kind::{Change, Column, Kind, Rules, Selectable},
    workload::{always_running, not_negative, replica_status, template_warnings},
};

pub(super) const KIND: Kind = Kind {
    rules: &ReplicationController,
    has_generation: true,
    has_status: true,
    selectable: &[Selectable::new("status.replicas", &["status", "replicas"]).or("0")],
    columns: &[
        Column::NAME,
        Column::integer("Desired"),
        Column::integer("Current"),
        Column::integer("Ready"),
        Column::AGE,
        Column::string("Containers").wide(),
        Column::string("Images").wide(),
        Column::string("Selector").wide(),
    ],
    cell,
    ..Kind::new("", "replicationcontrollers")
};

struct ReplicationController;

impl Rules for ReplicationController {
    fn default(&self, _: &str, object: &mut Value) {
        let labels = object.path(&["spec", "template", "metadata", "labels"]).clone();
        if labels.as_object().is_some_and(|labels| !labels.is_empty()) {
            let spec = object::child(object, "spec");
            if spec.get("selector").and_then(Value::as_object).is_none_or(Map::is_empty) {
                spec.insert("selector".into(), labels.clone());
            }
            let metadata = object::metadata(object);
            if metadata.get("labels").and_then(Value::as_object).is_none_or(Map::is_empty) {
                metadata.insert("labels".into(), labels);
            }
        }
        let spec = object::child(object, "spec");
        if let Some(template) = check::child(spec, "template") {
            pod::defaults::spec(made(template, "spec"));
        }
        default(spec, "replicas", 1);
        default(spec, "minReadySeconds", 0);
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let (at, spec) = (FieldPath::root("spec"), object.at("spec"));
        not_negative(at, spec, &["minReadySeconds"], errors);
        let chosen = spec.at("selector");
        let empty = chosen.as_object().is_none_or(Map::is_empty);
        if empty {
            errors.required(at.field("selector"), "");
        }
        match spec.opt_int("replicas") {
            None => errors.required(at.field("replicas"), ""),
            Some(count) => errors.not_negative(at.field("replicas"), count),
        }
        let Some(template) = spec.opt("template") else {
            return errors.required(at.field("template"), "");
        };
        let labels = template.path(&["metadata", "labels"]);
        if !empty && !check::selects(&json!({ "matchLabels": chosen }), labels) {
            let why = "`selector` does not match template `labels`";
            errors.invalid("spec.template.metadata.labels", labels.clone(), why);
        }
        pod::validate_template(at.field("template"), template, errors);
        always_running(at, spec, "ReplicationController", errors);
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        if change.is_status() {
            return replica_status(change.object.at("status"), errors);
        }
        self.validate(change.object, errors);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        if object.at("spec").opt("template").is_none() {
            return Vec::new();
        }
        template_warnings(object, old, true)
    }
}

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    Some(match column {
        "Desired" => number(object, &["spec", "replicas"]).into(),
        "Current" => number(object, &["status", "replicas"]).into(),
        "Ready" => number(object, &["status", "readyReplicas"]).into(),
        "Selector" => or_none(labels(object::get(object, &["spec", "selector"]))),
        _ => return cells::workload(column, &object["spec"]),
    })
}
