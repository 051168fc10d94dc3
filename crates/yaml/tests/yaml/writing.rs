//! Corner cases of writing YAML; the tables were recorded from `sigs.k8s.io/yaml` and goyaml v3.

use serde_json::Value;
use steersman_yaml::{Error, to_string, to_string_pretty};

fn check(cases: &[(&str, &str)], write: impl Fn(&Value) -> Result<String, Error>) {
    for (json, expected) in cases {
        let value: Value = serde_json::from_str(json).unwrap();
        assert_eq!(write(&value).unwrap(), *expected, "{json}");
    }
}

fn writes(cases: &[(&str, &str)]) {
    check(cases, to_string);
}

fn writes_pretty(cases: &[(&str, &str)]) {
    check(cases, to_string_pretty);
}

#[test]
fn strings_are_quoted_only_where_needed() {
    writes(&[
        (
            "[\"\", \"a\", \"a b\", \" a\", \"a \", \"a: b\", \"a:b\", \":a\", \"a #b\", \"a#b\", \"#a\", \"- a\", \"-a\", \"-\", \"? a\", \"?\", \"?a\", \"[a\", \"{a\", \"&a\", \"*a\", \"!a\", \"|\", \"> x\", \"'a'\", \"it's\", \"\\\"a\\\"\", \"%a\", \"@a\", \"`a\", \"---\", \"--- a\", \"...x\", \",a\", \"a,b\"]",
            "- \"\"\n- a\n- a b\n- ' a'\n- 'a '\n- 'a: b'\n- a:b\n- :a\n- 'a #b'\n- a#b\n- '#a'\n- '- a'\n- -a\n- '-'\n- '? a'\n- '?'\n- ?a\n- '[a'\n- '{a'\n- '&a'\n- '*a'\n- '!a'\n- '|'\n- '> x'\n- '''a'''\n- it's\n- '\"a\"'\n- '%a'\n- '@a'\n- '`a'\n- '---'\n- '--- a'\n- '...x'\n- ',a'\n- a,b\n",
        ),
        (
            r#"["y", "Y", "yes", "on", "No", "true", "null", "~", "Null", "nUll", "012", "0o17", "1e3", "1.5", ".5", "-1", "0x1f", "1_000", "12:30:45", "1:60", "2001-01-01", "2001-13-01"]"#,
            "- \"y\"\n- \"Y\"\n- \"yes\"\n- \"on\"\n- \"No\"\n- \"true\"\n- \"null\"\n- \"~\"\n- \"Null\"\n- nUll\n- \"012\"\n- \"0o17\"\n- \"1e3\"\n- \"1.5\"\n- \".5\"\n- \"-1\"\n- \"0x1f\"\n- \"1_000\"\n- \"12:30:45\"\n- 1:60\n- \"2001-01-01\"\n- 2001-13-01\n",
        ),
        (
            r#"["NaN", ".nan", "inf", ".inf", "-.inf", "=", "<<", "0x", "0b", "1e400", "1.2.3", "v1", "100m", "_1", "0.1.2", ".", "..", "-", "+"]"#,
            "- NaN\n- \".nan\"\n- inf\n- \".inf\"\n- \"-.inf\"\n- =\n- <<\n- 0x\n- 0b\n- 1e400\n- 1.2.3\n- v1\n- 100m\n- _1\n- 0.1.2\n- .\n- ..\n- '-'\n- +\n",
        ),
    ]);
}

#[test]
fn days_that_there_are_stand_in_quotes() {
    for (date, is_one) in [
        ("2001-01-31", true),
        ("2001-01-32", false),
        ("2001-02-28", true),
        ("2001-02-29", false),
        ("2000-02-29", true),
        ("1900-02-29", false),
        ("2004-02-29", true),
        ("2001-04-30", true),
        ("2001-04-31", false),
        ("2001-06-31", false),
        ("2001-09-31", false),
        ("2001-11-31", false),
        ("2001-12-31", true),
        ("2001-00-01", false),
        ("2001-01-00", false),
    ] {
        let expected = if is_one { format!("\"{date}\"\n") } else { format!("{date}\n") };
        assert_eq!(to_string(date).unwrap(), expected);
    }
}

