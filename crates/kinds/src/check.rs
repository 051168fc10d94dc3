//! Validation helpers: field paths, field errors, accessors and string validation.

use std::fmt;

use serde_json::{Map, Value};

use steersman_api::{fields::FieldError, names, object};

/// A field path, like Go's `field.Path`. Formatted only for errors.
#[derive(Clone, Copy)]
pub(crate) struct FieldPath<'a> {
    parent: Option<&'a FieldPath<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> FieldPath<'a> {
    /// Returns the path of a field of the object.
    pub(crate) const fn root(name: &'a str) -> Self {
        FieldPath { parent: None, step: Step::Field(name) }
    }

    /// Returns the path of a field below this one.
    pub(crate) fn field(&'a self, name: &'a str) -> FieldPath<'a> {
        FieldPath { parent: Some(self), step: Step::Field(name) }
    }

    /// Returns the path of a list item below this one.
    pub(crate) fn index(&'a self, index: usize) -> FieldPath<'a> {
        FieldPath { parent: Some(self), step: Step::Index(index) }
    }

    /// Returns the path of a map entry below this one.
    pub(crate) fn key(&'a self, key: &'a str) -> FieldPath<'a> {
        FieldPath { parent: Some(self), step: Step::Key(key) }
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match (self.step, self.parent) {
            (Step::Field(name), None) => f.write_str(name),
            (Step::Field(name), Some(_)) => write!(f, ".{name}"),
            (Step::Index(index), _) => write!(f, "[{index}]"),
            (Step::Key(key), _) => write!(f, "[{key}]"),
        }
    }
}

impl From<FieldPath<'_>> for String {
    fn from(at: FieldPath<'_>) -> Self {
        at.to_string()
    }
}

impl From<&FieldPath<'_>> for String {
    fn from(at: &FieldPath<'_>) -> Self {
        at.to_string()
    }
}

/// Errors found by a validation.
pub(crate) type Errors = Vec<FieldError>;

