//! Deployment.

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_api::{object, status::ApiResult, strategy::Hook, table::Cell};

use crate::{
    cells::{self, number},
    check::{Errors, FieldErrors, FieldPath, Read, default, default_zero, made},
    kind::{Change, Column, Kind, Rules},
    workload::{
        amount, at_most_all, collisions, default_template, drop_disabled, int_or_percent, not_negative,
        replica_counts, replica_template, same_selector, shown_amount, template_warnings,
    },
};

pub(super) const KIND: Kind = Kind {
    rules: &Deployment,
    has_generation: true,
    has_status: true,
    reset_fields: &[("status", &[&["spec"], &["metadata", "labels"]])],
    columns: &[
        Column::NAME,
        Column::string("Ready"),
        Column::string("Up-to-date"),
        Column::string("Available"),
        Column::AGE,
        Column::string("Containers").wide(),
        Column::string("Images").wide(),
        Column::string("Selector").wide(),
    ],
    cell,
    ..Kind::new("apps", "deployments")
};

struct Deployment;

impl Rules for Deployment {
    fn default(&self, _: &str, object: &mut Value) {
        let spec = object::child(object, "spec");
        default_template(spec);
        default(spec, "replicas", 1);
        let strategy = made(spec, "strategy");
        default_zero(strategy, "type", "RollingUpdate");
        if strategy.get("type") == Some(&json!("RollingUpdate")) {
            let rolling = made(strategy, "rollingUpdate");
            default(rolling, "maxUnavailable", "25%");
            default(rolling, "maxSurge", "25%");
        }
        default(spec, "revisionHistoryLimit", 10);
        default(spec, "progressDeadlineSeconds", 600);
    }

    fn prepare_create(&self, _: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        drop_disabled(object);
        Ok(())
    }

    fn prepare_update(&self, hook: Hook<'_>, object: &mut Value, old: &Value) -> ApiResult<()> {
        if hook.subresource == Some("status") {
            carry_labels(object, old);
        } else {
            drop_disabled(object);
        }
        Ok(())
    }

    fn is_new_generation(&self, object: &Value, old: &Value) -> bool {
        object.at("spec") != old.at("spec")
            || object.path(&["metadata", "annotations"]) != old.path(&["metadata", "annotations"])
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let (at, spec) = (FieldPath::root("spec"), object.at("spec"));
        not_negative(at, spec, &["replicas"], errors);
        replica_template(at, spec, errors);
        deployment_strategy(at.field("strategy"), spec.at("strategy"), errors);
        let fields = ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"];
        not_negative(at, spec, &fields, errors);
        if let Some(seconds) = spec.opt_int("progressDeadlineSeconds")
            && seconds <= spec.int("minReadySeconds")
        {
            let why = "must be greater than minReadySeconds";
            errors.invalid(at.field("progressDeadlineSeconds"), seconds, why);
        }
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        if change.is_status() {
            let status = change.object.at("status");
            let fields = [
                "observedGeneration",
                "replicas",
                "updatedReplicas",
                "readyReplicas",
                "availableReplicas",
                "unavailableReplicas",
                "terminatingReplicas",
                "collisionCount",
            ];
            not_negative(FieldPath::root("status"), status, &fields, errors);
            let counts = ["updatedReplicas", "readyReplicas", "availableReplicas"];
            replica_counts(status, &counts, "readyReplicas", errors);
            return collisions(change, errors);
        }
        self.validate(change.object, errors);
        same_selector(change, errors);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        template_warnings(object, old, true)
    }
}

fn carry_labels(object: &mut Value, old: &Value) {
    let labels = old.path(&["metadata", "labels"]).clone();
    let metadata = object::metadata(object);
    match labels {
        Value::Null => metadata.remove("labels"),
        labels => metadata.insert("labels".into(), labels),
    };
}

fn deployment_strategy(at: FieldPath<'_>, strategy: &Value, errors: &mut Errors) {
    let rolling = strategy.opt("rollingUpdate");
    let place = at.field("rollingUpdate");
    match strategy.str("type") {
        "Recreate" => {
            if rolling.is_some() {
                errors.forbidden(place, "may not be specified when strategy `type` is 'Recreate'");
            }
        }
        "RollingUpdate" => {
            let Some(rolling) = rolling else {
                return errors.required(place, "this should be defaulted and never be nil");
            };
            let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            int_or_percent(place.field("maxUnavailable"), unavailable, errors);
            int_or_percent(place.field("maxSurge"), surge, errors);
            if amount(unavailable).0 == 0 && amount(surge).0 == 0 {
                let why = "may not be 0 when `maxSurge` is 0";
                errors.invalid(place.field("maxUnavailable"), unavailable.clone(), why);
            }
            at_most_all(place.field("maxUnavailable"), unavailable, errors);
        }
        kind => {
            let shown = format!(
                "{{\"Type\":{},\"RollingUpdate\":{}}}",
                json!(kind),
                rolling.map_or_else(
                    || "null".to_owned(),
                    |rolling| format!(
                        "{{\"MaxUnavailable\":{},\"MaxSurge\":{}}}",
                        shown_amount(rolling.at("maxUnavailable")),
                        shown_amount(rolling.at("maxSurge"))
                    )
                )
            );
            errors.unsupported_shown(at, &shown, &["Recreate", "RollingUpdate"]);
        }
    }
}

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    let status = |field: &str| number(object, &["status", field]);
    Some(match column {
        "Ready" => format!("{}/{}", status("readyReplicas"), number(object, &["spec", "replicas"])).into(),
        "Up-to-date" => status("updatedReplicas").into(),
        "Available" => status("availableReplicas").into(),
        _ => return cells::workload(column, &object["spec"]),
    })
}
