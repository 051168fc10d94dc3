//! Validation of `metadata`, common to all kinds.

use std::collections::HashSet;

use serde_json::Value;

use crate::{fields::FieldError, names, object};

/// Validates the metadata of a new or changed object.
pub fn validate(object: &Value, rule: names::NameRule, namespaced: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let generate = object::meta_text(object, "generateName");
    if !generate.is_empty() {
        for complaint in names::check(rule, generate, true) {
            errors.push(FieldError::invalid("metadata.generateName", generate, complaint));
        }
    }
    let name = object::name(object);
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        for complaint in names::check(rule, name, false) {
            errors.push(FieldError::invalid("metadata.name", name, complaint));
        }
    }
    let namespace = object::namespace(object);
    if namespaced {
        if namespace.is_empty() {
            errors.push(FieldError::required("metadata.namespace", ""));
        } else {
            for complaint in names::label(namespace) {
                errors.push(FieldError::invalid("metadata.namespace", namespace, complaint));
            }
        }
    } else if !namespace.is_empty() {
        errors.push(FieldError::forbidden("metadata.namespace", "not allowed on this type"));
    }
    if object::generation(object) < 0 {
        errors.push(FieldError::invalid(
            "metadata.generation",
            object::generation(object),
            "must be greater than or equal to 0",
        ));
    }
    labels(object, "metadata.labels", &["metadata", "labels"], &mut errors);
    annotations(object, &mut errors);
    owners(object, &mut errors);
    finalizers(object, &mut errors);
    errors
}

fn pairs<'a>(object: &'a Value, path: &[&str]) -> Vec<(&'a str, &'a str)> {
    object::get(object, path)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(k, v)| (k.as_str(), v.as_str().unwrap_or_default()))
        .collect()
}

/// Validates the labels at `path`; errors refer to it as `field`.
pub fn labels(object: &Value, field: &str, path: &[&str], errors: &mut Vec<FieldError>) {
    for (key, value) in pairs(object, path) {
        for complaint in names::qualified(key) {
            errors.push(FieldError::invalid(field, key, complaint));
        }
        for complaint in names::label_value(value) {
            errors.push(FieldError::invalid(field, value, complaint));
        }
    }
}

const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// Validates the annotations of an object.
pub fn annotations(object: &Value, errors: &mut Vec<FieldError>) {
    let mut size = 0;
    for (key, value) in pairs(object, &["metadata", "annotations"]) {
        for complaint in names::qualified(&key.to_lowercase()) {
            errors.push(FieldError::invalid("metadata.annotations", key, complaint));
        }
        size += key.len() + value.len();
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(FieldError::too_long("metadata.annotations", ANNOTATIONS_LIMIT));
    }
}

fn owners(object: &Value, errors: &mut Vec<FieldError>) {
    let field = "metadata.ownerReferences";
    let Some(list) = object::get(object, &["metadata", "ownerReferences"]).and_then(Value::as_array) else {
        return;
    };
    let mut controller: Option<String> = None;
    let mut shown: Option<String> = None;
    for owner in list {
        let text = |key| object::text(owner, &[key]).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let parts = api_version.matches('/').count();
        if api_version.is_empty() || api_version.ends_with('/') || parts > 1 {
            errors.push(FieldError::invalid(
                format!("{field}.apiVersion"),
                api_version,
                "version must not be empty",
            ));
        }
        for (key, value) in [("kind", kind), ("name", text("name")), ("uid", text("uid"))] {
            if value.is_empty() {
                errors.push(FieldError::invalid(format!("{field}.{key}"), value, "must not be empty"));
            }
        }
        if (api_version, kind) == ("v1", "Event") {
            errors.push(FieldError::invalid(
                field,
                owner.clone(),
                "/v1, Kind=Event is disallowed from being an owner",
            ));
        }
        if owner.get("controller").and_then(Value::as_bool) == Some(true) {
            let this = format!("{kind}/{}", text("name"));
            match &controller {
                None => controller = Some(this),
                Some(first) => errors.push(FieldError::invalid_shown(
                    field,
                    shown.get_or_insert_with(|| shown_owners(list)).clone(),
                    format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                    ),
                )),
            }
        }
    }
}

