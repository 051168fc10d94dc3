//! Arguments of `--set` and its relatives.

use serde_json::{Value as Json, json};

use super::{Gen, value};

const PIECES: &[&str] = &[
    ",",
    "=",
    ".",
    "[",
    "]",
    "{",
    "}",
    "\\",
    "[0]",
    "[1].",
    "null",
    " ",
    "é",
    "[-1]",
    "[99999999]",
    "a.b",
    "\"",
    "\n",
];

/// Generates a request for one flag.
pub fn request(g: &mut Gen) -> Json {
    let op = g.pick(&[
        "set", "set", "set", "set", "string", "string", "json", "json", "file", "literal", "literal",
    ]);
    let count = 1 + usize::from(g.chance(20));
    let texts: Vec<String> = (0..count).map(|_| text(g, op)).collect();
    let mut request = json!({ "op": "strvals", "do": op, "texts": texts });
    if g.chance(50) {
        request["into"] = Json::Object(value::map(g, 2));
    }
    if op == "file" {
        request["files"] = json!({ "f": "content", "dir/g": "line\nline\n", "{a": "odd" });
    }
    request
}

/// Generates an argument in the flag's grammar.
pub fn text(g: &mut Gen, flag: &str) -> String {
    let out = if flag == "json" && g.chance(15) {
        Json::Object(value::map(g, 2)).to_string()
    } else {
        let assign = |g: &mut Gen| format!("{}={}", path(g), operand(g, flag));
        if flag == "literal" { assign(g) } else { g.join(1, 3, ",", assign) }
    };
    if g.chance(20) { g.damage(&out, PIECES) } else { out }
}

fn path(g: &mut Gen) -> String {
    g.join(1, 3, ".", |g| {
        let mut key = g
            .mostly(&["a", "b", "c", "x", "name", "a\\.b", "a b"], 7, &["é", "9", "", "a\\,b", "global"])
            .to_owned();
        while g.chance(20) {
            key += g.mostly(
                &["[0]", "[1]", "[2]", "[5]"],
                6,
                &["[ 0 ]", "[01]", "[-1]", "[x]", "[]", "[65537]"],
            );
        }
        key
    })
}

fn operand(g: &mut Gen, flag: &str) -> String {
    match flag {
        "json" => {
            if g.chance(85) {
                value::plain(g, 2).to_string()
            } else {
                g.pick(&[
                    "{",
                    "[1,",
                    "nul",
                    "1 2",
                    "\"a",
                    "{\"a\":1}{\"b\":2}",
                    "01",
                    "1.",
                    "",
                    "tru",
                    "'a'",
                    "[1]]",
                    "1e5",
                    "-",
                    "{\"a\":}",
                ])
                .to_owned()
            }
        }
        "file" => g.pick(&["f", "dir/g", "missing", "", "{a}", "{f,dir/g}", "f,f"]).to_owned(),
        "literal" => value::string(g),
        _ => {
            if g.chance(20) {
                return format!("{{{}}}", g.join(0, 3, ",", |g| scalar(g).to_owned()))
                    + g.pick(&["", "", "", "x", " "]);
            }
            scalar(g).to_owned()
        }
    }
}

fn scalar(g: &mut Gen) -> &'static str {
    g.pick(&[
        "",
        "1",
        "0",
        "-1",
        "01",
        "007",
        "0x10",
        "1.5",
        "1e3",
        "true",
        "false",
        "TRUE",
        "True",
        "null",
        "Null",
        "NULL",
        "~",
        "yes",
        "a",
        "abc",
        "a b",
        " a",
        "a ",
        "a\\,b",
        "a\\=b",
        "a=b",
        "12345678901",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "1_000",
        "+1",
        "é",
        "\\",
        "\\\\",
        "a.b",
        "[1]",
        "{}",
        "\"q\"",
        "'q'",
        "0.0",
        "-0",
        "1 ",
        "a\nb",
    ])
}
