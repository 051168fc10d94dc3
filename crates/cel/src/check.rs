//! Type checker: resolves the types and overloads of an expression.

use std::collections::HashMap;

use crate::ast::{Comprehension, Entry, Expr, ExprKind, Literal, op};
use crate::environment::Environment;
use crate::library::Overload;
use crate::source::{Issue, Source};
use crate::types::{Param, Type};

/// The type-checked expression: types and overloads by node.
#[derive(Debug)]
pub(crate) struct Checked {
    /// The type of the whole expression.
    pub(crate) output: Type,
    /// Types by node id.
    types: HashMap<usize, Type>,
    calls: HashMap<usize, Vec<&'static Overload>>,
}

impl Checked {
    /// Returns the type of a node.
    pub(crate) fn of(&self, part: &Expr) -> &Type {
        self.types.get(&part.id).unwrap_or(&Type::Dyn)
    }

    /// Returns the overloads that a call may resolve to.
    pub(crate) fn overloads(&self, call: &Expr) -> &[&'static Overload] {
        self.calls.get(&call.id).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Type-checks an expression, or returns all issues found.
pub(crate) fn check(environment: &Environment, source: &Source, expr: &Expr) -> Result<Checked, Vec<Issue>> {
    let mut checker = Checker {
        environment,
        source,
        scopes: Vec::new(),
        mapping: HashMap::new(),
        fresh: 0,
        issues: Vec::new(),
        types: HashMap::new(),
        calls: HashMap::new(),
    };
    let ty = checker.expr(expr);
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    let types = checker.types.iter().map(|(part, ty)| (*part, checker.substituted(ty, true))).collect();
    Ok(Checked { output: checker.substituted(&ty, true), types, calls: checker.calls })
}

type Mapping = HashMap<Param, Type>;

struct Checker<'a> {
    environment: &'a Environment,
    source: &'a Source,
    /// Comprehension variables, innermost last.
    scopes: Vec<(String, Type)>,
    mapping: Mapping,
    fresh: u32,
    issues: Vec<Issue>,
    types: HashMap<usize, Type>,
    calls: HashMap<usize, Vec<&'static Overload>>,
}

impl Checker<'_> {
    fn report(&mut self, offset: usize, message: impl Into<String>) {
        self.issues.push(self.source.error(offset, message));
    }

    fn mismatch(&mut self, offset: usize, expected: &Type, found: &Type) {
        self.report(offset, format!("expected type '{expected}' but found '{found}'"));
    }

    fn undeclared(&mut self, offset: usize, name: &str) -> Type {
        self.report(offset, format!("undeclared reference to '{name}' (in container '')"));
        Type::Error
    }

    fn expr(&mut self, expr: &Expr) -> Type {
        let ty = self.type_of(expr);
        self.types.insert(expr.id, ty.clone());
        ty
    }

