//! Authorization checks: the `authorizer` library.

use std::fmt;
use std::sync::Arc;

use steersman_formats::names;

use super::{Library, unfit};
use crate::types::Type;
use crate::value::{Evaluated, Value, fail};

/// The type of the variable `authorizer`.
pub(crate) const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
const PATH_CHECK: &str = "kubernetes.authorization.PathCheck";
const GROUP_CHECK: &str = "kubernetes.authorization.GroupCheck";
/// The type of the variable `authorizer.requestResource`.
pub(crate) const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
const DECISION: &str = "kubernetes.authorization.Decision";

/// Decides the authorization checks of an expression.
pub trait Authorizer: fmt::Debug + Send + Sync {
    /// Decides whether the subject of a check is allowed to perform it.
    fn authorize(&self, check: &AccessCheck) -> AccessDecision;
}

/// An authorization check: the subject and the requested action.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessCheck {
    /// Namespace and name of the service account to check; the request's user if `None`.
    pub account: Option<(Arc<str>, Arc<str>)>,
    /// An API verb, or an HTTP method for paths.
    pub verb: Arc<str>,
    /// The path of a non-resource check.
    pub path: Option<Arc<str>>,
    /// API group; empty for the core group.
    pub group: Arc<str>,
    /// Plural resource name.
    pub resource: Arc<str>,
    /// Subresource, or empty.
    pub subresource: Arc<str>,
    /// Namespace, or empty for the cluster scope.
    pub namespace: Arc<str>,
    /// Object name, or empty.
    pub name: Arc<str>,
    /// Field selector of the request, or empty.
    pub field_selector: Arc<str>,
    /// Label selector of the request, or empty.
    pub label_selector: Arc<str>,
}

/// The result of an authorization check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessDecision {
    /// Whether the action is allowed.
    pub allowed: bool,
    /// Human-readable reason, possibly empty.
    pub reason: String,
    /// The error of the check itself, if it failed.
    pub error: Option<String>,
}

/// A value of the `authorizer` library: a check being built, or its decision.
#[derive(Clone, Debug)]
pub struct Authorization {
    authorizer: Arc<dyn Authorizer>,
    step: Step,
    check: AccessCheck,
    decision: AccessDecision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Authorizer,
    Path,
    Group,
    Resource,
    Decision,
}

impl Authorization {
    pub(crate) fn type_name(&self) -> &'static str {
        match self.step {
            Step::Authorizer => AUTHORIZER,
            Step::Path => PATH_CHECK,
            Step::Group => GROUP_CHECK,
            Step::Resource => RESOURCE_CHECK,
            Step::Decision => DECISION,
        }
    }

    fn next(&self, step: Step, change: impl FnOnce(&mut AccessCheck)) -> Evaluated {
        let mut next = self.clone();
        next.step = step;
        change(&mut next.check);
        Ok(Value::Authorization(Arc::new(next)))
    }
}

impl Value {
    /// Creates the value of `authorizer`, for the request's user.
    pub fn authorizer(authorizer: Arc<dyn Authorizer>) -> Self {
        Self::authorization(authorizer, Step::Authorizer, AccessCheck::default())
    }

    /// Creates the value of `authorizer.requestResource`: a check of the request's resource, no verb.
    pub fn resource_check(authorizer: Arc<dyn Authorizer>, check: AccessCheck) -> Self {
        Self::authorization(authorizer, Step::Resource, check)
    }

    fn authorization(authorizer: Arc<dyn Authorizer>, step: Step, check: AccessCheck) -> Self {
        let decision = AccessDecision::default();
        Self::Authorization(Arc::new(Authorization { authorizer, step, check, decision }))
    }
}

