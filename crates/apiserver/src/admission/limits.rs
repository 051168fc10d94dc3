//! `LimitRange`: default requests and limits of containers, and bounds on them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use steersman_api::{
    object,
    schema::quantity,
    status::{ApiError, ApiResult, aggregate},
};

use super::{Attempt, Operation};

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Quantities by resource name, as written.
type Amounts = Map<String, Value>;

/// Returns the limit ranges of the namespace, if the write is subject to them.
fn ranges(attempt: &Attempt<'_>) -> Vec<Value> {
    let Attempt { call, operation, old, .. } = *attempt;
    let pods = match (call.resource.group.as_str(), call.resource.plural.as_str()) {
        ("", "pods") => true,
        ("", "persistentvolumeclaims") => false,
        _ => return Vec::new(),
    };
    let concerned = match (operation, call.subresource_name()) {
        (Operation::Create, "") => true,
        // Container resources change only by resize, but claims can grow.
        (Operation::Update, "resize") => pods && !old.is_some_and(object::is_deleting),
        (Operation::Update, "") => !pods && !old.is_some_and(object::is_deleting),
        _ => false,
    };
    if !concerned {
        return Vec::new();
    }
    let prefix = format!("{}/", call.scope());
    call.core.store.snapshot("limitranges", &prefix, None).entries.iter().map(|entry| entry.value()).collect()
}

fn limits<'a>(range: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    let all = object::get(range, &["spec", "limits"]).and_then(Value::as_array).into_iter().flatten();
    all.filter(move |limit| limit["type"] == kind)
}

fn amounts(value: &Value) -> Amounts {
    value.as_object().cloned().unwrap_or_default()
}

/// Sets default requests and limits on the containers of a new or resized pod.
pub(super) fn mutate(attempt: &Attempt<'_>, pod: &mut Value) {
    if attempt.call.resource.plural != "pods" {
        return;
    }
    for range in ranges(attempt) {
        let mut notes = Vec::new();
        for (list, kind) in [("containers", "container"), ("initContainers", "init container")] {
            let containers = object::child(pod, "spec").get_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                fill(&range, container, kind, &mut notes);
            }
        }
        if !notes.is_empty() {
            let text = format!("LimitRanger plugin set: {}", notes.join("; "));
            let annotations = object::metadata(pod).entry("annotations").or_insert_with(|| json!({}));
            object::ensure(annotations).insert(ANNOTATION.into(), text.into());
        }
    }
}

fn fill(range: &Value, container: &mut Value, kind: &str, notes: &mut Vec<String>) {
    let name = object::text(container, &["name"]).unwrap_or_default().to_owned();
    for (default, field, word) in [("defaultRequest", "requests", "request"), ("default", "limits", "limit")]
    {
        let mut set = Vec::new();
        for limit in limits(range, "Container") {
            for (resource, amount) in amounts(&limit[default]) {
                let resources = object::child(container, "resources").entry(field).or_insert(Value::Null);
                let given = object::ensure(resources);
                if !given.contains_key(&resource) {
                    given.insert(resource.clone(), amount);
                    set.push(resource);
                }
            }
        }
        if !set.is_empty() {
            set.sort();
            notes.push(format!("{} {word} for {kind} {name}", set.join(", ")));
        }
    }
}

/// Rejects objects that exceed a maximum or fall below a minimum.
pub(super) fn validate(attempt: &Attempt<'_>, object: &Value) -> ApiResult<()> {
    let resource = &attempt.call.resource;
    for range in ranges(attempt) {
        let mut errors = Vec::new();
        if resource.plural == "pods" {
            for list in ["containers", "initContainers"] {
                let containers = object::get(object, &["spec", list]).and_then(Value::as_array);
                for container in containers.into_iter().flatten() {
                    let resources = &container["resources"];
                    let (requests, most) = (amounts(&resources["requests"]), amounts(&resources["limits"]));
                    check(&range, "Container", &requests, &most, &mut errors);
                }
            }
            check(&range, "Pod", &total(object, "requests"), &total(object, "limits"), &mut errors);
        } else {
            let requests =
                amounts(object::get(object, &["spec", "resources", "requests"]).unwrap_or(&Value::Null));
            check_claim(&range, &requests, &mut errors);
        }
        if !errors.is_empty() {
            let why = aggregate(&errors);
            return Err(ApiError::forbidden(&resource.group, &resource.plural, attempt.name, &why));
        }
    }
    Ok(())
}