/// Shorthands for adding field errors.
pub(crate) trait FieldErrors {
    /// The field is required.
    fn required(&mut self, at: impl Into<String>, detail: impl Into<String>);
    /// The value is invalid.
    fn invalid(&mut self, at: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>);
    /// The value, given in formatted form, is invalid.
    fn invalid_shown(&mut self, at: impl Into<String>, shown: String, detail: impl Into<String>);
    /// The field must not be set or changed.
    fn forbidden(&mut self, at: impl Into<String>, detail: impl Into<String>);
    /// The value is not one of the supported ones, which are listed in this order.
    fn unsupported(&mut self, at: impl Into<String>, value: impl Into<Value>, supported: &[&str]);
    /// The value, given in formatted form, is not one of the supported ones.
    fn unsupported_shown(&mut self, at: impl Into<String>, shown: &str, supported: &[&str]);
    /// The value is a duplicate.
    fn duplicate(&mut self, at: impl Into<String>, value: impl Into<Value>);
    /// The value refers to something that does not exist.
    fn not_found(&mut self, at: impl Into<String>, value: impl Into<Value>);
    /// Adds an error for each of `complaints` about a string.
    fn all(&mut self, at: &FieldPath<'_>, value: &str, complaints: Vec<String>);
    /// The string must be one of the supported ones. If empty, it is `required`.
    fn one_of(&mut self, at: FieldPath<'_>, value: &str, supported: &[&str]);
    /// The number must not be negative.
    fn not_negative(&mut self, at: FieldPath<'_>, value: i64);
    /// The number must be in a range.
    fn in_range(&mut self, at: FieldPath<'_>, value: i64, low: i64, high: i64);
}

impl FieldErrors for Errors {
    fn required(&mut self, at: impl Into<String>, detail: impl Into<String>) {
        self.push(FieldError::required(at, detail));
    }

    fn invalid(&mut self, at: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) {
        self.push(FieldError::invalid(at, value, detail));
    }

    fn invalid_shown(&mut self, at: impl Into<String>, shown: String, detail: impl Into<String>) {
        self.push(FieldError::invalid_shown(at, shown, detail));
    }

    fn forbidden(&mut self, at: impl Into<String>, detail: impl Into<String>) {
        self.push(FieldError::forbidden(at, detail));
    }

    fn unsupported(&mut self, at: impl Into<String>, value: impl Into<Value>, supported: &[&str]) {
        self.push(FieldError::not_supported(at, value, supported));
    }

    fn unsupported_shown(&mut self, at: impl Into<String>, shown: &str, supported: &[&str]) {
        self.push(FieldError::not_supported_shown(at, shown, supported));
    }

    fn duplicate(&mut self, at: impl Into<String>, value: impl Into<Value>) {
        self.push(FieldError::duplicate(at, value));
    }

    fn not_found(&mut self, at: impl Into<String>, value: impl Into<Value>) {
        self.push(FieldError::not_found(at, value));
    }

    fn all(&mut self, at: &FieldPath<'_>, value: &str, complaints: Vec<String>) {
        for complaint in complaints {
            self.invalid(at, value, complaint);
        }
    }

    fn one_of(&mut self, at: FieldPath<'_>, value: &str, supported: &[&str]) {
        if value.is_empty() {
            self.required(at, "");
        } else if !supported.contains(&value) {
            self.unsupported(at, value, supported);
        }
    }

    fn not_negative(&mut self, at: FieldPath<'_>, value: i64) {
        if value < 0 {
            self.invalid(at, value, NEGATIVE);
        }
    }

    fn in_range(&mut self, at: FieldPath<'_>, value: i64, low: i64, high: i64) {
        if !(low..=high).contains(&value) {
            self.invalid(at, value, between(low, high));
        }
    }
}

pub(crate) const NEGATIVE: &str = "must be greater than or equal to 0";
pub(crate) const IMMUTABLE: &str = "field is immutable";
pub(crate) const NOT_POSITIVE: &str = "must be greater than zero";

/// Returns the error message for a number out of range.
pub(crate) fn between(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

/// Accessors for fields, with Go's zero values for absent ones.
pub(crate) trait Read {
    /// Returns a field's value, or null.
    fn at(&self, key: &str) -> &Value;
    /// Returns the value at a path, or null.
    fn path(&self, keys: &[&str]) -> &Value;
    /// Returns a field that is present and not null.
    fn opt(&self, key: &str) -> Option<&Value>;
    /// Returns a string, or an empty one.
    fn str(&self, key: &str) -> &str;
    /// Returns a string if it is set.
    fn opt_str(&self, key: &str) -> Option<&str>;
    /// Returns an integer, or 0.
    fn int(&self, key: &str) -> i64;
    /// Returns an integer if it is set.
    fn opt_int(&self, key: &str) -> Option<i64>;
    /// Returns a boolean, or false.
    fn flag(&self, key: &str) -> bool;
    /// Returns a list, or an empty one.
    fn list(&self, key: &str) -> &[Value];
    /// Returns the strings of a list.
    fn strs(&self, key: &str) -> Vec<&str>;
    /// Returns the entries of a map.
    fn pairs(&self, key: &str) -> impl Iterator<Item = (&str, &Value)>;
    /// Returns the value as errors show it: null for an absent map or list.
    fn shown(&self, key: &str) -> Value;
}

const NULL: &Value = &Value::Null;

impl Read for Value {
    fn at(&self, key: &str) -> &Value {
        self.get(key).unwrap_or(NULL)
    }

    fn path(&self, keys: &[&str]) -> &Value {
        keys.iter().fold(self, |value, key| value.at(key))
    }

    fn opt(&self, key: &str) -> Option<&Value> {
        self.get(key).filter(|value| !value.is_null())
    }

    fn str(&self, key: &str) -> &str {
        self.opt_str(key).unwrap_or_default()
    }

    fn opt_str(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    fn int(&self, key: &str) -> i64 {
        self.opt_int(key).unwrap_or_default()
    }

    fn opt_int(&self, key: &str) -> Option<i64> {
        self.get(key)?.as_i64()
    }

    fn flag(&self, key: &str) -> bool {
        self.get(key).and_then(Value::as_bool).unwrap_or_default()
    }

    fn list(&self, key: &str) -> &[Value] {
        self.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn strs(&self, key: &str) -> Vec<&str> {
        self.list(key).iter().map(|item| item.as_str().unwrap_or_default()).collect()
    }

    fn pairs(&self, key: &str) -> impl Iterator<Item = (&str, &Value)> {
        self.get(key)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.as_str(), value))
    }

    fn shown(&self, key: &str) -> Value {
        self.at(key).clone()
    }
}

/// Sets a default if the field is unset or null.
pub(crate) fn default(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    if map.get(key).is_none_or(Value::is_null) {
        map.insert(key.to_owned(), value.into());
    }
}

/// Sets a default if the field is unset, null, an empty string or zero.
pub(crate) fn default_zero(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    let empty = match map.get(key) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Number(number)) => number.as_f64() == Some(0.0),
        Some(_) => false,
    };
    if empty {
        map.insert(key.to_owned(), value.into());
    }
}

/// Returns the object at a key mutably, if present.
pub(crate) fn child<'a>(map: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut Map<String, Value>> {
    map.get_mut(key).and_then(Value::as_object_mut)
}

/// Returns the object at a key mutably, creating it if absent.
pub(crate) fn made<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    object::ensure(map.entry(key).or_insert(Value::Null))
}

/// Returns the objects in the list at a key mutably.
pub(crate) fn children<'a>(
    map: &'a mut Map<String, Value>,
    key: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    map.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Returns the error message for a string that does not match a regular expression.
fn pattern(what: &str, pattern: &str, examples: &[&str]) -> String {
    let mut text = what.to_owned();
    text.push_str(" (");
    if !examples.is_empty() {
        text.push_str("e.g. ");
        for (index, example) in examples.iter().enumerate() {
            if index > 0 {
                text.push_str(" or ");
            }
            text.push('\'');
            text.push_str(example);
            text.push_str("', ");
        }
    }
    text.push_str("regex used for validation is '");
    text.push_str(pattern);
    text.push_str("')");
    text
}

/// Validates a port number.
pub(crate) fn port_number(port: i64) -> Vec<String> {
    if (1..=65_535).contains(&port) { Vec::new() } else { vec![between(1, 65_535)] }
}

/// Validates a port name.
pub(crate) fn port_name(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if name.len() > 15 {
        errors.push("must be no more than 15 characters".to_owned());
    }
    if name.is_empty() || !name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-') {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !name.bytes().any(|c| c.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        errors.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        errors.push("must not begin or end with a hyphen".to_owned());
    }
    errors
}

