//! List and set functions.

use std::cmp::Ordering;

use super::{A, Call, Library, unfit};
use crate::ast::op::SORT_BY_KEYS;
use crate::types::Type;
use crate::value::{EvalError, Evaluated, Value, compare, equal, fail};

/// The element types that can be summed, with the sum of an empty list.
const SUMMABLE: [(Type, Call); 4] = [
    (Type::Int, |args| sum(args, Value::Int(0))),
    (Type::Uint, |args| sum(args, Value::Uint(0))),
    (Type::Double, |args| sum(args, Value::Double(0.0))),
    (Type::Duration, |args| sum(args, Value::Duration(0))),
];
/// The element types that can be sorted.
const SORTABLE: [Type; 8] = [
    Type::Int,
    Type::Uint,
    Type::Double,
    Type::Bool,
    Type::Duration,
    Type::Timestamp,
    Type::String,
    Type::Bytes,
];

pub(super) fn add(library: &mut Library) {
    for (ty, sum) in SUMMABLE {
        library.member("sum", [Type::list(ty.clone())], ty, sum);
    }
    for ty in SORTABLE {
        library.member("isSorted", [Type::list(ty.clone())], Type::Bool, is_sorted);
        library
            .member("min", [Type::list(ty.clone())], ty.clone(), |args| extreme(args, Ordering::Less, "min"));
        library.member("max", [Type::list(ty.clone())], ty.clone(), |args| {
            extreme(args, Ordering::Greater, "max")
        });
        library.member("sort", [Type::list(ty.clone())], Type::list(ty.clone()), |args| match args {
            [Value::List(items)] => sorted_by(items, items),
            _ => Err(EvalError::NoSuchOverload(Some("sort".into()))),
        });
        library.member(SORT_BY_KEYS, [Type::list(A), Type::list(ty)], Type::list(A), |args| match args {
            [Value::List(items), Value::List(keys)] => sorted_by(items, keys),
            _ => Err(EvalError::NoSuchOverload(Some(SORT_BY_KEYS.into()))),
        });
    }
    library.unguarded("sort");
    library.unguarded(SORT_BY_KEYS);
    library.member("indexOf", [Type::list(A), A], Type::Int, |args| match args {
        [Value::List(items), item] => Ok(position(items.iter().position(|i| equal(i, item)))),
        _ => unfit(),
    });
    library.member("lastIndexOf", [Type::list(A), A], Type::Int, |args| match args {
        [Value::List(items), item] => Ok(position(items.iter().rposition(|i| equal(i, item)))),
        _ => unfit(),
    });
    shapes(library);
    sets(library);
}

fn position(found: Option<usize>) -> Value {
    Value::Int(found.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1))
}

fn sum(args: &[Value], nothing: Value) -> Evaluated {
    let [Value::List(items)] = args else { return unfit() };
    items.iter().try_fold(nothing, |total, item| {
        let (result, overflow) = match (&total, item) {
            (Value::Int(a), Value::Int(b)) => (a.checked_add(*b).map(Value::Int), "integer overflow"),
            (Value::Uint(a), Value::Uint(b)) => {
                (a.checked_add(*b).map(Value::Uint), "unsigned integer overflow")
            }
            (Value::Double(a), Value::Double(b)) => return Ok(Value::Double(a + b)),
            (Value::Duration(a), Value::Duration(b)) => {
                (a.checked_add(*b).map(Value::Duration), "integer overflow")
            }
            _ => return unfit(),
        };
        result.map_or_else(|| fail(overflow), Ok)
    })
}

/// Whether values of this type are ordered.
fn is_comparable(value: &Value) -> bool {
    compare(value, value).is_some() || matches!(value, Value::Double(_))
}

fn is_sorted(args: &[Value]) -> Evaluated {
    let [Value::List(items)] = args else { return unfit() };
    let mut previous: Option<&Value> = None;
    for item in items.iter() {
        if !is_comparable(item) {
            return unfit();
        }
        if previous.is_some_and(|previous| compare(previous, item) == Some(Ordering::Greater)) {
            return Ok(Value::Bool(false));
        }
        previous = Some(item);
    }
    Ok(Value::Bool(true))
}

fn extreme(args: &[Value], wanted: Ordering, name: &str) -> Evaluated {
    let [Value::List(items)] = args else { return unfit() };
    if !items.iter().all(is_comparable) {
        return unfit();
    }
    let mut items = items.iter();
    let Some(first) = items.next() else { return fail(format!("{name} called on empty list")) };
    Ok(items.fold(first, |best, item| if compare(item, best) == Some(wanted) { item } else { best }).clone())
}

