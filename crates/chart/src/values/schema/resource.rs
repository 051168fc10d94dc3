//! Documents and the schema resources in them, with their addresses and anchors.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::deeper;
use super::draft::{Dialect, Draft, LATEST, Shape};
use super::loader::Loader;
use super::node::{KeywordFilter, Node, Object};
use super::url::{Address, encode, escape_token, join, quote, split_fragment, unescape_token};
use super::well_formed::is_well_formed;

/// A value in one of the documents, identified by the path to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PlaceId(pub(super) usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct DocumentId(usize);

struct SchemaLocation {
    document: DocumentId,
    parent: Option<(PlaceId, Arc<str>)>,
    children: BTreeMap<Arc<str>, PlaceId>,
    node: Node,
    /// Whether its resources and anchors have been collected.
    is_collected: bool,
    is_resource: bool,
}

/// A loaded document.
struct Document {
    url: String,
    root: PlaceId,
    resources: BTreeMap<PlaceId, Resource>,
    by_id: HashMap<Arc<str>, PlaceId>,
    /// Whether a scan found it valid, with no resources or anchors except at its root.
    is_well_formed: bool,
}

/// A schema with an address of its own, and its contents up to any nested resource.
pub(super) struct Resource {
    pub(super) id: Arc<str>,
    pub(super) dialect: Dialect,
    pub(super) anchors: BTreeMap<String, PlaceId>,
    pub(super) dynamic_anchors: BTreeMap<String, PlaceId>,
}

impl Resource {
    fn new(id: Arc<str>, dialect: Dialect) -> Self {
        Self { id, dialect, anchors: BTreeMap::new(), dynamic_anchors: BTreeMap::new() }
    }
}

/// All loaded documents, and the places visited in them.
#[derive(Default)]
pub(super) struct Documents {
    documents: Vec<Document>,
    by_url: HashMap<String, DocumentId>,
    places: Vec<SchemaLocation>,
}

impl Documents {
    #[expect(clippy::indexing_slicing, reason = "ids are made here alone")]
    fn place(&self, id: PlaceId) -> &SchemaLocation {
        &self.places[id.0]
    }

    #[expect(clippy::indexing_slicing, reason = "ids are made here alone")]
    fn place_mut(&mut self, id: PlaceId) -> &mut SchemaLocation {
        &mut self.places[id.0]
    }

    #[expect(clippy::indexing_slicing, reason = "ids are made here alone")]
    fn document(&self, id: DocumentId) -> &Document {
        &self.documents[id.0]
    }

    #[expect(clippy::indexing_slicing, reason = "ids are made here alone")]
    fn document_mut(&mut self, id: DocumentId) -> &mut Document {
        &mut self.documents[id.0]
    }

    pub(super) fn node(&self, place: PlaceId) -> &Node {
        &self.place(place).node
    }

    pub(super) fn parent(&self, place: PlaceId) -> Option<(PlaceId, &Arc<str>)> {
        self.place(place).parent.as_ref().map(|(parent, token)| (*parent, token))
    }

    pub(super) fn root(&self, document: DocumentId) -> PlaceId {
        self.document(document).root
    }

    pub(super) fn document_of(&self, place: PlaceId) -> DocumentId {
        self.place(place).document
    }

    pub(super) fn resources(&self, document: DocumentId) -> impl Iterator<Item = (PlaceId, &Resource)> {
        self.document(document).resources.iter().map(|(place, resource)| (*place, resource))
    }

    /// Returns the number of resources in a document, which never decreases.
    pub(super) fn resource_count(&self, document: DocumentId) -> usize {
        self.document(document).resources.len()
    }

    pub(super) fn is_collected(&self, place: PlaceId) -> bool {
        self.place(place).is_collected || self.is_usual(place)
    }

    /// Marks a place as collected, since a keyword of a collected schema leads to it.
    pub(super) fn mark_collected(&mut self, place: PlaceId) {
        self.place_mut(place).is_collected = true;
    }