/// Returns a pod's effective resources: the sum of its containers, or the init container peak if larger.
/// Pod-level resources take precedence.
fn total(pod: &Value, field: &str) -> Amounts {
    let each = |list: &str| -> Vec<(Amounts, bool)> {
        let containers = object::get(pod, &["spec", list]).and_then(Value::as_array);
        let one = |c: &Value| (amounts(&c["resources"][field]), c["restartPolicy"] == "Always");
        containers.into_iter().flatten().map(one).collect()
    };
    let mut sum: BTreeMap<String, (i128, bool)> = BTreeMap::new();
    let add = |to: &mut BTreeMap<String, (i128, bool)>, amounts: &Amounts| {
        for (resource, amount) in amounts {
            let text = amount.as_str().unwrap_or_default();
            let entry = to.entry(resource.clone()).or_insert((0, text.ends_with('i')));
            entry.0 += quantity::nanos(text);
        }
    };
    for (amounts, _) in each("containers") {
        add(&mut sum, &amounts);
    }
    // Restartable init containers (sidecars) run alongside all that follow.
    let (mut staying, mut peak) = (BTreeMap::new(), BTreeMap::<String, (i128, bool)>::new());
    for (amounts, stays) in each("initContainers") {
        let mut now = staying.clone();
        add(&mut now, &amounts);
        if stays {
            add(&mut sum, &amounts);
            staying = now.clone();
        }
        for (resource, amount) in now {
            let entry = peak.entry(resource).or_insert(amount);
            entry.0 = entry.0.max(amount.0);
        }
    }
    for (resource, amount) in peak {
        let entry = sum.entry(resource).or_insert(amount);
        entry.0 = entry.0.max(amount.0);
    }
    let mut total: Amounts = sum
        .into_iter()
        .map(|(resource, (nanos, binary))| (resource, quantity::show(nanos, binary).into()))
        .collect();
    let own = object::get(pod, &["spec", "resources", field]).map(amounts).unwrap_or_default();
    total.extend(own);
    total
}

fn text<'a>(amounts: &'a Amounts, resource: &str) -> Option<&'a str> {
    amounts.get(resource)?.as_str()
}

fn check(range: &Value, kind: &str, requests: &Amounts, most: &Amounts, errors: &mut Vec<String>) {
    for limit in limits(range, kind) {
        for (resource, bound) in amounts(&limit["min"]) {
            let bound = bound.as_str().unwrap_or_default();
            errors.extend(below(kind, &resource, bound, text(requests, &resource), text(most, &resource)));
        }
        for (resource, bound) in amounts(&limit["max"]) {
            let bound = bound.as_str().unwrap_or_default();
            let (request, limit) = (text(requests, &resource), text(most, &resource));
            let rule = format!("maximum {resource} usage per {kind} is {bound}");
            let above = |amount: &str| quantity::nanos(amount) > quantity::nanos(bound);
            match (limit, request) {
                (None, _) => errors.push(format!("{rule}.  No limit is specified")),
                (Some(limit), _) if above(limit) => errors.push(format!("{rule}, but limit is {limit}")),
                (_, Some(request)) if above(request) => {
                    errors.push(format!("{rule}, but request is {request}"));
                }
                _ => {}
            }
        }
        for (resource, bound) in amounts(&limit["maxLimitRequestRatio"]) {
            let bound = bound.as_str().unwrap_or_default();
            errors.extend(ratio(kind, &resource, bound, text(requests, &resource), text(most, &resource)));
        }
    }
}

fn below(
    kind: &str,
    resource: &str,
    bound: &str,
    request: Option<&str>,
    limit: Option<&str>,
) -> Option<String> {
    let rule = format!("minimum {resource} usage per {kind} is {bound}");
    let below = |amount: &str| quantity::nanos(amount) < quantity::nanos(bound);
    match (request, limit) {
        (None, _) => Some(format!("{rule}.  No request is specified")),
        (Some(request), _) if below(request) => Some(format!("{rule}, but request is {request}")),
        (_, Some(limit)) if below(limit) => Some(format!("{rule}, but limit is {limit}")),
        _ => None,
    }
}

fn ratio(
    kind: &str,
    resource: &str,
    bound: &str,
    request: Option<&str>,
    limit: Option<&str>,
) -> Option<String> {
    let rule = format!("{resource} max limit to request ratio per {kind} is {bound}");
    let amount = |text: Option<&str>| quantity::nanos(text.unwrap_or_default());
    let (request, limit) = (amount(request), amount(limit));
    if request == 0 {
        return Some(format!("{rule}, but no request is specified or request is 0"));
    }
    if limit == 0 {
        return Some(format!("{rule}, but no limit is specified or limit is 0"));
    }
    // Amounts are far below the precision limit of a float, and the ratio is shown with six digits.
    #[allow(clippy::cast_precision_loss)]
    let (ratio, most) = (limit as f64 / request as f64, quantity::nanos(bound) as f64 / 1e9);
    (ratio > most).then(|| format!("{rule}, but provided ratio is {ratio:.6}"))
}

fn check_claim(range: &Value, requests: &Amounts, errors: &mut Vec<String>) {
    const KIND: &str = "PersistentVolumeClaim";
    for limit in limits(range, KIND) {
        for (resource, bound) in amounts(&limit["min"]) {
            let bound = bound.as_str().unwrap_or_default();
            errors.extend(below(KIND, &resource, bound, text(requests, &resource), None));
        }
        for (resource, bound) in amounts(&limit["max"]) {
            let bound = bound.as_str().unwrap_or_default();
            let rule = format!("maximum {resource} usage per {KIND} is {bound}");
            match text(requests, &resource) {
                None => errors.push(format!("{rule}.  No request is specified")),
                Some(request) if quantity::nanos(request) > quantity::nanos(bound) => {
                    errors.push(format!("{rule}, but request is {request}"));
                }
                Some(_) => {}
            }
        }
    }
}
