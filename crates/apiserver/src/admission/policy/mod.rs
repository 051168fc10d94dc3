//! Admission policies: CEL expressions that reject or mutate writes, activated by bindings.

mod mutating;
mod stored;
mod validating;

use std::sync::{Arc, PoisonError};

use serde_json::Value;
use steersman_cel::Value as Cel;

pub(crate) use mutating::Mutators;
pub(crate) use stored::Policies;
pub(crate) use validating::validate;

use steersman_api::{object, status::ApiResult};

use super::{
    attempt::Attempt,
    expression::{Access, Budget, CONDITIONS_LIMIT, Scope, Variables},
    values::cel,
    webhook::EXEMPT,
};
use crate::{
    call::Call,
    catalog::{Resource, split_api_version},
    convert,
};
use stored::{Action, Binding, Hook, Policy, Reference, Shelf};

impl<A: Action> Shelf<A> {
    /// Returns the policies that may apply to a call.
    fn current(&self, call: &Call) -> Arc<[Hook<A>]> {
        if call.resource.group == EXEMPT {
            return Arc::from([]);
        }
        Arc::clone(&self.hooks.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether any policy may match a write.
    fn concerns(&self, attempt: &Attempt<'_>) -> bool {
        self.current(attempt.call).iter().any(|hook| attempt.concerns(&hook.policy.constraints))
    }
}

/// Whether any validating policy may match a write.
pub(crate) fn validates(attempt: &Attempt<'_>) -> bool {
    attempt.call.core.policies.validating.concerns(attempt)
}

/// Whether any mutating policy may match a write.
pub(crate) fn mutates(attempt: &Attempt<'_>) -> bool {
    attempt.call.core.policies.mutating.concerns(attempt)
}

/// One evaluation of a policy: for one binding and one parameter.
struct Invocation<'a, A> {
    policy: &'a Policy<A>,
    binding: &'a Binding,
    /// The resource, in the API version that the policy wants.
    resource: Arc<Resource>,
    parameter: Value,
}

/// A policy's denial of a write.
struct Denial<'a> {
    policy: &'a str,
    binding: Option<&'a Binding>,
    message: String,
    /// The reason returned to the client; empty for the default.
    reason: String,
}

/// Returns the invocations for a write, or the denials caused by errors that are not ignored.
async fn invocations<'a, A: Action>(
    attempt: &Attempt<'_>,
    hooks: &'a [Hook<A>],
    object: &Value,
) -> ApiResult<Vec<Result<Invocation<'a, A>, Denial<'a>>>> {
    let mut all = Vec::new();
    for Hook { policy, bindings } in hooks {
        let Some(resource) = attempt.matches(&policy.constraints, object)? else { continue };
        let obstacle = |binding: Option<&'a Binding>, why: String| {
            let what = if binding.is_some() { "binding" } else { "policy" };
            let message = format!("failed to configure {what}: {why}");
            let denial = Denial { policy: &policy.name, binding, message, reason: String::new() };
            (!policy.ignores_failure).then_some(Err(denial))
        };
        let kind = match parameter_resource(attempt, policy) {
            Ok(kind) => kind,
            Err(why) => {
                all.extend(obstacle(None, why));
                continue;
            }
        };
        for binding in bindings {
            if let Some(constraints) = &binding.constraints
                && attempt.matches(constraints, object)?.is_none()
            {
                continue;
            }
            match parameters(attempt, kind.as_deref(), binding.parameter.as_ref()).await {
                Err(why) => all.extend(obstacle(Some(binding), why)),
                Ok(found) => all.extend(found.into_iter().map(|parameter| {
                    Ok(Invocation { policy, binding, resource: Arc::clone(&resource), parameter })
                })),
            }
        }
    }
    Ok(all)
}

/// Returns the resource of a policy's parameters, if it takes any.
fn parameter_resource<A>(attempt: &Attempt<'_>, policy: &Policy<A>) -> Result<Option<Arc<Resource>>, String> {
    let Some((api_version, kind)) = &policy.parameter else { return Ok(None) };
    let (group, version) = split_api_version(api_version);
    let catalog = attempt.call.core.catalog();
    match catalog.find_kind(group, version, kind) {
        Some(resource) => Ok(Some(Arc::clone(resource))),
        None => {
            let kind = format!("{group}/{version}, Kind={kind}");
            Err(format!("failed to find resource referenced by paramKind: '{kind}'"))
        }
    }
}

/// Returns the parameters of a binding: a single null if the policy takes none.
async fn parameters(
    attempt: &Attempt<'_>,
    resource: Option<&Resource>,
    reference: Option<&Reference>,
) -> Result<Vec<Value>, String> {
    let (Some(resource), Some(reference)) = (resource, reference) else { return Ok(vec![Value::Null]) };
    let namespace = match (resource.namespaced, reference.namespace.as_str()) {
        (false, "") => "",
        (false, _) => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".into());
        }
        (true, "") if attempt.namespace().is_empty() => {
            return Err(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                    .into(),
            );
        }
        (true, "") => attempt.namespace(),
        (true, given) => given,
    };
    let store = &attempt.call.core.store;
    let stored: Vec<Value> = match &reference.selector {
        Some(selector) => {
            let selector = selector.as_ref().map_err(Clone::clone)?;
            let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
            let entries = store.snapshot(&resource.storage, &prefix, None).entries;
            entries.iter().filter(|e| selector.matches(e.labels())).map(|e| resource.read(e)).collect()
        }
        None => store
            .get(&resource.storage, &object::key(namespace, &reference.name))
            .map(|entry| resource.read(&entry))
            .into_iter()
            .collect(),
    };
    if stored.is_empty() && reference.needed {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".into());
    }
    convert::all(resource, stored, &resource.api_version()).await.map_err(|error| error.message.clone())
}

impl<'a, A> Invocation<'a, A> {
    /// Returns the variables of the policy's expressions. The object is in the version the policy wants.
    async fn scope(&self, attempt: &Attempt<'_>, object: &Value) -> ApiResult<Scope<'a>> {
        Ok(Scope {
            object: cel(object),
            old: cel(&attempt.converted(&self.resource, attempt.old).await?),
            request: cel(&attempt.about(&self.resource)),
            parameter: cel(&self.parameter),
            // Match conditions have no namespace object.
            namespace: Cel::Null,
            access: Access::new(attempt),
            variables: Variables::new(&self.policy.variables),
            budget: Budget::new(CONDITIONS_LIMIT),
        })
    }

    /// Whether the match conditions are true; on an error, the failure policy decides.
    fn holds(&self, scope: &mut Scope<'_>) -> Result<bool, Denial<'a>> {
        match scope.holds(&self.policy.conditions) {
            Err(_) if self.policy.ignores_failure => Ok(false),
            Err(why) => Err(self.denial(why, String::new())),
            Ok(holds) => Ok(holds),
        }
    }

    fn denial(&self, message: String, reason: String) -> Denial<'a> {
        Denial { policy: &self.policy.name, binding: Some(self.binding), message, reason }
    }
}

/// Returns the namespace object of a write for expressions.
fn namespace(attempt: &Attempt<'_>) -> Cel {
    match attempt.call.scope() {
        "" => Cel::Null,
        name => cel(&attempt.call.core.store.get("namespaces", name).map(|n| n.value()).unwrap_or_default()),
    }
}
