//! Templates, with output or errors recorded from Go.

use std::sync::Arc;

use steersman_gotemplate::{
    CallError, Funcs, List, ListType, Map, MapType, MissingKey, Set, Str, Type, UintType, Value, fmt,
};

/// Functions with typed parameters, and one that executes a template.
fn funcs() -> Funcs<()> {
    let mut funcs = Funcs::new();
    funcs.insert("upper", &[Type::String], None, |call| match call.args {
        [Value::String(text)] => Ok(Value::string(text.to_ascii_uppercase())),
        _ => Err(CallError::new("not a string")),
    });
    funcs.insert("add", &[Type::Int, Type::Int], None, |call| match call.args {
        [Value::Int(a, _), Value::Int(b, _)] => Ok(Value::int(a + b)),
        _ => Err(CallError::new("not integers")),
    });
    funcs.insert("list", &[], Some(Type::Any), |call| Ok(Value::list(call.args.to_vec())));
    funcs.insert("fail", &[Type::String], None, |call| {
        Err(CallError::new(fmt::sprint(call.args)?.to_string()))
    });
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

fn data() -> Value {
    let texts = [("a", "A"), ("b", "")].map(|(key, text)| (Str::from(key), Value::string(text)));
    Value::map([
        ("s", Value::string("hello")),
        ("n", Value::Nil),
        ("i", Value::int(7)),
        ("f", Value::float(12_345_678.0)),
        ("l", Value::list(vec![Value::int(1), Value::string("two"), Value::Nil])),
        ("m", Value::map([("a", Value::int(1)), ("b", Value::map([("c", Value::string("deep"))]))])),
        ("e", Value::string("")),
        ("z", Value::int(0)),
        ("u", Value::Uint(200, UintType::Uint8)),
        ("t", Value::Bool(true)),
        ("strs", Value::strings(["p", "q", "r"])),
        ("ints", Value::List(List::new(ListType::INT, [3, 1, 2].map(Value::int).to_vec()))),
        ("bytes", Value::Bytes("hello".into())),
        ("mss", Value::Map(Map::with_type(MapType::STRING, texts.into()))),
    ])
}

fn render_with(missing_key: MissingKey, text: &str) -> Result<String, String> {
    let mut set = Set::new(Arc::new(funcs())).named("root").missing_key(missing_key);
    set.parse("main", text.as_bytes()).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    set.execute(&mut (), "main", data(), &mut out).map_err(|error| error.to_string())?;
    String::from_utf8(out).map_err(|error| error.to_string())
}

pub(super) fn render(text: &str) -> Result<String, String> {
    render_with(MissingKey::Default, text)
}

#[track_caller]
pub(super) fn gives(text: &str, expected: &str) {
    assert_eq!(render(text).as_deref(), Ok(expected), "{text}");
}

#[track_caller]
pub(super) fn fails(text: &str, expected: &str) {
    assert_eq!(render(text), Err(expected.to_string()), "{text}");
}

/// Asserts that the template does not parse; the error begins with the line.
#[track_caller]
pub(super) fn refuses(text: &str, error: &str) {
    fails(text, &format!("template: main:{error}"));
}

/// Asserts that the execution fails; the error begins with line, column and the node in angle brackets.
#[track_caller]
pub(super) fn stops(text: &str, error: &str) {
    let error = error.replacen(" at <", ": executing \"main\" at <", 1);
    fails(text, &format!("template: main:{error}"));
}

#[test]
fn text_and_trimming() {
    gives("a {{- 1 -}} b", "a1b");
    gives("a {{- /* c */}} b", "a b");
    gives("a {{/* c */ -}} b", "a b");
    gives("a\n{{-\n1 }}", "a1");
    gives("{{-3}}", "-3");
    gives("{{ .i | }}", "7");
}

#[test]
fn values_print_as_in_go() {
    gives(
        "{{.f}} {{.n}} {{.missing}} {{.l}} {{.m}}",
        "1.2345678e+07 <no value> <no value> [1 two <nil>] map[a:1 b:map[c:deep]]",
    );
    gives("{{1.0}} {{1e6}} {{0x1F}} {{'a'}} {{1i}} {{true}}", "1 1e+06 31 97 (0+1i) true");
    gives(
        "{{printf `%d %s %5.2f|%-4d|%q` .s .n 1.5 3 .s}}",
        "%!d(string=hello) %!s(<nil>)  1.50|3   |\"hello\"",
    );
    gives("{{print 1 2 `a` 3}} {{println 1 `a`}}", "1 2a3 1 a\n");
}

#[test]
fn variables_follow_scopes() {
    gives("{{$x := 1}}{{if true}}{{$x := 2}}{{$x}}{{end}}{{$x}}", "21");
    gives("{{$x := 1}}{{if true}}{{$x = 2}}{{end}}{{$x}}", "2");
    gives("{{$x := 0}}{{if false}}{{$x := 1}}{{else}}{{$x}}{{end}}", "0");
    gives("{{$x := 1}}{{and false ($x := 2)}}{{$x}}", "false1");
    gives("{{range $i, $e := .l}}{{$i}}={{$e}} {{end}}", "0=1 1=two 2=<no value> ");
    gives("{{range $k, $v := .m}}{{$k}}:{{$v}};{{end}}", "a:1;b:map[c:deep];");
    gives("{{with $x := .s}}{{$x}}{{.}}{{end}}", "hellohello");
    fails("{{$x = 1}}", "template: main:1:7: executing \"main\" at <1>: undefined variable: $x");
    fails("{{$x}}", "template: main:1: undefined variable \"$x\"");
}

#[test]
fn loops() {
    gives("{{range 3}}{{.}}{{end}}", "012");
    gives("{{range .missing}}x{{else}}none{{end}}", "none");
    gives("{{range 5}}{{if eq . 1}}{{continue}}{{end}}{{.}}{{if eq . 3}}{{break}}{{end}}{{end}}", "023");
    gives("{{range 2}}{{range $.missing}}{{else}}{{break}}{{end}}a{{end}}", "aa");
    fails(
        "{{range .s}}{{end}}",
        "template: main:1:8: executing \"main\" at <.s>: range can't iterate over hello",
    );
    fails("{{break}}", "template: main:1: {{break}} outside {{range}}");
}

#[test]
fn fields_of_nothing() {
    gives("{{.missing.x}}", "<no value>");
    fails(
        "{{.n.x}}",
        "template: main:1:4: executing \"main\" at <.n.x>: nil pointer evaluating interface {}.x",
    );
    fails(
        "{{.s.x}}",
        "template: main:1:4: executing \"main\" at <.s.x>: can't evaluate field x in type interface {}",
    );
    fails(
        "{{$s := .s}}{{$s.x}}",
        "template: main:1:16: executing \"main\" at <$s.x>: can't evaluate field x in type string",
    );
    let zero = render_with(MissingKey::Zero, "{{.missing}}{{.missing.x}}");
    let text =
        "template: main:1:22: executing \"main\" at <.missing.x>: nil pointer evaluating interface {}.x";
    assert_eq!(zero, Err(text.into()));
    let error = render_with(MissingKey::Error, "{{.missing}}");
    let text = "template: main:1:2: executing \"main\" at <.missing>: map has no entry for key \"missing\"";
    assert_eq!(error, Err(text.into()));
}

#[test]
fn arguments_are_checked() {
    gives("{{upper .s}} {{.s | upper}} {{add 1 2}}", "HELLO HELLO 3");
    fails(
        "{{upper .n}}",
        "template: main:1:8: executing \"main\" at <.n>: wrong type for value; expected string; got interface {}",
    );
    fails("{{upper (.n)}}", "template: main:1:9: executing \"main\" at <.n>: invalid value; expected string");
    fails(
        "{{upper .m}}",
        "template: main:1:8: executing \"main\" at <.m>: wrong type for value; expected string; got map[string]interface {}",
    );
    fails("{{upper 1}}", "template: main:1:8: executing \"main\" at <1>: expected string; found 1");
    fails(
        "{{add 1}}",
        "template: main:1:2: executing \"main\" at <add>: wrong number of args for add: want 2 got 1",
    );
    fails("{{.s 1}}", "template: main:1:2: executing \"main\" at <.s>: s is not a method but has arguments");
    fails("{{1 2}}", "template: main:1:2: executing \"main\" at <1>: can't give argument to non-function 1");
    fails("{{fail `x`}}", "template: main:1:2: executing \"main\" at <fail `x`>: error calling fail: x");
}

#[test]
fn errors_of_syntax() {
    fails("{{", "template: main:1: unclosed action");
    fails("\n{{.a\n", "template: main:3: unclosed action started at main:2");
    fails("{{nope}}", "template: main:1: function \"nope\" not defined");
    fails("{{if}}{{end}}", "template: main:1: missing value for if");
    fails("{{end}}", "template: main:1: unexpected {{end}}");
    fails("{{if 1}}", "template: main:1: unexpected EOF");
    fails("{{1 | 2}}", "template: main:1: non executable command in pipeline stage 2");
    fails("{{\"a}}", "template: main:1: unterminated quoted string");
    fails("{{.a.}}", "template: main:1: unexpected <.> in operand");
    fails("{{99999999999999999999}}", "template: main:1: integer overflow: \"99999999999999999999\"");
    fails(
        "{{define `a`}}x{{end}}{{define `a`}}y{{end}}",
        "template: main:1: template: multiple definition of template \"a\"",
    );
}

#[test]
fn templates_call_templates() {
    gives("{{define `a`}}<{{.}}>{{end}}{{template `a` .i}}{{template `a`}}", "<7><<no value>>");
    gives("{{block `b` .s}}[{{.}}]{{end}}", "[hello]");
    gives("{{define `a`}}{{.}}{{end}}{{include `a` 1 | upper}}", "1");
    fails(
        "{{template `no`}}",
        "template: main:1:11: executing \"main\" at <{{template \"no\"}}>: template \"no\" not defined",
    );
    fails(
        "{{include `no` .}}",
        "template: main:1:2: executing \"main\" at <include `no` .>: error calling include: template: no template \"no\" associated with template \"root\"",
    );
}

#[test]
fn an_error_names_the_whole_way() {
    let mut set = Set::new(Arc::new(funcs())).named("root");
    set.parse("helpers", b"\n{{define \"inner\"}}{{fail \"boom\"}}{{end}}").unwrap();
    set.parse("main", b"{{template \"outer\" .}}{{define \"outer\"}}{{include \"inner\" .}}{{end}}").unwrap();
    let error = set.execute(&mut (), "main", Value::Nil, &mut Vec::new()).unwrap_err();
    let way: Vec<_> =
        error.frames.iter().map(|f| (f.file.as_str(), f.template.as_str(), f.line, f.column)).collect();
    assert_eq!(way, [("helpers", "inner", 2, 20), ("main", "outer", 1, 42), ("main", "main", 1, 11)]);
    assert_eq!(error.frames[0].context, "fail \"boom\"");
    assert_eq!(
        error.to_string(),
        "template: main:1:42: executing \"outer\" at <include \"inner\" .>: error calling include: \
         template: helpers:2:20: executing \"inner\" at <fail \"boom\">: error calling fail: boom"
    );
}

#[test]
fn an_empty_template_replaces_nothing() {
    let mut set = Set::new(Arc::new(funcs()));
    set.parse("a", b"body").unwrap();
    set.parse("a", b" {{/* nothing */}} ").unwrap();
    let mut out = Vec::new();
    set.execute(&mut (), "a", Value::Nil, &mut out).unwrap();
    assert_eq!(out, b"body");
    set.parse("a", b"new").unwrap();
    out.clear();
    set.execute(&mut (), "a", Value::Nil, &mut out).unwrap();
    assert_eq!(out, b"new");
}

#[test]
fn clones_of_a_set_are_independent() {
    let mut set = Set::new(Arc::new(funcs()));
    set.parse("a", b"1").unwrap();
    let mut clones = vec![set.clone()];
    for i in 0..200 {
        let mut next = clones[i].clone();
        next.parse(&format!("t{i}"), b"x").unwrap();
        next.parse("a", format!("{i}").as_bytes()).unwrap();
        clones.push(next);
    }
    assert!(!set.contains("t0"));
    let last = clones.last().unwrap();
    assert!((0..200).all(|i| last.contains(&format!("t{i}"))));
    let render = |set: &Set<()>| {
        let mut out = Vec::new();
        set.execute(&mut (), "a", Value::Nil, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert_eq!(render(&set), "1");
    assert_eq!(render(last), "199");
    assert_eq!(render(&clones[100]), "99");
}

#[test]
fn maps_change_in_place() {
    gives("{{$d := set .m `z` 9}}{{.m.z}}", "9");
    let shared = Map::new();
    let mut set = Set::new(Arc::new(funcs()));
    set.parse("a", b"{{$_ := set . \"k\" 1}}").unwrap();
    set.execute(&mut (), "a", Value::Map(shared.clone()), &mut Vec::new()).unwrap();
    assert!(matches!(shared.get(b"k"), Some(Value::Int(1, _))));
}

#[test]
fn sets_and_parsed_templates_cross_threads() {
    fn crosses<T: Send + Sync>() {}
    crosses::<Set<()>>();
    crosses::<steersman_gotemplate::Parsed<()>>();
}

#[test]
fn a_missing_key_is_nothing_zero_or_an_error() {
    let with = |mode, text: &str| render_with(mode, text);
    for (text, nothing, zero) in [
        ("{{.missing}}", "<no value>", "<no value>"),
        ("{{.mss.zz}}", "<no value>", ""),
        ("{{printf `%T` .mss.zz}}", "<nil>", "string"),
        ("{{.m.b.zz}}", "<no value>", "<no value>"),
        ("{{index .mss `zz`}}", "", ""),
        ("{{.mss.a}}{{.m.b.c}}", "Adeep", "Adeep"),
        ("{{if .missing}}a{{else}}b{{end}}", "b", "b"),
    ] {
        assert_eq!(with(MissingKey::Default, text).as_deref(), Ok(nothing), "{text}");
        assert_eq!(with(MissingKey::Zero, text).as_deref(), Ok(zero), "{text}");
    }
    let fails = |text: &str| with(MissingKey::Error, text).expect_err(text);
    assert!(fails("{{.mss.zz}}").ends_with("<.mss.zz>: map has no entry for key \"zz\""));
    assert!(fails("{{.m.b.zz}}").ends_with("<.m.b.zz>: map has no entry for key \"zz\""));
    assert!(fails("{{.n.x}}").ends_with("<.n.x>: nil pointer evaluating interface {}.x"));
    assert!(fails("{{(index .l 2).x}}").ends_with("<2>: nil data; no entry for key \"x\""));
    assert_eq!(with(MissingKey::Error, "{{.mss.a}}{{index .mss `zz`}}").as_deref(), Ok("A"));
}

#[test]
fn functions_may_be_called_as_the_jumps_are() {
    let render = |names: &[&'static str], text: &str| {
        let mut funcs: Funcs<()> = Funcs::new();
        for name in names {
            funcs.insert(name, &[], None, |_| Ok(Value::string("called")));
        }
        let mut set = Set::new(Arc::new(funcs));
        set.parse("main", text.as_bytes()).map_err(|error| error.to_string())?;
        let mut out = Vec::new();
        set.execute(&mut (), "main", Value::Nil, &mut out).map_err(|error| error.to_string())?;
        Ok::<_, String>(String::from_utf8_lossy(&out).into_owned())
    };
    let text = "{{range 2}}{{.}}{{break}}{{end}}";
    assert_eq!(render(&[], text).as_deref(), Ok("0"));
    assert_eq!(render(&["break"], text).as_deref(), Ok("0called1called"));
    assert_eq!(render(&["continue"], text).as_deref(), Ok("0"));
    let text = "{{range 2}}{{continue}}{{.}}{{end}}";
    assert_eq!(render(&[], text).as_deref(), Ok(""));
    assert_eq!(render(&["continue"], text).as_deref(), Ok("called0called1"));
    assert_eq!(render(&["break"], text).as_deref(), Ok(""));
    assert_eq!(render(&["break"], "{{break}}").as_deref(), Ok("called"));
    assert!(render(&["break"], "{{continue}}").is_err());
    // A function replaces the built-in of the same name.
    assert_eq!(render(&["len"], "{{len}}").as_deref(), Ok("called"));
}

#[test]
fn a_set_holds_what_was_added_last() {
    let render = |set: &Set<()>, name: &str| {
        let mut out = Vec::new();
        set.execute(&mut (), name, Value::Nil, &mut out).map_err(|error| error.to_string())?;
        Ok::<_, String>(String::from_utf8_lossy(&out).into_owned())
    };
    let mut set = Set::new(Arc::new(funcs())).named("root");
    let parsed = set.compile("a", b"1{{define \"b\"}}2{{end}}").unwrap();
    assert!(!set.contains("a"));
    set.add(&parsed);
    assert!(set.contains("a") && set.contains("b") && !set.contains("c"));
    // The clone's templates shadow those of the original set, but do not replace them.
    let below = set.clone();
    set.parse("b", b"3").unwrap();
    assert_eq!((render(&set, "b").as_deref(), render(&below, "b").as_deref()), (Ok("3"), Ok("2")));
    assert_eq!(render(&set, "a").as_deref(), Ok("1"));
    let before = set.clone();
    set.parse("b", b" ").unwrap();
    assert_eq!(render(&set, "b").as_deref(), Ok("3"));
    set.add(&parsed.clone());
    assert_eq!((render(&set, "b").as_deref(), render(&before, "b").as_deref()), (Ok("2"), Ok("3")));
    assert!(set.parse("b", b"{{").is_err());
    assert_eq!(render(&set, "b").as_deref(), Ok("2"));
    assert_eq!(
        render(&set, "c"),
        Err("template: no template \"c\" associated with template \"root\"".to_string())
    );
    // Output written before an error is kept.
    set.parse("d", b"x{{fail `y`}}z").unwrap();
    let mut out = b"w".to_vec();
    assert!(set.execute(&mut (), "d", Value::Nil, &mut out).is_err());
    assert_eq!(out, b"wx");
}

#[test]
fn errors_of_syntax_tell_where() {
    let mut set = Set::new(Arc::new(funcs()));
    let error = set.parse("a.yaml", b"\n\n{{nope}}").unwrap_err();
    assert_eq!((error.template.as_str(), error.line, error.exceeded), ("a.yaml", 3, None));
    assert_eq!(error.message, "template: a.yaml:3: function \"nope\" not defined");
}

#[test]
fn an_error_keeps_a_hundred_frames() {
    let text = |depth: usize| {
        let last = format!("{{{{define `t{depth}`}}}}{{{{fail `x`}}}}{{{{end}}}}");
        let calls =
            (0..depth).map(|i| format!("{{{{define `t{i}`}}}}{{{{template `t{}`}}}}{{{{end}}}}", i + 1));
        calls.collect::<String>() + &last + "{{template `t0`}}"
    };
    let frames = |depth: usize| {
        let mut set = Set::new(Arc::new(funcs()));
        set.parse("main", text(depth).as_bytes()).unwrap();
        let error = set.execute(&mut (), "main", Value::Nil, &mut Vec::new()).unwrap_err();
        error.frames.iter().map(|frame| frame.template.clone()).collect::<Vec<_>>()
    };
    assert_eq!(frames(2), ["t2", "t1", "t0", "main"]);
    assert_eq!(frames(98).len(), 100);
    assert_eq!(frames(99).len(), 100);
    assert_eq!(frames(150).len(), 100);
    assert_eq!(frames(150).first().map(String::as_str), Some("t150"));
}
