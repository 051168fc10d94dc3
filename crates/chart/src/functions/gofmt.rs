//! Values as text.

use steersman_gotemplate::{CallError, Str, Value, fmt};

/// Nesting beyond which a value is taken to contain itself.
pub(super) const MAX_DEPTH: usize = 1000;

/// What sprig makes of any value that should be a string: strings and bytes as they are, all else as `%v` prints it.
pub(super) fn strval(value: &Value) -> Result<Str, CallError> {
    match value {
        Value::String(text) | Value::Bytes(text) => Ok(text.clone()),
        other => fmt::format_value(other),
    }
}
