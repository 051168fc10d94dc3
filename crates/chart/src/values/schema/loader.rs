//! Loads referenced documents: metaschemas, fetched schemas, and URNs.
//!
//! As in Helm, a URN is accepted as a permissive schema.

use std::collections::HashMap;

use super::draft::Draft;
use super::metaschema;
use super::node::{Node, Object};
use super::url::{quote, scheme};
use super::{ADDRESS, FetchSchema};

/// Loads documents, each of them once.
pub(super) struct Loader<'a> {
    fetch: Option<&'a FetchSchema>,
    documents: HashMap<String, Node>,
    pub(super) warnings: Vec<String>,
}

impl<'a> Loader<'a> {
    /// Creates a loader that knows the root document.
    pub(super) fn new(url: &str, document: Node, fetch: Option<&'a FetchSchema>) -> Self {
        Self { fetch, documents: HashMap::from([(url.to_owned(), document)]), warnings: Vec::new() }
    }

    pub(super) fn load(&mut self, url: &str) -> Result<Node, String> {
        if let Some(document) = self.documents.get(url) {
            return Ok(document.clone());
        }
        let loaded = match metaschema::document(url) {
            Some(document) => Ok(document),
            None => self.load_other(url),
        };
        let document = loaded.map_err(|error| format!("failing loading {}: {error}", quote(url)))?;
        self.documents.insert(url.to_owned(), document.clone());
        Ok(document)
    }

    fn load_other(&mut self, url: &str) -> Result<Node, String> {
        match (scheme(url).as_str(), self.fetch) {
            ("urn", _) => {
                let what = "unresolved URN reference ignored; using permissive schema";
                self.warnings.push(format!("WARNING: {what}: {url}"));
                Ok(Node::Bool(true))
            }
            ("http" | "https", Some(FetchSchema(fetch))) => fetch(url).map(Node::from),
            ("http" | "https" | "file", _) => Err("fetching remote schemas is disabled".to_owned()),
            _ => Err(format!("no URLLoader registered for {}", quote(url))),
        }
    }

    /// Returns the draft of a schema by its `$schema`, which may name a custom metaschema.
    ///
    /// `place` is the schema's address in error messages; `own_url` is that of its document, if the schema is the
    /// document's root.
    pub(super) fn draft(
        &mut self,
        schema: &Object,
        place: &dyn Fn() -> String,
        own_url: Option<&str>,
        default: Draft,
    ) -> Result<Draft, String> {
        let Some(url) = schema.get("$schema").and_then(Node::as_str) else { return Ok(default) };
        let mut seen: Vec<String> = Vec::new();
        let (mut url, mut own_url, mut place) = (url.to_owned(), own_url.map(str::to_owned), place());
        loop {
            if let Some(draft) = Draft::from_url(&url) {
                return Ok(draft);
            }
            url.truncate(url.find('#').unwrap_or(url.len()));
            crate::functions::urls::Url::parse(url.as_bytes())
                .map_err(|error| format!("invalid $schema in {}: {error}", quote(&place)))?;
            if own_url.as_ref() == Some(&url) {
                return Err(format!("draft {} is not supported", quote(&url)));
            }
            if seen.contains(&url) {
                return Err(format!("cycle in resolving $schema in {}", quote(&url)));
            }
            seen.push(url.clone());
            let metaschema = self.load(&url)?;
            let named = metaschema.as_object().and_then(|object| object.get("$schema")?.as_str());
            let Some(named) = named else { return Ok(default) };
            (place, own_url) = (format!("{url}#"), Some(url));
            url = named.to_owned();
        }
    }

    /// Returns the custom metaschema that a schema names, if any.
    pub(super) fn own_metaschema(&mut self, schema: &Object) -> Result<Option<(String, Node)>, String> {
        let url = schema.get("$schema").and_then(Node::as_str).filter(|url| Draft::from_url(url).is_none());
        let Some(url) = url else { return Ok(None) };
        let (url, _) = url.split_once('#').unwrap_or((url, ""));
        Ok(Some((url.to_owned(), self.load(url)?)))
    }
}

impl Loader<'static> {
    /// Creates a loader of metaschemas only.
    pub(super) fn of_metaschemas() -> Self {
        Self::new(ADDRESS, Node::Null, None)
    }
}