#[test]
fn special_characters_are_escaped() {
    writes(&[
        (r#""a\tb""#, "\"a\\tb\"\n"),
        (r#""a\rb""#, "\"a\\rb\"\n"),
        (r#""\u0000\u0007\u001b""#, "\"\\0\\a\\e\"\n"),
        ("\"\u{A0}x\"", "\u{A0}x\n"),
        ("\"é日本\"", "é日本\n"),
        ("\"😀\"", "\"\\U0001F600\"\n"),
        ("\"a\u{FEFF}b\"", "\"a\\uFEFFb\"\n"),
        ("\"\u{FEFF}ab\"", "\"\\uFEFF\\x61\\x62\"\n"),
        ("\"\u{2028}\"", "'\u{2028}'\n"),
        ("\"a\u{2028}b\"", "'a\u{2028}  b'\n"),
        (r#""a\\b \"c\"""#, "a\\b \"c\"\n"),
        (r#""a\u0001 'q'""#, "\"a\\x01 'q'\"\n"),
    ]);
}

#[test]
fn lines_make_literals() {
    writes(&[
        (r#"{"a": "x\ny"}"#, "a: |-\n  x\n  y\n"),
        (r#"{"a": "x\ny\n"}"#, "a: |\n  x\n  y\n"),
        (r#"{"a": "x\n\n"}"#, "a: |+\n  x\n\n"),
        (r#"{"a": "\n"}"#, "a: |2+\n\n"),
        (r#"{"a": "\nx"}"#, "a: |2-\n\n  x\n"),
        (r#"{"a": " x\ny\n"}"#, "a: |2\n   x\n  y\n"),
        (r#"{"a": "x \ny"}"#, "a: \"x \\ny\"\n"),
        (r#"{"a": "x\n y"}"#, "a: |-\n  x\n   y\n"),
        (r#"{"a": "x\ty\nz"}"#, "a: \"x\\ty\\nz\"\n"),
        (r#"{"a": "x\n "}"#, "a: \"x\\n \"\n"),
        (r#"["x\ny\n", "z"]"#, "- |\n  x\n  y\n- z\n"),
        (r#""a\nb\n""#, "|\n  a\n  b\n"),
        (r#"{"a": {"b": ["x\n  y\n\nz\n"]}}"#, "a:\n  b:\n  - |\n    x\n      y\n\n    z\n"),
        (r#"{"a\nb": 1}"#, "? |-\n  a\n  b\n: 1\n"),
    ]);
}

#[test]
fn long_text_is_folded() {
    writes(&[
        (
            r#"{"a": "word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word"}"#,
            "a: word word word word word word word word word word word word word word word word\n  word word word word word word word word word word word word word word\n",
        ),
        (
            r#"{"a": "word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word "}"#,
            "a: 'word word word word word word word word word word word word word word word word\n  word word word word word word word word word word word word word word '\n",
        ),
        (
            r#"{"a": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx y z"}"#,
            "a: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n  y z\n",
        ),
        (
            r#"{"a": "word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word"}"#,
            "a: word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word  word\n",
        ),
        (
            r#"{"a": "\u0001 word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word "}"#,
            "a: \"\\x01 word word word word word word word word word word word word word word word\n  word word word word word word word word word word word word word word word \"\n",
        ),
        (
            r#"{"a": "'word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word '"}"#,
            "a: '''word word word word word word word word word word word word word word word word\n  word word word word word word word word word word word word word word '''\n",
        ),
        (
            r#"{"key key key key key key key key key key ": "word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word"}"#,
            "'key key key key key key key key key key ': word word word word word word word word\n  word word word word word word word word word word word word word word word word\n  word word word word word word\n",
        ),
        (
            r#"["word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word"]"#,
            "- word word word word word word word word word word word word word word word word\n  word word word word word word word word word word word word word word\n",
        ),
        (
            r#""word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word""#,
            "word word word word word word word word word word word word word word word word word\n  word word word word word word word word word word word word word\n",
        ),
        (
            r#"{"a": {"b": [{"c": "word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word"}]}}"#,
            "a:\n  b:\n  - c: word word word word word word word word word word word word word word word\n      word word word word word word word word word word word word word word word\n",
        ),
        (
            "{\"a\": \"é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é x\"}",
            "a: é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é é\n  é é é é é é é é é é x\n",
        ),
    ]);
}

#[test]
fn numbers_print_as_go_prints_them() {
    writes(&[
        (
            "[0,1,-1,9223372036854775807,18446744073709551615]",
            "- 0\n- 1\n- -1\n- 9223372036854775807\n- 18446744073709551615\n",
        ),
        (
            "[1.5,0.1,1e6,1234567.5,1e20,1e21,1e-7,0.00001,100000000000000000000]",
            "- 1.5\n- 0.1\n- 1000000\n- 1.2345675e+06\n- 1e+20\n- 1e+21\n- 1e-07\n- 1e-05\n- 1e+20\n",
        ),
        (
            "[1.0,12345678.0,-0.0,1e15,150000000000000000000.0]",
            "- 1\n- 12345678\n- 0\n- 1000000000000000\n- 1.5e+20\n",
        ),
    ]);
}

#[test]
fn keys_are_sorted_naturally() {
    writes(&[
        (
            "{\"b\": 1, \"a\": 1, \"10\": 1, \"9\": 1, \"_\": 1, \"B\": 1, \"-\": 1, \"é\": 1, \"\": 1}",
            "\"\": 1\n'-': 1\n_: 1\n\"9\": 1\n\"10\": 1\nB: 1\na: 1\nb: 1\né: 1\n",
        ),
        (r#"{"a10": 1, "a9": 1, "a1": 1}"#, "a1: 1\na9: 1\na10: 1\n"),
        (
            r#"{"a-b": 1, "a.b": 1, "ab": 1, "a_b": 1, "a/b": 1, "a b": 1}"#,
            "a b: 1\na-b: 1\na.b: 1\na/b: 1\na_b: 1\nab: 1\n",
        ),
        (
            r#"{"01": 1, "1": 1, "001": 1, "10": 1, "2": 1}"#,
            "\"1\": 1\n\"01\": 1\n\"001\": 1\n\"2\": 1\n\"10\": 1\n",
        ),
    ]);
}

#[test]
fn collections_nest() {
    writes(&[
        ("{}", "{}\n"),
        ("[]", "[]\n"),
        (r#"{"a": {}, "b": []}"#, "a: {}\nb: []\n"),
        (r#"{"a": [1, [2, [3]], {"b": [4]}]}"#, "a:\n- 1\n- - 2\n  - - 3\n- b:\n  - 4\n"),
        (r#"[{"a": 1, "b": 2}, {"c": {"d": []}}]"#, "- a: 1\n  b: 2\n- c:\n    d: []\n"),
        ("[[], [[]], {}]", "- []\n- - []\n- {}\n"),
        ("null", "null\n"),
        ("true", "true\n"),
        (r#"{"a": null}"#, "a: null\n"),
        (
            r#"{"?": 1, "": 2, "true": 3, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx": 4, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx y": {"z": [1]}}"#,
            "\"\": 2\n'?': 1\n\"true\": 3\n? xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n: 4\n? xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n  y\n: z:\n  - 1\n",
        ),
    ]);
}

#[test]
fn pretty_indents_lists_and_folds_nothing() {
    writes_pretty(&[
        (
            r#"{"a": [1, [2, [3]], {"b": [4]}], "c": {}}"#,
            "a:\n  - 1\n  - - 2\n    - - 3\n  - b:\n      - 4\nc: {}\n",
        ),
        (
            r#"{"a": "word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word", "b": "x\ty\nz", "c": "x\ty", "y": "on", "n": "0o-1", "m": "1e3"}"#,
            "a: word word word word word word word word word word word word word word word word word word word word word word word word word word word word word word\nb: |-\n  x\ty\n  z\nc: \"x\\ty\"\nm: \"1e3\"\n\"n\": \"0o-1\"\n\"y\": \"on\"\n",
        ),
        ("[1.0,12345678.0,1e6,1.5,7]", "- 1\n- 1.2345678e+07\n- 1e+06\n- 1.5\n- 7\n"),
        (r#"["x\ny\n", " x\n"]"#, "- |\n  x\n  y\n- |2\n   x\n"),
        (r#"{"a1b": 1, "a10": 1, "a9": 1}"#, "a1b: 1\na9: 1\na10: 1\n"),
        ("[[1, 2], [[3]]]", "- - 1\n  - 2\n- - - 3\n"),
        (r#""text""#, "text\n"),
        ("[]", "[]\n"),
    ]);
}

#[test]
fn what_json_cannot_carry_is_refused_or_changed() {
    let problem = |value: Value| to_string(&value).unwrap_err().to_string();
    assert_eq!(problem("\u{7f}".into()), "yaml: control characters are not allowed");
    assert_eq!(problem(serde_json::json!({ "x".repeat(1100): 1 })), "yaml: did not find expected ',' or '}'");
    assert_eq!(to_string("a \u{85} b").unwrap(), "a b\n");
    let problem = |number: f64| to_string(&number).unwrap_err().to_string();
    assert_eq!(problem(f64::NAN), "error marshaling into JSON: json: unsupported value: NaN");
    assert_eq!(problem(f64::NEG_INFINITY), "error marshaling into JSON: json: unsupported value: -Inf");
}

#[derive(serde::Serialize)]
struct Example<'e> {
    b: u8,
    a: Option<&'e str>,
    variant: Variant,
    tuple: (i8, char),
    unit: (),
    bytes: Bytes,
}

#[derive(serde::Serialize)]
enum Variant {
    Named { x: u8 },
}

struct Bytes;

impl serde::Serialize for Bytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(b"hello")
    }
}

#[test]
fn structs_are_sorted_but_for_pretty() {
    let example =
        Example { b: 1, a: None, variant: Variant::Named { x: 2 }, tuple: (-1, 'y'), unit: (), bytes: Bytes };
    assert_eq!(
        to_string(&example).unwrap(),
        "a: null\nb: 1\nbytes: aGVsbG8=\ntuple:\n- -1\n- \"y\"\nunit: null\nvariant:\n  Named:\n    x: 2\n"
    );
    assert!(to_string_pretty(&example).unwrap().starts_with("b: 1\na: null\nvariant:\n"));
}

#[test]
fn a_long_key_is_marked_as_one() {
    let write = |length: usize| to_string(&serde_json::json!({"k".repeat(length): 1})).unwrap();
    assert_eq!(write(128), format!("{}: 1\n", "k".repeat(128)));
    assert_eq!(write(129), format!("? {}\n: 1\n", "k".repeat(129)));
}

#[test]
fn control_characters_have_their_short_escapes() {
    writes(&[(r#"["\u0000\u0007\b\t\u000b\f\r\u001b\u0001"]"#, "- \"\\0\\a\\b\\t\\v\\f\\r\\e\\x01\"\n")]);
}
