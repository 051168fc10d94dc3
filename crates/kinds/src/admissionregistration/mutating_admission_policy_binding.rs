//! MutatingAdmissionPolicyBinding.

use serde_json::Value;

use crate::{
    admissionregistration::policy,
    check::{Errors, FieldPath, Read},
    kind::{Change, Column, Kind, Rules},
};

pub(super) const KIND: Kind = Kind {
    rules: &MutatingAdmissionPolicyBinding,
    has_generation: true,
    allows_unconditional_update: false,
    columns: &[Column::NAME, Column::string("PolicyName"), Column::string("ParamRef"), Column::AGE],
    cell: policy::binding_cell,
    ..Kind::new("admissionregistration.k8s.io", "mutatingadmissionpolicybindings")
};

struct MutatingAdmissionPolicyBinding;

impl Rules for MutatingAdmissionPolicyBinding {
    fn default(&self, _: &str, object: &mut Value) {
        policy::default_resources(object, "matchResources");
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let spec = object.at("spec");
        policy::validate_binding(spec, errors);
        let at = FieldPath::root("spec");
        policy::supported_operations(
            at.field("matchResources"),
            spec.at("matchResources"),
            Some(&policy::MUTABLE),
            errors,
        );
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
        change.whole_metadata(errors);
        self.validate(change.object, errors);
    }
}
