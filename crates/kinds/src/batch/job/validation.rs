//! Validation of Jobs.

use std::collections::HashSet;

use serde_json::Value;
use steersman_api::{fields::FieldError, names, status::quote};

use crate::{
    batch::job::status,
    check::{self, Errors, FieldErrors, FieldPath, Read},
    core::pod,
    internal,
    workload::{is_sound, mismatch, not_negative},
};

/// Validates a job's spec, selector included.
pub(crate) fn whole_spec(spec: &Value, errors: &mut Errors) {
    let at = FieldPath::root("spec");
    validate_spec(at, spec, errors);
    match spec.opt("selector") {
        None => errors.required(at.field("selector"), ""),
        Some(selector) => check::label_selector(at.field("selector"), selector, errors),
    }
    if is_sound(spec.at("selector")) {
        mismatch(at, spec, errors);
    }
}

pub(in crate::batch) fn validate_spec(at: FieldPath<'_>, spec: &Value, errors: &mut Errors) {
    let fields = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    not_negative(at, spec, &fields, errors);
    let (per_index, failed) = (spec.opt_int("backoffLimitPerIndex"), spec.opt_int("maxFailedIndexes"));
    if failed.is_some() && per_index.is_none() {
        errors.required(at.field("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    if let Some(manager) = spec.opt_str("managedBy") {
        check::domain_path(at.field("managedBy"), manager, errors);
        if manager.len() > 63 {
            errors.push(FieldError::too_long(at.field("managedBy"), 63));
        }
    }
    let mode = spec.opt_str("completionMode");
    if let Some(mode) = mode.filter(|mode| !matches!(*mode, "NonIndexed" | "Indexed")) {
        errors.unsupported(at.field("completionMode"), mode, &["NonIndexed", "Indexed"]);
    }
    match mode {
        Some("Indexed") => indexed(at, spec, errors),
        None | Some("NonIndexed") => {
            for (field, value) in [("backoffLimitPerIndex", per_index), ("maxFailedIndexes", failed)] {
                if let Some(value) = value {
                    errors.invalid(at.field(field), value, "requires indexed completion mode");
                }
            }
        }
        Some(_) => {}
    }
    if let Some(policy) = spec.opt("podFailurePolicy") {
        failure_policy(at.field("podFailurePolicy"), policy, spec, errors);
    }
    if let Some(policy) = spec.opt("successPolicy") {
        if mode == Some("Indexed") {
            success_policy(at.field("successPolicy"), policy, spec, errors);
        } else {
            let shown = internal::show("batch.SuccessPolicy", policy);
            errors.invalid_shown(at.field("successPolicy"), shown, "requires indexed completion mode");
        }
    }
    if let Some(policy) = spec.opt_str("podReplacementPolicy") {
        let words: &[&str] = if spec.opt("podFailurePolicy").is_some() {
            &["Failed"]
        } else {
            &["Failed", "TerminatingOrFailed"]
        };
        if !words.contains(&policy) {
            errors.unsupported(at.field("podReplacementPolicy"), policy, words);
        }
    }
    let template = at.field("template");
    pod::validate_template(template, spec.at("template"), errors);
    let inner = template.field("spec");
    let place = inner.field("restartPolicy");
    match spec.path(&["template", "spec"]).str("restartPolicy") {
        "Always" | "" => errors.required(place, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if spec.opt("podFailurePolicy").is_some() => {
            let why = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.invalid(place, "OnFailure", why);
        }
        "OnFailure" | "Never" => {}
        other => errors.unsupported(place, other, &["OnFailure", "Never"]),
    }
}

fn indexed(at: FieldPath<'_>, spec: &Value, errors: &mut Errors) {
    let (completions, failed) = (spec.opt_int("completions"), spec.opt_int("maxFailedIndexes"));
    let parallelism = spec.opt_int("parallelism");
    if completions.is_none() {
        errors.required(at.field("completions"), "when completion mode is Indexed");
    }
    if let Some(number) = parallelism.filter(|number| *number > 100_000) {
        let why = "must be less than or equal to 100000 when completion mode is Indexed";
        errors.invalid(at.field("parallelism"), number, why);
    }
    let place = at.field("maxFailedIndexes");
    if let (Some(completions), Some(failed)) = (completions, failed)
        && failed > completions
    {
        errors.invalid(place, failed, "must be less than or equal to completions");
    }
    if let Some(failed) = failed.filter(|failed| *failed > 100_000) {
        errors.invalid(place, failed, "must be less than or equal to 100000");
    }
    if completions.is_some_and(|completions| completions > 100_000)
        && spec.opt("backoffLimitPerIndex").is_some()
    {
        let why = "must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index";
        if failed.is_none() {
            errors.required(place, "must be specified when completions is above 100000");
        }
        if let Some(number) = parallelism.filter(|number| *number > 10_000) {
            errors.invalid(at.field("parallelism"), number, why);
        }
        if let Some(failed) = failed.filter(|failed| *failed > 10_000) {
            errors.invalid(place, failed, why);
        }
    }
}

/// Formats the list of valid values like Go's `%q`.
fn quoted(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| quote(word)).collect();
    format!("valid values: [{}]", words.join(" "))
}

/// Validates that a string is one of `words`. If empty, the error lists them.
fn among(at: FieldPath<'_>, word: &str, words: &[&str], errors: &mut Errors) {
    if word.is_empty() {
        errors.required(at, quoted(words));
    } else if !words.contains(&word) {
        errors.unsupported(at, word, words);
    }
}

fn failure_policy(at: FieldPath<'_>, policy: &Value, spec: &Value, errors: &mut Errors) {
    let list = at.field("rules");
    let rules = policy.list("rules");
    if rules.len() > 20 {
        errors.push(FieldError::too_many(list, rules.len(), 20));
    }
    for (index, rule) in rules.iter().enumerate() {
        let at = list.index(index);
        let action = rule.str("action");
        if action == "FailIndex" {
            if spec.opt("backoffLimitPerIndex").is_none() {
                let why = "requires the backoffLimitPerIndex to be set";
                errors.invalid(at.field("action"), action, why);
            }
        } else {
            among(at.field("action"), action, &["Count", "FailIndex", "FailJob", "Ignore"], errors);
        }
        let (codes, conditions) = (rule.opt("onExitCodes"), rule.list("onPodConditions"));
        if let Some(codes) = codes {
            exit_codes(at.field("onExitCodes"), codes, spec, errors);
        }
        let place = at.field("onPodConditions");
        if conditions.len() > 20 {
            errors.push(FieldError::too_many(place, conditions.len(), 20));
        }
        for (index, pattern) in conditions.iter().enumerate() {
            let at = place.index(index);
            let kind = pattern.str("type");
            errors.all(&at.field("type"), kind, names::qualified(kind));
            among(at.field("status"), pattern.str("status"), &["False", "True", "Unknown"], errors);
        }
        match (codes.is_some(), conditions.is_empty()) {
            (true, false) => {
                let why = "specifying both OnExitCodes and OnPodConditions is not supported";
                errors.push(FieldError::invalid_omitted(at, why));
            }
            (false, true) => {
                let why = "specifying one of OnExitCodes and OnPodConditions is required";
                errors.push(FieldError::invalid_omitted(at, why));
            }
            _ => {}
        }
    }
}

fn exit_codes(at: FieldPath<'_>, codes: &Value, spec: &Value, errors: &mut Errors) {
    among(at.field("operator"), codes.str("operator"), &["In", "NotIn"], errors);
    if let Some(name) = codes.opt_str("containerName") {
        let pod = spec.path(&["template", "spec"]);
        let known = ["containers", "initContainers"]
            .iter()
            .flat_map(|list| pod.list(list))
            .any(|container| container.str("name") == name);
        if !known {
            let why = "must be one of the container or initContainer names in the pod template";
            errors.invalid(at.field("containerName"), name, why);
        }
    }
    let list = at.field("values");
    let values: Vec<i64> = codes.list("values").iter().filter_map(Value::as_i64).collect();
    if values.is_empty() {
        errors.invalid(list, codes.shown("values"), "at least one value is required");
    } else if values.len() > 255 {
        errors.push(FieldError::too_many(list, values.len(), 255));
    }
    let mut seen = HashSet::new();
    for (index, value) in values.iter().enumerate() {
        if codes.str("operator") == "In" && *value == 0 {
            errors.invalid(list.index(index), *value, "must not be 0 for the In operator");
        }
        if seen.contains(value) {
            errors.duplicate(list.index(index), *value);
        }
        seen.insert(*value);
    }
    if !values.is_sorted() {
        errors.invalid(list, codes.shown("values"), "must be ordered");
    }
}

fn success_policy(at: FieldPath<'_>, policy: &Value, spec: &Value, errors: &mut Errors) {
    let list = at.field("rules");
    let rules = policy.list("rules");
    if rules.is_empty() {
        let why = "at least one rules must be specified when the successPolicy is specified";
        errors.required(list, why);
    }
    if rules.len() > 20 {
        errors.push(FieldError::too_many(list, rules.len(), 20));
    }
    let completions = spec.int("completions");
    for (index, rule) in rules.iter().enumerate() {
        let at = list.index(index);
        let (count, indexes) = (rule.opt_int("succeededCount"), rule.opt_str("succeededIndexes"));
        if count.is_none() && indexes.is_none() {
            errors.required(at, "at least one of succeededCount or succeededIndexes must be specified");
        }
        let mut total = 0;
        if let Some(text) = indexes {
            let place = at.field("succeededIndexes");
            if text.len() > 64 * 1024 {
                errors.push(FieldError::too_long(place, 64 * 1024));
            }
            match status::count_indexes(text, completions) {
                Ok(count) => total = count,
                Err(why) => errors.invalid(place, text, format!("error parsing succeededIndexes: {why}")),
            }
        }
        if let Some(count) = count {
            let place = at.field("succeededCount");
            errors.not_negative(place, count);
            if count > completions {
                let why = format!(
                    "must be less than or equal to {completions} (the number of specified completions)"
                );
                errors.invalid(place, count, why);
            }
            if indexes.is_some() && count > total {
                let why = format!(
                    "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
                );
                errors.invalid(place, count, why);
            }
        }
    }
}
