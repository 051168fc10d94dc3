//! Arguments of functions with typed parameters, as Go's `reflect` converts or refuses them.

use std::any::Any;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use steersman_gotemplate::{
    Call, CallError, FloatType, Funcs, IntType, Kind, List, ListType, Map, MapType, Object, Set, Str, Type,
    UintType, Value, fmt,
};

/// A parameter of each type, under the name of the function that takes it.
const PARAMETERS: &[(&str, &[Type])] = &[
    ("any", &[Type::Any]),
    ("bool", &[Type::Bool]),
    ("int", &[Type::Int]),
    ("int8", &[Type::Int8]),
    ("int16", &[Type::Int16]),
    ("int32", &[Type::Int32]),
    ("int64", &[Type::Int64]),
    ("uint", &[Type::Uint]),
    ("uint8", &[Type::Uint8]),
    ("uint16", &[Type::Uint16]),
    ("uint32", &[Type::Uint32]),
    ("uint64", &[Type::Uint64]),
    ("float32", &[Type::Float32]),
    ("float64", &[Type::Float64]),
    ("string", &[Type::String]),
    ("bytes", &[Type::Bytes]),
    ("list", &[Type::ListAny]),
    ("strings", &[Type::ListString]),
    ("ints", &[Type::ListInt]),
    ("map", &[Type::MapAny]),
    ("texts", &[Type::MapString]),
    ("thing", &[Type::Named("main.thing")]),
    ("pointer", &[Type::Named("*main.thing")]),
    ("things", &[Type::Named("[]main.thing")]),
    ("thingsByName", &[Type::Named("map[string]main.thing")]),
];

/// Prints the argument and its type.
fn show(call: &mut Call<'_, ()>) -> Result<Value, CallError> {
    let [argument] = call.args else { return Err(CallError::new("not one argument")) };
    Ok(Value::String(fmt::sprintf(b"%T %v", &[argument.clone(), argument.clone()])?))
}

