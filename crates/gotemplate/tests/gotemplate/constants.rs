//! Constants. Each expectation was recorded from Go.

use super::templates::{gives, refuses, render, stops};

#[test]
fn numbers_as_indexes() {
    gives("{{index .strs 0}}", "p");
    gives("{{index .strs 1}}", "q");
    gives("{{index .strs 2}}", "r");
    stops(
        "{{index .strs 3}}",
        "1:2 at <index .strs 3>: error calling index: reflect: slice index out of range",
    );
    stops("{{index .strs -1}}", "1:2 at <index .strs -1>: error calling index: index out of range: -1");
    stops(
        "{{index .strs 1.0}}",
        "1:2 at <index .strs 1.0>: error calling index: cannot index slice/array with type float64",
    );
    stops(
        "{{index .strs 1e0}}",
        "1:2 at <index .strs 1e0>: error calling index: cannot index slice/array with type float64",
    );
    gives("{{index .strs 0x1}}", "q");
    stops("{{index .strs 'a'}}", "1:2 at <index .strs 'a'>: error calling index: index out of range: 97");
    stops(
        "{{index .strs 1i}}",
        "1:2 at <index .strs 1i>: error calling index: cannot index slice/array with type complex128",
    );
    stops(
        "{{index .strs 1+0i}}",
        "1:2 at <index .strs 1+0i>: error calling index: cannot index slice/array with type complex128",
    );
    gives("{{index .strs 0b10}}", "r");
    stops(
        "{{index .strs 9223372036854775807}}",
        "1:2 at <index .strs 9223372036854775807>: error calling index: index out of range: 9223372036854775807",
    );
    stops(
        "{{index .strs 18446744073709551615}}",
        "1:14 at <18446744073709551615>: 18446744073709551615 overflows int",
    );
    stops(
        "{{index .strs 1.5}}",
        "1:2 at <index .strs 1.5>: error calling index: cannot index slice/array with type float64",
    );
    gives("{{slice .s 0}}", "hello");
    gives("{{slice .s 1}}", "ello");
    gives("{{slice .s 5}}", "");
    stops("{{slice .s 6}}", "1:2 at <slice .s 6>: error calling slice: index out of range: 6");
    stops("{{slice .s -1}}", "1:2 at <slice .s -1>: error calling slice: index out of range: -1");
    stops(
        "{{slice .s 1.0}}",
        "1:2 at <slice .s 1.0>: error calling slice: cannot index slice/array with type float64",
    );
    stops("{{slice .s 'a'}}", "1:2 at <slice .s 'a'>: error calling slice: index out of range: 97");
}

