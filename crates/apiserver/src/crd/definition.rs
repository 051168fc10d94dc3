//! The definition itself: defaults and rules.

use std::cmp::Ordering;

use serde_json::{Value, json};
use steersman_structural::definition;

use super::CLEANUP;
use crate::{
    builtin::{Change, Rules},
    fields::FieldError,
    object,
    status::ApiResult,
    strategy::Hook,
};

/// What is particular to `CustomResourceDefinition`.
pub(crate) struct DefinitionRules;

impl Rules for DefinitionRules {
    fn default(&self, _: &str, object: &mut Value) {
        let spec = object::child(object, "spec");
        let names = object::ensure(spec.entry("names").or_insert(Value::Null));
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut fill = |key: &str, value: String| {
            let slot = names.entry(key).or_insert_with(|| "".into());
            if slot.as_str().unwrap_or_default().is_empty() && !kind.is_empty() {
                *slot = value.into();
            }
        };
        fill("singular", kind.to_lowercase());
        fill("listKind", format!("{kind}List"));
        let conversion = object::ensure(spec.entry("conversion").or_insert(Value::Null));
        conversion.entry("strategy").or_insert_with(|| "None".into());
        let stored = storage_version(object);
        let status = object.get_mut("status").and_then(Value::as_object_mut);
        if let (Some(stored), Some(status)) = (stored, status)
            && status.get("storedVersions").and_then(Value::as_array).is_none_or(Vec::is_empty)
        {
            status.insert("storedVersions".into(), json!([stored]));
        }
    }

    fn prepare_create(&self, _: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        let stored: Vec<String> = storage_version(object).into_iter().collect();
        let root = object::ensure(object);
        root.insert(
            "status".into(),
            json!({"acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored}),
        );
        Ok(())
    }

    fn prepare_update(&self, hook: Hook<'_>, object: &mut Value, _: &Value) -> ApiResult<()> {
        if hook.subresource.is_some() {
            return Ok(());
        }
        let Some(stored) = storage_version(object) else { return Ok(()) };
        let status = object::child(object, "status");
        let list = status.entry("storedVersions").or_insert_with(|| json!([]));
        if let Some(list) = list.as_array_mut()
            && !list.iter().any(|v| *v == stored)
        {
            list.push(stored.into());
        }
        Ok(())
    }

    fn validate(&self, object: &Value, errors: &mut Vec<FieldError>) {
        errors.extend(definition::check(object));
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Vec<FieldError>) {
        change.plain_metadata(errors);
        errors.extend(if change.subresource == Some("status") {
            definition::check_status(change.object)
        } else {
            definition::check_update(change.object, change.old)
        });
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let known = old.map(definition::unrecognized_formats).unwrap_or_default();
        definition::unrecognized_formats(object)
            .into_iter()
            .filter(|format| !known.contains(format))
            .map(|format| format!("unrecognized format {}", crate::status::quote(&format)))
            .collect()
    }
}

fn storage_version(object: &Value) -> Option<String> {
    object["spec"]["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|v| v["storage"] == true)
        .map(|v| v["name"].as_str().unwrap_or_default().to_owned())
}

/// A definition that is deleted keeps its objects from being forgotten.
pub(crate) fn mark_terminating(object: &mut Value, now: &str) {
    if object::is_deleting(object) {
        return;
    }
    let metadata = object::metadata(object);
    metadata.insert("deletionTimestamp".into(), now.into());
    let list = metadata.entry("finalizers").or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut()
        && !list.iter().any(|f| f == CLEANUP)
    {
        list.push(CLEANUP.into());
    }
    let status = object::child(object, "status");
    super::set_condition(
        status,
        "Terminating",
        "True",
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        now,
    );
}

/// Orders versions as the API prefers them: stable before beta before alpha, larger numbers first, other names last.
pub(super) fn compare_versions(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => b.cmp(a),
    }
}

fn parse(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let split = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at(split);
    let major = major.parse().ok()?;
    if rest.is_empty() {
        return Some((2, major, 0));
    }
    let (stage, minor) = match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
        (Some(minor), _) => (1, minor),
        (_, Some(minor)) => (0, minor),
        _ => return None,
    };
    Some((stage, major, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_come_first() {
        let mut versions = ["foo", "v1alpha2", "v1", "v2beta1", "v10", "v1beta1", "bar", "v2"];
        versions.sort_by(|a, b| compare_versions(b, a));
        assert_eq!(versions, ["v10", "v2", "v1", "v2beta1", "v1beta1", "v1alpha2", "bar", "foo"]);
    }
}
