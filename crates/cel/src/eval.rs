//! Evaluates expressions.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::Program;
use crate::ast::{Comprehension, Expr, ExprKind, Literal, op};
use crate::check::qualified_name;
use crate::cost;
use crate::dispatch::{dispatch, go_type, is_one_for_all};
use crate::library::Overload;
use crate::library::authz::has_no_equality;
use crate::types::{Type, is_reserved};
use crate::value::{EvalError, Evaluated, Value, compare, equal, fail};

/// The cost spent so far, and the limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub(crate) limit: u64,
    pub(crate) spent: u64,
}

impl Budget {
    pub(crate) fn spend(&mut self, cost: u64) -> Result<(), EvalError> {
        self.spent = self.spent.saturating_add(cost);
        if self.spent > self.limit {
            return Err(EvalError::CostLimitExceeded);
        }
        Ok(())
    }

    fn is_exceeded(&self) -> bool {
        self.spent > self.limit
    }
}

pub(crate) struct Evaluator<'a> {
    pub(crate) program: &'a Program,
    /// Comprehension variables, innermost last.
    pub(crate) scopes: Vec<(&'a str, Value)>,
    pub(crate) budget: Budget,
}

/// The intermediate result of a selection chain.
struct Reached {
    /// `None` once an optional part was absent: the rest of the chain is skipped.
    value: Option<Value>,
    optional: bool,
}

impl Reached {
    fn start(value: Value) -> Self {
        match value {
            Value::Optional(inner) => Self { value: inner.map(|v| (*v).clone()), optional: true },
            value => Self { value: Some(value), optional: false },
        }
    }

    fn finish(self) -> Evaluated {
        match self.value {
            value if self.optional => Ok(Value::Optional(value.map(Arc::new))),
            Some(value) => Ok(value),
            None => Ok(Value::Optional(None)),
        }
    }
}

