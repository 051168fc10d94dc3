//! Merges files that both sides changed, as git does.

use diffy::{ConflictStyle, DiffOptions, IncompleteHunkStyle, Line, MergeOptions};

/// Prefixes of conflict markers, as git writes them.
const OURS: &str = "<<<<<<< ";
const MIDDLE: &str = "=======";
const THEIRS: &str = ">>>>>>> ";

/// The result of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Merged {
    pub(super) text: String,
    /// Whether both sides changed the same lines, which are between conflict markers in the text.
    pub(super) has_conflict: bool,
}

/// Merges the user's and the scaffold's changes since their common ancestor.
pub(super) fn three_way(base: &str, mine: &str, scaffold: &str, label: &str) -> Merged {
    let merged = MergeOptions::new()
        .set_conflict_style(ConflictStyle::Merge)
        .set_incomplete_hunk_style(IncompleteHunkStyle::Git)
        .merge(base, mine, scaffold);
    match merged {
        Ok(text) => Merged { text, has_conflict: false },
        Err(text) => Merged { text: relabel(&text, label), has_conflict: true },
    }
}

/// Merges two files without a common ancestor, as git merges a file that both sides added.
///
/// Common lines occur once, and all others are between conflict markers.
pub(super) fn two_way(mine: &str, scaffold: &str, label: &str) -> Merged {
    if mine == scaffold {
        return Merged { text: mine.to_owned(), has_conflict: false };
    }
    let mut options = DiffOptions::new();
    options.set_context_len(mine.lines().count() + scaffold.lines().count());
    let patch = options.create_patch(mine, scaffold);
    let mut text = String::with_capacity(mine.len() + scaffold.len());
    let (mut left, mut right) = (String::new(), String::new());
    let end_of_region = |text: &mut String, left: &mut String, right: &mut String| {
        if !left.is_empty() || !right.is_empty() {
            text.push_str(&format!("{OURS}yours\n{left}{MIDDLE}\n{right}{THEIRS}{label}\n"));
            left.clear();
            right.clear();
        }
    };
    for line in patch.hunks().iter().flat_map(diffy::Hunk::lines) {
        match line {
            Line::Context(line) => {
                end_of_region(&mut text, &mut left, &mut right);
                text.push_str(&whole(line));
            }
            Line::Delete(line) => left.push_str(&whole(line)),
            Line::Insert(line) => right.push_str(&whole(line)),
        }
    }
    end_of_region(&mut text, &mut left, &mut right);
    Merged { text, has_conflict: true }
}

/// Terminates a line, since conflict markers must start on a new one.
fn whole(line: &str) -> String {
    if line.ends_with('\n') { line.to_owned() } else { format!("{line}\n") }
}

/// Labels the sides in the conflict markers.
fn relabel(text: &str, label: &str) -> String {
    let relabelled = |line: &str| match line.trim_end() {
        "<<<<<<< ours" => format!("{OURS}yours\n"),
        ">>>>>>> theirs" => format!("{THEIRS}{label}\n"),
        _ => line.to_owned(),
    };
    text.split_inclusive('\n').map(relabelled).collect()
}

/// Whether a file contains conflict markers.
pub(super) fn is_unresolved(text: &str) -> bool {
    let mut lines = text.lines();
    lines.any(|line| line.starts_with(OURS))
        && lines.any(|line| line == MIDDLE)
        && lines.any(|line| line.starts_with(THEIRS))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n";

    #[test]
    fn changes_in_different_places_are_both_taken() {
        let mine = BASE.replace("two\n", "two, mine\n");
        let scaffold = BASE.replace("six\n", "six, newer\nand more\n");
        let merged = three_way(BASE, &mine, &scaffold, "scaffold");
        assert_eq!(merged.text, "one\ntwo, mine\nthree\nfour\nfive\nsix, newer\nand more\nseven\n");
        assert!(!merged.has_conflict);
        // The same change on both sides is one change.
        assert_eq!(three_way(BASE, &mine, &mine, "scaffold").text, mine);
    }

    #[test]
    fn changes_in_one_place_are_marked_as_git_marks_them() {
        let (mine, scaffold) = (BASE.replace("two\n", "mine\n"), BASE.replace("two\n", "newer\n"));
        let merged = three_way(BASE, &mine, &scaffold, "scaffold 2");
        assert!(merged.has_conflict);
        let marked = "<<<<<<< yours\nmine\n=======\nnewer\n>>>>>>> scaffold 2\n";
        assert_eq!(merged.text, BASE.replace("two\n", marked));
        assert!(is_unresolved(&merged.text));
        assert!(!is_unresolved(&mine));
        assert!(!is_unresolved("a heading\n=======\n<<<<<<< not one\n"));
    }

    #[test]
    fn without_an_ancestor_all_differences_are_marked() {
        let merged = two_way("a\nmine\nb\nc", "a\nb\nc\nd\n", "scaffold");
        assert!(merged.has_conflict);
        assert_eq!(
            merged.text,
            "a\n<<<<<<< yours\nmine\n=======\n>>>>>>> scaffold\nb\n<<<<<<< yours\nc\n=======\nc\nd\n>>>>>>> scaffold\n"
        );
        assert_eq!(two_way("a\n", "a\n", "scaffold"), Merged { text: "a\n".into(), has_conflict: false });
    }
}
