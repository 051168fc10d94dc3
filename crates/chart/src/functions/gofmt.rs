//! Values as text.

use steersman_gotemplate::{Budget, CallError, Str, Value};

/// Nesting beyond which a value is taken to contain itself.
pub(super) const MAX_DEPTH: usize = 1000;

/// What sprig makes of any value that should be a string: strings and bytes as they are, all else as `%v` prints it, which is
/// charged for.
pub(super) fn strval(budget: &Budget, value: &Value) -> Result<Str, CallError> {
    match value {
        Value::String(text) | Value::Bytes(text) => Ok(text.clone()),
        other => budget.print(other),
    }
}
