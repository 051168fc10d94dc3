//! Authorization checks of expressions, and their cost.

use std::sync::{Arc, Mutex};

use steersman_cel::{AccessCheck, AccessDecision, Authorizer, Environment, Program, Value};

/// Allows `get` and `list`, fails on `break`, and records the checks.
#[derive(Debug, Default)]
struct Reader {
    asked: Mutex<Vec<AccessCheck>>,
}

impl Authorizer for Reader {
    fn authorize(&self, check: &AccessCheck) -> AccessDecision {
        self.asked.lock().unwrap().push(check.clone());
        AccessDecision {
            allowed: matches!(&*check.verb, "get" | "list"),
            reason: format!("{} is known", check.verb),
            error: (&*check.verb == "break").then(|| "broken".to_owned()),
        }
    }
}

/// Returns the result of an expression, its cost, and the checks it made.
fn run(text: &str) -> (String, u64, Vec<AccessCheck>) {
    let reader = Arc::new(Reader::default());
    let environment = Environment::new().with_authorizer();
    let program = match Program::compile(&environment, text) {
        Ok(program) => program,
        Err(error) => {
            return (error.to_string().lines().next().unwrap_or_default().to_owned(), 0, Vec::new());
        }
    };
    let request = AccessCheck { resource: "pods".into(), namespace: "here".into(), ..AccessCheck::default() };
    let variables = [
        ("authorizer", Value::authorizer(Arc::clone(&reader) as Arc<dyn Authorizer>)),
        (
            "authorizer.requestResource",
            Value::resource_check(Arc::clone(&reader) as Arc<dyn Authorizer>, request),
        ),
    ];
    let (result, cost) = program.run(variables, 1_000_000);
    let asked = reader.asked.lock().unwrap().clone();
    (result.map_or_else(|error| error.to_string(), |value| value.to_string()), cost, asked)
}

fn asked(text: &str) -> AccessCheck {
    let (_, _, mut asked) = run(text);
    assert_eq!(asked.len(), 1, "{text}");
    asked.remove(0)
}

#[test]
fn a_check_has_all_that_the_expression_says() {
    let check = asked(
        "authorizer.group('apps').resource('deployments').subresource('scale').namespace('one').name('web')
            .fieldSelector('a=b').labelSelector('c=d').check('get').allowed()",
    );
    let expected = AccessCheck {
        account: None,
        verb: "get".into(),
        path: None,
        group: "apps".into(),
        resource: "deployments".into(),
        subresource: "scale".into(),
        namespace: "one".into(),
        name: "web".into(),
        field_selector: "a=b".into(),
        label_selector: "c=d".into(),
    };
    assert_eq!(check, expected);
    let check = asked("authorizer.path('/healthz').check('get').allowed()");
    assert_eq!(
        check,
        AccessCheck { verb: "get".into(), path: Some("/healthz".into()), ..AccessCheck::default() }
    );
    let check = asked("authorizer.requestResource.check('list').allowed()");
    assert_eq!((&*check.resource, &*check.namespace, &*check.verb), ("pods", "here", "list"));
    let check = asked(
        "authorizer.serviceAccount('spaces', 'my.account').group('').resource('pods').check('get').allowed()",
    );
    assert_eq!(check.account, Some(("spaces".into(), "my.account".into())));
}

#[test]
fn decisions_are_read() {
    let decision = "authorizer.group('').resource('pods')";
    for (text, expected) in [
        (".check('get').allowed()", "true"),
        (".check('delete').allowed()", "false"),
        (".check('get').reason()", "get is known"),
        (".check('get').errored()", "false"),
        (".check('get').error()", ""),
        (".check('break').errored()", "true"),
        (".check('break').error()", "broken"),
        (".check('break').allowed()", "false"),
    ] {
        assert_eq!(run(&format!("{decision}{text}")).0, expected, "{text}");
    }
}

#[test]
fn names_that_cannot_be_are_refused() {
    for (text, why) in [
        ("authorizer.path('  ').check('get').allowed()", "path must not be empty"),
        ("authorizer.group('').resource('').check('get').allowed()", "resource must not be empty"),
        (
            "authorizer.serviceAccount('ok', 'Not_ok').path('/').check('get').allowed()",
            "Invalid service account name",
        ),
        (
            "authorizer.serviceAccount('not.ok', 'ok').path('/').check('get').allowed()",
            "Invalid service account namespace",
        ),
    ] {
        let (result, _, asked) = run(text);
        assert_eq!((result.as_str(), asked.len()), (why, 0), "{text}");
    }
}

#[test]
fn checks_and_decisions_are_not_compared() {
    for text in [
        "authorizer == authorizer",
        "authorizer.path('/') != authorizer.path('/')",
        "authorizer in [authorizer]",
    ] {
        let (result, ..) = run(text);
        assert!(result == "no such overload" || result == "false", "{text}: {result}");
    }
    assert_eq!(
        run("authorizer.group('').resource('a').check('get') == authorizer.path('/').check('get')").0,
        "no such overload"
    );
}

#[test]
fn steps_have_types_of_their_own() {
    for (text, name) in [
        ("authorizer", "kubernetes.authorization.Authorizer"),
        ("authorizer.path('/')", "kubernetes.authorization.PathCheck"),
        ("authorizer.group('')", "kubernetes.authorization.GroupCheck"),
        ("authorizer.group('').resource('pods')", "kubernetes.authorization.ResourceCheck"),
        ("authorizer.path('/').check('get')", "kubernetes.authorization.Decision"),
    ] {
        assert_eq!(run(text).0, name);
    }
    let (error, ..) = run("authorizer.check('get')");
    assert!(error.contains("found no matching overload for 'check'"), "{error}");
    let (error, ..) = run("authorizer.group('').namespace('x')");
    assert!(error.contains("found no matching overload for 'namespace'"), "{error}");
}

#[test]
fn two_checks_are_affordable_and_three_are_not() {
    let check = "authorizer.path('/').check('get').allowed()";
    // The variable, the path, the check and the answer.
    assert_eq!(run(check).1, 350_003);
    assert_eq!(run(&format!("{check} && {check}")).0, "true");
    assert_eq!(
        run(&format!("{check} && {check} && {check}")).0,
        "operation cancelled: actual cost limit exceeded"
    );
}

#[test]
fn selectors_cost_by_their_length() {
    let cost = |selector: &str| {
        let text = format!("authorizer.group('').resource('pods').{selector}.check('get').allowed()");
        let program = Program::compile(&Environment::new().with_authorizer(), &text).unwrap();
        let estimate = program.estimate(&());
        let cost = run(&text).1;
        assert_eq!((estimate.min, estimate.max), (cost, cost), "{text}");
        // Without the variable, group, resource, the check and the answer.
        cost - 350_004
    };
    // A list, a tenth of the length, and a requirement of 50 for every two characters.
    assert_eq!(cost("fieldSelector('')"), 10);
    assert_eq!(cost("fieldSelector('a')"), 10 + 1 + 50);
    assert_eq!(cost("labelSelector('ab')"), 10 + 1 + 50);
    assert_eq!(cost("labelSelector('a=b,c=d,e=f')"), 10 + 2 + 6 * 50);
}
