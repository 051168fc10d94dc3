//! What rules rely on.

use steersman_cel::{Environment, Program, Type, Value};

fn run(text: &str, this: Value) -> String {
    let environment = Environment::new().with("self", Type::Dyn);
    match Program::compile(&environment, text) {
        Err(error) => error.to_string(),
        Ok(program) => match program.run([("self", this)], 1_000_000).0 {
            Ok(value) => value.to_string(),
            Err(error) => error.to_string(),
        },
    }
}

fn object() -> Value {
    Value::map(vec![
        (Value::string("my_field"), Value::Int(3)),
        (Value::string("names"), Value::list(vec![Value::string("a"), Value::string("b")])),
    ])
}

#[test]
fn underscores_in_names_are_kept() {
    assert_eq!(run("self.my_field > 0", object()), "true");
}

#[test]
fn a_side_that_decides_makes_up_for_an_error() {
    assert_eq!(run("self.nope > 0 || true", object()), "true");
    assert_eq!(run("self.nope > 0 && false", object()), "false");
    assert_eq!(run("self.nope > 0 && true", object()), "no such key: nope");
    assert_eq!(run("self.names.exists(n, n.nope == 1 || n == 'b')", object()), "true");
}

#[test]
fn loops_and_tests_of_presence() {
    assert_eq!(run("self.names.all(n, size(n) == 1) && !has(self.other)", object()), "true");
    assert_eq!(run("self.names.map(n, n + '!').join(',')", object()), "a!,b!");
    assert_eq!(run("self.?other.orValue('none')", object()), "none");
}

#[test]
fn mistakes_are_shown_where_they_are() {
    let text = run("1 + 'a'", Value::Null);
    assert_eq!(
        text,
        "ERROR: <input>:1:3: found no matching overload for '_+_' applied to '(int, string)'\n | 1 + 'a'\n | ..^"
    );
    let text = run("self.names.all(n,\n  nope)", Value::Null);
    assert_eq!(
        text,
        "ERROR: <input>:2:3: undeclared reference to 'nope' (in container '')\n |   nope)\n | ..^"
    );
}

#[test]
fn what_costs_too_much_is_cancelled() {
    let environment = Environment::new();
    let range = "lists.range(1000)";
    let text = format!("{range}.all(a, {range}.all(b, {range}.all(c, a + b + c >= 0)))");
    let program = Program::compile(&environment, &text).unwrap();
    let (result, cost) = program.run([], 10_000);
    assert_eq!(result.unwrap_err().to_string(), "operation cancelled: actual cost limit exceeded");
    assert!(cost < 20_000, "{cost}");
}

#[test]
fn deep_and_long_expressions_are_refused() {
    let deep = format!("{}1{}", "(".repeat(10_000), ")".repeat(10_000));
    assert!(run(&deep, Value::Null).contains("recursion limit exceeded"));
    let chain = format!("self{}", ".a".repeat(10_000));
    assert!(run(&chain, Value::Null).contains("recursion limit exceeded"));
    let sum = format!("1{}", " + 1".repeat(10_000));
    assert!(run(&sum, Value::Null).contains("recursion limit exceeded"));
    let any = format!("false{}", " || false".repeat(3_000));
    assert_eq!(run(&any, Value::Null), "false");
    let not = format!("{}true", "!".repeat(10_000));
    assert_eq!(run(&not, Value::Null), "true");
}
