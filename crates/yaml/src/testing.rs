//! Generators of documents and values for tests that compare with Go: everything follows from a seed.

use serde_json::{Map, Value};

/// A small generator of pseudo-random numbers (splitmix64), so that a seed means the same on every platform.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, 0 if that is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<'t>(&mut self, choices: &[&'t str]) -> &'t str {
        choices.get(self.below(choices.len())).copied().unwrap_or_default()
    }
}

/// Scalars that are read as something else than a string, or nearly.
const SCALARS: &[&str] = &[
    "y",
    "Y",
    "yes",
    "Yes",
    "n",
    "N",
    "no",
    "NO",
    "on",
    "On",
    "off",
    "true",
    "True",
    "TRUE",
    "false",
    "null",
    "Null",
    "NULL",
    "~",
    "",
    "0",
    "-0",
    "1",
    "-1",
    "+1",
    "017",
    "-017",
    "08",
    "0o17",
    "0O17",
    "0b11",
    "-0b11",
    "0b-1",
    "0x1F",
    "0X1f",
    "-0x1",
    "0x",
    "0b",
    "1_000",
    "_1",
    "1_",
    "+_1",
    "1.0",
    "1.5",
    ".5",
    "5.",
    "-.5",
    "+.5",
    ".",
    "-",
    "+",
    "..",
    "1e3",
    "1E3",
    "1e+3",
    "1e-7",
    "1e400",
    "1e-400",
    "1e",
    "1.e3",
    ".e3",
    ".5_0",
    "._5",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775808",
    "-9223372036854775809",
    ".inf",
    "-.inf",
    "+.inf",
    ".Inf",
    ".nan",
    ".NaN",
    "nan",
    "NaN",
    "inf",
    "Infinity",
    "2001-01-01",
    "2001-1-1",
    "2001-13-01",
    "2001-02-29",
    "2001-12-14t21:59:43.10-05:00",
    "2001-12-14 21:59:43",
    "2001-12-14T21:59:43Z",
    "12:30",
    "12:30:45",
    "1:60",
    "190:20:30",
    "<<",
    "=",
    "!!str",
    "1.2.3",
    "1.10",
    "v1.2",
    "10Gi",
    "100m",
    "1e3m",
    "0777",
    "1,000",
    "0.1",
    "123456789.5",
    "1e6",
    "1e21",
    "012",
    "0o8",
    "0b2",
    "--1",
    "+-1",
    "1-1",
    "3.14159265358979323846",
    "100000000000000000000",
    "0.00001",
    "1234567.0",
];

/// Fragments of text that are awkward in some style.
const FRAGMENTS: &[&str] = &[
    "a",
    "b",
    "foo",
    "bar",
    "baz",
    "name",
    "value",
    "some words here",
    "#",
    " #c",
    "a#b",
    ":",
    ": ",
    ":x",
    "a:b",
    "-",
    "- ",
    "-x",
    "?",
    "? ",
    ",",
    ", ",
    "[",
    "]",
    "{",
    "}",
    "&",
    "*",
    "!",
    "|",
    ">",
    "'",
    "''",
    "\"",
    "%",
    "@",
    "`",
    " ",
    "  ",
    "\t",
    "\n",
    "\n\n",
    "\n ",
    " \n",
    "\r",
    "\r\n",
    "---",
    "...",
    "--- ",
    "\\",
    "\\n",
    "\u{85}",
    "\u{2028}",
    "\u{2029}",
    "\u{A0}",
    "\u{FEFF}",
    "\u{FFFD}",
    "é",
    "ü",
    "日本",
    "\u{1F600}",
    "\u{7F}",
    "\u{1}",
    "\u{0}",
    "\u{1B}",
    "\u{9F}",
    "\u{FFFE}",
    "<",
    ">",
    "&",
    "=",
    "~",
    "long text that goes on and on so that it has to be folded somewhere near the eightieth column of the line",
    "nospaceatallbutverylongsothatitcannotbefoldedanywhereatallinthisuniverseofshortlinesandnarrowcolumns",
    "0",
    "1",
    "9",
    "10",
    "_",
    ".",
    "/",
    "(",
    ")",
    "$",
    "${X}",
    "{{ .Values.x }}",
    "{{",
    "}}",
    "<<",
    "e",
    "E",
    "x",
    "o",
];

