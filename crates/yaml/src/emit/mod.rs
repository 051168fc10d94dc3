//! Emitter: values to block YAML, laid out as libyaml's emitter does.
//!
//! Everything is written directly to the output, keys in their original order. Each entry of a mapping ends with a line
//! break and has the same text wherever it is among its siblings, so a mapping is sorted at its end by moving the text
//! of its entries.

mod order;
mod scalar;
pub(crate) mod ser;
mod style;

use crate::Error;

/// Column after which libyaml folds lines.
const WIDTH: usize = 80;

/// Longest key written without `? `.
const MAX_SIMPLE_KEY: usize = 128;

/// Maximum nesting, the same as for reading.
const MAX_DEPTH: usize = crate::compose::MAX_DEPTH;

/// Go library whose output is reproduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `sigs.k8s.io/yaml.Marshal`: to JSON, then goyaml v2. Long lines are folded, lists are in the column of their
    /// key.
    Sigs,
    /// goyaml v3's encoder with an indentation of 2: lines are not folded, lists are indented below their key.
    Pretty,
}

pub(crate) struct Emitter {
    out: String,
    /// Maximum size in bytes.
    limit: usize,
    dialect: Dialect,
    column: usize,
    /// Whether the output ends with a blank or is empty.
    whitespace: bool,
    /// Whether the current line has only indentation and `-`, `?`, `:` indicators.
    indention: bool,
    /// Column of the current collection; -1 outside any.
    indent: isize,
    depth: usize,
    /// Whether the next value belongs to a key.
    in_mapping: bool,
    /// Unescaped keys of all open mappings.
    keys: String,
    /// Entries of all open mappings.
    entries: Vec<Entry>,
    scratch: String,
    /// Whether some string would be changed by writing it as JSON and reading that with goyaml.
    changed_by_json: bool,
}

/// An entry of a mapping: ranges of its key in `Emitter::keys` and of its text in `Emitter::out`.
#[derive(Debug, Clone, Copy)]
struct Entry {
    key: (usize, usize),
    text: (usize, usize),
}

/// An open collection. Nothing is written before its first entry, since an empty one looks different.
pub(crate) struct Block {
    parent_indent: isize,
    begun: bool,
    in_mapping: bool,
    entries: usize,
    keys: usize,
    sorted: bool,
}

impl Emitter {
    pub(crate) fn new(dialect: Dialect, limit: usize) -> Self {
        Emitter {
            out: String::with_capacity(256),
            limit,
            dialect,
            column: 0,
            whitespace: true,
            indention: true,
            indent: -1,
            depth: 0,
            in_mapping: false,
            keys: String::new(),
            entries: Vec::new(),
            scratch: String::new(),
            changed_by_json: false,
        }
    }

    /// Whether the output may differ from Go's, which converts to JSON first.
    pub(crate) fn changed_by_json(&self) -> bool {
        self.changed_by_json
    }

    /// Returns the finished document.
    pub(crate) fn finish(mut self) -> Result<String, Error> {
        self.end_line();
        self.check_size()?;
        Ok(self.out)
    }

    // Layout.

    fn put(&mut self, character: char) {
        self.out.push(character);
        self.column += 1;
    }

    fn put_break(&mut self) {
        self.out.push('\n');
        self.column = 0;
        self.indention = true;
    }

    /// Moves to the current indentation, on a new line unless this one has only indentation.
    fn write_indent(&mut self) {
        let indent = self.indent.max(0).unsigned_abs();
        if !self.indention || self.column > indent || (self.column == indent && !self.whitespace) {
            self.put_break();
        }
        // Writing a scalar cannot fail: beyond the size limit its lines are not indented, and the next check fails.
        while self.column < indent && self.out.len() <= self.limit {
            self.put(' ');
        }
        self.whitespace = true;
        self.indention = true;
    }

    /// Writes an indicator, preceded by a blank.
    fn write_indicator(&mut self, indicator: char, indention: bool) {
        if !self.whitespace {
            self.put(' ');
        }
        self.put(indicator);
        self.whitespace = false;
        self.indention &= indention;
    }

    /// Ends the line of an entry.
    fn end_line(&mut self) {
        if self.column != 0 {
            self.put_break();
        }
        self.whitespace = true;
        self.indention = true;
    }

    // Collections.

