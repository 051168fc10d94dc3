//! Rules common to validating and mutating webhook configurations.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_api::{
    fields::{FieldError, FieldErrorKind},
    names, object,
    table::Cell,
};
use steersman_structural::definition::check_webhook_client;

use crate::{
    admissionregistration::expression::check_condition,
    cells::list,
    check::{self, Errors, FieldErrors, FieldPath, Read, child, children, default},
};

const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

pub(crate) fn validate(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let list = FieldPath::root("webhooks");
    let mut names = HashSet::new();
    let hooks = object.list("webhooks");
    // Unchanged match conditions are not compiled again, since newer compilers may reject them.
    let settled = old.map(|old| old.list("webhooks")).is_some_and(|before| {
        let same = |(a, b): (&Value, &Value)| a.at("matchConditions") == b.at("matchConditions");
        before.len() == hooks.len() && before.iter().zip(hooks).all(same)
    });
    for (index, hook) in hooks.iter().enumerate() {
        let at = list.index(index);
        validate_hook(at, hook, !settled, errors);
        review_versions(at.field("admissionReviewVersions"), &hook.strs("admissionReviewVersions"), errors);
        let name = hook.str("name");
        if !name.is_empty() && names.contains(&name) {
            errors.duplicate(at.field("name"), name);
        }
        names.insert(name);
    }
}

fn validate_hook(at: FieldPath<'_>, hook: &Value, compile: bool, errors: &mut Errors) {
    full_name(at.field("name"), hook.str("name"), errors);
    let list = at.field("rules");
    for (index, rule) in hook.list("rules").iter().enumerate() {
        operations(list.index(index), rule, errors);
    }
    let words: [(&str, &[&str]); 3] = [
        ("failurePolicy", &["Fail", "Ignore"]),
        ("matchPolicy", &["Equivalent", "Exact"]),
        ("reinvocationPolicy", &["IfNeeded", "Never"]),
    ];
    for (field, known) in words {
        if let Some(word) = hook.opt_str(field).filter(|word| !known.contains(word)) {
            errors.unsupported(at.field(field), word, known);
        }
    }
    match hook.opt_str("sideEffects") {
        None => errors.required(at.field("sideEffects"), "must specify one of None, NoneOnDryRun"),
        Some("None" | "NoneOnDryRun") => {}
        Some(other) => errors.unsupported(at.field("sideEffects"), other, &["None", "NoneOnDryRun"]),
    }
    if let Some(seconds) = hook.opt_int("timeoutSeconds").filter(|seconds| !(1..=30).contains(seconds)) {
        let why = "the timeout value must be between 1 and 30 seconds";
        errors.invalid(at.field("timeoutSeconds"), seconds, why);
    }
    for field in ["namespaceSelector", "objectSelector"] {
        check::label_selector(at.field(field), hook.at(field), errors);
    }
    let config = hook.at("clientConfig");
    let place = at.field("clientConfig").to_string();
    check_webhook_client(config.opt_str("url"), config.opt("service"), &place, errors);
    if compile {
        conditions(at.field("matchConditions"), hook.list("matchConditions"), check_condition, errors);
    }
}

fn full_name(at: FieldPath<'_>, name: &str, errors: &mut Errors) {
    if name.is_empty() {
        return errors.required(at, "");
    }
    let complaints = names::subdomain(name);
    if !complaints.is_empty() {
        return errors.invalid(at, name, complaints.join(","));
    }
    if name.split('.').count() < 3 {
        errors.invalid(at, name, "should be a domain with at least three segments separated by dots");
    }
}

fn review_versions(at: FieldPath<'_>, versions: &[&str], errors: &mut Errors) {
    if versions.is_empty() {
        return errors.required(at, format!("must specify one of {}", REVIEWS.join(", ")));
    }
    let mut seen = HashSet::new();
    for (index, version) in versions.iter().enumerate() {
        if !seen.insert(version) {
            errors.invalid(at.index(index), *version, "duplicate version");
            continue;
        }
        errors.all(&at.index(index), version, names::label_1035(version));
    }
    if !versions.iter().any(|version| REVIEWS.contains(version)) {
        let why = format!("must include at least one of {}", REVIEWS.join(", "));
        errors.invalid(at, json!(versions), why);
    }
}

