//! Unified diffs with the algorithm of Python's difflib, as in kube-apiserver's go-difflib.
//!
//! Existing crates compute shortest edits, which differ: difflib takes the longest common run first, and ignores lines
//! that are too frequent.

use std::{collections::HashMap, fmt::Write as _, ops::Range};

/// Number of context lines around a change.
const CONTEXT: usize = 3;

/// A range of old lines and the range of new lines that replaces it, or is equal.
#[derive(Clone)]
struct Edit {
    same: bool,
    old: Range<usize>,
    new: Range<usize>,
}

/// Returns the unified diff of two strings without file names. Empty if they are equal.
pub(crate) fn unified(old: &str, new: &str) -> String {
    let split = |text: &str| -> Vec<String> { text.split('\n').map(|line| format!("{line}\n")).collect() };
    let (old, new) = (split(old), split(new));
    let mut out = String::new();
    for group in groups(edits(&old, &new)) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let range = |range: Range<usize>| match range.len() {
            1 => (range.start + 1).to_string(),
            0 => format!("{},0", range.start),
            length => format!("{},{length}", range.start + 1),
        };
        let _ = writeln!(
            out,
            "@@ -{} +{} @@",
            range(first.old.start..last.old.end),
            range(first.new.start..last.new.end)
        );
        for edit in &group {
            if edit.same {
                old.get(edit.old.clone()).into_iter().flatten().for_each(|line| {
                    out.push(' ');
                    out.push_str(line);
                });
                continue;
            }
            for (sign, line) in old
                .get(edit.old.clone())
                .into_iter()
                .flatten()
                .map(|line| ('-', line))
                .chain(new.get(edit.new.clone()).into_iter().flatten().map(|line| ('+', line)))
            {
                out.push(sign);
                out.push_str(line);
            }
        }
    }
    out
}

/// Splits edits into hunks, trimming unchanged ranges to the context.
fn groups(mut edits: Vec<Edit>) -> Vec<Vec<Edit>> {
    if let Some(first) = edits.first_mut().filter(|edit| edit.same) {
        first.old.start = first.old.start.max(first.old.end.saturating_sub(CONTEXT));
        first.new.start = first.new.start.max(first.new.end.saturating_sub(CONTEXT));
    }
    if let Some(last) = edits.last_mut().filter(|edit| edit.same) {
        last.old.end = last.old.end.min(last.old.start + CONTEXT);
        last.new.end = last.new.end.min(last.new.start + CONTEXT);
    }
    let mut groups = Vec::new();
    let mut group: Vec<Edit> = Vec::new();
    for edit in edits {
        if edit.same && edit.old.len() > 2 * CONTEXT {
            group.push(Edit {
                same: true,
                old: edit.old.start..edit.old.start + CONTEXT,
                new: edit.new.start..edit.new.start + CONTEXT,
            });
            groups.push(std::mem::take(&mut group));
            group.push(Edit {
                same: true,
                old: edit.old.end - CONTEXT..edit.old.end,
                new: edit.new.end - CONTEXT..edit.new.end,
            });
            continue;
        }
        group.push(edit);
    }
    if !group.is_empty() {
        groups.push(group);
    }
    groups.retain(|group| group.iter().any(|edit| !edit.same));
    groups
}

fn edits(old: &[String], new: &[String]) -> Vec<Edit> {
    let mut edits = Vec::new();
    let (mut i, mut j) = (0, 0);
    for (old_start, new_start, length) in blocks(old, new) {
        if i < old_start || j < new_start {
            edits.push(Edit { same: false, old: i..old_start, new: j..new_start });
        }
        if length > 0 {
            edits.push(Edit {
                same: true,
                old: old_start..old_start + length,
                new: new_start..new_start + length,
            });
        }
        (i, j) = (old_start + length, new_start + length);
    }
    edits
}

