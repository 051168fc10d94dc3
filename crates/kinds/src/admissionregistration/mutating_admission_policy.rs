//! MutatingAdmissionPolicy.

use jiff::Timestamp;
use serde_json::Value;
use steersman_api::table::Cell;

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
    rules: &MutatingAdmissionPolicy,
    has_generation: true,
    allows_unconditional_update: false,
    columns: &[Column::NAME, Column::integer("Mutations"), Column::string("ParamKind"), Column::AGE],
    cell,
    ..Kind::new("admissionregistration.k8s.io", "mutatingadmissionpolicies")
};

struct MutatingAdmissionPolicy;

impl Rules for MutatingAdmissionPolicy {
    fn default(&self, _: &str, object: &mut Value) {
        policy::default_policy(object);
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let (at, spec) = (FieldPath::root("spec"), object.at("spec"));
        let mut compiler = Compiler::new(spec, true);
        policy::validate(spec, &mut compiler, Some(&policy::MUTABLE), errors);
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

/// Patch types with the field of the expression and its result type.
const PATCHES: [(&str, &str, ResultType); 2] = [
    ("ApplyConfiguration", "applyConfiguration", ResultType::Object),
    ("JSONPatch", "jsonPatch", ResultType::Patch),
];

fn mutation(at: FieldPath<'_>, mutation: &Value, compiler: &Compiler, errors: &mut Errors) {
    let patch_type = mutation.str("patchType");
    if patch_type.is_empty() {
        return errors.required(at.field("patchType"), "");
    }
    if !PATCHES.iter().any(|(known, ..)| *known == patch_type) {
        return errors.unsupported(at.field("patchType"), patch_type, &PATCHES.map(|(known, ..)| known));
    }
    let (mut wanted, mut others) = (Vec::new(), Vec::new());
    for (known, field, result_type) in PATCHES {
        let at = at.field(field);
        match mutation.opt(field) {
            None if known == patch_type => {
                wanted.required(at, format!("must be specified when patchType is {patch_type}"));
            }
            Some(patch) if known == patch_type => match patch.str("expression").trim() {
                "" => wanted.required(at.field("expression"), ""),
                text => policy::expression(at.field("expression"), text, compiler, result_type, &mut wanted),
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

fn cell(column: &str, object: &Value, _: Timestamp) -> Option<Cell> {
    match column {
        "Mutations" => Some(list(object, &["spec", "mutations"]).len().into()),
        _ => policy::cell(column, object),
    }
}
