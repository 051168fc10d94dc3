//! Semantics and costs that validation rules rely on.

use steersman_cel::{Environment, EvalError, Program, Range, Type, Value};

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

#[test]
fn an_expression_may_cost_its_limit_and_no_more() {
    let environment = Environment::new().with("self", Type::Dyn);
    for text in
        ["self.names.all(n, n.size() > 0)", "self.my_field + 1", "'abc'.contains('b')", "[self, self]"]
    {
        let program = Program::compile(&environment, text).unwrap();
        let (_, cost) = program.run([("self", object())], 1_000);
        assert!(cost > 0);
        assert!(program.run([("self", object())], cost).0.is_ok(), "{text}");
        let (result, _) = program.run([("self", object())], cost - 1);
        assert_eq!(result.unwrap_err(), EvalError::CostLimitExceeded, "{text}");
    }
}

#[test]
fn replacements_and_ranges_end_before_they_fill_the_memory() {
    let environment = Environment::new().with("text", Type::String).with("new", Type::String);
    let replaced = |length: usize| {
        let program = Program::compile(&environment, "text.replace('x', new).size()").unwrap();
        let variables =
            [("text", Value::string("a".repeat(8192))), ("new", Value::string("b".repeat(length)))];
        program.run(variables, 1_000_000).0.map_or_else(|error| error.to_string(), |value| value.to_string())
    };
    // 64 MiB, if each character were replaced.
    assert_eq!(replaced(8192), "8192");
    assert_eq!(replaced(8193), "result of replace exceeds the size limit");
    assert_eq!(run("lists.range(1000000)", Value::Null), "operation cancelled: actual cost limit exceeded");
    assert_eq!(run("lists.range(1000001)", Value::Null), "range exceeds the limit of 1000000 elements");
}

#[test]
fn the_variables_that_an_expression_names_are_known() {
    let environment = Environment::new().with("self", Type::Dyn).with("old", Type::Dyn).with_authorizer();
    let uses = |text: &str, name: &str| Program::compile(&environment, text).unwrap().uses(name);
    assert!(uses("self.a == old.b", "old"));
    assert!(uses("[1].all(x, x > self.a)", "self"));
    assert!(!uses("self.old", "old"));
    assert!(uses("authorizer.requestResource.check('get').allowed()", "authorizer"));
    assert!(!uses("self == 'authorizer'", "authorizer"));
}

#[test]
fn objects_and_keys_of_patches_have_a_cost() {
    let environment = Environment::new().with("self", Type::Dyn).with_patches();
    let costs = |text: &str| {
        let program = Program::compile(&environment, text).unwrap();
        let (result, cost) = program.run([("self", object())], 1_000);
        assert!(result.is_ok(), "{text}");
        let Range { min, max } = program.estimate(&());
        (cost, min, max)
    };
    assert_eq!(costs("Object{}"), (40, 40, 40));
    assert_eq!(costs("Object{a: self.my_field, b: [self]}"), (40 + 2 + 11, 40 + 1 + 11, 40 + 1 + 11));
    // A tenth of the length, rounded up.
    assert_eq!(costs("jsonpatch.escapeKey('')"), (0, 0, 0));
    assert_eq!(costs("jsonpatch.escapeKey('0123456789')"), (1, 1, 1));
    assert_eq!(costs("jsonpatch.escapeKey('0123456789a')"), (2, 2, 2));
    // A concatenation is as long as its parts.
    let text = "jsonpatch.escapeKey(jsonpatch.escapeKey('0123456789') + '0123456789a')";
    assert_eq!(costs(text), (1 + 3 + 3, 1 + 3 + 3, 1 + 3 + 3));
}

fn make(text: &str) -> String {
    let environment = Environment::new().with("self", Type::Dyn).with_patches();
    match Program::compile(&environment, text) {
        Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
        Ok(program) => match program.run([("self", object())], 1_000_000).0 {
            Ok(value) => format!("{value} of {}", program.output()),
            Err(error) => error.to_string(),
        },
    }
}

