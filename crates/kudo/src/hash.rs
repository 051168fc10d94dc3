//! The hash that makes pods restart when a ConfigMap or Secret that they mount changes.

use md5::{Digest as _, Md5};
use serde_json::{Map, Value, json};

use crate::api::annotation;
use crate::task::{POD_TEMPLATES, insert_strings};

/// A ConfigMap or Secret that a workload's pods mount, or pull images with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dependency {
    /// ConfigMap or Secret.
    pub kind: &'static str,
    /// Its name, in the workload's namespace.
    pub name: String,
}

/// Lists what a workload's pods mount as volumes or pull images with. References from environment
/// variables do not count.
#[must_use]
pub fn dependencies(object: &Value) -> Vec<Dependency> {
    let mut found = Vec::new();
    for template in ["/spec/template", "/spec/jobTemplate/spec/template"] {
        let Some(spec) = object.pointer(template).and_then(|template| template.get("spec")) else { continue };
        let list = |name: &str| spec[name].as_array().into_iter().flatten();
        let mut add = |kind, name: Option<&str>| {
            found.extend(name.map(|name| Dependency { kind, name: name.to_owned() }));
        };
        for secret in list("imagePullSecrets") {
            add("Secret", secret["name"].as_str());
        }
        for volume in list("volumes") {
            add("ConfigMap", volume.pointer("/configMap/name").and_then(Value::as_str));
            add("Secret", volume.pointer("/secret/secretName").and_then(Value::as_str));
        }
    }
    found.sort();
    found
}

/// Hashes objects in the order of [`dependencies`]; a missing object counts as zeros.
#[must_use]
pub fn dependencies_hash<'a>(objects: impl IntoIterator<Item = Option<&'a Value>>) -> String {
    let mut all = Md5::new();
    for object in objects {
        let skipped = |object: &Value| {
            object
                .pointer("/metadata/annotations")
                .is_some_and(|all| all.get(annotation::SKIP_HASH).is_some())
        };
        match object
            .filter(|object| !skipped(object))
            .and_then(|object| steersman_yaml::to_string(&sanitized(object)).ok())
        {
            Some(text) => all.update(Md5::digest(text.as_bytes())),
            None => all.update([0; 16]),
        }
    }
    all.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the object without fields that the API server changes, in the form that KUDO hashes.
fn sanitized(object: &Value) -> Value {
    let mut content = object.as_object().cloned().unwrap_or_default();
    let old = content.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut metadata = Map::new();
    for key in ["labels", "name"] {
        if let Some(value) = old.get(key) {
            metadata.insert(key.into(), value.clone());
        }
    }
    metadata.insert("annotations".into(), json!({}));
    for key in ["deletionGracePeriodSeconds", "remainingItemCount"] {
        metadata.insert(key.into(), 0.into());
    }
    for key in ["finalizers", "managedFields", "ownerReferences"] {
        metadata.insert(key.into(), json!([]));
    }
    content.insert("metadata".into(), metadata.into());
    content.insert("apiVersion".into(), "".into());
    content.insert("kind".into(), "".into());
    json!({ "object": content })
}

/// Sets the hash as an annotation of the object's pod templates.
pub fn set_dependencies_hash(object: &mut Value, hash: &str) {
    for path in POD_TEMPLATES {
        if object.pointer(path).is_some() {
            insert_strings(object, path, "annotations", &[(annotation::DEPENDENCIES_HASH, hash)]);
        }
    }
}
