//! Expressions of policies and of conditions on webhooks: what they can name, what they have to give, and what they may cost.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use serde_json::Value;
use steersman_cel::{Environment, ObjectType, Program, Type, Value as Cel};

/// One expression may cost so much.
const CALL_LIMIT: u64 = 1_000_000;
/// All conditions of a policy or a webhook together may cost so much.
pub(super) const CONDITIONS_LIMIT: u64 = 2_500_000;
/// What a policy does with a write may cost so much.
pub(super) const LIMIT: u64 = 10_000_000;

/// What is said once the budget is used up.
pub(super) const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// What an expression has to give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gives {
    /// A variable's value.
    Anything,
    /// Whether something holds.
    Bool,
    /// A message.
    Text,
    /// What is noted about a request, or null for nothing.
    Note,
    /// A configuration to apply.
    Object,
    /// Steps of a JSON patch.
    Patch,
}

impl Gives {
    fn is(self, ty: &Type) -> bool {
        match (self, ty) {
            (Self::Anything, _)
            | (Self::Bool, Type::Bool)
            | (Self::Text, Type::String)
            | (Self::Note, Type::String | Type::Null) => true,
            (Self::Object, Type::Object(object)) => object.name == self.name(),
            (Self::Patch, Type::List(_)) => ty.to_string() == self.name(),
            _ => false,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Anything => "any",
            Self::Bool => "bool",
            Self::Text => "string",
            Self::Note => "one of [string null_type]",
            Self::Object => "Object",
            Self::Patch => "list(JSONPatch)",
        }
    }
}

/// What every expression can name.
static BASE: LazyLock<Environment> = LazyLock::new(|| {
    Environment::new()
        .with("object", Type::Dyn)
        .with("oldObject", Type::Dyn)
        .with("request", request_type())
        .with("namespaceObject", namespace_type())
});

fn object_type(name: &str, fields: &[(&str, Type)]) -> Type {
    let fields = fields.iter().map(|(name, ty)| ((*name).to_owned(), ty.clone())).collect();
    Type::Object(Arc::new(ObjectType { name: format!("kubernetes.{name}"), fields, open: false }))
}

fn request_type() -> Type {
    let text = Type::String;
    let texts = Type::list(Type::String);
    let kind = object_type(
        "GroupVersionKind",
        &[("group", text.clone()), ("version", text.clone()), ("kind", text.clone())],
    );
    let resource = object_type(
        "GroupVersionResource",
        &[("group", text.clone()), ("version", text.clone()), ("resource", text.clone())],
    );
    let user = object_type(
        "UserInfo",
        &[
            ("username", text.clone()),
            ("uid", text.clone()),
            ("groups", texts.clone()),
            ("extra", Type::map(Type::String, texts)),
        ],
    );
    object_type(
        "AdmissionRequest",
        &[
            ("kind", kind.clone()),
            ("resource", resource.clone()),
            ("subResource", text.clone()),
            ("requestKind", kind),
            ("requestResource", resource),
            ("requestSubResource", text.clone()),
            ("name", text.clone()),
            ("namespace", text.clone()),
            ("operation", text),
            ("userInfo", user),
            ("dryRun", Type::Bool),
            ("options", Type::Dyn),
        ],
    )
}

fn namespace_type() -> Type {
    let (text, texts) = (Type::String, Type::list(Type::String));
    let pairs = Type::map(Type::String, Type::String);
    let metadata = object_type(
        "NamespaceMetadata",
        &[
            ("name", text.clone()),
            ("generateName", text.clone()),
            ("namespace", text.clone()),
            ("labels", pairs.clone()),
            ("annotations", pairs),
            ("UID", text.clone()),
            ("creationTimestamp", Type::Timestamp),
            ("deletionGracePeriodSeconds", Type::Int),
            ("deletionTimestamp", Type::Timestamp),
            ("generation", Type::Int),
            ("resourceVersion", text.clone()),
            ("finalizers", texts.clone()),
        ],
    );
    let condition = object_type(
        "NamespaceCondition",
        &[
            ("status", text.clone()),
            ("type", text.clone()),
            ("lastTransitionTime", Type::Timestamp),
            ("message", text.clone()),
            ("reason", text.clone()),
        ],
    );
    object_type(
        "Namespace",
        &[
            ("metadata", metadata),
            ("spec", object_type("NamespaceSpec", &[("finalizers", texts)])),
            (
                "status",
                object_type("NamespaceStatus", &[("conditions", Type::list(condition)), ("phase", text)]),
            ),
        ],
    )
}

/// Judges a condition of a webhook.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check_condition(text: &str) -> Result<(), String> {
    Compiler::new(&Value::Null, false).condition(text).map(drop)
}

