//! Source in, source out.

use crate::{Mutant, Position, Span, find, write};

/// A mutant that replaces `change`, which must occur once in `source`. With context to make it unique, `«»` mark the change.
fn mutant(source: &str, genre: &str, change: &str, replacement: &str) -> Mutant {
    let context = change.replace(['«', '»'], "");
    assert_eq!(source.matches(&context).count(), 1, "{context} in {source}");
    let (before, rest) = change.split_once('«').unwrap_or(("", change));
    let (change, _) = rest.split_once('»').unwrap_or((rest, ""));
    let start = source.find(&context).unwrap() + before.len();
    let position = |offset: usize| Position {
        line: 1 + source[..offset].matches('\n').count(),
        column: 1 + source[..offset].chars().rev().take_while(|c| *c != '\n').count(),
    };
    let span = Span { start: position(start), end: position(start + change.len()) };
    Mutant { file: "lib.rs".into(), genre: genre.into(), replacement: replacement.into(), span }
}

/// Returns the source with the mutants, `on(N)` for their switches, and the reasons for those that cannot be switched.
fn switched(source: &str, changes: &[(&str, &str, &str)]) -> (String, Vec<&'static str>) {
    let mutants: Vec<Mutant> = changes
        .iter()
        .map(|(genre, change, replacement)| mutant(source, genre, change, replacement))
        .collect();
    let numbered: Vec<(usize, &Mutant)> = (1..).zip(&mutants).collect();
    let found = find::places(source, &numbered).unwrap();
    let (text, bytes) = write::switched(source, &found.places);
    syn::parse_file(&text).unwrap_or_else(|e| panic!("{e} in {text}"));
    assert_eq!(source.lines().count(), text.lines().count(), "{text}");
    for (number, bytes) in &bytes {
        assert!(bytes.region.start <= bytes.added.start && bytes.added.end <= bytes.region.end, "{bytes:?}");
        let guard = format!("is_on({number})");
        assert!(text[bytes.region.clone()].contains(&guard), "{number} in {text}");
    }
    assert_eq!(bytes.len(), found.places.len());
    let reasons = found.not_switchable.into_iter().map(|(_, reason)| reason).collect();
    (text.replace("crate::mutant_switch::is_on", "on"), reasons)
}

#[track_caller]
fn becomes(source: &str, changes: &[(&str, &str, &str)], expected: &str) {
    assert_eq!(switched(source, changes), (expected.to_owned(), Vec::new()));
}

#[track_caller]
fn is_refused(source: &str, change: (&str, &str, &str), reason: &str) {
    assert_eq!(switched(source, &[change]), (source.to_owned(), vec![reason]));
}

#[test]
fn a_function_returns_at_once() {
    becomes(
        "pub async fn f() -> Result<u8> {\n    g();\n    Ok(1)\n}\n",
        &[("FnValue", "g();\n    Ok(1)", "Ok(0)")],
        "pub async fn f() -> Result<u8> {\n    if on(1) { return Ok (0); } g();\n    Ok(1)\n}\n",
    );
    becomes(
        "impl A { fn f(&self) { g() } }",
        &[("FnValue", "g()", "()")],
        "impl A { fn f(&self) { if on(1) { return (); } g() } }",
    );
    becomes(
        "trait A { fn f(&self) -> bool { #[allow(unused)] let é = 1; true } }",
        &[("FnValue", "#[allow(unused)] let é = 1; true", "false")],
        "trait A { fn f(&self) -> bool { if on(1) { return false; } #[allow(unused)] let é = 1; true } }",
    );
}

#[test]
fn a_binary_operator_is_another() {
    becomes(
        "fn f() -> bool { a < b }",
        &[("BinaryOperator", "<", "=="), ("BinaryOperator", "<", ">")],
        "fn f() -> bool { (if on(1) { (a == b) } else if on(2) { (a > b) } else { (a < b) }) }",
    );
    becomes(
        "fn f() { a += 1; }",
        &[("BinaryOperator", "+=", "-=")],
        "fn f() { (if on(1) { (a -= 1) } else { (a += 1) }); }",
    );
}

#[test]
fn an_operator_that_binds_otherwise_does_so_in_the_whole_expression() {
    becomes(
        "fn f() -> bool { a || b\n    || !c && d }",
        &[("BinaryOperator", "«||» !c", "&&")],
        "fn f() -> bool { (if on(1) { (a || b && ! c && d) } else { (a || b\n    || !c && d) }) }",
    );
    becomes(
        "fn f() -> bool { a * (b + c) == d }",
        &[("BinaryOperator", "+", "*"), ("BinaryOperator", "==", "!=")],
        "fn f() -> bool { (if on(2) { (a * (b + c) != d) } else { (a * ((if on(1) { (b * c) } else { (b + c) })) == d) }) }",
    );
}