/// A string that is awkward to write.
pub fn text(random: &mut Random) -> String {
    if random.chance(25) {
        return random.pick(SCALARS).to_owned();
    }
    let parts = match random.below(10) {
        0 => 0,
        1..=5 => 1 + random.below(3),
        6..=8 => 1 + random.below(8),
        _ => random.below(40),
    };
    (0..parts).map(|_| random.pick(FRAGMENTS)).collect()
}

/// A JSON value of a few levels, with awkward strings and numbers.
pub fn json_value(random: &mut Random) -> Value {
    json_value_within(random, 5)
}

fn json_value_within(random: &mut Random, levels: usize) -> Value {
    let kinds = if levels == 0 { 7 } else { 13 };
    match random.below(kinds) {
        0 => Value::Null,
        1 => Value::Bool(random.chance(50)),
        2 => integer(random),
        3 => float(random),
        4..=6 => Value::String(text(random)),
        7..=8 => (0..random.below(5)).map(|_| json_value_within(random, levels - 1)).collect(),
        _ => {
            let pairs = (0..random.below(6)).map(|_| (key(random), json_value_within(random, levels - 1)));
            Value::Object(pairs.collect::<Map<_, _>>())
        }
    }
}

fn key(random: &mut Random) -> String {
    match random.below(10) {
        0..=4 => random
            .pick(&["name", "labels", "spec", "a", "b", "c", "a1", "a10", "a9", "a1b", "_x", "X", "é"])
            .to_owned(),
        5 => random.below(200).to_string(),
        6 => format!("key{}", random.below(30)),
        _ => text(random),
    }
}

fn integer(random: &mut Random) -> Value {
    match random.below(4) {
        0 => Value::from(random.below(100)),
        1 => Value::from(-(random.below(100_000) as i64)),
        2 => Value::from(random.next()),
        _ => Value::from(random.next() as i64),
    }
}

fn float(random: &mut Random) -> Value {
    let number = match random.below(6) {
        0 => random.below(1000) as f64,
        1 => random.below(1_000_000) as f64 / 1000.0,
        2 => -(random.below(1_000_000_000) as f64) * 1000.0,
        3 => (random.next() >> 11) as f64 * 10f64.powi(random.below(60) as i32 - 40),
        4 => f64::from_bits(random.next()),
        _ => 10f64.powi(random.below(50) as i32 - 25),
    };
    serde_json::Number::from_f64(number).map_or(Value::Null, Value::Number)
}

/// A YAML document, most of the time a valid one, in all styles that YAML has.
pub fn yaml_document(seed: u64) -> String {
    let mut writer = Writer { random: Random::new(seed), out: String::new(), anchors: 0 };
    writer.document();
    // Most documents stay free of the characters that would have the whole of them refused.
    if writer.random.chance(92) {
        writer.out.retain(|character| !matches!(character, '\0'..='\x08' | '\x0B' | '\x0C' | '\x0E'..='\x1F' | '\x7F'..='\u{84}' | '\u{86}'..='\u{9F}' | '\u{FFFE}'));
    }
    writer.out
}

/// A document with a few accidents: characters and lines removed, doubled, swapped or put in.
pub fn mutated(seed: u64, document: &[u8]) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = document.to_vec();
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len() + 1);
        match random.below(8) {
            0 => {
                let end = (at + random.below(6)).min(bytes.len());
                bytes.drain(at..end);
            }
            1..=2 => {
                let fragment = random.pick(FRAGMENTS);
                bytes.splice(at..at, fragment.bytes());
            }
            3 => {
                let indent = random.pick(&[
                    "\n", "\n  ", "\n- ", "\n\t", " ", "  ", "\t", ": ", "- ", "? ", "[", "{", "\"", "'",
                    "|", ">",
                ]);
                bytes.splice(at..at, indent.bytes());
            }
            4 => {
                let line_end = bytes
                    .iter()
                    .skip(at)
                    .position(|&byte| byte == b'\n')
                    .map_or(bytes.len(), |found| at + found + 1);
                let line_start =
                    bytes.iter().take(at).rposition(|&byte| byte == b'\n').map_or(0, |found| found + 1);
                let line: Vec<u8> = bytes.get(line_start..line_end).unwrap_or_default().to_vec();
                if random.chance(50) {
                    bytes.drain(line_start..line_end);
                } else {
                    bytes.splice(line_start..line_start, line);
                }
            }
            5 => bytes.truncate(at),
            6 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = random.next() as u8;
                }
            }
            _ => {
                let end = (at + random.below(30)).min(bytes.len());
                let piece: Vec<u8> = bytes.get(at..end).unwrap_or_default().to_vec();
                let to = random.below(bytes.len() + 1);
                bytes.splice(to..to, piece);
            }
        }
    }
    bytes
}

