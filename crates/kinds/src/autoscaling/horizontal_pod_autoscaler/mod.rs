//! HorizontalPodAutoscaler.

mod conversion;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_api::{names, object, schema::quantity, status::ApiResult, strategy::Hook, table::Cell};

use crate::{
    cells::{first_of, list, number, plain},
    check::{self, Errors, FieldErrors, FieldPath, Read, child, default, made},
    kind::{Change, Column, Kind, Rules, Stored},
    resources,
};

pub(super) const KIND: Kind = Kind {
    rules: &HorizontalPodAutoscaler,
    has_status: true,
    stored: Some(Stored { group: "autoscaling", version: "v2", definition: None }),
    columns: &[
        Column::NAME,
        Column::string("Reference"),
        Column::string("Targets"),
        Column::string("MinPods"),
        Column::string("MaxPods"),
        Column::string("Replicas"),
        Column::AGE,
    ],
    cell,
    ..Kind::new("autoscaling", "horizontalpodautoscalers")
};

struct HorizontalPodAutoscaler;

impl Rules for HorizontalPodAutoscaler {
    fn convert(&self, object: &mut Value, (_, from): (&str, &str), (_, to): (&str, &str)) {
        match (from, to) {
            ("v1", "v2") => conversion::from_v1(object),
            ("v2", "v1") => conversion::to_v1(object),
            _ => {}
        }
    }

    fn default(&self, version: &str, object: &mut Value) {
        let spec = object::child(object, "spec");
        default(spec, "minReplicas", 1);
        if version != "v2" {
            return;
        }
        if spec.get("metrics").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            spec.insert("metrics".into(), json!([default_metric()]));
        }
        let Some(behavior) = child(spec, "behavior") else { return };
        let up = made(behavior, "scaleUp");
        default(up, "stabilizationWindowSeconds", 0);
        default(up, "selectPolicy", "Max");
        default(
            up,
            "policies",
            json!([
                {"type": "Pods", "value": 4, "periodSeconds": 15},
                {"type": "Percent", "value": 100, "periodSeconds": 15},
            ]),
        );
        let down = made(behavior, "scaleDown");
        default(down, "selectPolicy", "Max");
        default(down, "policies", json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]));
    }

    fn prepare_create(&self, _: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        // Objects sent in v1 may have no metrics yet: the default is set in the storage version.
        let spec = object::child(object, "spec");
        if spec.get("metrics").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            spec.insert("metrics".into(), json!([default_metric()]));
        }
        Ok(())
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        validate_spec(object.at("spec"), None, errors);
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        if change.is_status() {
            let at = FieldPath::root("status");
            for field in ["currentReplicas", "desiredReplicas"] {
                errors.not_negative(at.field(field), change.object.at("status").int(field));
            }
            return;
        }
        validate_spec(change.object.at("spec"), Some(change.old.at("spec")), errors);
    }
}

/// Returns the default metric: 80% CPU utilisation.
pub(crate) fn default_metric() -> Value {
    json!({
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
    })
}

/// Whether the old `scaleTargetRef` has an apiVersion without a group, or an invalid one. Both are then tolerated.
fn is_odd(reference: &Value) -> (bool, bool) {
    let version = reference.str("apiVersion");
    let invalid = version.matches('/').count() > 1;
    (!invalid && !version.contains('/'), invalid)
}

fn validate_spec(spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    let at = FieldPath::root("spec");
    let old_min = old.and_then(|old| old.opt_int("minReplicas"));
    let lowest = if old_min == Some(0) { 0 } else { 1 };
    let (min, max) = (spec.opt_int("minReplicas"), spec.int("maxReplicas"));
    if let Some(min) = min.filter(|min| *min < lowest) {
        let why = format!("must be greater than or equal to {lowest}");
        errors.invalid(at.field("minReplicas"), min, why);
    }
    if max == 0 {
        errors.required(at.field("maxReplicas"), "must be set and greater than 0");
    } else if max < 0 {
        errors.invalid(at.field("maxReplicas"), max, "must be greater than or equal to 1");
    }
    if min.is_some_and(|min| max < min) {
        errors.invalid(at.field("maxReplicas"), max, "must be greater than or equal to `minReplicas`");
    }
    let allowed = old.map_or((false, false), |old| is_odd(old.at("scaleTargetRef")));
    reference(at.field("scaleTargetRef"), spec.at("scaleTargetRef"), allowed, errors);
    let list = at.field("metrics");
    let metrics = spec.list("metrics");
    for (index, metric) in metrics.iter().enumerate() {
        validate_metric(list.index(index), metric, errors);
    }
    if min == Some(0) && !metrics.iter().any(|metric| matches!(metric.str("type"), "Object" | "External")) {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.forbidden(list, why);
    }
    for direction in ["scaleUp", "scaleDown"] {
        if let Some(rules) = spec.at("behavior").opt(direction) {
            let at = at.field("behavior");
            validate_rules(at.field(direction), rules, errors);
        }
    }
}

