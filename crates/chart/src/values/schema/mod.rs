//! values.schema.json: whether values meet it, and if not, Helm's words for it.
//!
//! Helm uses Go's santhosh-tekuri/jsonschema, and this is built as that is: [`compiler`] decodes a schema and all that it
//! refers to, [`validator`] checks values, and both report what Go's do.
//!
//! No library serves. `boon`, by the same author, rewrites patterns to those of ECMA, prints other texts, cannot replace the
//! format `regex`, searches all schemas for each one that it adds, and does not limit recursion. `jsonschema` words and nests
//! errors otherwise, and was a fifteenth of the program's build.

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

/// The address that Helm gives to a schema.
const ADDRESS: &str = "file:///values.schema.json";

/// Gives the schema behind a URL that another schema refers to, or says why it cannot.
#[derive(Clone)]
pub struct FetchSchema(Arc<Fetch>);

type Fetch = dyn Fn(&str) -> Result<Json, String> + Send + Sync;

impl FetchSchema {
    /// Asks `fetch` for every `http` and `https` URL.
    pub fn new(fetch: impl Fn(&str) -> Result<Json, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(fetch))
    }
}

impl fmt::Debug for FetchSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchSchema").finish_non_exhaustive()
    }
}

/// A schema ready for use, or what is wrong with it.
pub(crate) struct Schema(Result<Ready, String>);

struct Ready {
    compiled: Compiled,
    root: SchemaId,
    warnings: Vec<String>,
}

impl Schema {
    /// Reads a schema.
    pub(crate) fn compile(text: &[u8], fetch: Option<&FetchSchema>) -> Self {
        Self(read(text).and_then(|schema| {
            let mut loader = Loader::new(ADDRESS, schema, fetch);
            let mut compiler = Compiler::new(&mut loader, Mode::Schema);
            let root = compiler.compile(ADDRESS)?;
            let compiled = compiler.finish();
            Ok(Ready { compiled, root, warnings: loader.warnings })
        }))
    }

    /// Why values do not meet the schema, as Helm prints it.
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

/// Reads a schema's text; what is no JSON is told in the words of Go's decoder of streams.
fn read(text: &[u8]) -> Result<Node, String> {
    let problem = match steersman_yaml::json::read_from_slice(text) {
        Ok(schema) => return Ok(schema),
        Err(problem) => problem.to_string(),
    };
    // Within a word or a number the end reads as a space that the text does not have.
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

/// Runs one level of a recursion that schemas or values control, taking more stack from the heap where little is left.
fn deeper<R>(step: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(128 << 10, 2 << 20, step)
}
