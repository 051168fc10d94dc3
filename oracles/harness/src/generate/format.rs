//! `fmt` directives and their arguments.

use serde_json::{Value as Json, json};

use super::{Gen, value};
/// Generates a call of `fmt.Sprintf`, `Sprint` or `Sprintln`.
pub fn request(g: &mut Gen) -> Json {
    let count = g.below(4);
    let args: Vec<Json> = (0..count).map(|_| value::typed(g, 2)).collect();
    match g.below(12) {
        0 => json!({ "op": "fmt", "print": "print", "args": args }),
        1 => json!({ "op": "fmt", "print": "println", "args": args }),
        _ => json!({ "op": "fmt", "format": directives(g), "args": args }),
    }
}

/// Generates a format string with a few directives, most of them valid.
pub fn directives(g: &mut Gen) -> String {
    g.join(1, 3, "", |g| {
        let text = g.pick(&["", "", "x", " ", "%%", "é", "[", "]"]).to_owned();
        text + &directive(g)
    })
}

fn directive(g: &mut Gen) -> String {
    let mut out = String::from("%");
    while g.chance(35) {
        out += g.pick(&["+", "-", "#", " ", "0"]);
    }
    if g.chance(4) {
        out += g.pick(&["[1]", "[2]", "[3]", "[0]", "[x]", "[", "[]", "[1"]);
    }
    match g.below(10) {
        0..=2 => out += g.pick(&["1", "2", "5", "8", "10", "20"]),
        3 if g.chance(30) => out += "*",
        _ => {}
    }
    match g.below(10) {
        0..=2 => out += g.pick(&[".", ".0", ".1", ".2", ".3", ".10"]),
        3 if g.chance(20) => out += ".*",
        _ => {}
    }
    match g.below(40) {
        0 => {}
        1 => out += g.pick(&["é", "!", "y", "z", "w", "-", "\n"]),
        _ => {
            out += g.pick(&[
                "v", "v", "v", "v", "d", "d", "s", "s", "s", "q", "q", "x", "X", "T", "t", "b", "c", "o",
                "O", "U", "e", "E", "f", "F", "g", "G",
            ]);
        }
    }
    out
}
