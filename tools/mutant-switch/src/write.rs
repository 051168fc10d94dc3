//! Writes mutants into the text of a source file.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use serde::Serialize;

use crate::{
    Mutant, Span,
    find::{Form, Place, is_on},
};

/// The location of a mutant in the written text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Bytes {
    /// The code added for it.
    pub(crate) added: Range<usize>,
    /// The added code with all of the code that it replaces.
    pub(crate) region: Range<usize>,
}

/// Replacements of the same code, each with the number of its mutant.
type Alternatives<'a> = Vec<(usize, &'a str)>;

/// A piece of code with replacements, whose end is not reached yet.
struct Open<'a> {
    end: usize,
    /// The start in the new text.
    began: usize,
    alternatives: &'a Alternatives<'a>,
}

/// The byte range of a span; `None` if it is not in the text.
pub(crate) fn offsets(source: &str, span: &Span) -> Option<Range<usize>> {
    let offset = |line: usize, column: usize| {
        let start = match line.checked_sub(2) {
            Some(breaks) => source.match_indices('\n').nth(breaks)?.0 + 1,
            None => 0,
        };
        let rest = &source[start..];
        Some(start + rest.char_indices().map(|(at, _)| at).chain([rest.len()]).nth(column.checked_sub(1)?)?)
    };
    let range = offset(span.start.line, span.start.column)?..offset(span.end.line, span.end.column)?;
    (range.start <= range.end).then_some(range)
}

/// Returns the text with one mutant applied.
pub(crate) fn plain(source: &str, mutant: &Mutant) -> Option<String> {
    let mut text = source.to_owned();
    text.replace_range(offsets(source, &mutant.span)?, &format!("{} ", mutant.replacement));
    Some(text)
}

/// Returns the text with all mutants, each behind its switch, and their locations.
///
/// One mutant is active at a time, so a replacement contains no switches: only the original code has them.
pub(crate) fn switched(source: &str, places: &[Place]) -> (String, BTreeMap<usize, Bytes>) {
    // In the order in which they start: enclosing regions before those that they contain.
    let mut regions: BTreeMap<(usize, Reverse<usize>), Alternatives<'_>> = BTreeMap::new();
    let mut insertions: BTreeMap<usize, Alternatives<'_>> = BTreeMap::new();
    let mut stops = BTreeSet::from([source.len()]);
    for place in places {
        match &place.form {
            Form::Instead(range, text) => {
                regions.entry((range.start, Reverse(range.end))).or_default().push((place.number, text));
                stops.extend([range.start, range.end]);
            }
            Form::At(at, text) => {
                insertions.entry(*at).or_default().push((place.number, text));
                stops.insert(*at);
            }
        }
    }

    let mut text = String::with_capacity(source.len() * 2);
    let mut bytes: BTreeMap<usize, Bytes> = BTreeMap::new();
    let mut open: Vec<Open<'_>> = Vec::new();
    let mut done = 0;
    for stop in stops {
        text.push_str(&source[done..stop]);
        done = stop;
        while let Some(Open { began, alternatives, .. }) = open.pop_if(|open| open.end == stop) {
            text.push_str(") })");
            for (number, _) in alternatives {
                bytes.entry(*number).or_default().region = began..text.len();
            }
        }
        for (number, added) in insertions.get(&stop).into_iter().flatten() {
            let began = text.len();
            text.push_str(added);
            bytes.insert(*number, Bytes { added: began..text.len(), region: began..text.len() });
        }
        for ((_, Reverse(end)), alternatives) in
            regions.range((stop, Reverse(usize::MAX))..(stop + 1, Reverse(usize::MAX)))
        {
            open.push(Open { end: *end, began: text.len(), alternatives });
            // Parentheses, as this may be the start of a condition and as a block would end a statement.
            text.push('(');
            for (number, instead) in alternatives {
                text.push_str(&format!("if {} {{ (", is_on(*number)));
                let began = text.len();
                text.push_str(instead);
                bytes.entry(*number).or_default().added = began..text.len();
                text.push_str(") } else ");
            }
            text.push_str("{ (");
        }
    }
    (text, bytes)
}
