//! Policies of admission and their bindings.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{
    Change, Rules,
    check::{self, At, Complain, Errors, Read, child, children, default},
    webhooks,
};
use crate::{
    expression::{Compiler, Gives},
    group_version::split_api_version,
    names, object,
};

/// Fills in what a policy or a binding says about the writes that it is for.
fn default_resources(object: &mut Value, field: &str) {
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

fn default_policy(object: &mut Value) {
    default(object::child(object, "spec"), "failurePolicy", "Fail");
    default_resources(object, "matchConstraints");
}

/// Judges what policies have in common: all that comes before what they do.
fn policy(spec: &Value, compiler: &mut Compiler, operations: Option<&[&str]>, errors: &mut Errors) {
    let at = At::root("spec");
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
    webhooks::conditions(list, spec.list("matchConditions"), compile, errors);
    variables(at.field("variables"), spec.list("variables"), compiler, errors);
}

/// ValidatingAdmissionPolicies.
pub(super) struct ValidatingPolicy;

impl Rules for ValidatingPolicy {
    fn default(&self, _: &str, object: &mut Value) {
        default_policy(object);
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let (at, spec) = (At::root("spec"), object.at("spec"));
        let mut compiler = Compiler::new(spec, false);
        policy(spec, &mut compiler, None, errors);
        let why = "validations or auditAnnotations must contain at least one item";
        if spec.list("validations").is_empty() && spec.list("auditAnnotations").is_empty() {
            errors.required(at.field("validations"), why);
            errors.required(at.field("auditAnnotations"), why);
        }
        let list = at.field("validations");
        for (index, validation) in spec.list("validations").iter().enumerate() {
            validation_rule(list.index(index), validation, &compiler, errors);
        }
        audit_annotations(at.field("auditAnnotations"), object, &compiler, errors);
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.whole_metadata(errors);
        // What was stored once may stay.
        if !change.is_status() && change.object.at("spec") != change.old.at("spec") {
            self.validate(change.object, errors);
        }
    }
}

/// What can be changed about: there is nothing to change about a deletion.
const MUTABLE: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

fn supported_operations(at: At<'_>, resources: &Value, supported: Option<&[&str]>, errors: &mut Errors) {
    let Some(supported) = supported else { return };
    let rules = resources.list("resourceRules").iter();
    for operation in rules.flat_map(|rule| rule.strs("operations")).filter(|o| !supported.contains(o)) {
        errors.unsupported(at.field("resourceRules").field("operations"), operation, supported);
    }
}

/// MutatingAdmissionPolicies.
pub(super) struct MutatingPolicy;

impl Rules for MutatingPolicy {
    fn default(&self, _: &str, object: &mut Value) {
        default_policy(object);
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let (at, spec) = (At::root("spec"), object.at("spec"));
        let mut compiler = Compiler::new(spec, true);
        policy(spec, &mut compiler, Some(&MUTABLE), errors);
        if spec.list("mutations").is_empty() {
            errors.required(at.field("mutations"), "mutations must contain at least one item");
        }
        let list = at.field("mutations");
        for (index, change) in spec.list("mutations").iter().enumerate() {
            mutation(list.index(index), change, &compiler, errors);
        }
        errors.one_of(at.field("reinvocationPolicy"), spec.str("reinvocationPolicy"), &["IfNeeded", "Never"]);
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.whole_metadata(errors);
        self.validate(change.object, errors);
    }
}

/// By the type of a patch, the field that holds it and what its expression gives.
const PATCHES: [(&str, &str, Gives); 2] =
    [("ApplyConfiguration", "applyConfiguration", Gives::Object), ("JSONPatch", "jsonPatch", Gives::Patch)];

fn mutation(at: At<'_>, mutation: &Value, compiler: &Compiler, errors: &mut Errors) {
    let patch_type = mutation.str("patchType");
    if patch_type.is_empty() {
        return errors.required(at.field("patchType"), "");
    }
    if !PATCHES.iter().any(|(known, ..)| *known == patch_type) {
        return errors.unsupported(at.field("patchType"), patch_type, &PATCHES.map(|(known, ..)| known));
    }
    let (mut wanted, mut others) = (Vec::new(), Vec::new());
    for (known, field, gives) in PATCHES {
        let at = at.field(field);
        match mutation.opt(field) {
            None if known == patch_type => {
                wanted.required(at, format!("must be specified when patchType is {patch_type}"));
            }
            Some(patch) if known == patch_type => match patch.str("expression").trim() {
                "" => wanted.required(at.field("expression"), ""),
                text => expression(at.field("expression"), text, compiler, gives, &mut wanted),
            },
            Some(_) => {
                let why = format!("must not be specified when patchType is {patch_type}");
                others.invalid(at, format!("{{{field}}}"), why);
            }
            None => {}
        }
    }
    errors.append(&mut wanted);
    errors.append(&mut others);
}

fn parameter_kind(at: At<'_>, kind: &Value, errors: &mut Errors) {
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

fn match_resources(at: At<'_>, resources: &Value, errors: &mut Errors) {
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
            webhooks::operations(list.index(index), rule, errors);
        }
    }
}

