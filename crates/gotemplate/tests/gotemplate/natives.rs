//! Native objects of every kind, as templates, `fmt`, comparisons and JSON see them.

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

use steersman_gotemplate::{
    CallError, Funcs, IntType, Kind, List, ListType, Map, MapType, Method, MissingKey, Object, Set,
    Signature, Str, Type, UintType, Value, deep_equal, equal, fmt, less,
};

/// An object with the properties that a test sets.
#[derive(Clone)]
struct Native {
    name: &'static str,
    kind: Kind,
    truth: bool,
    fields: Option<Vec<(&'static str, Value)>>,
    stringer: bool,
    addressed: Option<&'static str>,
    go_string: Option<&'static str>,
    underlying: Option<Value>,
}

impl Native {
    fn new(name: &'static str, kind: Kind) -> Self {
        Self {
            name,
            kind,
            truth: true,
            fields: None,
            stringer: false,
            addressed: None,
            go_string: None,
            underlying: None,
        }
    }

    fn value(self) -> Value {
        Value::Object(Rc::new(self))
    }
}

impl Object for Native {
    fn type_name(&self) -> &str {
        self.name
    }
    fn kind(&self) -> Kind {
        self.kind
    }
    fn truth(&self) -> bool {
        self.truth
    }
    fn field(&self, name: &str) -> Option<Value> {
        let fields = self.fields.as_ref()?;
        fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value.clone())
    }
    fn fields(&self) -> Option<Vec<(&str, Value)>> {
        self.fields.clone()
    }
    fn display(&self) -> String {
        "shown".into()
    }
    fn is_stringer(&self) -> bool {
        self.stringer
    }
    fn addressed(&self) -> Option<String> {
        self.addressed.map(Into::into)
    }
    fn go_string(&self) -> Option<String> {
        self.go_string.map(Into::into)
    }
    fn underlying(&self) -> Option<Value> {
        self.underlying.clone()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// An object with only the required methods.
struct Bare;

impl Object for Bare {
    fn type_name(&self) -> &str {
        "main.bare"
    }
    fn kind(&self) -> Kind {
        Kind::Struct
    }
    fn display(&self) -> String {
        "{bare}".into()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn render_with(missing_key: MissingKey, text: &str, data: Value) -> Result<String, String> {
    let mut set = Set::new(Arc::new(Funcs::new())).missing_key(missing_key);
    set.parse("main", text.as_bytes()).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    set.execute(&mut (), "main", data, &mut out).map_err(|error| error.to_string())?;
    String::from_utf8(out).map_err(|error| error.to_string())
}

#[track_caller]
fn gives(text: &str, data: &Value, expected: &str) {
    assert_eq!(render_with(MissingKey::Default, text, data.clone()).as_deref(), Ok(expected), "{text}");
}

/// Asserts that the execution fails; of the error only the part after the node is compared.
#[track_caller]
fn fails(text: &str, data: &Value, expected: &str) {
    let error = render_with(MissingKey::Default, text, data.clone()).expect_err(text);
    let shown = error.split_once(">: ").map_or(error.as_str(), |(_, shown)| shown);
    assert_eq!(shown, expected, "{text}");
}

fn printed(format: &str, value: &Value) -> String {
    let count = format.matches('%').count();
    fmt::sprintf(format.as_bytes(), &vec![value.clone(); count]).unwrap().to_string()
}

#[test]
fn an_object_has_no_more_than_it_says() {
    let bare = Value::Object(Rc::new(Bare));
    gives("{{.}}", &bare, "{bare}");
    gives("{{if .}}true{{end}}", &bare, "true");
    fails("{{.x}}", &bare, "can't evaluate field x in type main.bare");
    fails("{{range .}}{{end}}", &bare, "range can't iterate over {bare}");
    fails("{{len .}}", &bare, "error calling len: len of type main.bare");
    fails("{{index . 1}}", &bare, "error calling index: can't index item of type main.bare");
    fails("{{slice . 1}}", &bare, "error calling slice: can't slice item of type main.bare");
    assert_eq!(printed("%v %+v %s %d %T", &bare), "{bare} {bare} {bare} {bare} main.bare");
    assert_eq!(serde_json::to_string(&bare).unwrap(), "{}");
    assert!(Bare.method("x").is_none() && Bare.field("x").is_none() && Bare.fields().is_none());
    assert_eq!(Bare.call("x", &[]).unwrap_err().to_string(), "no method x");
    assert!(Bare.json_fields().is_none() && Bare.underlying().is_none() && Bare.addressed().is_none());
}

#[test]
fn an_object_is_json_by_its_fields_or_as_another_value() {
    /// A struct whose fields keep their order, or an object that is written as a list.
    struct Written(bool);
    impl Object for Written {
        fn type_name(&self) -> &str {
            "main.written"
        }
        fn kind(&self) -> Kind {
            Kind::Struct
        }
        fn display(&self) -> String {
            String::new()
        }
        fn json_fields(&self) -> Option<Vec<(&'static str, Value)>> {
            self.0.then(|| vec![("z", Value::int(1)), ("a", Value::Object(Rc::new(Self(false))))])
        }
        fn json(&self) -> Value {
            if self.0 { Value::Nil } else { Value::list(vec![Value::int(2)]) }
        }
        fn as_any(&self) -> &dyn Any {
            self
        }
    }
    let json = |value: Value| serde_json::to_string(&value).unwrap();
    assert_eq!(json(Value::Object(Rc::new(Written(true)))), "{\"z\":1,\"a\":[2]}");
    assert_eq!(json(Value::Object(Rc::new(Written(false)))), "[2]");
    assert_eq!(json(Value::list(vec![Value::Object(Rc::new(Bare))])), "[{}]");
}

#[test]
fn functions_do_not_print() {
    let function = Native::new("func()", Kind::Func).value();
    fails("{{.}}", &function, "can't print {{.}} of type func()");
    fails("{{.f | print}}{{.f}}", &Value::map([("f", function)]), "can't print {{.f}} of type func()");
}

#[test]
fn text_of_a_pointers_method_shows_where_go_can_take_the_address() {
    let field = Native { addressed: Some("by address"), ..Native::new("main.field", Kind::Struct) }.value();
    let holder = |kind, field: &Value| {
        Native { fields: Some(vec![("F", field.clone())]), ..Native::new("main.holder", kind) }.value()
    };
    let (pointer, copy) = (holder(Kind::Ptr, &field), holder(Kind::Struct, &field));
    gives("{{.F}}", &pointer, "by address");
    gives("{{.F}}", &copy, "shown");
    gives("{{with .F}}{{.}}{{end}}", &pointer, "by address");
    gives("{{print .F}}", &pointer, "shown");
    gives("{{.P.F.F}}", &Value::map([("P", holder(Kind::Ptr, &copy))]), "by address");
    gives("{{.P.F.F}}", &Value::map([("P", holder(Kind::Struct, &copy))]), "shown");
    let plain = holder(Kind::Ptr, &Native::new("main.field", Kind::Struct).value());
    gives("{{.F}}", &plain, "shown");
    gives("{{.F}}", &holder(Kind::Ptr, &Value::Nil), "<no value>");
}

#[test]
fn a_pointer_shows_what_it_points_to_only_at_the_top() {
    let fields = || Some(vec![("A", Value::int(1)), ("B", Value::string("b"))]);
    let pointer = Native { fields: fields(), ..Native::new("*main.thing", Kind::Ptr) }.value();
    let nil = Native { truth: false, fields: fields(), ..Native::new("*main.thing", Kind::Ptr) }.value();
    assert_eq!(printed("%v %+v %#v", &pointer), "&{1 b} &{A:1 B:b} &main.thing{A:1, B:\"b\"}");
    assert_eq!(printed("%v %+v %s %d %T", &nil), "<nil> <nil> %!s(*main.thing=<nil>) 0 *main.thing");
    assert_eq!(printed("%#v %p %x", &nil), "(*main.thing)(nil) 0x0 0");
    assert_eq!(printed("%6v|", &nil), " <nil>|");
    gives("{{.}} {{print .}} {{html .}}", &pointer, "{1 b} &{1 b} {1 b}");
    let address = printed("%p", &pointer);
    assert!(address.starts_with("0x") && address.len() > 4, "{address}");
    assert_eq!(printed("%v", &Value::list(vec![pointer.clone()])), format!("[{address}]"));
    assert_eq!(printed("%#v", &Value::list(vec![pointer.clone()])), {
        format!("[]interface {{}}{{(*main.thing)({address})}}")
    });
    let digits = address.trim_start_matches("0x");
    assert_eq!(printed("%#p", &pointer), digits);
    assert_eq!(printed("%x", &Value::list(vec![pointer.clone()])), format!("[{digits}]"));
    assert_eq!(printed("%X", &Value::list(vec![pointer])), format!("[{}]", digits.to_uppercase()));
}

#[test]
fn addresses_are_those_of_what_can_be_pointed_to() {
    let addressed = |value: &Value| {
        let text = printed("%p", value);
        text.starts_with("0x") && text.len() > 4
    };
    let list = Value::list(vec![Value::int(1)]);
    assert!(addressed(&list) && addressed(&Value::map([("a", Value::Nil)])));
    assert!(addressed(&Value::Bytes("b".into())));
    for kind in [Kind::Ptr, Kind::Func, Kind::Map, Kind::Slice] {
        assert!(addressed(&Native::new("main.thing", kind).value()), "{kind}");
    }
    assert_eq!(printed("%p", &Native::new("main.thing", Kind::Struct).value()), "%!p(main.thing=shown)");
    assert_eq!(printed("%p", &Value::int(1)), "%!p(int=1)");
    assert_eq!(printed("%p", &Value::List(List::nil(ListType::ANY))), "0x0");
    // Clones of a list have the same address, another list has a different one.
    assert_eq!(printed("%p", &list), printed("%p", &list.clone()));
    assert_ne!(printed("%p", &list), printed("%p", &Value::list(vec![Value::int(1)])));
    let map = Value::map([("a", Value::Nil)]);
    assert_eq!(printed("%p", &map), printed("%p", &map.clone()));
    assert_ne!(printed("%p", &map), printed("%p", &Value::map([("a", Value::Nil)])));
}

#[test]
fn methods_that_make_text_serve_the_verbs_for_text() {
    let stringer = Native { stringer: true, ..Native::new("main.thing", Kind::Struct) }.value();
    assert_eq!(printed("%v|%s|%q|%x|%X|%+v", &stringer), "shown|shown|\"shown\"|73686f776e|73686F776E|shown");
    assert_eq!(printed("%8v|%-8s|%.2s", &stringer), "   shown|shown   |sh");
    assert_eq!(printed("%w", &stringer), "%!w(main.thing=shown)");
    assert_eq!(printed("%v %d", &Value::list(vec![stringer.clone()])), "[shown] [shown]");
    let go =
        Native { go_string: Some("main.Go()"), stringer: true, ..Native::new("main.thing", Kind::Struct) };
    assert_eq!(printed("%#v|%v|%#s", &go.clone().value()), "main.Go()|shown|shown");
    assert_eq!(printed("%#v", &Value::list(vec![go.value()])), "[]interface {}{main.Go()}");
    let fields = Native {
        stringer: true,
        fields: Some(vec![("A", Value::int(1))]),
        ..Native::new("main.thing", Kind::Struct)
    };
    let fields = fields.value();
    // A verb that does not fit is reported without calling the method.
    assert_eq!(printed("%#v|%d|%t", &fields), "main.thing{A:1}|{1}|{%!t(int=1)}");
    assert_eq!(printed("%w", &fields), "%!w(main.thing={1})");
    gives("{{.}} {{print . 1}}", &fields, "shown shown 1");
}

#[test]
fn a_named_type_prints_as_what_it_is_made_of() {
    let named = |value: Value, kind| Native { underlying: Some(value), ..Native::new("main.named", kind) };
    let number = named(Value::int64(5), Kind::Int(IntType::Int64)).value();
    assert_eq!(printed("%v %d %03d %x %T %s", &number), "5 5 005 5 main.named %!s(main.named=5)");
    let text = named(Value::string("a b"), Kind::String).value();
    assert_eq!(printed("%v %q %d %T", &text), "a b \"a b\" %!d(main.named=a b) main.named");
    let list = named(Value::strings(["a", "b"]), Kind::Slice).value();
    gives("{{len .}} {{index . 1}} {{slice . 1}} {{range .}}{{.}}{{end}}", &list, "2 b [b] ab");
    gives("{{len .}} {{index . 1}} {{slice . 1}} {{urlquery .}}", &text, "3 32  b a+b");
    gives("{{range .}}{{.}}{{end}} {{printf `%*d|` . 1}}", &number, "01234     1|");
    let map = named(Value::map([("k", Value::int(1))]), Kind::Map).value();
    gives(
        "{{.k}} {{.zz}} {{len .}} {{index . `k`}} {{range $k, $v := .}}{{$k}}{{$v}}{{end}}",
        &map,
        "1 <no value> 1 1 k1",
    );
    fails("{{.k 1}}", &map, "k is not a method but has arguments");
    fails("{{index . 1}}", &map, "error calling index: value has type int; should be string");
    fails("{{index .m .t}}", &Value::map([("m", map), ("t", text.clone())]), {
        "error calling index: value has type main.named; should be string"
    });
    fails("{{. | call}}", &text, "error calling call: non-function a b of type main.named");
    fails("{{. | call}}", &number, "error calling call: non-function <main.named Value> of type main.named");
    gives(
        "{{index .l .n}}",
        &Value::map([("l", Value::strings(["a", "b", "c", "d", "e", "f"])), ("n", number)]),
        "f",
    );
    // A named string type is spaced as a string.
    assert_eq!(fmt::sprint(&[Value::int(1), text.clone(), Value::int(2), Value::int(3)]).unwrap(), "1a b2 3");
}

#[test]
fn nil_pointers_are_no_values_to_look_into() {
    let nil = Native { truth: false, ..Native::new("*main.thing", Kind::Ptr) }.value();
    let pointer = Native::new("*main.thing", Kind::Ptr).value();
    for (call, name) in [("index . 1", "index"), ("slice . 1", "slice"), ("len .", "len")] {
        fails(&format!("{{{{{call}}}}}"), &nil, &format!("error calling {name}: {name} of nil pointer"));
    }
    fails("{{index . 1}}", &pointer, "error calling index: can't index item of type main.thing");
    fails("{{slice . 1}}", &pointer, "error calling slice: can't slice item of type main.thing");
    fails("{{len .}}", &pointer, "error calling len: len of type main.thing");
    let empty = Native { truth: false, ..Native::new("main.thing", Kind::Struct) }.value();
    fails("{{len .}}", &empty, "error calling len: len of type main.thing");
    let with_fields = |truth| {
        let fields = Some(vec![("A", Value::int(1))]);
        Native { truth, fields, ..Native::new("*main.thing", Kind::Ptr) }.value()
    };
    fails("{{.A}}", &with_fields(false), "nil pointer evaluating *main.thing.A");
    fails("{{.B}}", &with_fields(false), "can't evaluate field B in type *main.thing");
    gives("{{.A}}", &with_fields(true), "1");
    fails("{{.A 2}}", &with_fields(true), "A has arguments but cannot be invoked as function");
    fails("{{2 | .A}}", &with_fields(true), "A has arguments but cannot be invoked as function");
}

#[test]
fn fields_that_are_not_exported_are_named_in_the_error() {
    struct Hiding;
    impl Object for Hiding {
        fn type_name(&self) -> &str {
            "main.hiding"
        }
        fn kind(&self) -> Kind {
            Kind::Struct
        }
        fn fields(&self) -> Option<Vec<(&str, Value)>> {
            Some(vec![("Open", Value::int(1)), ("hidden", Value::int(2))])
        }
        fn method(&self, name: &str) -> Option<Signature> {
            (name == "Sum").then_some(Signature { params: &[Type::Int], variadic: Some(Type::Int) })
        }
        fn call(&self, name: &str, args: &[Value]) -> Result<Value, CallError> {
            let numbers = args.iter().map(|arg| if let Value::Int(n, _) = arg { *n } else { 0 });
            Ok(Value::string(format!("{name} {}", numbers.sum::<i64>())))
        }
        fn display(&self) -> String {
            String::new()
        }
        fn as_any(&self) -> &dyn Any {
            self
        }
    }
    let value = Value::Object(Rc::new(Hiding));
    fails("{{.hidden}}", &value, "hidden is an unexported field of struct type main.hiding");
    fails("{{.other}}", &value, "can't evaluate field other in type main.hiding");
    gives("{{.}} {{printf `%+v` .}}", &value, "{1 2} {Open:1 hidden:2}");
    gives("{{.Sum 1}}; {{.Sum 1 2 3}}; {{3 | .Sum 1}}; {{4 | .Sum}}", &value, "Sum 1; Sum 6; Sum 4; Sum 4");
    fails("{{.Sum}}", &value, "wrong number of args for Sum: want at least 1 got 0");
    fails("{{.Sum `a`}}", &value, "expected integer; found `a`");
}

#[test]
fn objects_compare_by_identity_or_by_their_fields() {
    let thing = |name, kind, fields: &[(&'static str, Value)]| {
        Native { fields: Some(fields.to_vec()), ..Native::new(name, kind) }.value()
    };
    let one = [("A", Value::int(1))];
    let message = |a: &Value, b: &Value| equal(a, b).unwrap_err().to_string();
    let value = thing("main.a", Kind::Struct, &one);
    assert!(equal(&value, &value).unwrap());
    assert!(equal(&value, &thing("main.a", Kind::Struct, &one)).unwrap());
    assert!(!equal(&value, &thing("main.a", Kind::Struct, &[("A", Value::int(2))])).unwrap());
    assert!(!equal(&value, &thing("main.b", Kind::Struct, &one)).unwrap());
    assert!(!equal(&value, &thing("main.a", Kind::Struct, &[])).unwrap());
    assert!(!equal(&value, &Native::new("main.a", Kind::Struct).value()).unwrap());
    let pointer = thing("*main.a", Kind::Ptr, &one);
    assert!(equal(&pointer, &pointer).unwrap());
    assert!(!equal(&pointer, &thing("*main.a", Kind::Ptr, &one)).unwrap());
    let nil = Native { truth: false, ..Native::new("*main.a", Kind::Ptr) }.value();
    assert!(equal(&nil, &Value::Nil).unwrap() && equal(&Value::Nil, &nil).unwrap());
    assert!(!equal(&pointer, &Value::Nil).unwrap() && !equal(&nil, &pointer).unwrap());
    let empty = Native { truth: false, ..Native::new("main.a", Kind::Struct) }.value();
    assert!(!equal(&empty, &Value::Nil).unwrap());
    assert_eq!(message(&value, &pointer), "non-comparable types {%!s(int=1)}: main.a, *main.a: &{1}");
    for kind in [Kind::Map, Kind::Slice, Kind::Func] {
        let thing = Native::new("main.a", kind).value();
        assert_eq!(message(&thing, &thing), "non-comparable type shown: main.a", "{kind}");
    }
    assert_eq!(less(&value, &value).unwrap_err().to_string(), "invalid type for comparison");
}

#[test]
fn nothing_equals_only_nothing() {
    let nothing = [
        Value::Nil,
        Value::List(List::nil(ListType::ANY)),
        Value::Map(Map::nil(MapType::ANY)),
        Native { truth: false, ..Native::new("*main.a", Kind::Ptr) }.value(),
    ];
    for nothing in &nothing {
        assert!(equal(&Value::Nil, nothing).unwrap(), "{nothing:?}");
        assert!(equal(nothing, nothing).unwrap(), "{nothing:?}");
    }
    for something in [Value::list(vec![]), Value::Map(Map::new()), Value::Bytes("".into())] {
        assert!(!equal(&Value::Nil, &something).unwrap(), "{something:?}");
        assert!(!equal(&something, &Value::Nil).unwrap(), "{something:?}");
    }
    for something in [Value::int(0), Value::string(""), Value::Bool(false), Value::float(0.0)] {
        assert!(!equal(&Value::Nil, &something).unwrap(), "{something:?}");
        assert!(!equal(&something, &Value::Nil).unwrap(), "{something:?}");
    }
    assert!(!equal(&nothing[1], &Value::list(vec![])).unwrap());
    assert!(!equal(&Value::list(vec![]), &nothing[1]).unwrap());
}

#[test]
fn named_types_compare_as_what_they_are_made_of() {
    let named =
        |value: Value, kind| Native { underlying: Some(value), ..Native::new("main.named", kind) }.value();
    let int = |n| named(Value::int64(n), Kind::Int(IntType::Int64));
    let uint = |n| named(Value::Uint(n, UintType::Uint8), Kind::Uint(UintType::Uint8));
    let text = |text: &str| named(Value::string(text), Kind::String);
    assert!(equal(&int(5), &Value::int(5)).unwrap() && !equal(&int(5), &Value::int(6)).unwrap());
    assert!(equal(&int(5), &uint(5)).unwrap() && !equal(&int(-5), &uint(5)).unwrap());
    assert!(equal(&text("a"), &Value::string("a")).unwrap() && !equal(&text("a"), &text("b")).unwrap());
    assert!(less(&text("a"), &Value::string("b")).unwrap() && !less(&text("b"), &text("a")).unwrap());
    assert!(less(&int(4), &uint(5)).unwrap() && !less(&uint(5), &int(5)).unwrap());
    assert_eq!(
        equal(&text("a"), &int(1)).unwrap_err().to_string(),
        "incompatible types for comparison: main.named and main.named"
    );
    assert!(deep_equal(&int(5), &int(5)) && !deep_equal(&int(5), &int(6)));
    assert!(!deep_equal(&int(5), &Value::int64(5)));
}

#[test]
fn signed_and_unsigned_numbers_compare_by_value() {
    let uint = |n| Value::Uint(n, UintType::Uint64);
    let int = Value::int;
    for (a, b, expected) in [
        (int(1), uint(2), true),
        (int(2), uint(2), false),
        (int(3), uint(2), false),
        (int(-1), uint(0), true),
        (int(-1), uint(u64::MAX), true),
        (uint(1), int(2), true),
        (uint(2), int(2), false),
        (uint(3), int(2), false),
        (uint(0), int(-1), false),
        (uint(u64::MAX), int(-1), false),
        (uint(1), uint(2), true),
        (uint(2), uint(2), false),
        (uint(3), uint(2), false),
    ] {
        assert_eq!(less(&a, &b).unwrap(), expected, "{a:?} < {b:?}");
        let same =
            matches!((&a, &b), (Value::Int(2, _) | Value::Uint(2, _), Value::Int(2, _) | Value::Uint(2, _)));
        assert_eq!(equal(&a, &b).unwrap(), same, "{a:?} == {b:?}");
    }
    assert!(equal(&uint(u64::MAX), &uint(u64::MAX)).unwrap());
    assert!(!equal(&uint(u64::MAX), &int(-1)).unwrap());
}

#[test]
fn deep_equality_is_of_types_and_contents() {
    let float32 = |n| Value::Float(n, steersman_gotemplate::FloatType::Float32);
    let thing = |name, fields: &[(&'static str, Value)]| {
        Native { fields: Some(fields.to_vec()), ..Native::new(name, Kind::Struct) }.value()
    };
    // Values that all differ from each other.
    let different = || {
        vec![
            Value::Nil,
            Value::Bool(true),
            Value::Bool(false),
            Value::int(1),
            Value::int(2),
            Value::int64(1),
            Value::Uint(1, UintType::Uint8),
            Value::Uint(2, UintType::Uint8),
            Value::Uint(1, UintType::Uint64),
            Value::float(1.0),
            Value::float(2.0),
            float32(1.0),
            Value::Complex(1.0, 2.0),
            Value::Complex(1.0, 3.0),
            Value::Complex(3.0, 2.0),
            Value::string("a"),
            Value::string("b"),
            Value::string("aa"),
            Value::Bytes("a".into()),
            Value::Bytes("b".into()),
            Value::list(vec![]),
            Value::list(vec![Value::int(1)]),
            Value::list(vec![Value::int(2)]),
            Value::list(vec![Value::int(1), Value::int(1)]),
            Value::List(List::nil(ListType::ANY)),
            Value::List(List::nil(ListType::STRING)),
            Value::strings(Vec::<&str>::new()),
            Value::strings(["a"]),
            Value::map([("a", Value::int(1))]),
            Value::map([("a", Value::int(2))]),
            Value::map([("b", Value::int(1))]),
            Value::map([("a", Value::int(1)), ("b", Value::int(1))]),
            Value::Map(Map::new()),
            Value::Map(Map::nil(MapType::ANY)),
            Value::Map(Map::nil(MapType::STRING)),
            thing("main.a", &[]),
            thing("main.a", &[("A", Value::int(1))]),
            thing("main.a", &[("A", Value::int(2))]),
            thing("main.b", &[("A", Value::int(1))]),
            Native::new("main.c", Kind::Struct).value(),
        ]
    };
    for (i, a) in different().iter().enumerate() {
        for (j, b) in different().iter().enumerate() {
            assert_eq!(deep_equal(a, b), i == j, "{a:?} and {b:?}");
        }
    }
    let nan = Value::float(f64::NAN);
    assert!(!deep_equal(&nan, &nan));
    let list = Value::list(vec![nan]);
    assert!(deep_equal(&list, &list.clone()));
}

#[test]
fn a_method_goes_before_a_key_of_its_name() {
    static NAMED: MapType = MapType {
        name: "main.named",
        elem: Type::Any,
        methods: &[Method {
            name: "Name",
            signature: Signature { params: &[], variadic: None },
            call: |_, _, _| Ok(Value::string("method")),
        }],
    };
    let map = Map::with_type(&NAMED, [("Name", "key"), ("Other", "key")].map(entry).into());
    let map = Value::Map(map);
    gives(
        "{{.Name}} {{.Other}} {{$.Name}} {{$x := .}}{{$x.Name}} {{$x.Other}}",
        &map,
        "method key method method key",
    );
}

fn entry((key, text): (&str, &str)) -> (Str, Value) {
    (key.into(), Value::string(text))
}
