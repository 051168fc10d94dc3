//! LimitRange.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use steersman_api::{names, object, schema::quantity};

use crate::{
    check::{self, Errors, FieldErrors, FieldPath, Read},
    kind::{Change, Kind, Rules},
    resources,
};

pub(super) const KIND: Kind =
    Kind { rules: &LimitRange, allows_create_on_update: true, ..Kind::new("", "limitranges") };

struct LimitRange;

impl Rules for LimitRange {
    fn default(&self, _: &str, object: &mut Value) {
        let spec = object::child(object, "spec");
        for limit in check::children(spec, "limits").filter(|l| l.get("type") == Some(&"Container".into())) {
            fill(limit, "default", &["max"]);
            fill(limit, "defaultRequest", &["default", "min"]);
        }
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let at = FieldPath::root("spec");
        let at = at.field("limits");
        let mut kinds = BTreeSet::new();
        for (index, limit) in object.at("spec").list("limits").iter().enumerate() {
            let at = at.index(index);
            let kind = limit.str("type");
            let complaints = names::qualified(kind);
            if !complaints.is_empty() {
                errors.all(&at.field("type"), kind, complaints);
            } else if !kind.contains('/') && !matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim") {
                errors.invalid(at.field("type"), kind, "must be a standard limit type or fully qualified");
            }
            if !kinds.insert(kind) {
                errors.duplicate(at.field("type"), kind);
            }
            validate_limit(at, kind, limit, errors);
        }
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.whole_metadata(errors);
        self.validate(change.object, errors);
    }
}

/// Defaults missing entries of a field from other fields; the first source has precedence.
fn fill(limit: &mut Map<String, Value>, field: &str, sources: &[&str]) {
    let mut found: Vec<(String, Value)> = Vec::new();
    for source in sources {
        for (name, value) in limit.get(*source).and_then(Value::as_object).into_iter().flatten() {
            if !found.iter().any(|(other, _)| other == name) {
                found.push((name.clone(), value.clone()));
            }
        }
    }
    if found.is_empty() && limit.get(field).is_none_or(Value::is_null) {
        return;
    }
    let target = check::made(limit, field);
    for (name, value) in found {
        target.entry(name).or_insert(value);
    }
}

fn validate_limit(at: FieldPath<'_>, kind: &str, limit: &Value, errors: &mut Errors) {
    let validate_name: resources::ValidateName = match kind {
        "Pod" | "Container" => resources::container_name,
        _ => resources::any_name,
    };
    let mut keys: BTreeSet<&str> = BTreeSet::new();
    for field in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        let place = at.field(field);
        if kind == "Pod" && field.starts_with("default") {
            if limit.pairs(field).next().is_some() {
                errors.forbidden(place, "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        for (name, _) in limit.pairs(field) {
            validate_name(place.key(name), name, errors);
            keys.insert(name);
        }
    }
    if kind == "PersistentVolumeClaim"
        && limit.at("min").opt("storage").is_none()
        && limit.at("max").opt("storage").is_none()
    {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        errors.required(at.field("limits"), why);
    }
    for name in keys {
        compare(at, kind, limit, name, errors);
    }
}

fn compare(at: FieldPath<'_>, kind: &str, limit: &Value, name: &str, errors: &mut Errors) {
    let of = |field: &str| {
        if kind == "Pod" && field.starts_with("default") { None } else { limit.at(field).opt_str(name) }
    };
    let (min, max) = (of("min"), of("max"));
    let (default, request) = (of("default"), of("defaultRequest"));
    let mut greater =
        |a: Option<&str>, a_is: &str, b: Option<&str>, b_is: &str, field: &str, shown: Option<&str>| {
            if let (Some(a), Some(b), Some(shown)) = (a, b, shown)
                && quantity::nanos(a) > quantity::nanos(b)
            {
                let place = at.field(field);
                errors.invalid(
                    place.key(name),
                    shown,
                    format!("{a_is} value {a} is greater than {b_is} value {b}"),
                );
            }
        };
    greater(min, "min", max, "max", "min", min);
    greater(min, "min", request, "default request", "defaultRequest", request);
    greater(request, "default request", max, "max", "defaultRequest", request);
    greater(request, "default request", default, "default limit", "defaultRequest", request);
    greater(min, "min", default, "default", "default", min);
    greater(default, "default", max, "max", "default", max);
    if let Some(ratio) = of("maxLimitRequestRatio") {
        let place = at.field("maxLimitRequestRatio");
        if quantity::nanos(ratio) < 1_000_000_000 {
            errors.invalid(place.key(name), ratio, format!("ratio {ratio} is less than 1"));
        }
        if let (Some(min), Some(max)) = (min, max) {
            let number = |text: &str| quantity::nanos(text) as f64;
            let most = number(max) / number(min);
            if number(ratio) / 1e9 > most {
                let why = format!("ratio {ratio} is greater than max/min = {most:.6}");
                errors.invalid(place.key(name), ratio, why);
            }
        }
    }
    if let (false, Some(default), Some(request)) = (resources::is_overcommitted(name), default, request)
        && quantity::nanos(default) != quantity::nanos(request)
    {
        let why = format!("default value {default} must equal to defaultRequest value {request} in {name}");
        let place = at.field("defaultRequest");
        errors.invalid(place.key(name), request, why);
    }
}