fn resource_names(at: At<'_>, given: &[&str], errors: &mut Errors) {
    let list = at.field("resourceNames");
    for (index, name) in given.iter().enumerate() {
        let complaints = names::check(names::NameRule::PathSegment, name, false);
        errors.all(&list.index(index), name, complaints);
        if given.iter().take(index).any(|other| other == name) {
            errors.duplicate(list.index(index), *name);
        }
    }
}

fn expression(at: At<'_>, text: &str, compiler: &Compiler, gives: Gives, errors: &mut Errors) {
    if text.trim().is_empty() {
        errors.required(at, "expression is not specified");
    } else if let Err(why) = compiler.expression(text, gives) {
        errors.invalid(at, text, why);
    }
}

fn variables(at: At<'_>, variables: &[Value], compiler: &mut Compiler, errors: &mut Errors) {
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

fn validation_rule(at: At<'_>, validation: &Value, compiler: &Compiler, errors: &mut Errors) {
    expression(at.field("expression"), validation.str("expression"), compiler, Gives::Bool, errors);
    if let Some(text) = validation.opt_str("messageExpression").filter(|text| !text.is_empty()) {
        let at = at.field("messageExpression");
        if text.trim().is_empty() {
            errors.invalid(at, text, "must be non-empty if specified");
        } else {
            expression(at, text, compiler, Gives::Text, errors);
        }
    }
    let message = validation.str("message");
    if !message.is_empty() && message.trim().is_empty() {
        errors.invalid(at.field("message"), message, "must be non-empty if specified");
    } else if message.trim().contains('\n') {
        errors.invalid(at.field("message"), message, "must not contain line breaks");
    }
    let reasons = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
    if let Some(reason) = validation.opt_str("reason").filter(|reason| !reasons.contains(reason)) {
        errors.unsupported(at.field("reason"), reason, &reasons);
    }
}

const MOST_ANNOTATIONS: usize = 20;

/// In bytes.
const LONGEST_ANNOTATION: usize = 5 * 1024;

/// Judges what a policy has noted about requests. The notes go by the policy's name.
fn audit_annotations(at: At<'_>, policy: &Value, compiler: &Compiler, errors: &mut Errors) {
    let annotations = policy.at("spec").list("auditAnnotations");
    if annotations.len() > MOST_ANNOTATIONS {
        let why = format!("must not have more than {MOST_ANNOTATIONS} auditAnnotations");
        errors.invalid(at, annotations.to_vec(), why);
    }
    let mut keys = HashSet::new();
    for (index, annotation) in annotations.iter().enumerate() {
        let at = at.index(index);
        let (name, key) = (object::name(policy), annotation.str("key"));
        if name.is_empty() {
            errors.invalid(at.field("key"), key, "requires metadata.name be non-empty");
        } else {
            let whole = format!("{name}/{key}");
            errors.all(&at.field("key"), &whole, names::qualified(&whole));
        }
        let place = at.field("valueExpression");
        let (given, text) = (annotation.str("valueExpression"), annotation.str("valueExpression").trim());
        if text.is_empty() {
            errors.required(place, "valueExpression is not specified");
        } else if text.len() > LONGEST_ANNOTATION {
            errors.required(place, format!("must not exceed {LONGEST_ANNOTATION} bytes in length"));
        } else if let Err(why) = compiler.expression(text, Gives::Note) {
            errors.invalid(place, given, why);
        }
        if !keys.insert(key) {
            errors.duplicate(at.field("key"), key);
        }
    }
}

/// Judges what bindings have in common.
fn binding(spec: &Value, errors: &mut Errors) {
    let at = At::root("spec");
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

/// ValidatingAdmissionPolicyBindings.
pub(super) struct ValidatingBinding;

impl Rules for ValidatingBinding {
    fn default(&self, _: &str, object: &mut Value) {
        default_resources(object, "matchResources");
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let spec = object.at("spec");
        binding(spec, errors);
        actions(At::root("spec").field("validationActions"), spec, errors);
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.whole_metadata(errors);
        self.validate(change.object, errors);
    }
}

/// MutatingAdmissionPolicyBindings.
pub(super) struct MutatingBinding;

impl Rules for MutatingBinding {
    fn default(&self, _: &str, object: &mut Value) {
        default_resources(object, "matchResources");
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let spec = object.at("spec");
        binding(spec, errors);
        let at = At::root("spec");
        supported_operations(at.field("matchResources"), spec.at("matchResources"), Some(&MUTABLE), errors);
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.whole_metadata(errors);
        self.validate(change.object, errors);
    }
}

fn parameters(at: At<'_>, reference: &Value, errors: &mut Errors) {
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

fn actions(at: At<'_>, spec: &Value, errors: &mut Errors) {
    let known = ["Audit", "Deny", "Warn"];
    let given = spec.strs("validationActions");
    for (index, action) in given.iter().enumerate() {
        if !known.contains(action) {
            errors.unsupported(at.index(index), *action, &known);
        }
        if given.iter().take(index).any(|other| other == action) {
            errors.duplicate(at.index(index), *action);
        }
    }
    if given.contains(&"Deny") && given.contains(&"Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.invalid(at, spec.shown("validationActions"), why);
    }
    if given.is_empty() {
        errors.required(at, "at least one validation action is required");
    }
}
