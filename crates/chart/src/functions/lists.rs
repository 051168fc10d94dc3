//! List functions. A list argument may be any Go slice; the result is a `[]interface {}`.

use std::borrow::Cow;

use steersman_gotemplate::{
    Budget, CallError, Exceeded, Funcs, List, ListType, Str, Type, UintType, Value, deep_equal_within,
};

use super::args::define;
use super::cast::to_int64;
use super::reflect::is_empty;
use super::{Host, NIL_DEREFERENCE, TEXT};

/// `[][]interface {}`, the result type of `chunk`.
const CHUNKS: &ListType = &ListType { name: "[][]interface {}", elem: Type::ListAny, methods: &[] };

pub(super) fn register<H: Host>(funcs: &mut Funcs<H>) {
    // The must variants share the implementation: the others panic with the same error, which Go's templates recover.
    define!(funcs {
        "list" | "tuple" (; values: &[Value]) => any_list(values.to_vec());
        "append" | "push" | "mustAppend" | "mustPush" (list: &Value, value: &Value) => {
            let mut items = slice_of(list, "Cannot push on type")?.into_owned();
            items.push(value.clone());
            any_list(items)
        };
        "prepend" | "mustPrepend" (list: &Value, value: &Value) => {
            let items = slice_of(list, "Cannot prepend on type")?;
            any_list(std::iter::once(value).chain(items.iter()).cloned().collect())
        };
        "first" | "mustFirst" (list: &Value) =>
            slice_of(list, "Cannot find first on type")?.first().cloned().unwrap_or(Value::Nil);
        "last" | "mustLast" (list: &Value) =>
            slice_of(list, "Cannot find last on type")?.last().cloned().unwrap_or(Value::Nil);
        "rest" | "mustRest" (list: &Value) =>
            some_or_nil(slice_of(list, "Cannot find rest on type")?.split_first().map(|(_, rest)| rest));
        "initial" | "mustInitial" (list: &Value) =>
            some_or_nil(slice_of(list, "Cannot find initial on type")?.split_last().map(|(_, initial)| initial));
        "reverse" | "mustReverse" (list: &Value) => {
            let mut items = slice_of(list, "Cannot find reverse on type")?.into_owned();
            items.reverse();
            any_list(items)
        };
        "compact" | "mustCompact" (list: &Value) => {
            let mut items = slice_of(list, "Cannot compact on type")?.into_owned();
            items.retain(|item| !is_empty(item));
            any_list(items)
        };
        "uniq" | "mustUniq" [budget] (items: &Value) => uniq(budget, &slice_of(items, "Cannot find uniq on type")?);
        "without" | "mustWithout" [budget] (items: &Value; omit: &[Value]) => {
            let mut kept = Vec::new();
            for item in slice_of(items, "Cannot find without on type")?.iter() {
                if !contains(budget, omit, item)? {
                    kept.push(item.clone());
                }
            }
            any_list(kept)
        };
        "has" | "mustHas" [budget] (needle: &Value, items: &Value) => match items {
            Value::Nil => false,
            items => contains(budget, &slice_of(items, "Cannot find has on type")?, needle)?,
        };
        "slice" | "mustSlice" [budget] (items: &Value; indices: &[Value]) => slice(budget, items, indices);
        "chunk" | "mustChunk" [budget] (size: i64, items: &Value) =>
            chunk(budget, size, &slice_of(items, "Cannot chunk type")?);
        "concat" [budget] (; lists: &[Value]) => concat(budget, lists);
    });
}

fn any_list(items: Vec<Value>) -> List {
    List::new(ListType::ANY, items)
}

/// Returns the elements of a Go slice; for other values, the error is `complaint` and their kind.
fn slice_of<'a>(value: &'a Value, complaint: &str) -> Result<Cow<'a, [Value]>, CallError> {
    match value {
        Value::List(list) => Ok(Cow::Borrowed(list)),
        Value::Bytes(bytes) => {
            Ok(bytes.iter().map(|byte| Value::Uint(u64::from(*byte), UintType::Uint8)).collect())
        }
        Value::Nil => Err(CallError::new(NIL_DEREFERENCE)),
        other => Err(CallError::new(format!("{complaint} {}", other.kind()))),
    }
}

