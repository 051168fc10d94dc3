//! Lists with set and map semantics.

use steersman_cel::{Environment, Program, Type, Value};

fn item(name: &str, port: i64) -> Value {
    Value::map(vec![(Value::string("name"), Value::string(name)), (Value::string("port"), Value::Int(port))])
}

fn strings(items: &[&str]) -> Vec<Value> {
    items.iter().map(|item| Value::string(*item)).collect()
}

fn run(text: &str, a: Value, b: Value) -> String {
    let environment = Environment::new().with("a", Type::Dyn).with("b", Type::Dyn);
    let program = Program::compile(&environment, text).unwrap();
    program
        .run([("a", a), ("b", b)], 1_000_000)
        .0
        .map_or_else(|error| error.to_string(), |value| value.to_string())
}

fn same(a: Value, b: Value) -> String {
    run("a == b", a, b)
}

#[test]
fn lists_are_the_same_in_the_same_order() {
    let list = |items: &[&str]| Value::list(strings(items));
    assert_eq!(same(list(&["x", "y"]), list(&["x", "y"])), "true");
    assert_eq!(same(list(&["x", "y"]), list(&["y", "x"])), "false");
    assert_eq!(same(list(&["x"]), list(&["x", "y"])), "false");
}

#[test]
fn sets_are_the_same_in_any_order() {
    let set = |items: &[&str]| Value::set(strings(items));
    assert_eq!(same(set(&["x", "y"]), set(&["y", "x"])), "true");
    assert_eq!(same(set(&["x", "y"]), set(&["y", "z"])), "false");
    assert_eq!(same(set(&["x", "y"]), set(&["x"])), "false");
    assert_eq!(same(set(&[]), set(&[])), "true");
}

#[test]
fn sets_do_not_repeat_what_is_added() {
    let set = |items: &[&str]| Value::set(strings(items));
    assert_eq!(run("(a + b).join(' ')", set(&["x", "y"]), set(&["y", "z"])), "x y z");
    assert_eq!(run("(a + b).join(' ')", set(&["x"]), Value::list(strings(&["z", "z"]))), "x z");
    // The left operand decides the semantics.
    assert_eq!(run("(a + b).join(' ')", Value::list(strings(&["x"])), set(&["x"])), "x x");
    assert_eq!(run("a + b == b + a", set(&["x"]), set(&["y"])), "true");
}

#[test]
fn lists_with_keys_are_the_same_in_any_order() {
    let keyed = |items: Vec<Value>| Value::keyed(items, vec!["name".into()]);
    assert_eq!(
        same(keyed(vec![item("a", 1), item("b", 2)]), keyed(vec![item("b", 2), item("a", 1)])),
        "true"
    );
    assert_eq!(same(keyed(vec![item("a", 1)]), keyed(vec![item("a", 2)])), "false");
    assert_eq!(same(keyed(vec![item("a", 1)]), keyed(vec![item("b", 1)])), "false");
    assert_eq!(same(keyed(vec![item("a", 1)]), keyed(vec![item("a", 1), item("b", 1)])), "false");
}

#[test]
fn items_replace_those_with_the_same_keys() {
    let keyed = |items: Vec<Value>, keys: &[&str]| {
        Value::keyed(items, keys.iter().map(|key| (*key).to_owned()).collect())
    };
    let shown = "(a + b).map(i, i.name + string(i.port)).join(' ')";
    let (old, new) = (vec![item("a", 1), item("b", 2)], vec![item("b", 3), item("c", 4)]);
    assert_eq!(run(shown, keyed(old.clone(), &["name"]), keyed(new.clone(), &["name"])), "a1 b3 c4");
    assert_eq!(
        run(shown, keyed(old.clone(), &["name", "port"]), keyed(new.clone(), &["name", "port"])),
        "a1 b2 b3 c4"
    );
    assert_eq!(run(shown, keyed(old, &["port"]), keyed(vec![item("x", 2)], &["port"])), "a1 x2");
    // Keys missing on both sides are equal.
    assert_eq!(run(shown, keyed(vec![item("a", 1)], &["none"]), keyed(vec![item("b", 2)], &["none"])), "b2");
    let without = Value::map(vec![(Value::string("port"), Value::Int(9))]);
    let sizes = "string((a + b).size())";
    assert_eq!(run(sizes, keyed(vec![item("a", 1)], &["name"]), keyed(vec![without], &["name"])), "2");
    // Appended items do not replace each other.
    let twice = keyed(vec![item("c", 1), item("c", 2)], &["name"]);
    assert_eq!(run(shown, keyed(vec![item("a", 1)], &["name"]), twice), "a1 c1 c2");
}
