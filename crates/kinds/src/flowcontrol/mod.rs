//! `flowcontrol.apiserver.k8s.io`.

mod flow_schema;
mod priority_level_configuration;

use std::collections::HashSet;

use serde_json::Value;

use crate::{
    check::{At, Errors, FieldErrors, Read},
    kind::Kind,
};

pub(crate) static KINDS: &[Kind] = &[flow_schema::KIND, priority_level_configuration::KIND];

/// Validates the conditions of a status, of which only the types matter.
fn check_conditions(object: &Value, errors: &mut Errors) {
    let (status, mut seen) = (At::root("status"), HashSet::new());
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
