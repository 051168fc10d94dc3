//! Corner cases of reading YAML; the tables were recorded from `sigs.k8s.io/yaml`.

use steersman_yaml::{
    Error, Position, from_slice, from_slice_as, from_slice_strict, from_str, json, object_from_slice,
    to_string,
};

type Cases<'c> = &'c [(&'c str, &'c str)];

fn check(cases: Cases<'_>, read: impl Fn(&str) -> Result<String, Error>, fails: bool) {
    for (text, expected) in cases {
        let (answer, failed) = match read(text) {
            Ok(json) => (json, false),
            Err(error) => (error.to_string(), true),
        };
        assert_eq!((answer.as_str(), failed), (*expected, fails), "{text:?}");
    }
}

fn read(text: &str) -> Result<String, Error> {
    json::to_string(&from_str(text)?)
}

fn read_strictly(text: &str) -> Result<String, Error> {
    json::to_string(&from_slice_strict(text.as_bytes())?)
}

fn read_object(text: &str) -> Result<String, Error> {
    json::to_string(&object_from_slice(text.as_bytes())?)
}

fn reads(cases: Cases<'_>) {
    check(cases, read, false);
}

fn fails(cases: Cases<'_>) {
    check(cases, read, true);
}

fn reads_strictly(cases: Cases<'_>) {
    check(cases, read_strictly, false);
}

fn fails_strictly(cases: Cases<'_>) {
    check(cases, read_strictly, true);
}

fn reads_object(cases: Cases<'_>) {
    check(cases, read_object, false);
}

fn fails_object(cases: Cases<'_>) {
    check(cases, read_object, true);
}

