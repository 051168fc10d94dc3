//! The command line flags that set values.

use super::{Data, Values};
use crate::error::Error;
use crate::yaml;

/// Reads a file by the name in a flag; the error says why it cannot be read.
pub type ReadFile<'a> = dyn FnMut(&str) -> Result<Vec<u8>, String> + 'a;

/// The values flags, each in the order given.
///
/// They apply in the order of the fields, regardless of their order on the command line.
#[derive(Clone, Debug, Default)]
pub struct ValueOptions {
    /// `-f`, `--values`: names of YAML files.
    pub files: Vec<String>,
    /// `--set-json`.
    pub json: Vec<String>,
    /// `--set`.
    pub set: Vec<String>,
    /// `--set-string`.
    pub set_string: Vec<String>,
    /// `--set-file`.
    pub set_file: Vec<String>,
    /// `--set-literal`.
    pub set_literal: Vec<String>,
}

impl ValueOptions {
    /// Merges the values of all flags; `read` opens the files that they name.
    pub fn merge(&self, read: &mut ReadFile<'_>) -> Result<Values, Error> {
        let mut values = Values::new();
        for name in &self.files {
            let text = read(name).map_err(Error::Values)?;
            let table = yaml::values(&text)
                .map_err(|error| Error::Values(format!("failed to parse {name}: {error}")))?;
            values.merge(Values(table));
        }
        for expression in &self.json {
            values
                .set_json(expression)
                .map_err(|_| Error::Values(format!("failed parsing --set-json data {expression}")))?;
        }
        for expression in &self.set {
            values.set(expression).map_err(within("--set"))?;
        }
        for expression in &self.set_string {
            values.set_string(expression).map_err(within("--set-string"))?;
        }
        for expression in &self.set_file {
            values.set_file(expression, read).map_err(within("--set-file"))?;
        }
        for expression in &self.set_literal {
            values.set_literal(expression).map_err(within("--set-literal"))?;
        }
        Ok(values)
    }
}

fn within(flag: &'static str) -> impl Fn(Error) -> Error {
    move |error| Error::Values(format!("failed parsing {flag} data: {error}"))
}

impl From<Values> for Data {
    fn from(values: Values) -> Self {
        Self::Table(values.0)
    }
}
