//! Comparison functions.

use super::BYTES_PER_COST;
use crate::budget::{Budget, Exceeded, Limits};
use crate::exec::Rv;
use crate::fmt;
use crate::func::CallError;
use crate::value::{Kind, Value};
use std::collections::HashSet;
use std::rc::Rc;

/// Basic kinds by which Go's templates compare values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Basic {
    Bool,
    Complex,
    Int,
    Float,
    String,
    Uint,
    /// Any other kind, which has neither an order nor simple equality.
    Other,
}

fn basic(value: &Value) -> Basic {
    match value.kind() {
        Kind::Bool => Basic::Bool,
        Kind::Int(_) => Basic::Int,
        Kind::Uint(_) => Basic::Uint,
        Kind::Float(_) => Basic::Float,
        Kind::Complex128 => Basic::Complex,
        Kind::String => Basic::String,
        _ => Basic::Other,
    }
}

fn incompatible(a: &Value, b: &Value) -> CallError {
    CallError::new(format!("incompatible types for comparison: {} and {}", a.type_str(), b.type_str()))
}

/// The template function `eq` with two arguments.
///
/// # Errors
/// If the two are not comparable, with Go's message.
pub fn equal(a: &Value, b: &Value) -> Result<bool, CallError> {
    if let (Value::String(a), Value::String(b)) = (a, b) {
        return Ok(a == b);
    }
    let kind = basic(a);
    if kind != basic(b) {
        let (left, right) = (a.underlying(), b.underlying());
        return match (left.as_ref(), right.as_ref()) {
            (Value::Int(int, _), Value::Uint(uint, _)) | (Value::Uint(uint, _), Value::Int(int, _)) => {
                Ok(u64::try_from(*int).is_ok_and(|int| int == *uint))
            }
            (Value::Nil, _) | (_, Value::Nil) => Ok(false),
            _ => Err(incompatible(a, b)),
        };
    }
    if kind != Basic::Other {
        let (a, b) = (a.underlying(), b.underlying());
        return Ok(match (a.as_ref(), b.as_ref()) {
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a, _), Value::Int(b, _)) => a == b,
            (Value::Uint(a, _), Value::Uint(b, _)) => a == b,
            (Value::Float(a, _), Value::Float(b, _)) => a == b,
            (Value::Complex(a, b), Value::Complex(c, d)) => a == c && b == d,
            (Value::String(a), Value::String(b)) => a == b,
            _ => false,
        });
    }
    equal_others(a, b)
}

fn equal_others(a: &Value, b: &Value) -> Result<bool, CallError> {
    let (a_kind, b_kind) = (a.kind(), b.kind());
    if a_kind != b_kind && a_kind != Kind::Invalid && b_kind != Kind::Invalid {
        return Err(CallError::new(format!(
            "non-comparable types {}: {}, {}: {}",
            fmt::reflected(a, 's'),
            a.type_str(),
            b.type_str(),
            fmt::reflected(b, 'v'),
        )));
    }
    if is_nil(a) || is_nil(b) {
        return Ok(is_nil(a) == is_nil(b));
    }
    match (a, b) {
        (Value::Object(a), Value::Object(b)) if !matches!(b_kind, Kind::Map | Kind::Slice | Kind::Func) => {
            Ok(Rc::ptr_eq(a, b) || (b_kind == Kind::Struct && same_struct(a.as_ref(), b.as_ref())))
        }
        _ => Err(CallError::new(format!("non-comparable type {}: {}", fmt::reflected(b, 's'), b.type_str()))),
    }
}

fn same_struct(a: &dyn crate::value::Object, b: &dyn crate::value::Object) -> bool {
    let (Some(left), Some(right)) = (a.fields(), b.fields()) else { return false };
    a.type_name() == b.type_name()
        && left.len() == right.len()
        && left.iter().zip(&right).all(|((_, a), (_, b))| deep_equal(a, b))
}

fn is_nil(value: &Value) -> bool {
    match value {
        Value::Nil => true,
        Value::List(list) => list.is_nil(),
        Value::Map(map) => map.is_nil(),
        Value::Object(object) => object.kind() == Kind::Ptr && !object.truth(),
        _ => false,
    }
}

