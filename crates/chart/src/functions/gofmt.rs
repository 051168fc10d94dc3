//! Formatting values as strings.

use steersman_gotemplate::{Budget, CallError, Str, Value};

/// Nesting beyond which a value is assumed to contain itself.
pub(super) const MAX_DEPTH: usize = 1000;

/// Converts any value to a string as sprig does.
///
/// Strings and bytes are unchanged; others are formatted as `%v` does, which is charged for.
pub(super) fn strval(budget: &Budget, value: &Value) -> Result<Str, CallError> {
    match value {
        Value::String(text) | Value::Bytes(text) => Ok(text.clone()),
        other => budget.print(other),
    }
}
