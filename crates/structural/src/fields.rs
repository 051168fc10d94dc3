//! Validation errors of single fields, worded like `field.Error` of apimachinery.

use std::fmt;

use serde_json::Value;

use crate::go::{self, quote};

/// The kind of violation.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldErrorKind {
    /// A required field is missing.
    Required,
    /// The value is invalid.
    Invalid(Value),
    /// The value, already formatted, is invalid.
    InvalidShown(String),
    /// The value is invalid and is omitted from the message.
    InvalidOmitted,
    /// The value has the wrong type.
    TypeInvalid(Value),
    /// The value is not one of the supported ones.
    NotSupported(Value, Vec<String>),
    /// The value, already formatted, is not one of the supported ones.
    NotSupportedShown(String, Vec<String>),
    /// The field must not be set or changed.
    Forbidden,
    /// The value is a duplicate.
    Duplicate(Value),
    /// The value, already formatted, is a duplicate.
    DuplicateShown(String),
    /// The value is a duplicate and is omitted from the message.
    DuplicateOmitted,
    /// The value refers to something that does not exist.
    NotFound(Value),
    /// The value is longer than this many bytes.
    TooLong(usize),
    /// The number of items in the list, and the maximum.
    TooMany(usize, usize),
    /// The server failed to validate the field.
    Internal,
}

impl FieldErrorKind {
    /// Returns the machine-readable reason used in `details.causes`.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid(_) | Self::InvalidShown(_) | Self::InvalidOmitted => "FieldValueInvalid",
            Self::TypeInvalid(_) => "FieldValueTypeInvalid",
            Self::NotSupported(..) | Self::NotSupportedShown(..) => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::Duplicate(_) | Self::DuplicateShown(_) | Self::DuplicateOmitted => "FieldValueDuplicate",
            Self::NotFound(_) => "FieldValueNotFound",
            Self::TooLong(_) => "FieldValueTooLong",
            Self::TooMany(..) => "FieldValueTooMany",
            Self::Internal => "InternalError",
        }
    }
}

/// A validation error: field path, kind and detail.
///
/// ```
/// use steersman_structural::FieldError;
///
/// let error = FieldError::required("spec.image", "an image is needed");
/// assert_eq!(error.to_string(), "spec.image: Required value: an image is needed");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// Path such as `spec.template.spec.containers[0].name`.
    pub field: String,
    /// The kind of violation.
    pub kind: FieldErrorKind,
    /// Further explanation, possibly empty.
    pub detail: String,
}

impl FieldError {
    fn new(field: impl Into<String>, kind: FieldErrorKind, detail: impl Into<String>) -> Self {
        Self { field: field.into(), kind, detail: detail.into() }
    }