#[test]
fn plain_scalars_resolve_by_yaml_1_1() {
    reads(&[
        ("[y, Y, yes, Yes, on, On, true, True, TRUE]", "[true,true,true,true,true,true,true,true,true]"),
        ("[n, N, no, No, NO, off, false]", "[false,false,false,false,false,false,false]"),
        (r#"[null, Null, NULL, ~, '', ""]"#, r#"[null,null,null,null,"",""]"#),
        ("[017, 0o17, 0b11, -0b11, 0b-1, 0x1F, 1_000, 08, +1, -0]", "[15,15,3,-3,-1,31,1000,8,1,0]"),
        (
            "[1e3, 1.0, 1.5, .5, 5., 1E-7, 1e400, 123456789.5, 1e21]",
            r#"[1000,1,1.5,0.5,5,1e-7,"1e400",123456789.5,1e+21]"#,
        ),
        ("[-inf, +nan, -Infinity, +1e, -.e1]", r#"["-inf","+nan","-Infinity","+1e","-.e1"]"#),
        (
            "[9223372036854775807, 9223372036854775808, 18446744073709551616, -9223372036854775809]",
            "[9223372036854775807,9223372036854775808,18446744073709552000,-9223372036854776000]",
        ),
        (
            "[2001-01-01, 2001-12-14t21:59:43.10-05:00, 12:30, 12:30:45, 190:20:30]",
            r#"["2001-01-01","2001-12-14t21:59:43.10-05:00","12:30","12:30:45","190:20:30"]"#,
        ),
        (
            r#"[0x, 0b2, 1.2.3, _1, 1__0, --1, '017', "yes", <<, =]"#,
            r#"["0x","0b2","1.2.3","_1",10,"--1","017","yes","\u003c\u003c","="]"#,
        ),
    ]);
    fails(&[
        ("a: .inf", "json: unsupported value: +Inf"),
        ("a: -.inf", "json: unsupported value: -Inf"),
        ("a: .nan", "json: unsupported value: NaN"),
    ]);
}

#[test]
fn keys_become_strings() {
    reads(&[
        (
            "y: 1\nn: 2\n1: 3\n1.50: 4\n0x10: 5\n2001-01-01: 6",
            r#"{"1":3,"1.5":4,"16":5,"2001-01-01":6,"false":2,"true":1}"#,
        ),
        ("1e6: a\n.inf: b\n-0.0: c", r#"{"-0":"c",".inf":"b","1e+06":"a"}"#),
    ]);
    fails(&[
        ("~: 1", "unsupported map key of type: %!s(<nil>), key: <nil>, value: 1"),
        (": 1", "yaml: did not find expected key"),
        ("? \n: a", r#"unsupported map key of type: %!s(<nil>), key: <nil>, value: "a""#),
        (
            "18446744073709551615: x",
            r#"unsupported map key of type: uint64, key: 0xffffffffffffffff, value: "x""#,
        ),
        ("? [a, 1]\n: b", r#"yaml: invalid map key: []interface {}{"a", 1}"#),
        ("? {a: 1}\n: b", r#"yaml: invalid map key: map[interface {}]interface {}{"a":1}"#),
        (
            "key: {{ .Values.x }}",
            r#"yaml: invalid map key: map[interface {}]interface {}{".Values.x":interface {}(nil)}"#,
        ),
        ("port: {{ 8080 }}", "yaml: invalid map key: map[interface {}]interface {}{8080:interface {}(nil)}"),
        ("{{ a }}: b", r#"yaml: invalid map key: map[interface {}]interface {}{"a":interface {}(nil)}"#),
        ("{{{a: b}: c}: d}", r#"yaml: invalid map key: map[interface {}]interface {}{"a":"b"}"#),
        ("[{[]: 1}]", "yaml: invalid map key: []interface {}{}"),
    ]);
}

#[test]
fn tags_choose_the_type() {
    reads(&[
        (
            "[!!str 1, !!int '1', !!float 1, !!bool 'yes', !!null '', !foo 1, ! 1, !<tag:yaml.org,2002:str> 1]",
            r#"["1",1,1,true,null,"1","1","1"]"#,
        ),
        ("%TAG !e! tag:yaml.org,2002:\n--- !e!str 1", r#""1""#),
        ("!!map {a: 1}", r#"{"a":1}"#),
        ("!!str", r#""""#),
        ("!!int 0x1f", "31"),
    ]);
    fails(&[
        (
            r#"[!!binary aGVsbG8=, !!binary "aGVs\n bG8=", !!timestamp 2001-01-01, !!set {a}]"#,
            "yaml: !!binary value contains invalid base64 data",
        ),
        ("!!int x", "yaml: cannot decode !!str `x` as a !!int"),
        ("!!bool 1", "yaml: cannot decode !!int `1` as a !!bool"),
        ("!!float 18446744073709551615", "yaml: cannot decode !!int `18446744073709551615` as a !!float"),
        ("!!null x", "yaml: cannot decode !!str `x` as a !!null"),
        ("!!timestamp x", "yaml: cannot decode !!str `x` as a !!timestamp"),
        ("!!binary '*'", "yaml: !!binary value contains invalid base64 data"),
        ("!!int ''", "yaml: cannot decode !!null `` as a !!int"),
        ("!e!x y", "yaml: found undefined tag handle"),
    ]);
}

#[test]
fn anchors_and_merges() {
    reads(&[
        ("a: &x 1\nb: *x", r#"{"a":1,"b":1}"#),
        ("a: &x {k: 1}\nb: {<<: *x, l: 2}", r#"{"a":{"k":1},"b":{"k":1,"l":2}}"#),
        ("a: &x {k: 1}\nb: {k: 3, <<: *x}", r#"{"a":{"k":1},"b":{"k":1}}"#),
        (
            "a: &x {k: 1}\nb: &y {k: 2, l: 3}\nc: {<<: [*x, *y]}",
            r#"{"a":{"k":1},"b":{"k":2,"l":3},"c":{"k":1,"l":3}}"#,
        ),
        ("a: {<<: {k: 1}}", r#"{"a":{"k":1}}"#),
        ("a: {'<<': 1}", r#"{"a":{"\u003c\u003c":1}}"#),
        ("&a a: *a", r#"{"a":"a"}"#),
        ("a: &x\nb: *x", r#"{"a":null,"b":null}"#),
        ("&x a: 1\n&x b: 2\nc: *x", r#"{"a":1,"b":2,"c":"b"}"#),
    ]);
    fails(&[
        ("a: &x [1, *x]", "yaml: anchor 'x' value contains itself"),
        ("a: *x", "yaml: unknown anchor 'x' referenced"),
        ("a: {<<: 1}", "yaml: map merge requires map or sequence of maps as the value"),
        ("a: {<<: [1]}", "yaml: map merge requires map or sequence of maps as the value"),
    ]);
}

#[test]
fn styles() {
    reads(&[
        ("a: b c\n  d\n\n  e\n", r#"{"a":"b c d\ne"}"#),
        ("a: 'b\n  c''d\n\n  e'", r#"{"a":"b c'd\ne"}"#),
        ("a: \"b\\\n  c \\x41\\u00e9\\U0001F600\\n\\t\\0 \n  d\"", "{\"a\":\"bc Aé😀\\n\\t\\u0000 d\"}"),
        ("a: |\n  x\n   y\n\n  z\n\n", r#"{"a":"x\n y\n\nz\n"}"#),
        ("a: |-\n  x\n\n", r#"{"a":"x"}"#),
        ("a: |+\n  x\n\n", r#"{"a":"x\n\n"}"#),
        ("a: >\n  x\n  y\n\n  z\n   w\n  v\n", r#"{"a":"x y\nz\n w\nv\n"}"#),
        ("a: >-\n\n  x\n  y\n", r#"{"a":"\nx y"}"#),
        ("a: |2\n    x\n", r#"{"a":"  x\n"}"#),
        ("a: |\n\n   x\n", r#"{"a":"\nx\n"}"#),
        ("- |\n a\n- >\n a\n b\n", r#"["a\n","a b\n"]"#),
        ("a: |1\n x", r#"{"a":"x"}"#),
        ("a: \"x\ty\"", r#"{"a":"x\ty"}"#),
        ("a:\tb", r#"{"a":"b"}"#),
        ("a: 'x' # c", r#"{"a":"x"}"#),
        ("a: x#y # z", r#"{"a":"x#y"}"#),
    ]);
    fails(&[
        (r#""a\/b""#, "yaml: found unknown escape character"),
        ("a: |x", "yaml: did not find expected comment or line break"),
        ("a: |0", "yaml: found an indentation indicator equal to 0"),
        ("a: |\n\tx", "yaml: line 2: found a tab character where an indentation space is expected"),
        ("'a", "yaml: found unexpected end of stream"),
        (r#""a"#, "yaml: found unexpected end of stream"),
        (r#""\q""#, "yaml: found unknown escape character"),
        (r#""\ud800""#, "yaml: found invalid Unicode character escape code"),
        (r#""\x4""#, "yaml: did not find expected hexdecimal number"),
        ("'a\n--- b'", "yaml: line 2: found unexpected document indicator"),
    ]);
}

#[test]
fn escapes_stand_for_characters() {
    for (escape, character) in [
        ("0", "\0"),
        ("a", "\u{7}"),
        ("b", "\u{8}"),
        ("t", "\t"),
        ("\t", "\t"),
        ("n", "\n"),
        ("v", "\u{B}"),
        ("f", "\u{C}"),
        ("r", "\r"),
        ("e", "\u{1B}"),
        (" ", " "),
        ("\"", "\""),
        ("'", "'"),
        ("\\", "\\"),
        ("N", "\u{85}"),
        ("_", "\u{A0}"),
        ("L", "\u{2028}"),
        ("P", "\u{2029}"),
        ("x7e", "~"),
        ("u20AC", "€"),
        ("U0010FFFF", "\u{10FFFF}"),
    ] {
        let read = from_str(&format!("\"[\\{escape}]\"")).unwrap();
        assert_eq!(read, serde_json::json!(format!("[{character}]")), "{escape}");
    }
}

#[test]
fn keys_may_have_1024_characters() {
    for letter in ["a", "é", "😀"] {
        let key = |count: usize| format!("é😀: 1\n{}: 2", letter.repeat(count));
        assert!(from_str(&key(1024)).is_ok(), "{letter}");
        let error = from_str(&key(1025)).unwrap_err().to_string();
        assert_eq!(error, "yaml: line 2: could not find expected ':'", "{letter}");
        // On the first line a key is not required yet, so its `:` is rejected instead.
        let error = from_str(&format!("{}: 2", letter.repeat(1025))).unwrap_err().to_string();
        assert_eq!(error, "yaml: mapping values are not allowed in this context", "{letter}");
        assert!(from_str(&format!("? {}\n: 2", letter.repeat(2000))).is_ok());
    }
}

#[test]
fn collections() {
    reads(&[
        ("- a\n- - b\n  - c\n-\n- d: 1\n  e: 2", r#"["a",["b","c"],null,{"d":1,"e":2}]"#),
        ("a:\n- b\n- c\nd:\n  - e", r#"{"a":["b","c"],"d":["e"]}"#),
        ("{a: 1, b, ? c, 'd':2, e: [x, y: z]}", r#"{"a":1,"b":null,"c":null,"d":2,"e":["x",{"true":"z"}]}"#),
        ("[a b: c]", r#"[{"a b":"c"}]"#),
        ("? a\n: b\n? c", r#"{"a":"b","c":null}"#),
        ("{}", "{}"),
        ("[]", "[]"),
        ("[]: x", "[]"),
        ("{}: x", "{}"),
        ("a: []\nb: {}", r#"{"a":[],"b":{}}"#),
        ("- - - a", r#"[[["a"]]]"#),
        ("a: [\n]", r#"{"a":[]}"#),
        ("'a': b", r#"{"a":"b"}"#),
        ("'a':b", "\"a\""),
        ("\"a\":b\nc: d", "\"a\""),
    ]);
    fails(&[
        ("[a, , b]", "yaml: did not find expected node content"),
        ("[a, b", "yaml: line 1: did not find expected ',' or ']'"),
        ("{a: b", "yaml: line 1: did not find expected ',' or '}'"),
        ("{a: b]", "yaml: did not find expected ',' or '}'"),
        ("a: {b\n: c}", "yaml: line 1: did not find expected ',' or '}'"),
        ("? - a\n  - b\n: c", r#"yaml: invalid map key: []interface {}{"a", "b"}"#),
        ("a: b: c", "yaml: mapping values are not allowed in this context"),
        ("a\nb: c", "yaml: line 2: mapping values are not allowed in this context"),
        ("a:\n  b\n c: d", "yaml: line 3: mapping values are not allowed in this context"),
        ("- a\nb: c", "yaml: line 1: did not find expected '-' indicator"),
        ("a: 1\n- b", "yaml: line 1: did not find expected key"),
        ("a: 1\n b: 2", "yaml: line 2: mapping values are not allowed in this context"),
        ("a: b\n  c: d", "yaml: line 2: mapping values are not allowed in this context"),
        ("a: 'b' c", "yaml: did not find expected key"),
        ("*a : b", "yaml: unknown anchor 'a' referenced"),
        ("foo: bar: baz\n", "yaml: mapping values are not allowed in this context"),
        ("a:\n    b: 1\n  c: 2", "yaml: line 2: did not find expected key"),
        ("[a]: b", r#"yaml: invalid map key: []interface {}{"a"}"#),
        ("[| a]", "yaml: found character that cannot start any token"),
        ("{a: > b}", "yaml: found character that cannot start any token"),
        ("[- a]", "yaml: did not find expected node content"),
    ]);
}

#[test]
fn whole_floats_are_whole_numbers() {
    assert_eq!(from_str("[-2.0, 3.0, -0.5]").unwrap(), serde_json::json!([-2, 3, -0.5]));
}

#[test]
fn tags_say_what_plain_text_is() {
    reads(&[
        ("!!float 1.5", "1.5"),
        ("!!float 1", "1"),
        ("!!float 0x10", "16"),
        ("!!float 1e3", "1000"),
        ("!!float '1.5'", "1.5"),
        ("!!bool 'true'", "true"),
        ("!!null null", "null"),
        ("!!str 1.5", "\"1.5\""),
        ("!!timestamp 2001-01-01", "\"2001-01-01\""),
        ("!!binary aGk=", "\"hi\""),
        ("!!merge <<", "\"\\u003c\\u003c\""),
        ("!!float 1_000.5", "1000.5"),
        ("!!float -1", "-1"),
        ("!!int 18446744073709551615", "18446744073709551615"),
    ]);
    fails(&[
        ("!!float .inf", "json: unsupported value: +Inf"),
        ("!!float x", "yaml: cannot decode !!str `x` as a !!float"),
        ("!!int 1.0", "yaml: cannot decode !!float `1.0` as a !!int"),
        ("!!int 1.5", "yaml: cannot decode !!float `1.5` as a !!int"),
    ]);
}

#[test]
fn directives_and_tags_are_read() {
    reads(&[
        ("%YAML 01.01\n---\na", "\"a\""),
        ("%YAML 1.1 # c\n---\na", "\"a\""),
        ("%TAG !a! tag:x,2000:%21\n---\n!a!b c", "\"c\""),
        ("!<tag:yaml.org,2002:int> 5", "5"),
        ("!%41 a", "\"a\""),
        ("!!str,x", "\"\""),
    ]);
    fails(&[
        ("%YAML 1.100\n---\na", "yaml: found extremely long version number"),
        ("%YAML 100.1\n---\na", "yaml: found extremely long version number"),
        ("%YAML 1.10\n---\na", "yaml: found incompatible YAML document"),
        ("%YAML 1\n---\na", "yaml: did not find expected digit or '.' character"),
        ("%YAML .1\n---\na", "yaml: did not find expected version number"),
        ("%YAML x\n---\na", "yaml: did not find expected version number"),
        ("%YAML 1.\n---\na", "yaml: did not find expected version number"),
        ("%YAML 1.1 x\n---\na", "yaml: did not find expected comment or line break"),
        ("%YAML 1.1\n%YAML 1.1\n---\na", "yaml: line 1: found duplicate %YAML directive"),
        ("%TAG ! x\n%TAG ! y\n---\na", "yaml: line 1: found duplicate %TAG directive"),
        ("%TAG !a x\n---\na", "yaml: did not find expected '!'"),
        ("%TAG !a! \n---\na", "yaml: did not find expected tag URI"),
        ("%TAG x y\n---\na", "yaml: did not find expected '!'"),
        ("%YAML\n---\na", "yaml: did not find expected version number"),
        ("%TAG !a!x\n---\na", "yaml: did not find expected whitespace"),
        ("!a!%zz b", "yaml: did not find URI escaped octet"),
        ("!<x b", "yaml: did not find the expected '>'"),
        ("!<> a", "yaml: did not find expected tag URI"),
    ]);
}

#[test]
fn documents() {
    reads(&[
        ("", "null"),
        ("\n", "null"),
        ("# c", "null"),
        ("---", "null"),
        ("--- a\n...\n", r#""a""#),
        ("--- a\n--- b", r#""a""#),
        ("a: 1\n---\nb: [", r#"{"a":1}"#),
        ("%YAML 1.1\n---\na: 1", r#"{"a":1}"#),
        ("a: 1\n%YAML 1.1", r#"{"a":1}"#),
        ("--- |\n x\n", r#""x\n""#),
        ("---a", r#""---a""#),
        ("\u{FEFF}a: 1", r#"{"a":1}"#),
        ("a: 1\n\u{FEFF}b: 2", "{\"a\":1,\"\u{FEFF}b\":2}"),
        ("--- # c\na: 1", r#"{"a":1}"#),
        ("a: 1 ...", r#"{"a":"1 ..."}"#),
        ("'a' 'b'", r#""a""#),
        ("a: 1\n...\nb: }", r#"{"a":1}"#),
    ]);
    fails(&[
        ("...", "yaml: did not find expected node content"),
        ("%YAML 1.2\n---\na: 1", "yaml: found incompatible YAML document"),
        ("%FOO\n---\na", "yaml: found unknown directive name"),
        ("%YAML 1.1\na: 1", "yaml: line 1: did not find expected <document start>"),
        ("...\na: 1", "yaml: did not find expected node content"),
    ]);
}

#[test]
fn line_breaks_and_bad_characters() {
    reads(&[
        ("a: 1\r\nb: 2\rc: 3\u{85}d: 4", r#"{"a":1,"b":2,"c":3,"d":4}"#),
        ("a: 'x\u{2028}y\u{2029} z'", r#"{"a":"x\u2028y\u2029z"}"#),
        ("a: |\r\n  x\r\n  y\r\n", r#"{"a":"x\ny\n"}"#),
        ("a: b `c", r#"{"a":"b `c"}"#),
    ]);
    fails(&[
        ("a: \u{1}", "yaml: control characters are not allowed"),
        ("a: \u{7F}", "yaml: control characters are not allowed"),
        ("\ta: 1", "yaml: found character that cannot start any token"),
        ("a:\n\tb: 1", "yaml: line 2: found character that cannot start any token"),
        ("a: b\n\tc", "yaml: line 2: found a tab character that violates indentation"),
        ("- \ta", "yaml: found character that cannot start any token"),
        ("@a", "yaml: found character that cannot start any token"),
        ("`a", "yaml: found character that cannot start any token"),
        ("a: %b", "yaml: found character that cannot start any token"),
        ("%a", "yaml: found unknown directive name"),
        ("a: @b", "yaml: found character that cannot start any token"),
        ("- -\ta", "yaml: found character that cannot start any token"),
        ("a: \n  - b\n \t- c", "yaml: line 3: found a tab character that violates indentation"),
    ]);
}

#[test]
fn strict_reading_refuses_repeated_keys() {
    reads_strictly(&[("a: {b: 1}\nb: {b: 1}", r#"{"a":{"b":1},"b":{"b":1}}"#)]);
    fails_strictly(&[
        ("a: 1\nb: 2\na: 3", "yaml: unmarshal errors:\n  line 3: key \"a\" already set in map"),
        ("{a: 1, 'a': 2}", "yaml: unmarshal errors:\n  line 1: key \"a\" already set in map"),
        ("1: a\n0x1: b", "yaml: unmarshal errors:\n  line 2: key 1 already set in map"),
        ("y: 1\nyes: 2", "yaml: unmarshal errors:\n  line 2: key true already set in map"),
        (
            "a: &x {k: 1}\nb: {k: 2, <<: *x}",
            "yaml: unmarshal errors:\n  line 1: key \"k\" already set in map",
        ),
        ("~: 1\n~: 2", "yaml: unmarshal errors:\n  line 2: key <nil> already set in map"),
        (
            "1.5: a\n1.50: b\na: {c: 1,\n  c: 2}",
            "yaml: unmarshal errors:\n  line 2: key 1.5 already set in map\n  line 4: key \"c\" already set in map",
        ),
    ]);
}

#[test]
fn untyped_reading_names_what_it_found() {
    reads_object(&[
        ("a: 1\nb: 9223372036854775807", r#"{"a":1,"b":9223372036854776000}"#),
        ("", "{}"),
        ("null", "{}"),
    ]);
    fails_object(&[
        (
            "[]",
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        (
            "1",
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal number into Go value of type map[string]interface {}",
        ),
        (
            "x",
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal string into Go value of type map[string]interface {}",
        ),
        (
            "true",
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal bool into Go value of type map[string]interface {}",
        ),
        (
            "1.5",
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal number into Go value of type map[string]interface {}",
        ),
        ("a: b: c", "error converting YAML to JSON: yaml: mapping values are not allowed in this context"),
        ("a: .inf", "error converting YAML to JSON: json: unsupported value: +Inf"),
    ]);
}

#[test]
fn positions_are_exact_where_go_is_not() {
    let position = |text: &str| from_str(text).unwrap_err().position();
    assert_eq!(position("a: 1\nb: c: d"), Some(Position { line: 2, column: 5 }));
    assert_eq!(position("a: 1\nb: [c\nd: e"), Some(Position { line: 3, column: 2 }));
    assert_eq!(position("é: 1\né: é: é"), Some(Position { line: 2, column: 5 }));
    assert_eq!(position("a:\n  - {{ x }}"), Some(Position { line: 2, column: 6 }));
    assert_eq!(position("a: \u{1}"), None);
}

#[test]
fn aliases_may_not_multiply_without_bound() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    assert_eq!(from_str(&bomb).unwrap_err().to_string(), "yaml: document contains excessive aliasing");
}

#[test]
fn aliases_may_not_repeat_long_text_without_bound() {
    let text = format!("a: &a \"{}\\n\"\nb: [{}]\n", "x".repeat(1 << 20), "*a, ".repeat(100));
    assert_eq!(from_str(&text).unwrap_err().to_string(), "yaml: document contains excessive aliasing");
}

#[test]
fn depth_is_bounded() {
    for text in ["[".repeat(100_000), "- ".repeat(100_000), "{a: ".repeat(100_000), "? ".repeat(100_000)] {
        assert!(from_str(&text).unwrap_err().to_string().contains("exceeded max depth"));
    }
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    let value = from_str(&deep).unwrap();
    assert_eq!(json::to_string(&value).unwrap(), deep);
    assert_eq!(from_str(&to_string(&value).unwrap()).unwrap(), value);
    assert_eq!(from_slice_as::<serde_json::Value>(deep.as_bytes()).unwrap(), value);
    let aliases: String = (1..600).map(|n| format!("a{n}: &a{n} [*a{}]\n", n - 1)).collect();
    let error = from_str(&format!("a0: &a0 x\n{aliases}")).unwrap_err();
    assert_eq!(error.to_string(), "yaml: exceeded max depth of 500");
}

#[test]
fn utf_16_is_read() {
    let text = "a: é\nb: 😀";
    let little: Vec<u8> =
        [0xFEFF].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = [0xFEFF].into_iter().chain(text.encode_utf16()).flat_map(u16::to_be_bytes).collect();
    let expected = serde_json::json!({ "a": "é", "b": "😀" });
    assert_eq!(from_slice(&little).unwrap(), expected);
    assert_eq!(from_slice(&big).unwrap(), expected);
}

/// goyaml decodes ahead of its scanner, but not far.
#[test]
fn a_mistake_comes_before_bytes_that_are_broken_far_behind_it() {
    let read = |between: usize| {
        let text = [b"a: [}\n#".as_slice(), &b"#".repeat(between), b"\n\xff"].concat();
        from_slice(&text).unwrap_err().to_string()
    };
    assert_eq!(read(0), "yaml: invalid leading UTF-8 octet");
    assert_eq!(read(5000), "yaml: did not find expected node content");
}
