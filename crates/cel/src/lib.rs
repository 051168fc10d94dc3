//! Common Expression Language with Kubernetes' libraries: parses, checks, evaluates within a budget.
//!
//! Not based on existing crates: they have no type checker, do not escape field names like Kubernetes, and lack its
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
//!
//! # The model
//! An [`Environment`] declares the variables of an expression with their [`Type`]s, and the libraries of Kubernetes.
//! [`Program::compile`] parses an expression, checks its types and folds constants; its [`Issue`]s have the text and
//! the position that cel-go reports. [`Program::estimate`] bounds the cost before evaluation from the [`Sizes`] of
//! variables, so that definitions with too expensive rules can be rejected. [`Program::run`] evaluates a program on
//! [`Value`]s, charges every step and fails with [`EvalError::CostLimitExceeded`] at a limit.
//!
//! A program is immutable and can be shared between threads. Values are cheap to clone. Input cannot cause recursion
//! deeper than the parser's limit.

mod ast;
mod check;
mod cost;
mod dispatch;
mod environment;
mod estimate;
mod eval;
mod fold;
mod library;
mod object;
mod parse;
mod source;
mod structure;
mod types;
mod validate;
mod value;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

pub use environment::Environment;
pub use estimate::{Range, Sizes};
pub use library::authz::{AccessCheck, AccessDecision, Authorization, Authorizer};
pub use library::net::Cidr;
pub use library::semver::Semver;
pub use library::time::Time;
pub use object::Object;
pub use source::Issue;
pub use types::{ObjectType, Param, Type, is_reserved};
pub use value::{EvalError, Evaluated, List, Value};

use ast::Expr;
use check::Checked;
use eval::{Budget, Evaluator};
use source::Source;

/// The reasons an expression does not compile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// Syntax or type errors, in source order.
    Issues(Vec<Issue>),
    /// A constant conversion always fails.
    Conversion(#[source] EvalError),
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

/// A compiled expression, which can be evaluated any number of times from any thread.
#[derive(Clone, Debug)]
pub struct Program {
    environment: Environment,
    expr: Arc<Expr>,
    checked: Arc<Checked>,
    /// The values of constant subexpressions, by node id.
    constants: HashMap<usize, Value>,
}

impl Program {
    /// Parses and type-checks an expression.
    ///
    /// ```
    /// use steersman_cel::{Environment, Program, Type};
    ///
    /// let environment = Environment::new().with("name", Type::String);
    /// assert!(Program::compile(&environment, "name.startsWith('web-')").is_ok());
    /// let error = Program::compile(&environment, "name + 1").unwrap_err();
    /// assert!(error.to_string().contains("found no matching overload for '_+_'"));
    /// ```
    pub fn compile(environment: &Environment, text: &str) -> Result<Self, CompileError> {
        let source = Source::new(text);
        let mut expr = parse::parse(&source).map_err(CompileError::issues)?;
        environment.resolve_dotted(&mut expr);
        expr.number();
        let checked = check::check(environment, &source, &expr).map_err(CompileError::issues)?;
        let issues = validate::validate(&source, &expr, &checked);
        if !issues.is_empty() {
            return Err(CompileError::issues(issues));
        }
        let mut program = Self {
            environment: environment.clone(),
            expr: Arc::new(expr),
            checked: Arc::new(checked),
            constants: HashMap::new(),
        };
        program.constants = fold::constants(&program).map_err(CompileError::Conversion)?;
        Ok(program)
    }

    /// Returns the type of the result.
    pub fn output(&self) -> &Type {
        &self.checked.output
    }

    /// Whether the expression refers to a variable.
    ///
    /// ```
    /// use steersman_cel::{Environment, Program, Type};
    ///
    /// let environment = Environment::new().with("self", Type::Int).with("oldSelf", Type::Int);
    /// let program = Program::compile(&environment, "self >= oldSelf").unwrap();
    /// assert!(program.uses("oldSelf"));
    /// ```
    pub fn uses(&self, variable: &str) -> bool {
        let mut found = false;
        // A variable with a dotted name counts as a use of its first segment.
        self.expr.walk(&mut |expr| {
            found |= matches!(&expr.kind, ast::ExprKind::Ident(name) if name.split('.').next() == Some(variable));
        });
        found
    }

    /// Evaluates the program and returns the result and its cost; fails once the cost exceeds `limit`.
    ///
    /// ```
    /// use steersman_cel::{Environment, EvalError, Program, Type, Value};
    ///
    /// let environment = Environment::new().with("items", Type::list(Type::Int));
    /// let program = Program::compile(&environment, "items.all(i, i > 0)").unwrap();
    /// let items = || Value::list(vec![Value::Int(1), Value::Int(2)]);
    /// let (value, cost) = program.run([("items", items())], 1_000);
    /// assert!(matches!(value, Ok(Value::Bool(true))) && cost > 0);
    /// let (value, _) = program.run([("items", items())], 2);
    /// assert_eq!(value.unwrap_err(), EvalError::CostLimitExceeded);
    /// ```
    pub fn run<'a>(
        &'a self,
        variables: impl IntoIterator<Item = (&'a str, Value)>,
        limit: u64,
    ) -> (Evaluated, u64) {
        let scopes = variables.into_iter().collect();
        let budget = Budget { limit, spent: 0 };
        let mut evaluator = Evaluator { program: self, scopes, budget };
        let value = evaluator.expr(&self.expr);
        (value, evaluator.budget.spent)
    }

    /// Returns the minimum and maximum cost of a run, given the size limits of variables.
    #[must_use]
    pub fn estimate(&self, sizes: &dyn Sizes) -> Range {
        estimate::estimate(&self.expr, &self.checked, sizes)
    }
}
