//! ResourceQuota.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;
use steersman_api::{object, status::ApiResult, strategy::Hook, table::Cell};

use crate::{
    cells::plain,
    check::{Errors, FieldErrors, FieldPath, IMMUTABLE, Read},
    internal,
    kind::{Change, Column, Kind, Rules},
    resources,
};

pub(super) const KIND: Kind = Kind {
    rules: &ResourceQuota,
    has_status: true,
    columns: &[Column::NAME, Column::string("Request"), Column::string("Limit"), Column::AGE],
    cell,
    ..Kind::new("", "resourcequotas")
};

struct ResourceQuota;

impl Rules for ResourceQuota {
    fn prepare_create(&self, _: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        object::ensure(object).remove("status");
        Ok(())
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        validate_quota(object, errors);
        validate_quota_status(object, errors);
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.metadata(errors);
        if change.is_status() {
            return validate_quota_status(change.object, errors);
        }
        validate_quota(change.object, errors);
        let scopes = |object: &Value| -> BTreeSet<String> {
            object.at("spec").strs("scopes").into_iter().map(str::to_owned).collect()
        };
        if scopes(change.object) != scopes(change.old) {
            errors.invalid("spec.scopes", change.object.path(&["spec", "scopes"]).clone(), IMMUTABLE);
        }
    }
}

fn amounts(at: FieldPath<'_>, value: &Value, field: &str, errors: &mut Errors) {
    let at = at.field(field);
    for (name, amount) in value.pairs(field) {
        resources::quota_name(at.key(name), name, errors);
        resources::amount(at.key(name), name, amount, errors);
    }
}

fn validate_quota_status(object: &Value, errors: &mut Errors) {
    let at = FieldPath::root("status");
    amounts(at, object.at("status"), "hard", errors);
    amounts(at, object.at("status"), "used", errors);
}

fn is_scope(scope: &str) -> bool {
    matches!(
        scope,
        "Terminating"
            | "NotTerminating"
            | "BestEffort"
            | "NotBestEffort"
            | "PriorityClass"
            | "VolumeAttributesClass"
            | "CrossNamespacePodAffinity"
    )
}

fn scope_covers(scope: &str, resource: &str) -> bool {
    match scope {
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => {
            matches!(
                resource,
                "pods"
                    | "cpu"
                    | "memory"
                    | "limits.cpu"
                    | "limits.memory"
                    | "requests.cpu"
                    | "requests.memory"
            )
        }
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

fn validate_quota(object: &Value, errors: &mut Errors) {
    let at = FieldPath::root("spec");
    let spec = object.at("spec");
    amounts(at, spec, "hard", errors);
    let uncovered = |scope: &str| {
        spec.pairs("hard")
            .filter(|(name, _)| resources::is_quota_name(name) && !scope_covers(scope, name))
            .count()
    };
    let scopes = spec.strs("scopes");
    let place = at.field("scopes");
    for scope in &scopes {
        if !is_scope(scope) {
            errors.invalid(place, spec.shown("scopes"), "unsupported scope");
        }
        for _ in 0..uncovered(scope) {
            errors.invalid(place, spec.shown("scopes"), "unsupported scope applied to resource");
        }
    }
    conflicts(place, &scopes, spec, errors);
    let Some(selector) = spec.opt("scopeSelector") else { return };
    let place = at.field("scopeSelector");
    let place = place.field("matchExpressions");
    let mut named = Vec::new();
    for requirement in selector.list("matchExpressions") {
        let (scope, operator) = (requirement.str("scopeName"), requirement.str("operator"));
        if !is_scope(scope) {
            errors.invalid(place.field("scopeName"), scope, "unsupported scope");
        }
        for _ in 0..uncovered(scope) {
            let shown = internal::show("core.ScopeSelector", selector);
            errors.invalid_shown(place, shown, "unsupported scope applied to resource");
        }
        let plain = is_scope(scope) && !matches!(scope, "PriorityClass" | "VolumeAttributesClass");
        if plain && operator != "Exists" {
            let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.invalid(place.field("operator"), operator, why);
        }
        let values = requirement.list("values");
        match operator {
            "In" | "NotIn" => {
                if values.is_empty() {
                    let why =
                        "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                    errors.required(place.field("values"), why);
                }
            }
            "Exists" | "DoesNotExist" => {
                if !values.is_empty() {
                    let why =
                        "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                    errors.invalid(place.field("values"), requirement.shown("values"), why);
                }
            }
            other => errors.invalid(place.field("operator"), other, "not a valid selector operator"),
        }
        named.push(scope);
    }
    conflicts(place, &named, spec, errors);
}

fn conflicts(at: FieldPath<'_>, scopes: &[&str], spec: &Value, errors: &mut Errors) {
    for (a, b) in [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")] {
        if scopes.contains(&a) && scopes.contains(&b) {
            errors.invalid(at, spec.shown("scopes"), "conflicting scopes");
        }
    }
}

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    let limits = match column {
        "Request" => false,
        "Limit" => true,
        _ => return None,
    };
    let hard = object["status"]["hard"].as_object();
    let parts = hard.into_iter().flatten().filter(|(name, _)| name.starts_with("limits.") == limits);
    let parts = parts.map(|(name, hard)| {
        let used = object["status"]["used"][name].as_str().unwrap_or("0");
        format!("{name}: {used}/{}", plain(hard))
    });
    Some(parts.collect::<Vec<_>>().join(", ").into())
}