    /// A required field is missing.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, FieldErrorKind::Required, detail)
    }

    /// The value is invalid.
    pub fn invalid(field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(field, FieldErrorKind::Invalid(value.into()), detail)
    }

    /// The value is invalid; `shown` is its formatted form, since some values are printed as Go structs.
    pub fn invalid_shown(
        field: impl Into<String>,
        shown: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(field, FieldErrorKind::InvalidShown(shown.into()), detail)
    }

    /// The value is invalid and is omitted from the message.
    pub fn invalid_omitted(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, FieldErrorKind::InvalidOmitted, detail)
    }

    /// The value has the wrong type.
    pub fn type_invalid(
        field: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(field, FieldErrorKind::TypeInvalid(value.into()), detail)
    }

    /// The value is not one of the supported ones.
    pub fn not_supported(field: impl Into<String>, value: impl Into<Value>, supported: &[&str]) -> Self {
        let supported = supported.iter().map(ToString::to_string).collect();
        Self::new(field, FieldErrorKind::NotSupported(value.into(), supported), "")
    }

    /// The value is not one of the supported ones; `shown` is its formatted form.
    pub fn not_supported_shown(
        field: impl Into<String>,
        shown: impl Into<String>,
        supported: &[&str],
    ) -> Self {
        let supported = supported.iter().map(ToString::to_string).collect();
        Self::new(field, FieldErrorKind::NotSupportedShown(shown.into(), supported), "")
    }

    /// The field must not be set or changed.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, FieldErrorKind::Forbidden, detail)
    }

    /// The value is a duplicate.
    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(field, FieldErrorKind::Duplicate(value.into()), "")
    }

    /// The value is a duplicate; `shown` is its formatted form.
    pub fn duplicate_shown(field: impl Into<String>, shown: impl Into<String>) -> Self {
        Self::new(field, FieldErrorKind::DuplicateShown(shown.into()), "")
    }

    /// The value is a duplicate and is omitted from the message.
    pub fn duplicate_omitted(field: impl Into<String>) -> Self {
        Self::new(field, FieldErrorKind::DuplicateOmitted, "")
    }

    /// The value refers to something that does not exist.
    pub fn not_found(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(field, FieldErrorKind::NotFound(value.into()), "")
    }

    /// The value is longer than `limit` bytes.
    pub fn too_long(field: impl Into<String>, limit: usize) -> Self {
        Self::new(field, FieldErrorKind::TooLong(limit), "")
    }

    /// The list has `actual` items, but at most `limit` are allowed.
    pub fn too_many(field: impl Into<String>, actual: usize, limit: usize) -> Self {
        Self::new(field, FieldErrorKind::TooMany(actual, limit), "")
    }

    /// The server failed to validate the field.
    pub fn internal(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, FieldErrorKind::Internal, detail)
    }

    /// Returns the message without the field path.
    #[must_use]
    pub fn body(&self) -> String {
        let head = match &self.kind {
            FieldErrorKind::Required => "Required value".to_owned(),
            FieldErrorKind::Forbidden => "Forbidden".to_owned(),
            FieldErrorKind::Internal => "Internal error".to_owned(),
            FieldErrorKind::Invalid(v) | FieldErrorKind::TypeInvalid(v) => {
                format!("Invalid value: {}", show(v))
            }
            FieldErrorKind::InvalidOmitted => "Invalid value".to_owned(),
            FieldErrorKind::InvalidShown(text) => format!("Invalid value: {text}"),
            FieldErrorKind::Duplicate(v) => format!("Duplicate value: {}", show(v)),
            FieldErrorKind::DuplicateShown(text) => format!("Duplicate value: {text}"),
            FieldErrorKind::DuplicateOmitted => "Duplicate value".to_owned(),
            FieldErrorKind::NotFound(v) => format!("Not found: {}", show(v)),
            FieldErrorKind::NotSupported(v, supported) => return unsupported(&show(v), supported),
            FieldErrorKind::NotSupportedShown(text, supported) => return unsupported(text, supported),
            FieldErrorKind::TooLong(limit) => {
                let unit = if *limit == 1 { "byte" } else { "bytes" };
                return format!("Too long: may not be more than {limit} {unit}");
            }
            FieldErrorKind::TooMany(actual, limit) => {
                let unit = if *limit == 1 { "item" } else { "items" };
                return format!("Too many: {actual}: must have at most {limit} {unit}");
            }
        };
        if self.detail.is_empty() { head } else { format!("{head}: {}", self.detail) }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

fn unsupported(value: &str, supported: &[String]) -> String {
    let list: Vec<String> = supported.iter().map(|s| quote(s)).collect();
    if list.is_empty() {
        format!("Unsupported value: {value}")
    } else {
        format!("Unsupported value: {value}: supported values: {}", list.join(", "))
    }
}

/// Formats a value for a message: strings quoted, numbers plain, everything else as JSON.
fn show(value: &Value) -> String {
    match value {
        Value::String(s) => quote(s),
        Value::Number(n) if !n.is_i64() => go::float(n.as_f64().unwrap_or_default()),
        other => go::json(other),
    }
}