/// Validates a rule's operations, groups, versions and resources.
pub(crate) fn operations(at: FieldPath<'_>, rule: &Value, errors: &mut Errors) {
    let known = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    let (given, list) = (rule.strs("operations"), at.field("operations"));
    if given.is_empty() {
        errors.required(list, "");
    }
    if given.len() > 1 && given.contains(&"*") {
        let why = "if '*' is present, must not specify other operations";
        errors.invalid(list, rule.shown("operations"), why);
    }
    for (index, operation) in given.iter().enumerate().filter(|(_, operation)| !known.contains(operation)) {
        errors.unsupported(list.index(index), *operation, &known);
    }
    for (field, what) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let (given, list) = (rule.strs(field), at.field(field));
        if given.is_empty() {
            errors.required(list, "");
        }
        if given.len() > 1 && given.contains(&"*") {
            let why = format!("if '*' is present, must not specify other {what}");
            errors.invalid(list, rule.shown(field), why);
        }
        // The core group's name is empty, but no version's is.
        for (index, _) in given.iter().enumerate().filter(|(_, v)| field == "apiVersions" && v.is_empty()) {
            errors.required(list.index(index), "");
        }
    }
    resources(at.field("resources"), &rule.strs("resources"), errors);
    let scopes = ["*", "Cluster", "Namespaced"];
    if let Some(scope) = rule.opt_str("scope").filter(|scope| !scopes.contains(scope)) {
        errors.unsupported(at.field("scope"), scope, &scopes);
    }
}

fn resources(at: FieldPath<'_>, resources: &[&str], errors: &mut Errors) {
    if resources.is_empty() {
        errors.required(at, "");
    }
    let (mut of_any_part, mut of_any_resource) = (HashSet::new(), HashSet::new());
    let mut plain = false;
    for (index, given) in resources.iter().enumerate() {
        if given.is_empty() {
            errors.required(at.index(index), "");
            continue;
        }
        let Some((resource, part)) = given.split_once('/') else {
            plain = *given != "*";
            continue;
        };
        for (seen, name, form) in
            [(&of_any_part, resource, format!("{resource}/*")), (&of_any_resource, part, format!("*/{part}"))]
        {
            if seen.contains(&name) {
                let why = format!("if '{form}' is present, must not specify {given}");
                errors.invalid(at.index(index), *given, why);
            }
        }
        if part == "*" {
            of_any_part.insert(resource);
        }
        if resource == "*" {
            of_any_resource.insert(part);
        }
    }
    if resources.len() > 1 && resources.contains(&"*/*") {
        let why = "if '*/*' is present, must not specify other resources";
        errors.invalid(at, json!(resources), why);
    }
    if plain && resources.contains(&"*") {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(at, json!(resources), why);
    }
}

/// Validates match conditions.
pub(crate) fn conditions(
    at: FieldPath<'_>,
    conditions: &[Value],
    compile: impl Fn(&str) -> Result<(), String>,
    errors: &mut Errors,
) {
    const MOST: usize = 64;
    if conditions.len() > MOST {
        errors.push(FieldError {
            field: at.into(),
            kind: FieldErrorKind::TooMany(conditions.len(), MOST),
            detail: String::new(),
        });
    }
    let mut names = HashSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let at = at.index(index);
        let (expression, name) = (condition.str("expression").trim(), condition.str("name"));
        if expression.is_empty() {
            errors.required(at.field("expression"), "");
        } else if let Err(why) = compile(expression) {
            errors.invalid(at.field("expression"), expression, why);
        }
        if name.is_empty() {
            errors.required(at.field("name"), "");
        } else {
            errors.all(&at.field("name"), name, names::qualified(name));
            if names.contains(&name) {
                errors.duplicate(at.field("name"), name);
            }
        }
        names.insert(name);
    }
}

/// Sets defaults of the webhooks of a configuration.
pub(crate) fn default_webhooks(object: &mut Value) {
    for hook in children(object::ensure(object), "webhooks") {
        default(hook, "failurePolicy", "Fail");
        default(hook, "matchPolicy", "Equivalent");
        default(hook, "namespaceSelector", json!({}));
        default(hook, "objectSelector", json!({}));
        default(hook, "timeoutSeconds", 10);
        for rule in children(hook, "rules") {
            default(rule, "scope", "*");
        }
        if let Some(service) = child(hook, "clientConfig").and_then(|config| child(config, "service")) {
            default(service, "port", 443);
        }
    }
}

/// Returns cells of webhook configurations.
pub(crate) fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    (column == "Webhooks").then(|| list(object, &["webhooks"]).len().into())
}
