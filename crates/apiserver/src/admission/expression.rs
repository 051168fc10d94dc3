//! CEL expressions of policies and match conditions: variables, result types and cost limits.

use serde_json::Value;
use steersman_cel::{Program, Value as Cel};
pub(super) use steersman_kinds::expression::{Compiler, ResultType};

/// Cost limit of one expression.
const CALL_LIMIT: u64 = 1_000_000;
/// Cost limit of all match conditions of a policy or webhook.
pub(super) const CONDITIONS_LIMIT: u64 = 2_500_000;
/// Cost limit of a policy's evaluation for one write.
pub(super) const LIMIT: u64 = 10_000_000;

/// The error message once the budget is exhausted.
pub(super) const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The source of an expression and its compiled program, or the compile error.
#[derive(Debug)]
pub(super) struct Expression {
    pub(super) text: String,
    program: Result<Program, String>,
}

impl Expression {
    pub(super) fn new(value: &Value, compile: impl FnOnce(&str) -> Result<Program, String>) -> Self {
        let text = value.as_str().unwrap_or_default().to_owned();
        let program = compile(&text);
        Self { text, program }
    }
}

/// The variables available to expressions, and their budget.
#[derive(Debug)]
pub(super) struct Scope<'a> {
    pub(super) object: Cel,
    pub(super) old: Cel,
    pub(super) request: Cel,
    pub(super) parameter: Cel,
    pub(super) namespace: Cel,
    pub(super) access: Access,
    pub(super) variables: Variables<'a>,
    pub(super) budget: Budget,
}

/// The variables for authorization checks.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) authorizer: Cel,
    pub(super) request_resource: Cel,
}

impl Access {
    /// For expressions without an authorizer, such as messages; variables they use may still name it.
    pub(super) fn none() -> Self {
        let missing = |name: &str| Cel::Invalid(format!("no such attribute(s): {name}").into());
        Self { authorizer: missing("authorizer"), request_resource: missing("authorizer.requestResource") }
    }
}

/// The remaining cost budget.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    left: u64,
    /// Whether an expression exceeded the budget. Nothing is evaluated afterwards.
    spent: bool,
}

impl Budget {
    pub(super) fn new(limit: u64) -> Self {
        Self { left: limit, spent: false }
    }

    /// Charges a cost to the budget.
    ///
    /// # Errors
    /// If the remaining budget does not suffice.
    fn pay(&mut self, cost: u64) -> Result<(), String> {
        match self.left.checked_sub(cost).filter(|_| !self.spent) {
            Some(left) => self.left = left,
            None => *self = Self { left: 0, spent: true },
        }
        if self.spent { Err(OUT_OF_BUDGET.into()) } else { Ok(()) }
    }
}

/// The variables of a policy, evaluated and charged once, and only if an expression uses them.
#[derive(Debug, Default)]
pub(super) struct Variables<'a> {
    /// Variables by name; each may use those before it.
    all: &'a [(String, Expression)],
    /// The values evaluated so far.
    known: Vec<Option<Cel>>,
}

impl<'a> Variables<'a> {
    pub(super) fn new(all: &'a [(String, Expression)]) -> Self {
        Self { all, known: vec![None; all.len()] }
    }

    /// Returns which variables an expression uses, directly or indirectly.
    /// A source that does not contain a name cannot use it.
    fn named(&self, expression: &Expression) -> Vec<bool> {
        let mut texts = vec![expression.text.as_str()];
        let mut named = vec![false; self.all.len()];
        for ((name, variable), named) in self.all.iter().zip(&mut named).rev() {
            *named = texts.iter().any(|text| text.contains(name.as_str()));
            if *named {
                texts.push(&variable.text);
            }
        }
        named
    }

    /// Returns the evaluated variables as a map value.
    fn value(&self) -> Cel {
        let known = self.all.iter().zip(&self.known);
        let known = known.filter_map(|((name, _), value)| Some((Cel::string(name.as_str()), value.clone()?)));
        Cel::map(known.collect())
    }
}

/// The reasons a program has no value.
enum RunError {
    /// The budget is exhausted; no other program runs either.
    OutOfBudget(String),
    /// The program failed.
    Evaluation(String),
}

