//! Where a template failed, and what would help: the data behind an error that people can act on.

use steersman_gotemplate::{ExecError, Frame, Map, Str, Value};

use super::{MARK_END, MARK_START};
use crate::error::{Diagnostic, Error, Location, TemplateError};
use crate::prepare::{ParseFailure, Prepared};

/// How different two names may be and still be taken for each other: one edit for every three characters.
const LIKENESS: usize = 3;

/// The error of a template that does not parse.
pub(super) fn parse_error(prepared: &Prepared, failure: &ParseFailure) -> Error {
    let text = failure.error.message.as_str();
    let tokens: Vec<&str> = text.split(": ").collect();
    let message = match tokens.as_slice() {
        [_, location, .., last] => format!("parse error at ({location}): {last}"),
        [_, last] => format!("parse error at ({last}): {last}"),
        _ => format!("parse error in ({}): {text}", failure.path),
    };
    let reason = tokens.last().copied().unwrap_or(text).to_owned();
    let line = failure.error.line;
    let source = source_line(prepared, &failure.path, line);
    let unknown = quoted_after(&reason, "function ").filter(|_| reason.ends_with("not defined"));
    let span = unknown
        .as_deref()
        .and_then(|name| word_in(source.as_deref()?, name))
        .unwrap_or_else(|| source.as_deref().map_or(0..0, trimmed_span));
    let help = unknown.as_deref().and_then(nearest_function);
    let diagnostic = Diagnostic {
        message: reason,
        location: Location { file: failure.path.clone(), line, column: None },
        source,
        span,
        label: String::new(),
        chain: Vec::new(),
        help,
    };
    let exceeded = failure.error.exceeded.clone();
    Error::Template(Box::new(TemplateError { message, diagnostic: Some(diagnostic), exceeded }))
}

/// Where an execution failed.
pub(super) fn exec_error(prepared: &Prepared, error: &ExecError, context: &Map) -> Option<Diagnostic> {
    let (frame, outer) = error.frames.split_first()?;
    let message = innermost(&error.message);
    let source = source_line(prepared, &frame.file, frame.line);
    let missing = missing_key(frame, &message, context);
    let span = source.as_deref().map_or(0..0, |source| {
        let focus = missing.as_ref().map(|missing| missing.key.as_str());
        span_in(source, frame, focus)
    });
    let (label, help) = missing.map_or((String::new(), None), |missing| (missing.label, missing.help));
    let location =
        |frame: &Frame| Location { file: frame.file.clone(), line: frame.line, column: Some(frame.column) };
    Some(Diagnostic {
        message,
        location: location(frame),
        source,
        span,
        label,
        chain: outer.iter().map(location).collect(),
        help,
    })
}

/// The last message of the chain that Go builds, without Helm's marks.
fn innermost(text: &str) -> String {
    if let Some((_, after)) = text.split_once(MARK_START)
        && let Some((message, _)) = after.rsplit_once(MARK_END)
    {
        return message.to_owned();
    }
    // `... at <.Values.a.b>: nil pointer evaluating interface {}.b`
    let after_place = text.rsplit_once(">: ").map_or(text, |(_, message)| message);
    after_place
        .strip_prefix("error calling ")
        .map_or(after_place, |call| call.split_once(": ").map_or(after_place, |(_, message)| message))
        .to_owned()
}

fn source_line(prepared: &Prepared, file: &str, line: usize) -> Option<String> {
    let text: &Str = prepared.source(file)?;
    let line = text.split(|byte| *byte == b'\n').nth(line.checked_sub(1)?)?;
    Some(String::from_utf8_lossy(line).trim_end_matches('\r').to_owned())
}

fn trimmed_span(source: &str) -> std::ops::Range<usize> {
    let start = source.len() - source.trim_start().len();
    start..source.trim_end().len().max(start)
}

/// The bytes to underline: the key at fault in the expression that failed, else that expression.
fn span_in(source: &str, frame: &Frame, focus: Option<&str>) -> std::ops::Range<usize> {
    let near = frame.column.min(source.len());
    let context = frame.context.trim_end_matches("...");
    // Go's column points into the expression or at its end, depending on what failed.
    let starts = source.match_indices(context).map(|(at, _)| at);
    let start = starts.min_by_key(|at| at.abs_diff(near));
    let Some(start) = start else {
        let end = source
            .get(near..)
            .map_or(near, |rest| near + rest.split([' ', '}', ')']).next().unwrap_or("").len());
        return near..end;
    };
    let whole = start..start + context.len();
    let Some(key) = focus else { return whole };
    source
        .get(whole.clone())
        .and_then(|expression| word_in(expression, key))
        .map_or(whole, |word| start + word.start..start + word.end)
}