    /// Whether the scan of a well-formed document covered this place as a subschema.
    fn is_usual(&self, place: PlaceId) -> bool {
        let document = self.document(self.document_of(place));
        if !document.is_well_formed {
            return false;
        }
        let mut tokens = Vec::new();
        let mut at = place;
        while let Some((parent, token)) = self.parent(at) {
            tokens.push(token);
            at = parent;
        }
        let mut tokens = tokens.into_iter().rev();
        let mut node = Some(&self.place(document.root).node);
        while let Some(keyword) = tokens.next() {
            let value = node.and_then(|node| node.as_object()?.get(&**keyword));
            let mut shapes = LATEST.subschemas().filter(|(known, _)| *known == &**keyword);
            node = match value {
                Some(Node::Array(items)) if shapes.any(|(_, shape)| matches!(shape, Shape::Items)) => {
                    tokens.next().and_then(|index| items.get(index.parse::<usize>().ok()?))
                }
                Some(Node::Object(members)) => match shapes.next() {
                    Some((_, Shape::Members)) => tokens.next().and_then(|key| members.get(&**key)),
                    Some((_, Shape::One)) => value,
                    _ => None,
                },
                Some(Node::Bool(_)) => value.filter(|_| matches!(shapes.next(), Some((_, Shape::One)))),
                _ => None,
            };
            if node.is_none() {
                return false;
            }
        }
        true
    }

    /// Returns the child at a token, if there is a value.
    pub(super) fn child(&mut self, place: PlaceId, token: &str) -> Option<PlaceId> {
        if let Some(child) = self.known_child(place, token) {
            return Some(child);
        }
        let node = match &self.place(place).node {
            Node::Object(object) => object.get(token)?.clone(),
            Node::Array(items) => {
                let index = steersman_gostd::strconv::atoi(token.as_bytes()).ok()?;
                items.get(usize::try_from(index).ok()?)?.clone()
            }
            _ => return None,
        };
        let token: Arc<str> = token.into();
        let document = self.document_of(place);
        let id = self.add_place(document, Some((place, Arc::clone(&token))), node);
        self.place_mut(place).children.insert(token, id);
        Some(id)
    }

    /// Returns the child at a token, if it was visited before.
    pub(super) fn known_child(&self, place: PlaceId, token: &str) -> Option<PlaceId> {
        self.place(place).children.get(token).copied()
    }

    fn add_place(
        &mut self,
        document: DocumentId,
        parent: Option<(PlaceId, Arc<str>)>,
        node: Node,
    ) -> PlaceId {
        let children = BTreeMap::new();
        self.places.push(SchemaLocation {
            document,
            parent,
            children,
            node,
            is_collected: false,
            is_resource: false,
        });
        PlaceId(self.places.len() - 1)
    }

    /// Returns the JSON pointer of a place.
    pub(super) fn pointer(&self, place: PlaceId) -> String {
        let mut tokens = Vec::new();
        let mut at = place;
        while let Some((parent, token)) = self.parent(at) {
            tokens.push(format!("/{}", escape_token(token)));
            at = parent;
        }
        tokens.reverse();
        tokens.concat()
    }

    /// Returns the address of a place, for error messages.
    pub(super) fn location(&self, place: PlaceId) -> String {
        let document = self.document(self.document_of(place));
        format!("{}#{}", document.url, encode(&self.pointer(place)))
    }

    /// Returns the resource that contains a place.
    pub(super) fn resource(&self, place: PlaceId) -> (PlaceId, &Resource) {
        let document = self.document(self.document_of(place));
        let mut at = if document.resources.len() == 1 { document.root } else { place };
        while !self.place(at).is_resource
            && let Some((parent, _)) = self.parent(at)
        {
            at = parent;
        }
        match document.resources.get(&at) {
            Some(resource) => (at, resource),
            None => unreachable!("every document has a resource at its root"),
        }
    }

    /// Returns the document at a URL, loading it if needed.
    ///
    /// The flag is true if it must still be checked against its metaschema.
    pub(super) fn get_or_load(
        &mut self,
        url: &str,
        loader: &mut Loader<'_>,
    ) -> Result<(DocumentId, bool), String> {
        if let Some(id) = self.by_url.get(url) {
            return Ok((*id, false));
        }
        let node = loader.load(url)?;
        let named = node.as_object().and_then(|schema| schema.get("$schema")?.as_str());
        let draft = named.and_then(Draft::from_url).unwrap_or(LATEST);
        let is_well_formed = is_well_formed(&node, draft);
        let id = DocumentId(self.documents.len());
        let root = self.add_place(id, None, node);
        self.documents.push(Document {
            url: url.to_owned(),
            root,
            resources: BTreeMap::new(),
            by_id: HashMap::new(),
            is_well_formed,
        });
        if is_well_formed {
            self.mark_collected(root);
            self.add_resource(root, Resource::new(url.into(), draft.into()));
        } else {
            self.collect(root, &url.into(), &LATEST.into(), loader)?;
        }
        self.by_url.insert(url.to_owned(), id);
        Ok((id, !is_well_formed))
    }

