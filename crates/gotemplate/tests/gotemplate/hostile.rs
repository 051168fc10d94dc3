//! Templates and values made to exhaust a resource: each must end, with an error where Go has none.

use std::sync::Arc;

use steersman_gotemplate::{
    Budget, CallError, Exceeded, Funcs, Interrupt, Limits, Map, Set, Type, Value, deep_equal,
    deep_equal_within, fmt,
};

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
    let limits = Limits { cost: 100_000, ..Limits::default() };
    let error = render(limits, "{{range 1000000000}}{{end}}").unwrap_err();
    assert!(error.ends_with("exceeded the cost limit of 100000"), "{error}");
    let error = render(
        limits,
        "{{define \"a\"}}{{range 1000}}{{end}}{{end}}{{range 1000}}{{include \"a\" .}}{{end}}",
    );
    assert!(error.unwrap_err().ends_with("exceeded the cost limit of 100000"));
}

#[test]
fn output_is_bounded() {
    let limits = Limits { memory: 1 << 20, ..Limits::default() };
    let error = render(limits, "{{range 1000000000}}0123456789{{end}}").unwrap_err();
    assert!(error.ends_with("exceeded the memory limit of 1 MiB"), "{error}");
    let double = "{{$x := \"0123456789\"}}{{range 100}}{{$x = print $x $x}}{{end}}";
    let error = render(limits, double).unwrap_err();
    assert!(error.ends_with("exceeded the memory limit of 1 MiB"), "{error}");
    let wide = format!("{{{{printf \"{}\" 1}}}}", "%1000000[1]d".repeat(1000));
    let error = render(limits, &wide).unwrap_err();
    assert!(error.ends_with("error calling printf: exceeded the memory limit of 1 MiB"), "{error}");
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
    let limits = Limits { memory: 1 << 20, ..Limits::default() };
    let error = render(limits, &text).unwrap_err();
    assert!(error.ends_with("exceeded the memory limit of 1 MiB"), "{error}");
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

/// A list of two references to a list of two references, and so on.
fn doubled(levels: usize) -> Value {
    (0..levels).fold(Value::int(1), |inner, _| Value::list(vec![inner.clone(), inner]))
}

#[test]
fn one_budget_serves_all_executions_and_says_which_limit_it_was() {
    let budget = Arc::new(Budget::new(Limits { memory: 1000, ..Limits::default() }));
    let mut set = Set::new(Arc::new(funcs())).within(Arc::clone(&budget));
    set.parse("main", "0123456789".repeat(30).as_bytes()).unwrap();
    let run = || set.execute(&mut (), "main", Value::Nil, &mut Vec::new());
    let failed = (0..10).find_map(|_| run().err()).expect("the budget is used up");
    assert_eq!(failed.exceeded, Some(Exceeded::Memory(1000)));
    assert_eq!(failed.frames.first().map(|frame| frame.template.as_str()), Some("main"));
    assert!(run().is_err());
}

#[test]
fn an_interrupt_ends_an_execution() {
    let interrupt = Interrupt::new();
    let budget = Arc::new(Budget::new(Limits::default()).interrupted_by(interrupt.clone()));
    let mut set = Set::new(Arc::new(funcs())).within(budget);
    set.parse("main", b"{{range 1000000000}}{{end}}").unwrap();
    let waiting = std::thread::spawn({
        let interrupt = interrupt.clone();
        move || interrupt.raise("out of time")
    });
    let error = set.execute(&mut (), "main", Value::Nil, &mut Vec::new()).unwrap_err();
    waiting.join().unwrap();
    assert!(error.message.ends_with("out of time"), "{}", error.message);
    assert_eq!(error.exceeded, Some(Exceeded::Interrupted("out of time".into())));
}

#[test]
fn recursion_holds_its_variables_and_snapshots_of_maps() {
    let limits = Limits { memory: 8 << 20, ..Limits::default() };
    let variables: String = (0..1000).map(|i| format!("{{{{$v{i} := 1}}}}")).collect();
    let text =
        format!("{{{{define \"a\"}}}}{variables}{{{{template \"a\"}}}}{{{{end}}}}{{{{template \"a\"}}}}");
    let error = render(limits, &text).unwrap_err();
    assert!(error.ends_with("exceeded the memory limit of 8 MiB"), "{error}");

    let mut set = Set::new(Arc::new(funcs())).limits(limits);
    set.parse(
        "main",
        b"{{define \"a\"}}{{range $k, $v := .}}{{template \"a\" $}}{{end}}{{end}}{{template \"a\" .}}",
    )
    .unwrap();
    let wide = Value::map((0..1000).map(|i| (format!("k{i}"), Value::int(i))));
    let error = set.execute(&mut (), "main", wide, &mut Vec::new()).unwrap_err();
    assert!(error.message.ends_with("exceeded the memory limit of 8 MiB"), "{}", error.message);

    // The memory of a call is released: this makes a hundred thousand of them.
    let fine = "{{define \"a\"}}{{$x := 1}}{{end}}{{range 100000}}{{template \"a\"}}{{end}}";
    assert_eq!(render(limits, fine).as_deref(), Ok(""));
}

#[test]
fn escaped_text_is_bounded() {
    let limits = Limits { memory: 1 << 20, ..Limits::default() };
    for name in ["js", "html", "urlquery"] {
        let text = format!(
            "{{{{define \"a\"}}}}{}{{{{end}}}}{{{{len ({name} (include \"a\" .))}}}}",
            "<".repeat(300_000)
        );
        let error = render(limits, &text).unwrap_err();
        assert!(error.ends_with("exceeded the memory limit of 1 MiB"), "{name}: {error}");
    }
}

#[test]
fn parsing_is_charged() {
    let budget = || Arc::new(Budget::new(Limits { memory: 8 << 20, ..Limits::default() }));
    let set = Set::new(Arc::new(funcs())).within(budget());
    let failed = set.compile("many", "{{1}}".repeat(100_000).as_bytes()).err().expect("too many nodes");
    assert_eq!(failed.exceeded, Some(Exceeded::Memory(8 << 20)));
    // A variable that may be declared in many places keeps all of them wherever it is used.
    let declared = "{{and 1 ($x := 1)}}".repeat(2000);
    let used = "{{$x}}".repeat(2000);
    let set = Set::new(Arc::new(funcs())).within(budget());
    assert!(set.compile("places", format!("{{{{$x := 1}}}}{declared}{used}").as_bytes()).is_err());
}

#[test]
fn comparing_and_serializing_shared_parts_is_charged() {
    let budget = Budget::new(Limits { cost: 100_000, ..Limits::default() });
    let error = serde_json::to_string(&doubled(40).within(&budget)).unwrap_err();
    assert!(error.to_string().contains("exceeded the cost limit of 100000"), "{error}");

    let budget = Budget::new(Limits { cost: 100_000, ..Limits::default() });
    let (a, b) = (Value::list(vec![Value::int(1); 200_000]), Value::list(vec![Value::int(1); 200_000]));
    assert_eq!(deep_equal_within(&budget, &a, &b), Err(Exceeded::Cost(100_000)));
    // Equal parts are compared once.
    let budget = Budget::new(Limits { cost: 100_000, ..Limits::default() });
    assert_eq!(deep_equal_within(&budget, &doubled(1000), &doubled(1000)), Ok(true));
}

#[test]
fn errors_of_deep_recursion_stay_readable() {
    let long = "x".repeat(500);
    let text = format!(
        "{{{{define \"{long}\"}}}}{{{{include \"{long}\" .}}}}{{{{end}}}}{{{{include \"{long}\" .}}}}"
    );
    let error = render(Limits { executions: 5_000, ..Limits::default() }, &text).unwrap_err();
    assert!(error.len() < 1 << 20, "{}", error.len());
    assert!(error.ends_with("exceeded maximum template depth (5000)"));
}
