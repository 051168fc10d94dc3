//! Engine: the data that templates see, the order of execution, and the reporting of errors.

mod diagnose;
mod files;
mod functions;
mod glob;
mod name;
mod objects;
mod texts;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use steersman_gotemplate::{Budget, ExecError, Map, MapType, Str, Value};

pub(crate) use functions::{SET_NAME, functions};
pub use name::template_name;
pub(crate) use texts::Texts;

use crate::dependencies::{NodeId, ROOT, table_at};
use crate::environment::Environment;
use crate::error::{Error, TemplateError};
use crate::options::{Release, RenderOptions};
use crate::prepare::Prepared;
use crate::rendered_files::RenderedFiles;

/// State of one render, accessible to functions.
pub(crate) struct Host {
    environment: Box<dyn Environment>,
    lint: bool,
    /// Number of active includes of each template.
    including: HashMap<Str, usize>,
    /// Current nesting of includes and `tpl` calls.
    depth: usize,
    /// Warnings that Helm would log.
    log: Vec<String>,
    /// Cache of parsed `tpl` arguments.
    texts: Arc<Texts>,
    /// Maps that a map or a list was put into.
    changed: Vec<Map>,
}

impl Host {
    fn new(environment: Box<dyn Environment>, lint: bool, texts: Arc<Texts>) -> Self {
        Self {
            environment,
            lint,
            including: HashMap::new(),
            depth: 0,
            log: Vec::new(),
            texts,
            changed: Vec::new(),
        }
    }
}

impl Drop for Host {
    /// Empties every map that may contain itself, since a cycle would never be freed.
    fn drop(&mut self) {
        for map in self.changed.drain(..) {
            let entries = std::mem::take(&mut *map.borrow_mut());
            drop(entries);
        }
    }
}

impl crate::functions::Host for Host {
    fn environment(&mut self) -> &mut dyn Environment {
        &mut *self.environment
    }

    fn changed(&mut self, map: &Map) {
        self.changed.push(map.clone());
    }
}

/// Creates the budget of a render.
pub(crate) fn budget(options: &RenderOptions) -> Budget {
    Budget::new(options.limits).interrupted_by(options.interrupt.clone())
}

/// Executes the templates on these values, which they may modify.
pub(crate) fn render(
    prepared: &Prepared,
    values: &Map,
    options: &RenderOptions,
    environment: Box<dyn Environment>,
    warnings: &mut Vec<String>,
) -> Result<RenderedFiles, Error> {
    let set = prepared
        .set(options)
        .map_err(|failure| diagnose::parse_error(prepared, &failure))?
        .clone()
        .within(Arc::new(budget(options)));
    let contexts = Contexts::new(prepared, values, options);
    let mut host = Host::new(environment, options.lint, Arc::clone(&prepared.texts));
    let mut rendered = RenderedFiles::new();
    let mut failure = None;
    for template in prepared.templates.iter().filter(|template| !template.is_partial()) {
        let Some(context) = contexts.by_node.get(&template.node) else { continue };
        context.insert("Template", objects::template(&template.path, &template.base_path));
        // Most templates produce about as many bytes as they have.
        let mut out = Vec::with_capacity(template.text.len());
        let data = Value::Map(context.converted(objects::VALUES));
        if let Err(error) = set.execute(&mut host, &template.path, data, &mut out) {
            failure = Some(exec_error(prepared, &template.path, error, context));
            break;
        }
        rendered.insert(template.path.clone(), without_no_value(out).into());
    }
    warnings.append(&mut host.log);
    match failure {
        None => Ok(rendered),
        Some(error) => Err(error),
    }
}

/// Values of `.` in the templates of each chart.
struct Contexts {
    by_node: BTreeMap<NodeId, Map>,
}