impl<'a> Evaluator<'a> {
    pub(crate) fn expr(&mut self, expr: &'a Expr) -> Evaluated {
        if let Some(value) = self.program.constants.get(&expr.id) {
            return Ok(value.clone());
        }
        match &expr.kind {
            ExprKind::Literal(literal) => Ok(self::literal(literal)),
            ExprKind::Ident(name) => {
                let found = self.named(name);
                self.budget.spend(u64::from(!matches!(found, Ok(Value::Type(_)))))?;
                found
            }
            ExprKind::Select { operand, field, test_only: true } => self.test(operand, field),
            ExprKind::Select { .. } => match self.type_name(expr) {
                Some(name) => Ok(name),
                None => self.attribute(expr),
            },
            ExprKind::Call { function, target, args } => {
                if is_attribute(expr) {
                    return self.attribute(expr);
                }
                self.call(expr, function, target.as_deref(), args)
            }
            ExprKind::List(elements) => self.list(elements),
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
            ExprKind::Struct { name, fields } => self.structure(name, fields),
            ExprKind::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    fn list(&mut self, elements: &'a [(Expr, bool)]) -> Evaluated {
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

    fn named(&self, name: &str) -> Evaluated {
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some((_, value)) = self.scopes.iter().rev().find(|(variable, _)| *variable == name) {
            return value.clone().checked();
        }
        match self.program.environment.variable(name) {
            Some(Type::Type(_)) => Ok(Value::Type(name.into())),
            _ => fail(format!("no such attribute(s): {name}")),
        }
    }

    /// Returns the type value that a dotted name denotes, if any.
    fn type_name(&self, expr: &Expr) -> Option<Value> {
        let name = qualified_name(expr)?;
        if self.scopes.iter().any(|(variable, _)| name.starts_with(&format!("{variable}."))) {
            return None;
        }
        match self.program.environment.variable(&name) {
            Some(Type::Type(_)) => Some(Value::Type(name.into())),
            _ => None,
        }
    }

    /// Evaluates `has(operand.field)`.
    fn test(&mut self, operand: &'a Expr, field: &str) -> Evaluated {
        let reached = self.base(operand)?;
        let is_there = |value: Value| {
            value.field(field).is_some() || reserved_field(&value, &Value::string(field)).is_some()
        };
        let found = reached.value.is_some_and(is_there);
        // An absent optional costs nothing.
        self.budget.spend(u64::from(found || !reached.optional))?;
        Ok(Value::Bool(found))
    }

    /// Evaluates a selection chain. The chain costs one, unless it starts from a conditional.
    fn attribute(&mut self, expr: &'a Expr) -> Evaluated {
        let reached = self.resolve(expr);
        if !root_is_choice(expr) {
            self.budget.spend(1)?;
        }
        reached?.finish()?.checked()
    }

    /// Resolves a selection chain to its value.
    fn resolve(&mut self, expr: &'a Expr) -> Result<Reached, EvalError> {
        match &expr.kind {
            ExprKind::Ident(name) => Ok(Reached { value: Some(self.named(name)?), optional: false }),
            ExprKind::Select { operand, field, .. } => {
                let reached = self.base(operand)?;
                self.qualify(reached, Value::string(field.as_str()), false)
            }
            ExprKind::Call { function, args, .. } => match (function.as_str(), args.as_slice()) {
                (op::CONDITIONAL, [condition, then, otherwise]) => {
                    let chosen = match self.expr(condition)? {
                        Value::Bool(true) => then,
                        Value::Bool(false) => otherwise,
                        _ => return Err(EvalError::NoSuchOverload(None)),
                    };
                    if is_attribute(chosen) {
                        return self.resolve(chosen);
                    }
                    Ok(Reached { value: Some(self.expr(chosen)?), optional: false })
                }
                (op::INDEX | op::OPT_INDEX | op::OPT_SELECT, [operand, index]) => {
                    let reached = self.base(operand)?;
                    let optional = function != op::INDEX;
                    if reached.optional && reached.value.is_none() {
                        return Ok(reached);
                    }
                    if let Some(key) = self.constant(index) {
                        return self.qualify(reached, key, optional);
                    }
                    let key = if is_attribute(index) {
                        self.resolve(index).and_then(Reached::finish)
                    } else {
                        self.expr(index)
                    };
                    match key {
                        Ok(key) => self.qualify(reached, key, optional),
                        Err(error) => {
                            self.budget.spend(1)?;
                            Err(error)
                        }
                    }
                }
                _ => Ok(Reached { value: Some(self.expr(expr)?), optional: false }),
            },
            _ => Ok(Reached { value: Some(self.expr(expr)?), optional: false }),
        }
    }

    /// Resolves the operand of a selection: a shorter chain or any other expression.
    fn base(&mut self, operand: &'a Expr) -> Result<Reached, EvalError> {
        let is_type = matches!(&operand.kind, ExprKind::Select { .. }) && self.type_name(operand).is_some();
        let reached = if is_attribute(operand) && !is_type {
            self.resolve(operand)?
        } else {
            Reached { value: Some(self.expr(operand)?), optional: false }
        };
        Ok(match reached {
            Reached { value: Some(value), optional: false } => Reached::start(value),
            reached => reached,
        })
    }

    fn constant(&self, expr: &Expr) -> Option<Value> {
        match &expr.kind {
            ExprKind::Literal(literal) => Some(self::literal(literal)),
            _ => self.program.constants.get(&expr.id).cloned(),
        }
    }

    /// Applies one selection of a chain. Optional selections cost nothing if the value is absent.
    fn qualify(&mut self, reached: Reached, key: Value, optional: bool) -> Result<Reached, EvalError> {
        let Some(value) = reached.value else { return Ok(reached) };
        if !reached.optional && !optional {
            self.budget.spend(1)?;
            return Ok(Reached { value: Some(get(&value, &key)?.checked()?), optional: false });
        }
        let found = match &value {
            Value::List(_) if list_index(&key).is_none() => return Err(bad_index(&key)),
            Value::Object(object) => object.get(&key).cloned(),
            value => get(value, &key).ok(),
        };
        if found.is_some() {
            self.budget.spend(1)?;
        }
        Ok(Reached { value: found.map(Value::checked).transpose()?, optional: true })
    }

    fn call(
        &mut self,
        expr: &'a Expr,
        function: &'a str,
        target: Option<&'a Expr>,
        args: &'a [Expr],
    ) -> Evaluated {
        match (function, target, args) {
            (op::AND, _, [left, right]) => return self.logical(left, right, false),
            (op::OR, _, [left, right]) => return self.logical(left, right, true),
            (op::NOT_STRICTLY_FALSE, _, [arg]) => {
                let value = self.expr(arg);
                self.budget.spend(1)?;
                return Ok(Value::Bool(!matches!(value, Ok(Value::Bool(false)))));
            }
            (op::IN, _, [item, list]) => {
                if let Some(found) = self.member_of_constant(expr, item, list) {
                    return found;
                }
            }
            ("or" | "orValue", Some(target), [other]) => {
                return match (self.expr(target)?, function) {
                    (Value::Optional(None), _) => self.expr(other),
                    (Value::Optional(Some(inner)), "orValue") => Ok((*inner).clone()),
                    (value @ Value::Optional(_), _) => Ok(value),
                    _ => Err(EvalError::NoSuchOverload(Some(function.into()))),
                };
            }
            _ => {}
        }
        // A dotted name may be a namespaced function instead of a method call.
        let environment = &self.program.environment;
        let namespaced = target.and_then(qualified_name).map(|prefix| format!("{prefix}.{function}"));
        let known = namespaced.and_then(|name| Some((environment.functions(&name)?, name)));
        let is_member = target.is_some() && known.is_none();
        let mut values = Vec::with_capacity(args.len() + 1);
        if let Some(target) = target.filter(|_| is_member) {
            values.push(self.expr(target));
        }
        // With up to two arguments, both are evaluated before an error in one is returned.
        let is_patient = values.len() + args.len() <= 2 && !self.is_fixed_match(function, args);
        for arg in args {
            if let Some(Err(error)) = values.last().filter(|_| !is_patient) {
                return Err(error.clone());
            }
            values.push(self.expr(arg));
        }
        if let Some(Err(error)) = values.last().filter(|_| !is_patient) {
            return Err(error.clone());
        }
        if self.budget.is_exceeded() {
            return Err(EvalError::CostLimitExceeded);
        }
        let (overloads, name) = match &known {
            Some((overloads, name)) => (Some(*overloads), name.as_str()),
            None => {
                let name = function.strip_prefix('.').unwrap_or(function);
                (environment.functions(name), name)
            }
        };
        let only = match self.program.checked.overloads(expr) {
            [only] => Some(*only),
            _ => None,
        };
        let overloads = only.filter(|_| !is_one_for_all(name)).map(std::slice::from_ref).or(overloads);
        let result = self.apply(name, overloads, is_member, &values);
        self.budget.spend(cost::of_call(name, only, &values, &result))?;
        result
    }

    /// Whether this is a `matches` call with a constant pattern, compiled in advance.
    fn is_fixed_match(&self, function: &str, args: &[Expr]) -> bool {
        function == "matches" && args.last().is_some_and(|pattern| self.constant(pattern).is_some())
    }

    fn apply(
        &self,
        name: &str,
        overloads: Option<&'static [Overload]>,
        is_member: bool,
        args: &[Evaluated],
    ) -> Evaluated {
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            values.push(arg.clone()?.checked()?);
        }
        let result =
            operator(name, &values).unwrap_or_else(|| dispatch(overloads, is_member, &values, name))?;
        result.checked()
    }

    /// Evaluates `item in list` for a constant list of primitives, which costs as much as a lookup.
    fn member_of_constant(&mut self, expr: &'a Expr, item: &'a Expr, list: &'a Expr) -> Option<Evaluated> {
        let [overload] = self.program.checked.overloads(expr) else { return None };
        let (Some(Type::List(_)), Some(Value::List(items))) = (overload.args.get(1), self.constant(list))
        else {
            return None;
        };
        if items.is_empty() {
            return Some(Ok(Value::Bool(false)));
        }
        let is_primitive = |value: &Value| {
            matches!(
                value,
                Value::Bool(_)
                    | Value::Double(_)
                    | Value::Int(_)
                    | Value::Uint(_)
                    | Value::String(_)
                    | Value::Null
            )
        };
        if !items.iter().all(is_primitive) {
            return None;
        }
        Some(self.expr(item).map(|item| Value::Bool(items.iter().any(|i| equal(i, &item)))))
    }

    /// Evaluates `&&` and `||`: a deciding operand overrides an error in the other one.
    fn logical(&mut self, left: &'a Expr, right: &'a Expr, deciding: bool) -> Evaluated {
        let left = self.expr(left);
        if matches!(left, Ok(Value::Bool(value)) if value == deciding) {
            return left;
        }
        let right = self.expr(right);
        match (left, right) {
            (_, Ok(Value::Bool(value))) if value == deciding => Ok(Value::Bool(deciding)),
            (Ok(Value::Bool(_)), Ok(Value::Bool(value))) => Ok(Value::Bool(value)),
            (Err(error), _) | (Ok(Value::Bool(_)), Err(error)) => Err(error),
            _ => Err(EvalError::NoSuchOverload(None)),
        }
    }

    fn comprehension(&mut self, comprehension: &'a Comprehension) -> Evaluated {
        let Comprehension { range, var, var2, accu, accu_init, condition, step, result } = comprehension;
        let range = self.expr(range)?;
        let items: Vec<(Value, Value)> = match &range {
            Value::List(items) if var2.is_some() => {
                let index = |i: usize| Value::Int(i64::try_from(i).unwrap_or(i64::MAX));
                items.iter().enumerate().map(|(i, item)| (index(i), item.clone())).collect()
            }
            Value::List(items) => items.iter().map(|item| (item.clone(), Value::Null)).collect(),
            Value::Map(entries) => entries.to_vec(),
            other => return fail(format!("got '{}', expected iterable type", go_type(other))),
        };
        let depth = self.scopes.len();
        let mut current = self.expr(accu_init);
        for (first, second) in items {
            // A later step may override an error, so carry it in the accumulator.
            let known = match &current {
                Ok(value) => value.clone(),
                Err(error) => Value::Invalid(error.clone()),
            };
            self.scopes.push((accu, known));
            self.scopes.push((var, first));
            if let Some(var2) = var2 {
                self.scopes.push((var2, second));
            }
            let go_on = self.expr(condition);
            if matches!(go_on, Ok(Value::Bool(false))) {
                self.scopes.truncate(depth);
                break;
            }
            current = self.expr(step);
            self.scopes.truncate(depth);
            if self.budget.is_exceeded() {
                return Err(EvalError::CostLimitExceeded);
            }
        }
        let value = match current {
            Ok(value) => value,
            Err(error) => Value::Invalid(error),
        };
        self.scopes.push((accu, value));
        let result = self.expr(result);
        self.scopes.truncate(depth);
        result
    }
}

/// Whether an expression is an attribute: a variable, a selection chain, or a conditional.
fn is_attribute(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Ident(_) => true,
        ExprKind::Select { test_only, .. } => !test_only,
        ExprKind::Call { function, target: None, .. } => {
            matches!(function.as_str(), op::INDEX | op::OPT_INDEX | op::OPT_SELECT | op::CONDITIONAL)
        }
        _ => false,
    }
}

/// Whether a selection chain starts from a conditional.
fn root_is_choice(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Select { operand, .. } => root_is_choice(operand),
        ExprKind::Call { function, target: None, args } => match function.as_str() {
            op::CONDITIONAL => true,
            op::INDEX | op::OPT_INDEX | op::OPT_SELECT => args.first().is_some_and(root_is_choice),
            _ => false,
        },
        _ => false,
    }
}

