//! Values: plain ones as Helm parses them from YAML, and typed ones as in Go code.

use serde_json::{Map, Value as Json, json};

use super::Gen;
use crate::wire::tagged;

/// Strings that are edge cases for functions, printers and parsers.
pub const STRINGS: &[&str] = &[
    "",
    "a",
    "b",
    "abc",
    "Hello World",
    "foo-bar_baz",
    "fooBarBaz",
    "FOO",
    "0",
    "1",
    "-1",
    "08",
    "010",
    "0x1f",
    "1e3",
    "1.5",
    "1_000",
    "0b11",
    "0o17",
    "3.0",
    "true",
    "false",
    "null",
    "~",
    "yes",
    "no",
    "on",
    "y",
    "n",
    "NaN",
    ".inf",
    "é",
    "日本語",
    "ß",
    "ǅ",
    "İ",
    "a\nb",
    "a\n",
    "\n",
    "\na",
    "  pad ",
    "\ttab",
    "tab\t",
    "<b>&\"'",
    "%d",
    "%!",
    "{{ . }}",
    "{{",
    "a.b.c",
    "http://u:p@host:80/p/a?q=1#f",
    "a: b",
    "- a",
    "# c",
    "a #b",
    "[a]",
    "{a: b}",
    "\"q\"",
    "'s'",
    "\\",
    "\\n",
    "a,b,c",
    "a b  c",
    "2021-01-02",
    "12:30:45",
    "=",
    "<<",
    "*a",
    "&a",
    "!t",
    "|",
    ">",
    "@",
    "`",
    "a\u{0}b",
    "\u{7f}",
    "\u{85}",
    "\u{2028}",
    "\u{feff}",
    "🎉 x",
    "e\u{301}",
    "\r\n",
    "v1.2.3",
    "1.2.3-beta.1+b",
    "the quick brown fox jumps over the lazy dog and runs away from the very long line of text that has to be folded",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "a\n  b\n c\n",
    "  a\nb",
    "x\n\n",
    "multi\nline\ntext with trailing space \nend",
    "-",
    "--",
    "---",
    "...",
    "?",
    ":",
    ",",
    "a:",
    ":a",
    "a-b",
    "{}",
    "[]",
    "1,2",
];

/// Keys, few enough for maps to have them in common.
pub const KEYS: &[&str] = &[
    "a", "b", "c", "x", "y", "name", "global", "9", "10", "a.b", "A", "_z", "key-1", "key1", "key10", "key2",
    "nil",
];

/// Integers and fractions at the limits of their types, as `float64`.
pub const FLOATS: &[f64] = &[
    0.0,
    1.0,
    -1.0,
    2.0,
    3.0,
    7.0,
    10.0,
    80.0,
    100.0,
    1.5,
    -2.5,
    0.5,
    0.1,
    0.000_001,
    1e-7,
    1e6,
    1e20,
    1e21,
    1e22,
    12_345_678.0,
    123_456_789.125,
    4_294_967_296.0,
    2_147_483_647.0,
    2_147_483_648.0,
    9_007_199_254_740_993.0,
    9.223_372_036_854_776e18,
    1.797e308,
    5e-324,
    -0.0,
    std::f64::consts::PI,
    65_536.0,
    100_000.0,
    1_234_567.0,
    21.0,
];

/// Generates a string.
pub fn string(g: &mut Gen) -> String {
    if g.chance(85) {
        return g.pick(STRINGS).to_owned();
    }
    let alphabet: Vec<char> = "abcXYZ019 -_.:,/\n\t'\"\\#é日{}[]%&*!|>~".chars().collect();
    let length = g.below(24);
    (0..length).map(|_| *g.one(&alphabet)).collect()
}

/// Generates a number as parsed from YAML.
pub fn number(g: &mut Gen) -> Json {
    if g.chance(70) {
        return json!(g.one(FLOATS));
    }
    json!(g.between(-1000, 100_000) as f64 / *g.one(&[1.0, 1.0, 10.0, 1000.0]))
}

