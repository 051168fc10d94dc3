//! values.schema.json: validates values, with Helm's error messages.
//!
//! Helm uses Go's santhosh-tekuri/jsonschema, whose structure this follows: [`compiler`] decodes a schema and all that
//! it refers to, [`validator`] checks values, and both report the same errors.
//!
//! No library is suitable. `boon`, by the same author, converts patterns to ECMA syntax, has other messages, cannot
//! replace the format `regex`, searches all schemas for each one it adds, and does not limit recursion. `jsonschema`
//! words and nests errors differently, and took a fifteenth of the build time.

use std::fmt;
use std::sync::Arc;

use serde_json::Value as Json;

use self::compiler::{Compiled, Compiler, Mode};
use self::loader::Loader;
use self::node::Node;
use self::subschema::SchemaId;
use self::validator::Validator;
use crate::values::Table;

mod compiler;
mod decimal;
mod draft;
mod failure;
mod format;
mod keywords;
mod loader;
mod metaschema;
mod node;
mod resource;
mod subschema;
mod type_keywords;
mod unevaluated;
mod url;
mod validator;
mod well_formed;
mod words;

#[cfg(test)]
mod tests;

/// URL that Helm assigns to the schema.
const ADDRESS: &str = "file:///values.schema.json";

/// Fetches the schema at a URL that another schema refers to.
#[derive(Clone)]
pub struct FetchSchema(Arc<Fetch>);

type Fetch = dyn Fn(&str) -> Result<Json, String> + Send + Sync;

impl FetchSchema {
    /// Calls `fetch` for every `http` and `https` URL.
    pub fn new(fetch: impl Fn(&str) -> Result<Json, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(fetch))
    }
}

impl fmt::Debug for FetchSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchSchema").finish_non_exhaustive()
    }
}

/// A compiled schema, or the error of compiling it.
pub(crate) struct Schema(Result<Ready, String>);

struct Ready {
    compiled: Compiled,
    root: SchemaId,
    warnings: Vec<String>,
}

impl Schema {
    /// Compiles a schema.
    pub(crate) fn compile(text: &[u8], fetch: Option<&FetchSchema>) -> Self {
        Self(read(text).and_then(|schema| {
            let mut loader = Loader::new(ADDRESS, schema, fetch);
            let mut compiler = Compiler::new(&mut loader, Mode::Schema);
            let root = compiler.compile(ADDRESS)?;
            let compiled = compiler.finish();
            Ok(Ready { compiled, root, warnings: loader.warnings })
        }))
    }

    /// Validates values; the error is printed as by Helm.
    pub(crate) fn check(&self, values: &Table, warnings: &mut Vec<String>) -> Result<(), String> {
        let Ready { compiled, root, warnings: own } = self.0.as_ref().map_err(Clone::clone)?;
        warnings.extend_from_slice(own);
        let validator = Validator::new(&compiled.schemas, &compiled.documents);
        match validator.check(*root, &Node::from(values))? {
            None => Ok(()),
            Some(reasons) => Err(format!("{reasons}\n")),
        }
    }
}

/// Parses a schema; invalid JSON is reported as by Go's stream decoder.
fn read(text: &[u8]) -> Result<Node, String> {
    let problem = match steersman_yaml::json::read_from_slice(text) {
        Ok(schema) => return Ok(schema),
        Err(problem) => problem.to_string(),
    };
    // Inside a word or a number, the end is reported as a space that the text does not have.
    let is_end = problem == "unexpected end of JSON input"
        || (problem.starts_with("invalid character ' ' in ") && !text.ends_with(b" "));
    Err(match problem {
        _ if text.trim_ascii().is_empty() => "EOF".into(),
        _ if is_end => "unexpected EOF".into(),
        problem if problem.ends_with(" after top-level value") => {
            "invalid character after top-level value".into()
        }
        problem => problem,
    })
}

/// Runs one level of a recursion over schemas or values, growing the stack onto the heap if needed.
fn deeper<R>(step: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(128 << 10, 2 << 20, step)
}