/// A whole word in a text.
fn word_in(text: &str, word: &str) -> Option<std::ops::Range<usize>> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).map(|(at, _)| at..at + word.len()).find(|span| {
        let before = text.get(..span.start).and_then(|before| before.chars().next_back());
        let after = text.get(span.end..).and_then(|after| after.chars().next());
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// A key that values do not have.
struct Missing {
    key: String,
    label: String,
    help: Option<String>,
}

/// The first key of a `.Values` path that is not there, where the error is about nothing having fields.
fn missing_key(frame: &Frame, message: &str, context: &Map) -> Option<Missing> {
    if !message.contains("nil pointer evaluating") {
        return None;
    }
    let path = values_path(&frame.context)?;
    let Value::Map(values) = context.get(b"Values")? else { return None };
    let mut table = values.clone();
    let mut known: Vec<&str> = Vec::new();
    for key in path.split('.') {
        match table.get(key.as_bytes()) {
            Some(Value::Map(inner)) => {
                table = inner;
                known.push(key);
            }
            Some(Value::Nil) | None => {
                let rest: Vec<&str> = path.split('.').skip(known.len()).collect();
                let label = "not set in values.yaml nor by -f or --set".to_owned();
                return Some(Missing {
                    key: key.to_owned(),
                    label,
                    help: nearest_path(&values, &known, &rest),
                });
            }
            Some(_) => return None,
        }
    }
    None
}

/// The dotted path behind `.Values.` or `$.Values.` in an expression.
fn values_path(expression: &str) -> Option<&str> {
    let (_, path) = expression.split_once(".Values.")?;
    let end = path.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.')).unwrap_or(path.len());
    path.get(..end).map(|path| path.trim_end_matches('.')).filter(|path| !path.is_empty())
}

/// A path that is there and looks like the one that is not.
fn nearest_path(values: &Map, known: &[&str], rest: &[&str]) -> Option<String> {
    let wanted: Vec<&str> = known.iter().chain(rest).copied().collect();
    let wanted = wanted.join(".");
    let mut paths = Vec::new();
    collect_paths(values, String::new(), 0, &mut paths);
    let last = rest.last().copied()?;
    let similar = |path: &&String| {
        let same_end =
            path.rsplit('.').next() == Some(last) && path.matches('.').count() == wanted.matches('.').count();
        let far = distance(path, &wanted);
        far * LIKENESS <= wanted.len() || (same_end && far * 2 <= wanted.len())
    };
    let best = paths.iter().filter(similar).min_by_key(|path| distance(path, &wanted))?;
    Some(format!("values.yaml has `{best}`; did you mean .Values.{best}?"))
}

/// Every path in values, tables included, as deep and as many as people would write.
fn collect_paths(values: &Map, prefix: String, depth: usize, paths: &mut Vec<String>) {
    const MAX_PATHS: usize = 5000;
    if depth > 8 || paths.len() > MAX_PATHS {
        return;
    }
    for (key, value) in values.borrow().iter() {
        let key = key.to_str_lossy();
        let path = if prefix.is_empty() { key.into_owned() } else { format!("{prefix}.{key}") };
        if let Value::Map(inner) = value {
            collect_paths(inner, path.clone(), depth + 1, paths);
        }
        paths.push(path);
    }
}

fn quoted_after(text: &str, word: &str) -> Option<String> {
    let (_, after) = text.split_once(word)?;
    let (name, _) = after.strip_prefix('"')?.split_once('"')?;
    Some(name.to_owned())
}

fn nearest_function(name: &str) -> Option<String> {
    let functions = super::functions();
    let builtin = [
        "and", "or", "not", "len", "index", "slice", "print", "printf", "println", "html", "js", "urlquery",
        "eq", "ne", "lt", "le", "gt", "ge", "call",
    ];
    let known = functions.names().map(|name| name.to_str_lossy().into_owned());
    let names = known.chain(builtin.into_iter().map(str::to_owned));
    let close = names.filter(|known| distance(known, name) * LIKENESS <= name.len().max(LIKENESS));
    let best = close.min_by_key(|known| (distance(known, name), known.clone()))?;
    Some(format!("there is a function `{best}`; did you mean that?"))
}

/// How many characters to put in, take out, replace or swap with the next one. Long texts are as far apart as they are
/// long.
fn distance(a: &str, b: &str) -> usize {
    const MAX: usize = 120;
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len() > MAX || b.len() > MAX {
        return a.len().max(b.len());
    }
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    let cell = |rows: &[Vec<usize>], i: usize, j: usize| rows.get(i).and_then(|row| row.get(j)).copied();
    for (i, left) in a.iter().enumerate() {
        rows.push(vec![i + 1]);
        for (j, right) in b.iter().enumerate() {
            let around = [(i, j, usize::from(left != right)), (i, j + 1, 1), (i + 1, j, 1)];
            let swapped = (i > 0 && j > 0 && a.get(i - 1) == Some(right) && b.get(j - 1) == Some(left))
                .then(|| (i - 1, j - 1, 1));
            let costs =
                around.into_iter().chain(swapped).filter_map(|(i, j, cost)| Some(cell(&rows, i, j)? + cost));
            let least = costs.min().unwrap_or_default();
            if let Some(row) = rows.last_mut() {
                row.push(least);
            }
        }
    }
    cell(&rows, a.len(), b.len()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{distance, innermost, values_path};

    #[test]
    fn distances_count_edits() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("qoute", "quote"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
    }

    #[test]
    fn the_innermost_message_is_found() {
        let nil = r#"template: a:1:2: executing "a" at <.Values.a.b>: nil pointer evaluating interface {}.b"#;
        assert_eq!(innermost(nil), "nil pointer evaluating interface {}.b");
        let call = r#"template: a:1:2: executing "a" at <include "x" .>: error calling include: template: no template "x""#;
        assert_eq!(innermost(call), r#"template: no template "x""#);
    }

    #[test]
    fn paths_of_values_are_found() {
        assert_eq!(values_path(".Values.a.b"), Some("a.b"));
        assert_eq!(values_path("$.Values.a.b | quote"), Some("a.b"));
        assert_eq!(values_path(".Release.Name"), None);
    }
}
