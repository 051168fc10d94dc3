//! YAML with all of its features.

use serde_json::{Value as Json, json};

use super::{Gen, value};

const PIECES: &[&str] = &[
    ":",
    "- ",
    "-",
    "  ",
    "\n",
    "\t",
    "#",
    "&a ",
    "*a",
    "*b",
    "!!str ",
    "!!int ",
    "!t ",
    "|",
    ">",
    "\"",
    "'",
    "{",
    "}",
    "[",
    "]",
    ",",
    "? ",
    "---\n",
    "...\n",
    "%YAML 1.1\n",
    "%TAG ! t:\n",
    "<<: ",
    "\\",
    "é",
    "\u{feff}",
    "\u{85}",
    "\u{2028}",
    "\u{0}",
    "\r",
    "\r\n",
    "@",
    "`",
    "%",
    ": ",
    " #",
    "\n\n",
    "~",
];

const PLAIN: &[&str] = &[
    "a",
    "abc",
    "a b",
    "1",
    "-1",
    "+1",
    "0",
    "00",
    "01",
    "08",
    "017",
    "0o17",
    "0x1F",
    "0X1F",
    "0b11",
    "-0b11",
    "1_000",
    "_1",
    "1__0",
    "1.5",
    ".5",
    "-.5",
    "5.",
    "1e3",
    "1E3",
    "1e+3",
    "1.5e-3",
    "e3",
    "1e",
    ".inf",
    "-.inf",
    "+.Inf",
    ".INF",
    ".nan",
    ".NaN",
    "nan",
    "inf",
    "~",
    "null",
    "Null",
    "NULL",
    "nUll",
    "true",
    "True",
    "TRUE",
    "tRue",
    "yes",
    "Yes",
    "YES",
    "no",
    "No",
    "on",
    "On",
    "off",
    "Off",
    "y",
    "Y",
    "n",
    "N",
    "2001-12-14",
    "2001-12-14t21:59:43.10-05:00",
    "2001-12-14 21:59:43",
    "12:30",
    "12:30:45",
    "190:20:30.15",
    "=",
    "<<",
    "9007199254740993",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775808",
    "-9223372036854775809",
    "123456789012345678901234567890",
    "1e400",
    "0x8000000000000000",
    "0xFFFFFFFFFFFFFFFFF",
    "1e-400",
    "a:b",
    "a#b",
    "http://x:80/",
    "a, b",
    "-a",
    "--",
    "?a",
    ":a",
    "é",
    "日本",
    "\"",
    "'",
    "a'b",
    "a\"b",
    "\\n",
    "!",
    "1.0",
    "1.10",
    "0.1",
    "100000000000000000000",
    "1e21",
    "1e20",
    "123456789.123456789",
    "0.000001",
    "0.0000001",
    "-0",
    "-0.0",
    "+0",
    "0.0",
    "1,000",
    "0b",
    "0x",
    "0o8",
    "0o",
    "1:2",
    "1.2.3",
    "v1",
    "%a",
    "a%",
];

/// Generates a request to parse or format a document.
pub fn request(g: &mut Gen) -> Json {
    match g.below(20) {
        0..=2 => json!({ "op": "yaml", "do": "marshal", "value": value::typed(g, 4) }),
        3 | 4 => json!({ "op": "yaml", "do": "marshal", "value": value::plain(g, 4) }),
        5 | 6 => json!({ "op": "yaml", "do": "pretty", "value": value::plain(g, 4) }),
        7..=10 => json!({ "op": "yaml", "do": "to-json", "text": document(g) }),
        11 => json!({ "op": "yaml", "do": "to-json-strict", "text": document(g) }),
        12..=14 => json!({ "op": "yaml", "do": "round-trip", "text": document(g) }),
        _ => json!({ "op": "yaml", "do": "unmarshal", "text": document(g) }),
    }
}

/// Generates a document, sometimes an invalid one.
pub fn document(g: &mut Gen) -> String {
    let mut out = String::new();
    if g.chance(10) {
        out += g.pick(&[
            "---\n",
            "--- # c\n",
            "%YAML 1.1\n---\n",
            "%YAML 1.2\n---\n",
            "# c\n\n",
            "\u{feff}",
            "--- ",
            "%TAG !e! tag:e.org:\n---\n",
            "%FOO bar\n---\n",
        ]);
    }
    out += &block(g, 0, 3);
    if g.chance(8) {
        out += g.pick(&["...\n", "---\nb: 2\n", "# end", "\n\n", "---\n", "...\n---\nc\n", " ", "\t"]);
    }
    if g.chance(25) { g.damage(&out, PIECES) } else { out }
}

/// Generates a node in block style that begins at the start of a line.
fn block(g: &mut Gen, indent: usize, depth: usize) -> String {
    let pad = " ".repeat(indent);
    match if depth == 0 { 9 } else { g.below(10) } {
        0..=5 => {
            let count = 1 + g.below(4);
            (0..count)
                .map(|_| {
                    if g.chance(3) {
                        return format!("{pad}? {}\n{pad}: {}\n", scalar(g), scalar(g));
                    }
                    let key = key(g);
                    let gap = g.pick(&[":", ":", ":", ": ", ":  ", " :"]);
                    format!("{pad}{key}{gap}{}", after(g, indent, depth, false))
                })
                .collect()
        }
        6..=8 => {
            let count = 1 + g.below(3);
            (0..count).map(|_| format!("{pad}-{}", after(g, indent, depth, true))).collect()
        }
        _ => format!("{pad}{}\n", scalar(g)),
    }
}

