//! `fmt`, `strconv` and JSON; each expectation is Go's result.

use std::any::Any;
use std::rc::Rc;

use steersman_gostd::strconv;
use steersman_gotemplate::{
    FloatType, IntType, Kind, List, ListType, Map, MapType, Object, UintType, Value, deep_equal, equal, fmt,
    less,
};

#[track_caller]
pub(super) fn prints(format: &str, args: &[Value], expected: &str) {
    let text = fmt::sprintf(format.as_bytes(), args).unwrap();
    assert_eq!(text.to_str_lossy(), expected, "{format}");
}

#[test]
fn verbs_of_integers() {
    let n = |n| Value::int(n);
    prints(
        "%d|%5d|%-5d|%05d|%+d|% d|%x|%X|%#x|%o|%#o|%O|%b|%c|%q|%U|%#U",
        &vec![n(42); 17],
        "42|   42|42   |00042|+42| 42|2a|2A|0x2a|52|052|0o52|101010|*|'*'|U+002A|U+002A '*'",
    );
    prints("%d %x %b", &[n(-42), n(-42), n(i64::MIN)], &format!("-42 -2a -1{}", "0".repeat(63)));
    prints(
        "%.0d|%.3d|%8.3d|%-8.3d|%08.3d",
        &[n(0), n(7), n(7), n(7), n(7)],
        "|007|     007|007     |     007",
    );
    prints(
        "%v %d",
        &[Value::Int(-128, IntType::Int8), Value::Uint(u64::MAX, UintType::Uint64)],
        "-128 18446744073709551615",
    );
    prints("%#v %#v", &[Value::Uint(255, UintType::Uint8), n(3)], "0xff 3");
    prints("%c%c", &[n(0x1F600), n(-1)], "\u{1F600}\u{FFFD}");
}

#[test]
fn verbs_of_floats() {
    let f = Value::float;
    prints(
        "%v %v %v %v %v",
        &[f(1.0), f(1e6), f(1e20), f(1e21), f(123_456_789.0)],
        "1 1e+06 1e+20 1e+21 1.23456789e+08",
    );
    prints("%v %v %v %v", &[f(0.0001), f(0.000_01), f(-0.0), f(5e-324)], "0.0001 1e-05 -0 5e-324");
    prints(
        "%f %.2f %8.3f %-8.1f| %+.1e %E",
        &vec![f(3.25); 6],
        "3.250000 3.25    3.250 3.2     | +3.2e+00 3.250000E+00",
    );
    prints(
        "%g %G %.3g %#g %#.3x %b",
        &[f(1e-7), f(1e-7), f(1234.5), f(1.0), f(1.0), f(1.0)],
        "1e-07 1E-07 1.23e+03 1.00000 0x1.000p+00 4503599627370496p-52",
    );
    prints("%.0f %.0f %.0f %.1f", &[f(0.5), f(1.5), f(2.5), f(0.25)], "0 2 2 0.2");
    prints(
        "%v %5v %05v %+v",
        &[f(f64::NAN), f(f64::INFINITY), f(f64::NEG_INFINITY), f(f64::INFINITY)],
        "NaN  +Inf  -Inf +Inf",
    );
    prints("%v", &[Value::Float(f64::from(0.1f32), FloatType::Float32)], "0.1");
    prints("%v %.1f", &[Value::Complex(1.0, -2.5), Value::Complex(0.0, 1.0)], "(1-2.5i) (0.0+1.0i)");
    prints("%x %X", &[f(1.5), f(-0.1)], "0x1.8p+00 -0X1.999999999999AP-04");
}