/// Returns the matching blocks in order, with an empty one at the end.
fn blocks(old: &[String], new: &[String]) -> Vec<(usize, usize, usize)> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, line) in new.iter().enumerate() {
        places.entry(line).or_default().push(index);
    }
    // In long texts, frequent lines are no indication of a match.
    if new.len() >= 200 {
        let most = new.len() / 100 + 1;
        places.retain(|_, list| list.len() <= most);
    }
    let mut found = Vec::new();
    let mut open = vec![(0..old.len(), 0..new.len())];
    while let Some((a, b)) = open.pop() {
        let (i, j, length) = longest(old, new, &a, &b, &places);
        if length == 0 {
            continue;
        }
        found.push((i, j, length));
        if a.start < i && b.start < j {
            open.push((a.start..i, b.start..j));
        }
        if i + length < a.end && j + length < b.end {
            open.push((i + length..a.end, j + length..b.end));
        }
    }
    found.sort_unstable();
    let mut merged: Vec<(usize, usize, usize)> = Vec::new();
    for (i, j, length) in found {
        match merged.last_mut() {
            Some(last) if last.0 + last.2 == i && last.1 + last.2 == j => last.2 += length,
            _ => merged.push((i, j, length)),
        }
    }
    merged.push((old.len(), new.len(), 0));
    merged
}

/// Returns the longest run of equal lines; the first one if there are several.
fn longest(
    old: &[String],
    new: &[String],
    a: &Range<usize>,
    b: &Range<usize>,
    places: &HashMap<&str, Vec<usize>>,
) -> (usize, usize, usize) {
    let (mut best_i, mut best_j, mut best) = (a.start, b.start, 0);
    let mut lengths: HashMap<usize, usize> = HashMap::new();
    for i in a.clone() {
        let mut next = HashMap::new();
        let Some(line) = old.get(i) else { break };
        for &j in places.get(line.as_str()).into_iter().flatten() {
            if j < b.start {
                continue;
            }
            if j >= b.end {
                break;
            }
            let length = j.checked_sub(1).and_then(|j| lengths.get(&j)).copied().unwrap_or(0) + 1;
            next.insert(j, length);
            if length > best {
                (best_i, best_j, best) = (i + 1 - length, j + 1 - length, length);
            }
        }
        lengths = next;
    }
    // Frequent lines count if adjacent to a match.
    let same = |i: usize, j: usize| old.get(i).is_some() && old.get(i) == new.get(j);
    while best_i > a.start && best_j > b.start && same(best_i - 1, best_j - 1) {
        (best_i, best_j, best) = (best_i - 1, best_j - 1, best + 1);
    }
    while best_i + best < a.end && best_j + best < b.end && same(best_i + best, best_j + best) {
        best += 1;
    }
    (best_i, best_j, best)
}

#[cfg(test)]
mod tests {
    use super::unified;

    #[test]
    fn changes_come_with_three_lines_around() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\ni";
        let new = "a\nb\nc\nd\nX\nf\ng\nh\ni";
        assert_eq!(unified(old, new), "@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+X\n f\n g\n h\n");
        assert_eq!(unified(old, old), "");
    }

    /// The expected output is that of Python's difflib.
    #[test]
    fn changes_are_found_as_difflib_finds_them() {
        assert_eq!(unified("a", "b"), "@@ -1 +1 @@\n-a\n+b\n");
        let between = unified("p\nL\nM\nN", "p\nL\nq\nL\nM\nN");
        assert_eq!(between, "@@ -1,4 +1,6 @@\n p\n+L\n+q\n L\n M\n N\n");
        let apart = unified("a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl", "a\nX\nc\nd\ne\nf\ng\nh\ni\nj\nY\nl\nm");
        let second = "@@ -8,5 +8,6 @@\n h\n i\n j\n-k\n+Y\n l\n+m\n";
        assert_eq!(apart, format!("@@ -1,5 +1,5 @@\n a\n-b\n+X\n c\n d\n e\n{second}"));
        let repeated = unified("a\nb\na\nb\nc", "b\na\nc\na\nb\nc");
        assert_eq!(repeated, "@@ -1,5 +1,6 @@\n+b\n a\n-b\n+c\n a\n b\n c\n");
    }
}
