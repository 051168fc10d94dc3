//! Preparation of a chart that many renders share.
//!
//! It covers the enabled subcharts, their values, parsed templates and schemas.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use steersman_gotemplate::{MissingKey, Set, Str};

use crate::chart::Content;
use crate::dependencies::{self, NodeId, ROOT, Tree};
use crate::engine::{self, Host, Texts};
use crate::error::Error;
use crate::manifest::Heads;
use crate::metadata::{Metadata, base_name};
use crate::options::RenderOptions;
use crate::parallel;
use crate::values::schema::Schema;
use crate::values::{Data, FetchSchema, Table, Values};

/// Number of value sets for which a chart caches its tree.
const REMEMBERED: usize = 8;

/// Results that a chart caches between renders.
#[derive(Default)]
pub(crate) struct Cache {
    /// Used if the subcharts do not depend on values.
    fixed: OnceLock<Arc<Prepared>>,
    /// By values, the latest last.
    recent: Mutex<Vec<(Values, Arc<Prepared>)>>,
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").finish_non_exhaustive()
    }
}

/// A chart prepared for values that enable the same subcharts.
pub(crate) struct Prepared {
    /// The enabled charts.
    pub(crate) tree: Tree,
    /// Contents of `.Chart`, by node; `None` for disabled charts.
    pub(crate) metadata: Vec<Option<Arc<Metadata>>>,
    /// Templates, in the order of parsing and execution.
    pub(crate) templates: Vec<Template>,
    /// Warnings that Helm would log.
    pub(crate) warnings: Vec<String>,
    /// Parsed arguments of `tpl`.
    pub(crate) texts: Arc<Texts>,
    /// Documents of earlier renders.
    pub(crate) heads: Heads,
    lenient: OnceLock<Result<Set<Host>, Arc<ParseFailure>>>,
    strict: OnceLock<Result<Set<Host>, Arc<ParseFailure>>>,
    schemas: Vec<OnceLock<Arc<Schema>>>,
}

/// A template of an enabled chart.
#[derive(Debug)]
pub(crate) struct Template {
    /// Path, including the charts that contain it.
    pub(crate) path: String,
    /// Directory of its chart's templates.
    pub(crate) base_path: String,
    /// Node of its chart.
    pub(crate) node: NodeId,
    /// Its source.
    pub(crate) text: Str,
}

impl Template {
    /// Whether it is a partial, which is only included by other templates.
    pub(crate) fn is_partial(&self) -> bool {
        base_name(&self.path).starts_with('_')
    }
}

/// A template that does not parse.
#[derive(Debug)]
pub(crate) struct ParseFailure {
    /// Path of the file.
    pub(crate) path: String,
    /// Error with Go's message.
    pub(crate) error: steersman_gotemplate::ParseError,
}

impl Cache {
    /// Prepares the chart for these values, or returns the cached result.
    pub(crate) fn prepare(&self, content: &Arc<Content>, values: &Values) -> Result<Arc<Prepared>, Error> {
        let plain = !dependencies::contradicts_subcharts(content, &values.0);
        if plain && let Some(prepared) = self.fixed.get() {
            return Ok(Arc::clone(prepared));
        }
        let is_fixed = !dependencies::depends_on_values(content)
            && !dependencies::contradicts_subcharts(content, &content.values);
        if plain && is_fixed {
            let prepared = Arc::new(Prepared::new(content, &Table::new())?);
            return Ok(Arc::clone(self.fixed.get_or_init(|| prepared)));
        }
        {
            let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, prepared)) = recent.iter().find(|(known, _)| known == values) {
                return Ok(Arc::clone(prepared));
            }
        }
        let prepared = Arc::new(Prepared::new(content, &values.0)?);
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        // Different values usually enable the same subcharts, so their parsed templates are reused, unless the warnings
        // differ.
        let same = recent
            .iter()
            .find(|(_, other)| other.tree.same_charts(&prepared.tree) && other.warnings == prepared.warnings);
        let prepared = same.map_or(prepared, |(_, other)| Arc::clone(other));
        if recent.len() >= REMEMBERED {
            recent.remove(0);
        }
        recent.push((values.clone(), Arc::clone(&prepared)));
        Ok(prepared)
    }
}

impl Prepared {
    /// Validates values against the schemas of the chart and its subcharts.
    pub(crate) fn validate(
        &self,
        values: &Table,
        fetch: Option<&FetchSchema>,
        warnings: &mut Vec<String>,
    ) -> Result<(), Error> {
        let mut reasons = String::new();
        self.collect_reasons(ROOT, values, fetch, warnings, &mut reasons);
        if reasons.is_empty() {
            return Ok(());
        }
        Err(Error::Schema(format!(
            "values don't meet the specifications of the schema(s) in the following chart(s):\n{reasons}"
        )))
    }