/// Sorts items by their keys, which must have one type.
fn sorted_by(items: &[Value], keys: &[Value]) -> Evaluated {
    if let [first, rest @ ..] = keys {
        if !is_comparable(first) {
            return fail("list elements must be comparable");
        }
        if rest.iter().any(|key| key.type_name() != first.type_name()) {
            return fail("list elements must have the same type");
        }
    }
    let mut pairs: Vec<(&Value, &Value)> = keys.iter().zip(items).collect();
    pairs.sort_by(|(a, _), (b, _)| compare(a, b).unwrap_or(Ordering::Equal));
    Ok(Value::list(pairs.into_iter().map(|(_, item)| item.clone()).collect()))
}

fn flattened(items: &[Value], depth: i64, out: &mut Vec<Value>) {
    for item in items {
        match item {
            Value::List(inner) if depth > 0 => flattened(inner, depth - 1, out),
            other => out.push(other.clone()),
        }
    }
}

fn flatten(args: &[Value]) -> Evaluated {
    let (items, depth) = match args {
        [Value::List(items)] => (items, 1),
        [Value::List(items), Value::Int(depth)] => (items, *depth),
        [other] => return fail(format!("no such overload: {}.flatten()", other.type_name())),
        [other, depth] => {
            let (other, depth) = (other.type_name(), depth.type_name());
            return fail(format!("no such overload: {other}.flatten({depth})"));
        }
        _ => return unfit(),
    };
    if depth < 0 {
        return fail("level must be non-negative");
    }
    let mut out = Vec::new();
    flattened(items, depth, &mut out);
    Ok(Value::list(out))
}

fn shapes(library: &mut Library) {
    use Type::Int;
    library.member("slice", [Type::list(A), Int, Int], Type::list(A), |args| match args {
        [Value::List(items), Value::Int(start), Value::Int(end)] => {
            let why = match (usize::try_from(*start), usize::try_from(*end)) {
                (Ok(start), Ok(end)) if start <= end => match items.get(start..end) {
                    Some(part) => return Ok(Value::list(part.to_vec())),
                    None => format!("list is length {}", items.len()),
                },
                (Ok(_), Ok(_)) => "start index must be less than or equal to end index".into(),
                _ => "negative indexes not supported".into(),
            };
            fail(format!("cannot slice({start}, {end}), {why}"))
        }
        _ => unfit(),
    });
    library.member("flatten", [Type::list(Type::list(A))], Type::list(A), flatten);
    library.member("flatten", [Type::list(Type::Dyn), Int], Type::list(Type::Dyn), flatten);
    library.unguarded("flatten");
    library.member("distinct", [Type::list(A)], Type::list(A), |args| match args {
        [Value::List(items)] => {
            let mut out: Vec<Value> = Vec::new();
            for item in items.iter() {
                if !out.iter().any(|seen| equal(seen, item)) {
                    out.push(item.clone());
                }
            }
            Ok(Value::list(out))
        }
        _ => unfit(),
    });
    library.member("reverse", [Type::list(A)], Type::list(A), |args| match args {
        [Value::List(items)] => Ok(Value::list(items.iter().rev().cloned().collect())),
        _ => unfit(),
    });
    library.global("lists.range", [Int], Type::list(Int), |args| match args {
        [Value::Int(n)] if *n > 1_000_000 => fail("range exceeds the limit of 1000000 elements"),
        [Value::Int(n)] => Ok(Value::list((0..*n).map(Value::Int).collect())),
        _ => unfit(),
    });
    for (name, first) in [("first", true), ("last", false)] {
        let call: fn(&[Value]) -> Evaluated = if first {
            |args| match args {
                [Value::List(items)] => Ok(Value::Optional(items.first().cloned().map(Into::into))),
                _ => unfit(),
            }
        } else {
            |args| match args {
                [Value::List(items)] => Ok(Value::Optional(items.last().cloned().map(Into::into))),
                _ => unfit(),
            }
        };
        library.member(name, [Type::list(A)], Type::optional(A), call);
    }
}

fn sets(library: &mut Library) {
    fn contains(all: &[Value], some: &[Value]) -> bool {
        some.iter().all(|item| all.iter().any(|other| equal(item, other)))
    }
    let pair = [Type::list(A), Type::list(A)];
    library.global("sets.contains", pair.clone(), Type::Bool, |args| match args {
        [Value::List(a), Value::List(b)] => Ok(Value::Bool(contains(a, b))),
        _ => unfit(),
    });
    library.global("sets.equivalent", pair.clone(), Type::Bool, |args| match args {
        [Value::List(a), Value::List(b)] => Ok(Value::Bool(contains(a, b) && contains(b, a))),
        _ => unfit(),
    });
    library.global("sets.intersects", pair, Type::Bool, |args| match args {
        [Value::List(a), Value::List(b)] => {
            Ok(Value::Bool(a.iter().any(|item| b.iter().any(|other| equal(item, other)))))
        }
        _ => unfit(),
    });
}
