//! Strategic merge patches and JSON patches, as kustomize applies them.

use serde_json::{Map, Value, json};
use steersman_patch::json_patch;

use super::file::{Patch, Target};
use super::resource::Resource;
use super::transform::Context;
use super::{parse, read};
use crate::error::Result;

pub(super) fn apply(patch: &Patch, resources: &mut Vec<Resource>, context: &Context<'_>) -> Result<()> {
    let (source, text) = match (patch.path.as_str(), patch.patch.as_str()) {
        ("", "") => return Err(context.broken("patches: an entry has neither patch nor path")),
        ("", text) => (context.file.to_owned(), text.to_owned()),
        (path, "") => {
            let path = context.directory.join(path);
            let text = read(context.root, &path)?;
            (path, text)
        }
        _ => return Err(context.broken("patches: an entry has both patch and path")),
    };
    let mut documents = parse(&source, &text)?;
    if let [Value::Array(operations)] = documents.as_slice() {
        let Some(target) = &patch.target else {
            return Err(context.broken("patches: a JSON patch needs a target"));
        };
        let bytes = Value::Array(operations.clone()).to_string();
        for index in select(target, resources, context)? {
            let resource = &mut resources[index];
            resource.store_id();
            resource.content = json_patch(&resource.content, bytes.as_bytes()).map_err(|error| {
                context.broken(format!("patches: {} for {}: {error}", source.display(), resource.id()))
            })?;
        }
        return Ok(());
    }
    if patch.target.is_some() && documents.len() > 1 {
        return Err(context.broken("patches: several patches in one entry cannot have a target"));
    }
    for document in &mut documents {
        let indexes = match &patch.target {
            Some(target) => select(target, resources, context)?,
            None => {
                let wanted = Resource::new(document.clone()).id();
                let is_meant = |resource: &Resource| resource.ids().any(|id| id.equals(&wanted));
                let found: Vec<usize> = (0..resources.len()).filter(|at| is_meant(&resources[*at])).collect();
                if found.len() != 1 {
                    let count = if found.is_empty() {
                        "no resource".to_owned()
                    } else {
                        format!("{} resources", found.len())
                    };
                    return Err(context.broken(format!("patches: {count} for the patch of {wanted}")));
                }
                found
            }
        };
        // Backwards, since a patch may delete its object.
        for index in indexes.into_iter().rev() {
            let id = resources[index].id();
            match merge(resources[index].content.clone(), document, "") {
                None => {
                    resources.remove(index);
                }
                Some(mut merged) => {
                    // A patch does not change the kind or name.
                    merged["kind"] = id.kind.as_str().into();
                    let resource = &mut resources[index];
                    resource.content = merged;
                    resource.set_metadata("name", &id.name);
                    if !id.namespace.is_empty() {
                        resource.set_metadata("namespace", &id.namespace);
                    } else if let Some(metadata) = resource.content["metadata"].as_object_mut() {
                        metadata.remove("namespace");
                    }
                }
            }
        }
    }
    Ok(())
}

/// Returns the resources that a target selects by their current or previous ids.
fn select(target: &Target, resources: &[Resource], context: &Context<'_>) -> Result<Vec<usize>> {
    let pattern = |text: &str| {
        steersman_regexp::compile(&format!("^(?:{text})$"))
            .map_err(|error| context.broken(format!("patches: target {text:?}: {error}")))
    };
    let (name, namespace) = (pattern(&target.name)?, pattern(&target.namespace)?);
    let is_any = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
    let is_selected = |resource: &Resource| {
        resource.ids().any(|id| {
            is_any(&target.group, &id.group)
                && is_any(&target.version, &id.version)
                && is_any(&target.kind, &id.kind)
                && (target.name.is_empty() || name.is_match(&id.name))
                && (target.namespace.is_empty() || namespace.is_match(&id.namespace))
        })
    };
    Ok((0..resources.len()).filter(|index| is_selected(&resources[*index])).collect())
}

/// Returns the merge keys of a list field in built-in kinds.
fn merge_keys(field: &str, element: &Value) -> &'static [&'static str] {
    match field {
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "volumes"
        | "env"
        | "imagePullSecrets"
        | "webhooks"
        | "secrets" => &["name"],
        "volumeMounts" => &["mountPath"],
        "volumeDevices" => &["devicePath"],
        "hostAliases" => &["ip"],
        "ports" if element.get("containerPort").is_some() => &["containerPort", "protocol"],
        "ports" => &["port", "protocol"],
        "topologySpreadConstraints" => &["topologyKey", "whenUnsatisfiable"],
        "conditions" => &["type"],
        "ownerReferences" => &["uid"],
        _ => &[],
    }
}