fn some_or_nil(items: Option<&[Value]>) -> List {
    items.map_or_else(|| List::nil(ListType::ANY), |items| List::new(ListType::ANY, items.to_vec()))
}

fn contains(budget: &Budget, list: &[Value], needle: &Value) -> Result<bool, Exceeded> {
    for item in list {
        budget.charge_cost(1)?;
        if deep_equal_within(budget, needle, item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn uniq(budget: &Budget, items: &[Value]) -> Result<List, CallError> {
    // Strings, the common case, are deduplicated by hash; other values by comparing all pairs, as Go does.
    let mut seen = std::collections::HashSet::new();
    let mut kept: Vec<Value> = Vec::new();
    for item in items {
        let fresh = match item {
            Value::String(text) => seen.insert(text.clone()),
            other => !contains(budget, &kept, other)?,
        };
        if fresh {
            kept.push(item.clone());
        }
    }
    Ok(any_list(kept))
}

fn slice(budget: &Budget, list: &Value, indices: &[Value]) -> Result<Value, CallError> {
    let items = slice_of(list, "list should be type of slice or array but")?;
    if items.is_empty() {
        return Ok(Value::Nil);
    }
    let len = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let start = indices.first().map_or(0, to_int64);
    let end = indices.get(1).map_or(len, to_int64);
    let out_of_bounds = || CallError::new("reflect.Value.Slice: slice index out of bounds");
    if start < 0 || end < start || end > len {
        return Err(out_of_bounds());
    }
    let range = usize::try_from(start).map_err(|_| out_of_bounds())?
        ..usize::try_from(end).map_err(|_| out_of_bounds())?;
    Ok(match list {
        Value::Bytes(bytes) => {
            budget.charge_memory(range.len())?;
            Value::Bytes(bytes.get(range).map(Str::from).ok_or_else(out_of_bounds)?)
        }
        Value::List(list) => {
            budget.charge_elements(range.len())?;
            Value::List(List::new(list.ty(), items.get(range).ok_or_else(out_of_bounds)?.to_vec()))
        }
        _ => Value::Nil,
    })
}

/// Splits a list into chunks of `size`, the last one shorter.
///
/// Negative sizes behave as in sprig, whose float arithmetic gives them odd results.
fn chunk(budget: &Budget, size: i64, items: &[Value]) -> Result<List, CallError> {
    let chunks = |chunks: Vec<Value>| Ok(List::new(CHUNKS, chunks));
    match (usize::try_from(size), items) {
        (Ok(1..), []) => chunks(Vec::new()),
        (Ok(size @ 1..), items) => {
            budget.charge_elements(items.len())?;
            budget.charge_memory(items.len().div_ceil(size) * 2 * TEXT)?;
            chunks(items.chunks(size).map(|chunk| Value::list(chunk.to_vec())).collect())
        }
        (Err(_), [only]) if size < -1 => chunks(vec![Value::list(vec![only.clone()])]),
        (Err(_), [_, rest @ ..]) if !rest.is_empty() && rest.len() as u64 <= size.unsigned_abs() => {
            chunks(Vec::new())
        }
        _ => Err(CallError::new("runtime error: makeslice: len out of range")),
    }
}

fn concat(budget: &Budget, lists: &[Value]) -> Result<List, CallError> {
    let mut all = Vec::new();
    for list in lists {
        let items = match list {
            Value::List(_) | Value::Bytes(_) | Value::Nil => slice_of(list, "")?,
            other => return Err(CallError::new(format!("Cannot concat type {} as list", other.kind()))),
        };
        // The same list may be passed many times.
        budget.ensure_memory((all.len() + items.len()) * size_of::<Value>())?;
        all.extend_from_slice(&items);
    }
    Ok(if all.is_empty() { List::nil(ListType::ANY) } else { any_list(all) })
}