    fn type_of(&mut self, expr: &Expr) -> Type {
        match &expr.kind {
            ExprKind::Literal(literal) => match literal {
                Literal::Null => Type::Null,
                Literal::Bool(_) => Type::Bool,
                Literal::Int(_) => Type::Int,
                Literal::Uint(_) => Type::Uint,
                Literal::Double(_) => Type::Double,
                Literal::String(_) => Type::String,
                Literal::Bytes(_) => Type::Bytes,
            },
            ExprKind::Ident(name) => match self.variable(name) {
                Some(ty) => ty,
                None => self.undeclared(expr.offset, name),
            },
            ExprKind::Select { operand, field, test_only } => {
                let known = qualified_name(expr).and_then(|name| self.variable(&name));
                if let Some(ty) = known.filter(|_| !test_only) {
                    return ty;
                }
                let ty = self.field(expr.offset, operand, field, false);
                if *test_only { Type::Bool } else { self.substituted(&ty, false) }
            }
            ExprKind::Call { function, target, args } => self.call(expr, function, target.as_deref(), args),
            ExprKind::List(elements) => {
                let mut joined = None;
                for (element, optional) in elements {
                    let ty = self.optional_entry(element, *optional);
                    joined = Some(self.joined(joined, ty));
                }
                Type::list(joined.unwrap_or_else(|| self.fresh_param()))
            }
            ExprKind::Map(entries) => {
                let (mut keys, mut values) = (None, None);
                for entry in entries {
                    let key = self.expr(&entry.key);
                    keys = Some(self.joined(keys, key));
                    let value = self.optional_entry(&entry.value, entry.optional);
                    values = Some(self.joined(values, value));
                }
                match (keys, values) {
                    (Some(key), Some(value)) => Type::map(key, value),
                    _ => Type::map(self.fresh_param(), self.fresh_param()),
                }
            }
            ExprKind::Struct { name, fields } => {
                let Some(ty) = self.environment.structure(name) else {
                    return self.undeclared(expr.offset, name);
                };
                for field in fields {
                    self.initialized(&ty, field);
                }
                ty
            }
            ExprKind::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    fn variable(&self, name: &str) -> Option<Type> {
        let name = name.strip_prefix('.').unwrap_or(name);
        let scoped =
            self.scopes.iter().rev().find(|(variable, _)| variable == name).map(|(_, ty)| ty.clone());
        scoped.or_else(|| self.environment.variable(name))
    }

    fn fresh_param(&mut self) -> Type {
        self.fresh += 1;
        Type::Param(Param::Fresh(self.fresh - 1))
    }

    /// Returns the type of an element in a literal; for an optional element, the type it wraps.
    fn optional_entry(&mut self, value: &Expr, optional: bool) -> Type {
        let ty = self.expr(value);
        if !optional {
            return ty;
        }
        let (inner, is_optional) = ty.unwrapped();
        if !is_optional && !matches!(inner, Type::Dyn) {
            self.mismatch(value.offset, &Type::optional(inner.clone()), inner);
        }
        inner.clone()
    }

    /// Checks that a field exists and accepts the value it is initialized with.
    fn initialized(&mut self, object: &Type, field: &Entry<String>) {
        let found = self.optional_entry(&field.value, field.optional);
        let Type::Object(object) = object else { return };
        let name = &field.key;
        match object.field(name) {
            None => self.report(field.offset, format!("undefined field '{name}'")),
            Some(expected) if self.assignable(expected, &found) => {}
            Some(expected) => {
                let found = self.substituted(&found, true);
                let message =
                    format!("expected type of field '{name}' is '{expected}' but provided type is '{found}'");
                self.report(field.offset, message);
            }
        }
    }

    /// Returns the common type of two types, or `dyn`. Literals with mixed types are rejected later.
    fn joined(&mut self, previous: Option<Type>, current: Type) -> Type {
        let Some(previous) = previous else { return current };
        if self.assignable(&previous, &current) { most_general(previous, current) } else { Type::Dyn }
    }

    fn field(&mut self, offset: usize, operand: &Expr, field: &str, optional: bool) -> Type {
        let ty = self.expr(operand);
        let ty = self.substituted(&ty, false);
        let (target, is_optional) = ty.unwrapped();
        let result = match target {
            Type::Map(_, value) => (**value).clone(),
            Type::Object(object) => match object.field(field) {
                Some(ty) => ty.clone(),
                None => {
                    self.report(offset, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Param(_) => {
                self.assignable(&Type::Dyn, target);
                Type::Dyn
            }
            // cel-go treats these as objects without a declaration. IP addresses and CIDRs are opaque there too.
            Type::Opaque(name) if !name.starts_with("net.") => {
                self.report(offset, format!("unexpected failed resolution of '{name}'"));
                Type::Error
            }
            other => {
                if !other.is_dyn_or_error() {
                    self.report(offset, format!("type '{other}' does not support field selection"));
                }
                Type::Dyn
            }
        };
        if optional || is_optional { Type::optional(result) } else { result }
    }

    fn call(&mut self, expr: &Expr, function: &str, target: Option<&Expr>, args: &[Expr]) -> Type {
        if function == op::OPT_SELECT
            && let [operand, Expr { kind: ExprKind::Literal(Literal::String(field)), .. }] = args
        {
            let ty = self.field(expr.offset, operand, field, true);
            return self.substituted(&ty, false);
        }
        let arg_types: Vec<Type> = args.iter().map(|arg| self.expr(arg)).collect();
        let Some(target) = target else {
            let name = function.strip_prefix('.').unwrap_or(function);
            return match self.environment.functions(name) {
                Some(overloads) => self.resolve(expr, function, overloads, false, args, arg_types),
                None => self.undeclared(expr.offset, function),
            };
        };
        if let Some(prefix) = qualified_name(target) {
            let name = format!("{prefix}.{function}");
            if let Some(overloads) = self.environment.functions(&name) {
                return self.resolve(expr, &name, overloads, false, args, arg_types);
            }
        }
        let mut all = vec![self.expr(target)];
        all.extend(arg_types);
        match self.environment.functions(function) {
            Some(overloads) => self.resolve(expr, function, overloads, true, args, all),
            None => self.undeclared(expr.offset, function),
        }
    }

    fn resolve(
        &mut self,
        expr: &Expr,
        function: &str,
        overloads: &'static [Overload],
        is_member: bool,
        args: &[Expr],
        arg_types: Vec<Type>,
    ) -> Type {
        if function == op::AND || function == op::OR {
            self.calls.insert(expr.id, overloads.iter().collect());
            let mut result = Type::Bool;
            for (arg, ty) in args.iter().zip(&arg_types) {
                if !self.assignable(ty, &Type::Bool) {
                    self.mismatch(arg.offset, &Type::Bool, ty);
                    result = Type::Error;
                }
            }
            return result;
        }
        let mut result: Option<Type> = None;
        for overload in overloads.iter().filter(|o| o.member == is_member) {
            let mut params = Mapping::new();
            let declared: Vec<Type> =
                overload.args.iter().map(|ty| self.instantiated(ty, &mut params)).collect();
            let declared_result = self.instantiated(&overload.result, &mut params);
            if !self.assignable_list(&arg_types, &declared) {
                continue;
            }
            self.calls.entry(expr.id).or_default().push(overload);
            let this = self.substituted(&declared_result, false);
            result = Some(match result {
                None => this,
                Some(previous) if previous == this || previous == Type::Dyn => previous,
                Some(_) => Type::Dyn,
            });
        }
        result.unwrap_or_else(|| {
            let types: Vec<String> =
                arg_types.iter().map(|ty| self.substituted(ty, true).to_string()).collect();
            let signature = match types.split_first() {
                Some((target, rest)) if is_member => format!("{target}.({})", rest.join(", ")),
                _ => format!("({})", types.join(", ")),
            };
            let message = format!("found no matching overload for '{function}' applied to '{signature}'");
            self.report(expr.offset, message);
            Type::Error
        })
    }

    /// Replaces the type parameters of a declaration with fresh ones for this call.
    fn instantiated(&mut self, ty: &Type, params: &mut Mapping) -> Type {
        match ty {
            Type::Param(param) => {
                if let Some(fresh) = params.get(param) {
                    return fresh.clone();
                }
                let fresh = self.fresh_param();
                params.insert(param.clone(), fresh.clone());
                fresh
            }
            Type::List(elem) => Type::list(self.instantiated(elem, params)),
            Type::Map(key, value) => {
                let key = self.instantiated(key, params);
                Type::map(key, self.instantiated(value, params))
            }
            Type::Optional(inner) => Type::optional(self.instantiated(inner, params)),
            Type::Type(inner) => Type::Type(Box::new(self.instantiated(inner, params))),
            other => other.clone(),
        }
    }

    fn comprehension(&mut self, comprehension: &Comprehension) -> Type {
        let Comprehension { range, var, var2, accu, accu_init, condition, step, result } = comprehension;
        let range_type = self.expr(range);
        let accu_type = self.expr(accu_init);
        let range_type = self.substituted(&range_type, false);
        let (first, second) = match &range_type {
            Type::List(elem) if var2.is_some() => (Type::Int, (**elem).clone()),
            Type::List(elem) => ((**elem).clone(), Type::Error),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.assignable(&Type::Dyn, &range_type);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report(range.offset, message);
                (Type::Error, Type::Error)
            }
        };
        let depth = self.scopes.len();
        self.scopes.push((accu.clone(), accu_type.clone()));
        let outer = self.scopes.len();
        self.scopes.push((var.clone(), first));
        if let Some(var2) = var2 {
            self.scopes.push((var2.clone(), second));
        }
        self.assert(condition, &Type::Bool);
        self.assert(step, &accu_type);
        self.scopes.truncate(outer);
        let result = self.expr(result);
        self.scopes.truncate(depth);
        self.substituted(&result, false)
    }

    fn assert(&mut self, expr: &Expr, expected: &Type) {
        let found = self.expr(expr);
        if !self.assignable(expected, &found) {
            self.mismatch(expr.offset, expected, &found);
        }
    }

    fn assignable(&mut self, a: &Type, b: &Type) -> bool {
        let mut mapping = self.mapping.clone();
        let assignable = is_assignable(&mut mapping, a, b);
        if assignable {
            self.mapping = mapping;
        }
        assignable
    }

    fn assignable_list(&mut self, a: &[Type], b: &[Type]) -> bool {
        if a.len() != b.len() {
            return false;
        }
        let mut mapping = self.mapping.clone();
        let assignable = a.iter().zip(b).all(|(a, b)| is_assignable(&mut mapping, a, b));
        if assignable {
            self.mapping = mapping;
        }
        assignable
    }

    fn substituted(&self, ty: &Type, params_to_dyn: bool) -> Type {
        match ty {
            Type::Param(param) => match self.mapping.get(param) {
                Some(known) => self.substituted(known, params_to_dyn),
                None if params_to_dyn => Type::Dyn,
                None => ty.clone(),
            },
            Type::List(elem) => Type::list(self.substituted(elem, params_to_dyn)),
            Type::Map(key, value) => {
                Type::map(self.substituted(key, params_to_dyn), self.substituted(value, params_to_dyn))
            }
            Type::Optional(inner) => Type::optional(self.substituted(inner, params_to_dyn)),
            Type::Type(inner) => Type::Type(Box::new(self.substituted(inner, params_to_dyn))),
            other => other.clone(),
        }
    }
}

/// Returns `a.b.c` if the expression consists only of identifiers and field selections.
pub(crate) fn qualified_name(expr: &Expr) -> Option<String> {
    match &expr.kind {
        ExprKind::Ident(name) => Some(name.clone()),
        ExprKind::Select { operand, field, test_only: false } => {
            Some(format!("{}.{field}", qualified_name(operand)?))
        }
        _ => None,
    }
}

fn is_assignable(mapping: &mut Mapping, a: &Type, b: &Type) -> bool {
    if let Type::Param(param) = b {
        match substitution(mapping, a, param) {
            (true, _) => return true,
            (false, true) => return false,
            (false, false) => {}
        }
    }
    if let Type::Param(param) = a {
        return substitution(mapping, b, param).0;
    }
    match (a, b) {
        _ if a.is_dyn_or_error() || b.is_dyn_or_error() => true,
        (Type::Null, other) | (other, Type::Null) => matches!(
            other,
            Type::Null
                | Type::Object(_)
                | Type::Opaque(_)
                | Type::Optional(_)
                | Type::Duration
                | Type::Timestamp
        ),
        (Type::Type(_), Type::Type(_)) => true,
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
            is_assignable(mapping, a, b)
        }
        (Type::Map(ak, av), Type::Map(bk, bv)) => {
            is_assignable(mapping, ak, bk) && is_assignable(mapping, av, bv)
        }
        (a, b) => a == b,
    }
}

/// Whether `ty` can be substituted for the parameter, and whether the parameter was already bound.
fn substitution(mapping: &mut Mapping, ty: &Type, param: &Param) -> (bool, bool) {
    if matches!(ty, Type::Param(other) if other == param) {
        return (true, true);
    }
    if let Some(known) = mapping.get(param).cloned() {
        if *ty == known {
            return (true, true);
        }
        if is_assignable(mapping, ty, &known) {
            let general = most_general(ty.clone(), known);
            if !refers_to(mapping, param, &general) {
                mapping.insert(param.clone(), general);
            }
            return (true, true);
        }
        return (false, true);
    }
    if refers_to(mapping, param, ty) {
        return (false, false);
    }
    mapping.insert(param.clone(), ty.clone());
    (true, false)
}

fn refers_to(mapping: &Mapping, param: &Param, ty: &Type) -> bool {
    match ty {
        Type::Param(other) if other == param => true,
        Type::Param(other) => mapping.get(other).is_some_and(|ty| refers_to(mapping, param, ty)),
        Type::List(inner) | Type::Optional(inner) | Type::Type(inner) => refers_to(mapping, param, inner),
        Type::Map(key, value) => refers_to(mapping, param, key) || refers_to(mapping, param, value),
        _ => false,
    }
}

fn most_general(a: Type, b: Type) -> Type {
    if is_less_specific(&a, &b) { a } else { b }
}

fn is_less_specific(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Dyn | Type::Param(_), _) => true,
        (_, Type::Dyn | Type::Param(_)) => false,
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => is_less_specific(a, b),
        (Type::Map(ak, av), Type::Map(bk, bv)) => is_less_specific(ak, bk) && is_less_specific(av, bv),
        (Type::Type(_), Type::Type(_)) => true,
        (a, b) => a == b,
    }
}
