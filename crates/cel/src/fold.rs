//! Constant folding.

use std::collections::HashMap;

use crate::Program;
use crate::ast::{Expr, ExprKind, op};
use crate::check::qualified_name;
use crate::dispatch::dispatch;
use crate::eval::literal;
use crate::library::strings::pattern;
use crate::types::Type;
use crate::value::{EvalError, Value, equal};

/// Evaluates constant subexpressions other than literals: lists, maps and conversions of constants.
/// Fails if a conversion fails.
pub(crate) fn constants(program: &Program) -> Result<HashMap<usize, Value>, EvalError> {
    let mut folder = Folder { program, constants: HashMap::new() };
    folder.fold(&program.expr)?;
    Ok(folder.constants)
}

struct Folder<'a> {
    program: &'a Program,
    constants: HashMap<usize, Value>,
}

impl Folder<'_> {
    fn fold(&mut self, expr: &Expr) -> Result<Option<Value>, EvalError> {
        let value = match &expr.kind {
            ExprKind::Literal(value) => return Ok(Some(literal(value))),
            ExprKind::Ident(name) => match self.program.environment.variable(name) {
                Some(Type::Type(_)) if matches!(self.program.checked.of(expr), Type::Type(_)) => {
                    return Ok(Some(Value::Type(name.as_str().into())));
                }
                _ => None,
            },
            ExprKind::Select { operand, .. } => {
                let name =
                    qualified_name(expr).filter(|_| matches!(self.program.checked.of(expr), Type::Type(_)));
                if let Some(name) = name
                    && matches!(self.program.environment.variable(&name), Some(Type::Type(_)))
                {
                    return Ok(Some(Value::Type(name.into())));
                }
                self.fold(operand)?;
                None
            }
            ExprKind::Call { function, target, args } => {
                if let Some(target) = target {
                    self.fold(target)?;
                }
                let args = args.iter().map(|arg| self.fold(arg)).collect::<Result<Vec<_>, _>>()?;
                if let ("find" | "findAll" | "matches", Some(_), [Some(Value::String(text)), ..])
                | ("matches", None, [_, Some(Value::String(text))]) =
                    (function.as_str(), target, args.as_slice())
                {
                    pattern(text)?;
                }
                match (target, args.as_slice()) {
                    (None, [Some(arg)]) if is_conversion(function) => Some(self.converted(function, arg)?),
                    (None, [_, Some(Value::List(items))]) if function == op::IN && items.is_empty() => {
                        let only = self.program.checked.overloads(expr);
                        let in_list = matches!(only, [o] if matches!(o.args.get(1), Some(Type::List(_))));
                        in_list.then_some(Value::Bool(false))
                    }
                    _ => None,
                }
            }
            ExprKind::List(elements) => {
                let mut items = Vec::with_capacity(elements.len());
                for (element, optional) in elements {
                    items.push(self.fold(element)?.filter(|_| !optional));
                }
                items.into_iter().collect::<Option<Vec<_>>>().map(Value::list)
            }
            ExprKind::Map(entries) => {
                let mut pairs = Vec::with_capacity(entries.len());
                for entry in entries {
                    let key = self.fold(&entry.key)?;
                    let value = self.fold(&entry.value)?.filter(|_| !entry.optional);
                    pairs.push(key.zip(value));
                }
                pairs.into_iter().collect::<Option<Vec<_>>>().map(|pairs| {
                    let mut out: Vec<(Value, Value)> = Vec::with_capacity(pairs.len());
                    for (key, value) in pairs {
                        out.retain(|(known, _)| !equal(known, &key));
                        out.push((key, value));
                    }
                    Value::map(out)
                })
            }
            ExprKind::Struct { fields, .. } => {
                for field in fields {
                    self.fold(&field.value)?;
                }
                None
            }
            ExprKind::Comprehension(c) => {
                for part in [&c.accu_init, &c.range, &c.condition, &c.step, &c.result] {
                    self.fold(part)?;
                }
                None
            }
        };
        if let Some(value) = &value {
            self.constants.insert(expr.id, value.clone());
        }
        Ok(value)
    }

    fn converted(&self, function: &str, arg: &Value) -> Result<Value, EvalError> {
        let overloads = self.program.environment.functions(function);
        dispatch(overloads, false, std::slice::from_ref(arg), function)
    }
}

fn is_conversion(function: &str) -> bool {
    matches!(
        function,
        "bool" | "bytes" | "double" | "duration" | "dyn" | "int" | "string" | "timestamp" | "type" | "uint"
    )
}
