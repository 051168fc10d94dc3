//! Rules common to validating and mutating admission policies and their bindings.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_api::{group_version::split_api_version, names, object, table::Cell};

use crate::{
    admissionregistration::{
        expression::{Compiler, ResultType},
        webhook,
    },
    cells::text,
    check::{self, Errors, FieldErrors, FieldPath, Read, child, children, default},
};

/// Sets defaults of `MatchResources`.
pub(crate) fn default_resources(object: &mut Value, field: &str) {
    let Some(resources) = child(object::child(object, "spec"), field) else { return };
    default(resources, "matchPolicy", "Equivalent");
    default(resources, "namespaceSelector", json!({}));
    default(resources, "objectSelector", json!({}));
    for list in ["resourceRules", "excludeResourceRules"] {
        for rule in children(resources, list) {
            default(rule, "scope", "*");
        }
    }
}

pub(crate) fn default_policy(object: &mut Value) {
    default(object::child(object, "spec"), "failurePolicy", "Fail");
    default_resources(object, "matchConstraints");
}

/// Validates the fields common to policies: all but validations and mutations.
pub(crate) fn validate(
    spec: &Value,
    compiler: &mut Compiler,
    operations: Option<&[&str]>,
    errors: &mut Errors,
) {
    let at = FieldPath::root("spec");
    let policies = ["Fail", "Ignore"];
    if let Some(policy) = spec.opt_str("failurePolicy").filter(|policy| !policies.contains(policy)) {
        errors.unsupported(at.field("failurePolicy"), policy, &policies);
    }
    if let Some(kind) = spec.opt("paramKind") {
        parameter_kind(at.field("paramKind"), kind, errors);
    }
    match spec.opt("matchConstraints") {
        None => errors.required(at.field("matchConstraints"), ""),
        Some(constraints) => {
            let at = at.field("matchConstraints");
            match_resources(at, constraints, errors);
            if constraints.list("resourceRules").is_empty() {
                errors.required(at.field("resourceRules"), "");
            }
            supported_operations(at, constraints, operations, errors);
        }
    }
    let list = at.field("matchConditions");
    let compile = |text: &str| compiler.condition(text).map(drop);
    webhook::conditions(list, spec.list("matchConditions"), compile, errors);
    variables(at.field("variables"), spec.list("variables"), compiler, errors);
}

/// Operations of mutating policies: a deletion has no object to mutate.
pub(super) const MUTABLE: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

pub(crate) fn supported_operations(
    at: FieldPath<'_>,
    resources: &Value,
    supported: Option<&[&str]>,
    errors: &mut Errors,
) {
    let Some(supported) = supported else { return };
    let rules = resources.list("resourceRules").iter();
    for operation in rules.flat_map(|rule| rule.strs("operations")).filter(|o| !supported.contains(o)) {
        errors.unsupported(at.field("resourceRules").field("operations"), operation, supported);
    }
}

fn parameter_kind(at: FieldPath<'_>, kind: &Value, errors: &mut Errors) {
    let api_version = kind.str("apiVersion");
    let place = at.field("apiVersion");
    if api_version.is_empty() {
        errors.required(place, "");
    } else if api_version.matches('/').count() > 1 {
        errors.invalid(place, api_version, format!("unexpected GroupVersion string: {api_version}"));
    } else {
        let (group, version) = split_api_version(api_version);
        for (part, complaints) in [
            (group, if group.is_empty() { Vec::new() } else { names::subdomain(group) }),
            (version, if version.is_empty() { Vec::new() } else { names::label_1035(version) }),
        ] {
            if !complaints.is_empty() {
                errors.invalid(place, part, complaints.join(","));
            }
        }
        if version.is_empty() {
            errors.invalid(place, api_version, "version must be specified");
        }
    }
    let name = kind.str("kind");
    let complaints = names::label_1035(&name.to_lowercase());
    if name.is_empty() {
        errors.required(at.field("kind"), "");
    } else if !complaints.is_empty() {
        let why = format!("may have mixed case, but should otherwise match: {}", complaints.join(","));
        errors.invalid(at.field("kind"), name, why);
    }
}

