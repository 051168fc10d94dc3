//! The data of ConfigMaps and Secrets.

use serde_json::Value;

use crate::{
    check::{Errors, FieldErrors, Read},
    kind::Change,
};

/// Maximum total size of a Secret's or ConfigMap's data, in bytes.
pub(super) const MAX_SIZE: usize = 1024 * 1024;

/// Returns the decoded length of a base64 string.
pub(crate) fn decoded_length(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    text.len() / 4 * 3 - text.bytes().rev().take_while(|c| *c == b'=').count().min(text.len() / 4 * 3)
}

/// Reports changes of an object with `immutable: true`.
pub(crate) fn immutable(change: Change<'_>, fields: &[&str], errors: &mut Errors) {
    if !change.old.flag("immutable") {
        return;
    }
    let why = "field is immutable when `immutable` is set";
    if !change.object.flag("immutable") {
        errors.forbidden("immutable", why);
    }
    for field in fields {
        if change.object.at(field) != change.old.at(field) {
            errors.forbidden(*field, why);
        }
    }
}
