//! Kubernetes' Common Expression Language: parsed, checked against declared types, and evaluated within a budget.
//!
//! Written by hand: the existing crates have no type checker, escape field names as Kubernetes does not, and lack its
//! libraries.
//!
//! ```
//! use steersman_cel::{Environment, Program, Type, Value};
//!
//! let environment = Environment::new().with("self", Type::Int);
//! let program = Program::compile(&environment, "self > 3").unwrap();
//! let (value, _cost) = program.run([("self", Value::Int(5))], 1_000_000);
//! assert!(matches!(value, Ok(Value::Bool(true))));
//! ```

mod ast;
mod check;
mod environment;
mod eval;
mod library;
mod parse;
mod source;
mod types;
mod validate;
mod value;

use std::fmt;

pub use environment::Environment;
pub use library::net::Cidr;
pub use library::quantity::Quantity;
pub use library::time::{parse_duration, parse_timestamp};
pub use library::url::Url;
pub use source::Issue;
pub use types::{ObjectType, Param, Type};
pub use value::{EvalError, Evaluated, Value};

use ast::Expr;
use eval::{Budget, Evaluator};
use source::Source;

/// Why an expression cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// It does not parse, or its types do not go together: one issue for each place, in the order of the text.
    Issues(Vec<Issue>),
    /// A conversion in it fails whatever its variables are.
    Conversion(EvalError),
}

impl CompileError {
    fn issues(mut issues: Vec<Issue>) -> Self {
        issues.sort_by_key(|issue| (issue.line, issue.column));
        Self::Issues(issues)
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Issues(issues) => {
                let texts: Vec<_> = issues.iter().map(Issue::to_string).collect();
                f.write_str(&texts.join("\n"))
            }
            Self::Conversion(error) => error.fmt(f),
        }
    }
}

/// An expression that has been checked, ready to run as often as wanted, in any thread.
#[derive(Clone, Debug)]
pub struct Program {
    environment: Environment,
    expr: Expr,
    output: Type,
}

impl Program {
    /// Parses and checks an expression.
    pub fn compile(environment: &Environment, text: &str) -> Result<Self, CompileError> {
        let source = Source::new(text);
        let expr = parse::parse(&source).map_err(CompileError::issues)?;
        let checked = check::check(environment, &source, &expr).map_err(CompileError::issues)?;
        let issues = validate::validate(&source, &expr, &checked);
        if !issues.is_empty() {
            return Err(CompileError::issues(issues));
        }
        validate::convert_literals(environment, &expr).map_err(CompileError::Conversion)?;
        Ok(Self { environment: environment.clone(), output: checked.output, expr })
    }

    /// The type of the value that it gives.
    pub fn output(&self) -> &Type {
        &self.output
    }

    /// Whether it names this variable anywhere.
    pub fn uses(&self, variable: &str) -> bool {
        let mut found = false;
        self.expr
            .walk(&mut |expr| found |= matches!(&expr.kind, ast::ExprKind::Ident(name) if name == variable));
        found
    }

    /// Runs it on these variables. Gives the value and what it cost; above `limit` it ends with an error.
    pub fn run<'a>(
        &self,
        variables: impl IntoIterator<Item = (&'a str, Value)>,
        limit: u64,
    ) -> (Evaluated, u64) {
        let scopes = variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let budget = Budget { limit, spent: 0 };
        let mut evaluator = Evaluator { environment: &self.environment, scopes, budget };
        let value = evaluator.expr(&self.expr);
        (value, evaluator.budget.spent)
    }
}
