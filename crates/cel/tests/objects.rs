//! Objects with declared fields.

use std::collections::BTreeMap;
use std::sync::Arc;

use steersman_cel::{CompileError, Environment, Issue, ObjectType, Program, Range, Sizes, Type, Value};

/// Declares `self` with fields of all kinds, including one with a reserved name.
fn environment() -> Environment {
    let object = |name: &str, fields: Vec<(&str, Type)>, open: bool| {
        let fields = fields.into_iter().map(|(name, ty)| (name.to_owned(), ty)).collect::<BTreeMap<_, _>>();
        Type::Object(Arc::new(ObjectType { name: name.into(), fields, open }))
    };
    let inner = object("inner", vec![("name", Type::String), ("ports", Type::list(Type::Int))], false);
    let open = object("open", vec![("known", Type::Int)], true);
    let fields = vec![
        ("count", Type::Int),
        ("__for__", Type::String),
        ("inner", inner.clone()),
        ("items", Type::list(inner)),
        ("labels", Type::map(Type::String, Type::String)),
        ("open", open),
    ];
    Environment::new().with("self", object("root", fields, false))
}

fn value() -> Value {
    let map = |entries: Vec<(&str, Value)>| {
        Value::map(entries.into_iter().map(|(name, value)| (Value::string(name), value)).collect())
    };
    let inner = map(vec![("name", Value::string("web")), ("ports", Value::list(vec![Value::Int(80)]))]);
    map(vec![
        ("count", Value::Int(3)),
        ("__for__", Value::string("ever")),
        ("inner", inner.clone()),
        ("items", Value::list(vec![inner])),
        ("labels", map(vec![("app", Value::string("x"))])),
        ("open", map(vec![("known", Value::Int(1)), ("other", Value::string("y"))])),
    ])
}

fn run(text: &str) -> String {
    match Program::compile(&environment(), text) {
        Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
        Ok(program) => match program.run([("self", value())], 1_000_000).0 {
            Ok(value) => format!("{value} of {}", program.output()),
            Err(error) => error.to_string(),
        },
    }
}

#[test]
fn fields_have_their_types() {
    assert_eq!(run("self.count + 1"), "4 of int");
    assert_eq!(run("self.inner.name"), "web of string");
    assert_eq!(run("self.items[0].ports[0]"), "80 of int");
    assert_eq!(run("self.items.map(i, i.name)[0]"), "web of string");
    assert_eq!(run("self.labels.app"), "x of string");
    assert_eq!(run("self.?inner.?name"), "optional_type of optional_type(string)");
    assert_eq!(run("self"), "map of root");
}

#[test]
fn what_is_not_declared_is_refused() {
    let undefined = |at: usize, name: &str| format!("ERROR: <input>:1:{at}: undefined field '{name}'");
    assert_eq!(run("self.nope"), undefined(5, "nope"));
    assert_eq!(run("self.inner.nope == 1"), undefined(11, "nope"));
    assert_eq!(run("has(self.nope)"), undefined(4, "nope"));
    assert_eq!(run("self.?nope"), undefined(5, "nope"));
    assert_eq!(run("self.items.all(i, i.nope)"), undefined(20, "nope"));
    assert_eq!(
        run("self.count + self.inner.name"),
        "ERROR: <input>:1:12: found no matching overload for '_+_' applied to '(int, string)'"
    );
    assert_eq!(run("self.open.known + 1"), "2 of int");
    assert_eq!(run("self.open.other"), "y of dyn");
    assert_eq!(run("has(self.open.nope)"), "false of bool");
}

#[test]
fn fields_like_reserved_words_may_go_without_their_escape() {
    assert_eq!(run("self.__for__"), "ever of string");
    assert_eq!(run("self.for"), "ever of string");
    assert_eq!(run("has(self.for) && has(self.__for__)"), "true of bool");
    assert_eq!(run("self.?for.value()"), "ever of string");
    assert_eq!(run("self.while"), "ERROR: <input>:1:5: undefined field 'while'");
    assert_eq!(run("self.__count__"), "ERROR: <input>:1:5: undefined field '__count__'");
}

