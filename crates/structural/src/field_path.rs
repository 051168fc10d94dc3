//! JSON paths in definitions, such as `.spec.size` or `.spec['my-map'].x`.

use crate::path::{child, key};
use crate::schema::Schema;

/// A JSON path resolved in a schema.
pub(crate) struct Found<'s> {
    /// The path as error messages write it.
    pub(crate) path: String,
    /// The first field of the path.
    pub(crate) root: String,
    /// The schema at the path.
    pub(crate) schema: &'s Schema,
}

/// Resolves a JSON path; the error says why it is invalid.
pub(crate) fn valid<'s>(text: &str, schema: &'s Schema, brackets: bool) -> Result<Found<'s>, String> {
    let mut tokens = Tokens(text);
    let mut found = Found { path: String::new(), root: String::new(), schema };
    let end = || "unexpected end of JSON path".to_owned();
    while let Some(token) = tokens.next() {
        match token {
            "[" => {
                if !brackets {
                    return Err("array notation is not allowed".to_owned());
                }
                let token = tokens.next().ok_or_else(end)?;
                let quoted =
                    token.strip_prefix('\'').and_then(|t| t.strip_suffix('\'')).filter(|_| token.len() >= 2);
                let Some(quoted) = quoted else {
                    return Err(format!("expected single quoted string but got {token}"));
                };
                let name = unescaped(quoted).map_err(|why| format!("invalid string literal: {why}"))?;
                step(&mut found, &name)?;
                match tokens.next() {
                    Some("]") => {}
                    Some(other) => return Err(format!("expected ] but got {other}")),
                    None => return Err(end()),
                }
            }
            "." => {
                let name = tokens.next().ok_or_else(end)?;
                step(&mut found, name)?;
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        }
    }
    Ok(found)
}

fn step(found: &mut Found<'_>, name: &str) -> Result<(), String> {
    let schema = found.schema;
    let is_named = !schema.properties.is_empty();
    let next = if is_named { schema.properties.get(name) } else { schema.additional() };
    found.schema = next.ok_or("does not refer to a valid field")?;
    if found.path.is_empty() {
        name.clone_into(&mut found.root);
    }
    found.path = if is_named { child(&found.path, name) } else { key(&found.path, name) };
    Ok(())
}

fn unescaped(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('a') => out.push('\u{7}'),
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('v') => out.push('\u{b}'),
            Some(c @ ('\'' | '\\')) => out.push(c),
            Some(c) => return Err(format!("invalid escape char \\{c}")),
            None => out.push('\\'),
        }
    }
    Ok(out)
}

/// Splits a path into dots, brackets and the names between them; a quoted string is one token.
struct Tokens<'a>(&'a str);

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let text = self.0;
        if text.is_empty() {
            return None;
        }
        let length = if text.starts_with('\'') {
            let bytes = text.as_bytes();
            let close = (1..bytes.len()).find(|i| bytes[*i] == b'\'' && bytes[i - 1] != b'\\');
            close.map_or(text.len(), |at| at + 1)
        } else {
            match text.find(['.', '[', ']']) {
                Some(0) => 1,
                Some(at) => at,
                None => text.len(),
            }
        };
        let (token, rest) = text.split_at(length);
        self.0 = rest;
        Some(token)
    }
}