impl Contexts {
    fn new(prepared: &Prepared, values: &Map, options: &RenderOptions) -> Self {
        let mut contexts = Self { by_node: BTreeMap::new() };
        let release = Value::Map(release(&options.release, options.lint));
        let shared = Shared { release, capabilities: objects::capabilities(&options.capabilities) };
        contexts.add(prepared, ROOT, values.converted(objects::VALUES), &shared);
        contexts
    }

    fn add(&mut self, prepared: &Prepared, id: NodeId, values: Map, shared: &Shared) -> Map {
        let subcharts = Map::new();
        let context = Map::new();
        let metadata = prepared.metadata.get(id).and_then(Option::as_ref).map(Arc::clone).unwrap_or_default();
        let node = prepared.tree.node(id);
        context.insert("Chart", objects::chart(metadata, prepared.tree.is_root(id)));
        context.insert("Files", files::files(&node.content.files));
        context.insert("Release", shared.release.clone());
        context.insert("Capabilities", shared.capabilities.clone());
        context.insert("Values", Value::Map(values.clone()));
        context.insert("Subcharts", Value::Map(subcharts.clone()));
        for child in &node.children {
            let name = &prepared.tree.node(*child).name;
            let values = table_at(&values, name).unwrap_or_default().converted(objects::VALUES);
            let child = self.add(prepared, *child, values, shared);
            subcharts.insert(name.as_str(), Value::Map(child));
        }
        self.by_node.insert(id, context.clone());
        context
    }
}

/// Data shared by all charts of a render.
struct Shared {
    release: Value,
    capabilities: Value,
}

fn release(release: &Release, lint: bool) -> Map {
    let entries = [
        ("Name", Value::string(release.name.as_str())),
        ("Namespace", Value::string(release.namespace.as_str())),
        ("IsUpgrade", Value::Bool(release.is_upgrade)),
        // Linting is neither an install nor an upgrade.
        ("IsInstall", Value::Bool(!release.is_upgrade && !lint)),
        ("Revision", Value::int(release.revision)),
        ("Service", Value::string("Helm")),
    ];
    Map::with_type(MapType::ANY, entries.into_iter().map(|(key, value)| (key.into(), value)).collect())
}

/// Removes every `<no value>`, which Go prints for missing values and Helm strips.
pub(crate) fn without_no_value(text: Vec<u8>) -> Vec<u8> {
    const NO_VALUE: &[u8] = b"<no value>";
    let finder = memchr::memmem::Finder::new(NO_VALUE);
    if finder.find(&text).is_none() {
        return text;
    }
    let mut kept = Vec::with_capacity(text.len());
    let mut rest = text.as_slice();
    while let Some(at) = finder.find(rest) {
        let (before, after) = rest.split_at(at);
        kept.extend_from_slice(before);
        rest = after.get(NO_VALUE.len()..).unwrap_or_default();
    }
    kept.extend_from_slice(rest);
    kept
}

/// Markers that `required` and `fail` put around their message, to find it in Go's error.
const MARK_START: &str = "HELM_ERR_START";
const MARK_END: &str = "HELM_ERR_END";

fn exec_error(prepared: &Prepared, path: &str, error: ExecError, context: &Map) -> Error {
    let text = error.message.as_str();
    let mut tokens = text.splitn(3, ": ");
    let message = match (tokens.next(), tokens.next(), tokens.next()) {
        (Some(_), Some(location), Some(rest)) => marked(rest)
            .map_or_else(|| text.to_owned(), |message| format!("execution error at ({location}): {message}")),
        _ => format!("execution error in ({path}): {text}"),
    };
    let diagnostic = diagnose::exec_error(prepared, &error, context);
    Error::Template(Box::new(TemplateError { message, diagnostic, exceeded: error.exceeded }))
}

/// Returns the message between the first start marker and the last end marker.
fn marked(text: &str) -> Option<&str> {
    let (_, after) = text.split_once(MARK_START)?;
    let (message, _) = after.rsplit_once(MARK_END)?;
    Some(message)
}
