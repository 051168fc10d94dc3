//! Native objects: fields, methods and printing. Each expectation was recorded from Go with the same types.

use std::any::Any;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use steersman_gotemplate::{
    Budget, CallError, Funcs, Kind, List, ListType, Map, MapType, Method, MissingKey, Object, Set, Signature,
    Str, Type, Value,
};

/// `type files map[string][]byte`, with methods.
static FILES: MapType = MapType {
    name: "main.files",
    elem: Type::Bytes,
    methods: &[
        Method { name: "Get", signature: Signature { params: &[Type::String], variadic: None }, call: get },
        Method {
            name: "Lines",
            signature: Signature { params: &[Type::String], variadic: Some(Type::Int) },
            call: |files, args, budget| {
                let text = get(files, args, budget)?;
                let Value::String(text) = text else { return Ok(Value::Nil) };
                Ok(Value::strings(text.split(|&b| b == b'\n').map(Str::from)))
            },
        },
    ],
};

fn get(files: &Map, args: &[Value], _budget: &Budget) -> Result<Value, CallError> {
    match args {
        [Value::String(name), ..] => match files.get(name) {
            Some(Value::Bytes(data)) => Ok(Value::String(data)),
            _ => Ok(Value::string("")),
        },
        _ => Err(CallError::new("no name")),
    }
}

/// `type set []string`, with a method.
static SET: ListType = ListType {
    name: "main.set",
    elem: Type::String,
    methods: &[Method {
        name: "Has",
        signature: Signature { params: &[Type::String], variadic: None },
        call: |set, args, _budget| {
            let [Value::String(wanted)] = args else { return Err(CallError::new("no name")) };
            Ok(Value::Bool(set.iter().any(|item| matches!(item, Value::String(item) if item == wanted))))
        },
    }],
};

/// `type inner struct { Major string; Tags []string }`, a `fmt.Stringer`.
struct Inner;

