//! Sets of parsed templates and their execution.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ast::Template;
use crate::budget::{Budget, Exceeded, Limits};
use crate::exec;
use crate::func::Funcs;
use crate::parse;
use crate::str::Str;
use crate::value::Value;
use steersman_gostd::strconv;

/// What a missing map key evaluates to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// An invalid value, printed as `<no value>` (the default).
    #[default]
    Default,
    /// The zero value of the map's element type.
    Zero,
    /// An error that ends the execution.
    Error,
}

/// Templates that can call each other by name.
///
/// Cheap to clone, however large: clones share their templates and can then be extended independently.
pub struct Set<H> {
    name: Arc<str>,
    funcs: Arc<Funcs<H>>,
    missing_key: MissingKey,
    limits: Limits,
    top: Arc<Layer<H>>,
    /// Budget that every execution charges; without it, each execution has its own.
    budget: Option<Arc<Budget>>,
}

/// A parsed source text with all templates that it defines. Can be added to any number of sets without parsing again.
/// Cheap to clone.
pub struct Parsed<H> {
    templates: Arc<[Arc<Template<H>>]>,
}

impl<H> Clone for Parsed<H> {
    fn clone(&self) -> Self {
        Self { templates: Arc::clone(&self.templates) }
    }
}

/// Templates that shadow those of the same name in the layers below.
struct Layer<H> {
    templates: HashMap<Str, Arc<Template<H>>>,
    below: Option<Arc<Layer<H>>>,
}

impl<H> Layer<H> {
    fn find(&self, name: &[u8]) -> Option<&Arc<Template<H>>> {
        let mut layer = Some(self);
        while let Some(here) = layer {
            if let Some(template) = here.templates.get(name) {
                return Some(template);
            }
            layer = here.below.as_deref();
        }
        None
    }

    /// Creates a layer on top of a shared one.
    ///
    /// Small layers are merged rather than stacked, so that a set repeatedly cloned and extended stays a few layers
    /// high.
    fn on(below: &Arc<Self>, adding: usize) -> Self {
        let mut layer = Self { templates: HashMap::new(), below: Some(Arc::clone(below)) };
        let mut size = adding;
        while let Some(below) =
            layer.below.as_ref().filter(|below| below.templates.len() <= 2 * size).cloned()
        {
            size += below.templates.len();
            for (name, template) in &below.templates {
                layer.templates.entry(name.clone()).or_insert_with(|| Arc::clone(template));
            }
            layer.below.clone_from(&below.below);
        }
        layer
    }
}

/// Error of a template that does not parse: Go's message and the position.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ParseError {
    /// Message in Go's words, such as `template: web.yaml:3: unexpected "}" in operand`.
    pub message: String,
    /// The name of the template being parsed.
    pub template: String,
    /// The line, from 1.
    pub line: usize,
    /// The exceeded limit, if that is the cause; of the budget that the set was [within](Set::within).
    pub exceeded: Option<Exceeded>,
}

/// Error of a failed execution: Go's message and the stack of templates.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ExecError {
    /// Message in Go's words.
    ///
    /// Example: `template: a:1:2: executing "a" at <.x>: nil pointer evaluating interface {}.x`.
    pub message: String,
    /// Stack of templates, innermost first; each further frame included the one before it. At most
    /// [`ExecError::MAX_FRAMES`] frames.
    pub frames: Vec<Frame>,
    /// The exceeded limit, if that is the cause.
    pub exceeded: Option<Exceeded>,
}

impl ExecError {
    /// Maximum number of frames kept: an endless recursion is 100,000 templates deep when it fails.
    pub const MAX_FRAMES: usize = 100;
}

/// One template in the stack of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The file the template was parsed from (the name given to [`Set::parse`]).
    pub file: String,
    /// The template being executed, which may be a `define` in that file.
    pub template: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in bytes, as Go counts it.
    pub column: usize,
    /// The source of the expression, as Go prints it between `<` and `>`.
    pub context: String,
}