/// Validates a port given by number or name.
pub(crate) fn port_number_or_name(at: FieldPath<'_>, port: &Value, errors: &mut Errors) {
    match port {
        Value::String(name) => errors.all(&at, name, port_name(name)),
        port => {
            let number = port.as_i64().unwrap_or_default();
            for complaint in port_number(number) {
                errors.invalid(at, number, complaint);
            }
        }
    }
}

/// Validates a percentage such as `25%`.
pub(crate) fn percent(text: &str) -> Vec<String> {
    let digits = text.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit()) {
        return Vec::new();
    }
    vec![pattern(
        "a valid percent string must be a numeric string followed by an ending '%'",
        "[0-9]+%",
        &["1%", "93%"],
    )]
}

/// Validates the name of an HTTP header.
pub(crate) fn header_name(name: &str) -> Vec<String> {
    if !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-') {
        return Vec::new();
    }
    vec![pattern(
        "a valid HTTP header must consist of alphanumeric characters or '-'",
        "[-A-Za-z0-9]+",
        &["X-Header-Name"],
    )]
}

/// Validates the name of an environment variable.
pub(crate) fn variable_name(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if name.is_empty() {
        errors.push("environment variable name must be non-empty".to_owned());
    }
    if !name.chars().all(|c| (' '..='~').contains(&c) && c != '=') {
        errors.push(
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
                .to_owned(),
        );
    }
    errors
}

