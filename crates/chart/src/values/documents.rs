//! A schema with what it refers to.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::schema::ADDRESS;

/// A schema and what it refers to.
pub(super) struct Documents {
    root: Json,
    others: HashMap<String, Json>,
    draft: u16,
}

impl Documents {
    /// The draft of the schema: 4, 6, 7, 2019 or 2020.
    pub(super) fn draft(&self) -> u16 {
        self.draft
    }

    pub(super) fn new(root: Json, others: HashMap<String, Json>) -> Self {
        let draft = match root.get("$schema").and_then(Json::as_str) {
            Some(url) if url.contains("draft-04") => 4,
            Some(url) if url.contains("draft-06") => 6,
            Some(url) if url.contains("draft-07") => 7,
            Some(url) if url.contains("2019-09") => 2019,
            _ => 2020,
        };
        Self { root, others, draft }
    }

    /// The schema itself.
    pub(super) fn root(&self) -> &Json {
        &self.root
    }

    /// The same, with these documents to refer to.
    pub(super) fn with(self, others: HashMap<String, Json>) -> Self {
        Self { others, ..self }
    }

    /// The schema that a reference names, and the document it stands in.
    pub(super) fn resolve<'a>(&'a self, document: &'a Json, reference: &str) -> Option<(&'a Json, &'a Json)> {
        let (address, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let document = match address {
            "" => document,
            ADDRESS => &self.root,
            url => self.others.get(url).or_else(|| find_by(document, &["$id", "id"], url))?,
        };
        let fragment = percent_decode(fragment);
        if fragment.is_empty() {
            return Some((document, document));
        }
        if fragment.starts_with('/') {
            return Some((document, document.pointer(&fragment)?));
        }
        let anchored = find_by(document, &["$anchor", "$dynamicAnchor"], &fragment)
            .or_else(|| find_by(document, &["$id", "id"], &format!("#{fragment}")))?;
        Some((document, anchored))
    }
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match (first, code.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            (byte, _) => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The first subschema that has this text under one of these keys.
fn find_by<'a>(schema: &'a Json, keys: &[&str], text: &str) -> Option<&'a Json> {
    match schema {
        Json::Object(entries) => {
            if keys.iter().any(|key| entries.get(*key).and_then(Json::as_str) == Some(text)) {
                return Some(schema);
            }
            entries.values().find_map(|inner| find_by(inner, keys, text))
        }
        Json::Array(items) => items.iter().find_map(|inner| find_by(inner, keys, text)),
        _ => None,
    }
}
