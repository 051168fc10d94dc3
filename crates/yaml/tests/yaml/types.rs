//! Rust types written to YAML and JSON, and read back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use steersman_yaml::{from_slice_as, json, to_string, to_string_pretty};

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Unit;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Wrapped(i16);

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Pair(u8, bool);

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
enum Choice {
    Plain,
    One(i32),
    Two(i8, u16),
    Named { z: u32, a: char },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct All {
    signed: (i8, i16, i32, i64),
    unsigned: (u8, u16, u32, u64),
    floats: (f32, f64),
    letter: char,
    none: Option<i8>,
    some: Option<i8>,
    // A null field is treated as absent.
    #[serde(default)]
    nothing: (),
    #[serde(default)]
    unit: Unit,
    wrapped: Wrapped,
    pair: Pair,
    choices: Vec<Choice>,
    by_number: BTreeMap<i16, u32>,
    by_choice: BTreeMap<char, bool>,
}

fn all() -> All {
    All {
        signed: (i8::MIN, i16::MIN, i32::MIN, i64::MIN),
        unsigned: (u8::MAX, u16::MAX, u32::MAX, u64::MAX),
        floats: (0.5, -1.25),
        letter: 'é',
        none: None,
        some: Some(-1),
        nothing: (),
        unit: Unit,
        wrapped: Wrapped(7),
        pair: Pair(1, true),
        choices: vec![Choice::Plain, Choice::One(2), Choice::Two(-3, 4), Choice::Named { z: 5, a: 'b' }],
        by_number: BTreeMap::from([(10, 1), (-2, 2)]),
        by_choice: BTreeMap::from([('x', true)]),
    }
}

#[test]
fn types_are_written_as_yaml() {
    let expected = "\
by_choice:
  x: true
by_number:
  \"-2\": 2
  \"10\": 1
choices:
- Plain
- One: 2
- Two:
  - -3
  - 4
- Named:
    a: b
    z: 5
floats:
- 0.5
- -1.25
letter: é
none: null
nothing: null
pair:
- 1
- true
signed:
- -128
- -32768
- -2147483648
- -9223372036854775808
some: -1
unit: null
unsigned:
- 255
- 65535
- 4294967295
- 18446744073709551615
wrapped: 7
";
    assert_eq!(to_string(&all()).unwrap(), expected);
}

#[test]
fn pretty_keeps_the_order_of_fields() {
    let text = to_string_pretty(&(Choice::Named { z: 5, a: 'b' }, 0.5_f32, f64::INFINITY, f32::NEG_INFINITY))
        .unwrap();
    assert_eq!(text, "- Named:\n    z: 5\n    a: b\n- 0.5\n- .inf\n- -.inf\n");
}

#[test]
fn types_are_written_as_json() {
    let expected = concat!(
        r#"{"by_choice":{"x":true},"by_number":{"-2":2,"10":1},"#,
        r#""choices":["Plain",{"One":2},{"Two":[-3,4]},{"Named":{"a":"b","z":5}}],"#,
        r#""floats":[0.5,-1.25],"letter":"é","none":null,"nothing":null,"pair":[1,true],"#,
        r#""signed":[-128,-32768,-2147483648,-9223372036854775808],"some":-1,"unit":null,"#,
        r#""unsigned":[255,65535,4294967295,18446744073709551615],"wrapped":7}"#,
    );
    let written = json::to_string(&all()).unwrap();
    let sorted = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(sorted(&written), sorted(expected));
    assert_eq!(from_slice_as::<All>(written.as_bytes()).unwrap(), all());
}

#[test]
fn json_keeps_the_order_of_fields_and_sorts_that_of_maps() {
    #[derive(Serialize)]
    struct Fields {
        z: i8,
        a: BTreeMap<&'static str, u8>,
    }
    let fields = Fields { z: 1, a: BTreeMap::from([("y", 1), ("b", 2)]) };
    assert_eq!(json::to_string(&fields).unwrap(), r#"{"z":1,"a":{"b":2,"y":1}}"#);
    let named = Choice::Named { z: 5, a: 'b' };
    assert_eq!(json::to_string(&named).unwrap(), r#"{"Named":{"z":5,"a":"b"}}"#);
}

/// A map with one key.
struct Keyed<K>(K);

impl<K: Serialize> Serialize for Keyed<K> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([(&self.0, 1)])
    }
}

#[test]
fn keys_are_text_or_refused() {
    fn written<K: Serialize>(key: K) -> String {
        json::to_string(&Keyed(key)).unwrap_or_else(|error| error.to_string())
    }
    for (text, expected) in [
        (written(true), "true"),
        (written(-1_i8), "-1"),
        (written(-2_i16), "-2"),
        (written(-3_i32), "-3"),
        (written(-4_i64), "-4"),
        (written(5_u8), "5"),
        (written(6_u16), "6"),
        (written(7_u32), "7"),
        (written(8_u64), "8"),
        (written('c'), "c"),
        (written("s"), "s"),
        (written(Some("o")), "o"),
        (written(Wrapped(9)), "9"),
        (written(Choice::Plain), "Plain"),
    ] {
        assert_eq!(text, format!("{{\"{expected}\":1}}"));
    }
    for (text, kind) in [
        (written(1.5_f32), "float32"),
        (written(1.5_f64), "float64"),
        (written(None::<u8>), "interface {}"),
        (written(()), "interface {}"),
        (written(Unit), "struct {}"),
        (written(Choice::One(1)), "struct {}"),
    ] {
        assert!(text.ends_with(&format!("json: unsupported type: map[{kind}]interface {{}}")), "{text}");
    }
}

/// A map whose keys may repeat.
struct Entries(&'static [(&'static str, u8)]);