#[test]
fn verbs_of_strings_and_bytes() {
    let s = Value::string;
    prints(
        "%s|%6s|%-6s|%06s|%.2s|%q|%x|% X|%#x|%#q|%+q",
        &vec![s("h\u{e9}y"); 11],
        "h\u{e9}y|   h\u{e9}y|h\u{e9}y   |000h\u{e9}y|h\u{e9}|\"h\u{e9}y\"|68c3a979|68 C3 A9 79|0x68c3a979|`h\u{e9}y`|\"h\\u00e9y\"",
    );
    let bytes = || Value::Bytes(b"hi\xff".as_slice().into());
    prints(
        "%v %d %x %q %#v %T",
        &[bytes(), bytes(), bytes(), bytes(), bytes(), bytes()],
        "[104 105 255] [104 105 255] 6869ff \"hi\\xff\" []byte{0x68, 0x69, 0xff} []uint8",
    );
    prints("%t %5t %v", &[Value::Bool(true), Value::Bool(false), Value::Bool(true)], "true false true");
}

#[test]
fn verbs_of_containers() {
    let list = || Value::list(vec![Value::int(1), Value::string("a"), Value::Nil]);
    let map = || Value::map([("b", list()), ("a", Value::float(1.5))]);
    prints("%v %d %s", &[list(), list(), list()], "[1 a <nil>] [1 %!d(string=a) <nil>] [%!s(int=1) a <nil>]");
    prints(
        "%v %#v",
        &[map(), map()],
        "map[a:1.5 b:[1 a <nil>]] map[string]interface {}{\"a\":1.5, \"b\":[]interface {}{1, \"a\", interface {}(nil)}}",
    );
    prints(
        "%v %#v %T %q",
        &vec![Value::strings(["x", "y"]); 4],
        "[x y] []string{\"x\", \"y\"} []string [\"x\" \"y\"]",
    );
    prints(
        "%v %#v %#v",
        &[
            Value::List(List::nil(ListType::ANY)),
            Value::List(List::nil(ListType::INT)),
            Value::Map(Map::nil(MapType::ANY)),
        ],
        "[] []int(nil) map[string]interface {}(nil)",
    );
    prints(
        "%5d|%-3v|",
        &[Value::list(vec![Value::int(1), Value::int(2)]), list()],
        "[    1     2]|[1   a   <nil>]|",
    );
}

#[test]
fn malformed_formats() {
    let s = Value::string;
    prints("%!", &[], "%!!(MISSING)");
    prints("%", &[], "%!(NOVERB)");
    prints("%d %s", &[s("hi")], "%!d(string=hi) %!s(MISSING)");
    prints("%d", &[Value::int(1), s("x"), Value::Nil], "1%!(EXTRA string=x, <nil>)");
    prints("%s %v %d", &[Value::Nil, Value::Nil, Value::Nil], "%!s(<nil>) <nil> %!d(<nil>)");
    prints("%[2]d %[1]d", &[Value::int(1), Value::int(2)], "2 1");
    prints("%[3]d %[x]d %[1", &[Value::int(1)], "%!d(BADINDEX) %!d(BADINDEX) %!(NOVERB)");
    prints(
        "%*d %-*d| %.*f",
        &[Value::int(4), Value::int(7), Value::int(4), Value::int(7), Value::int(1), Value::float(2.55)],
        "   7 7   | 2.5",
    );
    prints("%*d", &[s("x"), Value::int(7)], "%!(BADWIDTH)7");
    prints("%z %w", &[Value::int(1), Value::int(2)], "%!z(int=1) %!w(int=2)");
    prints("%%%5%", &[], "%%");
}

#[test]
fn print_puts_spaces_between_other_than_strings() {
    let args =
        [Value::int(1), Value::int(2), Value::string("a"), Value::int(3), Value::Nil, Value::Bool(true)];
    assert_eq!(fmt::sprint(&args).unwrap(), "1 2a3 <nil> true");
    assert_eq!(fmt::sprintln(&args).unwrap(), "1 2 a 3 <nil> true\n");
}

/// A struct `{Name string; Count int}`, or a pointer to one, or with a `String` method.
struct Thing {
    kind: Kind,
    stringer: bool,
}

