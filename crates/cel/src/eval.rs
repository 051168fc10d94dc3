//! Expressions to values.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::ast::{Comprehension, Expr, ExprKind, Literal, op};
use crate::check::qualified_name;
use crate::environment::{Environment, Overload};
use crate::types::Type;
use crate::value::{EvalError, Evaluated, Value, compare, equal, fail};

/// What an expression cost, and may cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub(crate) limit: u64,
    pub(crate) spent: u64,
}

impl Budget {
    fn spend(&mut self, cost: u64) -> Result<(), EvalError> {
        self.spent = self.spent.saturating_add(cost);
        if self.spent > self.limit {
            return fail("operation cancelled: actual cost limit exceeded");
        }
        Ok(())
    }
}

/// A tenth of a character's worth, rounded up: what walking over text costs.
fn traversal(size: u64) -> u64 {
    size.div_ceil(10)
}

pub(crate) struct Evaluator<'a> {
    pub(crate) environment: &'a Environment,
    /// Variables, innermost last.
    pub(crate) scopes: Vec<(String, Value)>,
    pub(crate) budget: Budget,
}

impl Evaluator<'_> {
    pub(crate) fn expr(&mut self, expr: &Expr) -> Evaluated {
        match &expr.kind {
            ExprKind::Literal(literal) => Ok(self::literal(literal)),
            ExprKind::Ident(name) => {
                self.budget.spend(1)?;
                self.named(name)
            }
            ExprKind::Select { operand, field, test_only } => self.select(expr, operand, field, *test_only),
            ExprKind::Call { function, target, args } => self.call(function, target.as_deref(), args),
            ExprKind::List(elements) => {
                let mut out = Vec::with_capacity(elements.len());
                for (element, optional) in elements {
                    match (self.expr(element)?, optional) {
                        (Value::Optional(inner), true) => out.extend(inner.map(|v| (*v).clone())),
                        (value, false) => out.push(value),
                        (_, true) => {
                            return fail("cannot initialize optional list element from non-optional value");
                        }
                    }
                }
                self.budget.spend(10)?;
                Ok(Value::list(out))
            }
            ExprKind::Map(entries) => {
                let mut out: Vec<(Value, Value)> = Vec::with_capacity(entries.len());
                for entry in entries {
                    let key = self.expr(&entry.key)?;
                    let value = match (self.expr(&entry.value)?, entry.optional) {
                        (Value::Optional(None), true) => continue,
                        (Value::Optional(Some(inner)), true) => (*inner).clone(),
                        (value, _) => value,
                    };
                    out.retain(|(k, _)| !equal(k, &key));
                    out.push((key, value));
                }
                self.budget.spend(30)?;
                Ok(Value::map(out))
            }
            ExprKind::Struct { name, .. } => fail(format!("unknown type: {name}")),
            ExprKind::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    fn named(&self, name: &str) -> Evaluated {
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some((_, value)) = self.scopes.iter().rev().find(|(variable, _)| variable == name) {
            return Ok(value.clone());
        }
        match self.environment.variable(name) {
            Some(Type::Type(_)) => Ok(Value::Type(name.into())),
            _ => fail(format!("no such attribute(s): {name}")),
        }
    }

    fn select(&mut self, expr: &Expr, operand: &Expr, field: &str, test_only: bool) -> Evaluated {
        if !test_only
            && let Some(name) = qualified_name(expr)
            && !self.scopes.iter().any(|(variable, _)| name.starts_with(&format!("{variable}.")))
            && let Some(Type::Type(_)) = self.environment.variable(&name)
        {
            return Ok(Value::Type(name.into()));
        }
        let value = self.expr(operand)?;
        if !test_only {
            self.budget.spend(1)?;
        }
        let (inner, is_optional) = match &value {
            Value::Optional(None) if test_only => return Ok(Value::Bool(false)),
            Value::Optional(None) => return Ok(Value::Optional(None)),
            Value::Optional(Some(inner)) => (&**inner, true),
            other => (other, false),
        };
        if !matches!(inner, Value::Map(_)) {
            return Err(EvalError::no_overload());
        }
        let found = inner.field(field);
        match found {
            _ if test_only => Ok(Value::Bool(found.is_some())),
            _ if is_optional => Ok(Value::Optional(found.cloned().map(Arc::new))),
            Some(found) => Ok(found.clone()),
            None => fail(format!("no such key: {field}")),
        }
    }

    fn call(&mut self, function: &str, target: Option<&Expr>, args: &[Expr]) -> Evaluated {
        match (function, args) {
            (op::AND, [left, right]) => return self.logical(left, right, false),
            (op::OR, [left, right]) => return self.logical(left, right, true),
            (op::CONDITIONAL, [condition, then, otherwise]) => {
                return match self.expr(condition)? {
                    Value::Bool(true) => self.expr(then),
                    Value::Bool(false) => self.expr(otherwise),
                    _ => Err(EvalError::no_overload()),
                };
            }
            (op::NOT_STRICTLY_FALSE, [arg]) => {
                let value = self.expr(arg);
                self.budget.spend(1)?;
                return Ok(Value::Bool(!matches!(value, Ok(Value::Bool(false)))));
            }
            (op::OPT_SELECT, [operand, Expr { kind: ExprKind::Literal(Literal::String(field)), .. }]) => {
                let value = self.expr(operand)?;
                self.budget.spend(1)?;
                return Ok(optional_get(&value, &Value::string(field.as_str())));
            }
            _ => {}
        }
        // A dotted name may be a function's rather than a value with a method.
        let namespaced = target.and_then(qualified_name).map(|prefix| format!("{prefix}.{function}"));
        let known = namespaced.and_then(|name| Some((name.clone(), self.environment.functions(&name)?)));
        let mut values = Vec::with_capacity(args.len() + 1);
        if known.is_none()
            && let Some(target) = target
        {
            values.push(self.expr(target)?);
        }
        for arg in args {
            values.push(self.expr(arg)?);
        }
        let is_member = target.is_some() && known.is_none();
        let (name, overloads) = match known {
            Some((name, overloads)) => (name, Some(overloads)),
            None => {
                let name = function.strip_prefix('.').unwrap_or(function);
                (name.to_owned(), self.environment.functions(name))
            }
        };
        self.budget.spend(call_cost(&name, &values))?;
        operator(&name, &values).unwrap_or_else(|| dispatch(overloads, is_member, &values, &name))
    }

    /// `&&` and `||`: a side that decides makes up for an error on the other.
    fn logical(&mut self, left: &Expr, right: &Expr, deciding: bool) -> Evaluated {
        let left = self.expr(left);
        if matches!(left, Ok(Value::Bool(value)) if value == deciding) {
            return left;
        }
        let right = self.expr(right);
        match (left, right) {
            (_, Ok(Value::Bool(value))) if value == deciding => Ok(Value::Bool(deciding)),
            (Ok(Value::Bool(_)), Ok(Value::Bool(value))) => Ok(Value::Bool(value)),
            (Err(error), _) | (Ok(Value::Bool(_)), Err(error)) => Err(error),
            _ => Err(EvalError::no_overload()),
        }
    }

    fn comprehension(&mut self, comprehension: &Comprehension) -> Evaluated {
        let Comprehension { range, var, var2, accu, accu_init, condition, step, result } = comprehension;
        let range = self.expr(range)?;
        let items: Vec<(Value, Value)> = match &range {
            Value::List(items) if var2.is_some() => {
                let index = |i: usize| Value::Int(i64::try_from(i).unwrap_or(i64::MAX));
                items.iter().enumerate().map(|(i, item)| (index(i), item.clone())).collect()
            }
            Value::List(items) => items.iter().map(|item| (item.clone(), Value::Null)).collect(),
            Value::Map(entries) => entries.to_vec(),
            _ => return Err(EvalError::no_overload()),
        };
        let depth = self.scopes.len();
        let mut current = self.expr(accu_init);
        for (first, second) in items {
            // An error in a step may be made up for by a later one, so it goes along as the value.
            let known = current.clone().unwrap_or(Value::Null);
            self.scopes.push((accu.clone(), known));
            self.scopes.push((var.clone(), first));
            if let Some(var2) = var2 {
                self.scopes.push((var2.clone(), second));
            }
            let go_on = match &current {
                Ok(_) => self.expr(condition),
                Err(_) => Ok(Value::Bool(true)),
            };
            if !matches!(go_on, Ok(Value::Bool(true))) {
                self.scopes.truncate(depth);
                go_on?;
                break;
            }
            current = match current {
                Ok(_) => self.expr(step),
                Err(error) => self.after_error(step, error),
            };
            self.scopes.truncate(depth);
            if self.budget.spent > self.budget.limit {
                return current;
            }
        }
        self.scopes.push((accu.clone(), current?));
        let result = self.expr(result);
        self.scopes.truncate(depth);
        result
    }

    /// The next step of `all` or `exists` after one that failed: the other side may still decide.
    fn after_error(&mut self, step: &Expr, error: EvalError) -> Evaluated {
        let ExprKind::Call { function, args, .. } = &step.kind else { return Err(error) };
        let (deciding, [_, predicate]) = (function == op::OR, args.as_slice()) else { return Err(error) };
        if function != op::OR && function != op::AND {
            return Err(error);
        }
        match self.expr(predicate) {
            Ok(Value::Bool(value)) if value == deciding => Ok(Value::Bool(value)),
            _ => Err(error),
        }
    }
}

/// The value that a literal stands for.
pub(crate) fn literal(literal: &Literal) -> Value {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(text) => Value::string(text.as_str()),
        Literal::Bytes(bytes) => Value::Bytes(Arc::from(bytes.as_slice())),
    }
}

