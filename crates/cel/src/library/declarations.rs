//! Function declarations.

use std::collections::HashMap;

use crate::ast::op;
use crate::types::{Param, Type};
use crate::value::{EvalError, Evaluated, Value};

/// One signature of a function, with its implementation.
#[derive(Debug)]
pub(crate) struct Overload {
    pub(crate) member: bool,
    pub(crate) args: Vec<Type>,
    pub(crate) result: Type,
    /// Whether dispatch verifies the arguments against `args`.
    pub(crate) guarded: bool,
    /// The implementation.
    pub(crate) call: fn(&[Value]) -> Evaluated,
}

/// Type parameters used in declarations.
pub(crate) const A: Type = Type::Param(Param::Declared("A"));
pub(crate) const B: Type = Type::Param(Param::Declared("B"));

/// A registry of functions under construction.
#[derive(Default)]
pub(crate) struct Library(HashMap<&'static str, Vec<Overload>>);

impl Library {
    /// Declares `name(args)`.
    pub(crate) fn global(
        &mut self,
        name: &'static str,
        args: impl Into<Vec<Type>>,
        result: Type,
        call: fn(&[Value]) -> Evaluated,
    ) {
        let overload = Overload { member: false, args: args.into(), result, guarded: true, call };
        self.0.entry(name).or_default().push(overload);
    }

    /// Declares `args[0].name(args[1..])`.
    pub(crate) fn member(
        &mut self,
        name: &'static str,
        args: impl Into<Vec<Type>>,
        result: Type,
        call: fn(&[Value]) -> Evaluated,
    ) {
        let overload = Overload { member: true, args: args.into(), result, guarded: true, call };
        self.0.entry(name).or_default().push(overload);
    }

    /// Makes a function accept arguments of any type at runtime, once its call was type-checked.
    pub(crate) fn unguarded(&mut self, name: &'static str) {
        self.0.entry(name).or_default().iter_mut().for_each(|overload| overload.guarded = false);
    }
}

impl Library {
    /// Returns the functions.
    /// Arithmetic overloads are sorted, as the first match decides the type of a `dyn` operand.
    pub(super) fn in_order(mut self) -> HashMap<&'static str, Vec<Overload>> {
        for name in [op::ADD, op::SUBTRACT, op::MULTIPLY, op::DIVIDE, op::MODULO, op::NEGATE] {
            let rank = |overload: &Overload| match overload.args.first() {
                Some(Type::Bytes) => 0,
                Some(Type::Double) => 1,
                Some(Type::Duration) => 2,
                Some(Type::Timestamp) => 3,
                Some(Type::Int) => 4,
                Some(Type::List(_)) => 5,
                Some(Type::String) => 6,
                _ => 7,
            };
            if let Some(overloads) = self.0.get_mut(name) {
                overloads.sort_by_key(rank);
            }
        }
        self.0
    }
}

/// The implementation of a function.
pub(crate) type Call = fn(&[Value]) -> Evaluated;

/// The error for arguments an overload does not accept; dispatch prevents this.
pub(crate) fn unfit() -> Evaluated {
    Err(EvalError::NoSuchOverload(None))
}