struct Thing(&'static str, Kind);

impl Object for Thing {
    fn type_name(&self) -> &str {
        self.0
    }
    fn kind(&self) -> Kind {
        self.1
    }
    fn display(&self) -> String {
        "{thing}".into()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

static NAMED_LIST: ListType = ListType { name: "main.list", elem: Type::Any, methods: &[] };
static NAMED_STRINGS: ListType = ListType { name: "main.strings", elem: Type::String, methods: &[] };
static NAMED_INTS: ListType = ListType { name: "main.ints", elem: Type::Int, methods: &[] };
static NAMED_MAP: MapType = MapType { name: "main.map", elem: Type::Any, methods: &[] };
static NAMED_TEXTS: MapType = MapType { name: "main.texts", elem: Type::String, methods: &[] };

fn data() -> Value {
    let thing = |name, kind| Value::Object(Rc::new(Thing(name, kind)));
    let entries = |value: Value| BTreeMap::from([(Str::from("k"), value)]);
    Value::map([
        ("nil", Value::Nil),
        ("bool", Value::Bool(true)),
        ("int", Value::int(1)),
        ("int8", Value::Int(2, IntType::Int8)),
        ("int16", Value::Int(3, IntType::Int16)),
        ("int32", Value::Int(4, IntType::Int32)),
        ("int64", Value::int64(5)),
        ("uint", Value::Uint(6, UintType::Uint)),
        ("uint8", Value::Uint(7, UintType::Uint8)),
        ("uint16", Value::Uint(8, UintType::Uint16)),
        ("uint32", Value::Uint(9, UintType::Uint32)),
        ("uint64", Value::Uint(10, UintType::Uint64)),
        ("float32", Value::Float(0.5, FloatType::Float32)),
        ("float64", Value::float(1.5)),
        ("string", Value::string("s")),
        ("bytes", Value::Bytes("b".into())),
        ("list", Value::List(List::new(&NAMED_LIST, vec![Value::int(1)]))),
        ("strings", Value::List(List::new(&NAMED_STRINGS, vec![Value::string("x")]))),
        ("ints", Value::List(List::new(&NAMED_INTS, vec![Value::int(1)]))),
        ("map", Value::Map(Map::with_type(&NAMED_MAP, entries(Value::int(1))))),
        ("texts", Value::Map(Map::with_type(&NAMED_TEXTS, entries(Value::string("x"))))),
        ("thing", thing("main.thing", Kind::Struct)),
        ("pointer", thing("*main.thing", Kind::Ptr)),
        ("other", thing("main.other", Kind::Struct)),
        ("otherPointer", thing("*main.other", Kind::Ptr)),
    ])
}

fn render(text: &str) -> Result<String, String> {
    let mut funcs = Funcs::new();
    for (name, parameters) in PARAMETERS {
        funcs.insert(name, parameters, None, show);
    }
    let mut set = Set::new(Arc::new(funcs));
    set.parse("main", text.as_bytes()).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    set.execute(&mut (), "main", data(), &mut out).map_err(|error| error.to_string())?;
    String::from_utf8(out).map_err(|error| error.to_string())
}

#[track_caller]
fn takes(call: &str, expected: &str) {
    assert_eq!(render(&format!("{{{{{call}}}}}")).as_deref(), Ok(expected), "{call}");
}

/// Asserts that the call fails; of the error only the part after the node is compared.
#[track_caller]
fn refuses(call: &str, expected: &str) {
    let error = render(&format!("{{{{{call}}}}}")).expect_err(call);
    let (_, shown) = error.split_once(">: ").expect("a node");
    assert_eq!(shown, expected, "{call}");
}

#[test]
fn constants_become_what_is_asked_for() {
    takes("any 1", "int 1");
    takes("any 1.5", "float64 1.5");
    takes("any `a`", "string a");
    takes("any true", "bool true");
    takes("any 'a'", "int 97");
    takes("any nil", "<nil> <nil>");
    takes("bool false", "bool false");
    takes("string `a`", "string a");
    takes("int 5", "int 5");
    takes("int 1.0", "int 1");
    takes("int 1+0i", "int 1");
    takes("int 'a'", "int 97");
    takes("int -9223372036854775808", "int -9223372036854775808");
    takes("int64 5", "int64 5");
    takes("uint 5", "uint 5");
    takes("uint 1e3", "uint 1000");
    takes("uint 1e19", "uint 10000000000000000000");
    takes("uint 'a'", "uint 97");
    takes("uint -0", "uint 0");
    takes("uint64 18446744073709551615", "uint64 18446744073709551615");
    takes("uint 3+0i", "uint 3");
    takes("float64 1", "float64 1");
    takes("float64 'a'", "float64 97");
    takes("float64 18446744073709551615", "float64 1.8446744073709552e+19");
    takes("float64 2.5+0i", "float64 2.5");
    takes("float32 0.1", "float32 0.1");
}

#[test]
fn constants_lose_what_does_not_fit() {
    takes("int8 200", "int8 -56");
    takes("int8 127", "int8 127");
    takes("int16 40000", "int16 -25536");
    takes("int32 4294967297", "int32 1");
    takes("uint8 300", "uint8 44");
    takes("uint16 65537", "uint16 1");
    takes("uint32 4294967298", "uint32 2");
    takes("float32 16777217", "float32 1.6777216e+07");
}

#[test]
fn constants_of_another_kind_are_refused() {
    refuses("bool 1", "expected bool; found 1");
    refuses("string 1", "expected string; found 1");
    refuses("string true", "expected string; found true");
    refuses("int `a`", "expected integer; found `a`");
    refuses("int 1.5", "expected integer; found 1.5");
    refuses("int 1i", "expected integer; found 1i");
    refuses("int 1e19", "expected integer; found 1e19");
    refuses("int 18446744073709551615", "expected integer; found 18446744073709551615");
    refuses("int8 true", "expected integer; found true");
    refuses("int64 1e40", "expected integer; found 1e40");
    refuses("uint -1", "expected unsigned integer; found -1");
    refuses("uint 1.5", "expected unsigned integer; found 1.5");
    refuses("uint -1.0", "expected unsigned integer; found -1.0");
    refuses("uint 1e20", "expected unsigned integer; found 1e20");
    refuses("uint8 `a`", "expected unsigned integer; found `a`");
    refuses("float64 1i", "expected float; found 1i");
    refuses("float32 `a`", "expected float; found `a`");
    refuses("bytes `a`", "can't handle `a` for arg of type []uint8");
    refuses("list 1", "can't handle 1 for arg of type []interface {}");
    refuses("map `a`", "can't handle `a` for arg of type map[string]interface {}");
    refuses("thing true", "can't handle true for arg of type main.thing");
}

#[test]
fn nil_is_what_can_be_nil() {
    for (call, expected) in [
        ("any", "<nil> <nil>"),
        ("bytes", "[]uint8 []"),
        ("list", "[]interface {} []"),
        ("strings", "[]string []"),
        ("ints", "[]int []"),
        ("map", "map[string]interface {} map[]"),
        ("texts", "map[string]string map[]"),
        ("pointer", "<nil> <nil>"),
        ("things", "<nil> <nil>"),
        ("thingsByName", "<nil> <nil>"),
    ] {
        takes(&format!("{call} nil"), expected);
        takes(&format!("{call} .missing"), expected);
    }
    for (call, ty) in [("bool", "bool"), ("int", "int"), ("string", "string"), ("thing", "main.thing")] {
        refuses(&format!("{call} nil"), &format!("cannot assign nil to {ty}"));
        refuses(&format!("{call} .missing"), &format!("invalid value; expected {ty}"));
        refuses(&format!("{call} .nil"), &format!("wrong type for value; expected {ty}; got interface {{}}"));
    }
    refuses("list .nil", "wrong type for value; expected []interface {}; got interface {}");
    takes("any .nil", "<nil> <nil>");
}

#[test]
fn values_keep_their_types() {
    let numbers = ["int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32", "uint64"];
    let kinds = numbers.iter().chain(&["float32", "float64", "string", "bool", "bytes"]);
    for (taken, given) in kinds.clone().flat_map(|taken| kinds.clone().map(move |given| (taken, given))) {
        let answer = render(&format!("{{{{{taken} .{given}}}}}"));
        assert_eq!(answer.is_ok(), taken == given, "{taken} of {given}: {answer:?}");
    }
    takes("int8 .int8", "int8 2");
    takes("uint16 .uint16", "uint16 8");
    takes("float32 .float32", "float32 0.5");
    takes(".string | string", "string s");
    refuses("int .int64", "wrong type for value; expected int; got int64");
    refuses("string .bytes", "wrong type for value; expected string; got []uint8");
    refuses(".int | string", "wrong type for value; expected string; got int");
    takes("any .int8", "int8 2");
}

#[test]
fn named_lists_and_maps_serve_as_what_they_are_made_of() {
    takes("list .list", "[]interface {} [1]");
    takes("strings .strings", "[]string [x]");
    takes("ints .ints", "[]int [1]");
    takes("map .map", "map[string]interface {} map[k:1]");
    takes("texts .texts", "map[string]string map[k:x]");
    takes("any .list", "main.list [1]");
    takes("any .map", "main.map map[k:1]");
    let lists = ["list", "strings", "ints", "map", "texts"];
    for (taken, given) in lists.iter().flat_map(|taken| lists.iter().map(move |given| (taken, given))) {
        let answer = render(&format!("{{{{{taken} .{given}}}}}"));
        assert_eq!(answer.is_ok(), taken == given, "{taken} of {given}: {answer:?}");
    }
    refuses("list .strings", "wrong type for value; expected []interface {}; got main.strings");
    refuses("texts .map", "wrong type for value; expected map[string]string; got main.map");
}

#[test]
fn objects_are_known_by_their_names() {
    takes("thing .thing", "main.thing {thing}");
    takes("thing .pointer", "*main.thing &{thing}");
    takes("pointer .pointer", "*main.thing &{thing}");
    refuses("pointer .thing", "wrong type for value; expected *main.thing; got main.thing");
    refuses("thing .other", "wrong type for value; expected main.thing; got main.other");
    refuses("thing .otherPointer", "wrong type for value; expected main.thing; got *main.other");
    refuses("thing .int", "wrong type for value; expected main.thing; got int");
    refuses("int .thing", "wrong type for value; expected int; got main.thing");
}
