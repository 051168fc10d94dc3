//! Calls of functions and methods.

use super::{Result, Rv, State};
use crate::ast::{Expr, ExprId, ExprKind, FuncRef, Node};
use crate::budget::Budget;
use crate::builtins::{self, Builtin};
use crate::func::{Call, CallError, CallFailure, Func, Signature, Type};
use crate::set::ExecError;
use crate::value::Value;

/// Longest error message that is wrapped further: endless recursion fails thousands of calls deep.
const MAX_MESSAGE: usize = 256 << 10;
/// Bytes of string arguments that a function reads for a cost of 1.
const BYTES_PER_COST: usize = 64;

/// Returns the cost of reading string arguments.
fn reading_cost(args: &[Value]) -> usize {
    let size = |arg: &Value| match arg {
        Value::String(text) | Value::Bytes(text) => text.len(),
        _ => 0,
    };
    args.iter().map(size).sum::<usize>() / BYTES_PER_COST
}

impl<'a, H> State<'a, H> {
    pub(super) fn function(
        &mut self,
        dot: &Rv,
        name: &'a str,
        func: &'a FuncRef<H>,
        node: Node<'a, H>,
        args: &'a [ExprId],
        last: Option<Rv>,
    ) -> Result<Rv> {
        self.step()?;
        match func {
            FuncRef::Builtin(builtin) => self.builtin(dot, *builtin, node, args, last),
            FuncRef::Host(func) => self.host_function(dot, name, func, node, args, last),
        }
    }

    fn host_function(
        &mut self,
        dot: &Rv,
        name: &str,
        func: &Func<H>,
        node: Node<'a, H>,
        args: &'a [ExprId],
        last: Option<Rv>,
    ) -> Result<Rv> {
        let start = self.push_args(dot, name, func.signature, args, last)?;
        let args = self.args.get(start..).unwrap_or_default();
        self.charge_cost(reading_cost(args))?;
        let args = self.args.get(start..).unwrap_or_default();
        let result = (func.call)(&mut Call { args, host: self.host, set: self.set, budget: self.budget });
        self.args.truncate(start);
        self.finish(name, node, result)
    }

    #[expect(clippy::too_many_arguments, reason = "they are what a call has")]
    pub(super) fn method(
        &mut self,
        dot: &Rv,
        expr: &'a Expr<H>,
        name: &str,
        signature: Signature,
        args: &'a [ExprId],
        last: Option<Rv>,
        call: impl FnOnce(&[Value], &Budget) -> std::result::Result<Value, CallError>,
    ) -> Result<Rv> {
        self.step()?;
        let start = self.push_args(dot, name, signature, args, last)?;
        let result = call(self.args.get(start..).unwrap_or_default(), self.budget);
        self.args.truncate(start);
        self.finish(name, Node::Expr(expr), result)
    }

    fn finish(
        &mut self,
        name: &str,
        node: Node<'a, H>,
        result: std::result::Result<Value, CallError>,
    ) -> Result<Rv> {
        let failed = match result {
            Ok(value) => return Ok(Rv::result(value)),
            Err(failed) => failed,
        };
        self.at(node);
        let CallFailure { message, inner, exceeded } = failed.into_parts();
        let mut error = match inner {
            // Wrapped further, the message would grow at every level of the recursion.
            Some(mut inner) if message.len() > MAX_MESSAGE => {
                inner.message = message;
                inner
            }
            Some(inner) => {
                let mut error = self.fail(format_args!("error calling {name}: {message}"));
                error.frames = inner.frames;
                error.exceeded = inner.exceeded;
                error
            }
            None => {
                let mut error = self.fail(format_args!("error calling {name}: {message}"));
                error.exceeded = exceeded;
                return Err(error);
            }
        };
        self.add_frame(&mut error);
        Err(error)
    }

    /// Builds the error of a failed print at the current node.
    pub(super) fn call_error(&self, failed: CallError) -> Box<ExecError> {
        let CallFailure { message, exceeded, .. } = failed.into_parts();
        let mut error = self.fail(message);
        error.exceeded = exceeded;
        error
    }

