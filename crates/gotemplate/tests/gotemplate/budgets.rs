//! What a budget allows, and what templates and functions are charged for.

use std::sync::Arc;

use steersman_gotemplate::{
    Budget, CallError, Exceeded, ExecError, Funcs, Interrupt, Limits, List, ListType, Set, Type, Value,
    deep_equal, deep_equal_within,
};

fn limited(change: impl FnOnce(&mut Limits)) -> Budget {
    let mut limits = Limits::default();
    change(&mut limits);
    Budget::new(limits)
}

#[test]
fn a_limit_is_the_last_that_is_allowed() {
    let budget = limited(|limits| limits.cost = 10);
    assert_eq!(budget.charge_cost(10), Ok(()));
    assert_eq!((budget.cost(), budget.check()), (10, Ok(())));
    assert_eq!(budget.charge_cost(1), Err(Exceeded::Cost(10)));
    assert_eq!(budget.check(), Err(Exceeded::Cost(10)));
    // An exhausted budget stays exhausted.
    assert_eq!(budget.charge_cost(0), Err(Exceeded::Cost(10)));

    let budget = limited(|limits| limits.memory = 10);
    assert_eq!(budget.charge_memory(10), Ok(()));
    assert_eq!((budget.memory(), budget.remaining_memory(), budget.check()), (10, 0, Ok(())));
    assert_eq!(budget.charge_memory(1), Err(Exceeded::Memory(10)));
    assert_eq!(budget.check(), Err(Exceeded::Memory(10)));
    assert_eq!(budget.charge_cost(1), Err(Exceeded::Memory(10)));
    assert_eq!(budget.charge_memory(usize::MAX), Err(Exceeded::Memory(10)));
}

#[test]
fn small_charges_reach_the_limit_exactly() {
    let budget = limited(|limits| limits.cost = 5000);
    assert_eq!((0..6000).take_while(|_| budget.charge_cost(1).is_ok()).count(), 5000);
    let budget = limited(|limits| limits.cost = 1024);
    assert_eq!((0..6000).take_while(|_| budget.charge_cost(1).is_ok()).count(), 1024);
    let budget = limited(|limits| limits.cost = usize::MAX);
    assert_eq!(budget.charge_cost(usize::MAX), Ok(()));
}

#[test]
fn elements_are_charged_by_the_size_of_a_value() {
    let budget = limited(|limits| limits.memory = 3 * size_of::<Value>());
    assert_eq!(budget.charge_elements(3), Ok(()));
    assert_eq!(budget.memory(), 3 * size_of::<Value>());
    assert!(budget.charge_elements(1).is_err());
    assert!(limited(|_| {}).charge_elements(usize::MAX).is_err());
}

#[test]
fn memory_can_be_asked_for_before_it_is_used() {
    let budget = limited(|limits| limits.memory = 100);
    budget.charge_memory(40).unwrap();
    assert_eq!(budget.remaining_memory(), 60);
    assert_eq!(budget.ensure_memory(60), Ok(()));
    assert_eq!(budget.memory(), 40);
    assert_eq!(budget.ensure_memory(61), Err(Exceeded::Memory(100)));
    assert_eq!(budget.remaining_memory(), 0);
    assert_eq!(budget.ensure_memory(0), Ok(()));
    assert!(budget.charge_memory(0).is_err());
}

#[test]
fn a_budget_tells_its_limits() {
    let limits = Limits { cost: 1, memory: 2, depth: 3, executions: 4 };
    assert_eq!(Budget::new(limits).limits(), limits);
    let usual = Limits { cost: 200_000_000, memory: 268_435_456, depth: 100_000, executions: 10_000 };
    assert_eq!(Limits::default(), usual);
}

#[test]
fn limits_are_named_in_their_errors() {
    assert_eq!(Exceeded::Memory(0).to_string(), "exceeded the memory limit of 0 bytes");
    assert_eq!(Exceeded::Memory(1).to_string(), "exceeded the memory limit of 1 bytes");
    assert_eq!(Exceeded::Memory(1 << 20).to_string(), "exceeded the memory limit of 1 MiB");
    assert_eq!(Exceeded::Memory((1 << 20) + 1).to_string(), "exceeded the memory limit of 1048577 bytes");
    assert_eq!(Exceeded::Memory(3 << 20).to_string(), "exceeded the memory limit of 3 MiB");
    assert_eq!(Exceeded::Depth(7).to_string(), "exceeded maximum template depth (7)");
}