#[test]
fn null_goes_with_objects_and_not_with_numbers() {
    assert_eq!(run("self.inner == null"), "false of bool");
    assert_eq!(run("null != self.inner"), "true of bool");
    assert_eq!(
        run("self.count == null"),
        "ERROR: <input>:1:12: found no matching overload for '_==_' applied to '(int, null)'"
    );
}

/// Sizes by path, with dots between its parts.
struct Known(&'static [(&'static str, u64)]);

impl Sizes for Known {
    fn max_size(&self, path: &[String]) -> Option<u64> {
        let path = path.join(".");
        self.0.iter().find(|(known, _)| *known == path).map(|(_, size)| *size)
    }
}

#[test]
fn costs_follow_from_the_sizes_of_fields() {
    let estimate = |text: &str, sizes: &'static [(&'static str, u64)]| {
        Program::compile(&environment(), text).unwrap().estimate(&Known(sizes))
    };
    // A variable and each field of an object cost one.
    assert_eq!(estimate("self.inner.name", &[]), Range { min: 3, max: 3 });
    // has() costs as much as its operand without the field.
    assert_eq!(estimate("has(self.inner.name)", &[]), Range { min: 2, max: 2 });
    // A tenth of the shorter side.
    assert_eq!(estimate("self.inner.name == 'x'", &[("self.inner.name", 100)]), Range { min: 4, max: 4 });
    let long = "self.inner.name == self.labels['x']";
    let sizes = &[("self.inner.name", 100), ("self.labels.@values", 50)];
    assert_eq!(estimate(long, sizes), Range { min: 7, max: 11 });
    // Each iteration: the loop condition and the predicate.
    let sizes: &[_] = &[("self.items", 10), ("self.items.@items.name", 20)];
    assert_eq!(estimate("self.items.all(i, i.name == 'abc')", sizes), Range { min: 3, max: 3 + 10 * 6 });
    assert_eq!(estimate("self.items.all(i, true)", &[]).max, u64::MAX);
}

#[test]
fn issues_say_where_they_are() {
    let issues = |text: &str| match Program::compile(&environment(), text) {
        Err(CompileError::Issues(issues)) => issues,
        other => panic!("{other:?}"),
    };
    let places = |text: &str| {
        issues(text).iter().map(|Issue { line, column, .. }| (*line, *column)).collect::<Vec<_>>()
    };
    assert_eq!(places("nope1 +\n  self.nope2 + nope3"), [(1, 0), (2, 6), (2, 15)]);
    assert_eq!(places(""), [(1, 0)]);
    let shown = issues("'é' + nope")[0].to_string();
    assert_eq!(
        shown,
        "ERROR: <input>:1:7: undeclared reference to 'nope' (in container '')\n | 'é' + nope\n | .．....^"
    );
    let shown = issues("\tself.é")[0].to_string();
    assert!(shown.contains("\n |  self.é\n | ......＾"), "{shown}");
}

#[test]
fn long_lines_are_not_shown_with_issues() {
    let shown = |blanks: usize| {
        Program::compile(&environment(), &format!("nope{}", " ".repeat(blanks))).unwrap_err().to_string()
    };
    // A line of 16,384 bytes is shown.
    assert_eq!(shown(16_380).lines().count(), 3);
    assert_eq!(shown(16_381).lines().count(), 1);
}

#[test]
fn expressions_have_a_limit_on_their_length() {
    let of_length = |length: usize| Program::compile(&environment(), &format!("1{}", " ".repeat(length - 1)));
    assert!(of_length(100_000).is_ok());
    let error = of_length(100_001).unwrap_err().to_string();
    assert!(
        error.contains("expression code point size exceeds limit: size: 100001, limit 100000"),
        "{error}"
    );
}
