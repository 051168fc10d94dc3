//! ReplicaSet.

use jiff::Timestamp;
use serde_json::Value;
use steersman_api::{object, status::ApiResult, strategy::Hook, table::Cell};

use crate::{
    cells::{self, number},
    check::{Errors, FieldPath, Read, default},
    kind::{Change, Column, Kind, Rules},
    workload::{
        default_template, drop_disabled, not_negative, replica_status, replica_template, same_selector,
        template_warnings,
    },
};

pub(super) const KIND: Kind = Kind {
    rules: &ReplicaSet,
    has_generation: true,
    has_status: true,
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
    ..Kind::new("apps", "replicasets")
};

struct ReplicaSet;

impl Rules for ReplicaSet {
    fn default(&self, _: &str, object: &mut Value) {
        let spec = object::child(object, "spec");
        default_template(spec);
        default(spec, "replicas", 1);
    }

    fn prepare_create(&self, _: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        drop_disabled(object);
        Ok(())
    }

    fn prepare_update(&self, hook: Hook<'_>, object: &mut Value, _: &Value) -> ApiResult<()> {
        if hook.subresource.is_none() {
            drop_disabled(object);
        }
        Ok(())
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let (at, spec) = (FieldPath::root("spec"), object.at("spec"));
        not_negative(at, spec, &["replicas", "minReadySeconds"], errors);
        replica_template(at, spec, errors);
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        if change.is_status() {
            return replica_status(change.object.at("status"), errors);
        }
        self.validate(change.object, errors);
        same_selector(change, errors);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        template_warnings(object, old, true)
    }
}

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    Some(match column {
        "Desired" => number(object, &["spec", "replicas"]).into(),
        "Current" => number(object, &["status", "replicas"]).into(),
        "Ready" => number(object, &["status", "readyReplicas"]).into(),
        _ => return cells::workload(column, &object["spec"]),
    })
}
