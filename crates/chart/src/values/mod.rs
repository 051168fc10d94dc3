//! Values: files, the `--set` flags, and how they combine with a chart's own.

pub(crate) mod coalesce;
mod data;
mod go_list;
mod literal;
mod options;
pub(crate) mod schema;
mod strvals;

use data::table_to_json;
pub use data::{Data, Table};
pub(crate) use data::{MAX_DEPTH, from_map, to_map};
pub use options::{ReadFile, ValueOptions};
pub use schema::FetchSchema;

use crate::error::Error;
use crate::yaml;

/// A table of values to render a chart with; plain data that can be shared between threads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values(pub Table);

impl Values {
    /// Creates an empty table: only the chart's own values apply.
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses a values file, as for `-f`.
    pub fn from_yaml(text: &[u8]) -> Result<Self, Error> {
        yaml::values(text).map(Self).map_err(Error::Values)
    }

    /// Converts a JSON object; any other JSON becomes an empty table.
    pub fn from_json(json: serde_json::Value) -> Self {
        match Data::from(json) {
            Data::Table(table) => Self(table),
            _ => Self::default(),
        }
    }

    /// Converts to a JSON object.
    pub fn to_json(&self) -> serde_json::Value {
        table_to_json(&self.0)
    }

    /// Formats as YAML, as Helm does.
    pub fn to_yaml(&self) -> String {
        yaml::to_string(&Data::Table(self.0.clone()))
    }

    /// Merges the values of another file over these.
    ///
    /// Tables merge, other values are replaced, and null stays null.
    pub fn merge(&mut self, over: Values) {
        merge_tables(&mut self.0, over.0);
    }

    /// Sets values as `--set` does: `a.b=1,list={x,y},c[0].d=true`.
    ///
    /// ```
    /// use steersman_chart::Values;
    ///
    /// let mut values = Values::new();
    /// values.set("image.tag=1.5,ports={80,443}")?;
    /// assert_eq!(values.to_json()["ports"][1], 443);
    /// # Ok::<(), steersman_chart::Error>(())
    /// ```
    pub fn set(&mut self, expression: &str) -> Result<(), Error> {
        strvals::parse(expression, &mut self.0).map_err(Error::Values)
    }

    /// Sets values as `--set-string` does: as `--set`, with every value a string.
    pub fn set_string(&mut self, expression: &str) -> Result<(), Error> {
        strvals::parse_string(expression, &mut self.0).map_err(Error::Values)
    }

    /// Sets values as `--set-json` does: every value is JSON.
    pub fn set_json(&mut self, expression: &str) -> Result<(), Error> {
        strvals::parse_json(expression, &mut self.0).map_err(Error::Values)
    }

    /// Sets values as `--set-file` does: every value is the content of a file, which `read` returns.
    pub fn set_file(&mut self, expression: &str, read: &mut ReadFile<'_>) -> Result<(), Error> {
        strvals::parse_file(expression, &mut self.0, read).map_err(Error::Values)
    }

    /// Sets a value as `--set-literal` does: everything after the first `=` is one string.
    pub fn set_literal(&mut self, expression: &str) -> Result<(), Error> {
        literal::parse(expression, &mut self.0).map_err(Error::Values)
    }
}

fn merge_tables(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Data::Table(below)), Data::Table(above)) => merge_tables(below, above),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}