#[test]
fn an_interrupt_keeps_its_first_reason() {
    let interrupt = Interrupt::new();
    assert_eq!(interrupt.reason(), None);
    let budget = limited(|_| {}).interrupted_by(interrupt.clone());
    assert_eq!((budget.check(), budget.charge_cost(1)), (Ok(()), Ok(())));
    interrupt.raise("first");
    interrupt.raise("second");
    assert_eq!(interrupt.reason().map(|reason| &**reason), Some("first"));
    assert_eq!(budget.check(), Err(Exceeded::Interrupted("first".into())));
    let noticed = (0..2000).position(|_| budget.charge_cost(1).is_err()).expect("noticed");
    assert!(noticed <= 1024, "after {noticed}");
}

#[test]
fn text_is_appended_while_there_is_room() {
    let budget = limited(|limits| limits.memory = 10);
    let mut out = b"0123".to_vec();
    budget.append(&mut out, &Value::string("456789")).unwrap();
    assert_eq!(out, b"0123456789");
    assert_eq!(budget.memory(), 0);
    let error = budget.append(&mut out, &Value::string("a")).unwrap_err();
    assert_eq!(error.exceeded(), Some(&Exceeded::Memory(10)));
    assert_eq!(out, b"0123456789");

    let budget = limited(|limits| limits.memory = 10);
    let mut out = Vec::new();
    budget.append(&mut out, &Value::list(vec![Value::int(12), Value::int(34)])).unwrap();
    assert_eq!(out, b"[12 34]");
    let many = Value::list(vec![Value::list(vec![]); 20]);
    let error = budget.append(&mut out, &many).unwrap_err();
    assert_eq!(error.exceeded(), Some(&Exceeded::Memory(10)));
    assert_eq!(budget.remaining_memory(), 0);
}

#[test]
fn printing_is_charged_unless_the_text_is_there_already() {
    let budget = limited(|limits| limits.memory = 10);
    assert_eq!(budget.print(&Value::string("a text of its own")).unwrap(), "a text of its own");
    assert_eq!(budget.memory(), 0);
    assert_eq!(budget.print(&Value::int(12_345)).unwrap(), "12345");
    assert_eq!(budget.memory(), 5);
    assert_eq!(budget.print(&Value::int(67_890)).unwrap(), "67890");
    let error = budget.print(&Value::int(1)).unwrap_err();
    assert_eq!(error.exceeded(), Some(&Exceeded::Memory(10)));
}

/// Functions that return the memory used, read their arguments and execute a template.
fn funcs() -> Funcs<()> {
    let mut funcs = Funcs::new();
    funcs.insert("memory", &[], None, |call| Ok(Value::string(call.budget.memory().to_string())));
    funcs.insert("read", &[], Some(Type::Any), |_| Ok(Value::string("")));
    funcs.insert("include", &[Type::String], None, |call| match call.args {
        [Value::String(name)] => {
            let mut out = Vec::new();
            call.set.execute(call.host, &name.to_string(), Value::Nil, &mut out)?;
            Ok(Value::string(out))
        }
        _ => Err(CallError::new("not a name")),
    });
    funcs
}

/// Returns a template's output, and the budget it was executed within.
fn executed(limits: Limits, text: &str, data: Value) -> (Result<String, ExecError>, Arc<Budget>) {
    let mut set = Set::new(Arc::new(funcs()));
    set.parse("main", text.as_bytes()).unwrap();
    let budget = Arc::new(Budget::new(limits));
    let mut out = Vec::new();
    let done = set.within(Arc::clone(&budget)).execute(&mut (), "main", data, &mut out);
    (done.map(|()| String::from_utf8(out).unwrap()), budget)
}

fn cost(text: &str, data: Value) -> usize {
    let (done, budget) = executed(Limits::default(), text, data);
    done.unwrap();
    budget.cost()
}

fn memory(text: &str, data: Value) -> usize {
    let (done, budget) = executed(Limits::default(), text, data);
    done.unwrap();
    budget.memory()
}

/// Returns what the function `memory` reports where it is called.
fn held(text: &str, data: Value) -> usize {
    let (done, _) = executed(Limits::default(), text, data);
    done.unwrap().parse().unwrap()
}

#[test]
fn statements_turns_and_calls_cost_one_each() {
    assert_eq!(cost("", Value::Nil), 0);
    assert_eq!(cost("text", Value::Nil), 1);
    assert_eq!(cost("{{1}}{{.}}text", Value::Nil), 3);
    assert_eq!(cost("{{range 10}}{{end}}", Value::Nil), 11);
    assert_eq!(cost("{{range 10}}a{{end}}", Value::Nil), 21);
    assert_eq!(cost("{{print 1}}", Value::Nil), 2);
    assert_eq!(cost("{{print (print 1) | read}}", Value::Nil), 4);
    assert_eq!(cost("{{if 1}}a{{else}}b{{end}}", Value::Nil), 2);
    assert_eq!(cost("{{define `a`}}x{{end}}{{template `a`}}", Value::Nil), 2);
    assert_eq!(cost("{{range .}}{{end}}", Value::strings(["a", "b", "c"])), 4);
}