fn match_resources(at: FieldPath<'_>, resources: &Value, errors: &mut Errors) {
    let policies = ["Equivalent", "Exact"];
    if let Some(policy) = resources.opt_str("matchPolicy").filter(|policy| !policies.contains(policy)) {
        errors.unsupported(at.field("matchPolicy"), policy, &policies);
    }
    for field in ["namespaceSelector", "objectSelector"] {
        check::label_selector(at.field(field), resources.at(field), errors);
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        let list = at.field(field);
        for (index, rule) in resources.list(field).iter().enumerate() {
            resource_names(list.index(index), &rule.strs("resourceNames"), errors);
            webhook::operations(list.index(index), rule, errors);
        }
    }
}

fn resource_names(at: FieldPath<'_>, given: &[&str], errors: &mut Errors) {
    let list = at.field("resourceNames");
    let mut seen = HashSet::new();
    for (index, name) in given.iter().enumerate() {
        let complaints = names::check(names::NameRule::PathSegment, name, false);
        errors.all(&list.index(index), name, complaints);
        if !seen.insert(name) {
            errors.duplicate(list.index(index), *name);
        }
    }
}

pub(crate) fn expression(
    at: FieldPath<'_>,
    text: &str,
    compiler: &Compiler,
    result_type: ResultType,
    errors: &mut Errors,
) {
    if text.trim().is_empty() {
        errors.required(at, "expression is not specified");
    } else if let Err(why) = compiler.expression(text, result_type) {
        errors.invalid(at, text, why);
    }
}

fn variables(at: FieldPath<'_>, variables: &[Value], compiler: &mut Compiler, errors: &mut Errors) {
    for (index, variable) in variables.iter().enumerate() {
        let (at, name) = (at.index(index), variable.str("name"));
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.trim().is_empty() {
            errors.required(at.field("name"), "name is not specified");
        } else if name.starts_with(|c: char| c.is_ascii_digit())
            || !name.chars().all(plain)
            || steersman_cel::is_reserved(name)
        {
            errors.invalid(at.field("name"), name, "must be a valid CEL identifier");
        }
        let text = variable.str("expression");
        if text.trim().is_empty() {
            errors.required(at.field("expression"), "expression is not specified");
        } else if let Err(why) = compiler.variable(name, text) {
            errors.invalid(at.field("expression"), text, why);
        }
    }
}

/// Validates the fields common to bindings.
pub(crate) fn validate_binding(spec: &Value, errors: &mut Errors) {
    let at = FieldPath::root("spec");
    match spec.str("policyName") {
        "" => errors.required(at.field("policyName"), ""),
        name => errors.all(&at.field("policyName"), name, names::subdomain(name)),
    }
    if let Some(reference) = spec.opt("paramRef") {
        parameters(at.field("paramRef"), reference, errors);
    }
    if let Some(resources) = spec.opt("matchResources") {
        match_resources(at.field("matchResources"), resources, errors);
    }
}

fn parameters(at: FieldPath<'_>, reference: &Value, errors: &mut Errors) {
    let name = reference.str("name");
    match (name.is_empty(), reference.opt("selector")) {
        (false, Some(_)) => {
            for field in ["name", "selector"] {
                errors.forbidden(at.field(field), "name and selector are mutually exclusive");
            }
        }
        (true, None) => errors.required(at, "one of name or selector must be specified"),
        (true, Some(selector)) => check::label_selector(at.field("selector"), selector, errors),
        (false, None) => {
            errors.all(&at.field("name"), name, names::check(names::NameRule::PathSegment, name, false));
        }
    }
    errors.one_of(
        at.field("parameterNotFoundAction"),
        reference.str("parameterNotFoundAction"),
        &["Deny", "Allow"],
    );
}

/// Returns cells common to policies.
pub(crate) fn cell(column: &str, object: &Value) -> Option<Cell> {
    (column == "ParamKind").then(|| match object["spec"].get("paramKind") {
        Some(kind) => {
            let part = |key: &str| kind[key].as_str().unwrap_or_default();
            format!("{}/{}", part("apiVersion"), part("kind")).into()
        }
        None => "<unset>".into(),
    })
}

/// Returns cells of bindings.
pub(crate) fn binding_cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    let spec = &object["spec"];
    match column {
        "PolicyName" => Some(text(spec, &["policyName"])),
        "ParamRef" => {
            let reference = &spec["paramRef"];
            Some(match (reference["name"].as_str(), reference["namespace"].as_str()) {
                (Some(name), namespace) => format!("{}/{name}", namespace.unwrap_or("*")).into(),
                (None, _) => "<unset>".into(),
            })
        }
        _ => None,
    }
}