impl Serialize for Entries {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

#[test]
fn of_entries_with_one_key_json_has_the_last() {
    let written = |entries| json::to_string(&Entries(entries)).unwrap();
    assert_eq!(written(&[("b", 1), ("a", 2), ("b", 3)]), r#"{"a":2,"b":3}"#);
    assert_eq!(written(&[("a", 1), ("a", 2)]), r#"{"a":2}"#);
    assert_eq!(written(&[("a", 1), ("b", 2), ("b", 3), ("c", 4)]), r#"{"a":1,"b":3,"c":4}"#);
}

#[test]
fn types_are_read_back() {
    assert_eq!(from_slice_as::<All>(to_string(&all()).unwrap().as_bytes()).unwrap(), all());
}

#[test]
fn numbers_that_do_not_fit_are_named_with_the_type() {
    fn problem<T: serde::de::DeserializeOwned + std::fmt::Debug>(text: &str) -> String {
        let text = from_slice_as::<T>(text.as_bytes()).unwrap_err().to_string();
        text.replace("error unmarshaling JSON: while decoding JSON: json: ", "")
    }
    let into = |found: &str, kind: &str| format!("cannot unmarshal {found} into Go value of type {kind}");
    assert_eq!(problem::<i8>("1.5"), into("number 1.5", "int8"));
    assert_eq!(problem::<i16>("x"), into("string", "int16"));
    assert_eq!(problem::<i32>("[]"), into("array", "int32"));
    assert_eq!(problem::<i64>("{}"), into("object", "int"));
    assert_eq!(problem::<u8>("true"), into("bool", "uint8"));
    assert_eq!(problem::<u16>("-0.5"), into("number -0.5", "uint16"));
    assert_eq!(problem::<u32>("x"), into("string", "uint32"));
    assert_eq!(problem::<u64>("1.5"), into("number 1.5", "uint"));
    assert_eq!(problem::<f32>("x"), into("string", "float32"));
    assert_eq!(problem::<f64>("[]"), into("array", "float64"));
    assert_eq!(problem::<bool>("1"), into("number", "bool"));
    assert_eq!(problem::<Vec<i8>>("1"), into("number", "[]string"));
    assert_eq!(problem::<BTreeMap<String, i8>>("[]"), into("array", "map[string]string"));
    assert_eq!(problem::<Choice>("[]"), into("array", "Choice"));
    assert_eq!(problem::<Choice>("{One: 1, Two: 2}"), into("object", "Choice"));
}

#[test]
fn null_is_the_zero_of_every_type() {
    fn zero<T: serde::de::DeserializeOwned>() -> T {
        from_slice_as(b"null").unwrap()
    }
    assert_eq!((zero::<i8>(), zero::<u64>(), zero::<bool>(), zero::<String>()), (0, 0, false, String::new()));
    assert_eq!((zero::<f32>(), zero::<f64>()), (0.0, 0.0));
    assert_eq!((zero::<Vec<u8>>(), zero::<BTreeMap<String, u8>>()), (Vec::new(), BTreeMap::new()));
    assert_eq!((zero::<Option<u8>>(), zero::<()>(), zero::<Unit>()), (None, (), Unit));
}

#[test]
fn whole_floats_are_integers_and_integers_are_floats() {
    assert_eq!(from_slice_as::<i64>(b"2.0").unwrap(), 2);
    assert_eq!(from_slice_as::<u64>(b"18446744073709551615").unwrap(), u64::MAX);
    assert_eq!(from_slice_as::<i64>(b"1e3").unwrap(), 1000);
    assert_eq!(from_slice_as::<f64>(b"3").unwrap(), 3.0);
    assert_eq!(from_slice_as::<f64>(b"18446744073709551615").unwrap(), 18_446_744_073_709_551_615.0);
    assert_eq!(from_slice_as::<f32>(b"1.5").unwrap(), 1.5);
}