#[test]
fn long_arguments_cost_more() {
    let text = |length: usize| Value::string("x".repeat(length));
    assert_eq!(cost("{{read .}}", text(63)), 2);
    assert_eq!(cost("{{read .}}", text(64)), 3);
    assert_eq!(cost("{{read .}}", text(6400)), 102);
    assert_eq!(cost("{{read . .}}", text(3200)), 102);
    assert_eq!(cost("{{read .}}", Value::Bytes("x".repeat(640).as_str().into())), 12);
    assert_eq!(cost("{{read .}}", Value::list(vec![Value::Nil; 1000])), 2);

    assert_eq!(cost("{{eq . .}}", text(511)), 2);
    assert_eq!(cost("{{eq . .}}", text(512)), 4);
    for name in ["eq", "ne", "lt", "le", "gt", "ge"] {
        assert_eq!(cost(&format!("{{{{{name} . .}}}}"), text(5120)), 22, "{name}");
    }
    assert_eq!(cost("{{eq . . .}}", text(5120)), 32);
    assert_eq!(cost("{{len .}}", text(5120)), 2);
}

#[test]
fn output_takes_its_length() {
    assert_eq!(memory("12345", Value::Nil), 5);
    assert_eq!(memory("{{.}}", Value::string("12345")), 5);
    assert_eq!(memory("{{.k}}{{$.k}}", Value::map([("k", Value::string("12345"))])), 10);
    assert_eq!(memory("{{.}}", Value::Nil), "<no value>".len());
    assert_eq!(memory("abc{{.}}", Value::list(vec![Value::int(1), Value::int(2)])), 3 + "[1 2]".len());
    // Charged twice: the function's result, and the output.
    assert_eq!(memory("{{print 1 2 3}}", Value::Nil), 2 * "1 2 3".len());
    assert_eq!(memory("{{html `<`}}", Value::Nil), 2 * "&lt;".len());
    assert_eq!(memory("{{slice . 1 3}}", Value::string("12345")), 2 * 2);
    assert_eq!(memory("{{$x := slice . 1 3}}", Value::strings(["a", "b", "c"])), 2 * size_of::<Value>());
    let bytes = Value::Bytes("12345".into());
    assert_eq!(memory("{{$x := slice . 1 3}}", bytes), 2);
}

#[test]
fn a_call_holds_its_variables_until_it_returns() {
    let inside = |variables: usize| {
        let declared: String = (0..variables).map(|i| format!("{{{{$v{i} := 1}}}}")).collect();
        let text = format!("{{{{define `a`}}}}{declared}{{{{memory}}}}{{{{end}}}}{{{{template `a`}}}}");
        held(&text, Value::Nil)
    };
    let each = inside(1) - inside(0);
    assert!(each >= size_of::<Value>());
    assert_eq!(inside(10) - inside(0), 10 * each);
    // The data is a variable too; the constant is for the stack.
    assert_eq!(inside(0), 1024 + each);
    assert_eq!(held("{{memory}}", Value::Nil), 0);
    assert_eq!(memory("{{define `a`}}{{$x := 1}}{{end}}{{template `a`}}", Value::Nil), 0);
    assert_eq!(memory("{{define `a`}}b{{end}}{{template `a`}}{{template `a`}}", Value::Nil), 2);
}

#[test]
fn a_loop_over_a_map_holds_its_entries_until_it_ends() {
    let entries = |count: usize| Value::map((0..count).map(|i| (format!("k{i}"), Value::Nil)));
    let inside = |count: usize| held("{{range .}}{{memory}}{{break}}{{end}}", entries(count));
    let each = inside(1);
    assert!(each > size_of::<Value>());
    assert_eq!(inside(10), 10 * each);
    assert_eq!(memory("{{range .}}{{end}}", entries(10)), 0);
    assert_eq!(held("{{range .}}{{memory}}{{break}}{{end}}", Value::strings(["a", "b"])), 0);
}

#[test]
fn templates_nest_as_deep_as_the_limit_says() {
    let chain = |calls: usize| {
        let defined: String = (1..=calls)
            .map(|i| match i < calls {
                true => format!("{{{{define `t{i}`}}}}{{{{template `t{}`}}}}{{{{end}}}}", i + 1),
                false => format!("{{{{define `t{i}`}}}}x{{{{end}}}}"),
            })
            .collect();
        defined + "{{template `t1`}}{{template `t1`}}"
    };
    let run = |calls| executed(Limits { depth: 3, ..Limits::default() }, &chain(calls), Value::Nil).0;
    assert_eq!(run(3).unwrap(), "xx");
    let error = run(4).unwrap_err();
    assert_eq!(error.exceeded, Some(Exceeded::Depth(3)));
    assert!(error.message.ends_with("<{{template \"t4\"}}>: exceeded maximum template depth (3)"));
}

