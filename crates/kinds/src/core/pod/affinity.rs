//! Scheduling constraints of pods: affinities, tolerations and topology spread constraints.

use serde_json::Value;

use crate::check::{self, Errors, FieldErrors, FieldPath, Read};
use steersman_api::names;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn validate(at: FieldPath<'_>, affinity: &Value, errors: &mut Errors) {
    if let Some(node) = affinity.opt("nodeAffinity") {
        let at = at.field("nodeAffinity");
        if let Some(selector) = node.opt(REQUIRED) {
            node_selector(at.field(REQUIRED), selector, errors);
        }
        let list = at.field(PREFERRED);
        for (index, term) in node.list(PREFERRED).iter().enumerate() {
            let at = list.index(index);
            weight(at, term, errors);
            node_term(at.field("preference"), term.at("preference"), false, errors);
        }
    }
    for field in ["podAffinity", "podAntiAffinity"] {
        let Some(pods) = affinity.opt(field) else { continue };
        let at = at.field(field);
        let list = at.field(REQUIRED);
        for (index, term) in pods.list(REQUIRED).iter().enumerate() {
            pod_term(list.index(index), term, errors);
        }
        let list = at.field(PREFERRED);
        for (index, term) in pods.list(PREFERRED).iter().enumerate() {
            let at = list.index(index);
            weight(at, term, errors);
            pod_term(at.field("podAffinityTerm"), term.at("podAffinityTerm"), errors);
        }
    }
}

fn weight(at: FieldPath<'_>, term: &Value, errors: &mut Errors) {
    let weight = term.int("weight");
    if !(1..=100).contains(&weight) {
        errors.invalid(at.field("weight"), weight, "must be in the range 1-100");
    }
}

/// Validates a node selector.
pub(crate) fn node_selector(at: FieldPath<'_>, selector: &Value, errors: &mut Errors) {
    let list = at.field("nodeSelectorTerms");
    let terms = selector.list("nodeSelectorTerms");
    if terms.is_empty() {
        return errors.required(list, "must have at least one node selector term");
    }
    for (index, term) in terms.iter().enumerate() {
        node_term(list.index(index), term, true, errors);
    }
}

fn node_term(at: FieldPath<'_>, term: &Value, values_checked: bool, errors: &mut Errors) {
    let list = at.field("matchExpressions");
    for (index, requirement) in term.list("matchExpressions").iter().enumerate() {
        let at = list.index(index);
        let values = requirement.list("values");
        match requirement.str("operator") {
            "In" | "NotIn" => {
                if values.is_empty() {
                    let why = "must be specified when `operator` is 'In' or 'NotIn'";
                    errors.required(at.field("values"), why);
                }
            }
            "Exists" | "DoesNotExist" => {
                if !values.is_empty() {
                    let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                    errors.forbidden(at.field("values"), why);
                }
            }
            "Gt" | "Lt" => {
                if values.len() != 1 {
                    let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                    errors.required(at.field("values"), why);
                }
            }
            other => errors.invalid(at.field("operator"), other, "not a valid selector operator"),
        }
        errors.all(&at.field("key"), requirement.str("key"), names::qualified(requirement.str("key")));
        let place = at.field("values");
        for (index, value) in values.iter().enumerate().filter(|_| values_checked) {
            let value = value.as_str().unwrap_or_default();
            errors.all(&place.index(index), value, names::label_value(value));
        }
    }
    let list = at.field("matchFields");
    for (index, requirement) in term.list("matchFields").iter().enumerate() {
        let at = list.index(index);
        let values = requirement.strs("values");
        match requirement.str("operator") {
            "In" | "NotIn" => {
                if values.len() != 1 {
                    let why =
                        "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                    errors.required(at.field("values"), why);
                }
            }
            other => errors.invalid(at.field("operator"), other, "not a valid selector operator"),
        }
        if requirement.str("key") != "metadata.name" {
            let key = requirement.str("key");
            errors.invalid(at.field("key"), key, "not a valid field selector key");
            continue;
        }
        let place = at.field("values");
        for (index, value) in values.into_iter().enumerate() {
            errors.all(&place.index(index), value, names::subdomain(value));
        }
    }
}

fn pod_term(at: FieldPath<'_>, term: &Value, errors: &mut Errors) {
    check::label_selector(at.field("labelSelector"), term.at("labelSelector"), errors);
    check::label_selector(at.field("namespaceSelector"), term.at("namespaceSelector"), errors);
    for name in term.strs("namespaces") {
        errors.all(&at.field("namespace"), name, names::label(name));
    }
    let mismatch = term.strs("mismatchLabelKeys");
    label_keys(at, &term.strs("matchLabelKeys"), &mismatch, term.at("labelSelector"), errors);
    let key = term.str("topologyKey");
    if key.is_empty() {
        errors.required(at.field("topologyKey"), "can not be empty");
    }
    errors.all(&at.field("topologyKey"), key, names::qualified(key));
}