/// Generates a scalar as parsed from YAML.
pub fn scalar(g: &mut Gen) -> Json {
    match g.below(10) {
        0 => Json::Null,
        1 => Json::Bool(g.chance(50)),
        2..=4 => number(g),
        _ => Json::String(string(g)),
    }
}

/// Generates a tree as parsed from YAML.
pub fn plain(g: &mut Gen, depth: usize) -> Json {
    if depth == 0 || g.chance(45) {
        return scalar(g);
    }
    if g.chance(40) {
        let count = g.below(5);
        return (0..count).map(|_| plain(g, depth - 1)).collect();
    }
    Json::Object(map(g, depth - 1))
}

/// Generates a map as parsed from YAML.
pub fn map(g: &mut Gen, depth: usize) -> Map<String, Json> {
    let count = g.below(6);
    (0..count)
        .map(|_| {
            let key = if g.chance(90) { g.pick(KEYS).to_owned() } else { string(g) };
            (key, plain(g, depth))
        })
        .collect()
}

/// Generates an integer of one of Go's integer types.
pub fn integer(g: &mut Gen) -> Json {
    let small = g.between(-3, 40);
    match g.below(14) {
        0 => tagged("int8", g.between(-128, 127).to_string()),
        1 => tagged("int16", g.between(-32768, 32767).to_string()),
        2 => tagged("int32", g.between(i64::from(i32::MIN), i64::from(i32::MAX)).to_string()),
        3 => tagged("int64", (g.bits() as i64).to_string()),
        4 => tagged("int64", small.to_string()),
        5 => tagged("uint", (g.bits() >> g.below(64)).to_string()),
        6 => tagged("uint8", g.below(256).to_string()),
        7 => tagged("uint16", g.below(65536).to_string()),
        8 => tagged("uint32", (g.bits() >> 32).to_string()),
        9 => tagged("uint64", g.bits().to_string()),
        10 => tagged("int32", g.pick(&["97", "8364", "128512", "10", "55296", "1114112"])),
        _ => tagged("int", small.to_string()),
    }
}

/// Generates a value of any type that a Go program may pass to a template.
pub fn typed(g: &mut Gen, depth: usize) -> Json {
    match g.below(20) {
        0..=3 => integer(g),
        4 => tagged("float64", g.pick(&["NaN", "+Inf", "-Inf", "0.1", "1e100", "-0"])),
        5 => tagged("float32", g.pick(&["0.1", "1.5", "16777216", "1e10", "3.4e38", "1e-10"])),
        6 => {
            let count = g.below(4);
            tagged("[]string", (0..count).map(|_| Json::String(string(g))).collect::<Vec<_>>())
        }
        7 => {
            let count = g.below(4);
            tagged("[]int", (0..count).map(|_| json!(g.between(-5, 300))).collect::<Vec<_>>())
        }
        8 => tagged("bytes", g.pick(&["", "AQI=", "aGVsbG8=", "/w==", "w6k="])),
        9 => {
            let entries = [(g.pick(KEYS), string(g)), (g.pick(KEYS), string(g))];
            tagged(
                "map[string]string",
                entries.into_iter().map(|(k, v)| (k.to_owned(), v.into())).collect::<Map<_, Json>>(),
            )
        }
        10 => match g.below(8) {
            0 => tagged("[]any", Json::Null),
            1 => tagged("map", Json::Null),
            2 => tagged("[]string", Json::Null),
            3 => tagged("map[string]string", Json::Null),
            4 => tagged("[]float64", json!([1.5, 2, 1e21])),
            5 => tagged("[]bool", json!([true, false])),
            6 => tagged("map[string]int", json!({"a": 1, "b": 2})),
            _ => tagged("map[string]bool", json!({"a": true, "b": false})),
        },
        11 if depth > 0 => {
            let count = g.below(4);
            (0..count).map(|_| typed(g, depth - 1)).collect()
        }
        12 if depth > 0 => {
            let count = g.below(4);
            (0..count).map(|_| (g.pick(KEYS).to_owned(), typed(g, depth - 1))).collect::<Map<_, _>>().into()
        }
        13 => json!({ "$b64": g.pick(&["/w==", "YWL/Y2Q=", "7aCA", "wA=="]) }),
        _ => plain(g, depth),
    }
}