/// Formats owner references like kube-apiserver, in Go's field order.
fn shown_owners(owners: &[Value]) -> String {
    let shown = owners.iter().map(|owner| {
        // Strings are written even if empty, booleans only if set.
        let texts = ["apiVersion", "kind", "name", "uid"].map(|field| {
            let text = object::text(owner, &[field]).unwrap_or_default();
            format!("\"{field}\":{}", Value::from(text))
        });
        let flags = ["controller", "blockOwnerDeletion"].into_iter().filter_map(|field| {
            let flag = owner.get(field)?.as_bool()?;
            Some(format!("\"{field}\":{flag}"))
        });
        format!("{{{}}}", texts.into_iter().chain(flags).collect::<Vec<_>>().join(","))
    });
    format!("[{}]", shown.collect::<Vec<_>>().join(","))
}

/// Removes duplicate owner references, and returns the warning about them.
pub fn merge_owners(object: &mut Value, after_admission: bool) -> Option<String> {
    let owners = object.get_mut("metadata")?.get_mut("ownerReferences")?.as_array_mut()?;
    let mut repeated = Vec::new();
    let mut seen = HashSet::with_capacity(owners.len());
    let mut kept: Vec<Value> = Vec::with_capacity(owners.len());
    for owner in owners.drain(..) {
        let uid = object::text(&owner, &["uid"]).unwrap_or_default();
        // Duplicates have the same uid, so only those are compared.
        if seen.insert(uid.to_owned()) || !kept.contains(&owner) {
            kept.push(owner);
        } else {
            repeated.push(uid.to_owned());
        }
    }
    *owners = kept;
    let when = if after_admission { " after mutating admission happens" } else { "" };
    (!repeated.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            repeated.join(", ")
        )
    })
}

/// Standard finalizers, which have no domain.
const PLAIN_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// Reports finalizers that are neither standard nor qualified. Used by built-in kinds, not by custom resources.
pub fn known_finalizers(object: &Value, errors: &mut Vec<FieldError>) {
    for (index, name) in object::finalizers(object).into_iter().enumerate() {
        if !name.contains('/') && !PLAIN_FINALIZERS.contains(&name) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(format!("metadata.finalizers[{index}]"), name, detail));
        }
    }
}

fn finalizers(object: &Value, errors: &mut Vec<FieldError>) {
    let list = object::finalizers(object);
    for name in &list {
        for complaint in names::qualified(name) {
            errors.push(FieldError::invalid("metadata.finalizers", *name, complaint));
        }
    }
    if list.contains(&"orphan") && list.contains(&"foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid("metadata.finalizers", serde_json::json!(list), detail));
    }
}

/// Validates an update of metadata.
pub fn validate_update(object: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if object::is_deleting(old) {
        let before = object::finalizers(old);
        let mut extra: Vec<&str> =
            object::finalizers(object).into_iter().filter(|f| !before.contains(f)).collect();
        extra.sort_unstable();
        if !extra.is_empty() {
            let list: Vec<String> = extra.iter().map(|f| crate::status::quote(f)).collect();
            errors.push(FieldError::forbidden(
                "metadata.finalizers",
                format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    list.join(", ")
                ),
            ));
        }
    }
    for field in
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
    {
        let (now, then) = (&object["metadata"][field], &old["metadata"][field]);
        if now != then {
            errors.push(FieldError::invalid(format!("metadata.{field}"), now.clone(), "field is immutable"));
        }
    }
    labels(object, "metadata.labels", &["metadata", "labels"], &mut errors);
    annotations(object, &mut errors);
    owners(object, &mut errors);
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn owners_that_are_the_same_are_merged() {
        let owner =
            |name: &str, uid: &str| json!({"apiVersion": "v1", "kind": "K", "name": name, "uid": uid});
        let owners = [owner("a", "1"), owner("b", "1"), owner("a", "1"), owner("a", "2"), owner("b", "1")];
        let mut object = json!({"metadata": {"ownerReferences": owners}});
        let said = merge_owners(&mut object, false).unwrap_or_default();
        assert!(said.ends_with("duplicate UID(s) observed: 1, 1"), "{said}");
        let kept = json!([owner("a", "1"), owner("b", "1"), owner("a", "2")]);
        assert_eq!(object["metadata"]["ownerReferences"], kept);
        assert_eq!(merge_owners(&mut object, true), None);
    }

    #[test]
    fn many_owners_are_compared_by_their_uids() {
        let owners: Vec<Value> =
            (0..50_000).map(|uid| json!({"name": "a", "uid": uid.to_string()})).collect();
        let mut object = json!({"metadata": {"ownerReferences": owners}});
        let started = std::time::Instant::now();
        assert_eq!(merge_owners(&mut object, false), None);
        // Comparing every pair would take minutes.
        assert!(started.elapsed().as_secs() < 10);
    }
}