fn label_keys(
    at: FieldPath<'_>,
    matching: &[&str],
    mismatching: &[&str],
    selector: &Value,
    errors: &mut Errors,
) {
    for (field, keys) in [("matchLabelKeys", matching), ("mismatchLabelKeys", mismatching)] {
        let at = at.field(field);
        if keys.is_empty() {
            continue;
        }
        if selector.is_null() {
            errors.forbidden(at, "must not be specified when labelSelector is not set");
            continue;
        }
        for (index, key) in keys.iter().enumerate() {
            errors.all(&at.index(index), key, names::qualified(key));
        }
    }
    let mut seen: Vec<&str> = selector.pairs("matchLabels").map(|(key, _)| key).collect();
    for expression in selector.list("matchExpressions") {
        let key = expression.str("key");
        if let Some(index) = matching.iter().rposition(|other| *other == key).filter(|_| seen.contains(&key))
        {
            errors.invalid(at.index(index), key, "exists in both matchLabelKeys and labelSelector");
        }
        seen.push(key);
    }
    let place = at.field("matchLabelKeys");
    for (index, key) in matching.iter().enumerate().filter(|(_, key)| mismatching.contains(key)) {
        errors.invalid(place.index(index), *key, "exists in both matchLabelKeys and mismatchLabelKeys");
    }
}

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(crate) fn tolerations(at: FieldPath<'_>, tolerations: &[Value], errors: &mut Errors) {
    for (index, toleration) in tolerations.iter().enumerate() {
        let at = at.index(index);
        let (key, operator) = (toleration.str("key"), toleration.str("operator"));
        let (effect, value) = (toleration.str("effect"), toleration.str("value"));
        if !key.is_empty() {
            errors.all(&at.field("key"), key, names::qualified(key));
        } else if operator != "Exists" {
            let why =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.invalid(at.field("operator"), operator, why);
        }
        if toleration.opt_int("tolerationSeconds").is_some() && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(at.field("effect"), effect, why);
        }
        match operator {
            "Equal" | "" => {
                let complaints = names::label_value(value);
                if !complaints.is_empty() {
                    errors.invalid(at.field("operator"), value, complaints.join(";"));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    let why = "value must be empty when `operator` is 'Exists'";
                    errors.invalid(at.field("operator"), value, why);
                }
            }
            "Lt" | "Gt" => {
                errors.unsupported(at.field("operator"), operator, &["Equal", "Exists", "Lt", "Gt"]);
            }
            other => errors.unsupported(at.field("operator"), other, &["Equal", "Exists"]),
        }
        if !effect.is_empty() && !EFFECTS.contains(&effect) {
            errors.unsupported(at.field("effect"), effect, &EFFECTS);
        }
    }
}

/// Validates topology spread constraints.
pub(super) fn spread(at: FieldPath<'_>, constraints: &[Value], errors: &mut Errors) {
    for (index, constraint) in constraints.iter().enumerate() {
        let at = at.index(index);
        let (key, action) = (constraint.str("topologyKey"), constraint.str("whenUnsatisfiable"));
        if constraint.int("maxSkew") <= 0 {
            errors.invalid(at.field("maxSkew"), constraint.int("maxSkew"), check::NOT_POSITIVE);
        }
        if key.is_empty() {
            errors.required(at.field("topologyKey"), "can not be empty");
        }
        if !matches!(action, "DoNotSchedule" | "ScheduleAnyway") {
            let actions = ["DoNotSchedule", "ScheduleAnyway"];
            errors.unsupported(at.field("whenUnsatisfiable"), action, &actions);
        }
        let repeats = constraints
            .iter()
            .skip(index + 1)
            .any(|other| other.str("topologyKey") == key && other.str("whenUnsatisfiable") == action);
        if repeats {
            let place = at.field("{topologyKey, whenUnsatisfiable}");
            errors.duplicate(place, format!("{{{key}, {action}}}"));
        }
        if let Some(domains) = constraint.opt_int("minDomains") {
            let place = at.field("minDomains");
            if domains <= 0 {
                errors.invalid(place, domains, check::NOT_POSITIVE);
            }
            if action != "DoNotSchedule" {
                let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                errors.invalid(place, domains, why);
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let policies = ["Honor", "Ignore"];
            if let Some(policy) = constraint.opt_str(field).filter(|policy| !policies.contains(policy)) {
                errors.unsupported(at.field(field), policy, &policies);
            }
        }
        label_keys(at, &constraint.strs("matchLabelKeys"), &[], constraint.at("labelSelector"), errors);
        check::label_selector(at.field("labelSelector"), constraint.at("labelSelector"), errors);
    }
}
