//! JSON documents and values.

use serde_json::{Value as Json, json};

use super::{Gen, value};

/// Generates a request to parse or format JSON.
pub fn request(g: &mut Gen) -> Json {
    if g.chance(50) {
        return json!({ "op": "json", "do": "decode", "text": text(g) });
    }
    json!({ "op": "json", "do": g.pick(&["encode", "raw", "pretty"]), "value": value::typed(g, 3) })
}

/// Generates a JSON document, sometimes an invalid one.
pub fn text(g: &mut Gen) -> String {
    let text = match g.below(5) {
        0 => g
            .pick(&[
                "{\"a\":1}",
                "[1,2]",
                "null",
                "",
                "{",
                "[1,]",
                "{\"a\":1,}",
                "tru",
                "1e400",
                "01",
                "\"\\ud800\"",
                "\"\\u00e9\"",
                "{\"a\":1}x",
                " 1 ",
                "\"\t\"",
                "[1 2]",
                "{a:1}",
                "'a'",
                "12345678901234567890",
                "1.0",
                "-",
                "-0",
                "{\"a\":{\"b\":[]}}",
                "\"a",
                "{\"a\":1,\"a\":2}",
                "[",
                "nullx",
                "{\"a\"}",
                "1.",
                "1e",
                "\u{feff}1",
                "\"\\x\"",
                "{\"a\":1 \"b\":2}",
                "[[[[]]]]",
                "\"\u{7f}\"",
            ])
            .to_owned(),
        _ => value::plain(g, 3).to_string(),
    };
    if g.chance(20) {
        g.damage(&text, &["{", "}", "[", "]", ",", ":", "\"", "\\", "1", "e", ".", "-", "null", "\n", "é"])
    } else {
        text
    }
}
