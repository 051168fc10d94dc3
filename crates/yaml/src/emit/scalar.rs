//! Writing a scalar in the chosen style.

use std::fmt::Write as _;

use super::{
    Dialect, Emitter, WIDTH,
    style::{Analysis, Style, is_break, is_printable},
};

impl Emitter {
    pub(super) fn write_scalar(&mut self, text: &str, analysis: &Analysis, simple_key: bool) {
        let indent = self.indent;
        self.indent = if indent < 0 { 2 } else { indent + 2 };
        let fold = !simple_key && self.dialect == Dialect::Sigs;
        match analysis.style {
            Style::Plain => self.write_plain(text, fold),
            Style::SingleQuoted => self.write_single_quoted(text, fold),
            Style::DoubleQuoted => self.write_double_quoted(text, fold),
            Style::Literal => self.write_literal(text),
        }
        self.indent = indent;
    }

    fn write_plain(&mut self, text: &str, fold: bool) {
        if !self.whitespace {
            self.put(' ');
        }
        if !fold || self.column + text.len() <= WIDTH || !text.contains(' ') {
            self.out.push_str(text);
            self.column += text.chars().count();
        } else {
            self.write_folded_words(text);
        }
        self.whitespace = false;
        self.indention = false;
    }

    /// Writes text without line breaks, folding at single spaces beyond the line width.
    fn write_folded_words(&mut self, text: &str) {
        let mut after_space = false;
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            if character != ' ' {
                self.put(character);
                self.indention = false;
                after_space = false;
                continue;
            }
            if !after_space && self.column > WIDTH && characters.peek() != Some(&' ') {
                self.write_indent();
            } else {
                self.put(' ');
            }
            after_space = true;
        }
    }

    fn write_single_quoted(&mut self, text: &str, fold: bool) {
        self.write_indicator('\'', false);
        let (mut after_space, mut after_break) = (false, false);
        for (at, character) in text.char_indices() {
            if character == ' ' {
                let inside = at > 0 && at + 1 < text.len();
                let next_is_space = text.as_bytes().get(at + 1) == Some(&b' ');
                if fold && !after_space && self.column > WIDTH && inside && !next_is_space {
                    self.write_indent();
                } else {
                    self.put(' ');
                }
                after_space = true;
            } else if is_break(character) {
                self.out.push(character);
                self.column = 0;
                self.indention = true;
                after_break = true;
            } else {
                if after_break {
                    self.write_indent();
                }
                if character == '\'' {
                    self.put('\'');
                }
                self.put(character);
                self.indention = false;
                (after_space, after_break) = (false, false);
            }
        }
        self.put('\'');
        self.whitespace = false;
        self.indention = false;
    }

    fn write_double_quoted(&mut self, text: &str, fold: bool) {
        self.write_indicator('"', false);
        // goyaml checks for a byte order mark at the start of the text, whichever character it is about to write.
        let escape_all = text.starts_with('\u{FEFF}');
        let mut after_space = false;
        for (at, character) in text.char_indices() {
            if escape_all
                || !is_printable(character)
                || is_break(character)
                || matches!(character, '"' | '\\')
            {
                self.write_escape(character);
                after_space = false;
            } else if character == ' ' {
                if fold && !after_space && self.column > WIDTH && at > 0 && at + 1 < text.len() {
                    self.write_indent();
                    if text.as_bytes().get(at + 1) == Some(&b' ') {
                        self.put('\\');
                    }
                } else {
                    self.put(' ');
                }
                after_space = true;
            } else {
                self.put(character);
                after_space = false;
            }
        }
        self.put('"');
        self.whitespace = false;
        self.indention = false;
    }

    fn write_escape(&mut self, character: char) {
        let start = self.out.len();
        self.out.push('\\');
        match character {
            '\0' => self.out.push('0'),
            '\x07' => self.out.push('a'),
            '\x08' => self.out.push('b'),
            '\t' => self.out.push('t'),
            '\n' => self.out.push('n'),
            '\x0B' => self.out.push('v'),
            '\x0C' => self.out.push('f'),
            '\r' => self.out.push('r'),
            '\x1B' => self.out.push('e'),
            '"' | '\\' => self.out.push(character),
            '\u{85}' => self.out.push('N'),
            '\u{A0}' => self.out.push('_'),
            '\u{2028}' => self.out.push('L'),
            '\u{2029}' => self.out.push('P'),
            // Writing to a string cannot fail.
            '\0'..='\u{FF}' => drop(write!(self.out, "x{:02X}", u32::from(character))),
            '\0'..='\u{FFFF}' => drop(write!(self.out, "u{:04X}", u32::from(character))),
            _ => drop(write!(self.out, "U{:08X}", u32::from(character))),
        }
        self.column += self.out.len() - start;
    }

    fn write_literal(&mut self, text: &str) {
        self.write_indicator('|', false);
        if text.starts_with(' ') || text.starts_with(is_break) {
            self.put('2');
        }
        let mut from_end = text.chars().rev();
        match (from_end.next().is_some_and(is_break), from_end.next().is_none_or(is_break)) {
            (false, _) => self.put('-'),
            (true, true) => self.put('+'),
            (true, false) => {}
        }
        self.put_break();
        self.whitespace = true;
        for line in text.split_inclusive(is_break) {
            let content = line.strip_suffix(is_break).unwrap_or(line);
            if !content.is_empty() {
                self.write_indent();
                self.out.push_str(content);
                self.column += 1;
                self.indention = false;
            }
            if let Some(line_break) = line.get(content.len()..).filter(|line_break| !line_break.is_empty()) {
                self.out.push_str(line_break);
                self.column = 0;
                self.indention = true;
            }
        }
    }
}