    pub(crate) fn begin(&mut self) -> Result<Block, Error> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Error::Type(format!("yaml: exceeded max depth of {MAX_DEPTH}")));
        }
        Ok(Block {
            parent_indent: self.indent,
            begun: false,
            in_mapping: self.in_mapping,
            entries: self.entries.len(),
            keys: self.keys.len(),
            sorted: true,
        })
    }

    fn increase_indent(&mut self, block: &mut Block, indentless: bool) {
        if !block.begun {
            block.begun = true;
            if self.indent < 0 {
                self.indent = 0;
            } else if !indentless {
                self.indent += 2;
            }
        }
    }

    /// Must be called before each item of a sequence.
    pub(crate) fn begin_item(&mut self, block: &mut Block) {
        let indentless = self.dialect == Dialect::Sigs && block.in_mapping && !self.indention;
        self.increase_indent(block, indentless);
        self.write_indent();
        self.write_indicator('-', true);
        self.in_mapping = false;
    }

    /// Must be called after each item of a sequence.
    pub(crate) fn end_item(&mut self) -> Result<(), Error> {
        self.end_line();
        self.check_size()
    }

    fn check_size(&self) -> Result<(), Error> {
        let limit = self.limit;
        if self.out.len() > limit { Err(Error::TooLarge { limit }) } else { Ok(()) }
    }

    pub(crate) fn end_sequence(&mut self, block: &Block) {
        self.end(block, "[]");
    }

    /// Returns the buffer to append the next key to, unescaped, before [`Emitter::begin_entry`].
    pub(crate) fn keys(&mut self) -> &mut String {
        &mut self.keys
    }

    /// Writes the key at the end of [`Emitter::keys`], from `key` on; a value must follow.
    pub(crate) fn begin_entry(&mut self, block: &mut Block, key: usize) {
        self.increase_indent(block, false);
        self.write_indent();
        let text = self.out.len();
        // The buffer is taken so that the key can be borrowed while it is written.
        let keys = std::mem::take(&mut self.keys);
        self.write_key(keys.get(key..).unwrap_or_default());
        self.keys = keys;
        let entry = Entry { key: (key, self.keys.len()), text: (text, text) };
        if let Some(previous) = self.entries.get(block.entries..).and_then(<[Entry]>::last) {
            block.sorted &= order::less(self.key_of(previous), self.key_of(&entry), self.dialect);
        }
        self.entries.push(entry);
        self.in_mapping = true;
    }

    /// Must be called after each value of a mapping.
    pub(crate) fn end_entry(&mut self) -> Result<(), Error> {
        self.end_line();
        let end = self.out.len();
        if let Some(entry) = self.entries.last_mut() {
            entry.text.1 = end;
        }
        self.check_size()
    }

    pub(crate) fn end_mapping(&mut self, block: &Block, sort: bool) {
        if sort && !block.sorted {
            self.sort_entries(block);
        }
        self.entries.truncate(block.entries);
        self.keys.truncate(block.keys);
        self.end(block, "{}");
    }

    fn end(&mut self, block: &Block, empty: &str) {
        self.depth -= 1;
        self.indent = block.parent_indent;
        if !block.begun {
            for indicator in empty.chars() {
                // No blank between the closing and the opening indicator.
                self.write_indicator(indicator, false);
                self.whitespace = true;
            }
            self.whitespace = false;
        }
    }

    fn key_of(&self, entry: &Entry) -> &str {
        self.keys.get(entry.key.0..entry.key.1).unwrap_or_default()
    }

    /// Sorts the text of a mapping's entries by key.
    fn sort_entries(&mut self, block: &Block) {
        let mut entries = self.entries.split_off(block.entries);
        let Some(first) = entries.first() else {
            return;
        };
        let start = first.text.0;
        order::sort(&mut entries, |a, b| order::less(self.key_of(a), self.key_of(b), self.dialect));
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let indent = self.indent.max(0).unsigned_abs();
        for (at, entry) in entries.iter().enumerate() {
            // Of equal keys the last one wins, as if they were inserted into a map.
            if entries.get(at + 1).is_some_and(|next| self.key_of(next) == self.key_of(entry)) {
                continue;
            }
            if !scratch.is_empty() {
                scratch.extend(std::iter::repeat_n(' ', indent));
            }
            scratch.push_str(self.out.get(entry.text.0..entry.text.1).unwrap_or_default());
        }
        self.out.truncate(start);
        self.out.push_str(&scratch);
        self.scratch = scratch;
    }

    // Scalars.

    fn write_key(&mut self, key: &str) {
        // A key of JSON must end within 1024 characters, and an escape takes up to six.
        self.changed_by_json |= key.len() > 170 || is_changed_by_json(key);
        let analysis = style::analyze(key, self.dialect);
        self.in_mapping = true;
        if analysis.multiline || key.len() > MAX_SIMPLE_KEY {
            self.write_indicator('?', true);
            self.write_scalar(key, &analysis, false);
            self.write_indent();
            self.write_indicator(':', true);
        } else {
            self.write_scalar(key, &analysis, true);
            self.put(':');
            self.whitespace = false;
            self.indention = false;
        }
    }

    /// Writes a string in the style that it requires.
    pub(crate) fn string(&mut self, text: &str) {
        self.changed_by_json |= is_changed_by_json(text);
        let analysis = style::analyze(text, self.dialect);
        self.write_scalar(text, &analysis, false);
    }

    /// Writes a value that needs no quotes: a number, a boolean, null.
    pub(crate) fn literal(&mut self, text: &str) {
        if !self.whitespace {
            self.put(' ');
        }
        self.out.push_str(text);
        self.column += text.len();
        self.whitespace = false;
        self.indention = false;
    }
}

/// Whether goyaml rejects a character that JSON does not escape, or reads it as a line break.
fn is_changed_by_json(text: &str) -> bool {
    text.bytes().any(|byte| matches!(byte, 0x7F | 0xC2 | 0xEF))
        && text.chars().any(|character| matches!(character, '\u{7F}'..='\u{9F}' | '\u{FFFE}' | '\u{FFFF}'))
}
