//! Pipelines, commands and the fields of values.

use super::{Result, Rv, Seen, State};
use crate::ast::{Cmd, Expr, ExprId, ExprKind, Names, Node, Pipe};
use crate::parse::{Ideal, Number};
use crate::set::MissingKey;
use crate::value::{Kind, Value};
use steersman_gostd::strconv;

impl<'a, H> State<'a, H> {
    /// Evaluates a pipeline and sets its variables to the result.
    pub(super) fn pipeline(&mut self, dot: &Rv, pipe: &'a Pipe) -> Result<Rv> {
        self.at(Node::Pipe(pipe));
        let Some((first, rest)) = pipe.cmds.split_first() else { return Ok(Rv::INVALID) };
        let mut value = self.command(dot, first, None)?.unwrapped();
        for cmd in rest {
            value = self.command(dot, cmd, Some(value))?.unwrapped();
        }
        for decl in &pipe.decls {
            self.bind(pipe.is_assign, decl, value.clone())?;
        }
        Ok(value)
    }

    /// Evaluates a command; `last`, the previous command's value, becomes its final argument.
    fn command(&mut self, dot: &Rv, cmd: &'a Cmd, last: Option<Rv>) -> Result<Rv> {
        let Some((&first, args)) = cmd.args.split_first() else { return Ok(Rv::INVALID) };
        let expr = self.unit.expr(first);
        match &expr.kind {
            ExprKind::Field(names) => {
                self.at(Node::Expr(expr));
                self.fields(dot, dot, expr, names, args, last)
            }
            ExprKind::Chain { node, fields } => self.chain(dot, expr, *node, fields, args, last),
            ExprKind::Function { name, func } => {
                self.at(Node::Expr(expr));
                self.function(dot, name, func, Node::Cmd(cmd), args, last)
            }
            ExprKind::Pipe(pipe) => {
                self.no_arguments(expr, args, &last)?;
                crate::stack::grow(|| self.pipeline(dot, self.unit.pipe(*pipe)))
            }
            ExprKind::Variable { name, slots, fields } => {
                self.variable(dot, expr, (name, slots, fields), args, last)
            }
            constant => {
                self.at(Node::Expr(expr));
                self.no_arguments(expr, args, &last)?;
                match constant {
                    ExprKind::Bool(b) => Ok(Rv::concrete(Value::Bool(*b))),
                    ExprKind::Dot => Ok(dot.clone()),
                    ExprKind::Number(number, text) => self.ideal(number, text),
                    ExprKind::String(text, _) => Ok(Rv::concrete(Value::String(text.clone()))),
                    _ => Err(self.fail("nil is not a command")),
                }
            }
        }
    }

    fn no_arguments(&self, expr: &Expr<H>, args: &[ExprId], last: &Option<Rv>) -> Result<()> {
        if args.is_empty() && last.is_none() {
            return Ok(());
        }
        let shown = self.unit.show(Node::Expr(expr));
        Err(self.fail(format_args!("can't give argument to non-function {shown}")))
    }

    /// Returns a number constant with its default type, for places that accept any type.
    pub(super) fn ideal(&self, number: &Number, text: &str) -> Result<Rv> {
        Ok(Rv::concrete(match number.ideal {
            Ideal::Complex(re, im) => Value::Complex(re, im),
            Ideal::Float(n) => Value::float(n),
            Ideal::Int(n) => Value::int(n),
            Ideal::Overflow => return Err(self.fail(format_args!("{text} overflows int"))),
        }))
    }

    /// Evaluates an expression; `None` if it is a constant.
    pub(super) fn operand(&mut self, dot: &Rv, expr: &'a Expr<H>) -> Result<Option<Rv>> {
        let value = match &expr.kind {
            ExprKind::Dot => dot.clone(),
            ExprKind::Field(names) => self.fields(dot, dot, expr, names, &[], None)?,
            ExprKind::Variable { name, slots, fields } => {
                self.variable(dot, expr, (name, slots, fields), &[], None)?
            }
            ExprKind::Pipe(pipe) => crate::stack::grow(|| self.pipeline(dot, self.unit.pipe(*pipe)))?,
            ExprKind::Function { name, func } => {
                self.function(dot, name, func, Node::Expr(expr), &[], None)?
            }
            ExprKind::Chain { node, fields } => self.chain(dot, expr, *node, fields, &[], None)?,
            ExprKind::Nil | ExprKind::Bool(_) | ExprKind::Number(..) | ExprKind::String(..) => {
                return Ok(None);
            }
        };
        Ok(Some(value))
    }

    fn chain(
        &mut self,
        dot: &Rv,
        expr: &'a Expr<H>,
        node: ExprId,
        names: &'a Names,
        args: &'a [ExprId],
        last: Option<Rv>,
    ) -> Result<Rv> {
        self.at(Node::Expr(expr));
        let head = self.unit.expr(node);
        self.at(Node::Expr(head));
        let receiver = self.operand(dot, head)?.unwrap_or(Rv::INVALID);
        self.fields(dot, &receiver, expr, names, args, last)
    }