/// Compiles the expressions of one policy.
#[derive(Debug)]
pub(crate) struct Compiler {
    base: Environment,
    /// Variables that have been compiled, which those after them can use.
    variables: Option<BTreeMap<String, Type>>,
}

impl Compiler {
    /// For a policy, by its `spec`, or null for a webhook; `composes` says whether `variables` can be named though there are none.
    pub(crate) fn new(spec: &Value, composes: bool) -> Self {
        let has = |field: &str| spec.get(field).is_some_and(|value| !value.is_null());
        let mut base = BASE.clone();
        if has("paramKind") {
            base = base.with("params", Type::Dyn);
        }
        let composes = composes || spec["variables"].as_array().is_some_and(|list| !list.is_empty());
        Self { base, variables: composes.then(BTreeMap::new) }
    }

    /// Compiles a condition, which knows no variables.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn condition(&self, text: &str) -> Result<Program, String> {
        compile(&self.base.clone().with("authorizer", Type::Dyn), text, Gives::Bool)
    }

    /// Compiles a variable, and declares it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn variable(&mut self, name: &str, text: &str) -> Result<Program, String> {
        let program = self.expression(text, Gives::Anything);
        let ty = program.as_ref().map_or(Type::Dyn, |program| declared(program.output()));
        self.variables.get_or_insert_default().insert(name.to_owned(), ty);
        program
    }

    /// Compiles an expression.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn expression(&self, text: &str, gives: Gives) -> Result<Program, String> {
        let mut environment = self.base.clone();
        if let Some(variables) = &self.variables {
            let ty =
                ObjectType { name: "kubernetes.variables".into(), fields: variables.clone(), open: false };
            environment = environment.with("variables", Type::Object(Arc::new(ty)));
        }
        // Messages have no say in who may do what.
        if gives != Gives::Text {
            environment = environment.with("authorizer", Type::Dyn);
        }
        if matches!(gives, Gives::Object | Gives::Patch) {
            environment = environment.with_patches();
        }
        compile(&environment, text, gives)
    }
}

fn compile(environment: &Environment, text: &str, gives: Gives) -> Result<Program, String> {
    let program =
        Program::compile(environment, text).map_err(|error| format!("compilation failed: {error}"))?;
    if gives.is(program.output()) {
        return Ok(program);
    }
    Err(format!("must evaluate to {} but got {}", gives.name(), program.output()))
}

/// The type of a variable as far as other expressions know it.
fn declared(ty: &Type) -> Type {
    match ty {
        Type::Null
        | Type::Bool
        | Type::Int
        | Type::Uint
        | Type::Double
        | Type::String
        | Type::Bytes
        | Type::Timestamp
        | Type::Duration => ty.clone(),
        Type::List(elem) => Type::list(declared(elem)),
        Type::Map(key, value) => Type::map(declared(key), declared(value)),
        _ => Type::Dyn,
    }
}

/// An expression, and what it compiles to.
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

/// What expressions can name, and what they may cost.
#[derive(Debug)]
pub(super) struct Scope<'a> {
    pub(super) object: Cel,
    pub(super) old: Cel,
    pub(super) request: Cel,
    pub(super) parameter: Cel,
    pub(super) namespace: Cel,
    pub(super) variables: Variables<'a>,
    pub(super) budget: Budget,
}

/// What expressions may still cost.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    left: u64,
    /// Whether something cost more than was left. Nothing is run after that.
    spent: bool,
}

impl Budget {
    pub(super) fn new(limit: u64) -> Self {
        Self { left: limit, spent: false }
    }

    /// Pays for something.
    ///
    /// # Errors
    /// That there is not enough left.
    fn pay(&mut self, cost: u64) -> Result<(), String> {
        match self.left.checked_sub(cost).filter(|_| !self.spent) {
            Some(left) => self.left = left,
            None => *self = Self { left: 0, spent: true },
        }
        if self.spent { Err(OUT_OF_BUDGET.into()) } else { Ok(()) }
    }
}

/// The variables of a policy, which are told and paid for once, and only if an expression names them.
#[derive(Debug, Default)]
pub(super) struct Variables<'a> {
    /// By name, each of which may use those before it.
    all: &'a [(String, Expression)],
    /// What is known of each.
    known: Vec<Option<Cel>>,
}

impl<'a> Variables<'a> {
    pub(super) fn new(all: &'a [(String, Expression)]) -> Self {
        Self { all, known: vec![None; all.len()] }
    }

    /// Which are named by an expression, or by variables that it names. A text that does not contain a name can't name it.
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

    /// Those that are known, as a value.
    fn value(&self) -> Cel {
        let known = self.all.iter().zip(&self.known);
        let known = known.filter_map(|((name, _), value)| Some((Cel::string(name.as_str()), value.clone()?)));
        Cel::map(known.collect())
    }
}

