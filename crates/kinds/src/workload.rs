//! Pod templates, selectors and replica counts, common to workloads.

use serde_json::{Map, Value};
use steersman_api::{names, object};

use crate::{
    check::{self, Errors, FieldErrors, FieldPath, IMMUTABLE, Read, made},
    core::pod,
    internal,
    kind::Change,
};

/// Sets defaults of the pod template in a spec.
pub(crate) fn default_template(spec: &mut Map<String, Value>) {
    pod::defaults::spec(made(made(spec, "template"), "spec"));
}

/// Drops disabled fields from the pod template.
pub(crate) fn drop_disabled(object: &mut Value) {
    pod::defaults::drop_disabled(made(made(object::child(object, "spec"), "template"), "spec"));
}

/// Reports negative values of fields.
pub(crate) fn not_negative(at: FieldPath<'_>, spec: &Value, fields: &[&str], errors: &mut Errors) {
    for field in fields {
        if let Some(number) = spec.opt_int(field) {
            errors.not_negative(at.field(field), number);
        }
    }
}

/// Whether a selector is valid. An absent one is, and selects nothing.
pub(crate) fn is_sound(selector: &Value) -> bool {
    let mut errors = Errors::new();
    check::label_selector(FieldPath::root(""), selector, &mut errors);
    errors.is_empty()
}

/// Validates a workload's selector; errors name the kind `called`.
pub(crate) fn validate_selector(at: FieldPath<'_>, spec: &Value, called: &str, errors: &mut Errors) {
    let place = at.field("selector");
    match spec.opt("selector") {
        None => errors.required(place, ""),
        Some(selector) => {
            check::label_selector(place, selector, errors);
            if check::is_empty_selector(selector) {
                let why = format!("empty selector is invalid for {called}");
                errors.invalid_shown(place, shown_selector(selector), why);
            }
        }
    }
}

/// Formats a selector with the field order of its Go type.
pub(crate) fn shown_selector(selector: &Value) -> String {
    internal::show("*meta.LabelSelector", selector)
}

/// Reports a selector that does not match the template's labels.
pub(crate) fn mismatch(at: FieldPath<'_>, spec: &Value, errors: &mut Errors) {
    let labels = spec.path(&["template", "metadata", "labels"]);
    let matches = spec.opt("selector").is_some_and(|selector| check::selects(selector, labels));
    if !matches {
        let template = at.field("template");
        let metadata = template.field("metadata");
        errors.invalid(
            metadata.field("labels"),
            labels.clone(),
            "`selector` does not match template `labels`",
        );
    }
}

/// Validates the template of a kind with pods that never complete.
pub(crate) fn always_running(at: FieldPath<'_>, spec: &Value, called: &str, errors: &mut Errors) {
    let template = at.field("template");
    let place = template.field("spec");
    let pod = spec.path(&["template", "spec"]);
    if pod.str("restartPolicy") != "Always" {
        errors.unsupported(place.field("restartPolicy"), pod.str("restartPolicy"), &["Always"]);
    }
    if pod.opt("activeDeadlineSeconds").is_some() {
        let why = format!("activeDeadlineSeconds in {called} is not Supported");
        errors.forbidden(place.field("activeDeadlineSeconds"), why);
    }
}

/// Validates the selector and template of Deployments and ReplicaSets.
pub(crate) fn replica_template(at: FieldPath<'_>, spec: &Value, errors: &mut Errors) {
    validate_selector(at, spec, "deployment", errors);
    if !is_sound(spec.at("selector")) {
        let shown = shown_selector(spec.at("selector"));
        return errors.invalid_shown(at.field("selector"), shown, "invalid label selector");
    }
    let everything = spec.opt("selector").is_some_and(check::is_empty_selector);
    if !everything {
        mismatch(at, spec, errors);
    }
    pod::validate_template(at.field("template"), spec.at("template"), errors);
    always_running(at, spec, "ReplicaSet", errors);
}

pub(crate) fn same_selector(change: Change<'_>, errors: &mut Errors) {
    let path = ["spec", "selector"];
    if change.object.path(&path) != change.old.path(&path) {
        errors.invalid_shown("spec.selector", shown_selector(change.object.path(&path)), IMMUTABLE);
    }
}

/// Validates an integer or percentage.
pub(crate) fn int_or_percent(at: FieldPath<'_>, value: &Value, errors: &mut Errors) {
    match value {
        Value::String(text) => errors.all(&at, text, check::percent(text)),
        value => errors.not_negative(at, value.as_i64().unwrap_or_default()),
    }
}

/// Returns the number in an integer or percentage, and whether it is a percentage.
pub(crate) fn amount(value: &Value) -> (i64, bool) {
    match value {
        Value::String(text) if check::percent(text).is_empty() => {
            (text.trim_end_matches('%').parse().unwrap_or_default(), true)
        }
        Value::String(text) => (text.parse().unwrap_or_default(), false),
        value => (value.as_i64().unwrap_or_default(), false),
    }
}

/// Reports percentages above 100%.
pub(crate) fn at_most_all(at: FieldPath<'_>, value: &Value, errors: &mut Errors) {
    if let (percent, true) = amount(value)
        && percent > 100
    {
        errors.invalid(at, value.clone(), "must not be greater than 100%");
    }
}

pub(crate) fn template_warnings(object: &Value, old: Option<&Value>, named: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    if old.is_none() && named {
        warnings.extend(name_warning(object));
    }
    if old.is_none_or(|old| object::generation(old) != object::generation(object)) {
        warnings.extend(pod::warnings_of("spec.template", object.path(&["spec", "template"])));
    }
    warnings
}

/// Returns the warning about a name that is not valid in pod hostnames.
pub(crate) fn name_warning(object: &Value) -> Option<String> {
    let complaints = names::label(object::name(object));
    (!complaints.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{}]",
            complaints.join(" ")
        )
    })
}

/// Validates the replica counts of a status.
pub(crate) fn replica_counts(status: &Value, counts: &[&str], available: &str, errors: &mut Errors) {
    let at = FieldPath::root("status");
    let all = status.int("replicas");
    for field in counts {
        if status.int(field) > all {
            let why = "cannot be greater than status.replicas";
            errors.invalid(at.field(field), status.int(field), why);
        }
    }
    if status.int("availableReplicas") > status.int("readyReplicas") {
        let why = format!("cannot be greater than {available}");
        errors.invalid(at.field("availableReplicas"), status.int("availableReplicas"), why);
    }
}

pub(crate) fn collisions(change: Change<'_>, errors: &mut Errors) {
    let count = |object: &Value| object.at("status").opt_int("collisionCount");
    if let Some(then) = count(change.old) {
        let now = count(change.object).unwrap_or_default();
        if now < then {
            errors.invalid("status.collisionCount", now, "cannot be decremented");
        }
    }
}

/// Returns an integer or percentage as JSON, or 0.
pub(crate) fn shown_amount(value: &Value) -> String {
    if value.is_null() { "0".to_owned() } else { value.to_string() }
}

/// Validates the status of ReplicaSets and ReplicationControllers.
pub(crate) fn replica_status(status: &Value, errors: &mut Errors) {
    let fields = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    not_negative(FieldPath::root("status"), status, &fields, errors);
    let counts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    replica_counts(status, &counts, "readyReplicas", errors);
}