#[test]
fn a_let_stays_where_it_is() {
    is_refused("fn f() { if a && let b = c {} }", ("BinaryOperator", "&&", "||"), "it binds a `let`");
    is_refused(
        "fn f() { if a && b & c && let d = e {} }",
        ("BinaryOperator", "«&&» b", "||"),
        "it binds a `let`",
    );
    is_refused(
        "fn f() { match a { b if let c = d => {} _ => {} } }",
        ("MatchArmGuard", "let c = d", "true"),
        "it binds a `let`",
    );
    becomes(
        "fn f() { if a & b == c && let d = e == f && g {} }",
        &[("BinaryOperator", "a «&» b", "|"), ("BinaryOperator", "e «==» f", "!=")],
        "fn f() { if (if on(1) { (a | b == c) } else { (a & b == c) }) && let d = (if on(2) { (e != f) } else { (e == f) }) && g {} }",
    );
}

#[test]
fn a_unary_operator_is_left_out() {
    becomes(
        "fn f() -> bool { if !a.b() {} -1 }",
        &[("UnaryOperator", "!", ""), ("UnaryOperator", "«-»1", "")],
        "fn f() -> bool { if (if on(1) { (a . b ()) } else { (!a.b()) }) {} (if on(2) { (1) } else { (-1) }) }",
    );
}

#[test]
fn a_match_arm_does_not_match() {
    becomes(
        "fn f() { match a {\n    B | C => d + e,\n    _ => {}\n} }",
        &[("MatchArm", "B | C => d + e,", ""), ("BinaryOperator", "+", "-")],
        "fn f() { match a {\n    B | C if !on(1) => (if on(2) { (d - e) } else { (d + e) }),\n    _ => {}\n} }",
    );
}

#[test]
fn a_guard_is_true_or_false() {
    becomes(
        "fn f() { match a { b if !c => {} _ => {} } }",
        &[("MatchArmGuard", "!c", "true"), ("MatchArmGuard", "!c", "false"), ("UnaryOperator", "!", "")],
        "fn f() { match a { b if (if on(1) { (true) } else if on(2) { (false) } else if on(3) { (c) } else { (!c) }) => {} _ => {} } }",
    );
}

#[test]
fn a_field_is_left_to_the_base() {
    becomes(
        "fn f() -> A { A { b: 1, c: !d, ..e } }",
        &[("StructField", "b: 1,", ""), ("UnaryOperator", "!", "")],
        "fn f() -> A { (if on(1) { (A { c : ! d , .. e }) } else { (A { b: 1, c: (if on(2) { (d) } else { (!d) }), ..e }) }) }",
    );
}

#[test]
fn what_the_compiler_evaluates_cannot_be_switched() {
    const CONSTANT: &str = "it is evaluated by the compiler";
    for source in [
        "const A: u8 = 1 + 2;",
        "static A: u8 = 1 + 2;",
        "impl A { const B: u8 = 1 + 2; }",
        "trait A { const B: u8 = 1 + 2; }",
        "const fn f() -> u8 { 1 + 2 }",
        "enum A { B = 1 + 2 }",
        "fn f(a: [u8; 1 + 2]) {}",
        "fn f() { [0; 1 + 2]; }",
        "fn f() { g::<{ 1 + 2 }>() }",
        "fn f() { const { 1 + 2 } }",
    ] {
        is_refused(source, ("BinaryOperator", "+", "-"), CONSTANT);
    }
    becomes(
        "static A: LazyLock<u8> = LazyLock::new(|| 1 + 2);",
        &[("BinaryOperator", "+", "-")],
        "static A: LazyLock<u8> = LazyLock::new(|| (if on(1) { (1 - 2) } else { (1 + 2) }));",
    );
}

#[test]
fn what_is_no_code_any_more_cannot_be_switched() {
    is_refused("fn f() { a as u8 > b }", ("BinaryOperator", ">", "<"), "what is left is no expression");
    is_refused("fn f() -> impl A { b() }", ("FnValue", "b()", "c()"), "it gives one type that is not named");
    is_refused("fn f() { m!(a + b) }", ("BinaryOperator", "+", "-"), "no such code was found");
}

#[test]
fn one_change_is_made_as_it_is() {
    let source = "fn f() {\n    let é = a < b;\n}\n";
    let changed = write::plain(source, &mutant(source, "BinaryOperator", "<", ">")).unwrap();
    assert_eq!(changed, "fn f() {\n    let é = a >  b;\n}\n");
    assert!(write::plain("fn f() {}", &mutant(source, "BinaryOperator", "<", ">")).is_none());
}
