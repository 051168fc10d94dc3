//! Validation of names, labels and qualified names.

/// Validation rule for an object's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// Dot separated labels, up to 253 characters. Most kinds.
    Subdomain,
    /// One label, up to 63 characters.
    Label,
    /// Anything that is valid as a path segment. RBAC kinds.
    PathSegment,
}

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// The API's messages give the limit of names in characters and that of labels in bytes; the number is the same.
fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

fn too_many_bytes(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

fn lower(c: u8) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

/// Whether a string has the form of an RFC 1123 label, regardless of its length.
pub fn is_label(text: &str) -> bool {
    label_shape(text)
}

fn label_shape(text: &str) -> bool {
    let bytes = text.as_bytes();
    matches!((bytes.first(), bytes.last()), (Some(a), Some(z)) if lower(*a) && lower(*z))
        && bytes.iter().all(|c| lower(*c) || *c == b'-')
}

/// Validates `name` by `rule` and returns the errors. `prefix` selects the rule for `generateName`.
#[must_use]
pub fn check(rule: NameRule, name: &str, prefix: bool) -> Vec<String> {
    // A generateName may end with a dash, since a suffix is appended to it.
    let masked;
    let name = if prefix && name.ends_with('-') && name.len() > 1 {
        masked = format!("{}a", &name[..name.len() - 1]);
        &masked
    } else {
        name
    };
    match rule {
        NameRule::Subdomain => subdomain(name),
        NameRule::Label => label(name),
        NameRule::PathSegment => path_segment(name),
    }
}

/// Validates an RFC 1123 subdomain and returns the errors.
#[must_use]
pub fn subdomain(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 253 {
        errors.push(too_long(253));
    }
    if !text.split('.').all(label_shape) {
        errors.push(SUBDOMAIN.to_owned());
    }
    errors
}

/// Validates an RFC 1123 label and returns the errors.
#[must_use]
pub fn label(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push(too_long(63));
    }
    if !label_shape(text) {
        let dotted = !text.is_empty() && text.split('.').all(label_shape);
        errors.push(if dotted { "must not contain dots".to_owned() } else { LABEL.to_owned() });
    }
    errors
}

/// Validates an RFC 1035 label and returns the errors.
#[must_use]
pub fn label_1035(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push(too_long(63));
    }
    if !label_shape(text) || !text.as_bytes().first().is_some_and(u8::is_ascii_lowercase) {
        errors.push(LABEL_1035.to_owned());
    }
    errors
}

fn path_segment(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    ["/", "%"].iter().filter(|c| text.contains(**c)).map(|c| format!("may not contain '{c}'")).collect()
}

fn qualified_shape(text: &str) -> bool {
    let bytes = text.as_bytes();
    matches!((bytes.first(), bytes.last()), (Some(a), Some(z)) if a.is_ascii_alphanumeric() && z.is_ascii_alphanumeric())
        && bytes.iter().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.'))
}

/// Validates a qualified name, such as a label or annotation key: an optional subdomain and a slash, then a name.
#[must_use]
pub fn qualified(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                QUALIFIED.trim_start_matches("name part ")
            )];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(subdomain(prefix).into_iter().map(|e| format!("prefix part {e}")));
            }
            name
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push(format!("name part {}", too_many_bytes(63)));
    }
    if !qualified_shape(name) {
        errors.push(QUALIFIED.to_owned());
    }
    errors
}

/// Validates a label value and returns the errors.
#[must_use]
pub fn label_value(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push(too_many_bytes(63));
    }
    if !text.is_empty() && !qualified_shape(text) {
        errors.push(LABEL_VALUE.to_owned());
    }
    errors
}
