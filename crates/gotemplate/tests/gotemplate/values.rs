//! Values, their types and their formatting, without templates.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use steersman_gotemplate::{
    FloatType, Funcs, IntType, Kind, List, ListType, Map, MapType, Str, Type, UintType, Value, fmt,
};

#[test]
fn kinds_have_the_names_of_go() {
    let names = [
        (Kind::Invalid, "invalid"),
        (Kind::Bool, "bool"),
        (Kind::Int(IntType::Int), "int"),
        (Kind::Int(IntType::Int8), "int8"),
        (Kind::Int(IntType::Int16), "int16"),
        (Kind::Int(IntType::Int32), "int32"),
        (Kind::Int(IntType::Int64), "int64"),
        (Kind::Uint(UintType::Uint), "uint"),
        (Kind::Uint(UintType::Uint8), "uint8"),
        (Kind::Uint(UintType::Uint16), "uint16"),
        (Kind::Uint(UintType::Uint32), "uint32"),
        (Kind::Uint(UintType::Uint64), "uint64"),
        (Kind::Float(FloatType::Float32), "float32"),
        (Kind::Float(FloatType::Float64), "float64"),
        (Kind::Complex128, "complex128"),
        (Kind::String, "string"),
        (Kind::Slice, "slice"),
        (Kind::Map, "map"),
        (Kind::Struct, "struct"),
        (Kind::Ptr, "ptr"),
        (Kind::Func, "func"),
        (Kind::Interface, "interface"),
    ];
    for (kind, name) in names {
        assert_eq!((kind.name(), kind.to_string().as_str()), (name, name));
    }
}

#[test]
fn types_have_names_and_zero_values() {
    for (ty, name, zero) in [
        (Type::Any, "interface {}", "<nil> <nil>"),
        (Type::Bool, "bool", "bool false"),
        (Type::Int, "int", "int 0"),
        (Type::Int8, "int8", "int8 0"),
        (Type::Int16, "int16", "int16 0"),
        (Type::Int32, "int32", "int32 0"),
        (Type::Int64, "int64", "int64 0"),
        (Type::Uint, "uint", "uint 0x0"),
        (Type::Uint8, "uint8", "uint8 0x0"),
        (Type::Uint16, "uint16", "uint16 0x0"),
        (Type::Uint32, "uint32", "uint32 0x0"),
        (Type::Uint64, "uint64", "uint64 0x0"),
        (Type::Float32, "float32", "float32 0"),
        (Type::Float64, "float64", "float64 0"),
        (Type::String, "string", "string \"\""),
        (Type::Bytes, "[]uint8", "[]uint8 []byte{}"),
        (Type::ListAny, "[]interface {}", "[]interface {} []interface {}(nil)"),
        (Type::ListString, "[]string", "[]string []string(nil)"),
        (Type::ListInt, "[]int", "[]int []int(nil)"),
        (Type::MapAny, "map[string]interface {}", "map[string]interface {} map[string]interface {}(nil)"),
        (Type::MapString, "map[string]string", "map[string]string map[string]string(nil)"),
        (Type::Named("main.thing"), "main.thing", "<nil> <nil>"),
    ] {
        assert_eq!(ty.name(), name);
        assert_eq!(fmt::sprintf(b"%T %#v", &[ty.zero(), ty.zero()]).unwrap(), zero, "{name}");
        assert!(!ty.zero().truth(), "{name}");
    }
}

#[test]
fn values_have_kinds_types_and_truths() {
    for (value, kind, ty, truth) in [
        (Value::Nil, "invalid", "<nil>", false),
        (Value::Bool(true), "bool", "bool", true),
        (Value::Bool(false), "bool", "bool", false),
        (Value::int(-1), "int", "int", true),
        (Value::int64(1), "int64", "int64", true),
        (Value::int(0), "int", "int", false),
        (Value::Uint(1, UintType::Uint8), "uint8", "uint8", true),
        (Value::Uint(0, UintType::Uint8), "uint8", "uint8", false),
        (Value::float(0.5), "float64", "float64", true),
        (Value::float(-0.0), "float64", "float64", false),
        (Value::Complex(0.0, 0.0), "complex128", "complex128", false),
        (Value::Complex(1.0, 0.0), "complex128", "complex128", true),
        (Value::Complex(0.0, 1.0), "complex128", "complex128", true),
        (Value::string("a"), "string", "string", true),
        (Value::string(""), "string", "string", false),
        (Value::Bytes("a".into()), "slice", "[]uint8", true),
        (Value::Bytes("".into()), "slice", "[]uint8", false),
        (Value::list(vec![Value::Nil]), "slice", "[]interface {}", true),
        (Value::list(vec![]), "slice", "[]interface {}", false),
        (Value::strings(["a"]), "slice", "[]string", true),
        (Value::map([("a", Value::Nil)]), "map", "map[string]interface {}", true),
        (Value::Map(Map::new()), "map", "map[string]interface {}", false),
    ] {
        assert_eq!((value.kind().name(), value.type_name().as_str()), (kind, ty), "{value:?}");
        assert_eq!(value.truth(), truth, "{value:?}");
    }
}

