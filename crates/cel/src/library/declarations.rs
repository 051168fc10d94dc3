//! How functions are declared.

use std::collections::HashMap;

use crate::ast::op;
use crate::types::{Param, Type};
use crate::value::{EvalError, Evaluated, Value};

/// One way to call a function.
#[derive(Debug)]
pub(crate) struct Overload {
    pub(crate) member: bool,
    pub(crate) args: Vec<Type>,
    pub(crate) result: Type,
    /// Whether it is called on nothing but arguments that fit `args`.
    pub(crate) guarded: bool,
    /// What it does.
    pub(crate) call: fn(&[Value]) -> Evaluated,
}

/// Type parameters of declarations.
pub(crate) const A: Type = Type::Param(Param::Declared("A"));
pub(crate) const B: Type = Type::Param(Param::Declared("B"));

/// Functions in the making.
#[derive(Default)]
pub(crate) struct Library(HashMap<&'static str, Vec<Overload>>);

impl Library {
    /// `name(args)`.
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

    /// `args[0].name(args[1..])`.
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

    /// Has a function take arguments of any type, once its call was checked.
    pub(crate) fn unguarded(&mut self, name: &'static str) {
        self.0.entry(name).or_default().iter_mut().for_each(|overload| overload.guarded = false);
    }
}

impl Library {
    /// The functions, those of arithmetic with their overloads in the order that decides what an unknown type becomes.
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

/// What a function does with its arguments.
pub(crate) type Call = fn(&[Value]) -> Evaluated;

/// An overload was called on what it does not take; dispatch keeps that from happening.
pub(crate) fn unfit() -> Evaluated {
    Err(EvalError::NoSuchOverload(None))
}