/// Validates a key of a ConfigMap or a Secret.
pub(crate) fn config_key(key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if key.len() > 253 {
        errors.push("must be no more than 253 characters".to_owned());
    }
    let plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    if key.is_empty() || !key.bytes().all(plain) {
        errors.push(pattern(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    match key {
        "." | ".." => errors.push(format!("must not be '{key}'")),
        _ if key.starts_with("..") => errors.push("must not start with '..'".to_owned()),
        _ => {}
    }
    errors
}

/// Validates a wildcard subdomain such as `*.example.com`.
pub(crate) fn wildcard_subdomain(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 253 {
        errors.push("must be no more than 253 characters".to_owned());
    }
    if !text.strip_prefix("*.").is_some_and(|rest| rest.split('.').all(names::is_label)) {
        errors.push(pattern(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
            &["*.example.com"],
        ));
    }
    errors
}

/// Validates a domain-prefixed path such as `example.com/name`.
pub(crate) fn domain_path(at: FieldPath<'_>, text: &str, errors: &mut Errors) {
    if text.is_empty() {
        return errors.required(at, "");
    }
    let Some((host, path)) = text.split_once('/').filter(|(host, path)| !host.is_empty() && !path.is_empty())
    else {
        return errors.invalid(at, text, "must be a domain-prefixed path (such as \"acme.io/foo\")");
    };
    errors.all(&at, host, names::subdomain(host));
    let plain = |c: u8| c.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&c);
    if !path.bytes().all(plain) {
        errors.invalid(at, path, pattern("Invalid path", r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", &[]));
    }
}

/// Validates a set of labels.
pub(crate) fn labels<'a>(
    at: FieldPath<'_>,
    pairs: impl Iterator<Item = (&'a str, &'a Value)>,
    errors: &mut Errors,
) {
    for (key, value) in pairs {
        errors.all(&at, key, names::qualified(key));
        let value = value.as_str().unwrap_or_default();
        errors.all(&at, value, names::label_value(value));
    }
}

/// Validates a label selector. Null is valid.
pub(crate) fn label_selector(at: FieldPath<'_>, selector: &Value, errors: &mut Errors) {
    labels(at.field("matchLabels"), selector.pairs("matchLabels"), errors);
    let list = at.field("matchExpressions");
    for (index, expression) in selector.list("matchExpressions").iter().enumerate() {
        let at = list.index(index);
        let values = expression.list("values");
        match expression.str("operator") {
            "In" | "NotIn" => {
                if values.is_empty() {
                    errors
                        .required(at.field("values"), "must be specified when `operator` is 'In' or 'NotIn'");
                }
            }
            "Exists" | "DoesNotExist" => {
                if !values.is_empty() {
                    errors.forbidden(
                        at.field("values"),
                        "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                    );
                }
            }
            other => errors.invalid(at.field("operator"), other, "not a valid selector operator"),
        }
        let key = expression.str("key");
        errors.all(&at.field("key"), key, names::qualified(key));
        let list = at.field("values");
        for (index, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            errors.all(&list.index(index), value, names::label_value(value));
        }
    }
}

/// Whether a label selector matches labels. An invalid selector matches nothing.
pub(crate) fn selects(selector: &Value, labels: &Value) -> bool {
    let of = |key: &str| labels.get(key).and_then(Value::as_str);
    selector.pairs("matchLabels").all(|(key, value)| of(key) == value.as_str())
        && selector.list("matchExpressions").iter().all(|expression| {
            let given = of(expression.str("key"));
            let among =
                || expression.list("values").iter().any(|value| given.is_some() && value.as_str() == given);
            match expression.str("operator") {
                "In" => among(),
                "NotIn" => !among(),
                "Exists" => given.is_some(),
                "DoesNotExist" => given.is_none(),
                _ => false,
            }
        })
}

/// Whether a label selector has no requirements.
pub(crate) fn is_empty_selector(selector: &Value) -> bool {
    selector.at("matchLabels").as_object().is_none_or(Map::is_empty)
        && selector.list("matchExpressions").is_empty()
}

/// Validates annotations.
pub(crate) fn annotations(at: FieldPath<'_>, value: &Value, errors: &mut Errors) {
    let mut size = 0;
    for (key, text) in value.as_object().into_iter().flatten() {
        errors.all(&at, key, names::qualified(&key.to_lowercase()));
        size += key.len() + text.as_str().map_or(0, str::len);
    }
    if size > 256 * 1024 {
        errors.push(FieldError::too_long(at, 256 * 1024));
    }
}

/// Validates a name that is used as a path segment.
pub(crate) fn path_segment(at: FieldPath<'_>, text: &str, errors: &mut Errors) {
    if text.is_empty() {
        return errors.required(at, "");
    }
    errors.all(&at, text, names::check(names::NameRule::PathSegment, text, false));
}