    fn variable(
        &mut self,
        dot: &Rv,
        expr: &'a Expr<H>,
        (name, slots, fields): (&str, &[usize], &'a Names),
        args: &'a [ExprId],
        last: Option<Rv>,
    ) -> Result<Rv> {
        self.at(Node::Expr(expr));
        let slot = match slots {
            // Nearly every variable has exactly one slot, and it is set.
            [slot] => Some(*slot),
            _ => self.live_slot(slots),
        };
        let value = slot.and_then(|slot| self.vars.get(self.base + slot)?.clone());
        let Some(value) = value else {
            return Err(self.fail(format_args!("undefined variable: {name}")));
        };
        if fields.is_empty() {
            self.no_arguments(expr, args, &last)?;
            return Ok(value);
        }
        self.fields(dot, &value, expr, fields, args, last)
    }

    /// Evaluates `.X.Y.Z`. The arguments are for the last name, if it is a method.
    fn fields(
        &mut self,
        dot: &Rv,
        receiver: &Rv,
        expr: &'a Expr<H>,
        names: &'a Names,
        args: &'a [ExprId],
        last: Option<Rv>,
    ) -> Result<Rv> {
        let Some((name, before)) = names.split_last() else { return Ok(receiver.clone()) };
        let mut inner: Option<Rv> = None;
        for name in before {
            inner = Some(self.field(dot, inner.as_ref().unwrap_or(receiver), expr, name, &[], None)?);
        }
        self.field(dot, inner.as_ref().unwrap_or(receiver), expr, name, args, last)
    }

    fn field(
        &mut self,
        dot: &Rv,
        receiver: &Rv,
        expr: &'a Expr<H>,
        name: &'a str,
        args: &'a [ExprId],
        last: Option<Rv>,
    ) -> Result<Rv> {
        let has_args = !args.is_empty() || last.is_some();
        match &receiver.value {
            Value::Map(map) => {
                if let Some(method) = map.ty().methods.iter().find(|method| method.name == name) {
                    return self.method(dot, expr, name, method.signature, args, last, |args, budget| {
                        (method.call)(map, args, budget)
                    });
                }
                if has_args {
                    return Err(self.fail(format_args!("{name} is not a method but has arguments")));
                }
                let elem = map.ty().elem;
                let value = match map.get(name.as_bytes()) {
                    Some(value) => value,
                    None => match self.missing_key() {
                        MissingKey::Default => return Ok(Rv::INVALID),
                        MissingKey::Zero => elem.zero(),
                        MissingKey::Error => {
                            let key = strconv::quote(name.as_bytes());
                            return Err(self.fail(format_args!("map has no entry for key {key}")));
                        }
                    },
                };
                return Ok(Rv::element(value, elem));
            }
            Value::Nil if receiver.is_interface() => {
                return Err(self.fail(format_args!("nil pointer evaluating interface {{}}.{name}")));
            }
            Value::Nil => {
                if self.missing_key() == MissingKey::Error {
                    let key = strconv::quote(name.as_bytes());
                    return Err(self.fail(format_args!("nil data; no entry for key {key}")));
                }
                return Ok(Rv::INVALID);
            }
            Value::List(list) => {
                if let Some(method) = list.ty().methods.iter().find(|method| method.name == name) {
                    return self.method(dot, expr, name, method.signature, args, last, |args, budget| {
                        (method.call)(list, args, budget)
                    });
                }
            }
            Value::Object(object) => {
                if let Some(signature) = object.method(name) {
                    return self
                        .method(dot, expr, name, signature, args, last, |args, _| object.call(name, args));
                }
                if object.kind() == Kind::Ptr && !object.truth() && object.field(name).is_some() {
                    let ty = receiver.type_name();
                    return Err(self.fail(format_args!("nil pointer evaluating {ty}.{name}")));
                }
                if let Some(value) = object.field(name) {
                    if has_args {
                        let what = format_args!("{name} has arguments but cannot be invoked as function");
                        return Err(self.fail(what));
                    }
                    let in_place = object.kind() == Kind::Ptr || receiver.seen == Seen::InPlace;
                    return Ok(if in_place { Rv::in_place(value) } else { Rv::result(value) });
                }
                if object.fields().is_some_and(|fields| fields.iter().any(|(field, _)| *field == name)) {
                    let what =
                        format_args!("{name} is an unexported field of struct type {}", receiver.type_name());
                    return Err(self.fail(what));
                }
                if let Some(map @ Value::Map(_)) = object.underlying() {
                    let receiver = Rv { value: map, seen: receiver.seen };
                    return self.field(dot, &receiver, expr, name, args, last);
                }
            }
            _ => {}
        }
        let ty = receiver.type_name();
        Err(self.fail(format_args!("can't evaluate field {name} in type {ty}")))
    }
}
