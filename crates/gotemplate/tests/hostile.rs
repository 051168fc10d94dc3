//! Templates and values made to exhaust something: each must end, with an error where Go has none to give.

use std::sync::Arc;

use steersman_gotemplate::{CallError, Funcs, Limits, Map, Set, Type, Value, deep_equal, fmt};

fn funcs() -> Funcs<()> {
    let mut funcs = Funcs::new();
    funcs.insert("list", &[], Some(Type::Any), |call| Ok(Value::list(call.args.to_vec())));
    funcs.insert("dict", &[], None, |_| Ok(Value::Map(Map::new())));
    funcs.insert("set", &[Type::MapAny, Type::String, Type::Any], None, |call| match call.args {
        [Value::Map(map), Value::String(key), value] => {
            map.insert(key.clone(), value.clone());
            Ok(Value::Map(map.clone()))
        }
        _ => Err(CallError::new("not a map")),
    });
    funcs.insert("include", &[Type::String, Type::Any], None, |call| match call.args {
        [Value::String(name), data] => {
            let mut out = Vec::new();
            call.set.execute(call.host, &name.to_string(), data.clone(), &mut out)?;
            Ok(Value::string(out))
        }
        _ => Err(CallError::new("not a name")),
    });
    funcs
}

fn render(limits: Limits, text: &str) -> Result<String, String> {
    let mut set = Set::new(Arc::new(funcs())).limits(limits);
    set.parse("main", text.as_bytes()).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    set.execute(&mut (), "main", Value::map([("k", Value::int(1))]), &mut out)
        .map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

#[track_caller]
fn fails(text: &str, expected: &str) {
    let error = render(Limits::default(), text).expect_err("must fail");
    assert!(error.ends_with(expected), "{}", &error[error.len().saturating_sub(300)..]);
}

#[test]
fn deep_parentheses_end_as_in_go() {
    fails(&format!("{{{{{}", "(".repeat(1 << 20)), "main:1: max expression depth exceeded");
    let deep = 10_000;
    let text = format!("{{{{{}.k{}}}}}", "(".repeat(deep), ")".repeat(deep));
    assert_eq!(render(Limits::default(), &text).as_deref(), Ok("1"));
    let wrong = format!("{{{{print {}len{} 1 }}}}", "(".repeat(deep), ")".repeat(deep));
    fails(&wrong, "wrong number of args for len: want 1 got 0");
}

#[test]
fn deep_control_structures_are_refused() {
    fails(&"{{if 1}}".repeat(100_000), "max nesting depth exceeded");
    fails(&"{{block \"a\" .}}".repeat(100_000), "max nesting depth exceeded");
    let deep = 9_000;
    let text = format!("{}x{}", "{{with .}}".repeat(deep), "{{end}}".repeat(deep));
    assert_eq!(render(Limits::default(), &text).as_deref(), Ok("x"));
    let chain = format!("{{{{if 0}}}}{}{{{{end}}}}", "{{else if 0}}".repeat(deep));
    assert_eq!(render(Limits::default(), &chain).as_deref(), Ok(""));
}

#[test]
fn endless_recursion_meets_gos_limit() {
    fails(
        "{{define \"a\"}}{{template \"a\"}}{{end}}{{template \"a\"}}",
        "exceeded maximum template depth (100000)",
    );
    fails(
        "{{define \"a\"}}{{if true}}{{range 1}}{{with 1}}{{template \"a\"}}{{end}}{{end}}{{end}}{{end}}{{template \"a\"}}",
        "exceeded maximum template depth (100000)",
    );
}

#[test]
fn endless_recursion_through_functions_is_bounded() {
    let limits = Limits { executions: 3_000, ..Limits::default() };
    let error = render(limits, "{{define \"a\"}}{{include \"a\" .}}{{end}}{{include \"a\" .}}").unwrap_err();
    assert!(error.ends_with("exceeded maximum template depth (3000)"));
}

#[test]
fn long_loops_end() {
    let limits = Limits { steps: 100_000, ..Limits::default() };
    let error = render(limits, "{{range 1000000000}}{{end}}").unwrap_err();
    assert!(error.ends_with("exceeded maximum number of steps (100000)"), "{error}");
    let error = render(
        limits,
        "{{define \"a\"}}{{range 1000}}{{end}}{{end}}{{range 1000}}{{include \"a\" .}}{{end}}",
    );
    assert!(error.unwrap_err().ends_with("exceeded maximum number of steps (100000)"));
}

#[test]
fn output_is_bounded() {
    let limits = Limits { output: 1 << 20, ..Limits::default() };
    let error = render(limits, "{{range 1000000000}}0123456789{{end}}").unwrap_err();
    assert!(error.ends_with("exceeded maximum output size (1048576 bytes)"), "{error}");
    let double = "{{$x := \"0123456789\"}}{{range 100}}{{$x = print $x $x}}{{end}}";
    let error = render(limits, double).unwrap_err();
    assert!(error.ends_with("exceeded maximum output size (1048576 bytes)"), "{error}");
    let wide = format!("{{{{printf \"{}\" 1}}}}", "%1000000[1]d".repeat(1000));
    let error = render(limits, &wide).unwrap_err();
    assert!(error.ends_with("error calling printf: printed text exceeds 1048576 bytes"), "{error}");
}

#[test]
fn values_that_contain_themselves_do_not_print() {
    let cyclic = "{{$d := dict}}{{$_ := set $d \"self\" $d}}";
    fails(&format!("{cyclic}{{{{$d}}}}"), "value is nested too deeply to print, or contains itself");
    fails(
        &format!("{cyclic}{{{{printf \"%d\" $d}}}}"),
        "value is nested too deeply to print, or contains itself",
    );
    let map = Map::new();
    map.insert("self", Value::list(vec![Value::Map(map.clone())]));
    let value = Value::Map(map.clone());
    let error = serde_json::to_string(&value).unwrap_err();
    assert_eq!(error.to_string(), "json: unsupported value: encountered a cycle via map[string]interface {}");
    assert!(fmt::format_value(&value).is_err());
    let other = Map::new();
    other.insert("self", Value::list(vec![Value::Map(other.clone())]));
    assert!(deep_equal(&value, &Value::Map(other.clone())));
    map.remove(b"self");
    other.remove(b"self");
}

#[test]
fn values_that_share_parts_do_not_explode() {
    let mut text = String::from("{{$x := list 1}}");
    text.push_str(&"{{$x = list $x $x}}".repeat(60));
    text.push_str("{{$x}}");
    let limits = Limits { output: 1 << 20, ..Limits::default() };
    let error = render(limits, &text).unwrap_err();
    assert!(error.ends_with("printed text exceeds 1048576 bytes"), "{error}");
}

#[test]
fn deep_values_print_compare_and_drop() {
    let nest = |depth: usize| {
        (0..depth).fold(Value::Nil, |value, i| match i % 2 {
            0 => Value::list(vec![value]),
            _ => Value::map([("k", value)]),
        })
    };
    drop(nest(1_000_000));
    let (a, b) = (nest(5_000), nest(5_000));
    assert!(deep_equal(&a, &b));
    assert!(fmt::format_value(&a).is_ok());
    assert!(fmt::format_value(&nest(50_000)).is_err());
    let mut out = Vec::new();
    assert!(serde::Serialize::serialize(&a, &mut serde_json::Serializer::new(&mut out)).is_ok());
}
