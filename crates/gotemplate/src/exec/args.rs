//! Arguments: expressions evaluated and converted to the types that functions declare.

use super::{Result, Rv, State};
use crate::ast::{Expr, ExprId, ExprKind, Node};
use crate::func::Type;
use crate::value::{FloatType, IntType, Kind, ListType, MapType, UintType, Value};

impl<'a, H> State<'a, H> {
    /// Evaluates an argument for a parameter of this type.
    pub(super) fn typed_arg(&mut self, dot: &Rv, ty: Type, id: ExprId) -> Result<Value> {
        let expr = self.unit.expr(id);
        self.at(Node::Expr(expr));
        match self.operand(dot, expr)? {
            Some(value) => self.validate(value, ty),
            None => self.constant_arg(ty, expr),
        }
    }

    /// Evaluates an argument for a built-in function, which takes any type.
    pub(super) fn reflected_arg(&mut self, dot: &Rv, id: ExprId) -> Result<Rv> {
        let expr = self.unit.expr(id);
        self.at(Node::Expr(expr));
        match self.operand(dot, expr)? {
            Some(value) => Ok(value),
            None if matches!(expr.kind, ExprKind::Nil) => Ok(Rv::INVALID),
            None => self.constant_arg(Type::Any, expr).map(Rv::concrete),
        }
    }

    /// Checks that a value can be assigned to the type, and converts it.
    pub(super) fn validate(&self, value: Rv, ty: Type) -> Result<Value> {
        if !value.is_valid() {
            return if ty.can_be_nil() {
                Ok(ty.zero())
            } else {
                Err(self.fail(format_args!("invalid value; expected {}", ty.name())))
            };
        }
        if ty == Type::Any {
            return Ok(value.value);
        }
        assign(value.value, ty).map_err(|value| {
            let got = if matches!(value, Value::Nil) { "interface {}" } else { value.type_str() };
            self.fail(format_args!("wrong type for value; expected {}; got {got}", ty.name()))
        })
    }

    #[expect(clippy::cast_possible_truncation, reason = "Go's conversions of constants truncate")]
    fn constant_arg(&self, ty: Type, expr: &Expr<H>) -> Result<Value> {
        let shown = || self.unit.show(Node::Expr(expr));
        let expected = |what: &str| Err(self.fail(format_args!("expected {what}; found {}", shown())));
        if let ExprKind::Nil = expr.kind {
            return if ty.can_be_nil() {
                Ok(ty.zero())
            } else {
                Err(self.fail(format_args!("cannot assign nil to {}", ty.name())))
            };
        }
        let number = match &expr.kind {
            ExprKind::Number(number, _) => Some(number),
            _ => None,
        };
        match ty {
            Type::Any => match &expr.kind {
                ExprKind::Bool(b) => Ok(Value::Bool(*b)),
                ExprKind::String(text, _) => Ok(Value::String(text.clone())),
                ExprKind::Number(number, text) => self.ideal(number, text).map(|value| value.value),
                _ => Ok(Value::Nil),
            },
            Type::Bool => match expr.kind {
                ExprKind::Bool(b) => Ok(Value::Bool(b)),
                _ => expected("bool"),
            },
            Type::String => match &expr.kind {
                ExprKind::String(text, _) => Ok(Value::String(text.clone())),
                _ => expected("string"),
            },
            Type::Int | Type::Int8 | Type::Int16 | Type::Int32 | Type::Int64 => {
                let Some(n) = number.and_then(|number| number.int) else { return expected("integer") };
                Ok(match ty {
                    Type::Int8 => Value::Int(i64::from(n as i8), IntType::Int8),
                    Type::Int16 => Value::Int(i64::from(n as i16), IntType::Int16),
                    Type::Int32 => Value::Int(i64::from(n as i32), IntType::Int32),
                    Type::Int64 => Value::int64(n),
                    _ => Value::int(n),
                })
            }
            Type::Uint | Type::Uint8 | Type::Uint16 | Type::Uint32 | Type::Uint64 => {
                let Some(n) = number.and_then(|number| number.uint) else {
                    return expected("unsigned integer");
                };
                Ok(match ty {
                    Type::Uint8 => Value::Uint(u64::from(n as u8), UintType::Uint8),
                    Type::Uint16 => Value::Uint(u64::from(n as u16), UintType::Uint16),
                    Type::Uint32 => Value::Uint(u64::from(n as u32), UintType::Uint32),
                    Type::Uint64 => Value::Uint(n, UintType::Uint64),
                    _ => Value::Uint(n, UintType::Uint),
                })
            }
            Type::Float32 | Type::Float64 => {
                let Some(n) = number.and_then(|number| number.float) else { return expected("float") };
                Ok(match ty {
                    Type::Float32 => Value::Float(f64::from(n as f32), FloatType::Float32),
                    _ => Value::float(n),
                })
            }
            _ => Err(self.fail(format_args!("can't handle {} for arg of type {}", shown(), ty.name()))),
        }
    }
}

/// Converts a value to `ty` if Go lets it be assigned; otherwise returns the value as the error.
fn assign(value: Value, ty: Type) -> std::result::Result<Value, Value> {
    let fits = match (&value, ty) {
        (Value::List(list), Type::ListAny) if list.ty().elem == Type::Any => {
            return Ok(Value::List(list.converted(ListType::ANY)));
        }
        (Value::List(list), Type::ListString) if list.ty().elem == Type::String => {
            return Ok(Value::List(list.converted(ListType::STRING)));
        }
        (Value::List(list), Type::ListInt) if list.ty().elem == Type::Int => {
            return Ok(Value::List(list.converted(ListType::INT)));
        }
        (Value::Map(map), Type::MapAny) if map.ty().elem == Type::Any => {
            return Ok(Value::Map(map.converted(MapType::ANY)));
        }
        (Value::Map(map), Type::MapString) if map.ty().elem == Type::String => {
            return Ok(Value::Map(map.converted(MapType::STRING)));
        }
        (Value::Bool(_), Type::Bool) | (Value::String(_), Type::String) | (Value::Bytes(_), Type::Bytes) => {
            true
        }
        (Value::Int(_, have), _) => matches!(
            (have, ty),
            (IntType::Int, Type::Int)
                | (IntType::Int8, Type::Int8)
                | (IntType::Int16, Type::Int16)
                | (IntType::Int32, Type::Int32)
                | (IntType::Int64, Type::Int64)
        ),
        (Value::Uint(_, have), _) => matches!(
            (have, ty),
            (UintType::Uint, Type::Uint)
                | (UintType::Uint8, Type::Uint8)
                | (UintType::Uint16, Type::Uint16)
                | (UintType::Uint32, Type::Uint32)
                | (UintType::Uint64, Type::Uint64)
        ),
        (Value::Float(_, have), _) => {
            matches!((have, ty), (FloatType::Float32, Type::Float32) | (FloatType::Float64, Type::Float64))
        }
        (other, Type::Named(name)) => {
            let have = other.type_str();
            // A pointer is also accepted where its pointee's type is wanted.
            have == name || (other.kind() == Kind::Ptr && have.strip_prefix('*') == Some(name))
        }
        _ => false,
    };
    if fits { Ok(value) } else { Err(value) }
}
