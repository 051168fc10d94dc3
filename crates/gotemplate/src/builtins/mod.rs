//! Built-in functions, which every template has.

mod compare;
mod escape;
mod index;

use crate::budget::Budget;
use crate::exec::Rv;
use crate::fmt;
use crate::func::{CallError, Signature, Type};
use crate::str::Str;
use crate::value::Value;
pub use compare::{deep_equal, deep_equal_within, equal, less};

/// Go's built-in template functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Builtin {
    And,
    Call,
    Eq,
    Ge,
    Gt,
    Html,
    Index,
    Js,
    Le,
    Len,
    Lt,
    Ne,
    Not,
    Or,
    Print,
    Printf,
    Println,
    Slice,
    Urlquery,
}

const ALL: [(&str, Builtin); 19] = [
    ("and", Builtin::And),
    ("call", Builtin::Call),
    ("eq", Builtin::Eq),
    ("ge", Builtin::Ge),
    ("gt", Builtin::Gt),
    ("html", Builtin::Html),
    ("index", Builtin::Index),
    ("js", Builtin::Js),
    ("le", Builtin::Le),
    ("len", Builtin::Len),
    ("lt", Builtin::Lt),
    ("ne", Builtin::Ne),
    ("not", Builtin::Not),
    ("or", Builtin::Or),
    ("print", Builtin::Print),
    ("printf", Builtin::Printf),
    ("println", Builtin::Println),
    ("slice", Builtin::Slice),
    ("urlquery", Builtin::Urlquery),
];

impl Builtin {
    pub(crate) fn find(name: &str) -> Option<Self> {
        ALL.iter().find(|(known, _)| *known == name).map(|(_, builtin)| *builtin)
    }

    pub(crate) fn name(self) -> &'static str {
        ALL.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    /// Returns the minimum number of arguments, and whether it is variadic.
    pub(crate) fn arity(self) -> (usize, bool) {
        match self {
            Self::And | Self::Call | Self::Eq | Self::Index | Self::Or | Self::Slice | Self::Printf => {
                (1, true)
            }
            Self::Ge | Self::Gt | Self::Le | Self::Lt | Self::Ne => (2, false),
            Self::Len | Self::Not => (1, false),
            Self::Html | Self::Js | Self::Print | Self::Println | Self::Urlquery => (0, true),
        }
    }

    /// Returns the signature of a function that prints its arguments; `None` for the others.
    pub(crate) fn printing(self) -> Option<Signature> {
        match self {
            Self::Printf => Some(Signature { params: &[Type::String], variadic: Some(Type::Any) }),
            Self::Print | Self::Println | Self::Html | Self::Js | Self::Urlquery => {
                Some(Signature { params: &[], variadic: Some(Type::Any) })
            }
            _ => None,
        }
    }
}

/// Calls a function that prints its arguments, and charges for the output.
pub(crate) fn print(builtin: Builtin, budget: &Budget, args: &[Value]) -> Result<Value, CallError> {
    let limit = budget.remaining_memory();
    let printed = match (builtin, args) {
        (Builtin::Printf, [Value::String(format), args @ ..]) => fmt::sprintf_within(limit, format, args),
        (Builtin::Println, _) => fmt::sprintln_within(limit, args),
        (Builtin::Html | Builtin::Js | Builtin::Urlquery, _) => fmt::sprint_indirect(limit, args),
        _ => fmt::sprint_within(limit, args),
    };
    let text = budget.printed(printed)?;
    let escape: fn(Str, usize) -> Option<Str> = match builtin {
        Builtin::Html => escape::html,
        Builtin::Js => escape::js,
        Builtin::Urlquery => escape::url_query,
        _ => {
            budget.charge_memory(text.len())?;
            return Ok(Value::String(text));
        }
    };
    let text = escape(text, limit).ok_or_else(|| CallError::oversized("escaped text"));
    let text = budget.printed(text)?;
    budget.charge_memory(text.len())?;
    Ok(Value::String(text))
}

/// Bytes compared for a cost of 1.
const BYTES_PER_COST: usize = 512;

/// Calls a function that does not print. It needs at least its minimum number of arguments.
///
/// `callee` is the function's name in errors of `call`.
pub(crate) fn call(builtin: Builtin, callee: &str, budget: &Budget, args: &[Rv]) -> Result<Rv, CallError> {
    let Some((first, rest)) = args.split_first() else { return Ok(Rv::INVALID) };
    let second = rest.first().unwrap_or(&Rv::INVALID);
    if let Value::String(text) = &first.value
        && text.len() >= BYTES_PER_COST
        && matches!(
            builtin,
            Builtin::Eq | Builtin::Ne | Builtin::Lt | Builtin::Le | Builtin::Gt | Builtin::Ge
        )
    {
        budget.charge_cost(args.len() * (text.len() / BYTES_PER_COST))?;
    }
    let truth = match builtin {
        Builtin::Call => return index::call(callee, first, rest),
        Builtin::Index => return index::index(first, rest),
        Builtin::Slice => return index::slice(budget, first, rest),
        Builtin::Len => return index::length(first).map(Rv::concrete),
        Builtin::Not => !first.value.truth(),
        Builtin::Eq => compare::any_equal(&first.value, rest)?,
        Builtin::Ne => !equal(&first.value, &second.value)?,
        Builtin::Lt => less(&first.value, &second.value)?,
        Builtin::Le => less(&first.value, &second.value)? || equal(&first.value, &second.value)?,
        Builtin::Gt => !(less(&first.value, &second.value)? || equal(&first.value, &second.value)?),
        Builtin::Ge => !less(&first.value, &second.value)?,
        _ => return Ok(Rv::INVALID),
    };
    Ok(Rv::concrete(Value::Bool(truth)))
}

/// Go's `reflect.Value.String`.
pub(crate) fn value_string(value: &Rv) -> String {
    match value.value.underlying().as_ref() {
        Value::String(text) => text.to_string(),
        Value::Nil => "<invalid Value>".into(),
        _ => format!("<{} Value>", value.value.type_str()),
    }
}