impl Scope<'_> {
    /// Begins with a budget, and with variables that nobody has looked at: when what they are told from has changed, and for
    /// each purpose of expressions.
    pub(super) fn begin(&mut self, budget: Budget) {
        self.budget = budget;
        self.variables = Variables::new(self.variables.all);
    }

    /// Whether expressions have cost more than they may, so that all of them have failed.
    pub(super) fn is_spent(&self) -> bool {
        self.budget.spent
    }

    /// The value of an expression.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn run(&mut self, expression: &Expression) -> Result<Cel, String> {
        let program = expression.program.as_ref().map_err(|why| format!("compilation error: {why}"))?;
        if program.uses("variables") {
            self.compose(expression)?;
        }
        let value = self.run_with(program)?;
        value.map_err(|why| format!("expression '{}' resulted in error: {why}", expression.text))
    }

    /// Tells the variables that an expression names. One that can't be told is no harm to whoever does not look at it.
    ///
    /// # Errors
    /// That the budget is used up.
    fn compose(&mut self, expression: &Expression) -> Result<(), String> {
        let named = self.variables.named(expression);
        for (index, (name, variable)) in self.variables.all.iter().enumerate() {
            if !named[index] || self.variables.known[index].is_some() {
                continue;
            }
            let value = match &variable.program {
                Err(why) => Err(format!("composited variable \"{name}\" fails to compile: {why}")),
                Ok(program) => self
                    .run_with(program)?
                    .map_err(|why| format!("composited variable \"{name}\" fails to evaluate: {why}")),
            };
            self.variables.known[index] = Some(value.unwrap_or_else(|why| Cel::Invalid(why.into())));
        }
        Ok(())
    }

    /// What a program gives. The outer error is that of a budget which is used up.
    fn run_with(&mut self, program: &Program) -> Result<Result<Cel, String>, String> {
        // Nothing is run any more.
        self.budget.pay(0)?;
        let names = [
            ("object", self.object.clone()),
            ("oldObject", self.old.clone()),
            ("request", self.request.clone()),
            ("params", self.parameter.clone()),
            ("namespaceObject", self.namespace.clone()),
            ("authorizer", Cel::Invalid("authorizer is not available".into())),
            ("variables", if program.uses("variables") { self.variables.value() } else { Cel::Null }),
        ];
        let (value, cost) = program.run(names, CALL_LIMIT);
        self.budget.pay(cost)?;
        Ok(value.map_err(|error| error.to_string()))
    }

    /// Whether all conditions hold; one that does not settles it.
    ///
    /// # Errors
    /// Why that can't be told.
    pub(super) fn holds(&mut self, conditions: &[Expression]) -> Result<bool, String> {
        let mut failures = Vec::new();
        for condition in conditions {
            match self.run(condition) {
                Ok(Cel::Bool(false)) => return Ok(false),
                Ok(_) => {}
                // That counts alone.
                Err(why) if self.is_spent() => return Err(why),
                Err(why) => failures.push(why),
            }
        }
        if failures.is_empty() { Ok(true) } else { Err(crate::auth::rbac::aggregate(&failures)) }
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
            variables: Variables::new(variables),
            budget: Budget::new(budget),
        }
    }

    #[test]
    fn variables_are_paid_for_once_and_only_if_they_are_named() {
        let long = "[1, 2, 3, 4, 5, 6, 7, 8, 9].all(n, n > 0)";
        let (compiler, list) = variables(&[("long", long), ("other", long), ("both", "variables.long")]);
        let run = |text: &str| Expression::new(&json!(text), |text| compiler.expression(text, Gives::Bool));
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
        // For another purpose, or another object.
        scope.begin(scope.budget);
        assert_eq!(cost(&mut scope, "variables.both"), first);
    }

    #[test]
    fn nothing_is_run_once_the_budget_is_used_up() {
        let (compiler, list) = variables(&[]);
        let run = |text: &str| Expression::new(&json!(text), |text| compiler.expression(text, Gives::Bool));
        let mut scope = scope(&list, 10);
        assert!(scope.run(&run("true")).is_ok());
        let costly = run("[1, 2, 3, 4, 5, 6, 7, 8, 9].all(n, n > 0)");
        assert_eq!(scope.run(&costly).unwrap_err(), OUT_OF_BUDGET);
        assert!(scope.is_spent());
        assert_eq!(scope.run(&run("true")).unwrap_err(), OUT_OF_BUDGET);
        assert_eq!(scope.holds(&[run("1 / 0 == 1"), run("true")]).unwrap_err(), OUT_OF_BUDGET);
    }
}