/// JSON text, often with an accident in it.
pub fn json_text(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let value = json_value(&mut random);
    let text = if random.chance(50) { serde_json::to_vec(&value) } else { serde_json::to_vec_pretty(&value) };
    let text = text.unwrap_or_default();
    match random.below(4) {
        0 => text,
        1 => {
            let pieces = [
                "\\u12",
                "\\ud800",
                "\\udc00",
                "\\uD83D\\uDE00",
                "\\x",
                "\\",
                "\"",
                "tru",
                "nul",
                "1.",
                "01",
                "-",
                "1e",
                "1e400",
                "+1",
                ",",
                ",,",
                "]",
                "}",
                "[",
                "{",
                "\u{1}",
                "\u{FEFF}",
                "\u{0}",
                "é",
                "NaN",
                "'a'",
                "// x",
            ];
            let at = random.below(text.len() + 1);
            let mut text = text;
            text.splice(at..at, random.pick(&pieces).bytes());
            text
        }
        _ => mutated(random.next(), &text),
    }
}

struct Writer {
    random: Random,
    out: String,
    anchors: usize,
}

impl Writer {
    fn document(&mut self) {
        if self.random.chance(5) {
            let directive = self.random.pick(&[
                "%YAML 1.1\n---\n",
                "%TAG !e! tag:e.org,2000:\n---\n",
                "%YAML 1.2\n---\n",
                "%FOO x\n",
                "\u{FEFF}",
                "%YAML 1.1 # c\n",
            ]);
            self.out.push_str(directive);
        }
        if self.random.chance(20) {
            let start =
                self.random.pick(&["---\n", "--- ", "# comment\n---\n", "\n\n", "---\t\n", "--- # c\n"]);
            self.out.push_str(start);
        }
        match self.random.below(10) {
            0 => self.flow(4),
            1 => self.scalar(0, true),
            2..=3 => self.sequence(0, 4),
            _ => self.mapping(0, 4),
        }
        if self.random.chance(20) {
            let end = self.random.pick(&[
                "\n",
                "...\n",
                "\n...\nfoo",
                "\n---\nsecond: doc\n",
                "\n--- {",
                "\n# end",
                "\n\u{1}",
            ]);
            self.out.push_str(end);
        }
    }

    fn indent(&mut self, columns: usize) {
        // An accident now and then.
        let columns = if self.random.chance(1) { self.random.below(6) } else { columns };
        self.out.extend(std::iter::repeat_n(' ', columns));
    }

    fn end_line(&mut self) {
        let end = match self.random.below(60) {
            0 => " # comment",
            1 => "  ",
            2 => "\n",
            3 => "\n# comment",
            4 => "\n  # comment",
            5 => "\r",
            6 => "\t",
            _ => "",
        };
        self.out.push_str(end);
        self.out.push('\n');
    }

    fn properties(&mut self) {
        if self.random.chance(4) {
            let tag = self.random.pick(&[
                "!!str ",
                "!!int ",
                "!!float ",
                "!!bool ",
                "!!null ",
                "!!binary ",
                "!!timestamp ",
                "!foo ",
                "! ",
                "!<tag:x> ",
                "!!map ",
                "!!seq ",
                "!e!x ",
                "!!set ",
                "!%41 ",
                "!!",
            ]);
            self.out.push_str(tag);
        }
        if self.random.chance(4) {
            self.anchors += 1;
            self.out.push_str(&format!("&a{} ", self.anchors));
        }
    }

