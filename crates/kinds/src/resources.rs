//! Resource names and quantities: requests and limits of containers and pods, and the limits of quotas.

use serde_json::Value;

use crate::check::{Errors, FieldErrors, FieldPath, Read};
use steersman_api::{fields::FieldError, names, schema::quantity};

/// Validates a resource name at a path.
pub(crate) type ValidateName = fn(FieldPath<'_>, &str, &mut Errors);

const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Object counts in quotas, which must be integers.
const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
const REQUESTED: [&str; 7] = [
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "requests.storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

pub(crate) fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified(&format!("requests.{name}")).is_empty()
}

/// Whether the resource can be overcommitted, with requests below limits.
pub(crate) fn is_overcommitted(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// Whether a quota can limit a resource without a domain.
pub(crate) fn is_quota_name(name: &str) -> bool {
    COMPUTE.contains(&name)
        || COUNTED.contains(&name)
        || REQUESTED.contains(&name)
        || is_huge_page(name)
        || name.starts_with("requests.hugepages-")
}

/// Validates a resource name.
pub(crate) fn any_name(at: FieldPath<'_>, name: &str, errors: &mut Errors) {
    let complaints = names::qualified(name);
    if !complaints.is_empty() {
        return errors.all(&at, name, complaints);
    }
    if !name.contains('/') && !is_quota_name(name) && name != "storage" {
        errors.invalid(at, name, "must be a standard resource type or fully qualified");
    }
}

/// Validates the name of a container resource.
pub(crate) fn container_name(at: FieldPath<'_>, name: &str, errors: &mut Errors) {
    any_name(at, name, errors);
    if !name.contains('/') {
        if !COMPUTE.contains(&name) && !is_huge_page(name) {
            errors.invalid(at, name, "must be a standard resource for containers");
        }
    } else if name.split('/').count() > 1 && !is_native(name) && !is_extended(name) {
        errors.invalid(at, name, "doesn't follow extended resource name standard");
    }
}

/// Validates the name of a pod-level resource.
pub(crate) fn pod_name(at: FieldPath<'_>, name: &str, errors: &mut Errors) {
    let before = errors.len();
    any_name(at, name, errors);
    if errors.len() == before && !matches!(name, "cpu" | "memory") && !is_huge_page(name) {
        errors.unsupported(at, name, &["cpu", "hugepages-", "memory"]);
    }
}

/// Validates the name of a resource in a quota.
pub(crate) fn quota_name(at: FieldPath<'_>, name: &str, errors: &mut Errors) {
    any_name(at, name, errors);
    if !name.contains('/') && !is_quota_name(name) {
        errors.invalid(at, name, "must be a standard resource for quota");
    }
}

/// Validates the quantity of a resource.
pub(crate) fn amount(at: FieldPath<'_>, name: &str, amount: &Value, errors: &mut Errors) {
    let text = amount.as_str().unwrap_or_default();
    if quantity::is_negative(text) {
        errors.invalid(at, text, crate::check::NEGATIVE);
    }
    if (COUNTED.contains(&name) || is_extended(name)) && !quantity::is_whole(text) {
        errors.invalid(at, text, "must be an integer");
    }
}

/// Validates requests, limits and claims.
pub(crate) fn requirements(
    at: FieldPath<'_>,
    requirements: &Value,
    validate_name: ValidateName,
    claims: &[&str],
    errors: &mut Errors,
) {
    let (limits_at, requests_at) = (at.field("limits"), at.field("requests"));
    let (mut computes, mut huge) = (false, false);
    let mut each = |at: FieldPath<'_>, name: &str, value: &Value, errors: &mut Errors| {
        validate_name(at, name, errors);
        amount(at, name, value, errors);
        computes |= matches!(name, "cpu" | "memory");
        if is_huge_page(name) {
            huge = true;
            huge_page(at, name, value.as_str().unwrap_or_default(), errors);
        }
    };
    for (name, value) in requirements.pairs("limits") {
        each(limits_at.key(name), name, value, errors);
    }
    for (name, value) in requirements.pairs("requests") {
        each(requests_at.key(name), name, value, errors);
        let text = value.as_str().unwrap_or_default();
        match requirements.at("limits").opt_str(name) {
            Some(limit) => {
                let (asked, most) = (quantity::nanos(text), quantity::nanos(limit));
                if asked != most && !is_overcommitted(name) {
                    errors.invalid(requests_at, text, format!("must be equal to {name} limit of {limit}"));
                } else if asked > most {
                    let why = format!("must be less than or equal to {name} limit of {limit}");
                    errors.invalid(requests_at, text, why);
                }
            }
            None if !is_overcommitted(name) => {
                errors.required(limits_at, "Limit must be set for non overcommitable resources");
            }
            None => {}
        }
    }
    if huge && !computes {
        errors.forbidden(at, "HugePages require cpu or memory");
    }
    claim_names(at.field("claims"), requirements.list("claims"), claims, errors);
}

fn huge_page(at: FieldPath<'_>, name: &str, text: &str, errors: &mut Errors) {
    let size = quantity::nanos(name.strip_prefix("hugepages-").unwrap_or_default());
    let unit = 1_000_000_000;
    let divisible = size > 0 && size % unit == 0 && quantity::whole(text) % (size / unit) == 0;
    if !divisible {
        errors.invalid(at, text, format!("{text} is not positive integer multiple of {name}"));
    }
}

fn claim_names(at: FieldPath<'_>, claims: &[Value], known: &[&str], errors: &mut Errors) {
    let mut seen: Vec<String> = Vec::new();
    for (index, claim) in claims.iter().enumerate() {
        let at = at.index(index);
        let (name, request) = (claim.str("name"), claim.str("request"));
        if name.is_empty() {
            errors.required(at, "");
            continue;
        }
        if seen.iter().any(|other| other == name) {
            errors.duplicate(at, name);
        } else {
            let mut key = name.to_owned();
            if !request.is_empty() {
                errors.all(&at.field("request"), request, names::label(request));
                key = format!("{name}/{request}");
            }
            if seen.contains(&key) {
                errors.duplicate(at, key.as_str());
            } else if request.is_empty() {
                let whole = seen.iter().filter(|other| other.split_once('/').is_some_and(|(n, _)| n == name));
                for _ in whole {
                    errors.duplicate(at, name);
                }
            }
            seen.push(key);
        }
        if !known.contains(&name) {
            let mut error = FieldError::not_found(at, name);
            let mut sorted = known.to_vec();
            sorted.sort_unstable();
            error.detail = "must be one of the names in pod.spec.resourceClaims".to_owned();
            error.detail.push_str(&if sorted.is_empty() {
                " which is empty".to_owned()
            } else {
                format!(": {}", sorted.join(", "))
            });
            errors.push(error);
        }
    }
}

/// Validates pod-level resources, also against those of the containers.
pub(crate) fn of_pod(at: FieldPath<'_>, spec: &Value, claims: &[&str], errors: &mut Errors) {
    let Some(resources) = spec.opt("resources") else { return };
    let at = at.field("resources");
    if spec.at("os").str("name") == "windows" {
        return errors.forbidden(at, "may not be set for a windows pod");
    }
    if resources.opt("claims").is_some() {
        errors.forbidden(at.field("claims"), "claims may not be set for Resources at pod-level");
    }
    requirements(at, resources, pod_name, claims, errors);
    for (name, asked) in resources.pairs("requests") {
        let sum = total(spec, "requests", name);
        let asked = asked.as_str().unwrap_or_default();
        if sum > quantity::nanos(asked) {
            let place = at.field("requests");
            let shown = quantity::show(sum, name != "cpu" && !is_decimal(spec, name));
            let why = format!("must be greater than or equal to aggregate container requests of {shown}");
            errors.invalid(place.key(name), asked, why);
        }
    }
    for (index, container) in spec.list("containers").iter().enumerate() {
        for (name, limit) in container.at("resources").pairs("limits") {
            let Some(most) = resources.at("limits").opt_str(name) else { continue };
            let limit = limit.as_str().unwrap_or_default();
            if quantity::nanos(limit) > quantity::nanos(most) {
                let place = format!("{at}.containers[{index}][{name}].limits");
                errors.invalid(place, limit, format!("must be less than or equal to pod limits of {most}"));
            }
        }
    }
}

/// Whether the first container that requests this resource does so with a decimal suffix.
fn is_decimal(spec: &Value, name: &str) -> bool {
    let first = spec.list("containers").iter().find_map(|c| c.path(&["resources", "requests"]).opt_str(name));
    first.is_some_and(|text| !text.ends_with('i'))
}

/// Returns the total of a pod's containers, including init containers and sidecars.
fn total(spec: &Value, list: &str, name: &str) -> i128 {
    let of = |container: &Value| quantity::nanos(container.path(&["resources", list]).str(name));
    let main: i128 = spec.list("containers").iter().map(of).sum();
    let (mut beside, mut before) = (0, 0);
    for container in spec.list("initContainers") {
        if container.opt_str("restartPolicy") == Some("Always") {
            beside += of(container);
            before = before.max(beside);
        } else {
            before = before.max(of(container) + beside);
        }
    }
    before.max(main + beside)
}
