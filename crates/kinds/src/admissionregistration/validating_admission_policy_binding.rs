//! ValidatingAdmissionPolicyBinding.

use std::collections::HashSet;

use serde_json::Value;

use crate::{
    admissionregistration::policy,
    check::{Errors, FieldErrors, FieldPath, Read},
    kind::{Change, Column, Kind, Rules},
};

pub(super) const KIND: Kind = Kind {
    rules: &ValidatingAdmissionPolicyBinding,
    has_generation: true,
    allows_unconditional_update: false,
    columns: &[Column::NAME, Column::string("PolicyName"), Column::string("ParamRef"), Column::AGE],
    cell: policy::binding_cell,
    ..Kind::new("admissionregistration.k8s.io", "validatingadmissionpolicybindings")
};

struct ValidatingAdmissionPolicyBinding;

impl Rules for ValidatingAdmissionPolicyBinding {
    fn default(&self, _: &str, object: &mut Value) {
        policy::default_resources(object, "matchResources");
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let spec = object.at("spec");
        policy::validate_binding(spec, errors);
        actions(FieldPath::root("spec").field("validationActions"), spec, errors);
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.whole_metadata(errors);
        self.validate(change.object, errors);
    }
}

fn actions(at: FieldPath<'_>, spec: &Value, errors: &mut Errors) {
    let known = ["Audit", "Deny", "Warn"];
    let given = spec.strs("validationActions");
    let mut seen = HashSet::new();
    for (index, action) in given.iter().enumerate() {
        if !known.contains(action) {
            errors.unsupported(at.index(index), *action, &known);
        }
        if !seen.insert(action) {
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
