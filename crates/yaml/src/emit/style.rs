//! Scalar styles that a string allows.

use super::Dialect;
use crate::resolve::{self, Resolved};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Analysis {
    pub(super) style: Style,
    /// Whether there are line breaks, including the Unicode separators.
    pub(super) multiline: bool,
}

/// Bytes that are safe anywhere in a plain scalar except at its start.
const HARMLESS: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = b'!' as usize;
    while byte <= b'~' as usize {
        table[byte] = byte != b':' as usize && byte != b'#' as usize;
        byte += 1;
    }
    table
};

/// Properties of a string that rule out styles.
#[derive(Default)]
struct Findings {
    indicators: bool,
    breaks: bool,
    newline: bool,
    special: bool,
    tabs: bool,
    outer_blank: bool,
    trailing_space: bool,
    break_space: bool,
    space_break: bool,
}

/// Whether a character is a line break: CR, LF, NEL or one of the two Unicode separators.
pub(super) fn is_break(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Whether a character can be written verbatim.
pub(super) fn is_printable(character: char) -> bool {
    match character {
        '\n' | ' '..='~' => true,
        '\u{FEFF}' => false,
        '\u{A0}'..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' => true,
        _ => false,
    }
}

pub(super) fn analyze(text: &str, dialect: Dialect) -> Analysis {
    let findings = inspect(text);
    let unquotable = findings.space_break || findings.special;
    let quote_allowed = !(unquotable || findings.break_space || findings.tabs);
    let block_allowed =
        !(unquotable || findings.trailing_space || (findings.tabs && dialect == Dialect::Sigs));
    let style = if findings.newline {
        if block_allowed { Style::Literal } else { Style::DoubleQuoted }
    } else if !reads_as_string(text, dialect) || !quote_allowed {
        Style::DoubleQuoted
    } else if findings.indicators || findings.breaks || findings.outer_blank {
        Style::SingleQuoted
    } else {
        Style::Plain
    };
    Analysis { style, multiline: findings.breaks }
}

/// Whether the plain form would be read back as a string, also by parsers with base-60 numbers.
fn reads_as_string(text: &str, dialect: Dialect) -> bool {
    // goyaml v3 recognizes fewer words but quotes the same ones; in addition it reads a sign in `0o-1`.
    let signed_octal = dialect == Dialect::Pretty && resolve::is_signed_octal(text);
    resolve::resolve(text, true) == Resolved::String && !resolve::is_base_60(text) && !signed_octal
}

fn inspect(text: &str) -> Findings {
    let mut found = Findings::default();
    let bytes = text.as_bytes();
    let Some(&first) = bytes.first() else {
        return found;
    };
    let followed_by_blank = |at: usize| matches!(bytes.get(at), None | Some(b' ' | b'\t'));
    found.indicators = match first {
        b'#' | b',' | b'[' | b']' | b'{' | b'}' | b'&' | b'*' | b'!' | b'|' | b'>' | b'\'' | b'"' | b'%'
        | b'@' | b'`' => true,
        b'?' | b':' | b'-' => followed_by_blank(1),
        _ => false,
    } || text.starts_with("---")
        || text.starts_with("...");
    if bytes.iter().all(|&byte| HARMLESS[usize::from(byte)]) {
        return found;
    }

    let (mut after_space, mut after_break, mut after_blank) = (false, false, true);
    for (at, character) in text.char_indices() {
        let last = at + character.len_utf8() == text.len();
        match character {
            ':' => found.indicators |= followed_by_blank(at + 1),
            '#' => found.indicators |= after_blank,
            '\t' => found.tabs = true,
            _ => found.special |= !is_printable(character),
        }
        let line_break = is_break(character);
        if character == ' ' {
            found.outer_blank |= at == 0 || last;
            found.trailing_space |= last;
            found.break_space |= after_break;
        } else if line_break {
            found.breaks = true;
            found.newline |= character == '\n';
            found.outer_blank |= at == 0 || last;
            found.space_break |= after_space;
        }
        after_space = character == ' ';
        after_break = line_break;
        after_blank = line_break || matches!(character, ' ' | '\t' | '\0');
    }
    found
}
