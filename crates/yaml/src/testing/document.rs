//! Generates YAML documents in all styles.

use super::{Random, SCALARS, key, text};

/// Generates a document, valid three times out of four.
pub(super) fn write(random: Random) -> String {
    let mut writer = Writer { random, out: String::new(), anchors: 0 };
    writer.document();
    // Most documents avoid the characters that would make the whole document invalid.
    if writer.random.chance(95) {
        let refused = |character| {
            matches!(character,
                '\0'..='\x08' | '\x0B' | '\x0C' | '\x0E'..='\x1F' | '\x7F'..='\u{84}' | '\u{86}'..='\u{9F}' | '\u{FFFE}')
        };
        writer.out.retain(|character| !refused(character));
    }
    writer.out
}

struct Writer {
    random: Random,
    out: String,
    anchors: usize,
}

impl Writer {
    fn put_one_of(&mut self, choices: &[&str]) {
        let choice = self.random.pick(choices).to_owned();
        self.out.push_str(&choice);
    }

    fn document(&mut self) {
        if self.random.chance(2) {
            self.put_one_of(&[
                "%YAML 1.1\n---\n",
                "%TAG !e! tag:e.org,2000:\n---\n",
                "%YAML 1.2\n---\n",
                "%FOO x\n",
                "\u{FEFF}",
                "%YAML 1.1 # c\n",
            ]);
        }
        if self.random.chance(20) {
            self.put_one_of(&["---\n", "--- ", "# comment\n---\n", "\n\n", "---\t\n", "--- # c\n"]);
        }
        match self.random.below(10) {
            0 => self.flow(4),
            1 => self.scalar(2, true),
            2..=3 => self.sequence(0, 4),
            _ => self.mapping(0, 4),
        }
        if self.random.chance(20) {
            self.put_one_of(&[
                "\n",
                "...\n",
                "\n...\nfoo",
                "\n---\nsecond: doc\n",
                "\n--- {",
                "\n# end",
                "\n\u{1}",
            ]);
        }
    }

    fn indent(&mut self, columns: usize) {
        // An accident now and then.
        let accident = self.random.below(150) == 0;
        let columns = if accident { self.random.below(6) } else { columns };
        self.out.extend(std::iter::repeat_n(' ', columns));
    }

    fn end_line(&mut self) {
        match self.random.below(60) {
            0 => self.out.push_str(" # comment"),
            1 => self.out.push_str("  "),
            2 => self.out.push('\n'),
            3 => self.out.push_str("\n# comment"),
            4 => self.out.push_str("\n  # comment"),
            5 => self.out.push('\r'),
            6 if self.random.chance(20) => self.out.push('\t'),
            _ => {}
        }
        self.out.push('\n');
    }

    fn properties(&mut self) {
        if self.random.chance(4) {
            if self.random.chance(70) {
                self.put_one_of(&["!!str ", "!foo ", "! ", "!<tag:x> ", "!!set ", "!%41 "]);
            } else {
                self.put_one_of(&[
                    "!!int ",
                    "!!float ",
                    "!!bool ",
                    "!!null ",
                    "!!binary ",
                    "!!timestamp ",
                    "!!map ",
                    "!!seq ",
                    "!e!x ",
                    "!!",
                ]);
            }
        }
        if self.random.chance(4) {
            self.anchors += 1;
            self.out.push_str(&format!("&a{} ", self.anchors));
        }
    }

    fn alias(&mut self) -> bool {
        if self.anchors == 0 || !self.random.chance(15) {
            return false;
        }
        let number = self.random.below(self.anchors) + usize::from(self.random.chance(98));
        self.out.push_str(&format!("*a{number}"));
        true
    }

    fn mapping(&mut self, column: usize, levels: usize) {
        for entry in 0..1 + self.random.below(5) {
            if entry > 0 {
                self.indent(column);
            }
            if self.random.chance(3) {
                self.out.push_str("? ");
                self.block_value(column + 2, levels.saturating_sub(1), true);
                self.indent(column);
            } else if self.anchors > 0 && self.random.chance(5) {
                self.out.push_str(&format!("<<: *a{}\n", self.random.below(self.anchors) + 1));
                continue;
            } else {
                self.properties();
                self.key();
            }
            self.out.push(':');
            self.value_behind(column, levels);
        }
    }

    fn value_behind(&mut self, column: usize, levels: usize) {
        match self.random.below(10) {
            0..=2 if levels > 0 => {
                self.out.push(' ');
                self.properties();
                self.end_line();
                let deeper = column + 1 + self.random.below(4);
                self.indent(deeper);
                self.mapping(deeper, levels - 1);
            }
            3..=4 if levels > 0 => {
                self.end_line();
                let deeper = column + self.random.below(3);
                self.indent(deeper);
                self.sequence(deeper, levels - 1);
            }
            _ => {
                if !self.random.chance(1) {
                    self.out.push(' ');
                }
                self.block_value(column + 2, levels, false);
            }
        }
    }

    fn sequence(&mut self, column: usize, levels: usize) {
        for item in 0..1 + self.random.below(4) {
            if item > 0 {
                self.indent(column);
            }
            self.out.push_str("- ");
            match self.random.below(8) {
                0..=1 if levels > 0 => self.mapping(column + 2, levels - 1),
                2 if levels > 0 => self.sequence(column + 2, levels - 1),
                _ => self.block_value(column + 2, levels, true),
            }
        }
    }

