//! PodDisruptionBudget.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::Value;
use steersman_api::{
    names::{self, NameRule},
    object,
    table::Cell,
};

use crate::{
    cells::{number, plain},
    check::{self, Errors, FieldErrors, FieldPath, Read},
    internal,
    kind::{Change, Column, Kind, Rules},
    workload::{at_most_all, int_or_percent},
};

pub(super) const KIND: Kind = Kind {
    rules: &PodDisruptionBudget,
    names: NameRule::PathSegment,
    has_generation: true,
    has_status: true,
    allows_unconditional_update: false,
    checks_finalizers: false,
    columns: &[
        Column::NAME,
        Column::string("Min Available"),
        Column::string("Max Unavailable"),
        Column::integer("Allowed Disruptions"),
        Column::AGE,
    ],
    cell,
    ..Kind::new("policy", "poddisruptionbudgets")
};

struct PodDisruptionBudget;

impl Rules for PodDisruptionBudget {
    fn validate(&self, object: &Value, errors: &mut Errors) {
        let (at, spec) = (FieldPath::root("spec"), object.at("spec"));
        let (least, most) = (spec.opt("minAvailable"), spec.opt("maxUnavailable"));
        if let (Some(least), Some(most)) = (least, most) {
            let selector = internal::show("*meta.LabelSelector", spec.at("selector"));
            let policy = spec.opt_str("unhealthyPodEvictionPolicy").map_or(Value::Null, Value::from);
            let shown = format!(
                "{{\"MinAvailable\":{least},\"Selector\":{selector},\"MaxUnavailable\":{most},\"UnhealthyPodEvictionPolicy\":{policy}}}"
            );
            errors.invalid_shown(at, shown, "minAvailable and maxUnavailable cannot be both set");
        }
        for (field, value) in [("minAvailable", least), ("maxUnavailable", most)] {
            if let Some(value) = value {
                int_or_percent(at.field(field), value, errors);
                at_most_all(at.field(field), value, errors);
            }
        }
        check::label_selector(at.field("selector"), spec.at("selector"), errors);
        let policies = ["AlwaysAllow", "IfHealthyBudget"];
        let field = "unhealthyPodEvictionPolicy";
        if let Some(policy) = spec.opt_str(field).filter(|policy| !policies.contains(policy)) {
            errors.unsupported(at.field(field), policy, &policies);
        }
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        if !change.is_status() {
            return self.validate(change.object, errors);
        }
        let (at, status) = (FieldPath::root("status"), change.object.at("status"));
        conditions(at.field("conditions"), status.list("conditions"), errors);
        for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            errors.not_negative(at.field(field), status.int(field));
        }
    }
}

/// Validates a list of `metav1.Condition`.
fn conditions(at: FieldPath<'_>, conditions: &[Value], errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let at = at.index(index);
        let kind = condition.str("type");
        if seen.contains(&kind) {
            errors.duplicate(at.field("type"), kind);
        }
        seen.insert(kind);
        errors.all(&at.field("type"), kind, names::qualified(kind));
        let states = ["False", "True", "Unknown"];
        if !states.contains(&condition.str("status")) {
            errors.unsupported(at.field("status"), condition.str("status"), &states);
        }
        if condition.int("observedGeneration") < 0 {
            let why = "must be greater than or equal to zero";
            errors.invalid(at.field("observedGeneration"), condition.int("observedGeneration"), why);
        }
        if condition.str("lastTransitionTime").is_empty() {
            errors.required(at.field("lastTransitionTime"), "");
        }
        match condition.str("reason") {
            "" => errors.required(at.field("reason"), ""),
            reason if !is_reason(reason) => {
                let why = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";
                errors.invalid(at.field("reason"), reason, why);
            }
            _ => {}
        }
    }
}

fn is_reason(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(|c| c.is_ascii_alphanumeric() || *c == b'_')
        && bytes.iter().all(|c| c.is_ascii_alphanumeric() || b"_,:".contains(c))
}

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    let amount =
        |field: &str| object::get(object, &["spec", field]).map_or_else(|| "N/A".to_owned(), plain).into();
    Some(match column {
        "Min Available" => amount("minAvailable"),
        "Max Unavailable" => amount("maxUnavailable"),
        "Allowed Disruptions" => number(object, &["status", "disruptionsAllowed"]).into(),
        _ => return None,
    })
}
