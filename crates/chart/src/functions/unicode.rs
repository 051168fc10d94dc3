//! Character classes that `gostd` does not have.

use std::sync::LazyLock;

use regex_syntax::hir::{Class, HirKind};
pub(super) use steersman_gostd::unicode::{
    chars, decode, decode_last, is_digit, is_letter, map, push, to_lower, to_title, to_upper,
};

/// A general category as sorted ranges, taken from the tables of the regular expression parser.
struct Category(Vec<(char, char)>);

impl Category {
    fn new(pattern: &str) -> Self {
        let hir = regex_syntax::parse(pattern).ok().map(regex_syntax::hir::Hir::into_kind);
        match hir {
            Some(HirKind::Class(Class::Unicode(class))) => {
                Self(class.ranges().iter().map(|range| (range.start(), range.end())).collect())
            }
            _ => Self(Vec::new()),
        }
    }

    fn contains(&self, c: char) -> bool {
        self.0
            .binary_search_by(|(start, end)| {
                if *end < c {
                    std::cmp::Ordering::Less
                } else if *start > c {
                    std::cmp::Ordering::Greater
                } else {
                    std::cmp::Ordering::Equal
                }
            })
            .is_ok()
    }
}

macro_rules! category {
    ($($(#[$doc:meta])* $name:ident: $pattern:literal, $ascii:expr;)*) => {
        $($(#[$doc])*
        pub(super) fn $name(c: char) -> bool {
            static CATEGORY: LazyLock<Category> = LazyLock::new(|| Category::new($pattern));
            if c.is_ascii() { $ascii(c) } else { CATEGORY.contains(c) }
        })*
    };
}

category! {
    /// Category Lu; Rust's `is_uppercase` also includes circled letters and numerals.
    is_upper: r"\p{Lu}", |c: char| c.is_ascii_uppercase();
    /// Category Ll.
    is_lower: r"\p{Ll}", |c: char| c.is_ascii_lowercase();
    /// Category Lt.
    is_title: r"\p{Lt}", |_| false;
    /// Category N.
    is_number: r"\p{N}", |c: char| c.is_ascii_digit();
    /// Category P.
    is_punct: r"\p{P}", |c: char| c.is_ascii_punctuation() && !matches!(c, '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_go() {
        assert!(is_upper('Å') && !is_upper('Ⓐ') && is_title('ǅ'));
        assert!(is_punct('-') && !is_punct('+') && is_punct('—'));
    }
}
