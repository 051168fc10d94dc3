//! Metaschemas, and checking schemas against them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::compiler::{Compiled, Compiler, Mode};
use super::draft::{Dialect, Draft};
use super::loader::Loader;
use super::node::{Node, Object};
use super::resource::{DocumentId, Documents, PlaceId};
use super::subschema::{SchemaId, Subschema};
use super::url::quote;
use super::validator::{Meta, Validator};
use super::well_formed::is_well_formed;

/// Returns a draft's documents by the last part of their addresses, without titles and descriptions.
fn documents(draft: Draft) -> &'static Object {
    static PARSED: [LazyLock<Node>; 5] = [
        LazyLock::new(|| parse(include_str!("../../../data/metaschemas/draft-04.json"))),
        LazyLock::new(|| parse(include_str!("../../../data/metaschemas/draft-06.json"))),
        LazyLock::new(|| parse(include_str!("../../../data/metaschemas/draft-07.json"))),
        LazyLock::new(|| parse(include_str!("../../../data/metaschemas/2019-09.json"))),
        LazyLock::new(|| parse(include_str!("../../../data/metaschemas/2020-12.json"))),
    ];
    static NONE: Object = Object::new();
    PARSED.get(draft as usize).and_then(|node| node.as_object()).unwrap_or(&NONE)
}

fn parse(text: &str) -> Node {
    steersman_yaml::json::read_from_slice(text.as_bytes()).unwrap_or(Node::Null)
}

/// Returns the base address of a draft's documents.
fn directory(draft: Draft) -> &'static str {
    draft.url().strip_suffix("schema").unwrap_or_default()
}

/// Returns the metaschema of a draft or vocabulary at a URL.
pub(super) fn document(url: &str) -> Option<Node> {
    let place = |url: &str| {
        let rest = url.strip_prefix("http://json-schema.org/");
        rest.or_else(|| url.strip_prefix("https://json-schema.org/")).map(str::to_owned)
    };
    let mut wanted = place(url)?;
    if wanted == "schema" {
        wanted = place(super::draft::LATEST.url())?;
    }
    Draft::ALL.iter().find_map(|draft| {
        let name = wanted.strip_prefix(&place(directory(*draft))?)?;
        documents(*draft).get(name).cloned()
    })
}

/// Compiled metaschemas.
struct Metaschemas {
    schemas: Vec<Subschema>,
    /// Metaschemas of drafts and vocabularies by URL.
    by_url: HashMap<String, SchemaId>,
}

impl Metaschemas {
    fn compile(drafts: &[Draft]) -> Self {
        let mut loader = Loader::of_metaschemas();
        let mut compiler = Compiler::new(&mut loader, Mode::Metaschema);
        let mut by_url = HashMap::new();
        for draft in drafts {
            let vocabularies = draft.vocabularies().iter().map(|name| vocabulary_url(*draft, name));
            for url in std::iter::once(draft.url().to_owned()).chain(vocabularies) {
                // Metaschemas are built in and all compile, as a test verifies.
                if let Ok(schema) = compiler.compile(&url) {
                    by_url.insert(url, schema);
                }
            }
        }
        let Compiled { mut schemas, .. } = compiler.finish();
        // The documents are dropped, so places in them are no longer valid.
        schemas.iter_mut().for_each(|schema| schema.place = None);
        Self { schemas, by_url }
    }

    fn draft(&self, draft: Draft) -> SchemaId {
        self.by_url.get(draft.url()).copied().unwrap_or(SchemaId(0))
    }

    /// Returns the compiled metaschemas of one draft.
    fn of(draft: Draft) -> &'static Self {
        static COMPILED: [LazyLock<Metaschemas>; 5] = [
            LazyLock::new(|| Metaschemas::compile(&[Draft::V4])),
            LazyLock::new(|| Metaschemas::compile(&[Draft::V6])),
            LazyLock::new(|| Metaschemas::compile(&[Draft::V7])),
            LazyLock::new(|| Metaschemas::compile(&[Draft::V2019])),
            LazyLock::new(|| Metaschemas::compile(&[Draft::V2020])),
        ];
        match COMPILED.get(draft as usize) {
            Some(compiled) => compiled,
            None => Self::of_all(),
        }
    }

    /// Returns the compiled metaschemas of all drafts.
    fn of_all() -> &'static Self {
        static COMPILED: LazyLock<Metaschemas> = LazyLock::new(|| Metaschemas::compile(&Draft::ALL));
        &COMPILED
    }
}

