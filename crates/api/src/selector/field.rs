//! Field selectors: `a=b,c!=d`, with backslash escapes.

use crate::store::Entry;

/// A parsed field selector. The empty selector matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<Term>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    field: String,
    value: String,
    equal: bool,
}

impl FieldSelector {
    /// Parses a field selector.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut terms = Vec::new();
        for part in split_unescaped(text) {
            if part.is_empty() {
                continue;
            }
            let Some((field, value, equal)) = split_term(&part) else {
                return Err(format!("invalid selector: '{text}'; can't understand '{part}'"));
            };
            terms.push(Term { field, value: unescape(&value)?, equal });
        }
        Ok(Self(terms))
    }

    /// Whether the selector is empty, matching everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the fields that the selector uses.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|t| t.field.as_str())
    }

    /// Renames fields for which `name` returns another name.
    pub fn renamed(mut self, name: impl Fn(&str) -> Option<&'static str>) -> Self {
        for term in &mut self.0 {
            if let Some(other) = name(&term.field) {
                other.clone_into(&mut term.field);
            }
        }
        self
    }

    /// Returns the value required of `metadata.name`, if any.
    pub fn exact_name(&self) -> Option<&str> {
        self.0.iter().find(|t| t.equal && t.field == "metadata.name").map(|t| t.value.as_str())
    }

    /// Adds the requirement `metadata.name=NAME`.
    pub fn and_name(mut self, name: &str) -> Self {
        self.0.push(Term { field: "metadata.name".into(), value: name.into(), equal: true });
        self
    }

    /// Whether an object matches.
    pub fn matches(&self, entry: &Entry) -> bool {
        self.0.iter().all(|term| {
            let actual = match term.field.as_str() {
                "metadata.name" => entry.name(),
                "metadata.namespace" => entry.namespace(),
                other => entry.field(other).unwrap_or_default(),
            };
            (actual == term.value) == term.equal
        })
    }
}

fn split_unescaped(text: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        let part = match (c, escaped) {
            (',', false) => {
                out.push(String::new());
                continue;
            }
            _ => out.last_mut(),
        };
        if let Some(part) = part {
            part.push(c);
        }
        escaped = c == '\\' && !escaped;
    }
    out
}

fn split_term(term: &str) -> Option<(String, String, bool)> {
    let at = term.char_indices().find(|(i, c)| {
        *c == '=' || (*c == '!' && term.get(i + 1..).is_some_and(|rest| rest.starts_with('=')))
    })?;
    let (field, rest) = term.split_at(at.0);
    if let Some(value) = rest.strip_prefix("!=") {
        return Some((field.into(), value.into(), false));
    }
    let value = rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?;
    Some((field.into(), value.into(), true))
}

fn unescape(value: &str) -> Result<String, String> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(e @ ('\\' | ',' | '=')) => out.push(e),
                Some(other) => {
                    return Err(format!("invalid field selector: invalid escape sequence: \\{other}"));
                }
                None => return Err("invalid field selector: invalid escape sequence: \\".into()),
            },
            // Go prints the character as a number.
            ',' | '=' => {
                return Err(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                ));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_and_escapes() {
        let parsed = FieldSelector::parse("metadata.name=a,spec.x!=b\\,c,").unwrap();
        assert_eq!(parsed.exact_name(), Some("a"));
        assert_eq!(parsed.0[1], Term { field: "spec.x".into(), value: "b,c".into(), equal: false });
        assert!(FieldSelector::parse("metadata.name").is_err());
        assert!(FieldSelector::parse("a=b=c").is_err());
    }
}
