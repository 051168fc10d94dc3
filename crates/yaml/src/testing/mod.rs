//! Generators of documents and values, each determined by a seed, for tests that compare with Go.

mod document;

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

    /// Returns a number below `bound`, or 0 if that is 0.
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

/// Scalars that are read as another type than a string, or nearly.
#[rustfmt::skip]
const SCALARS: &[&str] = &[
    "y", "Y", "yes", "Yes", "n", "N", "no", "NO", "on", "On", "off", "true", "True", "TRUE", "false",
    "null", "Null", "NULL", "~", "", "0", "-0", "1", "-1", "+1", "017", "-017", "08", "0o17", "0O17",
    "0b11", "-0b11", "0b-1", "0x1F", "0X1f", "-0x1", "0x", "0b", "1_000", "_1", "1_", "+_1", "1.0", "1.5",
    ".5", "5.", "-.5", "+.5", ".", "-", "+", "..", "1e3", "1E3", "1e+3", "1e-7", "1e400", "1e-400", "1e",
    "1.e3", ".e3", ".5_0", "._5", "9223372036854775807", "9223372036854775808", "18446744073709551615",
    "18446744073709551616", "-9223372036854775808", "-9223372036854775809", ".inf", "-.inf", "+.inf",
    ".Inf", ".nan", ".NaN", "nan", "NaN", "inf", "Infinity", "2001-01-01", "2001-1-1", "2001-13-01",
    "2001-02-29", "2001-12-14t21:59:43.10-05:00", "2001-12-14 21:59:43", "2001-12-14T21:59:43Z", "12:30",
    "12:30:45", "1:60", "190:20:30", "<<", "=", "!!str", "1.2.3", "1.10", "v1.2", "10Gi", "100m", "1e3m",
    "0777", "1,000", "0.1", "123456789.5", "1e6", "1e21", "012", "0o8", "0b2", "--1", "+-1", "1-1",
    "3.14159265358979323846", "100000000000000000000", "0.00001", "1234567.0",
];

/// Fragments that are difficult in some style.
#[rustfmt::skip]
const FRAGMENTS: &[&str] = &[
    "a", "b", "foo", "bar", "baz", "name", "value", "some words here", "#", " #c", "a#b", ":", ": ", ":x",
    "a:b", "-", "- ", "-x", "?", "? ", ",", ", ", "[", "]", "{", "}", "&", "*", "!", "|", ">", "'", "''",
    "\"", "%", "@", "`", " ", "  ", "\t", "\n", "\n\n", "\n ", " \n", "\r", "\r\n", "---", "...", "--- ",
    "\\", "\\n", "\u{85}", "\u{2028}", "\u{2029}", "\u{A0}", "\u{FEFF}", "\u{FFFD}", "é", "ü", "日本",
    "\u{1F600}", "\u{7F}", "\u{1}", "\u{0}", "\u{1B}", "\u{9F}", "\u{FFFE}", "<", ">", "&", "=", "~",
    "long text that goes on and on so that it has to be folded somewhere near the eightieth column of the line",
    "nospaceatallbutverylongsothatitcannotbefoldedanywhereatallinthisuniverseofshortlinesandnarrowcolumns",
    "0", "1", "9", "10", "_", ".", "/", "(", ")", "$", "${X}", "{{ .Values.x }}", "{{", "}}", "<<", "e",
    "E", "x", "o",
];

/// Generates a string that is difficult to write.
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

/// Generates a JSON value of a few levels, with difficult strings and numbers.
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

/// Generates a YAML document in all styles, usually a valid one.
pub fn yaml_document(seed: u64) -> String {
    document::write(Random::new(seed))
}

/// Mutates a document: removes, duplicates, swaps or inserts characters and lines.
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

/// Generates JSON text, often with an error in it.
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
