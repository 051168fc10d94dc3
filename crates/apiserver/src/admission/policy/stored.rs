//! Compiled policies and bindings, indexed from the store.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use serde_json::Value;
use steersman_api::{object, selector::LabelSelector, store::Store};

use crate::admission::{
    constraints::Constraints,
    expression::{Compiler, Expression, ResultType},
};

/// The active policies of a server.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    pub(super) validating: Shelf<Validating>,
    pub(super) mutating: Shelf<Mutating>,
}

/// The policies of one kind, by name.
#[derive(Debug)]
pub(super) struct Shelf<A> {
    pub(super) hooks: RwLock<Arc<[Hook<A>]>>,
    /// Held while policies are read and compiled, so that requests need not wait.
    learning: Mutex<()>,
}

/// A policy with its bindings by name; it has at least one.
#[derive(Debug)]
pub(super) struct Hook<A> {
    pub(super) policy: Policy<A>,
    pub(super) bindings: Vec<Binding>,
}

/// The part of a policy specific to its kind.
pub(super) trait Action: fmt::Debug + Sized {
    /// The storage name of the policies.
    const POLICIES: &str;
    /// The storage name of their bindings.
    const BINDINGS: &str;
    /// Whether expressions can always use `variables`.
    const COMPOSES: bool;

    /// Parses the kind-specific part of a policy's `spec`.
    fn new(spec: &Value, compiler: &Compiler) -> Self;
}

#[derive(Debug)]
pub(super) struct Policy<A> {
    pub(super) name: String,
    pub(super) constraints: Constraints,
    pub(super) ignores_failure: bool,
    /// apiVersion and kind of the parameters.
    pub(super) parameter: Option<(String, String)>,
    pub(super) conditions: Vec<Expression>,
    /// Variables by name; each may use those before it.
    pub(super) variables: Vec<(String, Expression)>,
    pub(super) action: A,
}

#[derive(Debug)]
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) constraints: Option<Constraints>,
    pub(super) denies: bool,
    pub(super) warns: bool,
    pub(super) parameter: Option<Reference>,
}

/// The parameters that a binding selects.
#[derive(Debug)]
pub(super) struct Reference {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) selector: Option<Result<LabelSelector, String>>,
    pub(super) needed: bool,
}

pub(super) fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl<A: Action> Policy<A> {
    fn new(policy: &Value) -> Self {
        let spec = &policy["spec"];
        let constraints = &spec["matchConstraints"];
        let kind = &spec["paramKind"];
        let mut compiler = Compiler::new(spec, A::COMPOSES);
        let conditions = items(&spec["matchConditions"])
            .map(|condition| Expression::new(&condition["expression"], |text| compiler.condition(text)))
            .collect();
        let variables = items(&spec["variables"])
            .map(|variable| {
                let name = text(&variable["name"]);
                let compile = |text: &str| compiler.variable(&name, text);
                let expression = Expression::new(&variable["expression"], compile);
                (name, expression)
            })
            .collect();
        Self {
            name: object::name(policy).to_owned(),
            constraints: Constraints::new(constraints, &constraints["resourceRules"]),
            ignores_failure: spec["failurePolicy"] == "Ignore",
            parameter: kind.is_object().then(|| (text(&kind["apiVersion"]), text(&kind["kind"]))),
            conditions,
            variables,
            action: A::new(spec, &compiler),
        }
    }
}

impl Binding {
    fn new(binding: &Value) -> Self {
        let spec = &binding["spec"];
        let acts = |action: &str| items(&spec["validationActions"]).any(|given| given == action);
        let reference = &spec["paramRef"];
        Self {
            name: object::name(binding).to_owned(),
            constraints: spec["matchResources"]
                .is_object()
                .then(|| Constraints::any(&spec["matchResources"])),
            denies: acts("Deny"),
            warns: acts("Warn"),
            parameter: reference.is_object().then(|| Reference {
                name: text(&reference["name"]),
                namespace: text(&reference["namespace"]),
                selector: reference["selector"]
                    .is_object()
                    .then(|| LabelSelector::from_object(&reference["selector"])),
                needed: reference["parameterNotFoundAction"] == "Deny",
            }),
        }
    }
}

impl<A> Default for Shelf<A> {
    fn default() -> Self {
        Self { hooks: RwLock::new(Arc::from([])), learning: Mutex::new(()) }
    }
}