    fn alias(&mut self) -> bool {
        if self.anchors == 0 || !self.random.chance(8) {
            return false;
        }
        let number = self.random.below(self.anchors + 1) + usize::from(self.random.chance(90));
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
            } else if self.random.chance(3) {
                self.out.push_str("<<");
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
                if !self.random.chance(2) {
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
            self.out.push('-');
            self.out.push_str(if self.random.chance(4) { "   " } else { " " });
            match self.random.below(8) {
                0..=1 if levels > 0 => self.mapping(column + 2, levels - 1),
                2 if levels > 0 => self.sequence(column + 2, levels - 1),
                _ => self.block_value(column + 2, levels, true),
            }
        }
    }

    /// A value on the rest of the line, or a block scalar below it.
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
        match self.random.below(20) {
            0 => {
                let scalar = self.random.pick(SCALARS).to_owned();
                self.out.push_str(&scalar);
            }
            1 => self.scalar(0, false),
            2 => self.flow(1),
            3 => {
                self.alias();
            }
            _ => {
                let key = key(&mut self.random);
                let plain: String = key
                    .chars()
                    .filter(|character| character.is_ascii_graphic() || *character == ' ')
                    .collect();
                self.out.push_str(&plain);
            }
        }
    }

    fn scalar(&mut self, column: usize, multiline: bool) {
        match self.random.below(12) {
            0..=2 => {
                let scalar = self.random.pick(SCALARS).to_owned();
                self.out.push_str(&scalar);
            }
            3..=4 => {
                let text = self.quotable(column, multiline);
                self.out.push('\'');
                self.out.push_str(&text.replace('\'', "''"));
                self.out.push('\'');
            }
            5..=6 => {
                let text = self.quotable(column, multiline);
                self.out.push('"');
                for character in text.chars() {
                    match character {
                        '"' => self.out.push_str("\\\""),
                        '\\' => {
                            let escape = self.random.pick(&[
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
                                "\\q",
                                "\\ud800",
                                "\\x4",
                                "\\\n",
                                "\\t",
                            ]);
                            self.out.push_str(escape);
                        }
                        other => self.out.push(other),
                    }
                }
                self.out.push('"');
            }
            7 => {
                let text = text(&mut self.random);
                self.out.push_str(&text);
            }
            _ => {
                for word in 0..1 + self.random.below(4) {
                    if word > 0 {
                        if multiline && self.random.chance(6) {
                            self.out.push('\n');
                            self.indent(column);
                        } else {
                            self.out.push(' ');
                        }
                    }
                    let plain = self.random.pick(&[
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
                        "a,b",
                        "a'b",
                        "a\"b",
                        "it's",
                        "100%",
                        "@x",
                        "x@y",
                        "a=b",
                        "日本",
                        "(x)",
                        "[x",
                        "*a",
                        "&b",
                        "#c",
                        "a?",
                        "?a",
                    ]);
                    self.out.push_str(plain);
                }
            }
        }
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
        let header = self
            .random
            .pick(&["|", ">", "|-", ">-", "|+", ">+", "|2", ">2-", "|+1", "| # c", "|x", "|0", "> ", "|9"]);
        self.out.push_str(header);
        self.end_line();
        for _ in 0..self.random.below(6) {
            match self.random.below(8) {
                0 => {}
                1 => self.indent(column + 2),
                2 => self.out.push('\t'),
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
                self.scalar(2, false);
            }
            return;
        }
        let mapping = self.random.chance(50);
        self.out.push(if mapping { '{' } else { '[' });
        for entry in 0..self.random.below(4) {
            if entry > 0 {
                let separator = self.random.pick(&[", ", ", ", ",", " , ", ",\n  ", " ", ",,"]);
                self.out.push_str(separator);
            }
            if mapping || self.random.chance(8) {
                self.key();
                let separator = self.random.pick(&[": ", ": ", ": ", ":", " : ", ""]);
                self.out.push_str(separator);
            }
            self.flow(levels - 1);
        }
        if !self.random.chance(2) {
            self.out.push(if mapping { '}' } else { ']' });
        }
    }
}
