//! Privilege escalation prevention: users cannot grant rights that they do not have.

use serde_json::Value;

use steersman_api::{
    object,
    status::{ApiError, ApiResult, Reason, aggregate, quote},
};

use super::{GROUP, MASTERS, Rule, Unresolved, quote_list, role_of, rule};
use crate::{
    auth::{Attributes, Decision},
    call::Call,
};

/// Rejects a role or binding that grants more than the caller has.
///
/// `object` is new, or an update of `old`; both are in the version of the request, and `requested` is the name in its
/// path. `is_versioned` is whether the client sent a resourceVersion; without one, an update is never treated as a
/// no-op.
pub(crate) fn check(
    call: &Call,
    object: &Value,
    old: Option<&Value>,
    requested: &str,
    is_versioned: bool,
) -> ApiResult<()> {
    if call.resource.group != GROUP || call.user.is_in(MASTERS) {
        return Ok(());
    }
    if is_versioned && old.is_some_and(|old| only_releases(object, old)) {
        return Ok(());
    }
    match call.resource.plural.as_str() {
        "roles" | "clusterroles" => role(call, object, old, requested),
        "rolebindings" | "clusterrolebindings" => binding(call, object),
        _ => Ok(()),
    }
}

/// Whether an update changes at most what garbage collection does: owner references and finalizers.
fn only_releases(object: &Value, old: &Value) -> bool {
    let stripped = |value: &Value| {
        let mut value = value.clone();
        let metadata = object::metadata(&mut value);
        for field in ["ownerReferences", "finalizers", "managedFields", "resourceVersion"] {
            metadata.remove(field);
        }
        value
    };
    stripped(object) == stripped(old)
}

fn role(call: &Call, object: &Value, old: Option<&Value>, requested: &str) -> ApiResult<()> {
    let asked = Attributes {
        verb: "escalate",
        group: GROUP,
        version: "*",
        resource: &call.resource.plural,
        namespace: call.scope(),
        name: requested,
        ..Attributes::default()
    };
    if call.core.authorizer.authorize(&call.user, &asked) == Decision::Allow {
        return Ok(());
    }
    let rules: Vec<Rule> =
        object.get("rules").and_then(|rules| serde_json::from_value(rules.clone()).ok()).unwrap_or_default();
    confirm(call, object, &rules)?;
    let aggregates = |role: &Value| {
        role.pointer("/aggregationRule/clusterRoleSelectors")
            .and_then(Value::as_array)
            .is_some_and(|selectors| !selectors.is_empty())
    };
    if (aggregates(object) || old.is_some_and(aggregates))
        && !shortfall(call, &Rule::full_authority()).0.is_empty()
    {
        let why = "must have cluster-admin privileges to use the aggregationRule";
        return Err(ApiError::forbidden(GROUP, &call.resource.plural, object::name(object), why));
    }
    Ok(())
}

fn binding(call: &Call, object: &Value) -> ApiResult<()> {
    let role = role_of(object);
    let resource = match role.kind.as_str() {
        "ClusterRole" => "clusterroles",
        "Role" => "roles",
        _ => "",
    };
    let asked = Attributes {
        verb: "bind",
        group: object::text(object, &["roleRef", "apiGroup"]).unwrap_or_default(),
        version: "*",
        resource,
        namespace: call.scope(),
        name: &role.name,
        ..Attributes::default()
    };
    if !resource.is_empty() && call.core.authorizer.authorize(&call.user, &asked) == Decision::Allow {
        return Ok(());
    }
    let rules = call.core.rbac.rules(&role, call.scope()).map_err(|error| match &error {
        Unresolved::Missing { resource, name } => {
            ApiError::new(http::StatusCode::NOT_FOUND, Reason::NotFound, error.to_string())
                .about(GROUP, resource, name)
        }
        Unresolved::Kind(_) => ApiError::unforeseen(error.to_string()),
    })?;
    confirm(call, object, &rules)
}

/// Returns which of `rules` the caller lacks, and the roles that could not be resolved.
fn shortfall(call: &Call, rules: &[Rule]) -> (Vec<String>, Vec<Unresolved>) {
    let (owned, errors) = call.core.rbac.rules_of(&call.user, call.scope());
    (rule::missing(&owned, rules), errors)
}

fn confirm(call: &Call, object: &Value, rules: &[Rule]) -> ApiResult<()> {
    let (missing, errors) = shortfall(call, rules);
    if missing.is_empty() {
        return Ok(());
    }
    let mut why = format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        quote(&call.user.name),
        quote_list(&call.user.groups),
        missing.join("\n")
    );
    if !errors.is_empty() {
        why.push_str(&format!("; resolution errors: [{}]", aggregate(&errors)));
    }
    Err(ApiError::forbidden(GROUP, &call.resource.plural, object::name(object), &why))
}