fn path_segment(at: FieldPath<'_>, text: &str, missing: &str, errors: &mut Errors) {
    if text.is_empty() {
        return errors.required(at, missing);
    }
    errors.all(&at, text, names::check(names::NameRule::PathSegment, text, false));
}

fn reference(at: FieldPath<'_>, reference: &Value, allowed: (bool, bool), errors: &mut Errors) {
    path_segment(at.field("kind"), reference.str("kind"), "", errors);
    path_segment(at.field("name"), reference.str("name"), "", errors);
    let version = reference.str("apiVersion");
    let (empty_group, invalid) = allowed;
    if invalid {
        return;
    }
    if version.matches('/').count() > 1 {
        errors.invalid(at.field("apiVersion"), version, format!("unexpected GroupVersion string: {version}"));
    } else if !empty_group && (!version.contains('/') || version.starts_with('/')) {
        errors.invalid(at.field("apiVersion"), version, "apiVersion must specify API group");
    }
}

const KINDS: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

fn validate_metric(at: FieldPath<'_>, metric: &Value, errors: &mut Errors) {
    let kind = metric.str("type");
    if kind.is_empty() {
        errors.required(at.field("type"), "must specify a metric source type");
    }
    if !KINDS.contains(&kind) {
        errors.unsupported(at.field("type"), kind, &KINDS);
    }
    let present: Vec<&str> = ["object", "external", "pods", "resource", "containerResource"]
        .into_iter()
        .filter(|field| metric.opt(field).is_some())
        .collect();
    if let Some(field) = present.first() {
        source(at.field(field), field, metric.at(field), errors);
    }
    let expected = match kind {
        "Object" => "object",
        "Pods" => "pods",
        "Resource" => "resource",
        "External" => "external",
        "ContainerResource" => "containerResource",
        other => {
            errors.unsupported(at.field("type"), other, &KINDS);
            ""
        }
    };
    if !expected.is_empty() && !present.contains(&expected) {
        errors.required(at.field(expected), "must populate information for the given metric source");
    }
    if present.len() != 1 {
        for field in present.into_iter().filter(|field| *field != expected) {
            errors.forbidden(at.field(field), "must populate the given metric source only");
        }
    }
}

fn source(at: FieldPath<'_>, kind: &str, source: &Value, errors: &mut Errors) {
    let target = source.at("target");
    let place = at.field("target");
    let has = |field: &str| target.opt(field).is_some();
    match kind {
        "object" => {
            reference(at.field("describedObject"), source.at("describedObject"), (true, false), errors);
            metric_name(at, source, errors);
            validate_target(place, target, errors);
            if !has("value") && !has("averageValue") {
                let why = "must set either a target value or averageValue";
                errors.required(place.field("averageValue"), why);
            }
        }
        "external" => {
            metric_name(at, source, errors);
            validate_target(place, target, errors);
            match (has("value"), has("averageValue")) {
                (false, false) => {
                    let why = "must set either a target value for metric or a per-pod target";
                    errors.required(place.field("averageValue"), why);
                }
                (true, true) => {
                    let why = "may not set both a target value for metric and a per-pod target";
                    errors.forbidden(place.field("value"), why);
                }
                _ => {}
            }
        }
        "pods" => {
            metric_name(at, source, errors);
            validate_target(place, target, errors);
            if !has("averageValue") {
                errors.required(place.field("averageValue"), "must specify a positive target averageValue");
            }
        }
        _ => {
            let name = source.str("name");
            if name.is_empty() {
                errors.required(at.field("name"), "must specify a resource name");
            } else if kind == "containerResource" {
                resources::container_name(at.field("name"), name, errors);
            }
            if kind == "containerResource" {
                match source.str("container") {
                    "" => errors.required(at.field("container"), "must specify a container"),
                    name => errors.all(&at.field("container"), name, names::label(name)),
                }
            }
            validate_target(place, target, errors);
            match (has("averageUtilization"), has("averageValue")) {
                (false, false) => {
                    let why = "must set either a target raw value or a target utilization";
                    errors.required(place.field("averageUtilization"), why);
                }
                (true, true) => {
                    let why = "may not set both a target raw value and a target utilization";
                    errors.forbidden(place.field("averageValue"), why);
                }
                _ => {}
            }
        }
    }
}

fn metric_name(at: FieldPath<'_>, source: &Value, errors: &mut Errors) {
    let at = at.field("metric");
    path_segment(at.field("name"), source.at("metric").str("name"), "must specify a metric name", errors);
}

fn validate_target(at: FieldPath<'_>, target: &Value, errors: &mut Errors) {
    let kind = target.str("type");
    if kind.is_empty() {
        errors.required(at.field("type"), "must specify a metric target type");
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        errors.invalid(at.field("type"), kind, "must be either Utilization, Value, or AverageValue");
    }
    for field in ["value", "averageValue"] {
        if let Some(amount) = target.opt_str(field).filter(|amount| quantity::nanos(amount) <= 0) {
            errors.invalid(at.field(field), amount, "must be positive");
        }
    }
    if let Some(percent) = target.opt_int("averageUtilization").filter(|percent| *percent < 1) {
        errors.invalid(at.field("averageUtilization"), percent, "must be greater than 0");
    }
}

