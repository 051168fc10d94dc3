//! Macro expansion: calls that expand to comprehensions and tests.

use super::{Parser, call};
use crate::ast::{ACCU, Comprehension, Expr, ExprKind, Literal, op};

const SIMPLE_NAME: &str = "argument must be a simple name";

impl Parser<'_> {
    /// Parses a global function call, expanding macros.
    pub(super) fn global_call(&mut self, offset: usize, function: String, mut args: Vec<Expr>) -> Expr {
        if function == "has" && args.len() == 1 {
            let Some(arg) = args.pop() else { return call(offset, &function, args) };
            return match arg.kind {
                ExprKind::Select { operand, field, test_only: false } => {
                    Expr::new(offset, ExprKind::Select { operand, field, test_only: true })
                }
                _ => self.report(arg.offset, "invalid argument to has() macro"),
            };
        }
        call(offset, &function, args)
    }

    /// Parses a method call, expanding macros.
    pub(super) fn receiver_call(
        &mut self,
        offset: usize,
        function: String,
        target: Expr,
        args: Vec<Expr>,
    ) -> Expr {
        let expanded = match (function.as_str(), args.len()) {
            ("all" | "exists" | "exists_one" | "filter" | "map", 2) | ("map", 3) => {
                self.one_variable(offset, &function, &target, &args)
            }
            ("all" | "exists" | "existsOne" | "transformList" | "transformMap" | "transformMapEntry", 3)
            | ("transformList" | "transformMap" | "transformMapEntry", 4) => {
                self.two_variables(offset, &function, &target, &args)
            }
            ("optMap" | "optFlatMap", 2) => self.optional_map(offset, &function, &target, &args),
            ("sortBy", 2) => self.sort_by(offset, &target, &args),
            _ => None,
        };
        expanded.unwrap_or_else(|| {
            let target = Some(Box::new(target));
            Expr::new(offset, ExprKind::Call { function, target, args })
        })
    }

    /// Returns the variable name declared by a macro argument; reports `unfit` for other expressions.
    fn name(&mut self, arg: &Expr, unfit: &str) -> Result<String, Expr> {
        match &arg.kind {
            ExprKind::Ident(name) => Ok(name.clone()),
            _ => Err(self.report(arg.offset, unfit)),
        }
    }

    /// Rejects the variable name that cel-go formerly used for the accumulator.
    fn unlike_accumulator(&mut self, arg: &Expr, name: &str) -> Result<(), Expr> {
        if name == "__result__" {
            return Err(self.report(arg.offset, "iteration variable overwrites accumulator variable"));
        }
        Ok(())
    }

    /// Returns both variable names of a two-variable comprehension.
    fn names(&mut self, first: &Expr, second: &Expr) -> Result<(String, String), Expr> {
        let (var, var2) = (self.name(first, SIMPLE_NAME)?, self.name(second, SIMPLE_NAME)?);
        if var == var2 {
            return Err(self.report(second.offset, format!("duplicate variable name: {var}")));
        }
        self.unlike_accumulator(first, &var)?;
        self.unlike_accumulator(second, &var2)?;
        Ok((var, var2))
    }

    fn one_variable(&mut self, offset: usize, function: &str, range: &Expr, args: &[Expr]) -> Option<Expr> {
        let [first, rest @ ..] = args else { return None };
        let unfit = match function {
            "map" | "filter" => "argument is not an identifier",
            _ => SIMPLE_NAME,
        };
        let var = self.name(first, unfit);
        let var = match var.and_then(|var| self.unlike_accumulator(first, &var).map(|()| var)) {
            Ok(var) => var,
            Err(reported) => return Some(reported),
        };
        let make = Maker { offset };
        let element = make.ident(&var);
        let looped = match (function, rest) {
            ("filter", [condition]) => make.collect(element, Some(condition.clone())),
            ("map", [value]) => make.collect(value.clone(), None),
            ("map", [condition, value]) => make.collect(value.clone(), Some(condition.clone())),
            (_, [condition]) => make.quantifier(function, condition.clone())?,
            _ => return None,
        };
        Some(make.comprehension(range.clone(), var, None, looped))
    }

    fn two_variables(&mut self, offset: usize, function: &str, range: &Expr, args: &[Expr]) -> Option<Expr> {
        let [first, second, rest @ ..] = args else { return None };
        let (var, var2) = match self.names(first, second) {
            Ok(names) => names,
            Err(reported) => return Some(reported),
        };
        let make = Maker { offset };
        let (condition, value) = match rest {
            [value] => (None, value.clone()),
            [condition, value] => (Some(condition.clone()), value.clone()),
            _ => return None,
        };
        let looped = match function {
            "transformList" => make.collect(value, condition),
            "transformMap" => make.insert(vec![make.ident(ACCU), make.ident(&var), value], condition),
            "transformMapEntry" => make.insert(vec![make.ident(ACCU), value], condition),
            _ => make.quantifier(function, value)?,
        };
        Some(make.comprehension(range.clone(), var, Some(var2), looped))
    }

    /// Expands `x.optMap(v, e)`: evaluates `e` with `v` bound to the value of `x`, if present.
    fn optional_map(&mut self, offset: usize, function: &str, target: &Expr, args: &[Expr]) -> Option<Expr> {
        let [var, value] = args else { return None };
        let accu = match self.name(var, &format!("{function}() variable name must be a simple identifier")) {
            Ok(var) => var,
            Err(reported) => return Some(reported),
        };
        let make = Maker { offset };
        let method = |name: &str, target: Expr| make.method(name, target, Vec::new());
        let fold = make.bound(accu, method("value", target.clone()), value.clone());
        let some = if function == "optMap" { make.call("optional.of", vec![fold]) } else { fold };
        let none = make.call("optional.none", Vec::new());
        Some(make.call(op::CONDITIONAL, vec![method("hasValue", target.clone()), some, none]))
    }

    /// Expands `list.sortBy(v, key)`: sorts the list by the keys of its items.
    fn sort_by(&mut self, offset: usize, target: &Expr, args: &[Expr]) -> Option<Expr> {
        const INPUT: &str = "@__sortBy_input__";
        if matches!(target.kind, ExprKind::Literal(_) | ExprKind::Map(_) | ExprKind::Struct { .. }) {
            let why =
                "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return Some(self.report(target.offset, why));
        }
        let make = Maker { offset };
        let keys = self.one_variable(offset, "map", &make.ident(INPUT), args)?;
        let sorted = make.method(op::SORT_BY_KEYS, make.ident(INPUT), vec![keys]);
        Some(make.bound(INPUT.into(), target.clone(), sorted))
    }
}

