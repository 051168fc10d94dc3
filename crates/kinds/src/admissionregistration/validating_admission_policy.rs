//! ValidatingAdmissionPolicy.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::Value;
use steersman_api::{names, object, table::Cell};

use crate::{
    admissionregistration::{
        expression::{Compiler, ResultType},
        policy,
    },
    cells::list,
    check::{Errors, FieldErrors, FieldPath, Read},
    kind::{Change, Column, Kind, Rules},
};

pub(super) const KIND: Kind = Kind {
    rules: &ValidatingAdmissionPolicy,
    has_generation: true,
    has_status: true,
    allows_unconditional_update: false,
    reset_fields: &[("status", &[&["metadata"], &["spec"]])],
    columns: &[Column::NAME, Column::integer("Validations"), Column::string("ParamKind"), Column::AGE],
    cell,
    ..Kind::new("admissionregistration.k8s.io", "validatingadmissionpolicies")
};

struct ValidatingAdmissionPolicy;

impl Rules for ValidatingAdmissionPolicy {
    fn default(&self, _: &str, object: &mut Value) {
        policy::default_policy(object);
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let (at, spec) = (FieldPath::root("spec"), object.at("spec"));
        let mut compiler = Compiler::new(spec, false);
        policy::validate(spec, &mut compiler, None, errors);
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
        // An unchanged spec is not validated again.
        if !change.is_status() && change.object.at("spec") != change.old.at("spec") {
            self.validate(change.object, errors);
        }
    }
}

fn validation_rule(at: FieldPath<'_>, validation: &Value, compiler: &Compiler, errors: &mut Errors) {
    policy::expression(
        at.field("expression"),
        validation.str("expression"),
        compiler,
        ResultType::Bool,
        errors,
    );
    if let Some(text) = validation.opt_str("messageExpression").filter(|text| !text.is_empty()) {
        let at = at.field("messageExpression");
        if text.trim().is_empty() {
            errors.invalid(at, text, "must be non-empty if specified");
        } else {
            policy::expression(at, text, compiler, ResultType::Text, errors);
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

/// Maximum length of an audit annotation's expression, in bytes.
const LONGEST_ANNOTATION: usize = 5 * 1024;

/// Validates audit annotations. Their keys are prefixed with the policy's name.
fn audit_annotations(at: FieldPath<'_>, object: &Value, compiler: &Compiler, errors: &mut Errors) {
    let annotations = object.at("spec").list("auditAnnotations");
    if annotations.len() > MOST_ANNOTATIONS {
        let why = format!("must not have more than {MOST_ANNOTATIONS} auditAnnotations");
        errors.invalid(at, annotations.to_vec(), why);
    }
    let mut keys = HashSet::new();
    for (index, annotation) in annotations.iter().enumerate() {
        let at = at.index(index);
        let (name, key) = (object::name(object), annotation.str("key"));
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
        } else if let Err(why) = compiler.expression(text, ResultType::Note) {
            errors.invalid(place, given, why);
        }
        if !keys.insert(key) {
            errors.duplicate(at.field("key"), key);
        }
    }
}

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    match column {
        "Validations" => Some(list(object, &["spec", "validations"]).len().into()),
        _ => policy::cell(column, object),
    }
}