/// Whether the kind is built in, so that its lists are merged by key instead of replaced.
fn is_built_in(document: &Value) -> bool {
    let api_version = document["apiVersion"].as_str().unwrap_or_default();
    match api_version.split_once('/') {
        None => true,
        Some((group, _)) => !group.contains('.') || group.ends_with(".k8s.io"),
    }
}

const DIRECTIVE: &str = "$patch";

/// Merges a patch into a document; `None` if the patch deletes it.
fn merge(document: Value, patch: &Value, field: &str) -> Option<Value> {
    let known = is_built_in(&document);
    merge_value(document, patch, field, known)
}

fn merge_value(document: Value, patch: &Value, field: &str, known: bool) -> Option<Value> {
    match (document, patch) {
        (document, Value::Object(patch)) => {
            match patch.get(DIRECTIVE).and_then(Value::as_str) {
                Some("delete") => return None,
                Some("replace") => return Some(Value::Object(without_directives(patch))),
                _ => {}
            }
            let mut fields = match document {
                Value::Object(fields) => fields,
                _ => Map::new(),
            };
            for (key, value) in patch.iter().filter(|(key, _)| *key != DIRECTIVE) {
                let merged = match (fields.remove(key), value) {
                    (_, Value::Null) => None,
                    (old, value) => merge_value(old.unwrap_or(Value::Null), value, key, known),
                };
                if let Some(merged) = merged {
                    fields.insert(key.clone(), merged);
                }
            }
            Some(Value::Object(fields))
        }
        (Value::Array(old), Value::Array(new)) if known => Some(merge_list(old, new, field)),
        (_, Value::Array(new)) => {
            let replaced = new.iter().filter(|item| item.get(DIRECTIVE).is_none()).cloned();
            Some(replaced.collect())
        }
        (_, scalar) => Some(scalar.clone()),
    }
}

fn without_directives(patch: &Map<String, Value>) -> Map<String, Value> {
    patch
        .iter()
        .filter(|(key, _)| *key != DIRECTIVE)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Merges lists: elements of the patch first, those with equal merge keys merged.
fn merge_list(mut old: Vec<Value>, new: &[Value], field: &str) -> Value {
    if new.iter().any(|item| item == &json!({DIRECTIVE: "replace"})) {
        return new.iter().filter(|item| item.get(DIRECTIVE).is_none()).cloned().collect();
    }
    if field == "finalizers" {
        let more = old.into_iter().filter(|item| !new.contains(item));
        return new.iter().cloned().chain(more).collect();
    }
    let keys = new.first().map_or(&[][..], |first| merge_keys(field, first));
    if keys.is_empty() {
        return Value::Array(new.to_vec());
    }
    let is_same = |one: &Value, other: &Value| {
        // A secondary key is only compared if both elements have it.
        one.get(keys[0]) == other.get(keys[0])
            && keys[1..].iter().all(|key| match (one.get(key), other.get(key)) {
                (Some(one), Some(other)) => one == other,
                _ => true,
            })
    };
    // With two merge keys, kustomize puts only new elements first.
    let is_used = |key: &&&str| old.iter().chain(new).any(|item| item.get(**key).is_some());
    let keeps_order = keys.iter().filter(is_used).count() > 1;
    let mut first = Vec::new();
    for item in new {
        let same = old.iter().position(|known| is_same(known, item));
        let before = same.map_or(Value::Null, |index| old[index].clone());
        match (merge_value(before, item, field, true), same) {
            (Some(merged), Some(index)) if keeps_order => old[index] = merged,
            (merged, same) => {
                same.map(|index| old.remove(index));
                first.extend(merged);
            }
        }
    }
    first.append(&mut old);
    Value::Array(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_merge_by_key_and_the_patch_comes_first() {
        let document = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"containers": [
            {"name": "a", "image": "a:1", "args": ["x"]}, {"name": "b"},
        ]}});
        let patch = json!({"spec": {"containers": [
            {"name": "b", "args": ["y"]}, {"name": "a", "$patch": "delete"}, {"name": "c"},
        ]}});
        let merged = merge(document, &patch, "").unwrap();
        assert_eq!(merged["spec"]["containers"], json!([{"name": "b", "args": ["y"]}, {"name": "c"}]));
    }

    #[test]
    fn lists_of_unknown_kinds_are_replaced() {
        let document = json!({"apiVersion": "example.com/v1", "spec": {"env": [{"name": "a"}], "b": 1}});
        let merged = merge(document, &json!({"spec": {"env": [{"name": "c"}], "b": null}}), "").unwrap();
        assert_eq!(merged["spec"], json!({"env": [{"name": "c"}]}));
        assert_eq!(merge(json!({"kind": "A"}), &json!({"$patch": "delete"}), ""), None);
    }
}