#[test]
fn executions_nest_as_deep_as_the_limit_says() {
    let text =
        "{{define `a`}}a{{end}}{{define `b`}}{{include `a`}}{{end}}{{define `c`}}{{include `b`}}{{end}}";
    let run = |calls: &str| {
        let limits = Limits { executions: 2, ..Limits::default() };
        executed(limits, &format!("{text}{calls}"), Value::Nil).0
    };
    assert_eq!(run("{{include `b`}}{{include `b`}}{{include `a`}}").unwrap(), "aaa");
    let error = run("{{include `c`}}").unwrap_err();
    assert_eq!(error.exceeded, Some(Exceeded::Depth(2)));
    let one = Limits { depth: 1, ..Limits::default() };
    assert!(executed(one, "{{define `a`}}{{include `main`}}{{end}}{{template `a`}}", Value::Nil).0.is_err());
    assert_eq!(executed(one, "{{define `a`}}x{{end}}{{include `a`}}", Value::Nil).0.unwrap(), "x");
}

#[test]
fn a_failed_call_tells_the_limit_and_the_execution_it_met_it_in() {
    let mut set = Set::new(Arc::new(funcs()));
    set.parse("main", b"{{range 100}}{{end}}").unwrap();
    let limits = Limits { cost: 10, ..Limits::default() };
    let failed = set.limits(limits).execute(&mut (), "main", Value::Nil, &mut Vec::new()).unwrap_err();
    let message = failed.message.clone();
    let error = CallError::from(failed);
    assert_eq!(error.to_string(), message);
    assert_eq!(error.exceeded(), Some(&Exceeded::Cost(10)));
    assert_eq!(error.inner().map(|inner| inner.message.as_str()), Some(message.as_str()));
    let error = CallError::new("plain");
    assert!(error.exceeded().is_none() && error.inner().is_none());
    let error = CallError::from(Exceeded::Depth(3));
    assert_eq!(error.exceeded(), Some(&Exceeded::Depth(3)));
    assert_eq!(error.to_string(), "exceeded maximum template depth (3)");
}

#[test]
fn comparing_costs_one_for_each_part_and_more_for_long_texts() {
    let compared = |a: &Value, b: &Value| {
        let budget = limited(|_| {});
        (deep_equal_within(&budget, a, b), budget.cost())
    };
    let numbers = |count: usize| Value::list(vec![Value::int(1); count]);
    assert_eq!(compared(&numbers(10), &numbers(10)), (Ok(true), 10));
    assert_eq!(compared(&numbers(10), &numbers(11)), (Ok(false), 0));
    let text = |length: usize| Value::string("x".repeat(length));
    assert_eq!(compared(&text(5120), &text(5120)), (Ok(true), 10));
    assert_eq!(compared(&text(511), &text(511)), (Ok(true), 0));
    assert_eq!(compared(&text(5120), &text(5119)), (Ok(false), 0));
    let same = numbers(10);
    assert_eq!(compared(&same, &same), (Ok(true), 0));
    let map = |count: usize| Value::map((0..count).map(|i| (format!("k{i}"), Value::Nil)));
    assert_eq!(compared(&map(5), &map(5)), (Ok(true), 5));
    // Parts compared before are not compared again.
    let twice = |list: &Value| Value::list(vec![list.clone(), list.clone()]);
    assert_eq!(compared(&twice(&numbers(10)), &twice(&numbers(10))), (Ok(true), 12));
    let twice = |map: &Value| Value::list(vec![map.clone(), map.clone()]);
    assert_eq!(compared(&twice(&map(5)), &twice(&map(5))), (Ok(true), 7));
    assert!(deep_equal(
        &Value::List(List::new(ListType::INT, vec![Value::int(1); 1000])),
        &Value::List(List::new(ListType::INT, vec![Value::int(1); 1000])),
    ));
}

#[test]
fn a_limit_is_met_at_the_action_that_prints() {
    let data = Value::map([("k", Value::string("12345")), ("n", Value::int(12_345))]);
    for action in [".k", "$.k", ".n", "print .k"] {
        let limits = Limits { memory: 8, ..Limits::default() };
        let (done, _) = executed(limits, &format!("{{{{.k}}}}{{{{{action}}}}}"), data.clone());
        let error = done.unwrap_err();
        assert_eq!(error.exceeded, Some(Exceeded::Memory(8)));
        assert!(error.message.contains(&format!("at <{action}>: ")), "{}", error.message);
    }
}