#[test]
fn values_show_as_go_syntax() {
    let value = Value::map([("a", Value::list(vec![Value::int(1), Value::string("x"), Value::Nil]))]);
    let expected = "map[string]interface {}{\"a\":[]interface {}{1, \"x\", interface {}(nil)}}";
    assert_eq!(format!("{value:?}"), expected);
    let map = Map::new();
    map.insert("self", Value::Map(map.clone()));
    let shown = format!("{:?}", Value::Map(map.clone()));
    assert_eq!(shown, "value is nested too deeply to print, or contains itself");
    map.remove(b"self");
}

#[test]
fn text_is_bytes() {
    let text = Str::from("h\u{e9}");
    assert_eq!(text.as_bytes(), "h\u{e9}".as_bytes());
    assert_eq!((text.as_str(), text.to_str_lossy().as_ref()), (Some("h\u{e9}"), "h\u{e9}"));
    let broken = Str::from_bytes(&b"a\xffb"[..]);
    assert_eq!((broken.as_str(), broken.to_str_lossy().as_ref()), (None, "a\u{FFFD}b"));
    assert_eq!((format!("{broken}"), format!("{broken:?}")), ("a\u{FFFD}b".into(), "\"a\u{FFFD}b\"".into()));
    assert_eq!(broken.as_ref() as &[u8], b"a\xffb");
    assert_eq!(&*broken, b"a\xffb");
    assert_eq!(Str::from(b"ab".to_vec()), Str::from("ab".to_string()));
    assert_eq!(Str::from(&b"ab"[..]), Str::from("ab"));
    assert!(text == *"h\u{e9}" && text == "h\u{e9}" && text != *"h" && text != "h");
    let (first, second) = (Str::from("a"), Str::from("b"));
    assert!(first < second && Str::default().is_empty());
    // A string key is found by its bytes.
    let map = BTreeMap::from([(Str::from("key"), 1)]);
    assert_eq!((map.get(&b"key"[..]), map.get(&b"other"[..])), (Some(&1), None));
    let hash = |value: &dyn Fn(&mut DefaultHasher)| {
        let mut hasher = DefaultHasher::new();
        value(&mut hasher);
        hasher.finish()
    };
    assert_eq!(hash(&|hasher| text.hash(hasher)), hash(&|hasher| text.as_bytes().hash(hasher)));
}

#[test]
fn lists_are_shared_and_know_their_type() {
    let list = List::new(ListType::ANY, vec![Value::int(1), Value::int(2)]);
    assert_eq!((list.len(), list.is_nil(), list.ty().name), (2, false, "[]interface {}"));
    let converted = list.converted(ListType::INT);
    assert_eq!((converted.len(), converted.ty().name), (2, "[]int"));
    assert!(list.ptr_eq(&converted) && list.ptr_eq(&list.clone()));
    assert!(!list.ptr_eq(&List::new(ListType::ANY, vec![Value::int(1), Value::int(2)])));
    let nil = List::nil(ListType::ANY);
    assert!(nil.is_nil() && nil.is_empty() && nil.ptr_eq(&List::nil(ListType::STRING)));
    assert!(!nil.ptr_eq(&list) && !list.ptr_eq(&nil));
    assert!(!List::new(ListType::ANY, vec![]).is_nil());
}

#[test]
fn maps_are_shared_and_change_together() {
    let map = Map::default();
    assert!(map.is_empty() && !map.is_nil());
    let other = map.converted(MapType::STRING);
    map.insert("a", Value::string("1"));
    assert_eq!((other.len(), other.is_empty(), other.ty().name), (1, false, "map[string]string"));
    assert!(matches!(other.get(b"a"), Some(Value::String(text)) if text == "1"));
    assert!(map.ptr_eq(&other) && !map.ptr_eq(&Map::new()));
    other.borrow_mut().insert("b".into(), Value::int(2));
    assert_eq!(map.borrow().keys().map(ToString::to_string).collect::<Vec<_>>(), ["a", "b"]);
    assert!(matches!(map.remove(b"b"), Some(Value::Int(2, _))) && map.remove(b"b").is_none());
    assert!(map.get(b"b").is_none());

    let nil = Map::nil(MapType::ANY);
    assert!(nil.is_nil() && nil.is_empty());
    nil.insert("a", Value::Nil);
    assert!(!nil.is_nil());
}