/// What a call costs besides its arguments.
fn call_cost(function: &str, args: &[Value]) -> u64 {
    let size = |i: usize| args.get(i).map_or(1, Value::size);
    let is_text = |i: usize| matches!(args.get(i), Some(Value::String(_) | Value::Bytes(_)));
    match function {
        "startsWith" | "endsWith" => traversal(size(0)),
        op::IN if matches!(args.get(1), Some(Value::List(_))) => size(1),
        op::EQUALS | op::NOT_EQUALS => traversal(size(0).min(size(1))),
        op::LESS | op::LESS_EQUALS | op::GREATER | op::GREATER_EQUALS if is_text(0) => {
            traversal(size(0).min(size(1)))
        }
        op::ADD if is_text(0) => traversal(size(0).saturating_add(size(1))),
        "matches" => traversal(size(0) + 1).saturating_mul(size(1).div_ceil(4)),
        "contains" if is_text(0) => traversal(size(0)).saturating_mul(traversal(size(1))),
        _ => 1,
    }
}

/// Operators, which need no search among overloads.
fn operator(function: &str, args: &[Value]) -> Option<Evaluated> {
    let ordered = |accept: fn(Ordering) -> bool| match args {
        [a, b] => Some(match compare(a, b) {
            Some(order) => Ok(Value::Bool(accept(order))),
            None if matches!((a, b), (Value::Double(_), _) | (_, Value::Double(_))) && both_numbers(a, b) => {
                Ok(Value::Bool(false))
            }
            None => Err(EvalError::no_overload()),
        }),
        _ => None,
    };
    match (function, args) {
        (op::EQUALS, [a, b]) => Some(Ok(Value::Bool(equal(a, b)))),
        (op::NOT_EQUALS, [a, b]) => Some(Ok(Value::Bool(!equal(a, b)))),
        (op::LESS, _) => ordered(Ordering::is_lt),
        (op::LESS_EQUALS, _) => ordered(Ordering::is_le),
        (op::GREATER, _) => ordered(Ordering::is_gt),
        (op::GREATER_EQUALS, _) => ordered(Ordering::is_ge),
        (op::NOT, [Value::Bool(value)]) => Some(Ok(Value::Bool(!value))),
        (op::IN, [item, Value::List(items)]) => Some(Ok(Value::Bool(items.iter().any(|i| equal(i, item))))),
        (op::IN, [key, map @ Value::Map(_)]) => Some(Ok(Value::Bool(map.get(key).is_some()))),
        (op::INDEX, [container, index]) => Some(index_of(container, index)),
        (op::OPT_INDEX, [container, index]) => Some(Ok(optional_get(container, index))),
        (op::MAP_INSERT, [Value::Map(entries), rest @ ..]) => Some(insert(entries, rest)),
        _ => None,
    }
}

