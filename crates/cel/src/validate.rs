//! Validates literals after type checking.

use std::collections::BTreeSet;

use crate::ast::{Expr, ExprKind, Literal};
use crate::check::Checked;
use crate::dispatch::dispatch;
use crate::eval::literal;
use crate::library;
use crate::library::strings::pattern;
use crate::source::{Issue, Source};
use crate::types::Type;

/// Returns the issues with literals in an expression.
/// These are invalid times and patterns, lists and maps of mixed types, and format strings that do not match their
/// arguments.
pub(crate) fn validate(source: &Source, expr: &Expr, types: &Checked) -> Vec<Issue> {
    let mut issues = Vec::new();
    // Validators run one after another over the whole expression, as in cel-go.
    for kind in ["duration", "timestamp"] {
        expr.walk(&mut |expr| {
            if let Some(offset) = bad_time(expr, kind) {
                issues.push(source.error(offset, format!("invalid {kind} argument")));
            }
        });
    }
    expr.walk(&mut |expr| {
        if let ExprKind::Call { function, args, .. } = &expr.kind
            && function == "matches"
            // In the function form the first argument is the subject, not the pattern; cel-go validates it
            // nevertheless.
            && let Some(Expr { offset, kind: ExprKind::Literal(Literal::String(text)), .. }) = args.first()
            && pattern(text).is_err()
        {
            issues.push(source.error(*offset, "invalid matches argument"));
        }
    });
    let mut mixed = BTreeSet::new();
    expr.walk(&mut |expr| match &expr.kind {
        // The arguments of `format` may have mixed types.
        ExprKind::Call { function, .. } if function == "format" => {
            expr.walk(&mut |part| {
                mixed.insert(part.id);
            });
        }
        _ if mixed.contains(&expr.id) => {}
        ExprKind::List(elements) => {
            let elements = elements.iter().map(|(element, optional)| (element, *optional));
            issues.extend(homogeneous(source, elements, types));
        }
        ExprKind::Map(entries) => {
            issues.extend(homogeneous(source, entries.iter().map(|entry| (&entry.key, false)), types));
            let values = entries.iter().map(|entry| (&entry.value, entry.optional));
            issues.extend(homogeneous(source, values, types));
        }
        _ => {}
    });
    expr.walk(&mut |expr| issues.extend(bad_format(source, expr, types)));
    issues
}

/// Checks a format string with a literal argument list.
fn bad_format(source: &Source, expr: &Expr, types: &Checked) -> Option<Issue> {
    let ExprKind::Call { function, target: Some(target), args } = &expr.kind else { return None };
    let ExprKind::Literal(Literal::String(text)) = &target.kind else { return None };
    let [Expr { kind: ExprKind::List(values), .. }] = args.as_slice() else { return None };
    if function != "format" {
        return None;
    }
    let values: Vec<&Expr> = values.iter().map(|(value, _)| value).collect();
    let (offset, why) = library::format::check(text, &values, types)?;
    Some(source.error(offset.unwrap_or(expr.offset), why))
}

/// Returns the offset of an invalid literal time of this kind.
fn bad_time(expr: &Expr, kind: &str) -> Option<usize> {
    let ExprKind::Call { function, target: None, args } = &expr.kind else { return None };
    let [Expr { offset, kind: ExprKind::Literal(value), .. }] = args.as_slice() else { return None };
    let overloads = library::functions().get(kind).map(Vec::as_slice);
    let fails = function == kind && dispatch(overloads, false, &[literal(value)], kind).is_err();
    fails.then_some(*offset)
}

/// Returns an issue for the first element that differs in type from the first one.
fn homogeneous<'a>(
    source: &Source,
    elements: impl Iterator<Item = (&'a Expr, bool)>,
    types: &Checked,
) -> Option<Issue> {
    let mut first: Option<Type> = None;
    for (element, optional) in elements {
        let ty = types.of(element);
        let ty = if optional { ty.unwrapped().0.clone() } else { ty.clone() };
        match &first {
            None => first = Some(ty),
            Some(first) if *first == ty => {}
            Some(first) => {
                return Some(
                    source.error(element.offset, format!("expected type '{first}' but found '{ty}'")),
                );
            }
        }
    }
    None
}
