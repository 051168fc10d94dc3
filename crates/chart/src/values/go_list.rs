//! What both grammars of the `--set` family share: Go's map and slice handling, with its panics told as errors.

use steersman_gostd::strconv;
use steersman_gotemplate::Str;

use super::{Data, Table};

/// The highest list index that an expression may name.
const MAX_INDEX: usize = 65536;
/// How many dots deep a key may go.
const MAX_NAME_LEVEL: usize = 30;
/// How many brackets may follow each other. Helm has no bound here; the stack has.
const MAX_LIST_LEVEL: usize = 64;

/// Why reading a key ended.
pub(super) enum Stop {
    /// The expression is at its end.
    End,
    /// It is not in the grammar.
    Error(String),
}

impl<T: Into<String>> From<T> for Stop {
    fn from(message: T) -> Self {
        Self::Error(message.into())
    }
}

pub(super) type Result<T> = std::result::Result<T, Stop>;

/// Sets a key; an empty one is never set.
pub(super) fn set(table: &mut Table, key: &str, value: Data) {
    if !key.is_empty() {
        table.insert(key.into(), value);
    }
}

/// Runs `fill` on the table under `key`, made if it is not there and kept if something is put into it.
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

/// Runs `fill` on the list under `key`, made if it is not there.
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

/// Runs `fill` on the table at an index of a list, made if something else or nothing is there.
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

/// Runs `fill` on the list at an index of a list, made if nothing is there.
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

/// Sets an index of a list, growing it with nulls.
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

/// The number between brackets.
pub(super) fn index(text: &str) -> Result<i64> {
    strconv::atoi(text.as_bytes()).map_err(|error| format!("error parsing index: {error}").into())
}

/// The number as a place in a list. Helm looks at that only once it has found the list.
pub(super) fn place(index: i64) -> Result<usize> {
    usize::try_from(index).map_err(|_| format!("negative {index} index not allowed").into())
}

fn no_value_in(key: &str) -> Stop {
    format!("key map {} has no value", crate::gofmt::quote(&Str::from(key))).into()
}

/// The text of the panic that Go's type assertion ends in, which Helm catches.
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
