//! FlowSchema.

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_api::{names, object, table::Cell};

use super::check_conditions;
use crate::{
    cells::{number, text, text_or_none},
    check::{Errors, FieldErrors, FieldPath, Read, default_zero, made},
    internal,
    kind::{Change, Column, Kind, Rules},
};

pub(super) const KIND: Kind = Kind {
    rules: &FlowSchema,
    has_generation: true,
    has_status: true,
    reset_fields: &[("status", &[&["metadata"], &["spec"]])],
    columns: &[
        Column::NAME,
        Column::string("PriorityLevel"),
        Column::string("MatchingPrecedence"),
        Column::string("DistinguisherMethod"),
        Column::AGE,
        Column::string("MissingPL"),
    ],
    cell,
    ..Kind::new("flowcontrol.apiserver.k8s.io", "flowschemas")
};

struct FlowSchema;

const MAX_PRECEDENCE: i64 = 10_000;
const VERBS: [&str; 9] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

impl Rules for FlowSchema {
    fn default(&self, _: &str, object: &mut Value) {
        default_zero(made(object::ensure(object), "spec"), "matchingPrecedence", 1000);
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
    let precedence = spec.int("matchingPrecedence");
    let mut refuse = |why: String| errors.invalid(at.field("matchingPrecedence"), precedence, why);
    if precedence <= 0 {
        refuse("must be a positive value".into());
    }
    if precedence > MAX_PRECEDENCE {
        refuse(format!("must not be greater than {MAX_PRECEDENCE}"));
    }
    if precedence == 1 && name != "exempt" {
        refuse("only the schema named 'exempt' may have matchingPrecedence 1".into());
    }
    if let Some(method) = spec.opt("distinguisherMethod") {
        let supported = ["ByNamespace", "ByUser"];
        if !supported.contains(&method.str("type")) {
            let at = at.field("distinguisherMethod");
            let shown = internal::show("flowcontrol.FlowDistinguisherMethod", method);
            errors.unsupported_shown(at.field("type"), &shown, &supported);
        }
    }
    let level = at.field("priorityLevelConfiguration");
    match spec.at("priorityLevelConfiguration").str("name") {
        "" => errors.required(level.field("name"), "must reference a priority level"),
        name => errors.all(&level.field("name"), name, names::subdomain(name)),
    }
    let rules = at.field("rules");
    for (index, rule) in spec.list("rules").iter().enumerate() {
        check_rule(rule, rules.index(index), errors);
    }
}

/// Validates that the mandatory schemas `exempt` and `catch-all` have their fixed spec.
fn check_fixed(object: &Value, errors: &mut Errors) {
    let (name, spec) = (object::name(object), object.at("spec"));
    let fixed = |precedence: i64, level: &str, method: Value, groups: &[&str]| {
        let subject = |group: &&str| json!({"kind": "Group", "group": {"name": group}});
        let subjects: Vec<Value> = groups.iter().map(subject).collect();
        let mut spec = json!({
            "priorityLevelConfiguration": {"name": level},
            "matchingPrecedence": precedence,
            "rules": [{
                "subjects": subjects,
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            }],
        });
        if !method.is_null() {
            spec["distinguisherMethod"] = json!({"type": method});
        }
        spec
    };
    let wanted = match name {
        "exempt" => fixed(1, "exempt", Value::Null, &["system:masters"]),
        "catch-all" => {
            fixed(10_000, "catch-all", "ByUser".into(), &["system:unauthenticated", "system:authenticated"])
        }
        _ => return,
    };
    if *spec != wanted {
        let why = format!("spec of '{name}' must equal the fixed value");
        errors.invalid_shown("spec", internal::show("flowcontrol.FlowSchemaSpec", spec), why);
    }
}

fn check_rule(rule: &Value, at: FieldPath<'_>, errors: &mut Errors) {
    let subjects = at.field("subjects");
    for (index, subject) in rule.list("subjects").iter().enumerate() {
        check_subject(subject, subjects.index(index), errors);
    }
    if rule.list("subjects").is_empty() {
        errors.required(subjects, "subjects must contain at least one value");
    }
    let (resources, paths) = (rule.list("resourceRules"), rule.list("nonResourceRules"));
    if resources.is_empty() && paths.is_empty() {
        errors.required(at, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    let place = at.field("resourceRules");
    for (index, rule) in resources.iter().enumerate() {
        check_resource_rule(rule, place.index(index), errors);
    }
    let place = at.field("nonResourceRules");
    for (index, rule) in paths.iter().enumerate() {
        check_path_rule(rule, place.index(index), errors);
    }
}

fn check_subject(subject: &Value, at: FieldPath<'_>, errors: &mut Errors) {
    let forbid = |errors: &mut Errors, field: &str, kind: &str| {
        if subject.opt(field).is_some() {
            let why = format!("{field} is forbidden when subject kind is not '{kind}'");
            errors.forbidden(at.field(field), why);
        }
    };
    let (field, kind) = match subject.str("kind") {
        "ServiceAccount" => ("serviceAccount", "ServiceAccount"),
        "User" => ("user", "User"),
        "Group" => ("group", "Group"),
        other => {
            return errors.unsupported(at.field("kind"), other, &["Group", "ServiceAccount", "User"]);
        }
    };
    let place = at.field(field);
    match subject.opt(field) {
        None => errors.required(place, format!("{field} is required when subject kind is '{kind}'")),
        Some(named) => {
            match named.str("name") {
                "" => errors.required(place.field("name"), ""),
                name if kind == "ServiceAccount" && name != "*" => {
                    errors.all(&place.field("name"), name, names::subdomain(name));
                }
                _ => {}
            }
            if kind == "ServiceAccount" {
                let place = place.field("namespace");
                match named.str("namespace") {
                    "" => errors.required(place, "must specify namespace for service account"),
                    namespace => errors.all(&place, namespace, names::label(namespace)),
                }
            }
        }
    }
    for (other, name) in [("serviceAccount", "ServiceAccount"), ("user", "User"), ("group", "Group")] {
        if other != field {
            forbid(errors, other, name);
        }
    }
}

/// Validates a list in which `*` must be the only entry. Returns whether it has entries but no `*`.
fn check_list(
    rule: &Value,
    field: &str,
    what: (&str, &str),
    at: &FieldPath<'_>,
    errors: &mut Errors,
) -> bool {
    let list = rule.strs(field);
    if list.is_empty() {
        errors.required(at.field(field), what.0);
        return false;
    }
    let has_wildcard = list.contains(&"*");
    if has_wildcard && list.len() > 1 {
        let why = format!("if '*' is present, must not specify other {}", what.1);
        errors.invalid(at.field(field), rule.shown(field), why);
    }
    !has_wildcard
}

fn check_verbs(rule: &Value, at: &FieldPath<'_>, errors: &mut Errors) {
    let names = check_list(rule, "verbs", ("verbs must contain at least one value", "verbs"), at, errors);
    if names && !rule.strs("verbs").iter().all(|verb| VERBS.contains(verb)) {
        errors.unsupported(at.field("verbs"), rule.shown("verbs"), &VERBS);
    }
}

fn check_resource_rule(rule: &Value, at: FieldPath<'_>, errors: &mut Errors) {
    check_verbs(rule, &at, errors);
    let groups = ("resource rules must supply at least one api group", "api groups");
    check_list(rule, "apiGroups", groups, &at, errors);
    let resources = ("resource rules must supply at least one resource", "resources");
    check_list(rule, "resources", resources, &at, errors);
    if rule.list("namespaces").is_empty() && rule.flag("clusterScope") {
        return;
    }
    let namespaces =
        ("resource rules that are not cluster scoped must supply at least one namespace", "namespaces");
    if check_list(rule, "namespaces", namespaces, &at, errors) {
        let at = at.field("namespaces");
        for (index, namespace) in rule.strs("namespaces").into_iter().enumerate() {
            for complaint in names::label(namespace) {
                let why = format!("each member of this list must be '*' or a DNS-1123 label; {complaint}");
                errors.invalid(at.index(index), namespace, why);
            }
        }
    }
}

fn check_path_rule(rule: &Value, at: FieldPath<'_>, errors: &mut Errors) {
    check_verbs(rule, &at, errors);
    let what = ("nonResourceURLs must contain at least one value", "non-resource URLs");
    if check_list(rule, "nonResourceURLs", what, &at, errors) {
        let at = at.field("nonResourceURLs");
        for (index, path) in rule.strs("nonResourceURLs").into_iter().enumerate() {
            let why = match path {
                "" => "must not be empty",
                "/" => continue,
                _ if !path.starts_with('/') => "must start with slash",
                _ if path.contains(' ') => "must not contain white-space",
                _ if path.contains("//") => "must not contain double slash",
                _ if path.trim_end_matches("/*").contains('*') || path.matches('*').count() > 1 => {
                    "wildcard can only do suffix matching"
                }
                _ => continue,
            };
            errors.invalid(at.index(index), path, why);
        }
    }
}

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    match column {
        "PriorityLevel" => Some(text(object, &["spec", "priorityLevelConfiguration", "name"])),
        "MatchingPrecedence" => Some(number(object, &["spec", "matchingPrecedence"]).into()),
        "DistinguisherMethod" => Some(text_or_none(object, &["spec", "distinguisherMethod", "type"])),
        "MissingPL" => {
            let conditions = object.at("status").list("conditions");
            let dangling = conditions.iter().find(|condition| condition.str("type") == "Dangling");
            Some(dangling.map_or("?", |condition| condition.str("status")).into())
        }
        _ => None,
    }
}
