//! CEL expressions of admission policies and match conditions: their variables and result types.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use serde_json::Value;
use steersman_cel::{Environment, ObjectType, Program, Type};

/// Type that an expression must evaluate to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultType {
    /// Any type: the value of a variable.
    Anything,
    /// Boolean: a condition or validation.
    Bool,
    /// String: a message.
    Text,
    /// String or null: an audit annotation, or none.
    Note,
    /// Object: an apply configuration.
    Object,
    /// List of JSON patch operations.
    Patch,
}

impl ResultType {
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

/// Variables available in every expression.
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

/// Validates a webhook's match condition.
///
/// # Errors
/// If the expression does not compile or has the wrong type.
pub fn check_condition(text: &str) -> Result<(), String> {
    Compiler::new(&Value::Null, false).condition(text).map(drop)
}

/// Compiles the expressions of one policy.
#[derive(Debug)]
pub struct Compiler {
    base: Environment,
    /// Types of the variables compiled so far, which later expressions can use.
    variables: Option<BTreeMap<String, Type>>,
}

impl Compiler {
    /// Creates a compiler for a policy's `spec`, or null for a webhook.
    ///
    /// `composes` declares `variables` even if the policy has none.
    pub fn new(spec: &Value, composes: bool) -> Self {
        let has = |field: &str| spec.get(field).is_some_and(|value| !value.is_null());
        let mut base = BASE.clone();
        if has("paramKind") {
            base = base.with("params", Type::Dyn);
        }
        let composes = composes || spec["variables"].as_array().is_some_and(|list| !list.is_empty());
        Self { base, variables: composes.then(BTreeMap::new) }
    }

    /// Compiles a match condition, which can't use variables.
    ///
    /// # Errors
    /// If the expression does not compile or has the wrong type.
    pub fn condition(&self, text: &str) -> Result<Program, String> {
        compile(&self.base.clone().with_authorizer(), text, ResultType::Bool)
    }

    /// Compiles a variable, and declares it for later expressions.
    ///
    /// # Errors
    /// If the expression does not compile or has the wrong type.
    pub fn variable(&mut self, name: &str, text: &str) -> Result<Program, String> {
        let program = self.expression(text, ResultType::Anything);
        let ty = program.as_ref().map_or(Type::Dyn, |program| declared(program.output()));
        self.variables.get_or_insert_default().insert(name.to_owned(), ty);
        program
    }

    /// Compiles an expression.
    ///
    /// # Errors
    /// If the expression does not compile or has the wrong type.
    pub fn expression(&self, text: &str, result_type: ResultType) -> Result<Program, String> {
        let mut environment = self.base.clone();
        if let Some(variables) = &self.variables {
            let ty =
                ObjectType { name: "kubernetes.variables".into(), fields: variables.clone(), open: false };
            environment = environment.with("variables", Type::Object(Arc::new(ty)));
        }
        // Message expressions can't use the authorizer.
        if result_type != ResultType::Text {
            environment = environment.with_authorizer();
        }
        if matches!(result_type, ResultType::Object | ResultType::Patch) {
            environment = environment.with_patches();
        }
        compile(&environment, text, result_type)
    }
}

fn compile(environment: &Environment, text: &str, result_type: ResultType) -> Result<Program, String> {
    let program =
        Program::compile(environment, text).map_err(|error| format!("compilation failed: {error}"))?;
    if result_type.is(program.output()) {
        return Ok(program);
    }
    Err(format!("must evaluate to {} but got {}", result_type.name(), program.output()))
}

/// Returns the type under which a variable is declared for other expressions.
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