impl Scope<'_> {
    /// Resets the budget and the evaluated variables.
    /// Call it when the inputs change and for each kind of expression.
    pub(super) fn begin(&mut self, budget: Budget) {
        self.budget = budget;
        self.variables = Variables::new(self.variables.all);
    }

    /// Whether the budget was exceeded, in which case all expressions fail.
    pub(super) fn is_spent(&self) -> bool {
        self.budget.spent
    }

    /// Evaluates an expression.
    ///
    /// # Errors
    /// If compilation or evaluation fails.
    pub(super) fn run(&mut self, expression: &Expression) -> Result<Cel, String> {
        let program = expression.program.as_ref().map_err(|why| format!("compilation error: {why}"))?;
        if program.uses("variables") {
            self.compose(expression)?;
        }
        self.run_with(program).map_err(|error| match error {
            RunError::OutOfBudget(why) => why,
            RunError::Evaluation(why) => format!("expression '{}' resulted in error: {why}", expression.text),
        })
    }

    /// Evaluates the variables that an expression uses.
    /// One that fails causes an error only where it is read.
    ///
    /// # Errors
    /// If the budget is exhausted.
    fn compose(&mut self, expression: &Expression) -> Result<(), String> {
        let named = self.variables.named(expression);
        for (index, (name, variable)) in self.variables.all.iter().enumerate() {
            if !named[index] || self.variables.known[index].is_some() {
                continue;
            }
            let value = match &variable.program {
                Err(why) => Err(format!("composited variable \"{name}\" fails to compile: {why}")),
                Ok(program) => match self.run_with(program) {
                    Err(RunError::OutOfBudget(why)) => return Err(why),
                    Err(RunError::Evaluation(why)) => {
                        Err(format!("composited variable \"{name}\" fails to evaluate: {why}"))
                    }
                    Ok(value) => Ok(value),
                },
            };
            self.variables.known[index] = Some(value.unwrap_or_else(|why| Cel::Invalid(why.into())));
        }
        Ok(())
    }

    /// Evaluates a program.
    fn run_with(&mut self, program: &Program) -> Result<Cel, RunError> {
        // No further evaluation once the budget is exhausted.
        self.budget.pay(0).map_err(RunError::OutOfBudget)?;
        let names = [
            ("object", self.object.clone()),
            ("oldObject", self.old.clone()),
            ("request", self.request.clone()),
            ("params", self.parameter.clone()),
            ("namespaceObject", self.namespace.clone()),
            ("authorizer", self.access.authorizer.clone()),
            ("authorizer.requestResource", self.access.request_resource.clone()),
            ("variables", if program.uses("variables") { self.variables.value() } else { Cel::Null }),
        ];
        let (value, cost) = program.run(names, CALL_LIMIT);
        self.budget.pay(cost).map_err(RunError::OutOfBudget)?;
        value.map_err(|error| RunError::Evaluation(error.to_string()))
    }

    /// Whether all conditions are true; a single false one decides.
    ///
    /// # Errors
    /// If no condition is false and at least one cannot be evaluated, or if the budget is exhausted.
    pub(super) fn holds(&mut self, conditions: &[Expression]) -> Result<bool, String> {
        let mut failures = Vec::new();
        for condition in conditions {
            match self.run(condition) {
                Ok(Cel::Bool(false)) => return Ok(false),
                Ok(_) => {}
                // This error replaces all others.
                Err(why) if self.is_spent() => return Err(why),
                Err(why) => failures.push(why),
            }
        }
        if failures.is_empty() { Ok(true) } else { Err(steersman_api::status::aggregate(&failures)) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn variables(list: &[(&str, &str)]) -> (Compiler, Vec<(String, Expression)>) {
        let mut compiler = Compiler::new(&Value::Null, true);
        let compile = |(name, text): &(&str, &str)| {
            let expression = Expression::new(&json!(text), |text| compiler.variable(name, text));
            ((*name).to_owned(), expression)
        };
        let list = list.iter().map(compile).collect();
        (compiler, list)
    }

    fn scope(variables: &[(String, Expression)], budget: u64) -> Scope<'_> {
        Scope {
            object: Cel::Null,
            old: Cel::Null,
            request: Cel::Null,
            parameter: Cel::Null,
            namespace: Cel::Null,
            access: Access::none(),
            variables: Variables::new(variables),
            budget: Budget::new(budget),
        }
    }

    #[test]
    fn variables_are_paid_for_once_and_only_if_they_are_named() {
        let long = "[1, 2, 3, 4, 5, 6, 7, 8, 9].all(n, n > 0)";
        let (compiler, list) = variables(&[("long", long), ("other", long), ("both", "variables.long")]);
        let run =
            |text: &str| Expression::new(&json!(text), |text| compiler.expression(text, ResultType::Bool));
        let mut scope = scope(&list, 1000);
        let cost = |scope: &mut Scope<'_>, text: &str| {
            let before = scope.budget.left;
            assert!(matches!(scope.run(&run(text)), Ok(Cel::Bool(true))), "{text}");
            before - scope.budget.left
        };
        let first = cost(&mut scope, "variables.both");
        let second = cost(&mut scope, "variables.both");
        assert!(first > 2 * second, "{first} {second}");
        assert_eq!(cost(&mut scope, "variables.long"), second);
        assert!(scope.variables.known[1].is_none());
        // For another kind of expression, or another object.
        scope.begin(scope.budget);
        assert_eq!(cost(&mut scope, "variables.both"), first);
    }

    #[test]
    fn nothing_is_run_once_the_budget_is_used_up() {
        let (compiler, list) = variables(&[]);
        let run =
            |text: &str| Expression::new(&json!(text), |text| compiler.expression(text, ResultType::Bool));
        let mut scope = scope(&list, 10);
        assert!(scope.run(&run("true")).is_ok());
        let costly = run("[1, 2, 3, 4, 5, 6, 7, 8, 9].all(n, n > 0)");
        assert_eq!(scope.run(&costly).unwrap_err(), OUT_OF_BUDGET);
        assert!(scope.is_spent());
        assert_eq!(scope.run(&run("true")).unwrap_err(), OUT_OF_BUDGET);
        assert_eq!(scope.holds(&[run("1 / 0 == 1"), run("true")]).unwrap_err(), OUT_OF_BUDGET);
    }
}
