//! Compiles a schema and all schemas that it refers to.
//!
//! The order is that of Go's santhosh-tekuri/jsonschema, which Helm uses: breadth-first from the root, so that the same
//! one of several errors is reported.

use std::sync::Arc;

use super::draft::{Dialect, Draft};
use super::loader::Loader;
use super::metaschema;
use super::node::{KeywordFilter, Node, Object};
use super::resource::{DocumentId, Documents, PlaceId, Target};
use super::subschema::{SchemaId, Subschema};

/// A compiled schema with all that it refers to, and their documents.
pub(super) struct Compiled {
    pub(super) schemas: Vec<Subschema>,
    pub(super) documents: Documents,
}

/// Source of a schema that is to be compiled.
enum Pending {
    Place(PlaceId),
    /// A pointer to a missing value, which becomes an error when its turn comes.
    Missing(String),
}

/// A compilation in progress.
pub(super) struct Compiler<'a, 'l> {
    loader: &'a mut Loader<'l>,
    pub(super) documents: Documents,
    pending: Vec<Pending>,
    /// Queued schemas, by place.
    known: Vec<Option<SchemaId>>,
    schemas: Vec<Subschema>,
    checkers: metaschema::Checkers,
    mode: Mode,
}

/// Kind of document being compiled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// A schema, which must be valid against its metaschema.
    Schema,
    /// A metaschema. It is assumed to be valid, and asserts formats in every draft.
    Metaschema,
}

impl<'a, 'l> Compiler<'a, 'l> {
    pub(super) fn new(loader: &'a mut Loader<'l>, mode: Mode) -> Self {
        Self {
            loader,
            documents: Documents::default(),
            pending: Vec::new(),
            known: Vec::new(),
            schemas: Vec::new(),
            checkers: metaschema::Checkers::default(),
            mode,
        }
    }

    /// Compiles the schema at a URL and returns its index.
    pub(super) fn compile(&mut self, url: &str) -> Result<SchemaId, String> {
        let document = self.open(url)?;
        let root = self.enqueue(self.documents.root(document));
        while let Some(pending) = self.pending.get(self.schemas.len()) {
            match pending {
                Pending::Missing(problem) => return Err(problem.clone()),
                Pending::Place(place) => {
                    let schema = self.compile_place(*place)?;
                    self.schemas.push(schema);
                }
            }
        }
        Ok(root)
    }

    pub(super) fn finish(self) -> Compiled {
        Compiled { schemas: self.schemas, documents: self.documents }
    }

    /// Returns the document at a URL, checked against its metaschema when first loaded.
    fn open(&mut self, url: &str) -> Result<DocumentId, String> {
        let (document, is_unchecked) = self.documents.get_or_load(url, self.loader)?;
        if is_unchecked
            && !url.starts_with("http://json-schema.org/")
            && !url.starts_with("https://json-schema.org/")
        {
            self.check(self.documents.root(document))?;
        }
        Ok(document)
    }

    /// Checks a schema against its metaschema.
    fn check(&mut self, place: PlaceId) -> Result<(), String> {
        if self.mode == Mode::Metaschema {
            return Ok(());
        }
        let checker = self.checkers.of(&self.documents, place);
        metaschema::check(&self.documents, place, &checker)
    }

    /// Queues the schema at a place and returns its index.
    pub(super) fn enqueue(&mut self, place: PlaceId) -> SchemaId {
        let next = SchemaId(self.pending.len());
        if place.0 >= self.known.len() {
            self.known.resize(place.0 + 1, None);
        }
        match self.known.get_mut(place.0) {
            Some(Some(known)) => return *known,
            Some(new) => *new = Some(next),
            None => {}
        }
        self.pending.push(Pending::Place(place));
        next
    }

    fn enqueue_target(&mut self, target: Target) -> SchemaId {
        let place = match target {
            Target::Place(place) => Ok(place),
            Target::Pointer(start, pointer) => self.documents.follow(start, &pointer),
        };
        match place {
            Ok(place) => self.enqueue(place),
            Err(problem) => {
                self.pending.push(Pending::Missing(problem));
                SchemaId(self.pending.len() - 1)
            }
        }
    }