fn both_numbers(a: &Value, b: &Value) -> bool {
    let is_number = |v: &Value| matches!(v, Value::Int(_) | Value::Uint(_) | Value::Double(_));
    is_number(a) && is_number(b)
}

fn insert(entries: &[(Value, Value)], rest: &[Value]) -> Evaluated {
    let added: Vec<(Value, Value)> = match rest {
        [key, value] => vec![(key.clone(), value.clone())],
        [Value::Map(more)] => more.to_vec(),
        _ => return Err(EvalError::no_overload()),
    };
    let mut out = entries.to_vec();
    for (key, value) in added {
        if out.iter().any(|(k, _)| equal(k, &key)) {
            return fail(format!("insert failed: key {key} already exists"));
        }
        out.push((key, value));
    }
    Ok(Value::map(out))
}

fn list_index(index: &Value) -> Option<i64> {
    match index {
        Value::Int(i) => Some(*i),
        Value::Uint(i) => i64::try_from(*i).ok(),
        Value::Double(d) if d.fract() == 0.0 && d.abs() < 9e15 => Some(*d as i64),
        _ => None,
    }
}

fn index_of(container: &Value, index: &Value) -> Evaluated {
    match container {
        Value::List(items) => {
            let Some(at) = list_index(index) else { return Err(EvalError::no_overload()) };
            match usize::try_from(at).ok().and_then(|at| items.get(at)) {
                Some(item) => Ok(item.clone()),
                None => fail(format!("index out of bounds: {at}")),
            }
        }
        Value::Map(_) => match container.get(index) {
            Some(value) => Ok(value.clone()),
            None => fail(format!("no such key: {index}")),
        },
        Value::Optional(_) => Ok(optional_get(container, index)),
        _ => Err(EvalError::no_overload()),
    }
}