fn validate_rules(at: FieldPath<'_>, rules: &Value, errors: &mut Errors) {
    if let Some(seconds) = rules.opt_int("stabilizationWindowSeconds") {
        let place = at.field("stabilizationWindowSeconds");
        if seconds < 0 {
            errors.invalid(place, seconds, "must be greater than or equal to zero");
        }
        if seconds > 3600 {
            errors.invalid(place, seconds, "must be less than or equal to 3600");
        }
    }
    let policies = ["Disabled", "Max", "Min"];
    if let Some(policy) = rules.opt_str("selectPolicy").filter(|policy| !policies.contains(policy)) {
        errors.unsupported(at.field("selectPolicy"), policy, &policies);
    }
    let list = at.field("policies");
    if rules.list("policies").is_empty() {
        errors.required(list, "must specify at least one Policy");
    }
    for (index, policy) in rules.list("policies").iter().enumerate() {
        let at = list.index(index);
        if !matches!(policy.str("type"), "Pods" | "Percent") {
            errors.unsupported(at.field("type"), policy.str("type"), &["Percent", "Pods"]);
        }
        for field in ["value", "periodSeconds"] {
            if policy.int(field) <= 0 {
                errors.invalid(at.field(field), policy.int(field), check::NOT_POSITIVE);
            }
        }
        if policy.int("periodSeconds") > 1800 {
            let why = "must be less than or equal to 1800";
            errors.invalid(at.field("periodSeconds"), policy.int("periodSeconds"), why);
        }
    }
    if let Some(tolerance) = rules.opt_str("tolerance").filter(|text| quantity::is_negative(text)) {
        errors.invalid(at.field("tolerance"), tolerance, check::NEGATIVE);
    }
}

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    let spec = &object["spec"];
    Some(match column {
        "Reference" => {
            let target = &spec["scaleTargetRef"];
            let part = |key: &str| target[key].as_str().unwrap_or_default();
            format!("{}/{}", part("kind"), part("name")).into()
        }
        "Targets" => metrics(object).into(),
        "MinPods" => {
            spec["minReplicas"].as_i64().map_or_else(|| "<unset>".to_owned(), |n| n.to_string()).into()
        }
        "MaxPods" => number(spec, &["maxReplicas"]).into(),
        "Replicas" => number(object, &["status", "currentReplicas"]).into(),
        _ => return None,
    })
}

fn metrics(object: &Value) -> String {
    const UNKNOWN: &str = "<unknown>";
    let percent = |n: &Value| n.as_i64().map(|n| format!("{n}%"));
    // v1 has only CPU utilisation.
    if let Some(target) = percent(&object["spec"]["targetCPUUtilizationPercentage"]) {
        let current = percent(&object["status"]["currentCPUUtilizationPercentage"]);
        return format!("cpu: {}/{target}", current.as_deref().unwrap_or(UNKNOWN));
    }
    let specs = list(object, &["spec", "metrics"]);
    if specs.is_empty() {
        return "<none>".into();
    }
    let statuses = list(object, &["status", "currentMetrics"]);
    let all = specs.iter().enumerate().map(|(i, spec)| {
        let source = match spec["type"].as_str().unwrap_or_default() {
            "External" => "external",
            "Pods" => "pods",
            "Object" => "object",
            "Resource" => "resource",
            "ContainerResource" => "containerResource",
            _ => return "<unknown type>".to_owned(),
        };
        let target = &spec[source]["target"];
        let current = statuses.get(i).map_or(&Value::Null, |s| &s[source]["current"]);
        let shown = |value: &Value| if value.is_null() { UNKNOWN.to_owned() } else { plain(value) };
        let average = &target["averageValue"];
        match source {
            "resource" | "containerResource" => {
                let name = spec[source]["name"].as_str().unwrap_or_default();
                if average.is_null() {
                    let current = percent(&current["averageUtilization"]);
                    let target = percent(&target["averageUtilization"]);
                    let (current, target) =
                        (current.as_deref().unwrap_or(UNKNOWN), target.as_deref().unwrap_or("<auto>"));
                    format!("{name}: {current}/{target}")
                } else {
                    format!("{name}: {}/{}", shown(&current["averageValue"]), plain(average))
                }
            }
            "pods" => format!("{}/{}", shown(&current["averageValue"]), shown(average)),
            _ if average.is_null() => format!("{}/{}", shown(&current["value"]), shown(&target["value"])),
            _ => format!("{}/{} (avg)", shown(&current["averageValue"]), plain(average)),
        }
    });
    first_of(&all.collect::<Vec<_>>(), 2, ", ")
}