    fn collect_reasons(
        &self,
        id: NodeId,
        values: &Table,
        fetch: Option<&FetchSchema>,
        warnings: &mut Vec<String>,
        reasons: &mut String,
    ) {
        let node = self.tree.node(id);
        if let Some(schema) = self.schema(id, fetch)
            && let Err(why) = schema.check(values, warnings)
        {
            reasons.push_str(&format!("{}:\n{why}", node.name));
        }
        for child in &node.children {
            let name = &self.tree.node(*child).name;
            match values.get(name.as_bytes()) {
                None | Some(Data::Null) => {}
                Some(Data::Table(values)) => self.collect_reasons(*child, values, fetch, warnings, reasons),
                Some(other) => reasons.push_str(&format!(
                    "{name}:\ninvalid type for values: expected object (map), got {}\n",
                    other.to_value().type_name()
                )),
            }
        }
    }

    fn new(content: &Arc<Content>, values: &Table) -> Result<Self, Error> {
        let mut warnings = content.warnings.clone();
        let tree = dependencies::process(content, values, &mut warnings)?;
        let mut templates = BTreeMap::new();
        let mut metadata = Vec::new();
        metadata.resize_with(tree.len(), || None);
        collect(&tree, ROOT, &mut templates, &mut metadata);
        let mut templates: Vec<Template> = templates.into_values().collect();
        // Deeper templates first, so that a chart's own definitions come last and override those of its subcharts.
        let depth = |template: &Template| template.path.bytes().filter(|b| *b == b'/').count();
        templates.sort_by(|a, b| depth(b).cmp(&depth(a)).then_with(|| b.path.cmp(&a.path)));
        let mut schemas = Vec::new();
        schemas.resize_with(tree.len(), OnceLock::new);
        Ok(Self {
            tree,
            metadata,
            templates,
            warnings,
            texts: Arc::default(),
            heads: Heads::default(),
            lenient: OnceLock::new(),
            strict: OnceLock::new(),
            schemas,
        })
    }

    /// Returns the parsed templates. Parsing is charged to a separate budget, since many renders share it.
    pub(crate) fn set(&self, options: &RenderOptions) -> Result<&Set<Host>, Arc<ParseFailure>> {
        let cell = if options.strict { &self.strict } else { &self.lenient };
        let parsed = match cell.get() {
            Some(parsed) => parsed,
            None => match self.parse(options) {
                // Not cached, since another render may have other limits.
                Err(failure) if failure.error.exceeded.is_some() => return Err(failure),
                parsed => cell.get_or_init(|| parsed),
            },
        };
        parsed.as_ref().map_err(Arc::clone)
    }

    fn parse(&self, options: &RenderOptions) -> Result<Set<Host>, Arc<ParseFailure>> {
        let missing_key = if options.strict { MissingKey::Error } else { MissingKey::Zero };
        let mut set = Set::new(engine::functions()).named(engine::SET_NAME).missing_key(missing_key);
        let charged = set.clone().within(Arc::new(engine::budget(options)));
        let compiled = parallel::map(
            &self.templates,
            |template| template.text.len(),
            |template| charged.compile(&template.path, &template.text),
        );
        for (template, compiled) in self.templates.iter().zip(compiled) {
            match compiled {
                Ok(parsed) => set.add(&parsed),
                Err(error) => return Err(Arc::new(ParseFailure { path: template.path.clone(), error })),
            }
        }
        Ok(set)
    }

    /// Whether any enabled chart has a schema.
    pub(crate) fn has_schemas(&self) -> bool {
        let with_metadata = self.metadata.iter().enumerate().filter(|(_, metadata)| metadata.is_some());
        with_metadata.into_iter().any(|(id, _)| self.tree.node(id).content.schema.is_some())
    }

    /// Returns a chart's compiled schema, if it has one.
    pub(crate) fn schema(&self, node: NodeId, fetch: Option<&FetchSchema>) -> Option<&Schema> {
        let text = self.tree.node(node).content.schema.as_ref()?;
        let cell = self.schemas.get(node)?;
        Some(cell.get_or_init(|| Arc::new(Schema::compile(text, fetch))))
    }

    /// Returns the source of a template.
    pub(crate) fn source(&self, path: &str) -> Option<&Str> {
        self.templates.iter().find(|template| template.path == path).map(|template| &template.text)
    }
}

/// Collects the templates of a chart and its subcharts; of equal paths the last one wins.
fn collect(
    tree: &Tree,
    id: NodeId,
    templates: &mut BTreeMap<String, Template>,
    metadata: &mut [Option<Arc<Metadata>>],
) {
    let node = tree.node(id);
    for child in &node.children {
        collect(tree, *child, templates, metadata);
    }
    if let Some(slot) = metadata.get_mut(id) {
        *slot = Some(Arc::new(tree.metadata(id)));
    }
    let chart_path = tree.full_path(id);
    let is_library = node.content.metadata.is_library();
    for file in &node.content.templates {
        if is_library && !base_name(&file.name).starts_with('_') {
            continue;
        }
        let path = format!("{chart_path}/{}", file.name);
        let template = Template {
            path: path.clone(),
            base_path: format!("{chart_path}/templates"),
            node: id,
            text: file.data.clone(),
        };
        templates.insert(path, template);
    }
}