fn vocabulary_url(draft: Draft, name: &str) -> String {
    format!("{}meta/{name}", directory(draft))
}

/// Metaschemas to check a document against.
#[derive(Clone)]
pub(super) struct Checker {
    pub(super) schemas: Cow<'static, [Subschema]>,
    pub(super) start: SchemaId,
    /// Metaschema of each resource, if the document mixes dialects.
    pub(super) switches: Arc<HashMap<PlaceId, SchemaId>>,
}

/// Checkers by document, each with the number of resources it was built for.
#[derive(Default)]
pub(super) struct Checkers(HashMap<DocumentId, (usize, Checker)>);

impl Checkers {
    /// Returns the checker for the schema at a place.
    pub(super) fn of(&mut self, documents: &Documents, place: PlaceId) -> Checker {
        let document = documents.document_of(place);
        let count = documents.resource_count(document);
        let known = self.0.get(&document).filter(|(known, _)| *known == count);
        let mut checker = match known {
            Some((_, checker)) => checker.clone(),
            None => {
                let checker = checker(documents, document);
                self.0.insert(document, (count, checker.clone()));
                checker
            }
        };
        let (resource, _) = documents.resource(place);
        checker.start = checker.switches.get(&resource).copied().unwrap_or(checker.start);
        checker
    }
}

fn checker(documents: &Documents, document: DocumentId) -> Checker {
    let (_, root) = documents.resource(documents.root(document));
    let first = &root.dialect;
    if first.vocabularies.is_none() && documents.resources(document).all(|(_, one)| one.dialect == *first) {
        let metaschemas = Metaschemas::of(first.draft);
        let start = metaschemas.draft(first.draft);
        let schemas = metaschemas.schemas.as_slice().into();
        return Checker { schemas, start, switches: Arc::default() };
    }
    let metaschemas = Metaschemas::of_all();
    let mut schemas = metaschemas.schemas.clone();
    let switches: HashMap<PlaceId, SchemaId> = documents
        .resources(document)
        .map(|(place, resource)| (place, dialect_metaschema(metaschemas, &resource.dialect, &mut schemas)))
        .collect();
    let start = switches.get(&documents.root(document)).copied().unwrap_or(SchemaId(0));
    Checker { schemas: schemas.into(), start, switches: Arc::new(switches) }
}

/// Returns the metaschema of a dialect; custom vocabularies are combined into a new one.
fn dialect_metaschema(
    metaschemas: &Metaschemas,
    dialect: &Dialect,
    schemas: &mut Vec<Subschema>,
) -> SchemaId {
    let Some(vocabularies) = &dialect.vocabularies else { return metaschemas.draft(dialect.draft) };
    let id = SchemaId(schemas.len());
    let mut schema = Subschema::new(dialect.draft, None, id);
    let urls = vocabularies.iter().map(|name| vocabulary_url(dialect.draft, name));
    schema.conditions.all_of = urls.filter_map(|url| metaschemas.by_url.get(&url).copied()).collect();
    if dialect.draft >= Draft::V2020 {
        schema.dynamic_anchor = Some("meta".to_owned());
        schema.dynamic_anchors.insert("meta".to_owned(), id);
    }
    schemas.push(schema);
    id
}

/// Checks the schema at a place against its metaschema; the error is Helm's.
pub(super) fn check(documents: &Documents, place: PlaceId, checker: &Checker) -> Result<(), String> {
    let (_, resource) = documents.resource(place);
    if checker.switches.is_empty() && is_well_formed(documents.node(place), resource.dialect.draft) {
        return Ok(());
    }
    let document = documents.document_of(place);
    let meta = Meta {
        documents,
        switches: &checker.switches,
        root: documents.root(document),
        schema: checker.start,
    };
    let validator = Validator::of_schemas(&checker.schemas, meta);
    let Some(reasons) = validator.check(checker.start, documents.node(place))? else { return Ok(()) };
    let url = match &resource.dialect.vocabularies {
        None => format!("{}#", resource.dialect.draft.url()),
        Some(_) => "urn:mem:metaschema".to_owned(),
    };
    Err(format!(
        "{} is not valid against metaschema: jsonschema validation failed with {}\n{reasons}",
        quote(&documents.location(place)),
        super::words::quote(url)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_metaschemas_compile() {
        for draft in Draft::ALL {
            let metaschemas = Metaschemas::of(draft);
            assert_eq!(metaschemas.by_url.len(), 1 + draft.vocabularies().len(), "{draft:?}");
        }
        assert_eq!(Metaschemas::of_all().by_url.len(), 5 + 6 + 8);
    }
}