impl Object for Thing {
    fn type_name(&self) -> &str {
        if self.kind == Kind::Ptr { "*main.Thing" } else { "main.Thing" }
    }
    fn kind(&self) -> Kind {
        self.kind
    }
    fn fields(&self) -> Option<Vec<(&str, Value)>> {
        Some(vec![("Name", Value::string("n")), ("Count", Value::int(2))])
    }
    fn display(&self) -> String {
        if self.stringer { "thing!".into() } else { "{n 2}".into() }
    }
    fn is_stringer(&self) -> bool {
        self.stringer
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A `time.Duration` in miniature.
struct Duration(i64);

impl Object for Duration {
    fn type_name(&self) -> &str {
        "time.Duration"
    }
    fn kind(&self) -> Kind {
        Kind::Int(IntType::Int64)
    }
    fn display(&self) -> String {
        format!("{}ns", self.0)
    }
    fn is_stringer(&self) -> bool {
        true
    }
    fn underlying(&self) -> Option<Value> {
        Some(Value::int64(self.0))
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[test]
fn verbs_of_objects() {
    let thing = |kind, stringer| Value::Object(Rc::new(Thing { kind, stringer }));
    let plain = || thing(Kind::Struct, false);
    prints(
        "%v %+v %#v %T %d",
        &[plain(), plain(), plain(), plain(), plain()],
        "{n 2} {Name:n Count:2} main.Thing{Name:\"n\", Count:2} main.Thing {%!d(string=n) 2}",
    );
    prints("%v %+v", &vec![thing(Kind::Ptr, false); 2], "&{n 2} &{Name:n Count:2}");
    prints("%v %s %q %x", &vec![thing(Kind::Ptr, true); 4], "thing! thing! \"thing!\" 7468696e6721");
    prints("%v", &[Value::list(vec![thing(Kind::Ptr, true)])], "[thing!]");
    let second = || Value::Object(Rc::new(Duration(5)));
    prints("%v %d %s %T %#v %t", &vec![second(); 6], "5ns 5 5ns time.Duration 5 %!t(time.Duration=5)");
    assert!(equal(&second(), &Value::int(5)).unwrap());
    assert!(less(&second(), &Value::int(6)).unwrap());
}

#[test]
fn strconv_reads_and_writes_numbers() {
    assert_eq!(strconv::parse_int(b"0x1F", 0, 64).unwrap(), 31);
    assert_eq!(strconv::parse_int(b"1_000", 0, 64).unwrap(), 1000);
    assert_eq!(strconv::parse_int(b"-9223372036854775808", 10, 64).unwrap(), i64::MIN);
    let error = |result: Result<i64, strconv::NumError>| result.unwrap_err().to_string();
    assert_eq!(error(strconv::parse_int(b"x", 10, 64)), "strconv.ParseInt: parsing \"x\": invalid syntax");
    assert_eq!(error(strconv::parse_int(b"", 10, 64)), "strconv.ParseInt: parsing \"\": invalid syntax");
    assert_eq!(
        error(strconv::parse_int(b"128", 10, 8)),
        "strconv.ParseInt: parsing \"128\": value out of range"
    );
    assert_eq!(error(strconv::atoi(b"1e3")), "strconv.Atoi: parsing \"1e3\": invalid syntax");
    assert_eq!(strconv::parse_float(b"0x1.8p1").unwrap(), 3.0);
    assert_eq!(strconv::parse_float(b"1_0.5").unwrap(), 10.5);
    assert_eq!(strconv::parse_float(b"0x1p-1074").unwrap(), 5e-324);
    assert_eq!(strconv::parse_float(b"0x1p-1075").unwrap(), 0.0);
    assert_eq!(strconv::parse_float(b"0x1.8p-1075").unwrap(), 5e-324);
    assert_eq!(strconv::parse_float(b"+Inf").unwrap(), f64::INFINITY);
    let error = strconv::parse_float(b"1e400").unwrap_err();
    assert_eq!(error.to_string(), "strconv.ParseFloat: parsing \"1e400\": value out of range");
    assert!(strconv::parse_float(b"infinit").is_err() && strconv::parse_float(b"--1").is_err());
    assert_eq!(strconv::format_float(0.000_001, b'f', None, false), "0.000001");
    assert_eq!(strconv::format_float(1e23, b'f', None, false), "100000000000000000000000");
    assert_eq!(strconv::format_float(2.5, b'e', Some(0), false), "2e+00");
}

#[test]
fn strconv_quotes() {
    assert_eq!(
        strconv::quote("a\"\\\n\t\x07\x00\u{e9}\u{200b}\u{1F600}".as_bytes()),
        "\"a\\\"\\\\\\n\\t\\a\\x00\u{e9}\\u200b\u{1F600}\""
    );
    assert_eq!(strconv::quote(b"\xff\xc3"), "\"\\xff\\xc3\"");
    assert_eq!(strconv::unquote(b"\"a\\x41\\u00e9\\101\\n\"").unwrap(), "aA\u{e9}A\n".as_bytes());
    assert_eq!(strconv::unquote(b"`a\\n\r`").unwrap(), b"a\\n");
    assert_eq!(strconv::unquote(b"'x'").unwrap(), b"x");
    for bad in [&b"\"a"[..], b"a", b"\"\\q\"", b"\"\\'\"", b"'ab'", b"\"\\ud800\"", b"", b"\"", b"\"a\"b\""] {
        assert_eq!(strconv::unquote(bad), None, "{}", String::from_utf8_lossy(bad));
    }
}

#[test]
fn json_is_what_gos_encoder_sees() {
    let json = |value: &Value| serde_json::to_string(value).map_err(|error| error.to_string());
    let value = Value::map([
        ("z", Value::Nil),
        ("bytes", Value::Bytes(b"hi\xff\x00".as_slice().into())),
        ("n", Value::list(vec![Value::int(-1), Value::Uint(u64::MAX, UintType::Uint64), Value::Bool(true)])),
        ("text", Value::string(b"a\xff\xfeb".as_slice())),
        ("none", Value::List(List::nil(ListType::ANY))),
    ]);
    let expected = "{\"bytes\":\"aGn/AA==\",\"n\":[-1,18446744073709551615,true],\"none\":null,\"text\":\"a\u{FFFD}\u{FFFD}b\",\"z\":null}";
    assert_eq!(json(&value).as_deref(), Ok(expected));
    assert_eq!(json(&Value::float(f64::NAN)), Err("json: unsupported value: NaN".into()));
    assert_eq!(json(&Value::float(f64::NEG_INFINITY)), Err("json: unsupported value: -Inf".into()));
    assert_eq!(json(&Value::Complex(0.0, 1.0)), Err("json: unsupported type: complex128".into()));
}

#[test]
fn comparisons() {
    let message = |result: Result<bool, steersman_gotemplate::CallError>| result.unwrap_err().to_string();
    assert!(equal(&Value::int(1), &Value::Uint(1, UintType::Uint8)).unwrap());
    assert!(!equal(&Value::int(-1), &Value::Uint(u64::MAX, UintType::Uint64)).unwrap());
    assert!(!equal(&Value::Nil, &Value::int(0)).unwrap());
    assert_eq!(
        message(equal(&Value::int(1), &Value::float(1.0))),
        "incompatible types for comparison: int and float64"
    );
    assert_eq!(
        message(equal(&Value::list(vec![]), &Value::list(vec![]))),
        "non-comparable type []: []interface {}"
    );
    assert_eq!(message(less(&Value::Nil, &Value::int(1))), "invalid type for comparison");
    assert!(deep_equal(&Value::map([("a", Value::int(1))]), &Value::map([("a", Value::int(1))])));
    assert!(!deep_equal(&Value::int(1), &Value::int64(1)));
    assert!(!deep_equal(&Value::List(List::nil(ListType::ANY)), &Value::list(vec![])));
    assert!(!deep_equal(&Value::list(vec![]), &Value::strings(Vec::<&str>::new())));
}