/// Converts a literal to a value.
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

/// Evaluates operators that need no overload resolution.
fn operator(function: &str, args: &[Value]) -> Option<Evaluated> {
    let ordered = |accept: fn(Ordering) -> bool| match args {
        [a, b] => Some(match compare(a, b) {
            Some(order) => Ok(Value::Bool(accept(order))),
            None if both_numbers(a, b) => fail("NaN values cannot be ordered"),
            // The error is unnamed if only the second operand has the wrong type, and named if the first one has no
            // order.
            None if compare(a, a).is_some() || matches!(a, Value::Double(_)) => {
                Err(EvalError::NoSuchOverload(None))
            }
            None => Err(EvalError::NoSuchOverload(Some(function.into()))),
        }),
        _ => None,
    };
    match (function, args) {
        (op::EQUALS | op::NOT_EQUALS, [a, b]) if has_no_equality(a, b) => {
            Some(Err(EvalError::NoSuchOverload(None)))
        }
        (op::EQUALS, [a, b]) => Some(Ok(Value::Bool(equal(a, b)))),
        (op::NOT_EQUALS, [a, b]) => Some(Ok(Value::Bool(!equal(a, b)))),
        (op::LESS, _) => ordered(Ordering::is_lt),
        (op::LESS_EQUALS, _) => ordered(Ordering::is_le),
        (op::GREATER, _) => ordered(Ordering::is_gt),
        (op::GREATER_EQUALS, _) => ordered(Ordering::is_ge),
        (op::NOT, [Value::Bool(value)]) => Some(Ok(Value::Bool(!value))),
        // Not declared, but supported at runtime.
        (op::NEGATE, [Value::Duration(nanos)]) => {
            let negated = nanos.checked_neg().map(Value::Duration);
            Some(negated.map_or_else(|| fail("integer overflow"), Ok))
        }
        (op::IN, [item, Value::List(items)]) => Some(Ok(Value::Bool(items.iter().any(|i| equal(i, item))))),
        (op::IN, [key, map @ Value::Map(_)]) => Some(Ok(Value::Bool(map.get(key).is_some()))),
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
        _ => return Err(EvalError::NoSuchOverload(None)),
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

fn bad_index(index: &Value) -> EvalError {
    EvalError::from(match index {
        Value::Double(_) | Value::Uint(_) => format!("unsupported index value {index} in list"),
        other => format!("unsupported index type '{}' in list", other.type_name()),
    })
}

/// Returns the field with a reserved name, which expressions may write unescaped.
fn reserved_field<'v>(object: &'v Value, name: &Value) -> Option<&'v Value> {
    match name {
        Value::String(name) if is_reserved(name) => object.field(&format!("__{name}__")),
        _ => None,
    }
}

/// Returns the value at a key or index.
fn get(container: &Value, index: &Value) -> Evaluated {
    match container {
        Value::List(items) => {
            let Some(at) = list_index(index) else { return Err(bad_index(index)) };
            match usize::try_from(at).ok().and_then(|at| items.get(at)) {
                Some(item) => Ok(item.clone()),
                None => fail(format!("index out of bounds: {index}")),
            }
        }
        Value::Map(_) => match container.get(index).or_else(|| reserved_field(container, index)) {
            Some(value) => Ok(value.clone()),
            None => fail(format!("no such key: {index}")),
        },
        // A schemaless object may have any field.
        Value::Object(object) => Ok(object.get(index).cloned().unwrap_or(Value::Null)),
        Value::Invalid(error) => Err(error.clone()),
        _ => fail(format!("no such key: {index}")),
    }
}