impl<H> Clone for Set<H> {
    fn clone(&self) -> Self {
        Self {
            name: Arc::clone(&self.name),
            funcs: Arc::clone(&self.funcs),
            missing_key: self.missing_key,
            limits: self.limits,
            top: Arc::clone(&self.top),
            budget: self.budget.clone(),
        }
    }
}

impl<H> Set<H> {
    /// Creates an empty set with these functions besides Go's own.
    pub fn new(funcs: Arc<Funcs<H>>) -> Self {
        Self {
            name: "".into(),
            funcs,
            missing_key: MissingKey::default(),
            limits: Limits::default(),
            top: Arc::new(Layer { templates: HashMap::new(), below: None }),
            budget: None,
        }
    }

    /// Names the set, for Go's error about a missing template: `associated with template "NAME"`.
    ///
    /// Empty by default.
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Sets what a missing map key evaluates to. [`MissingKey::Default`] by default.
    pub fn missing_key(mut self, missing_key: MissingKey) -> Self {
        self.missing_key = missing_key;
        self
    }

    /// Limits each execution. [`Limits::default`] by default; [`Set::within`] limits several together.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Charges one budget for all executions. By default each has its own, with the set's [`Limits`].
    pub fn within(mut self, budget: Arc<Budget>) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Parses `text` without adding it to the set.
    ///
    /// Every function it calls must be one of this set's. The set's budget is charged.
    ///
    /// # Errors
    /// If the template does not parse, with Go's message.
    pub fn compile(&self, name: &str, text: &[u8]) -> Result<Parsed<H>, ParseError> {
        Ok(Parsed { templates: parse::parse(&self.funcs, self.budget.as_deref(), name, text)?.into() })
    }

    /// Adds what [`Set::compile`] parsed. An existing template is replaced, unless the new one is empty.
    pub fn add(&mut self, parsed: &Parsed<H>) {
        if Arc::get_mut(&mut self.top).is_none() {
            self.top = Arc::new(Layer::on(&self.top, parsed.templates.len()));
        }
        for template in &*parsed.templates {
            if template.empty && self.top.find(&template.name).is_some() {
                continue;
            }
            if let Some(top) = Arc::get_mut(&mut self.top) {
                top.templates.insert(template.name.clone(), Arc::clone(template));
            }
        }
    }

    /// Parses `text` and adds it under `name`, along with the templates that it defines.
    ///
    /// # Errors
    /// If it does not parse, with Go's message; nothing is added in that case.
    pub fn parse(&mut self, name: &str, text: &[u8]) -> Result<(), ParseError> {
        let parsed = self.compile(name, text)?;
        self.add(&parsed);
        Ok(())
    }

    /// Whether the set has a template of that name.
    pub fn contains(&self, name: &str) -> bool {
        self.find(name.as_bytes()).is_some()
    }

    /// Executes a template on `data`, appending to `out`.
    ///
    /// Output written before an error is kept.
    ///
    /// # Errors
    /// If there is no such template or its execution fails, with Go's message.
    pub fn execute(&self, host: &mut H, name: &str, data: Value, out: &mut Vec<u8>) -> Result<(), ExecError> {
        let Some(template) = self.find(name.as_bytes()) else {
            let (name, set) = (strconv::quote(name.as_bytes()), strconv::quote(self.name.as_bytes()));
            let message = format!("template: no template {name} associated with template {set}");
            return Err(ExecError { message, frames: Vec::new(), exceeded: None });
        };
        let done = match &self.budget {
            Some(budget) => exec::execute(self, budget, host, template, data, out),
            None => {
                let budget = Arc::new(Budget::new(self.limits));
                let set = self.clone().within(Arc::clone(&budget));
                exec::execute(&set, &budget, host, template, data, out)
            }
        };
        done.map_err(|error| *error)
    }

    pub(crate) fn find(&self, name: &[u8]) -> Option<&Template<H>> {
        self.top.find(name).map(Arc::as_ref)
    }

    pub(crate) fn missing_key_mode(&self) -> MissingKey {
        self.missing_key
    }
}