    /// Resolves an address within a document; `None` if the address is not in this document.
    pub(super) fn resolve_within(
        &self,
        document: DocumentId,
        address: &Address,
    ) -> Option<Result<Target, String>> {
        let document = self.document(document);
        let resource = if address.url == document.url {
            document.root
        } else {
            *document.by_id.get(address.url.as_str())?
        };
        Some(self.resolve_fragment(resource, &address.fragment))
    }

    /// Resolves a fragment within a resource.
    pub(super) fn resolve_fragment(&self, resource: PlaceId, fragment: &str) -> Result<Target, String> {
        if fragment.is_empty() || fragment.starts_with('/') {
            return Ok(Target::Pointer(resource, fragment.to_owned()));
        }
        let (_, found) = self.resource(resource);
        found.anchors.get(fragment).map(|place| Target::Place(*place)).ok_or_else(|| {
            let reference = format!("{}#{}", found.id, encode(fragment));
            let url = &self.document(self.document_of(resource)).url;
            format!("anchor in {} not found in schema {}", quote(&reference), quote(url))
        })
    }

    /// Follows a JSON pointer.
    pub(super) fn follow(&mut self, start: PlaceId, pointer: &str) -> Result<PlaceId, String> {
        let mut place = start;
        for token in pointer.split('/').skip(1) {
            let child = unescape_token(token).map(|token| self.child(place, &token));
            place = match child {
                Some(Some(child)) => child,
                wrong => {
                    let url = &self.document(self.document_of(start)).url;
                    let location = quote(&format!("{url}#{}", encode(&(self.pointer(start) + pointer))));
                    return Err(match wrong {
                        None => format!("invalid json-pointer {location}"),
                        Some(_) => format!("json-pointer in {location} not found"),
                    });
                }
            };
        }
        Ok(place)
    }

    /// Collects the resources and anchors of a schema that no known keyword leads to.
    pub(super) fn add_subschema(&mut self, place: PlaceId, loader: &mut Loader<'_>) -> Result<(), String> {
        let (resource, found) = self.resource(place);
        let (id, dialect) = (Arc::clone(&found.id), found.dialect.clone());
        self.collect(place, &id, &dialect, loader)?;
        let is_resource = self.place(place).is_resource;
        let schema = self.node(place).clone();
        match schema.as_object() {
            Some(schema) if !is_resource => self.collect_anchors(schema, place, resource),
            _ => Ok(()),
        }
    }

    fn collect(
        &mut self,
        place: PlaceId,
        base: &Arc<str>,
        fallback: &Dialect,
        loader: &mut Loader<'_>,
    ) -> Result<(), String> {
        if self.is_collected(place) {
            return Ok(());
        }
        match self.node(place).clone() {
            Node::Object(schema) => {
                deeper(|| self.collect_object(&schema, place, base, fallback, loader))?;
            }
            _ if self.parent(place).is_none() => {
                self.add_resource(place, Resource::new(Arc::clone(base), fallback.clone()));
            }
            _ => {}
        }
        self.place_mut(place).is_collected = true;
        Ok(())
    }

    fn add_resource(&mut self, place: PlaceId, resource: Resource) {
        self.place_mut(place).is_resource = true;
        let document = self.document_of(place);
        let document = self.document_mut(document);
        document.by_id.insert(Arc::clone(&resource.id), place);
        document.resources.insert(place, resource);
    }

