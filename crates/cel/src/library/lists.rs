//! Lists and sets.

use std::cmp::Ordering;

use super::{A, Library, unfit};
use crate::types::Type;
use crate::value::{Evaluated, Value, compare, equal, fail};

/// The types that lists are summed and sorted by.
const SUMMABLE: [Type; 4] = [Type::Int, Type::Uint, Type::Double, Type::Duration];
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
    for ty in SUMMABLE {
        library.member("sum", [Type::list(ty.clone())], ty, sum);
    }
    for ty in SORTABLE {
        library.member("isSorted", [Type::list(ty.clone())], Type::Bool, is_sorted);
        library
            .member("min", [Type::list(ty.clone())], ty.clone(), |args| extreme(args, Ordering::Less, "min"));
        library.member("max", [Type::list(ty.clone())], ty.clone(), |args| {
            extreme(args, Ordering::Greater, "max")
        });
        library.member("sort", [Type::list(ty.clone())], Type::list(ty), sort);
    }
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

fn sum(args: &[Value]) -> Evaluated {
    let [Value::List(items)] = args else { return unfit() };
    let mut items = items.iter();
    let Some(first) = items.next() else { return Ok(Value::Int(0)) };
    items.try_fold(first.clone(), |total, item| {
        let result = match (&total, item) {
            (Value::Int(a), Value::Int(b)) => a.checked_add(*b).map(Value::Int),
            (Value::Uint(a), Value::Uint(b)) => a.checked_add(*b).map(Value::Uint),
            (Value::Double(a), Value::Double(b)) => Some(Value::Double(a + b)),
            (Value::Duration(a), Value::Duration(b)) => a.checked_add(*b).map(Value::Duration),
            _ => return unfit(),
        };
        result.map_or_else(|| fail("integer overflow"), Ok)
    })
}

fn is_sorted(args: &[Value]) -> Evaluated {
    let [Value::List(items)] = args else { return unfit() };
    let sorted = items.windows(2).all(|pair| compare(&pair[0], &pair[1]).is_none_or(Ordering::is_le));
    Ok(Value::Bool(sorted))
}

fn extreme(args: &[Value], wanted: Ordering, name: &str) -> Evaluated {
    let [Value::List(items)] = args else { return unfit() };
    let mut items = items.iter();
    let Some(first) = items.next() else { return fail(format!("{name} called on empty list")) };
    Ok(items.fold(first, |best, item| if compare(item, best) == Some(wanted) { item } else { best }).clone())
}

fn sort(args: &[Value]) -> Evaluated {
    let [Value::List(items)] = args else { return unfit() };
    let mut items = items.to_vec();
    items.sort_by(|a, b| compare(a, b).unwrap_or(Ordering::Equal));
    Ok(Value::list(items))
}

fn shapes(library: &mut Library) {
    use Type::Int;
    library.member("slice", [Type::list(A), Int, Int], Type::list(A), |args| match args {
        [Value::List(items), Value::Int(start), Value::Int(end)] => {
            let place = |at: i64| usize::try_from(at).ok().filter(|at| *at <= items.len());
            match (place(*start), place(*end)) {
                (Some(start), Some(end)) if start <= end => Ok(Value::list(items[start..end].to_vec())),
                (Some(_), Some(_)) => fail(format!(
                    "cannot slice({start}, {end}), start index must be less than or equal to end index"
                )),
                _ if *start < 0 || *end < 0 => {
                    fail(format!("cannot slice({start}, {end}), negative indexes not supported"))
                }
                _ => fail(format!("cannot slice({start}, {end}), list is length {}", items.len())),
            }
        }
        _ => unfit(),
    });
    library.member("flatten", [Type::list(Type::list(A))], Type::list(A), |args| match args {
        [Value::List(items)] => {
            let mut out = Vec::new();
            for item in items.iter() {
                match item {
                    Value::List(inner) => out.extend(inner.iter().cloned()),
                    other => out.push(other.clone()),
                }
            }
            Ok(Value::list(out))
        }
        _ => unfit(),
    });
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
        [Value::Int(n)] if *n > 1_000_000 => fail("the range is too long"),
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