#[test]
fn changes_make_objects_without_a_schema() {
    assert_eq!(make("Object{spec: Object.spec{replicas: 3}}"), "Object of Object");
    assert_eq!(make("Object.spec{replicas: 3}"), "Object.spec of Object.spec");
    assert_eq!(make("Object{list: [1, 2, 3]}.list.sum()"), "6 of dyn");
    assert_eq!(make("Object{a: Object.a{n: 3}} == Object{a: Object.a{n: 1 + 2}}"), "true of bool");
    assert_eq!(
        make("Object{a: 1} == Object.a{a: 1}"),
        "ERROR: <input>:1:14: found no matching overload for '_==_' applied to '(Object, Object.a)'"
    );
    assert_eq!(make("has(Object{a: 1}.a) && !has(Object{a: 1}.b)"), "true of bool");
    assert_eq!(make("Object{}.?none.orValue(7)"), "7 of dyn");
    assert_eq!(make("has(Object{?a: self.?nope}.a) || has(Object{?a: self.?nope}.a)"), "false of bool");
    assert_eq!(make("has(Object{?a: self.?my_field}.a)"), "true of bool");
    assert_eq!(make("optional.ofNonZeroValue(Object{}).hasValue()"), "false of bool");
    assert_eq!(make("optional.ofNonZeroValue(0.0).hasValue()"), "false of bool");
    assert_eq!(make("optional.ofNonZeroValue(0.5).hasValue()"), "true of bool");
    assert_eq!(make("type(Object.spec{}) == Object.spec"), "true of bool");
    assert_eq!(make("Object{a: 1} == Object{a: 1, b: 2}"), "false of bool");
    assert_eq!(make("Object{a: 1, b: 2} == Object{a: 1, c: 2}"), "false of bool");
    assert_eq!(make("Object{a: 1, b: 2} == Object{b: 2, a: 1}"), "true of bool");
    assert_eq!(make("Object{a: 1} == Object{a: 2}"), "false of bool");
    assert_eq!(make("optional.ofNonZeroValue(Object{a: 0}).hasValue()"), "true of bool");
    assert_eq!(make("Object{a: 1, a: 2}.a"), "2 of dyn");
    assert_eq!(make(".Object{a: 1}.a"), "1 of dyn");
    assert_eq!(
        make("Object{a: 1}['a']"),
        "ERROR: <input>:1:13: found no matching overload for '_[_]' applied to '(Object, string)'"
    );
    assert_eq!(make("dyn(Object{a: 1})['a']"), "1 of dyn");
    assert_eq!(make("dyn(Object{a: 1})[?'b'].hasValue()"), "false of bool");
    assert_eq!(
        make("Object{?a: 1}"),
        "ERROR: <input>:1:12: expected type 'optional_type(int)' but found 'int'"
    );
    assert_eq!(
        make("Object{?a: self.my_field}"),
        "cannot initialize optional entry 'a' from non-optional value 3"
    );
}

#[test]
fn steps_of_a_patch_have_texts() {
    assert_eq!(make("[JSONPatch{op: 'add', path: '/a', value: self}]"), "list of list(JSONPatch)");
    assert_eq!(
        make("JSONPatch{op: 1}"),
        "ERROR: <input>:1:13: expected type of field 'op' is 'string' but provided type is 'int'"
    );
    assert_eq!(make("JSONPatch{o: 'a'}"), "ERROR: <input>:1:12: undefined field 'o'");
    assert_eq!(make("JSONPatch{op: self.my_field}"), "unexpected type int64 for JSONPatchType 'op' field");
    assert_eq!(make("JSONPatch{path: dyn(1u)}"), "unexpected type uint64 for JSONPatchType 'path' field");
    assert_eq!(make("JSONPatch{from: dyn(1.5)}"), "unexpected type float64 for JSONPatchType 'from' field");
    assert_eq!(make("JSONPatch{from: dyn(true)}"), "unexpected type bool for JSONPatchType 'from' field");
    assert_eq!(make("JSONPatch{op: 'a', value: 1}"), "JSONPatch of JSONPatch");
    assert_eq!(make("jsonpatch.escapeKey('a/b~c')"), "a~1b~0c of string");
}

#[test]
fn rules_make_no_objects() {
    let undeclared = |name: &str| format!("undeclared reference to '{name}' (in container '')");
    assert!(run("Object{a: nope}", Value::Null).contains(&undeclared("Object")));
    assert!(!run("Object{a: nope}", Value::Null).contains("nope'"));
    assert!(run("jsonpatch.escapeKey('a')", Value::Null).contains("undeclared reference to"));
    assert!(make("Other{}").contains(&undeclared("Other")));
}
