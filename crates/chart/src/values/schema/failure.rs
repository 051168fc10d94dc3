//! Validation errors: a tree of causes, printed as by Go's santhosh-tekuri/jsonschema.

use super::words::quote;

/// A validation error with its causes.
#[derive(Debug, Default)]
pub(super) struct Failure {
    /// JSON pointer of the value.
    at: String,
    message: String,
    kind: Kind,
    causes: Vec<Failure>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Keyword,
    /// Several errors of one value.
    Group,
    /// The error of a referenced schema.
    Reference,
}

impl Failure {
    pub(super) fn new(at: &str, message: String, causes: Vec<Self>) -> Self {
        Self { at: at.to_owned(), message, kind: Kind::Keyword, causes }
    }

    pub(super) fn group(at: &str, causes: Vec<Self>) -> Self {
        Self { kind: Kind::Group, ..Self::new(at, "validation failed".to_owned(), causes) }
    }

    pub(super) fn behind_reference(at: &str, cause: Self) -> Self {
        let causes = cause.into_causes();
        Self { kind: Kind::Reference, ..Self::new(at, "validation failed".to_owned(), causes) }
    }

    /// Returns the causes of a group, or the error itself.
    pub(super) fn into_causes(self) -> Vec<Self> {
        if self.kind == Kind::Group { self.causes } else { vec![self] }
    }

    /// Prints one line per error, with causes indented below.
    pub(super) fn print(self) -> String {
        let mut text = String::new();
        for cause in self.into_causes() {
            cause.print_at(1, &mut text);
        }
        text.trim_start_matches('\n').to_owned()
    }

    fn print_at(&self, indent: usize, text: &mut String) {
        let mut inner = indent;
        // A reference to a schema that failed for a single cause is not printed.
        if self.kind != Kind::Reference || self.causes.len() != 1 {
            text.push('\n');
            text.push_str(&"  ".repeat(indent - 1));
            text.push_str(&format!("- at {}: {}", quote(&self.at), self.message));
            inner += 1;
        }
        for cause in &self.causes {
            super::deeper(|| cause.print_at(inner, text));
        }
    }
}