pub(super) fn add(library: &mut Library) {
    use Type::String;
    const SUBJECT: Type = Type::Opaque(AUTHORIZER);
    const PATH: Type = Type::Opaque(PATH_CHECK);
    const GROUP: Type = Type::Opaque(GROUP_CHECK);
    const RESOURCE: Type = Type::Opaque(RESOURCE_CHECK);
    const DECIDED: Type = Type::Opaque(DECISION);
    library.member("path", [SUBJECT, String], PATH, |args| match args {
        [Value::Authorization(_), Value::String(path)] if path.trim().is_empty() => {
            fail("path must not be empty")
        }
        _ => step(args, Step::Path, |check, path| check.path = Some(path)),
    });
    library.member("group", [SUBJECT, String], GROUP, |args| {
        step(args, Step::Group, |check, group| check.group = group)
    });
    library.member("serviceAccount", [SUBJECT, String, String], SUBJECT, service_account);
    library.member("resource", [GROUP, String], RESOURCE, |args| match args {
        [Value::Authorization(_), Value::String(name)] if name.trim().is_empty() => {
            fail("resource must not be empty")
        }
        _ => step(args, Step::Resource, |check, resource| check.resource = resource),
    });
    library.member("subresource", [RESOURCE, String], RESOURCE, |args| {
        step(args, Step::Resource, |check, subresource| check.subresource = subresource)
    });
    library.member("namespace", [RESOURCE, String], RESOURCE, |args| {
        step(args, Step::Resource, |check, namespace| check.namespace = namespace)
    });
    library.member("name", [RESOURCE, String], RESOURCE, |args| {
        step(args, Step::Resource, |check, name| check.name = name)
    });
    library.member("fieldSelector", [RESOURCE, String], RESOURCE, |args| {
        step(args, Step::Resource, |check, selector| check.field_selector = selector)
    });
    library.member("labelSelector", [RESOURCE, String], RESOURCE, |args| {
        step(args, Step::Resource, |check, selector| check.label_selector = selector)
    });
    library.member("check", [PATH, String], DECIDED, decide);
    library.member("check", [RESOURCE, String], DECIDED, decide);
    library.member("allowed", [DECIDED], Type::Bool, |args| decided(args, |d| Value::Bool(d.allowed)));
    library.member("reason", [DECIDED], String, |args| decided(args, |d| Value::string(d.reason.as_str())));
    library
        .member("errored", [DECIDED], Type::Bool, |args| decided(args, |d| Value::Bool(d.error.is_some())));
    library.member("error", [DECIDED], String, |args| {
        decided(args, |d| Value::string(d.error.as_deref().unwrap_or_default()))
    });
}

/// Extends a check with the string argument of a builder function.
fn step(args: &[Value], step: Step, change: impl FnOnce(&mut AccessCheck, Arc<str>)) -> Evaluated {
    match args {
        [Value::Authorization(from), Value::String(text)] => {
            from.next(step, |check| change(check, Arc::clone(text)))
        }
        _ => unfit(),
    }
}

fn service_account(args: &[Value]) -> Evaluated {
    let [Value::Authorization(from), Value::String(namespace), Value::String(name)] = args else {
        return unfit();
    };
    if !names::subdomain(name).is_empty() {
        return fail("Invalid service account name");
    }
    if !names::label(namespace).is_empty() {
        return fail("Invalid service account namespace");
    }
    let account = Some((Arc::clone(namespace), Arc::clone(name)));
    from.next(Step::Authorizer, |check| check.account = account)
}

fn decide(args: &[Value]) -> Evaluated {
    let [Value::Authorization(from), Value::String(verb)] = args else { return unfit() };
    let mut decided = (**from).clone();
    decided.check.verb = Arc::clone(verb);
    decided.decision = decided.authorizer.authorize(&decided.check);
    decided.step = Step::Decision;
    Ok(Value::Authorization(Arc::new(decided)))
}

fn decided(args: &[Value], give: impl FnOnce(&AccessDecision) -> Value) -> Evaluated {
    match args {
        [Value::Authorization(decided)] => Ok(give(&decided.decision)),
        _ => unfit(),
    }
}

/// Cost of one check: high enough that an expression can afford only two.
pub(crate) const CHECK_COST: u64 = 350_000;

/// Cost of a selector: a list of requirements, each at least two characters long.
pub(crate) fn selector_cost(length: u64) -> u64 {
    const LIST: u64 = 10;
    const STRUCT: u64 = 40;
    let requirements = length.div_ceil(2).saturating_mul(LIST + STRUCT);
    LIST.saturating_add(length.div_ceil(10)).saturating_add(requirements)
}

/// Whether a function only builds a check or reads its decision.
pub(crate) fn is_nominal(function: &str) -> bool {
    matches!(
        function,
        "serviceAccount"
            | "path"
            | "group"
            | "resource"
            | "subresource"
            | "namespace"
            | "name"
            | "allowed"
            | "reason"
            | "error"
            | "errored"
    )
}

/// Whether either value is a check or a decision, which do not support equality.
pub(crate) fn has_no_equality(a: &Value, b: &Value) -> bool {
    [a, b].iter().any(|value| matches!(value, Value::Authorization(_)))
}