    fn collect_object(
        &mut self,
        schema: &Object,
        place: PlaceId,
        base: &Arc<str>,
        fallback: &Dialect,
        loader: &mut Loader<'_>,
    ) -> Result<(), String> {
        let document = self.document_of(place);
        let is_root = self.parent(place).is_none();
        let own_url = self.document(document).url.clone();
        let own_url = Some(own_url.as_str()).filter(|_| is_root);
        let mut draft = loader.draft(schema, &|| self.location(place), own_url, fallback.draft)?;
        let mut names_draft = schema.get("$schema").and_then(Node::as_str).is_some();
        let mut id = draft.id(schema);
        if id.is_none() && !is_root {
            // `$schema` only has an effect at the root of a resource.
            draft = fallback.draft;
            names_draft = false;
            id = draft.id(schema);
        }
        let mut base = Arc::clone(base);
        if let Some(id) = id {
            let address = join(&base, id)
                .map_err(|_| format!("error in parsing id at {}", quote(&self.location(place))))?;
            base = address.url.into();
        }
        if id.is_some() || is_root {
            match self.document(document).by_id.get(&base) {
                Some(other) if *other != place => {
                    let url = &self.document(document).url;
                    let (first, second) = (self.pointer(place), self.pointer(*other));
                    return Err(duplicate("id", &base, url, &first, &second));
                }
                Some(_) => {}
                None => {
                    let mut dialect = fallback.clone();
                    if names_draft {
                        dialect = Dialect { draft, vocabularies: None };
                        if let Some((url, metaschema)) = loader.own_metaschema(schema)? {
                            dialect.vocabularies =
                                draft.required_vocabularies(&metaschema).map_err(|unknown| {
                                    format!("unsupported vocabulary {} in {}", quote(unknown), quote(&url))
                                })?;
                        }
                    }
                    self.add_resource(place, Resource::new(Arc::clone(&base), dialect));
                }
            }
        }
        let resource = self.document(document).by_id.get(&base).copied().unwrap_or(place);
        self.collect_anchors(schema, place, resource)?;
        let (_, found) = self.resource(resource);
        let dialect = found.dialect.clone();
        self.collect_subschemas(schema, place, draft, &base, &dialect, loader)
    }

    fn collect_subschemas(
        &mut self,
        schema: &Object,
        place: PlaceId,
        draft: Draft,
        base: &Arc<str>,
        dialect: &Dialect,
        loader: &mut Loader<'_>,
    ) -> Result<(), String> {
        let keywords = KeywordFilter::new(schema);
        for (keyword, shape) in draft.subschemas().filter(|(keyword, _)| keywords.may_have(keyword)) {
            let Some(value) = schema.get(keyword) else { continue };
            let Some(at) = self.child(place, keyword) else { continue };
            match (shape, value) {
                (Shape::One, _) => self.collect(at, base, dialect, loader)?,
                (Shape::Items, Node::Array(items)) => {
                    for index in 0..items.len() {
                        if let Some(item) = self.child(at, &index.to_string()) {
                            self.collect(item, base, dialect, loader)?;
                        }
                    }
                }
                (Shape::Members, Node::Object(members)) => {
                    for key in members.keys() {
                        if let Some(member) = self.child(at, key) {
                            self.collect(member, base, dialect, loader)?;
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn collect_anchors(&mut self, schema: &Object, place: PlaceId, resource: PlaceId) -> Result<(), String> {
        let (_, found) = self.resource(resource);
        let draft = found.dialect.draft;
        if draft < Draft::V2019 {
            if schema.contains_key("$ref") {
                return Ok(());
            }
            let Some(id) = schema.get(draft.id_keyword()).and_then(Node::as_str) else { return Ok(()) };
            let (_, fragment) = split_fragment(id)
                .map_err(|_| format!("error in parsing anchor at {}", quote(&self.location(place))))?;
            if fragment.is_empty() || fragment.starts_with('/') {
                return Ok(());
            }
            return self.add_anchor(&fragment, place, resource);
        }
        if let Some(anchor) = schema.get("$anchor").and_then(Node::as_str) {
            self.add_anchor(anchor, place, resource)?;
        }
        if let Some(anchor) = schema.get("$dynamicAnchor").and_then(Node::as_str)
            && draft >= Draft::V2020
        {
            self.add_anchor(anchor, place, resource)?;
            let document = self.document_of(place);
            if let Some(resource) = self.document_mut(document).resources.get_mut(&resource) {
                resource.dynamic_anchors.insert(anchor.to_owned(), place);
            }
        }
        Ok(())
    }

    fn add_anchor(&mut self, anchor: &str, place: PlaceId, resource: PlaceId) -> Result<(), String> {
        let (_, found) = self.resource(resource);
        if let Some(other) = found.anchors.get(anchor).filter(|other| **other != place) {
            let url = &self.document(self.document_of(place)).url;
            return Err(duplicate("anchor", anchor, url, &self.pointer(*other), &self.pointer(place)));
        }
        let document = self.document_of(place);
        if let Some(resource) = self.document_mut(document).resources.get_mut(&resource) {
            resource.anchors.insert(anchor.to_owned(), place);
        }
        Ok(())
    }
}

fn duplicate(what: &str, name: &str, url: &str, first: &str, second: &str) -> String {
    format!("duplicate {what} {} in {} at {} and {}", quote(name), quote(url), quote(first), quote(second))
}

/// Target of a reference: a place, or a pointer that has not been resolved yet.
pub(super) enum Target {
    Place(PlaceId),
    Pointer(PlaceId, String),
}