#[test]
fn character_constants() {
    gives("{{'a'}}", "97");
    gives("{{'\u{e9}'}}", "233");
    gives("{{'\u{4e16}'}}", "19990");
    gives(r#"{{'\n'}}"#, "10");
    gives(r#"{{'\t'}}"#, "9");
    gives(r#"{{'\\'}}"#, "92");
    gives(r#"{{'\''}}"#, "39");
    refuses(r#"{{'\"'}}"#, "1: invalid syntax");
    gives(r#"{{'\x41'}}"#, "65");
    gives(r#"{{'\101'}}"#, "65");
    gives(r#"{{'\u00e9'}}"#, "233");
    gives(r#"{{'\U0001F600'}}"#, "128512");
    refuses(r#"{{'\q'}}"#, "1: invalid syntax");
    refuses(r#"{{'\ud800'}}"#, "1: invalid syntax");
    refuses("{{''}}", "1: invalid syntax");
    refuses("{{'ab'}}", "1: malformed character constant: 'ab'");
    refuses("{{'a}}", "1: unterminated character constant");
    refuses(r#"{{'\'}}"#, "1: unterminated character constant");
    refuses(r#"{{'\x4'}}"#, "1: invalid syntax");
    refuses(r#"{{'\400'}}"#, "1: invalid syntax");
    gives(r#"{{'\377'}}"#, "255");
    gives("{{'`'}}", "96");
    gives(r#"{{'"'}}"#, "34");
    refuses("{{'\n'}}", "1: unterminated character constant");
    gives(r#"{{printf "%T" 'a'}}"#, "int");
    gives(r#"{{printf "%T" 'é'}}"#, "int");
    gives(r#"{{printf "%T" '世'}}"#, "int");
    gives(r#"{{printf "%T" '\n'}}"#, "int");
}

#[test]
fn quoted_strings() {
    gives(r#"{{"a"}}"#, "a");
    gives(r#"{{"\n\t\r\a\b\f\v"}}"#, "\n\t\r\x07\x08\x0c\x0b");
    gives(r#"{{"\x41\101\u00e9\U0001F600"}}"#, "AA\u{e9}\u{1f600}");
    refuses(r#"{{"\'"}}"#, "1: invalid syntax");
    refuses(r#"{{"\q"}}"#, "1: invalid syntax");
    refuses(r#"{{"\ud800"}}"#, "1: invalid syntax");
    gives(r#"{{"a\"b"}}"#, r#"a"b"#);
    gives(r#"{{`a\n`}}"#, r#"a\n"#);
    gives(r#"{{`a"b`}}"#, r#"a"b"#);
    gives("{{``}}", "");
    gives(r#"{{""}}"#, "");
    gives(r#"{{"é"}}"#, "\u{e9}");
    stops(r#"{{'a' "b"}}"#, "1:2 at <'a'>: can't give argument to non-function 'a'");
    gives(r#"{{"\\"}}"#, r#"\"#);
    gives(r#"{{print "a"}}"#, "a");
    gives(r#"{{print "\n\t\r\a\b\f\v"}}"#, "\n\t\r\x07\x08\x0c\x0b");
    gives(r#"{{print "\x41\101\u00e9\U0001F600"}}"#, "AA\u{e9}\u{1f600}");
    refuses(r#"{{print "\'"}}"#, "1: invalid syntax");
}
/// Number constants, with their type and value where any type would do, or the error.
const NUMBERS: &[(&str, &str)] = &[
    ("0", "int 0"),
    ("1", "int 1"),
    ("-1", "int -1"),
    ("+5", "int 5"),
    ("1_000", "int 1000"),
    ("1__0", r#"illegal number syntax: "1__0""#),
    ("1_", r#"illegal number syntax: "1_""#),
    ("_1", r#"function "_1" not defined"#),
    ("0b11", "int 3"),
    ("0B11", "int 3"),
    ("0b12", r#"bad number syntax: "0b12""#),
    ("0b", r#"illegal number syntax: "0b""#),
    ("0o17", "int 15"),
    ("0O17", "int 15"),
    ("0o8", r#"bad number syntax: "0o8""#),
    ("017", "int 15"),
    ("08", r#"integer overflow: "08""#),
    ("09", r#"integer overflow: "09""#),
    ("0_7", "int 7"),
    ("0x1f", "int 31"),
    ("0X1F", "int 31"),
    ("0x", r#"illegal number syntax: "0x""#),
    ("0x_1F", "int 31"),
    ("0xg", r#"bad number syntax: "0xg""#),
    ("0x1p4", "float64 16"),
    ("0x1P4", "float64 16"),
    ("0x1p-2", "float64 0.25"),
    ("0x1.8", r#"illegal number syntax: "0x1.8""#),
    ("0x1.8p1", "float64 3"),
    ("0x.8p1", "float64 1"),
    ("0x1e5", "int 485"),
    ("1e3", "float64 1000"),
    ("1E3", "float64 1000"),
    ("1e+3", "float64 1000"),
    ("1e-3", "float64 0.001"),
    ("1e", r#"illegal number syntax: "1e""#),
    ("1e+", r#"illegal number syntax: "1e+""#),
    ("1e400", r#"illegal number syntax: "1e400""#),
    ("-1e400", r#"illegal number syntax: "-1e400""#),
    ("1e-400", "float64 0"),
    (".5", "float64 0.5"),
    ("-.5", "float64 -0.5"),
    ("1.", "float64 1"),
    ("1.0", "float64 1"),
    ("1.5", "float64 1.5"),
    ("1.2.3", r#"unexpected ".3" in operand"#),
    ("1.5.x", r#"unexpected . after term "1.5""#),
    ("1a", r#"bad number syntax: "1a""#),
    ("1\u{e9}", r#"bad number syntax: "1é""#),
    ("1i", "complex128 (0+1i)"),
    ("0i", "complex128 (0+0i)"),
    ("1.5i", "complex128 (0+1.5i)"),
    ("-1i", "complex128 (0-1i)"),
    ("1e2i", "complex128 (0+100i)"),
    ("0x1p1i", "complex128 (0+2i)"),
    ("1ii", r#"bad number syntax: "1ii""#),
    ("1i2", r#"bad number syntax: "1i2""#),
    ("1+2i", "complex128 (1+2i)"),
    ("1-2i", "complex128 (1-2i)"),
    ("-1-2i", "complex128 (-1-2i)"),
    ("+1+2i", "complex128 (1+2i)"),
    ("1+2", r#"bad number syntax: "1+2""#),
    ("1+2ix", r#"bad number syntax: "1+2ix""#),
    ("1+i", "syntax error scanning complex number"),
    ("1--2i", r#"bad number syntax: "1-""#),
    ("1+-2i", r#"bad number syntax: "1+""#),
    ("1e3+2i", "complex128 (1000+2i)"),
    ("0x1+2i", r#"strconv.ParseFloat: parsing "0x1": invalid syntax"#),
    ("0x1p2+0x1p3i", "complex128 (4+8i)"),
    ("1.2p4+1i", r#"bad number syntax: "1.2p""#),
    ("1p4+1i", r#"bad number syntax: "1p""#),
    ("1p-1+2p1i", r#"bad number syntax: "1p""#),
    ("1_0+2i", "complex128 (10+2i)"),
    ("1+2_0i", "complex128 (1+20i)"),
    ("0i+1i", "syntax error scanning complex number"),
    ("1+2i+3i", r#"unexpected "+3i" in operand"#),
    ("1+0i", "complex128 (1+0i)"),
    ("2.0+0i", "complex128 (2+0i)"),
    ("2.5+0i", "complex128 (2.5+0i)"),
    ("-0", "int 0"),
    ("-0.0", "float64 -0"),
    ("0.0", "float64 0"),
    ("0e0", "float64 0"),
    ("00", "int 0"),
    ("9223372036854775807", "int 9223372036854775807"),
    ("9223372036854775808", "1:17 at <9223372036854775808>: 9223372036854775808 overflows int"),
    ("-9223372036854775808", "int -9223372036854775808"),
    ("-9223372036854775809", r#"integer overflow: "-9223372036854775809""#),
    ("18446744073709551615", "1:17 at <18446744073709551615>: 18446744073709551615 overflows int"),
    ("18446744073709551616", r#"integer overflow: "18446744073709551616""#),
    ("0xffffffffffffffff", "1:17 at <0xffffffffffffffff>: 0xffffffffffffffff overflows int"),
    ("0x8000000000000000", "1:17 at <0x8000000000000000>: 0x8000000000000000 overflows int"),
    ("1e18", "float64 1e+18"),
    ("1e19", "float64 1e+19"),
    ("1e20", "float64 1e+20"),
    ("9.5e18", "float64 9.5e+18"),
    ("0x1p62", "float64 4.611686018427388e+18"),
    ("0x1p63", "float64 9.223372036854776e+18"),
    ("0x1p64", "float64 1.8446744073709552e+19"),
    ("99999999999999999999", r#"integer overflow: "99999999999999999999""#),
    ("1.0e5", "float64 100000"),
    ("1e1", "float64 10"),
    ("0b1e1", r#"bad number syntax: "0b1e""#),
    ("0o1e1", r#"bad number syntax: "0o1e""#),
    ("0x1i", r#"illegal number syntax: "0x1i""#),
    ("0b1i", r#"illegal number syntax: "0b1i""#),
    ("07i", "complex128 (0+7i)"),
    ("08i", "complex128 (0+8i)"),
    ("1e1000+1i", r#"strconv.ParseFloat: parsing "1e1000": value out of range"#),
    ("1+1e1000i", r#"strconv.ParseFloat: parsing "+1e1000": value out of range"#),
    ("1p+1i", r#"bad number syntax: "1p""#),
    ("1p1p1+1i", r#"bad number syntax: "1p""#),
    ("0b1+2i", "syntax error scanning complex number"),
    ("0o7+1i", "syntax error scanning complex number"),
    ("0x1p2+1i", "complex128 (4+1i)"),
    ("1+0x1p3i", "complex128 (1+8i)"),
    ("0X1P2+1e3i", "complex128 (4+1000i)"),
    ("1.5+.5i", "complex128 (1.5+0.5i)"),
    ("1+1e-3i", "complex128 (1+0.001i)"),
    ("0x_1p1+1i", "complex128 (2+1i)"),
    ("1e+3-2e-2i", "complex128 (1000-0.02i)"),
    ("1_000.5+1E2i", "complex128 (1000.5+100i)"),
    ("1.+1.i", "complex128 (1+1i)"),
    ("0x1.8p1+0x.8p-1i", "complex128 (3+0.25i)"),
    ("1e1e1", r#"bad number syntax: "1e1e""#),
    ("-", r#"illegal number syntax: "-""#),
    ("+", r#"illegal number syntax: "+""#),
    ("+-", r#"bad number syntax: "+-""#),
    ("--1", r#"bad number syntax: "--1""#),
    ("1-", r#"bad number syntax: "1-""#),
    ("1+", r#"bad number syntax: "1+""#),
];

#[test]
fn numbers_have_the_type_of_their_spelling() {
    for (number, expected) in NUMBERS {
        let given = render(&format!("{{{{printf \"%T %v\" {number} {number}}}}}"));
        let given = given.unwrap_or_else(|error| {
            let error = error.replacen("template: main:1: ", "", 1).replacen("template: main:", "", 1);
            error.replacen(": executing \"main\" at ", " at ", 1)
        });
        assert_eq!(given, *expected, "{number}");
    }
}
