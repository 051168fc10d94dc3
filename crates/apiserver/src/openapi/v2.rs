//! OpenAPI v2 for older clients: one document for everything.

use serde_json::{Map, Value, json};

use steersman_api::schema::PREFIX;

use super::{META, add_paths, collect, custom_name, definition_of, group_versions, merge::merge, words};
use crate::catalog::{Catalog, Resource};

const OLD_PREFIX: &str = "#/definitions/";

/// Builds the whole document.
pub(super) fn document(catalog: &Catalog) -> Value {
    let (mut builtin, mut definitions, mut paths) = (Map::new(), Map::new(), Map::new());
    for (path, group, version) in group_versions(catalog) {
        let found = catalog.group(&group).and_then(|g| g.versions.iter().find(|v| v.name == version));
        for resource in found.iter().flat_map(|v| &v.resources) {
            let definition = match resource.strategy.openapi(&resource.version) {
                Some(schema) => custom(resource, &schema, &mut definitions),
                None => match definition_of(resource) {
                    Some(name) => {
                        collect(name, &mut builtin);
                        collect(&format!("{name}List"), &mut builtin);
                        name.to_owned()
                    }
                    None => continue,
                },
            };
            add_paths(&path, resource, &definition, &mut paths);
        }
    }
    for name in ["ObjectMeta", "ListMeta", "Status", "DeleteOptions"] {
        collect(&format!("{META}{name}"), &mut builtin);
    }
    definitions.extend(builtin.into_iter().map(|(name, schema)| (name, old_schema(schema))));
    let mut paths: Map<_, _> = paths.into_iter().map(|(path, item)| (path, old_item(item))).collect();
    for document in catalog.remote().iter().filter_map(|remote| remote.documents.openapi_v2.as_ref()) {
        merge(&mut paths, &mut definitions, document);
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": crate::KUBERNETES_VERSION},
        "paths": paths,
        "definitions": definitions,
        "securityDefinitions": {"BearerToken": {
            "description": "Bearer Token authentication",
            "type": "apiKey",
            "name": "authorization",
            "in": "header",
        }},
        "security": [{"BearerToken": []}],
    })
}

/// Adds the definitions of a custom resource and its list.
fn custom(resource: &Resource, schema: &Value, definitions: &mut Map<String, Value>) -> String {
    let name = custom_name(resource);
    let said = |field: &str| words::of_every_kind(field).unwrap_or_default();
    let text = |field: &str| json!({"type": "string", "description": said(field)});
    let preserves = schema["x-kubernetes-preserve-unknown-fields"] == true;
    let untyped = schema.as_object().is_none_or(Map::is_empty);
    let mut own = if preserves || untyped { json!({"type": "object"}) } else { simplify(schema.clone()) };
    if !preserves && !untyped {
        let properties = steersman_api::object::child(&mut own, "properties");
        for field in ["apiVersion", "kind"] {
            properties.insert(field.into(), text(field));
        }
        properties.insert(
            "metadata".into(),
            json!({"description": said("metadata"), "$ref": format!("{OLD_PREFIX}{META}ObjectMeta")}),
        );
    }
    let gvk = |kind: &str| json!([{"group": resource.group, "version": resource.version, "kind": kind}]);
    own["x-kubernetes-group-version-kind"] = gvk(&resource.kind);
    definitions.insert(name.clone(), own);
    let list = json!({
        "description": format!("{} is a list of {}", resource.list_kind, resource.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": text("apiVersion"),
            "items": {
                "description": format!("List of {}", resource.plural),
                "type": "array",
                "items": {"$ref": format!("{OLD_PREFIX}{name}")},
            },
            "kind": text("kind"),
            "metadata": {"description": "Standard list metadata.", "$ref": format!("{OLD_PREFIX}{META}ListMeta")},
        },
        "x-kubernetes-group-version-kind": gvk(&resource.list_kind),
    });
    definitions.insert(format!("{name}List"), list);
    name
}

/// Removes what OpenAPI v2 cannot express. A part that cannot be fully described accepts any value.
fn simplify(mut schema: Value) -> Value {
    let Some(map) = schema.as_object_mut() else { return schema };
    for word in ["oneOf", "anyOf", "allOf", "not"] {
        map.remove(word);
    }
    if map.get("nullable") == Some(&Value::Bool(true)) {
        for word in ["nullable", "type", "items", "properties"] {
            map.remove(word);
        }
    }
    map.remove("nullable");
    if map.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) {
        map.remove("items");
        map.remove("properties");
    }
    if map.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        map.remove("type");
    }
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        for property in properties.values_mut() {
            *property = simplify(property.take());
        }
    }
    for word in ["items", "additionalProperties"] {
        if let Some(inner @ Value::Object(_)) = map.get_mut(word) {
            *inner = simplify(inner.take());
        }
    }
    schema
}

/// Converts a built-in schema to v2: references have no siblings.
fn old_schema(schema: Value) -> Value {
    match schema {
        Value::Object(map) => {
            let mut out = Map::new();
            for (key, value) in map {
                match (key.as_str(), value) {
                    ("$ref", Value::String(target)) => {
                        out.insert(key, target.replacen(PREFIX, OLD_PREFIX, 1).into());
                    }
                    ("allOf", Value::Array(mut list)) if list.len() == 1 => {
                        if let Value::Object(inner) = old_schema(list.remove(0)) {
                            out.extend(inner);
                        }
                    }
                    ("oneOf" | "anyOf", _) => {
                        // The only built-in choice is int-or-string.
                        out.insert("type".into(), "string".into());
                    }
                    ("default", Value::Object(empty)) if empty.is_empty() => {}
                    (_, value) => {
                        out.insert(key, old_schema(value));
                    }
                }
            }
            Value::Object(out)
        }
        Value::Array(list) => list.into_iter().map(old_schema).collect(),
        other => other,
    }
}

fn old_item(item: Value) -> Value {
    let Value::Object(methods) = item else { return item };
    methods
        .into_iter()
        .map(|(method, operation)| (method, old_operation(operation)))
        .collect::<Map<_, _>>()
        .into()
}

fn old_operation(mut operation: Value) -> Value {
    let media = "application/json";
    let body = operation["requestBody"]["content"][media]["schema"].take();
    let mut parameters = Vec::new();
    if !body.is_null() {
        parameters.push(json!({"name": "body", "in": "body", "required": true, "schema": old_schema(body)}));
    }
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let mut flat = json!({"name": parameter["name"], "in": parameter["in"]});
        for (key, value) in parameter["schema"].as_object().into_iter().flatten() {
            flat[key.as_str()] = value.clone();
        }
        parameters.push(flat);
    }
    let responses: Map<String, Value> = operation["responses"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(code, answer)| {
            let schema = old_schema(answer["content"][media]["schema"].clone());
            (code.clone(), json!({"description": answer["description"], "schema": schema}))
        })
        .collect();
    if let Some(map) = operation.as_object_mut() {
        map.remove("requestBody");
        map.insert("parameters".into(), parameters.into());
        map.insert("responses".into(), responses.into());
    }
    operation
}
