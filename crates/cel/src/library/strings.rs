//! String functions.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use regex::Regex;

use super::{Library, unfit};
use crate::types::Type;
use crate::value::{EvalError, Evaluated, Value, fail};

pub(super) fn add(library: &mut Library) {
    tests(library);
    parts(library);
    patterns(library);
}

/// Compiled patterns cached per thread: rules reuse a handful of them.
const KEPT_PATTERNS: usize = 128;

pub(crate) fn pattern(text: &str) -> Result<Rc<Regex>, EvalError> {
    type Compiled = Result<Rc<Regex>, EvalError>;
    thread_local! {
        static KEPT: RefCell<HashMap<String, Compiled>> = RefCell::default();
    }
    KEPT.with_borrow_mut(|kept| {
        if let Some(known) = kept.get(text) {
            return known.clone();
        }
        if kept.len() >= KEPT_PATTERNS {
            kept.clear();
        }
        let compiled = steersman_regexp::compile(text).map(Rc::new).map_err(EvalError::from);
        kept.insert(text.to_owned(), compiled.clone());
        compiled
    })
}

fn tests(library: &mut Library) {
    use Type::{Bool, String};
    library.member("startsWith", [String, String], Bool, |args| match args {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(text.starts_with(&**part))),
        _ => unfit(),
    });
    library.member("endsWith", [String, String], Bool, |args| match args {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(text.ends_with(&**part))),
        _ => unfit(),
    });
    library.member("contains", [String, String], Bool, |args| match args {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(text.contains(&**part))),
        _ => unfit(),
    });
    let matches: fn(&[Value]) -> Evaluated = |args| match args {
        [Value::String(text), Value::String(re)] => Ok(Value::Bool(pattern(re)?.is_match(text))),
        _ => unfit(),
    };
    library.member("matches", [String, String], Bool, matches);
    library.global("matches", [String, String], Bool, matches);
}

fn characters(text: &str) -> Vec<char> {
    text.chars().collect()
}

fn place(at: i64, length: usize) -> Result<usize, EvalError> {
    usize::try_from(at)
        .ok()
        .filter(|at| *at <= length)
        .ok_or_else(|| EvalError::from(format!("index out of range: {at}")))
}

/// Returns the index of the first occurrence at or after a position, in characters.
fn index_of(args: &[Value]) -> Evaluated {
    let (text, part, from) = match args {
        [Value::String(text), Value::String(part)] => (text, part, 0),
        [Value::String(text), Value::String(part), Value::Int(from)] => (text, part, *from),
        _ => return unfit(),
    };
    let (text, part) = (characters(text), characters(part));
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    let from = place(from, usize::MAX)?;
    let found = text.windows(part.len()).skip(from).position(|window| window == part);
    Ok(Value::Int(found.map_or(-1, |at| i64::try_from(at + from).unwrap_or(-1))))
}

/// Returns the index of the last occurrence at or before a position, in characters.
fn last_index_of(args: &[Value]) -> Evaluated {
    let (text, part, from) = match args {
        [Value::String(text), Value::String(part)] => (text, part, None),
        [Value::String(text), Value::String(part), Value::Int(from)] => (text, part, Some(*from)),
        _ => return unfit(),
    };
    let (text, part) = (characters(text), characters(part));
    let last = i64::try_from(text.len()).unwrap_or(i64::MAX);
    if part.is_empty() {
        return Ok(Value::Int(from.unwrap_or(last)));
    }
    let from = place(from.unwrap_or(last), usize::MAX)?;
    if from > text.len() {
        return Ok(Value::Int(-1));
    }
    let found = text.windows(part.len()).take(from + 1).rposition(|window| window == part);
    Ok(Value::Int(found.map_or(-1, |at| i64::try_from(at).unwrap_or(-1))))
}

