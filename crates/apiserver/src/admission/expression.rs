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

const OUT_OF_BUDGET: &str =
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
    /// By name, each of which may use those before it.
    pub(super) variables: &'a [(String, Expression)],
    pub(super) budget: u64,
}

impl Scope<'_> {
    /// The value of an expression.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn run(&mut self, expression: &Expression) -> Result<Cel, String> {
        let program = expression.program.as_ref().map_err(|why| format!("compilation error: {why}"))?;
        let variables = if program.uses("variables") { self.compose() } else { Vec::new() };
        let value = self.run_with(program, variables)?;
        value.map_err(|why| format!("expression '{}' resulted in error: {why}", expression.text))
    }

    /// The values of all variables. One that can't be told is no harm to whoever does not look at it.
    fn compose(&mut self) -> Vec<(Cel, Cel)> {
        let mut known: Vec<(Cel, Cel)> = Vec::new();
        for (name, expression) in self.variables {
            let value = match &expression.program {
                Err(why) => Err(format!("composited variable \"{name}\" fails to compile: {why}")),
                Ok(program) => self
                    .run_with(program, known.clone())
                    .and_then(|value| value)
                    .map_err(|why| format!("composited variable \"{name}\" fails to evaluate: {why}")),
            };
            let value = value.unwrap_or_else(|why| Cel::Invalid(why.into()));
            known.push((Cel::string(name.as_str()), value));
        }
        known
    }

    /// What a program gives. The outer error is that of a budget which is used up.
    fn run_with(
        &mut self,
        program: &Program,
        variables: Vec<(Cel, Cel)>,
    ) -> Result<Result<Cel, String>, String> {
        let names = [
            ("object", self.object.clone()),
            ("oldObject", self.old.clone()),
            ("request", self.request.clone()),
            ("params", self.parameter.clone()),
            ("namespaceObject", self.namespace.clone()),
            ("authorizer", Cel::Invalid("authorizer is not available".into())),
            ("variables", Cel::map(variables)),
        ];
        let (value, cost) = program.run(names, CALL_LIMIT);
        self.budget = self.budget.checked_sub(cost).ok_or(OUT_OF_BUDGET)?;
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
                Err(why) => failures.push(why),
            }
        }
        if failures.is_empty() { Ok(true) } else { Err(crate::auth::rbac::aggregate(&failures)) }
    }
}
