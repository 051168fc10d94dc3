//! JSON as Go's `encoding/json` reads and writes it; the tables were recorded from it.

use serde_json::Value;
use steersman_yaml::json::{self, Options};

fn reads(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(json::to_string(&json::from_str(text).unwrap()).unwrap(), *expected, "{text:?}");
    }
}

fn fails(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(json::from_str(text).unwrap_err().to_string(), *expected, "{text:?}");
    }
}

fn check(cases: &[(&str, &str)], options: Options) {
    for (text, expected) in cases {
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(json::to_string_with(&value, options).unwrap(), *expected, "{text}");
    }
}

fn writes(cases: &[(&str, &str)]) {
    check(cases, Options::default());
}

fn writes_raw(cases: &[(&str, &str)]) {
    check(cases, Options { escape_html: false, ..Options::default() });
}

fn writes_pretty(cases: &[(&str, &str)]) {
    check(cases, Options { pretty: true, ..Options::default() });
}

#[test]
fn values_are_read() {
    reads(&[
        (r#"{"a":1,"b":[true,false,null,"x"],"a":2}"#, r#"{"a":2,"b":[true,false,null,"x"]}"#),
        ("1", "1"),
        ("-0", "-0"),
        ("1.50", "1.5"),
        ("1e3", "1000"),
        ("12345678901234567890", "12345678901234567000"),
        (r#""\u00e9\ud83d\ude00\ud800\udc00x\ud800\ud800""#, "\"é😀𐀀x��\""),
        (r#""\"\\\/\b\f\n\r\t""#, r#""\"\\/\b\f\n\r\t""#),
        (" [ ] ", "[]"),
        (r#"{"b":{"a":{}}}"#, r#"{"b":{"a":{}}}"#),
    ]);
}

#[test]
fn problems_are_named() {
    fails(&[
        ("", "unexpected end of JSON input"),
        ("  ", "unexpected end of JSON input"),
        ("{", "unexpected end of JSON input"),
        ("[1,", "unexpected end of JSON input"),
        ("[1 2]", "invalid character '2' after array element"),
        (r#"{"a""#, "unexpected end of JSON input"),
        (r#"{"a" 1}"#, "invalid character '1' after object key"),
        (r#"{"a":1 "b"}"#, r#"invalid character '"' after object key:value pair"#),
        (r#"{"a":1,}"#, "invalid character '}' looking for beginning of object key string"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("[,]", "invalid character ',' looking for beginning of value"),
        ("{,}", "invalid character ',' looking for beginning of object key string"),
        ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
        ("x", "invalid character 'x' looking for beginning of value"),
        ("tru", "invalid character ' ' in literal true (expecting 'e')"),
        ("trux", "invalid character 'x' in literal true (expecting 'e')"),
        ("nul", "invalid character ' ' in literal null (expecting 'l')"),
        ("01", "invalid character '1' after top-level value"),
        ("-", "invalid character ' ' in numeric literal"),
        ("-x", "invalid character 'x' in numeric literal"),
        ("1.", "invalid character ' ' after decimal point in numeric literal"),
        ("1.x", "invalid character 'x' after decimal point in numeric literal"),
        ("1e", "invalid character ' ' in exponent of numeric literal"),
        ("1e+", "invalid character ' ' in exponent of numeric literal"),
        ("+1", "invalid character '+' looking for beginning of value"),
        (".5", "invalid character '.' looking for beginning of value"),
        ("'a'", "invalid character '\\'' looking for beginning of value"),
        (r#""a"#, "unexpected end of JSON input"),
        (r#""\x""#, "invalid character 'x' in string escape code"),
        (r#""\u12x""#, "invalid character 'x' in \\u hexadecimal character escape"),
        (r#""\u12"#, "invalid character ' ' in \\u hexadecimal character escape"),
        (r#""\"#, "invalid character ' ' in string escape code"),
        ("\"\n\"", "invalid character '\\n' in string literal"),
        ("\"\u{1}\"", "invalid character '\\x01' in string literal"),
        ("1 2", "invalid character '2' after top-level value"),
        ("{} x", "invalid character 'x' after top-level value"),
        ("é", "invalid character 'Ã' looking for beginning of value"),
        ("[1e400]", "json: cannot unmarshal number 1e400 into Go value of type float64"),
        ("\u{FEFF}{}", "invalid character 'ï' looking for beginning of value"),
        (r#""a" ""#, r#"invalid character '"' after top-level value"#),
    ]);
}

#[test]
fn values_are_written() {
    writes(&[
        (
            r#"{"b":1,"a":"<>&\u2028","_":[],"A":{},"10":1,"9":2}"#,
            r#"{"10":1,"9":2,"A":{},"_":[],"a":"\u003c\u003e\u0026\u2028","b":1}"#,
        ),
        ("\"\\u0001\\u007f\\b\\f\\n\\r\\t\\\"\\\\/é😀\"", "\"\\u0001\u{7F}\\b\\f\\n\\r\\t\\\"\\\\/é😀\""),
        (
            "[1.0,1e21,1e20,1e-7,0.000001,123456789.125]",
            "[1,1e+21,100000000000000000000,1e-7,0.000001,123456789.125]",
        ),
        ("null", "null"),
    ]);
}

#[test]
fn html_may_stay() {
    writes_raw(&[(r#""<>&\u2028""#, r#""<>&\u2028""#)]);
}

#[test]
fn pretty_is_indented() {
    writes_pretty(&[
        (
            r#"{"b":[1,{"c":null}],"a":{},"d":[]}"#,
            "{\n  \"a\": {},\n  \"b\": [\n    1,\n    {\n      \"c\": null\n    }\n  ],\n  \"d\": []\n}",
        ),
        ("[]", "[]"),
        ("1", "1"),
    ]);
}

#[test]
fn bytes_that_are_no_text_are_replaced() {
    assert_eq!(json::from_slice(b"\"a\xE2\x80b\xFF\"").unwrap(), "a\u{FFFD}\u{FFFD}b\u{FFFD}");
}

/// A Go string: `<`, U+FFFD and a byte that is not UTF-8.
struct Broken;

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use std::fmt::Write;
        f.write_str("<\u{FFFD}")?;
        f.write_char('\u{FFFD}')
    }
}

impl serde::Serialize for Broken {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[test]
fn bytes_that_are_no_text_are_written_as_escapes() {
    assert_eq!(json::to_string(&Broken).unwrap(), "\"\\u003c\u{FFFD}\\ufffd\"");
}

#[test]
fn a_type_that_is_asked_for_is_checked() {
    assert!(json::object_from_slice(b"null").unwrap().is_empty());
    assert_eq!(
        json::object_from_slice(b"[]").unwrap_err().to_string(),
        "json: cannot unmarshal array into Go value of type map[string]interface {}"
    );
    assert_eq!(
        json::array_from_slice(b"{\"a\": 1e400}").unwrap_err().to_string(),
        "json: cannot unmarshal object into Go value of type []interface {}"
    );
    assert_eq!(
        json::object_from_slice(b"{\"a\": 1e400}").unwrap_err().to_string(),
        "json: cannot unmarshal number 1e400 into Go value of type float64"
    );
}

#[test]
fn depth_is_bounded() {
    assert_eq!(json::from_str(&"[".repeat(100_000)).unwrap_err().to_string(), "exceeded max depth");
    let side_by_side = format!("[{}{{}}]", "[],".repeat(100_000));
    assert_eq!(json::from_str(&side_by_side).unwrap().as_array().map(Vec::len), Some(100_001));
}
