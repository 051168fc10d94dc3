//! CustomResourceDefinition.

use serde_json::{Value, json};
use steersman_api::{
    object,
    status::{ApiResult, quote},
    strategy::Hook,
};
use steersman_structural::definition;

use crate::{
    check::Errors,
    kind::{Change, Kind, Rules},
};

pub(super) const KIND: Kind = Kind {
    rules: &CustomResourceDefinition,
    has_generation: true,
    has_status: true,
    allows_unconditional_update: false,
    checks_finalizers: false,
    reset_fields: &[("status", &[&["metadata"], &["spec"]])],
    ..Kind::new("apiextensions.k8s.io", "customresourcedefinitions")
};

struct CustomResourceDefinition;

impl Rules for CustomResourceDefinition {
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

    fn validate(&self, object: &Value, errors: &mut Errors) {
        errors.extend(definition::check(object));
    }

    fn validate_update(&self, change: Change<'_>, errors: &mut Errors) {
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
            .map(|format| format!("unrecognized format {}", quote(&format)))
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
