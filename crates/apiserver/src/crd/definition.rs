//! The definition itself: defaults and rules.

use std::cmp::Ordering;

use serde_json::{Value, json};

use super::CLEANUP;
use crate::{builtin::Rules, fields::FieldError, names, object, status::ApiResult, strategy::Hook};

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
    }

    fn prepare_create(&self, _: Hook<'_>, object: &mut Value) -> ApiResult<()> {
        let stored = storage_version(object);
        let root = object::ensure(object);
        root.insert(
            "status".into(),
            json!({"acceptedNames": {"plural": "", "kind": ""}, "storedVersions": [stored]}),
        );
        Ok(())
    }

    fn prepare_update(&self, hook: Hook<'_>, object: &mut Value, _: &Value) -> ApiResult<()> {
        if hook.subresource.is_some() {
            return Ok(());
        }
        let stored = storage_version(object);
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
        let text = |path: &[&str]| object::text(object, path).unwrap_or_default();
        let (group, plural) = (text(&["spec", "group"]), text(&["spec", "names", "plural"]));
        if group.is_empty() {
            errors.push(FieldError::required("spec.group", ""));
        } else {
            for complaint in names::subdomain(group) {
                errors.push(FieldError::invalid("spec.group", group, complaint));
            }
            if !group.contains('.') {
                errors.push(FieldError::invalid(
                    "spec.group",
                    group,
                    "should be a domain with at least one dot",
                ));
            }
        }
        if object::name(object) != format!("{plural}.{group}") {
            errors.push(FieldError::invalid(
                "metadata.name",
                object::name(object),
                "must be spec.names.plural+\".\"+spec.group",
            ));
        }
        match text(&["spec", "scope"]) {
            "" => errors.push(FieldError::required("spec.scope", "")),
            "Namespaced" | "Cluster" => {}
            other => errors.push(FieldError::not_supported("spec.scope", other, &["Cluster", "Namespaced"])),
        }
        for field in ["plural", "singular", "kind", "listKind"] {
            let value = text(&["spec", "names", field]);
            let path = format!("spec.names.{field}");
            if value.is_empty() {
                errors.push(FieldError::required(path, ""));
            } else {
                for complaint in names::label_1035(&value.to_lowercase()) {
                    errors.push(FieldError::invalid(path.clone(), value, complaint));
                }
            }
        }
        versions(object, errors);
    }
}

fn storage_version(object: &Value) -> String {
    object["spec"]["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|v| v["storage"] == true)
        .and_then(|v| v["name"].as_str())
        .unwrap_or_default()
        .to_owned()
}

fn versions(object: &Value, errors: &mut Vec<FieldError>) {
    let list = object["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if list.is_empty() {
        errors.push(FieldError::required("spec.versions", ""));
        return;
    }
    if list.iter().filter(|v| v["storage"] == true).count() != 1 {
        errors.push(FieldError::invalid(
            "spec.versions",
            object["spec"]["versions"].clone(),
            "must have exactly one version marked as storage version",
        ));
    }
    let mut seen: Vec<&str> = Vec::new();
    for (index, version) in list.iter().enumerate() {
        let path = format!("spec.versions[{index}]");
        let name = version["name"].as_str().unwrap_or_default();
        for complaint in names::label_1035(name) {
            errors.push(FieldError::invalid(format!("{path}.name"), name, complaint));
        }
        if seen.contains(&name) {
            errors.push(FieldError::duplicate(format!("{path}.name"), name));
        }
        seen.push(name);
        if !version["schema"]["openAPIV3Schema"].is_object() {
            errors
                .push(FieldError::required(format!("{path}.schema.openAPIV3Schema"), "schemas are required"));
        } else if version["schema"]["openAPIV3Schema"]["type"] != "object" {
            errors.push(FieldError::invalid(
                format!("{path}.schema.openAPIV3Schema.type"),
                version["schema"]["openAPIV3Schema"]["type"].clone(),
                "must be object at the root",
            ));
        }
        let schema = &version["schema"]["openAPIV3Schema"];
        super::rules::Rules::compile(schema, &format!("{path}.schema.openAPIV3Schema"), errors);
    }
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
