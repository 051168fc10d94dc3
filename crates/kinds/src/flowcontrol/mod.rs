//! `flowcontrol.apiserver.k8s.io`.

mod flow_schema;
mod priority_level_configuration;

use std::collections::HashSet;

use serde_json::Value;

use crate::{
    check::{Errors, FieldErrors, FieldPath, Read},
    kind::Kind,
};

pub(crate) static KINDS: &[Kind] = &[flow_schema::KIND, priority_level_configuration::KIND];

/// Validates that conditions have a type, and no type twice.
fn check_conditions(object: &Value, errors: &mut Errors) {
    let (status, mut seen) = (FieldPath::root("status"), HashSet::new());
    let at = status.field("conditions");
    for (index, condition) in object.at("status").list("conditions").iter().enumerate() {
        let (at, kind) = (at.index(index), condition.str("type"));
        if !seen.insert(kind) {
            errors.duplicate(at.field("type"), kind);
        }
        if kind.is_empty() {
            errors.required(at.field("type"), "");
        }
    }
}