fn parts(library: &mut Library) {
    use Type::{Int, String};
    library.member("charAt", [String, Int], String, |args| match args {
        [Value::String(text), Value::Int(at)] => {
            let text = characters(text);
            let at = place(*at, text.len())?;
            Ok(Value::string(text.get(at).map_or_else(std::string::String::new, char::to_string)))
        }
        _ => unfit(),
    });
    library.member("indexOf", [String, String], Int, index_of);
    library.member("indexOf", [String, String, Int], Int, index_of);
    library.member("lastIndexOf", [String, String], Int, last_index_of);
    library.member("lastIndexOf", [String, String, Int], Int, last_index_of);
    library.member("lowerAscii", [String], String, |args| match args {
        [Value::String(text)] => Ok(Value::string(text.to_ascii_lowercase())),
        _ => unfit(),
    });
    library.member("upperAscii", [String], String, |args| match args {
        [Value::String(text)] => Ok(Value::string(text.to_ascii_uppercase())),
        _ => unfit(),
    });
    library.member("trim", [String], String, |args| match args {
        [Value::String(text)] => Ok(Value::string(text.trim())),
        _ => unfit(),
    });
    let replace: fn(&[Value]) -> Evaluated = |args| match args {
        [Value::String(text), Value::String(old), Value::String(new), rest @ ..] => {
            let count = match rest {
                [Value::Int(count)] => usize::try_from(*count).unwrap_or(usize::MAX),
                _ => usize::MAX,
            };
            if text.len().saturating_mul(new.len().max(1)) > 1 << 26 {
                return fail("result of replace exceeds the size limit");
            }
            Ok(Value::string(text.replacen(&**old, new, count)))
        }
        _ => unfit(),
    };
    library.member("replace", [String, String, String], String, replace);
    library.member("replace", [String, String, String, Int], String, replace);
    let split: fn(&[Value]) -> Evaluated = |args| match args {
        [Value::String(text), Value::String(separator), rest @ ..] => {
            let limit = match rest {
                [Value::Int(limit)] => usize::try_from(*limit).unwrap_or(usize::MAX),
                _ => usize::MAX,
            };
            let parts: Vec<Value> = if limit == 0 {
                Vec::new()
            } else if separator.is_empty() {
                let mut starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
                let starts: Vec<usize> = starts.by_ref().take(limit).chain([text.len()]).collect();
                let parts = starts.windows(2).filter_map(|ends| text.get(ends[0]..ends[1]));
                parts.filter(|part| !part.is_empty()).map(Value::string).collect()
            } else {
                text.splitn(limit, &**separator).map(Value::string).collect()
            };
            Ok(Value::list(parts))
        }
        _ => unfit(),
    };
    library.member("split", [String, String], Type::list(String), split);
    library.member("split", [String, String, Int], Type::list(String), split);
    let substring: fn(&[Value]) -> Evaluated = |args| match args {
        [Value::String(text), Value::Int(start), rest @ ..] => {
            let text = characters(text);
            if let [Value::Int(end)] = rest
                && start > end
            {
                return fail(format!("invalid substring range. start: {start}, end: {end}"));
            }
            let start = place(*start, text.len())?;
            let end = match rest {
                [Value::Int(end)] => place(*end, text.len())?,
                _ => text.len(),
            };
            Ok(Value::string(text[start..end].iter().collect::<std::string::String>()))
        }
        _ => unfit(),
    };
    library.member("substring", [String, Int], String, substring);
    library.member("substring", [String, Int, Int], String, substring);
    let join: fn(&[Value]) -> Evaluated = |args| match args {
        [Value::List(items), rest @ ..] => {
            let separator = match rest {
                [Value::String(separator)] => &**separator,
                _ => "",
            };
            let texts: Option<Vec<&str>> = items
                .iter()
                .map(|item| match item {
                    Value::String(text) => Some(&**text),
                    _ => None,
                })
                .collect();
            texts.map_or_else(unfit, |texts| Ok(Value::string(texts.join(separator))))
        }
        _ => unfit(),
    };
    library.member("join", [Type::list(String)], String, join);
    library.member("join", [Type::list(String), String], String, join);
}

/// Compiles a pattern that was not known at compile time.
fn searched(re: &str) -> Result<Rc<Regex>, EvalError> {
    pattern(re).map_err(|error| format!("Illegal regex: {error}").into())
}

fn patterns(library: &mut Library) {
    use Type::{Int, String};
    library.member("find", [String, String], String, |args| match args {
        [Value::String(text), Value::String(re)] => {
            let found = searched(re)?.find(text).map_or("", |m| m.as_str()).to_owned();
            Ok(Value::string(found))
        }
        _ => unfit(),
    });
    let find_all: fn(&[Value]) -> Evaluated = |args| match args {
        [Value::String(text), Value::String(re), rest @ ..] => {
            let limit = match rest {
                [Value::Int(limit)] => usize::try_from(*limit).unwrap_or(usize::MAX),
                _ => usize::MAX,
            };
            let re = searched(re)?;
            Ok(Value::list(re.find_iter(text).take(limit).map(|m| Value::string(m.as_str())).collect()))
        }
        _ => unfit(),
    };
    library.member("findAll", [String, String], Type::list(String), find_all);
    library.member("findAll", [String, String, Int], Type::list(String), find_all);
}