#[test]
fn functions_are_found_by_name_until_they_are_removed() {
    let mut funcs: Funcs<()> = Funcs::new();
    funcs.insert("one", &[Type::Int], None, |_| Ok(Value::Nil));
    funcs.insert("two", &[], Some(Type::Any), |_| Ok(Value::Nil));
    let names = |funcs: &Funcs<()>| {
        let mut names: Vec<_> = funcs.names().map(ToString::to_string).collect();
        names.sort();
        names
    };
    assert_eq!(names(&funcs), ["one", "two"]);
    assert_eq!(funcs.get(b"one").map(|func| func.signature.params), Some(&[Type::Int][..]));
    assert_eq!(funcs.get(b"two").and_then(|func| func.signature.variadic), Some(Type::Any));
    funcs.remove("one");
    assert!(funcs.get(b"one").is_none());
    assert_eq!(names(&funcs), ["two"]);
    assert!(Funcs::<()>::default().names().next().is_none());
}

#[test]
fn values_are_appended_as_they_print() {
    let mut out = b"a".to_vec();
    fmt::append_value(&mut out, &Value::string("b")).unwrap();
    fmt::append_value(&mut out, &Value::list(vec![Value::int(1)])).unwrap();
    fmt::append_value(&mut out, &Value::Nil).unwrap();
    assert_eq!(out, b"ab[1]<nil>");
}

#[test]
fn numbers_and_bytes_in_json() {
    let json = |value: &Value| serde_json::to_string(value).map_err(|error| error.to_string());
    for (bytes, encoded) in [
        ("", ""),
        ("f", "Zg=="),
        ("fo", "Zm8="),
        ("foo", "Zm9v"),
        ("foob", "Zm9vYg=="),
        ("fooba", "Zm9vYmE="),
        ("foobar", "Zm9vYmFy"),
        ("\u{3ff}\u{3fe}~?>", "z7/Pvn4/Pg=="),
    ] {
        assert_eq!(json(&Value::Bytes(bytes.into())), Ok(format!("\"{encoded}\"")), "{bytes}");
    }
    assert_eq!(json(&Value::Float(f64::from(0.1_f32), FloatType::Float32)).as_deref(), Ok("0.1"));
    assert_eq!(json(&Value::float(0.1)).as_deref(), Ok("0.1"));
    assert_eq!(
        json(&Value::Float(f64::INFINITY, FloatType::Float32)),
        Err("json: unsupported value: +Inf".into())
    );
    assert_eq!(json(&Value::Map(Map::nil(MapType::ANY))).as_deref(), Ok("null"));
    assert_eq!(json(&Value::Map(Map::new())).as_deref(), Ok("{}"));
    assert_eq!(json(&Value::list(vec![])).as_deref(), Ok("[]"));
    assert_eq!(
        json(&Value::map([(&b"\xff"[..], Value::Bool(false))])).as_deref(),
        Ok("{\"\u{FFFD}\":false}")
    );
}

#[test]
fn only_what_contains_itself_is_no_json() {
    let nest = |inner: Value, depth: usize| (0..depth).fold(inner, |value, _| Value::list(vec![value]));
    let written = |value: &Value| {
        let mut out = Vec::new();
        let result = serde::Serialize::serialize(value, &mut serde_json::Serializer::new(&mut out));
        result.map(|()| out.len()).map_err(|error| error.to_string())
    };
    // The same part in two places is not a cycle, at any depth.
    let shared = Value::map([("k", Value::list(vec![]))]);
    let twice = Value::list(vec![shared.clone(), shared]);
    assert_eq!(written(&nest(twice.clone(), 10)), Ok(10 * 2 + "[{\"k\":[]},{\"k\":[]}]".len()));
    assert_eq!(written(&nest(twice, 1200)), Ok(1200 * 2 + "[{\"k\":[]},{\"k\":[]}]".len()));
    let map = Map::new();
    map.insert("self", Value::Map(map.clone()));
    let error = "json: unsupported value: encountered a cycle via map[string]interface {}";
    assert_eq!(written(&Value::Map(map.clone())), Err(error.into()));
    map.remove(b"self");
}