/// The accumulator parts of a comprehension.
struct Looped {
    init: Expr,
    condition: Expr,
    step: Expr,
    result: Expr,
}

/// Builds the nodes of an expanded macro, all at the macro's source offset.
struct Maker {
    offset: usize,
}

impl Maker {
    fn expr(&self, kind: ExprKind) -> Expr {
        Expr::new(self.offset, kind)
    }

    fn ident(&self, name: &str) -> Expr {
        self.expr(ExprKind::Ident(name.to_owned()))
    }

    fn literal(&self, literal: Literal) -> Expr {
        self.expr(ExprKind::Literal(literal))
    }

    fn call(&self, function: &str, args: Vec<Expr>) -> Expr {
        call(self.offset, function, args)
    }

    fn method(&self, function: &str, target: Expr, args: Vec<Expr>) -> Expr {
        self.expr(ExprKind::Call { function: function.into(), target: Some(Box::new(target)), args })
    }

    /// Builds a comprehension that never iterates and only binds a variable for its result.
    fn bound(&self, name: String, value: Expr, result: Expr) -> Expr {
        self.expr(ExprKind::Comprehension(Box::new(Comprehension {
            range: self.expr(ExprKind::List(Vec::new())),
            var: "#unused".into(),
            var2: None,
            accu_init: value,
            condition: self.literal(Literal::Bool(false)),
            step: self.ident(&name),
            accu: name,
            result,
        })))
    }

    fn accu(&self) -> Expr {
        self.ident(ACCU)
    }

    fn comprehension(&self, range: Expr, var: String, var2: Option<String>, looped: Looped) -> Expr {
        let Looped { init, condition, step, result } = looped;
        let accu = ACCU.to_owned();
        let comprehension =
            Comprehension { range, var, var2, accu, accu_init: init, condition, step, result };
        self.expr(ExprKind::Comprehension(Box::new(comprehension)))
    }

    fn quantifier(&self, function: &str, predicate: Expr) -> Option<Looped> {
        let accu = || self.accu();
        Some(match function {
            "all" => Looped {
                init: self.literal(Literal::Bool(true)),
                condition: self.call(op::NOT_STRICTLY_FALSE, vec![accu()]),
                step: self.call(op::AND, vec![accu(), predicate]),
                result: accu(),
            },
            "exists" => Looped {
                init: self.literal(Literal::Bool(false)),
                condition: self.call(op::NOT_STRICTLY_FALSE, vec![self.call(op::NOT, vec![accu()])]),
                step: self.call(op::OR, vec![accu(), predicate]),
                result: accu(),
            },
            "exists_one" | "existsOne" => {
                let one = || self.literal(Literal::Int(1));
                let more = self.call(op::ADD, vec![accu(), one()]);
                Looped {
                    init: self.literal(Literal::Int(0)),
                    condition: self.literal(Literal::Bool(true)),
                    step: self.call(op::CONDITIONAL, vec![predicate, more, accu()]),
                    result: self.call(op::EQUALS, vec![accu(), one()]),
                }
            }
            _ => return None,
        })
    }

    /// Collects one value for each element, optionally filtered.
    fn collect(&self, value: Expr, condition: Option<Expr>) -> Looped {
        let list = self.expr(ExprKind::List(vec![(value, false)]));
        let step = self.call(op::ADD, vec![self.accu(), list]);
        self.looped(self.expr(ExprKind::List(Vec::new())), step, condition)
    }

    /// Collects one map entry for each element, optionally filtered.
    fn insert(&self, args: Vec<Expr>, condition: Option<Expr>) -> Looped {
        let step = self.call(op::MAP_INSERT, args);
        self.looped(self.expr(ExprKind::Map(Vec::new())), step, condition)
    }

    fn looped(&self, init: Expr, step: Expr, condition: Option<Expr>) -> Looped {
        let step = match condition {
            Some(condition) => self.call(op::CONDITIONAL, vec![condition, step, self.accu()]),
            None => step,
        };
        Looped { init, condition: self.literal(Literal::Bool(true)), step, result: self.accu() }
    }
}