/// Generates the content after `key:` or `-`.
fn after(g: &mut Gen, indent: usize, depth: usize, item: bool) -> String {
    let mut properties = String::new();
    if g.chance(7) {
        properties += " ";
        properties += g.pick(&[
            "&a",
            "&b",
            "!!str",
            "!!int",
            "!!float",
            "!!bool",
            "!!null",
            "!!map",
            "!!seq",
            "!!binary",
            "!!set",
            "!!timestamp",
            "!t",
            "!<x>",
            "!",
            "!e!t",
            "!!merge",
            "&a !!str",
            "!!omap",
        ]);
    }
    let step = *g.one(&[2, 2, 2, 4, 1]);
    match g.below(20) {
        0..=4 if depth > 0 => format!("{properties}\n{}", block(g, indent + step, depth - 1)),
        5 if depth > 0 && !item => format!("{properties}\n{}", block(g, indent, depth - 1)),
        6 | 7 if depth > 0 && item => {
            // A compact nested collection: `- a: 1` with the next keys below it.
            let nested = block(g, indent + 2, depth - 1);
            format!("{properties} {}", nested.trim_start())
        }
        8 | 9 => format!("{properties} {}\n", flow(g, depth)),
        10 | 11 => properties + " " + &literal(g, indent + step),
        12 => {
            // A plain or quoted scalar that continues on the following lines.
            let pad = " ".repeat(indent + step);
            let quote = g.pick(&["", "'", "\""]);
            let glue = g.pick(&["\n", "\n\n", " \n", "\\\n"][..if quote == "\"" { 4 } else { 3 }]);
            format!("{properties} {quote}one{glue}{pad}two{glue}{pad} three{quote}\n")
        }
        13 => format!("{properties}{}\n", g.pick(&["", "  ", " # c", " *a", " *b"])),
        _ => format!("{properties} {}{}\n", scalar(g), g.pick(&["", "", "", " ", " # c", "\t"])),
    }
}

fn key(g: &mut Gen) -> String {
    match g.below(16) {
        0 => g
            .pick(&[
                "<<",
                "*a",
                "\"q k\"",
                "'s k'",
                "1",
                "1.5",
                "true",
                "y",
                "~",
                "null",
                "? a",
                "[a]",
                "{a: b}",
                "a b",
                "!!str k",
                "&a k",
                "0x1F",
                "",
                "2001-01-01",
                "1e3",
                ".inf",
                "9007199254740993",
            ])
            .to_owned(),
        1 => g.pick(PLAIN).to_owned(),
        _ => g.pick(value::KEYS).to_owned(),
    }
}

fn scalar(g: &mut Gen) -> String {
    match g.below(12) {
        0 | 1 => {
            let text = value::string(g).replace('\'', "''").replace('\n', "\n   ");
            format!("'{text}'")
        }
        2 | 3 => double_quoted(g),
        4 => value::string(g).replace('\n', " "),
        _ => g.pick(PLAIN).to_owned(),
    }
}

fn double_quoted(g: &mut Gen) -> String {
    let text = g.join(0, 5, "", |g| {
        g.mostly(
            &[
                "a",
                "bc",
                " ",
                "\\n",
                "\\t",
                "\\\"",
                "\\\\",
                "\\/",
                "\\x41",
                "\\u00e9",
                "\\U0001F600",
                "\\0",
                "\\a",
                "\\e",
                "\\N",
                "\\_",
                "\\L",
                "\\P",
                "\\ ",
                "é",
                "'",
                "#",
                ": ",
                "\n  ",
                "\\\n  ",
            ],
            1,
            &["\\ud83d\\ude00", "\\ud800", "\\q", "\\x4"],
        )
        .to_owned()
    });
    format!("\"{text}\"")
}

fn flow(g: &mut Gen, depth: usize) -> String {
    let space = g.pick(&["", " ", "\n     "]).to_owned();
    let item = |g: &mut Gen| if depth > 0 && g.chance(30) { flow(g, depth - 1) } else { scalar(g) };
    if g.chance(50) {
        let items = g.join(0, 3, ", ", item);
        let trailing = g.pick(&["", "", "", ","]);
        return format!("[{space}{items}{trailing}]");
    }
    let entries = g.join(0, 3, ",", |g| {
        let (key, value) = (key(g), item(g));
        match g.below(8) {
            0 => key,
            1 => format!("{key}:"),
            2 => format!("\"{key}\":{value}"),
            _ => format!("{key}: {value}"),
        }
    });
    format!("{{{entries}{space}}}")
}

/// Generates a literal or folded block scalar.
fn literal(g: &mut Gen, indent: usize) -> String {
    let style = g.pick(&["|", ">"]);
    let header = g.mostly(&["", "", "-", "+"], 6, &["2", "1-", "-2", "+1", "0", "9", " # c", "x"]);
    let pad = " ".repeat(indent);
    let lines = g.join(0, 5, "", |g| {
        let line =
            g.pick(&["text", "text", "a: b", "  more", "\ttab", "", "", "# no", "x ", "é", "- a", "   "]);
        if line.is_empty() { "\n".to_owned() } else { format!("{pad}{line}\n") }
    });
    format!("{style}{header}\n{lines}")
}
