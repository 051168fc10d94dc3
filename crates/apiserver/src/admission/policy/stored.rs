//! The policies that are stored, compiled.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use serde_json::Value;
use steersman_api::{object, selector::LabelSelector, store::Store};

use crate::admission::{
    constraints::Constraints,
    expression::{Compiler, Expression, Gives},
};

/// The policies of a server that are in force.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    pub(super) validating: Shelf<Validating>,
    pub(super) mutating: Shelf<Mutating>,
}

/// Policies of one kind, by their names.
#[derive(Debug)]
pub(super) struct Shelf<A> {
    pub(super) hooks: RwLock<Arc<[Hook<A>]>>,
    /// Held while policies are read and compiled, so that requests need not wait for it.
    learning: Mutex<()>,
}

/// A policy, and by the names of them its bindings, of which there is at least one.
#[derive(Debug)]
pub(super) struct Hook<A> {
    pub(super) policy: Policy<A>,
    pub(super) bindings: Vec<Binding>,
}

/// What policies of a kind do.
pub(super) trait Action: fmt::Debug + Sized {
    /// The store's table of policies.
    const POLICIES: &str;
    /// The store's table of their bindings.
    const BINDINGS: &str;
    /// Whether expressions can always name `variables`.
    const COMPOSES: bool;

    /// Reads what is particular to the kind out of a policy's `spec`.
    fn new(spec: &Value, compiler: &Compiler) -> Self;
}

#[derive(Debug)]
pub(super) struct Policy<A> {
    pub(super) name: String,
    pub(super) constraints: Constraints,
    pub(super) ignores_failure: bool,
    /// The kind of its parameters, by apiVersion and kind.
    pub(super) parameter: Option<(String, String)>,
    pub(super) conditions: Vec<Expression>,
    /// By name, each of which may use those before it.
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

/// Which parameters a binding takes.
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

    /// Takes over what is stored.
    fn learn(&self, store: &Store) {
        // Read under the lock: of two writers, the later one here sees the later state.
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
    /// The same policies for another server.
    pub(crate) fn fork(&self) -> Self {
        Self { validating: self.validating.fork(), mutating: self.mutating.fork() }
    }

    /// Takes over what is stored, if it is of a kind that matters here.
    pub(crate) fn learn(&self, store: &Store, storage: &str) {
        match storage {
            Validating::POLICIES | Validating::BINDINGS => self.validating.learn(store),
            Mutating::POLICIES | Mutating::BINDINGS => self.mutating.learn(store),
            _ => {}
        }
    }

    /// Takes over everything that is stored.
    pub(crate) fn learn_all(&self, store: &Store) {
        self.validating.learn(store);
        self.mutating.learn(store);
    }
}

/// What a policy has against writes.
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
        let compile =
            |value: &Value, gives: Gives| Expression::new(value, |text| compiler.expression(text, gives));
        let validation = |validation: &Value| Validation {
            expression: compile(&validation["expression"], Gives::Bool),
            message: text(&validation["message"]).trim().to_owned(),
            message_expression: validation["messageExpression"]
                .as_str()
                .filter(|text| !text.trim().is_empty())
                .map(|_| compile(&validation["messageExpression"], Gives::Text)),
            reason: text(&validation["reason"]),
        };
        Self(items(&spec["validations"]).map(validation).collect())
    }
}

/// What a policy does to writes.
#[derive(Debug)]
pub(super) struct Mutating {
    pub(super) mutations: Vec<Mutation>,
    /// Whether it wants to see what others change after it.
    pub(super) reinvocable: bool,
}

/// One change.
#[derive(Debug)]
pub(super) enum Mutation {
    /// A configuration, which is merged as an apply does it.
    Apply(Expression),
    /// The steps of a JSON patch.
    Patch(Expression),
}

impl Action for Mutating {
    const POLICIES: &str = "mutatingadmissionpolicies.admissionregistration.k8s.io";
    const BINDINGS: &str = "mutatingadmissionpolicybindings.admissionregistration.k8s.io";
    const COMPOSES: bool = true;

    fn new(spec: &Value, compiler: &Compiler) -> Self {
        let compile = |value: &Value, gives: Gives| {
            Expression::new(&value["expression"], |text| compiler.expression(text, gives))
        };
        let mutation = |mutation: &Value| match mutation["patchType"].as_str() {
            Some("JSONPatch") => Mutation::Patch(compile(&mutation["jsonPatch"], Gives::Patch)),
            _ => Mutation::Apply(compile(&mutation["applyConfiguration"], Gives::Object)),
        };
        Self {
            mutations: items(&spec["mutations"]).map(mutation).collect(),
            reinvocable: spec["reinvocationPolicy"] == "IfNeeded",
        }
    }
}
