//! Diagnostics of failed templates: where they failed, and what may help.

use steersman_gotemplate::{ExecError, Frame, Map, Str, Value};

use super::{MARK_END, MARK_START};
use crate::error::{Diagnostic, Error, Location, TemplateError};
use crate::prepare::{ParseFailure, Prepared};

/// Similarity threshold for suggestions: one edit per this many characters.
const LIKENESS: usize = 3;

/// Builds the error of a template that does not parse.
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

/// Builds the diagnostic of a failed execution.
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

/// Returns the last message of Go's error chain, without Helm's markers.
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

/// Returns the bytes to underline: the key at fault in the failed expression, or the whole expression.
fn span_in(source: &str, frame: &Frame, focus: Option<&str>) -> std::ops::Range<usize> {
    let near = frame.column.min(source.len());
    let context = frame.context.trim_end_matches("...");
    // Depending on the failure, Go's column is inside the expression or at its end.
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

/// Finds a whole word in a string.
fn word_in(text: &str, word: &str) -> Option<std::ops::Range<usize>> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).map(|(at, _)| at..at + word.len()).find(|span| {
        let before = text.get(..span.start).and_then(|before| before.chars().next_back());
        let after = text.get(span.end..).and_then(|after| after.chars().next());
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// A key missing from the values.
struct Missing {
    key: String,
    label: String,
    help: Option<String>,
}

/// Finds the first missing key of a `.Values` path, if the error is a nil pointer.
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
                let label = "not set in values.yaml or by -f/--set".to_owned();
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

/// Returns the dotted path after `.Values.` or `$.Values.` in an expression.
fn values_path(expression: &str) -> Option<&str> {
    let (_, path) = expression.split_once(".Values.")?;
    let end = path.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.')).unwrap_or(path.len());
    path.get(..end).map(|path| path.trim_end_matches('.')).filter(|path| !path.is_empty())
}

/// Suggests an existing path that resembles the missing one.
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

/// Collects all paths in the values, tables included, up to limits beyond hand-written values.
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
    Some(format!("did you mean the function `{best}`?"))
}

/// Returns the edit distance: insertions, deletions, replacements and swaps of neighbours.
///
/// Long strings count as entirely different.
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
    use serde_json::json;

    use super::*;
    use crate::values::Data;

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

    fn map(json: serde_json::Value) -> Map {
        match Data::from(json).to_value() {
            Value::Map(map) => map,
            other => panic!("not a map: {other:?}"),
        }
    }

    #[test]
    fn a_swap_an_insertion_and_a_replacement_count_one_each() {
        assert_eq!(distance("ab", "ba"), 1);
        assert_eq!(distance("abc", "acb"), 1);
        assert_eq!(distance("ab", "a"), 1);
        assert_eq!(distance("a", "ab"), 1);
        assert_eq!(distance("ab", "ac"), 1);
        assert_eq!(distance("abcd", "badc"), 2);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("\u{e9}a", "ea"), 1);
        let long = "a".repeat(120);
        assert_eq!(distance(&long, &long), 0);
        assert_eq!(distance(&"a".repeat(121), &long), 121);
        assert_eq!(distance(&long, &"a".repeat(121)), 121);
    }

    #[test]
    fn paths_that_look_alike_are_found() {
        let values = map(
            json!({"image": {"tag": "x", "repository": "y"}, "replicas": 1, "ingress": {"tls": {"on": true}}}),
        );
        let nearest = |known: &[&str], rest: &[&str]| {
            let help = nearest_path(&values, known, rest)?;
            help.split('`').nth(1).map(str::to_owned)
        };
        assert_eq!(nearest(&[], &["replica"]).as_deref(), Some("replicas"));
        assert_eq!(nearest(&["image"], &["tga"]).as_deref(), Some("image.tag"));
        assert_eq!(nearest(&[], &["images", "tag"]).as_deref(), Some("image.tag"));
        assert_eq!(nearest(&["ingress"], &["ssl", "on"]).as_deref(), Some("ingress.tls.on"));
        // At most one edit per three characters.
        assert_eq!(nearest(&[], &["replicXY"]).as_deref(), Some("replicas"));
        assert_eq!(nearest(&[], &["repliWXY"]), None);
        // With the same last key at the same depth, up to half may differ.
        assert_eq!(nearest(&[], &["pic", "repository"]).as_deref(), Some("image.repository"));
        assert_eq!(nearest(&[], &["x", "y", "repository"]), None);
        assert_eq!(nearest(&[], &["xyz", "tag"]), None);
        assert_eq!(nearest(&[], &["nothing"]), None);
        assert_eq!(nearest(&["a"], &[]), None);
    }

    #[test]
    fn paths_are_collected_to_a_depth() {
        let mut paths = Vec::new();
        collect_paths(&map(json!({"a": {"b": {"c": 1}}, "d": 2})), String::new(), 0, &mut paths);
        assert_eq!(paths, ["a.b.c", "a.b", "a", "d"]);
        let deep = (0..20).fold(json!(1), |inner, _| json!({ "a": inner }));
        let mut paths = Vec::new();
        collect_paths(&map(deep), String::new(), 0, &mut paths);
        assert_eq!(paths.len(), 9);
    }

    #[test]
    fn words_and_spans_are_found_in_a_line() {
        assert_eq!(word_in("a.image.images", "images"), Some(8..14));
        assert_eq!(word_in("image", "image"), Some(0..5));
        assert_eq!(word_in("my_image imagex", "image"), None);
        assert_eq!(word_in("x", "image"), None);
        assert_eq!(trimmed_span("  a b  "), 2..5);
        assert_eq!(trimmed_span("   "), 3..3);
        assert_eq!(trimmed_span("a"), 0..1);
        let frame = |column: usize, context: &str| Frame {
            file: "f".into(),
            template: "t".into(),
            line: 1,
            column,
            context: context.into(),
        };
        let line = "a: {{ .Values.a.b }} {{ .Values.a.b }}";
        assert_eq!(span_in(line, &frame(7, ".Values.a.b"), None), 6..17);
        assert_eq!(span_in(line, &frame(30, ".Values.a.b"), None), 24..35);
        assert_eq!(span_in(line, &frame(7, ".Values.a.b"), Some("a")), 14..15);
        assert_eq!(span_in(line, &frame(7, ".Values.a.b"), Some("z")), 6..17);
        assert_eq!(span_in(line, &frame(7, ".Values..."), None), 6..13);
        assert_eq!(span_in(line, &frame(6, "nope"), None), 6..17);
        assert_eq!(span_in(line, &frame(500, "nope"), None), line.len()..line.len());
    }

    #[test]
    fn the_first_key_that_is_not_there_is_missing() {
        let context = Map::new();
        context.insert("Values", Value::Map(map(json!({"a": {"b": null, "c": 1}}))));
        let missing = |path: &str, message: &str| {
            let frame =
                Frame { file: "f".into(), template: "t".into(), line: 1, column: 0, context: path.into() };
            missing_key(&frame, message, &context).map(|missing| missing.key)
        };
        let nil = "nil pointer evaluating interface {}.x";
        assert_eq!(missing(".Values.z.x", nil).as_deref(), Some("z"));
        assert_eq!(missing(".Values.a.z.x", nil).as_deref(), Some("z"));
        assert_eq!(missing(".Values.a.b.x", nil).as_deref(), Some("b"));
        assert_eq!(missing(".Values.a.c.x", nil), None);
        assert_eq!(missing(".Values.a", nil), None);
        assert_eq!(missing(".Release.z", nil), None);
        assert_eq!(missing(".Values.z.x", "another error"), None);
        assert_eq!(values_path(".Values."), None);
        assert_eq!(values_path("(.Values.a_b.)"), Some("a_b"));
    }

    #[test]
    fn functions_that_look_alike_are_found() {
        let nearest = |name: &str| nearest_function(name)?.split('`').nth(1).map(str::to_owned);
        assert_eq!(nearest("qoute").as_deref(), Some("quote"));
        assert_eq!(nearest("prinf").as_deref(), Some("print"));
        assert_eq!(nearest("toYam").as_deref(), Some("toYaml"));
        assert_eq!(nearest("nothinglikeit"), None);
        assert_eq!(nearest("eqq").as_deref(), Some("eq"));
        assert_eq!(quoted_after("function \"a\" not defined", "function ").as_deref(), Some("a"));
        assert_eq!(quoted_after("function a", "function "), None);
        assert_eq!(innermost("a <b>: error calling x: y: z"), "y: z");
        assert_eq!(innermost("no place"), "no place");
        assert_eq!(innermost(&format!("a{MARK_START}told{MARK_END}b")), "told");
    }
}