/// The template function `eq`: whether `first` equals any of the others.
pub(super) fn any_equal(first: &Value, rest: &[Rv]) -> Result<bool, CallError> {
    if rest.is_empty() {
        return Err(CallError::new("missing argument for comparison"));
    }
    for other in rest {
        if equal(first, &other.value)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The template function `lt`.
///
/// # Errors
/// If the two have no order, with Go's message.
pub fn less(a: &Value, b: &Value) -> Result<bool, CallError> {
    const BAD_TYPE: &str = "invalid type for comparison";
    if basic(a) == Basic::Other || basic(b) == Basic::Other {
        return Err(CallError::new(BAD_TYPE));
    }
    let (left, right) = (a.underlying(), b.underlying());
    Ok(match (left.as_ref(), right.as_ref()) {
        (Value::Int(a, _), Value::Int(b, _)) => a < b,
        (Value::Uint(a, _), Value::Uint(b, _)) => a < b,
        (Value::Float(a, _), Value::Float(b, _)) => a < b,
        (Value::String(a), Value::String(b)) => a < b,
        (Value::Int(a, _), Value::Uint(b, _)) => u64::try_from(*a).map_or(true, |a| a < *b),
        (Value::Uint(a, _), Value::Int(b, _)) => u64::try_from(*b).is_ok_and(|b| *a < b),
        (Value::Bool(_), Value::Bool(_)) | (Value::Complex(..), Value::Complex(..)) => {
            return Err(CallError::new(BAD_TYPE));
        }
        _ => return Err(incompatible(a, b)),
    })
}

/// Go's `reflect.DeepEqual`: same types, same contents. NaN differs from itself; a nil map differs from an empty one.
pub fn deep_equal(a: &Value, b: &Value) -> bool {
    let unlimited = Limits { cost: usize::MAX, ..Limits::default() };
    deep_equal_within(&Budget::new(unlimited), a, b).unwrap_or(false)
}

/// As [`deep_equal`], charging for its cost.
///
/// # Errors
/// If the budget is exhausted or interrupted.
pub fn deep_equal_within(budget: &Budget, a: &Value, b: &Value) -> Result<bool, Exceeded> {
    Comparison { visited: HashSet::new(), budget }.equal(a, b)
}

struct Comparison<'a> {
    /// Address pairs of lists and maps already found equal, or being compared.
    visited: HashSet<(usize, usize)>,
    budget: &'a Budget,
}

impl Comparison<'_> {
    fn equal(&mut self, a: &Value, b: &Value) -> Result<bool, Exceeded> {
        Ok(match (a, b) {
            (Value::Nil, Value::Nil) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a, x), Value::Int(b, y)) => x == y && a == b,
            (Value::Uint(a, x), Value::Uint(b, y)) => x == y && a == b,
            (Value::Float(a, x), Value::Float(b, y)) => x == y && a == b,
            (Value::Complex(a, b), Value::Complex(c, d)) => a == c && b == d,
            (Value::String(a), Value::String(b)) | (Value::Bytes(a), Value::Bytes(b)) => {
                if a.len() == b.len() {
                    self.budget.charge_cost(a.len() / BYTES_PER_COST)?;
                }
                a == b
            }
            (Value::List(a), Value::List(b)) => {
                let alike = a.ty().name == b.ty().name && a.is_nil() == b.is_nil() && a.len() == b.len();
                if !alike || a.ptr_eq(b) || !self.visited.insert((a.address(), b.address())) {
                    return Ok(alike);
                }
                return self.all(a.iter().zip(b.iter()));
            }
            (Value::Map(a), Value::Map(b)) => {
                let alike = a.ty().name == b.ty().name && a.is_nil() == b.is_nil() && a.len() == b.len();
                if !alike || a.ptr_eq(b) || !self.visited.insert((a.address(), b.address())) {
                    return Ok(alike);
                }
                let (a, b) = (a.borrow(), b.borrow());
                a.keys().eq(b.keys()) && self.all(a.values().zip(b.values()))?
            }
            (Value::Object(a), Value::Object(b)) => {
                if Rc::ptr_eq(a, b) || a.type_name() != b.type_name() {
                    return Ok(Rc::ptr_eq(a, b));
                }
                match (a.underlying(), b.underlying()) {
                    (Some(a), Some(b)) => self.equal(&a, &b)?,
                    _ => match (a.fields(), b.fields()) {
                        (Some(left), Some(right)) => {
                            let values = left.iter().zip(&right).map(|((_, a), (_, b))| (a, b));
                            left.len() == right.len() && self.all(values)?
                        }
                        _ => a.display() == b.display(),
                    },
                }
            }
            _ => false,
        })
    }

    /// Whether all pairs are equal, compared one level deeper.
    fn all<'v>(&mut self, pairs: impl Iterator<Item = (&'v Value, &'v Value)>) -> Result<bool, Exceeded> {
        for (a, b) in pairs {
            self.budget.charge_cost(1)?;
            if !crate::stack::grow(|| self.equal(a, b))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