impl Object for Inner {
    fn type_name(&self) -> &str {
        "main.inner"
    }
    fn kind(&self) -> Kind {
        Kind::Struct
    }
    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "Major" => Some(Value::string("1")),
            "Tags" => Some(Value::strings(["x"])),
            _ => None,
        }
    }
    fn display(&self) -> String {
        "v1".into()
    }
    fn is_stringer(&self) -> bool {
        true
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// `*struct { Kube inner; API set; Note any; Next *caps; hidden int }`, nil or not.
#[derive(Clone, Copy)]
struct Caps {
    nil: bool,
}

impl Object for Caps {
    fn type_name(&self) -> &str {
        "*main.caps"
    }
    fn kind(&self) -> Kind {
        Kind::Ptr
    }
    fn truth(&self) -> bool {
        !self.nil
    }
    fn field(&self, name: &str) -> Option<Value> {
        self.fields()?
            .into_iter()
            .find(|(field, _)| *field == name && name != "hidden")
            .map(|(_, value)| value)
    }
    fn fields(&self) -> Option<Vec<(&str, Value)>> {
        let api = List::new(&SET, vec![Value::string("v1"), Value::string("apps/v1")]);
        Some(vec![
            ("Kube", Value::Object(Rc::new(Inner))),
            ("API", Value::List(api)),
            ("Note", Value::Nil),
            ("Next", Value::Object(Rc::new(Self { nil: true }))),
            ("hidden", Value::int(0)),
        ])
    }
    fn method(&self, name: &str) -> Option<Signature> {
        match name {
            "Fail" => Some(Signature { params: &[Type::String], variadic: None }),
            "Self" => Some(Signature { params: &[], variadic: None }),
            _ => None,
        }
    }
    fn call(&self, name: &str, args: &[Value]) -> Result<Value, CallError> {
        match (name, args) {
            ("Fail", [Value::String(text)]) => Err(CallError::new(format!("failed {text}"))),
            _ => Ok(Value::Object(Rc::new(*self))),
        }
    }
    fn display(&self) -> String {
        "unused: there are fields".into()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn render(text: &str) -> Result<String, String> {
    let files = BTreeMap::from([(Str::from("a.txt"), Value::Bytes("A\nB".into()))]);
    let data = Value::map([
        ("Files", Value::Map(Map::with_type(&FILES, files))),
        ("Caps", Value::Object(Rc::new(Caps { nil: false }))),
        ("None", Value::Object(Rc::new(Caps { nil: true }))),
    ]);
    let mut set = Set::new(Arc::new(Funcs::new())).missing_key(MissingKey::Zero);
    set.parse("main", text.as_bytes()).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    set.execute(&mut (), "main", data, &mut out).map_err(|error| error.to_string())?;
    String::from_utf8(out).map_err(|error| error.to_string())
}

#[track_caller]
fn gives(text: &str, expected: &str) {
    assert_eq!(render(text).as_deref(), Ok(expected), "{text}");
}

#[track_caller]
fn fails(text: &str, expected: &str) {
    assert_eq!(render(text), Err(expected.to_string()), "{text}");
}

#[test]
fn methods_of_maps() {
    gives("{{.Files.Get \"a.txt\"}}", "A\nB");
    gives("{{\"a.txt\" | .Files.Get}}", "A\nB");
    fails(
        "{{.Files.Get}}",
        "template: main:1:8: executing \"main\" at <.Files.Get>: wrong number of args for Get: want 1 got 0",
    );
    fails("{{.Files.Get 1}}", "template: main:1:13: executing \"main\" at <1>: expected string; found 1");
    fails(
        "{{.Files.Get \"a\" \"b\"}}",
        "template: main:1:8: executing \"main\" at <.Files.Get>: wrong number of args for Get: want 1 got 2",
    );
    gives("{{.Files.Lines \"a.txt\" 1 2}}", "[A B]");
    fails(
        "{{.Files.Lines}}",
        "template: main:1:8: executing \"main\" at <.Files.Lines>: wrong number of args for Lines: want at least 1 got 0",
    );
    gives("{{.Files.missing}}", "[]");
    gives("{{index .Files \"a.txt\"}}", "[65 10 66]");
    gives("{{.Files}}", "map[a.txt:[65 10 66]]");
    gives("{{len .Files}}", "1");
    gives("{{range $k, $v := .Files}}{{$k}}={{$v}}{{end}}", "a.txt=[65 10 66]");
}

#[test]
fn methods_of_slices_and_fields_of_structs() {
    gives("{{.Caps.API.Has \"v1\"}}", "true");
    fails(
        "{{.Caps.API.Has .Nope}}",
        "template: main:1:16: executing \"main\" at <.Nope>: wrong type for value; expected string; got interface {}",
    );
    gives("{{.Caps.API}}", "[v1 apps/v1]");
    gives("{{range .Caps.API}}{{.}} {{end}}", "v1 apps/v1 ");
    gives("{{.Caps.Kube}}", "v1");
    gives("{{.Caps.Kube.Major}}", "1");
    fails(
        "{{.Caps.Kube.Nope}}",
        "template: main:1:7: executing \"main\" at <.Caps.Kube.Nope>: can't evaluate field Nope in type main.inner",
    );
    fails(
        "{{.Caps.Nope}}",
        "template: main:1:7: executing \"main\" at <.Caps.Nope>: can't evaluate field Nope in type interface {}",
    );
    fails(
        "{{.Caps.hidden}}",
        "template: main:1:7: executing \"main\" at <.Caps.hidden>: hidden is an unexported field of struct type interface {}",
    );
    fails(
        "{{.Caps.Kube 1}}",
        "template: main:1:7: executing \"main\" at <.Caps.Kube>: Kube has arguments but cannot be invoked as function",
    );
    gives("{{.Caps.Note}}", "<no value>");
    fails(
        "{{.Caps.Note.x}}",
        "template: main:1:7: executing \"main\" at <.Caps.Note.x>: nil pointer evaluating interface {}.x",
    );
    fails(
        "{{.Caps.Fail \"now\"}}",
        "template: main:1:7: executing \"main\" at <.Caps.Fail>: error calling Fail: failed now",
    );
    gives("{{.Caps.Self.Self.Kube}}", "v1");
    gives("{{(.Caps.Self).API.Has \"v1\"}}", "true");
    fails(
        "{{$c := .Caps}}{{$c.API.Has \"apps/v1\"}}{{$c.Nope}}",
        "template: main:1:43: executing \"main\" at <$c.Nope>: can't evaluate field Nope in type *main.caps",
    );
    gives("{{.Caps}}", "{v1 [v1 apps/v1] <nil> <nil> 0}");
    gives("{{printf \"%v %+v\" .Caps.Kube .Caps.Kube}}", "v1 v1");
    fails(
        "{{.Caps.API.Nope}}",
        "template: main:1:7: executing \"main\" at <.Caps.API.Nope>: can't evaluate field Nope in type main.set",
    );
    gives("{{with .Caps}}{{.Kube.Tags}}{{end}}", "[x]");
}

#[test]
fn nil_pointers_and_wrong_kinds() {
    fails(
        "{{.None.Kube}}",
        "template: main:1:7: executing \"main\" at <.None.Kube>: nil pointer evaluating interface {}.Kube",
    );
    fails(
        "{{.None.Nope}}",
        "template: main:1:7: executing \"main\" at <.None.Nope>: can't evaluate field Nope in type interface {}",
    );
    gives("{{if .None}}a{{else}}b{{end}}", "b");
    gives("{{.None}}", "<nil>");
    fails(
        "{{range .Caps}}{{end}}",
        "template: main:1:8: executing \"main\" at <.Caps>: range can't iterate over {v1 [v1 apps/v1] <nil> <nil> 0}",
    );
    fails(
        "{{index .Caps 1}}",
        "template: main:1:2: executing \"main\" at <index .Caps 1>: error calling index: can't index item of type main.caps",
    );
    fails(
        "{{len .Caps}}",
        "template: main:1:2: executing \"main\" at <len .Caps>: error calling len: len of type main.caps",
    );
    gives("{{eq .Caps .Caps}}", "true");
    fails(
        "{{eq .Caps.Kube \"v1\"}}",
        "template: main:1:2: executing \"main\" at <eq .Caps.Kube \"v1\">: error calling eq: incompatible types for comparison: main.inner and string",
    );
    gives("{{printf \"%s\" .Caps.API}}", "[v1 apps/v1]");
    fails(
        "{{.Caps.Next.Kube}}",
        "template: main:1:7: executing \"main\" at <.Caps.Next.Kube>: nil pointer evaluating *main.caps.Kube",
    );
    gives("{{not .Caps}}{{and .Caps.API 1}}", "false1");
    gives("{{html .Caps.Kube}}", "v1");
    gives("{{slice .Caps.API 1}}", "[apps/v1]");
    gives("{{printf \"%T %T\" .Caps .Files}}", "*main.caps main.files");
}