    fn compile_place(&mut self, place: PlaceId) -> Result<Subschema, String> {
        if !self.documents.is_collected(place) {
            self.documents.add_subschema(place, self.loader)?;
            self.check(place)?;
        }
        let (root, resource) = self.documents.resource(place);
        let (dialect, base) = (resource.dialect.clone(), Arc::clone(&resource.id));
        let anchors: Vec<(String, PlaceId)> = match root == place && dialect.draft >= Draft::V2020 {
            true => resource.dynamic_anchors.iter().map(|(name, at)| (name.clone(), *at)).collect(),
            false => Vec::new(),
        };
        let resource = self.enqueue(root);
        let mut schema = Subschema::new(dialect.draft, Some(place), resource);
        schema.dynamic_anchors =
            anchors.into_iter().map(|(name, anchored)| (name, self.enqueue(anchored))).collect();
        match self.documents.node(place).clone() {
            Node::Bool(answer) => schema.always = Some(answer),
            Node::Object(object) if object.is_empty() => schema.always = Some(true),
            Node::Object(object) => {
                let asserts_format = self.mode == Mode::Metaschema || dialect.asserts_format();
                let mut keywords = Keywords {
                    compiler: self,
                    object: &object,
                    filter: KeywordFilter::new(&object),
                    place,
                    dialect: &dialect,
                    base: &base,
                    asserts_format,
                };
                keywords.compile(&mut schema)?;
            }
            _ => {}
        }
        Ok(schema)
    }

    /// Queues the schema that a reference names.
    fn enqueue_reference(&mut self, place: PlaceId, base: &str, reference: &str) -> Result<SchemaId, String> {
        let address = super::url::join(base, reference)?;
        let document = self.documents.document_of(place);
        let target = match self.documents.resolve_within(document, &address) {
            Some(target) => target?,
            None => {
                let document = self.open(&address.url)?;
                self.documents.resolve_fragment(self.documents.root(document), &address.fragment)?
            }
        };
        Ok(self.enqueue_target(target))
    }
}

/// A schema whose keywords are being decoded.
pub(super) struct Keywords<'c, 'a, 'l> {
    compiler: &'c mut Compiler<'a, 'l>,
    object: &'c Object,
    filter: KeywordFilter,
    place: PlaceId,
    pub(super) dialect: &'c Dialect,
    base: &'c str,
    pub(super) asserts_format: bool,
}

impl<'c> Keywords<'c, '_, '_> {
    /// Returns the value of a keyword.
    pub(super) fn get(&self, keyword: &str) -> Option<&'c Node> {
        if self.filter.may_have(keyword) { self.object.get(keyword) } else { None }
    }

    /// Returns the address of a keyword, for error messages.
    pub(super) fn location(&self, keyword: &str) -> String {
        format!("{}/{}", self.compiler.documents.location(self.place), super::url::encode(keyword))
    }

    fn subschema(&mut self, keyword: &str, token: Option<&str>) -> Option<SchemaId> {
        self.get(keyword)?;
        let place = self.compiler.documents.child(self.place, keyword)?;
        let place = match token {
            Some(token) => self.compiler.documents.child(place, token)?,
            None => place,
        };
        self.compiler.documents.mark_collected(place);
        Some(self.compiler.enqueue(place))
    }

    /// Queues the schema of a keyword.
    pub(super) fn one(&mut self, keyword: &str) -> Option<SchemaId> {
        self.subschema(keyword, None)
    }

    /// Queues the schema of a keyword's member.
    pub(super) fn member(&mut self, keyword: &str, key: &str) -> Option<SchemaId> {
        self.subschema(keyword, Some(key))
    }

    /// Queues the schemas in a keyword's array.
    pub(super) fn items(&mut self, keyword: &str) -> Vec<SchemaId> {
        let count = self.get(keyword).and_then(Node::as_array).map_or(0, <[Node]>::len);
        (0..count).filter_map(|index| self.subschema(keyword, Some(&index.to_string()))).collect()
    }

    /// Queues the schemas in a keyword's object.
    pub(super) fn members(&mut self, keyword: &str) -> Vec<(String, SchemaId)> {
        let members = self.get(keyword).and_then(Node::as_object).into_iter().flatten();
        members.filter_map(|(key, _)| Some((key.clone(), self.member(keyword, key)?))).collect()
    }

    /// Queues the schema that a keyword refers to.
    pub(super) fn reference(&mut self, keyword: &str) -> Result<Option<SchemaId>, String> {
        let Some(reference) = self.get(keyword).and_then(Node::as_str) else { return Ok(None) };
        self.compiler.enqueue_reference(self.place, self.base, reference).map(Some)
    }
}
