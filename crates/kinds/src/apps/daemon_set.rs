//! DaemonSet.

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_api::{object, status::ApiResult, strategy::Hook, table::Cell};

use crate::{
    cells::{self, labels, number, or_none},
    check::{self, Errors, FieldErrors, FieldPath, Read, default, default_zero, made},
    core::pod,
    kind::{Change, Column, Kind, Rules},
    workload::{
        always_running, amount, at_most_all, collisions, default_template, drop_disabled, int_or_percent,
        is_sound, mismatch, not_negative, same_selector, shown_amount, shown_selector,
    },
};

pub(super) const KIND: Kind = Kind {
    rules: &DaemonSet,
    has_generation: true,
    has_status: true,
    columns: &[
        Column::NAME,
        Column::integer("Desired"),
        Column::integer("Current"),
        Column::integer("Ready"),
        Column::integer("Up-to-date"),
        Column::integer("Available"),
        Column::string("Node Selector"),
        Column::AGE,
        Column::string("Containers").wide(),
        Column::string("Images").wide(),
        Column::string("Selector").wide(),
    ],
    cell,
    ..Kind::new("apps", "daemonsets")
};

struct DaemonSet;

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn template_generation(object: &Value) -> i64 {
    object.path(&["metadata", "annotations"]).str(TEMPLATE_GENERATION).parse().unwrap_or_default()
}

fn set_template_generation(object: &mut Value, number: i64) {
    let annotations = made(object::metadata(object), "annotations");
    annotations.insert(TEMPLATE_GENERATION.into(), number.to_string().into());
}

impl Rules for DaemonSet {
    fn default(&self, _: &str, object: &mut Value) {
        let spec = object::child(object, "spec");
        default_template(spec);
        let strategy = made(spec, "updateStrategy");
        default_zero(strategy, "type", "RollingUpdate");
        if strategy.get("type") == Some(&json!("RollingUpdate")) {
            let rolling = made(strategy, "rollingUpdate");
            default(rolling, "maxUnavailable", 1);
            default(rolling, "maxSurge", 0);
        }
        default(spec, "revisionHistoryLimit", 10);
        // In v1, the former field templateGeneration is stored as an annotation.
        let number = template_generation(object);
        set_template_generation(object, number);
    }

    fn prepare_create(&self, _: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        drop_disabled(object);
        let number = template_generation(object).max(1);
        set_template_generation(object, number);
        Ok(())
    }

    fn prepare_update(&self, hook: Hook<'_>, object: &mut Value, old: &Value) -> ApiResult<()> {
        if hook.subresource == Some("status") {
            set_template_generation(object, template_generation(old));
            return Ok(());
        }
        drop_disabled(object);
        let changed = object.path(&["spec", "template"]) != old.path(&["spec", "template"]);
        set_template_generation(object, template_generation(old) + i64::from(changed));
        Ok(())
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let (at, spec) = (FieldPath::root("spec"), object.at("spec"));
        check::label_selector(at.field("selector"), spec.at("selector"), errors);
        if is_sound(spec.at("selector")) {
            mismatch(at, spec, errors);
        }
        if let Some(selector) = spec.opt("selector").filter(|selector| check::is_empty_selector(selector)) {
            let why = "empty selector is invalid for daemonset";
            errors.invalid_shown(at.field("selector"), shown_selector(selector), why);
        }
        pod::validate_template(at.field("template"), spec.at("template"), errors);
        always_running(at, spec, "DaemonSet", errors);
        not_negative(at, spec, &["minReadySeconds", "revisionHistoryLimit"], errors);
        errors.not_negative(at.field("templateGeneration"), template_generation(object));
        daemon_strategy(at.field("updateStrategy"), spec.at("updateStrategy"), errors);
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        if change.is_status() {
            let fields = [
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
                "observedGeneration",
                "updatedNumberScheduled",
                "numberAvailable",
                "numberUnavailable",
                "collisionCount",
            ];
            not_negative(FieldPath::root("status"), change.object.at("status"), &fields, errors);
            return collisions(change, errors);
        }
        same_selector(change, errors);
        self.validate(change.object, errors);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some_and(|old| template_generation(old) == template_generation(object)) {
            return Vec::new();
        }
        pod::warnings_of("spec.template", object.path(&["spec", "template"]))
    }
}

fn daemon_strategy(at: FieldPath<'_>, strategy: &Value, errors: &mut Errors) {
    match strategy.str("type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let at = at.field("rollingUpdate");
            let Some(rolling) = strategy.opt("rollingUpdate") else { return errors.required(at, "") };
            let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            int_or_percent(at.field("maxUnavailable"), unavailable, errors);
            int_or_percent(at.field("maxSurge"), surge, errors);
            at_most_all(at.field("maxUnavailable"), unavailable, errors);
            at_most_all(at.field("maxSurge"), surge, errors);
            match (amount(unavailable).0 != 0, amount(surge).0 != 0) {
                (true, true) => {
                    let why = "may not be set when maxUnavailable is non-zero";
                    errors.invalid(at.field("maxSurge"), surge.clone(), why);
                }
                (false, false) => {
                    errors.required(at.field("maxUnavailable"), "cannot be 0 when maxSurge is 0");
                }
                _ => {}
            }
        }
        kind => {
            let rolling = strategy.opt("rollingUpdate").map_or_else(
                || "null".to_owned(),
                |rolling| {
                    format!(
                        "{{\"MaxUnavailable\":{},\"MaxSurge\":{}}}",
                        shown_amount(rolling.at("maxUnavailable")),
                        shown_amount(rolling.at("maxSurge"))
                    )
                },
            );
            let shown = format!("{{\"Type\":{},\"RollingUpdate\":{rolling}}}", json!(kind));
            errors.unsupported_shown(at, &shown, &["RollingUpdate", "OnDelete"]);
        }
    }
}

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    let status = |field: &str| number(object, &["status", field]);
    Some(match column {
        "Desired" => status("desiredNumberScheduled").into(),
        "Current" => status("currentNumberScheduled").into(),
        "Ready" => status("numberReady").into(),
        "Up-to-date" => status("updatedNumberScheduled").into(),
        "Available" => status("numberAvailable").into(),
        "Node Selector" => {
            or_none(labels(object::get(object, &["spec", "template", "spec", "nodeSelector"])))
        }
        _ => return cells::workload(column, &object["spec"]),
    })
}