    /// Writes a value on the rest of the line, or a block scalar below it.
    fn block_value(&mut self, column: usize, levels: usize, compact: bool) {
        if self.alias() {
            self.end_line();
            return;
        }
        self.properties();
        match self.random.below(20) {
            0..=1 => self.block_scalar(column),
            2..=3 => {
                self.flow(levels.min(3));
                self.end_line();
            }
            4 if compact && levels > 0 => self.mapping(column, levels - 1),
            _ => {
                self.scalar(column, true);
                self.end_line();
            }
        }
    }

    fn key(&mut self) {
        match self.random.below(60) {
            0..=2 => self.put_one_of(SCALARS),
            3 => self.scalar(0, false),
            4 => self.flow(1),
            5 => {
                self.alias();
            }
            6 => {
                let key = key(&mut self.random);
                self.out.extend(key.chars().filter(|key| key.is_ascii_graphic() || *key == ' '));
            }
            7..=10 => {
                let key = text(&mut self.random).replace(['\n', '\r', '\''], "");
                self.out.push_str(&format!("'{key}'"));
            }
            _ => {
                self.put_one_of(&["name", "labels", "a", "b", "c", "é", "app.io/x", "key with words"]);
                let number = self.random.below(30);
                if number > 5 {
                    self.out.push_str(&number.to_string());
                }
            }
        }
    }

    fn scalar(&mut self, column: usize, multiline: bool) {
        match self.random.below(12) {
            0..=2 => self.put_one_of(SCALARS),
            3..=4 => {
                let text = self.quotable(column, multiline).replace('\'', "''");
                self.out.push_str(&format!("'{text}'"));
            }
            5..=6 => {
                let text = self.quotable(column, multiline);
                self.double_quoted(&text);
            }
            7 if self.random.chance(15) => {
                let text = text(&mut self.random);
                self.out.push_str(&text);
            }
            _ => {
                for word in 0..1 + self.random.below(4) {
                    if word > 0 && multiline && self.random.chance(6) {
                        self.out.push('\n');
                        self.indent(column);
                    } else if word > 0 {
                        self.out.push(' ');
                    }
                    self.plain_word();
                }
            }
        }
    }

    fn plain_word(&mut self) {
        if self.random.chance(1) {
            self.put_one_of(&["@x", "[x", "*a", "&b", "#c", "?a", "{{ x }}", "%a", "a: b", "- a", "'a", "}"]);
        } else {
            self.put_one_of(&[
                "foo",
                "bar",
                "a",
                "x-y",
                "a:b",
                "a#b",
                "/path",
                "1",
                "é",
                "http://x.y/z",
                "a'b",
                "it's",
                "100%",
                "x@y",
                "a=b",
                "日本",
                "(x)",
                "a\"b",
                "\u{A0}x",
            ]);
        }
    }

    fn double_quoted(&mut self, text: &str) {
        self.out.push('"');
        for character in text.chars() {
            match character {
                '"' => self.out.push_str("\\\""),
                '\\' if self.random.chance(5) => self.put_one_of(&["\\q", "\\ud800", "\\x4", "\\'"]),
                '\\' => self.put_one_of(&[
                    "\\\\",
                    "\\n",
                    "\\x41",
                    "\\u00e9",
                    "\\U0001F600",
                    "\\0",
                    "\\e",
                    "\\ ",
                    "\\L",
                    "\\N",
                    "\\_",
                    "\\/",
                    "\\\n",
                    "\\t",
                ]),
                other => self.out.push(other),
            }
        }
        self.out.push('"');
    }

    fn quotable(&mut self, column: usize, multiline: bool) -> String {
        let text = text(&mut self.random);
        if multiline && self.random.chance(50) {
            let indent: String = std::iter::repeat_n(' ', column).collect();
            return text.replace('\n', &format!("\n{indent}"));
        }
        text.replace(['\n', '\r'], " ")
    }

    fn block_scalar(&mut self, column: usize) {
        if self.random.chance(4) {
            self.put_one_of(&["|x", "|0", "|9", "> x", "|+1"]);
        } else {
            self.put_one_of(&["|", ">", "|-", ">-", "|+", ">+", "|2", ">2-", "| # c", "> "]);
        }
        self.out.push('\n');
        for _ in 0..self.random.below(6) {
            match self.random.below(8) {
                0 => {}
                1 => self.indent(column + 2),
                2 if self.random.chance(8) => self.out.push('\t'),
                _ => {
                    self.indent(column);
                    let line = text(&mut self.random).replace(['\n', '\r'], "");
                    self.out.push_str(&line);
                }
            }
            self.out.push('\n');
        }
    }

    fn flow(&mut self, levels: usize) {
        self.properties();
        if levels == 0 || self.random.chance(20) {
            if !self.alias() {
                self.flow_scalar();
            }
            return;
        }
        let mapping = self.random.chance(50);
        self.out.push(if mapping { '{' } else { '[' });
        for entry in 0..self.random.below(4) {
            if entry > 0 && self.random.chance(2) {
                self.put_one_of(&[" ", ",,", "\n"]);
            } else if entry > 0 {
                self.put_one_of(&[", ", ", ", ",", " , ", ",\n      "]);
            }
            if mapping || self.random.chance(8) {
                self.key();
                self.put_one_of(&[": ", ": ", ": ", ": ", " : ", ""]);
            }
            self.flow(levels - 1);
        }
        if !self.random.chance(1) {
            self.out.push(if mapping { '}' } else { ']' });
        }
    }

    fn flow_scalar(&mut self) {
        match self.random.below(6) {
            0 => self.scalar(2, false),
            1 => self.put_one_of(SCALARS),
            2 => {
                let text = text(&mut self.random).replace(['\n', '\r'], " ");
                self.double_quoted(&text);
            }
            _ => self.plain_word(),
        }
    }
}
