//! Deployments, and what replicates pods from a template.

use serde_json::{Map, Value, json};

use super::{
    always_running, amount, at_most_all, collisions, default_template, drop_disabled, int_or_percent,
    not_negative, number, replica_counts, replica_template, same_selector, template_warnings,
};
use crate::{
    Change, Rules,
    check::{self, At, Complain, Errors, Read, default, default_zero, made},
    object, pod,
    status::ApiResult,
    strategy::Hook,
};

pub(crate) struct Deployment;

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
        let (at, spec) = (At::root("spec"), object.at("spec"));
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
            not_negative(At::root("status"), status, &fields, errors);
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

fn deployment_strategy(at: At<'_>, strategy: &Value, errors: &mut Errors) {
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
                        number(rolling.at("maxUnavailable")),
                        number(rolling.at("maxSurge"))
                    )
                )
            );
            errors.unsupported_shown(at, &shown, &["Recreate", "RollingUpdate"]);
        }
    }
}

pub(crate) struct ReplicaSet;

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
        let (at, spec) = (At::root("spec"), object.at("spec"));
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

fn replica_status(status: &Value, errors: &mut Errors) {
    let fields = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    not_negative(At::root("status"), status, &fields, errors);
    let counts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    replica_counts(status, &counts, "readyReplicas", errors);
}

pub(crate) struct ReplicationController;

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
        let (at, spec) = (At::root("spec"), object.at("spec"));
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

pub(crate) struct PodTemplate;

impl Rules for PodTemplate {
    fn default(&self, _: &str, object: &mut Value) {
        pod::defaults::spec(made(object::child(object, "template"), "spec"));
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        pod::validate_template(At::root("template"), object.at("template"), errors);
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
