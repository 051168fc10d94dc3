//! Access to policy parameters: the server reads them with its own rights, so authors need them too.

use serde_json::Value;

use steersman_api::{fields::FieldError, object};

use super::{Attributes, Decision, User, rbac::MASTERS};
use crate::{call::Call, catalog::split_api_version};

const GROUP: &str = "admissionregistration.k8s.io";

/// Checks access to the parameters of an otherwise valid admission policy or binding.
///
/// `object` is new, or an update of `old`.
pub(crate) fn check(call: &Call, object: &Value, old: Option<&Value>) -> Option<FieldError> {
    if call.resource.group != GROUP || call.user.is_in(MASTERS) || call.subresource.is_some() {
        return None;
    }
    match call.resource.plural.as_str() {
        "validatingadmissionpolicies" | "mutatingadmissionpolicies" => policy(call, object, old),
        "validatingadmissionpolicybindings" => binding(call, object, "validatingadmissionpolicies"),
        "mutatingadmissionpolicybindings" => binding(call, object, "mutatingadmissionpolicies"),
        _ => None,
    }
}

fn policy(call: &Call, object: &Value, old: Option<&Value>) -> Option<FieldError> {
    let kind = object::get(object, &["spec", "paramKind"]).filter(|kind| kind.is_object())?;
    if old.is_some_and(|old| object::get(old, &["spec", "paramKind"]) == Some(kind)) {
        return None;
    }
    let (target, _) = Target::of(call, kind);
    if target.allows(call, "get", "*", "*") {
        return None;
    }
    let text = |field: &str| kind[field].as_str().unwrap_or_default();
    Some(FieldError::forbidden(
        "spec.paramKind",
        format!(
            "user {} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={})",
            shown(&call.user),
            text("kind"),
            text("apiVersion")
        ),
    ))
}

fn binding(call: &Call, object: &Value, policies: &str) -> Option<FieldError> {
    let reference = object::get(object, &["spec", "paramRef"]).filter(|reference| reference.is_object())?;
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let verb = if text("name").is_empty() { "list" } else { "get" };
    let name = object::text(object, &["spec", "policyName"]).unwrap_or_default();
    let policy = call.core.store.get(&format!("{policies}.{GROUP}"), name).map(|entry| entry.value());
    let kind = policy.as_ref().and_then(|policy| object::get(policy, &["spec", "paramKind"]));
    let (target, resolved) = match kind.filter(|kind| kind.is_object()) {
        Some(kind) => Target::of(call, kind),
        None => (Target::all(), true),
    };
    if target.allows(call, verb, text("namespace"), text("name")) {
        return None;
    }
    let user = shown(&call.user);
    let everything = "permission for all groups, versions and resources";
    let why = if policy.is_none() {
        format!(
            "unable to get policy {name} to determine minimum required permissions and user {user} does not have \"{verb}\" {everything}"
        )
    } else if !resolved {
        let kind = kind.unwrap_or(&Value::Null);
        let field = |field: &str| kind[field].as_str().unwrap_or_default().to_owned();
        format!(
            "unable to resolve paramKind &{{{} {}}} to determine minimum required permissions and user {user} does not have \"{verb}\" {everything}",
            field("apiVersion"),
            field("kind")
        )
    } else if policies.starts_with("mutating") {
        // The real server swaps the two here.
        format!("user {verb} does not have \"{user}\" permission on the object referenced by paramRef")
    } else {
        format!("user {user} does not have \"{verb}\" permission on the object referenced by paramRef")
    };
    Some(FieldError::forbidden("spec.paramRef", why))
}

/// The parameters that must be readable: everything, unless narrowed.
struct Target {
    group: String,
    version: String,
    resource: String,
}

impl Target {
    fn all() -> Self {
        Self { group: "*".into(), version: "*".into(), resource: "*".into() }
    }

    /// Returns the resource of a `paramKind`, and whether it is served.
    fn of(call: &Call, kind: &Value) -> (Self, bool) {
        let text = |field: &str| kind[field].as_str().unwrap_or_default();
        let (group, version) = split_api_version(text("apiVersion"));
        let catalog = call.core.catalog();
        let found = catalog.find_kind(group, version, text("kind"));
        let resource = found.map_or_else(|| "*".to_owned(), |found| found.plural.clone());
        (Self { group: group.to_owned(), version: version.to_owned(), resource }, found.is_some())
    }

    fn allows(&self, call: &Call, verb: &str, namespace: &str, name: &str) -> bool {
        let asked = Attributes {
            verb,
            group: &self.group,
            version: &self.version,
            resource: &self.resource,
            namespace,
            name,
            ..Attributes::default()
        };
        call.core.authorizer.authorize(&call.user, &asked) == Decision::Allow
    }
}

/// Formats a user as Go prints it.
fn shown(user: &User) -> String {
    let pairs: Vec<String> =
        user.extra.iter().map(|(key, values)| format!("{key}:[{}]", values.join(" "))).collect();
    format!("&{{{} {} [{}] map[{}]}}", user.name, user.uid, user.groups.join(" "), pairs.join(" "))
}