    fn check_count(&self, name: &str, fixed: usize, variadic: bool, args: usize, last: bool) -> Result<()> {
        let given = args + usize::from(last);
        if variadic && given < fixed {
            let what = format_args!("wrong number of args for {name}: want at least {fixed} got {args}");
            return Err(self.fail(what));
        }
        if !variadic && given != fixed {
            return Err(self.fail(format_args!("wrong number of args for {name}: want {fixed} got {given}")));
        }
        Ok(())
    }

    /// Evaluates the arguments onto the stack and returns the index of the first.
    fn push_args(
        &mut self,
        dot: &Rv,
        name: &str,
        signature: Signature,
        args: &'a [ExprId],
        last: Option<Rv>,
    ) -> Result<usize> {
        let Signature { params, variadic } = signature;
        self.check_count(name, params.len(), variadic.is_some(), args.len(), last.is_some())?;
        let param = |i: usize| params.get(i).copied().or(variadic).unwrap_or(Type::Any);
        let start = self.args.len();
        for (i, arg) in args.iter().enumerate() {
            let value = self.typed_arg(dot, param(i), *arg)?;
            self.args.push(value);
        }
        if let Some(last) = last {
            let value = self.validate(last, param(args.len()))?;
            self.args.push(value);
        }
        Ok(start)
    }

    fn builtin(
        &mut self,
        dot: &Rv,
        builtin: Builtin,
        node: Node<'a, H>,
        args: &'a [ExprId],
        last: Option<Rv>,
    ) -> Result<Rv> {
        let name = builtin.name();
        if let Some(signature) = builtin.printing() {
            let start = self.push_args(dot, name, signature, args, last)?;
            let result = builtins::print(builtin, self.budget, self.args.get(start..).unwrap_or_default());
            self.args.truncate(start);
            return self.finish(name, node, result);
        }
        let (fixed, variadic) = builtin.arity();
        self.check_count(name, fixed, variadic, args.len(), last.is_some())?;
        if let Builtin::And | Builtin::Or = builtin {
            return self.short_circuit(dot, builtin == Builtin::Or, args, last);
        }
        let callee = match (builtin, args.first(), &last) {
            (Builtin::Call, Some(arg), _) => self.unit.show(Node::Expr(self.unit.expr(*arg))),
            (Builtin::Call, None, Some(last)) => builtins::value_string(last),
            _ => String::new(),
        };
        let start = self.reflected.len();
        for arg in args {
            let value = self.reflected_arg(dot, *arg)?;
            self.reflected.push(value);
        }
        self.reflected.extend(last);
        let result =
            builtins::call(builtin, &callee, self.budget, self.reflected.get(start..).unwrap_or_default());
        self.reflected.truncate(start);
        match result {
            Ok(value) => Ok(value),
            Err(error) => self.finish(name, node, Err(error)),
        }
    }

    /// Evaluates `and` or `or`, which stop at the first argument that decides the result.
    fn short_circuit(&mut self, dot: &Rv, until: bool, args: &'a [ExprId], last: Option<Rv>) -> Result<Rv> {
        let mut value = Rv::INVALID;
        for (i, arg) in args.iter().enumerate() {
            value = self.reflected_arg(dot, *arg)?;
            if value.value.truth() == until {
                if self.template.conditional {
                    for skipped in args.iter().skip(i + 1) {
                        self.forget(*skipped);
                    }
                }
                return Ok(value);
            }
        }
        Ok(last.unwrap_or(value))
    }

    /// Unsets the variables that a skipped expression declares.
    fn forget(&mut self, id: ExprId) {
        match &self.unit.expr(id).kind {
            ExprKind::Chain { node, .. } => self.forget(*node),
            ExprKind::Pipe(pipe) => {
                let pipe = self.unit.pipe(*pipe);
                for decl in pipe.decls.iter().filter(|_| !pipe.is_assign) {
                    decl.slots.iter().for_each(|slot| self.unset_slot(*slot));
                }
                for arg in pipe.cmds.iter().flat_map(|cmd| &cmd.args) {
                    crate::stack::grow(|| self.forget(*arg));
                }
            }
            _ => {}
        }
    }
}
