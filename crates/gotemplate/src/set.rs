//! Sets of parsed templates, and their execution.

use std::sync::Arc;

use crate::func::Funcs;
use crate::value::Value;

/// What a missing map key gives.
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

/// Templates that can call each other by name. Cheap to clone; clones can then be added to independently.
pub struct Set<H> {
    funcs: Arc<Funcs<H>>,
    missing_key: MissingKey,
}

/// A template that does not parse: Go's text, and where.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ParseError {
    /// Go's text, such as `template: web.yaml:3: unexpected "}" in operand`.
    pub message: String,
    /// The name of the template being parsed.
    pub template: String,
    /// The line, from 1.
    pub line: usize,
}

/// An execution that failed: Go's text, and the way it took.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ExecError {
    /// Go's text, such as `template: a:1:2: executing "a" at <.x>: nil pointer evaluating interface {}.x`.
    pub message: String,
    /// Where it happened, innermost first; each further frame is the template that included the one before.
    pub frames: Vec<Frame>,
}

/// One template on the way to an error.
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
        Self { funcs: Arc::clone(&self.funcs), missing_key: self.missing_key }
    }
}

impl<H> Set<H> {
    /// No templates yet, with these functions besides Go's own.
    pub fn new(funcs: Arc<Funcs<H>>) -> Self {
        Self { funcs, missing_key: MissingKey::default() }
    }

    /// Says what a missing map key gives. [`MissingKey::Default`] unless called.
    pub fn missing_key(mut self, missing_key: MissingKey) -> Self {
        self.missing_key = missing_key;
        self
    }

    /// Parses `text` and adds it under `name`, with all that it defines.
    pub fn parse(&mut self, name: &str, text: &[u8]) -> Result<(), ParseError> {
        let _ = text;
        Err(ParseError { message: "parsing is not there yet".into(), template: name.into(), line: 1 })
    }

    /// Whether there is a template of that name.
    pub fn contains(&self, name: &str) -> bool {
        let _ = name;
        false
    }

    /// Executes the template of that name on `data`, appending to `out`.
    pub fn execute(&self, host: &mut H, name: &str, data: Value, out: &mut Vec<u8>) -> Result<(), ExecError> {
        let _ = (host, data, out);
        Err(ExecError { message: format!("template: no template {name:?}"), frames: Vec::new() })
    }
}
