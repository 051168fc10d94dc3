//! PriorityLevelConfiguration.

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_api::{object, table::Cell};

use super::check_conditions;
use crate::{
    cells::{or_none, text},
    check::{Errors, FieldErrors, FieldPath, Read, between, child, default, default_zero},
    internal,
    kind::{Change, Column, Kind, Rules},
};

pub(super) const KIND: Kind = Kind {
    rules: &PriorityLevelConfiguration,
    has_generation: true,
    has_status: true,
    reset_fields: &[("status", &[&["metadata"], &["spec"]])],
    columns: &[
        Column::NAME,
        Column::string("Type"),
        Column::string("NominalConcurrencyShares"),
        Column::string("Queues"),
        Column::string("HandSize"),
        Column::string("QueueLengthLimit"),
        Column::AGE,
    ],
    cell,
    ..Kind::new("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations")
};

struct PriorityLevelConfiguration;

const MAX_QUEUES: i64 = 10_000_000;
/// Number of hash bits available for shuffle sharding of requests to queues.
const MAX_HASH_BITS: i64 = 60;
const NEGATIVE: &str = "must be a non-negative integer";

impl Rules for PriorityLevelConfiguration {
    fn default(&self, _: &str, object: &mut Value) {
        let Some(spec) = child(object::ensure(object), "spec") else { return };
        if let Some(exempt) = child(spec, "exempt") {
            default(exempt, "nominalConcurrencyShares", 0);
            default(exempt, "lendablePercent", 0);
        }
        if let Some(limited) = child(spec, "limited") {
            default(limited, "nominalConcurrencyShares", 30);
            default(limited, "lendablePercent", 0);
            if let Some(queuing) = child(limited, "limitResponse").and_then(|r| child(r, "queuing")) {
                default_zero(queuing, "handSize", 8);
                default_zero(queuing, "queues", 64);
                default_zero(queuing, "queueLengthLimit", 50);
            }
        }
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        check_spec(object::name(object), object.at("spec"), FieldPath::root("spec"), errors);
        check_fixed(object, errors);
        check_conditions(object, errors);
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        if change.is_status() {
            return check_conditions(change.object, errors);
        }
        self.validate(change.object, errors);
    }
}

fn check_spec(name: &str, spec: &Value, at: FieldPath<'_>, errors: &mut Errors) {
    let kind = spec.str("type");
    if (name == "exempt") != (kind == "Exempt") {
        errors.invalid(at.field("type"), kind, "must be 'Exempt' if and only if `name` is 'exempt'");
    }
    match kind {
        "Exempt" => {
            if spec.opt("limited").is_some() {
                errors.forbidden(at.field("limited"), "must be nil if the type is not Limited");
            }
            if let Some(exempt) = spec.opt("exempt") {
                let at = at.field("exempt");
                check_shares(exempt, &at, errors);
                check_lendable(exempt, &at, errors);
            }
        }
        "Limited" => {
            if spec.opt("exempt").is_some() {
                errors.forbidden(at.field("exempt"), "must be nil if the type is Limited");
            }
            match spec.opt("limited") {
                None => errors.required(at.field("limited"), "must not be empty when type is Limited"),
                Some(limited) => check_limited(limited, at.field("limited"), errors),
            }
        }
        "" => errors.required(at.field("type"), ""),
        other => errors.unsupported(at.field("type"), other, &["Exempt", "Limited"]),
    }
}

/// Validates that the mandatory levels `exempt` and `catch-all` have their fixed spec.
fn check_fixed(object: &Value, errors: &mut Errors) {
    let (name, spec) = (object::name(object), object.at("spec"));
    let (is_fixed, except) = match name {
        // The shares and lendable percentage of `exempt` can be changed.
        "exempt" => {
            (spec.str("type") == "Exempt" && spec.opt("limited").is_none(), " except the 'spec.exempt' field")
        }
        "catch-all" => {
            let limited = json!({"nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"}});
            (*spec == json!({"type": "Limited", "limited": limited}), "")
        }
        _ => return,
    };
    if !is_fixed {
        let why = format!("spec of '{name}'{except} must equal the fixed value");
        errors.invalid_shown("spec", internal::show("flowcontrol.PriorityLevelConfigurationSpec", spec), why);
    }
}

fn check_shares(level: &Value, at: &FieldPath<'_>, errors: &mut Errors) {
    let shares = level.int("nominalConcurrencyShares");
    if shares < 0 {
        errors.invalid(at.field("nominalConcurrencyShares"), shares, NEGATIVE);
    }
}

fn check_lendable(level: &Value, at: &FieldPath<'_>, errors: &mut Errors) {
    let percent = level.int("lendablePercent");
    if !(0..=100).contains(&percent) {
        errors.invalid(at.field("lendablePercent"), percent, between(0, 100));
    }
}

fn check_limited(limited: &Value, at: FieldPath<'_>, errors: &mut Errors) {
    check_shares(limited, &at, errors);
    let (response, place) = (limited.at("limitResponse"), at.field("limitResponse"));
    match response.str("type") {
        "Reject" => {
            if response.opt("queuing").is_some() {
                let why = "must be nil if limited.limitResponse.type is not Limited";
                errors.forbidden(place.field("queuing"), why);
            }
        }
        "Queue" => match response.opt("queuing") {
            None => {
                let why = "must not be empty if limited.limitResponse.type is Limited";
                errors.required(place.field("queuing"), why);
            }
            Some(queuing) => check_queuing(queuing, place.field("queuing"), errors),
        },
        "" => errors.required(place.field("type"), ""),
        other => errors.unsupported(place.field("type"), other, &["Queue", "Reject"]),
    }
    check_lendable(limited, &at, errors);
    let limit = limited.int("borrowingLimitPercent");
    if limit < 0 {
        let why = format!("if specified, {NEGATIVE}");
        errors.invalid(at.field("borrowingLimitPercent"), limit, why);
    }
}

fn check_queuing(queuing: &Value, at: FieldPath<'_>, errors: &mut Errors) {
    const NOT_POSITIVE: &str = "must be positive";
    let (queues, hand) = (queuing.int("queues"), queuing.int("handSize"));
    let length = queuing.int("queueLengthLimit");
    if length <= 0 {
        errors.invalid(at.field("queueLengthLimit"), length, NOT_POSITIVE);
    }
    if queues <= 0 {
        errors.invalid(at.field("queues"), queues, NOT_POSITIVE);
    } else if queues > MAX_QUEUES {
        errors.invalid(at.field("queues"), queues, format!("must not be greater than {MAX_QUEUES}"));
    }
    let why = if hand <= 0 {
        NOT_POSITIVE.to_owned()
    } else if hand > queues {
        format!("should not be greater than queues ({queues})")
    } else if ((queues as f64).log2() * hand as f64).ceil() as i64 > MAX_HASH_BITS {
        format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {MAX_HASH_BITS}"
        )
    } else {
        return;
    };
    errors.invalid(at.field("handSize"), hand, why);
}

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    let limited = object.at("spec").at("limited");
    let queuing = limited.at("limitResponse").at("queuing");
    let number = |of: &Value, field: &str| Some(of.opt_int(field).map_or_else(|| or_none(""), Cell::from));
    match column {
        "Type" => Some(text(object, &["spec", "type"])),
        "NominalConcurrencyShares" => number(limited, "nominalConcurrencyShares"),
        "Queues" => number(queuing, "queues"),
        "HandSize" => number(queuing, "handSize"),
        "QueueLengthLimit" => number(queuing, "queueLengthLimit"),
        _ => None,
    }
}
