//! Map and slice handling shared by both `--set` grammars: as in Go, with panics as errors.

use steersman_gostd::strconv;
use steersman_gotemplate::Str;

use super::{Data, Table};

/// Highest list index allowed in an expression.
const MAX_INDEX: usize = 65536;
/// Maximum number of dots in a key.
const MAX_NAME_LEVEL: usize = 30;
/// Maximum number of consecutive brackets. Helm has no limit, but the stack does.
const MAX_LIST_LEVEL: usize = 64;

/// Why parsing a key ended.
pub(super) enum Stop {
    /// The end of the expression.
    End,
    /// A syntax error.
    Error(String),
}

impl<T: Into<String>> From<T> for Stop {
    fn from(message: T) -> Self {
        Self::Error(message.into())
    }
}

pub(super) type Result<T> = std::result::Result<T, Stop>;

/// Sets a key; an empty key is ignored.
pub(super) fn set(table: &mut Table, key: &str, value: Data) {
    if !key.is_empty() {
        table.insert(key.into(), value);
    }
}

/// Runs `fill` on the table under `key`. A new table is kept only if something is put into it.
pub(super) fn in_table(
    table: &mut Table,
    key: &str,
    level: usize,
    fill: impl FnOnce(&mut Table, usize) -> Result<()>,
) -> Result<()> {
    let level = level + 1;
    if level > MAX_NAME_LEVEL {
        return Err(format!(
            "value name nested level is greater than maximum supported nested level of {MAX_NAME_LEVEL}"
        )
        .into());
    }
    if let Some(existing) = table.get_mut(key.as_bytes()) {
        let Data::Table(inner) = existing else {
            return Err(not_convertible(existing, "map[string]interface {}"));
        };
        fill(inner, level)?;
        return if inner.is_empty() { Err(no_value_in(key)) } else { Ok(()) };
    }
    let mut inner = Table::new();
    let outcome = fill(&mut inner, level);
    if outcome.is_ok() && inner.is_empty() {
        return Err(no_value_in(key));
    }
    if !inner.is_empty() {
        set(table, key, Data::Table(inner));
    }
    outcome
}

/// Runs `fill` on the list under `key`, creating it if missing.
pub(super) fn in_list(
    table: &mut Table,
    key: &str,
    fill: impl FnOnce(&mut Vec<Data>) -> Result<()>,
) -> Result<()> {
    if let Some(existing) = table.get_mut(key.as_bytes()) {
        let Data::List(list) = existing else { return Err(not_convertible(existing, "[]interface {}")) };
        return fill(list);
    }
    let mut list = Vec::new();
    let outcome = fill(&mut list);
    set(table, key, Data::List(list));
    outcome
}

/// Runs `fill` on the table at a list index, replacing any other value.
pub(super) fn in_item_table(
    list: &mut Vec<Data>,
    index: usize,
    fill: impl FnOnce(&mut Table) -> Result<()>,
) -> Result<()> {
    if let Some(item) = list.get_mut(index) {
        if item.as_table().is_none() {
            *item = Data::Table(Table::new());
        }
        if let Data::Table(inner) = item {
            fill(inner)?;
        }
        return check_index(index);
    }
    let mut inner = Table::new();
    fill(&mut inner)?;
    set_index(list, index, Data::Table(inner))
}

/// Runs `fill` on the list at a list index, creating it if missing.
pub(super) fn in_item_list(
    list: &mut Vec<Data>,
    index: usize,
    level: usize,
    fill: impl FnOnce(&mut Vec<Data>, usize) -> Result<()>,
) -> Result<()> {
    let level = level + 1;
    if level > MAX_LIST_LEVEL {
        return Err(format!("lists are nested deeper than the supported {MAX_LIST_LEVEL} levels").into());
    }
    match list.get_mut(index) {
        Some(Data::List(inner)) => {
            fill(inner, level)?;
            check_index(index)
        }
        None | Some(Data::Null) => {
            let mut inner = Vec::new();
            fill(&mut inner, level)?;
            set_index(list, index, Data::List(inner))
        }
        Some(other) => Err(not_convertible(other, "[]interface {}")),
    }
}

/// Sets a list index, growing the list with nulls.
pub(super) fn set_index(list: &mut Vec<Data>, index: usize, value: Data) -> Result<()> {
    check_index(index)?;
    if list.len() <= index {
        list.resize(index + 1, Data::Null);
    }
    if let Some(item) = list.get_mut(index) {
        *item = value;
    }
    Ok(())
}

fn check_index(index: usize) -> Result<()> {
    if index > MAX_INDEX {
        return Err(format!("index of {index} is greater than maximum supported index of {MAX_INDEX}").into());
    }
    Ok(())
}

/// Parses the number between brackets.
pub(super) fn index(text: &str) -> Result<i64> {
    strconv::atoi(text.as_bytes()).map_err(|error| format!("error parsing index: {error}").into())
}

/// Converts an index to a list position. As in Helm, negative ones fail only once the list has been found.
pub(super) fn place(index: i64) -> Result<usize> {
    usize::try_from(index).map_err(|_| format!("negative {index} index not allowed").into())
}

fn no_value_in(key: &str) -> Stop {
    format!("key map {} has no value", crate::gofmt::quote(&Str::from(key))).into()
}

/// Builds the error of Go's failed type assertion, a panic that Helm recovers.
fn not_convertible(data: &Data, wanted: &str) -> Stop {
    let found = match data {
        Data::Null => "nil",
        Data::Bool(_) => "bool",
        Data::Int(_) => "int64",
        Data::Float(_) => "float64",
        Data::String(_) => "string",
        Data::List(_) => "[]interface {}",
        Data::Table(_) => "map[string]interface {}",
    };
    format!("unable to parse key: interface conversion: interface {{}} is {found}, not {wanted}").into()
}
