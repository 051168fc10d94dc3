//! Coalesces the values of a chart with those of its subcharts and the user's.
//!
//! It works on the maps that templates will see. Helm shares parts of the `global` table between charts, so that what
//! one chart's defaults or templates put there is visible in others; the sharing must be the same here.

use steersman_gotemplate::{Map, Str, Value};

use super::{Table, to_map};
use crate::error::Error;
use crate::gofmt;

const GLOBAL: &[u8] = b"global";

/// Whether a null value deletes a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// A null that overrides a default removes the key.
    Delete,
    /// Nulls are kept, so that a later pass can delete by them.
    Keep,
}

/// A chart, reduced to what coalescing needs.
pub(crate) trait ChartValues: Copy {
    /// Returns the chart's name or alias.
    fn name(&self) -> &str;
    /// Returns the chart's own values.
    fn values(&self) -> &Table;
    /// Returns the chart's subcharts.
    fn subcharts(&self) -> impl Iterator<Item = Self>;
}

/// Coalesces a chart's values and its subcharts' into `given`, which takes precedence.
pub(crate) fn coalesce<C: ChartValues>(
    chart: C,
    given: &Map,
    nulls: Nulls,
    warnings: &mut Vec<String>,
) -> Result<(), Error> {
    Coalesce { nulls, warnings }.chart(chart, given, "")
}

/// Merges `under` into `over`, which takes precedence.
pub(crate) fn coalesce_tables(over: &Map, under: &Map, nulls: Nulls, warnings: &mut Vec<String>) {
    Coalesce { nulls, warnings }.tables(over, under, "", nulls);
}

struct Coalesce<'a> {
    nulls: Nulls,
    warnings: &'a mut Vec<String>,
}

impl Coalesce<'_> {
    fn chart<C: ChartValues>(&mut self, chart: C, given: &Map, prefix: &str) -> Result<(), Error> {
        self.own_values(chart, given, prefix);
        for subchart in chart.subcharts() {
            let name = subchart.name();
            let values = match given.get(name.as_bytes()) {
                None => {
                    let values = Map::new();
                    given.insert(name, Value::Map(values.clone()));
                    values
                }
                Some(Value::Map(values)) => values,
                Some(other) => {
                    let shown = gofmt::boolean_verb(&other);
                    return Err(Error::Values(format!("type mismatch on {name}: {shown}")));
                }
            };
            let prefix = concat(prefix, chart.name());
            self.globals(&values, given, &prefix);
            self.chart(subchart, &values, &prefix)?;
        }
        Ok(())
    }

    /// Merges the chart's own values into those given, which take precedence.
    fn own_values<C: ChartValues>(&mut self, chart: C, given: &Map, prefix: &str) {
        let prefix = concat(prefix, chart.name());
        for (key, default) in chart.values() {
            match given.get(key) {
                None => given.insert(key.clone(), default.to_value()),
                Some(Value::Nil) => {
                    if self.nulls == Nulls::Delete {
                        given.remove(key);
                    }
                }
                Some(Value::Map(over)) => match default {
                    super::Data::Table(under) => {
                        // The later pass over the subchart deletes by the nulls in its table.
                        let is_subchart = chart.subcharts().any(|subchart| *key == *subchart.name());
                        let nulls = if is_subchart { Nulls::Keep } else { self.nulls };
                        self.tables(&over, &to_map(under), &concat(&prefix, &key.to_str_lossy()), nulls);
                    }
                    super::Data::Null => {}
                    _ => {
                        self.warnings
                            .push(format!("warning: skipped value for {prefix}.{key}: Not a table."));
                    }
                },
                Some(_) => {}
            }
        }
    }

    /// Passes the globals of a chart to a subchart. Nested tables are shared from then on.
    fn globals(&mut self, subchart: &Map, chart: &Map, prefix: &str) {
        let table = |values: &Map, side: &str| match values.get(GLOBAL) {
            None => Ok(Map::new()),
            Some(Value::Map(globals)) => Ok(globals),
            Some(_) => Err(format!("warning: skipping globals because {side} global is not a table.")),
        };
        let (below, above) = match (table(subchart, "destination"), table(chart, "source")) {
            (Ok(below), Ok(above)) => (below, above),
            (Err(warning), _) | (_, Err(warning)) => {
                self.warnings.push(warning);
                return;
            }
        };
        for (key, value) in entries(&above) {
            match (value, below.get(&key)) {
                (Value::Map(above), None) => below.insert(key, Value::Map(shallow_copy(&above))),
                (Value::Map(above), Some(Value::Map(under))) => {
                    let over = shallow_copy(&above);
                    self.tables(&over, &under, &concat(prefix, &key.to_str_lossy()), Nulls::Keep);
                    below.insert(key, Value::Map(over));
                }
                (Value::Map(_), Some(_)) => {
                    let key = gofmt::quote(&key);
                    self.warnings
                        .push(format!("Conflict: cannot merge map onto non-map for {key}. Skipping."));
                }
                (_, Some(Value::Map(_))) => self.warnings.push(format!("key {key} is table. Skipping")),
                (value, _) => below.insert(key, value),
            }
        }
        subchart.insert("global", Value::Map(below));
    }

    /// Adds the keys of `under` that `over` lacks, recursively.
    fn tables(&mut self, over: &Map, under: &Map, prefix: &str, nulls: Nulls) {
        let defaults = entries(under);
        // As in Helm, a null in `over` is copied to `under`.
        let nothing: Vec<Str> =
            over.borrow().iter().filter(|(_, value)| is_nil(value)).map(|(key, _)| key.clone()).collect();
        for key in &nothing {
            under.insert(key.clone(), Value::Nil);
        }
        for (key, default) in defaults {
            let was_nothing = is_nil(&default);
            let default = if nothing.contains(&key) { Value::Nil } else { default };
            match (over.get(&key), default) {
                (None, default) => over.insert(key, default),
                (Some(Value::Nil), _) if nulls == Nulls::Delete && !was_nothing => {
                    over.remove(&key);
                }
                (Some(Value::Map(above)), Value::Map(below)) => {
                    self.tables(&above, &below, &concat(prefix, &key.to_str_lossy()), nulls);
                }
                (Some(_), Value::Map(below)) => {
                    let shown = gofmt::plain(&Value::Map(below));
                    let path = concat(prefix, &key.to_str_lossy());
                    self.warnings
                        .push(format!("warning: cannot overwrite table with non table for {path} ({shown})"));
                }
                (Some(Value::Map(_)), default) if !is_nil(&default) => {
                    let shown = gofmt::plain(&default);
                    let path = concat(prefix, &key.to_str_lossy());
                    self.warnings.push(format!(
                        "warning: destination for {path} is a table. Ignoring non-table value ({shown})"
                    ));
                }
                _ => {}
            }
        }
    }
}

fn is_nil(value: &Value) -> bool {
    matches!(value, Value::Nil)
}

/// Returns a snapshot of the entries: the map may change during iteration.
fn entries(map: &Map) -> Vec<(Str, Value)> {
    map.borrow().iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn shallow_copy(map: &Map) -> Map {
    Map::with_type(map.ty(), map.borrow().clone())
}

fn concat(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
}