/// What is under a key or index, if it is there and so is the container.
fn optional_get(container: &Value, index: &Value) -> Value {
    let container = match container {
        Value::Optional(None) => return Value::Optional(None),
        Value::Optional(Some(inner)) => inner,
        other => other,
    };
    Value::Optional(index_of(container, index).ok().map(Arc::new))
}

/// Calls the overload that takes these arguments.
pub(crate) fn dispatch(
    overloads: Option<&'static [Overload]>,
    is_member: bool,
    args: &[Value],
    name: &str,
) -> Evaluated {
    let fitting = overloads.into_iter().flatten().find(|overload| {
        overload.member == is_member
            && overload.args.len() == args.len()
            && overload.args.iter().zip(args).all(|(ty, value)| fits(ty, value))
    });
    match fitting {
        Some(overload) => (overload.call)(args),
        None => fail(format!("no such overload: {name}")),
    }
}

fn fits(ty: &Type, value: &Value) -> bool {
    match (ty, value) {
        (Type::Dyn | Type::Param(_), _)
        | (Type::Null, Value::Null)
        | (Type::Bool, Value::Bool(_))
        | (Type::Int, Value::Int(_))
        | (Type::Uint, Value::Uint(_))
        | (Type::Double, Value::Double(_))
        | (Type::String, Value::String(_))
        | (Type::Bytes, Value::Bytes(_))
        | (Type::Timestamp, Value::Timestamp(_))
        | (Type::Duration, Value::Duration(_))
        | (Type::Optional(_), Value::Optional(_))
        | (Type::Map(..) | Type::Object(_), Value::Map(_))
        | (Type::Type(_), Value::Type(_)) => true,
        (Type::List(elem), Value::List(items)) => items.first().is_none_or(|item| fits(elem, item)),
        (Type::Opaque(name), value) => *name == value.type_name(),
        _ => false,
    }
}