impl<A: Action> Shelf<A> {
    fn fork(&self) -> Self {
        let hooks = Arc::clone(&self.hooks.read().unwrap_or_else(PoisonError::into_inner));
        Self { hooks: RwLock::new(hooks), learning: Mutex::new(()) }
    }

    /// Rebuilds the index from the store.
    fn learn(&self, store: &Store) {
        // Read under the lock, so that the last of concurrent writers sees the latest state.
        let _learning = self.learning.lock().unwrap_or_else(PoisonError::into_inner);
        let bindings: Vec<Value> =
            store.snapshot(A::BINDINGS, "", None).entries.iter().map(|entry| entry.value()).collect();
        let mut all = Vec::new();
        for entry in &store.snapshot(A::POLICIES, "", None).entries {
            let policy = entry.value();
            let of_policy = |binding: &&Value| binding["spec"]["policyName"] == object::name(&policy);
            let bindings: Vec<Binding> = bindings.iter().filter(of_policy).map(Binding::new).collect();
            if !bindings.is_empty() {
                all.push(Hook { policy: Policy::new(&policy), bindings });
            }
        }
        *self.hooks.write().unwrap_or_else(PoisonError::into_inner) = all.into();
    }
}

impl Policies {
    /// Copies the policies for another server.
    pub(crate) fn fork(&self) -> Self {
        Self { validating: self.validating.fork(), mutating: self.mutating.fork() }
    }

    /// Updates the index from the store, if `storage` holds policies or bindings.
    pub(crate) fn learn(&self, store: &Store, storage: &str) {
        match storage {
            Validating::POLICIES | Validating::BINDINGS => self.validating.learn(store),
            Mutating::POLICIES | Mutating::BINDINGS => self.mutating.learn(store),
            _ => {}
        }
    }

    /// Rebuilds the whole index from the store.
    pub(crate) fn learn_all(&self, store: &Store) {
        self.validating.learn(store);
        self.mutating.learn(store);
    }
}

/// The validations of a validating policy.
#[derive(Debug)]
pub(super) struct Validating(pub(super) Vec<Validation>);

#[derive(Debug)]
pub(super) struct Validation {
    pub(super) expression: Expression,
    pub(super) message: String,
    pub(super) message_expression: Option<Expression>,
    pub(super) reason: String,
}

impl Action for Validating {
    const POLICIES: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";
    const BINDINGS: &str = "validatingadmissionpolicybindings.admissionregistration.k8s.io";
    const COMPOSES: bool = false;

    fn new(spec: &Value, compiler: &Compiler) -> Self {
        let compile = |value: &Value, result_type: ResultType| {
            Expression::new(value, |text| compiler.expression(text, result_type))
        };
        let validation = |validation: &Value| Validation {
            expression: compile(&validation["expression"], ResultType::Bool),
            message: text(&validation["message"]).trim().to_owned(),
            message_expression: validation["messageExpression"]
                .as_str()
                .filter(|text| !text.trim().is_empty())
                .map(|_| compile(&validation["messageExpression"], ResultType::Text)),
            reason: text(&validation["reason"]),
        };
        Self(items(&spec["validations"]).map(validation).collect())
    }
}

/// The mutations of a mutating policy.
#[derive(Debug)]
pub(super) struct Mutating {
    pub(super) mutations: Vec<Mutation>,
    /// Whether to reinvoke the policy if later plugins change the object.
    pub(super) reinvocable: bool,
}

/// A single mutation.
#[derive(Debug)]
pub(super) enum Mutation {
    /// An apply configuration, merged as by server-side apply.
    Apply(Expression),
    /// A JSON patch.
    Patch(Expression),
}

impl Action for Mutating {
    const POLICIES: &str = "mutatingadmissionpolicies.admissionregistration.k8s.io";
    const BINDINGS: &str = "mutatingadmissionpolicybindings.admissionregistration.k8s.io";
    const COMPOSES: bool = true;

    fn new(spec: &Value, compiler: &Compiler) -> Self {
        let compile = |value: &Value, result_type: ResultType| {
            Expression::new(&value["expression"], |text| compiler.expression(text, result_type))
        };
        let mutation = |mutation: &Value| match mutation["patchType"].as_str() {
            Some("JSONPatch") => Mutation::Patch(compile(&mutation["jsonPatch"], ResultType::Patch)),
            _ => Mutation::Apply(compile(&mutation["applyConfiguration"], ResultType::Object)),
        };
        Self {
            mutations: items(&spec["mutations"]).map(mutation).collect(),
            reinvocable: spec["reinvocationPolicy"] == "IfNeeded",
        }
    }
}
