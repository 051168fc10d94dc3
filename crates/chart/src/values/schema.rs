//! values.schema.json: whether values meet it, and if not, Helm's words for it.
//!
//! The `jsonschema` crate decides, unless the schema is so plain that [`super::explain`] can do without. The crate's errors are
//! worded and nested in another way than those that Helm prints, so the reasons are always found again in Helm's.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Retrieve, Uri, ValidationError, Validator};
use serde_json::Value as Json;

use super::documents::Documents;
use super::explain::explain;
use super::format;
use super::metaschema;
use super::plain::is_plain;
use crate::gofmt;

/// The address that Helm gives to a schema.
pub(super) const ADDRESS: &str = "file:///values.schema.json";

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
pub(crate) struct Schema(Result<Compiled, String>);

struct Compiled {
    /// `None` for a plain schema.
    validator: Option<Validator>,
    documents: Documents,
    warnings: Vec<String>,
}

impl Schema {
    /// Reads a schema.
    pub(crate) fn compile(text: &[u8], fetch: Option<&FetchSchema>) -> Self {
        Self(compile(text, fetch))
    }

    /// Why values do not meet the schema, as Helm prints it.
    pub(crate) fn check(&self, values: &Json, warnings: &mut Vec<String>) -> Result<(), String> {
        let compiled = self.0.as_ref().map_err(Clone::clone)?;
        warnings.extend_from_slice(&compiled.warnings);
        let reasons = match &compiled.validator {
            None => match explain(&compiled.documents, values) {
                None => return Ok(()),
                Some(reasons) => reasons,
            },
            Some(validator) if validator.is_valid(values) => return Ok(()),
            Some(validator) => explain(&compiled.documents, values).unwrap_or_else(|| {
                let errors = validator.iter_errors(values);
                let lines = errors.map(|error| format!("- at '{}': {error}", error.instance_path()));
                lines.collect::<Vec<_>>().join("\n")
            }),
        };
        Err(format!("{reasons}\n"))
    }
}

fn compile(text: &[u8], fetch: Option<&FetchSchema>) -> Result<Compiled, String> {
    let schema = read(text)?;
    let documents = Documents::new(schema, HashMap::new());
    if is_plain(documents.root(), documents.draft()) {
        return Ok(Compiled { validator: None, documents, warnings: Vec::new() });
    }
    let schema = documents.root();
    let fetched = Arc::new(Fetched { fetch: fetch.cloned(), ..Fetched::default() });
    let options = jsonschema::options()
        .with_base_uri(ADDRESS)
        .with_retriever(Shared(Arc::clone(&fetched)))
        .should_validate_formats(documents.draft() < 2019);
    let built = format::KNOWN
        .iter()
        .fold(options, |options, (name, check)| options.with_format(*name, |text: &str| check(text).is_ok()))
        .build(schema);
    let take =
        |cell: &Mutex<Vec<String>>| std::mem::take(&mut *cell.lock().unwrap_or_else(PoisonError::into_inner));
    let validator = match built {
        Ok(validator) => validator,
        Err(error) => {
            // What could not be loaded says more than the reference that led there.
            return Err(take(&fetched.failures).pop().unwrap_or_else(|| refused(schema, &error)));
        }
    };
    let others = fetched.documents.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let warnings = take(&fetched.warnings);
    Ok(Compiled { validator: Some(validator), documents: documents.with(others), warnings })
}

/// Reads a schema's text, whose numbers stay as they are written: they are printed so. What is no JSON is told in the
/// words of Go's decoder of streams.
fn read(text: &[u8]) -> Result<Json, String> {
    let error = match serde_json::from_slice(text) {
        Ok(schema) => return Ok(schema),
        Err(error) => error,
    };
    match steersman_yaml::json::from_slice(text) {
        // What only Go reads: lone surrogates, bytes that are no UTF-8.
        Ok(schema) => Ok(schema),
        Err(_) if text.trim_ascii().is_empty() => Err("EOF".into()),
        Err(_) if error.is_eof() => Err("unexpected EOF".into()),
        Err(problem) => {
            let problem = problem.to_string();
            Err(if problem.ends_with(" after top-level value") {
                "invalid character after top-level value".into()
            } else {
                problem
            })
        }
    }
}

/// Helm's words for a schema that is none.
fn refused(schema: &Json, error: &ValidationError<'_>) -> String {
    if let Some(problem) = metaschema::problem(schema) {
        let address = gofmt::quote(&format!("{ADDRESS}#").into());
        return format!("{address} is not valid against metaschema: {problem}");
    }
    match error.kind() {
        ValidationErrorKind::Referencing(referencing::Error::PointerToNowhere { pointer }) => {
            format!("json-pointer in {} not found", gofmt::quote(&format!("{ADDRESS}#{pointer}").into()))
        }
        _ => error.to_string(),
    }
}

/// What references led to while a schema was compiled.
#[derive(Default)]
struct Fetched {
    fetch: Option<FetchSchema>,
    documents: Mutex<HashMap<String, Json>>,
    warnings: Mutex<Vec<String>>,
    failures: Mutex<Vec<String>>,
}

struct Shared(Arc<Fetched>);

impl Retrieve for Shared {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Json, Box<dyn std::error::Error + Send + Sync>> {
        let Self(fetched) = self;
        let url = uri.as_str();
        let note = |cell: &Mutex<Vec<String>>, text: String| {
            cell.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        };
        if uri.scheme().as_str().eq_ignore_ascii_case("urn") {
            note(
                &fetched.warnings,
                format!("WARNING: unresolved URN reference ignored; using permissive schema: {url}"),
            );
            return Ok(Json::Bool(true));
        }
        let document = match &fetched.fetch {
            Some(FetchSchema(fetch)) if url.starts_with("http") => fetch(url),
            _ => Err("schemas are not fetched from elsewhere".to_owned()),
        };
        match document {
            Ok(document) => {
                let mut documents = fetched.documents.lock().unwrap_or_else(PoisonError::into_inner);
                documents.insert(url.to_owned(), document.clone());
                Ok(document)
            }
            Err(error) => {
                let text = format!("failing loading {}: {error}", gofmt::quote(&url.into()));
                note(&fetched.failures, text.clone());
                Err(text.into())
            }
        }
    }
}
