//! The API's own description, for exactly the kinds of this cluster.

use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

use crate::{
    actions,
    answer::{self, Body},
    kinds::Kind,
    problem::Result,
    request::Ask,
};

/// `GET /openapi.json`.
pub(crate) async fn get(ask: &Ask) -> Result<Response<Body>> {
    ask.query.allow(&["builtin"])?;
    let builtin = ask.query.flag("builtin")?;
    let catalog = ask.shared.kinds.now().await?;
    let (mut paths, mut schemas) = (general(), common_schemas());
    for kind in catalog.iter().filter(|kind| (builtin || kind.custom) && kind.has_verb("list")) {
        add(kind, &mut paths, &mut schemas);
    }
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": format!("Kinds of {}", ask.shared.cluster_name), "version": env!("CARGO_PKG_VERSION"),
            "description": "REST over the kinds of a Kubernetes cluster. Calls are made with the caller's own credentials.",
        },
        "security": [{"bearer": []}, {"session": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "steer_session"},
            },
        },
    });
    Ok(answer::json(StatusCode::OK, &document))
}

fn parameter(place: &str, name: &str, schema: Value, description: &str) -> Value {
    json!({"in": place, "name": name, "required": place == "path", "schema": schema, "description": description})
}

fn text() -> Value {
    json!({"type": "string"})
}

fn answers(status: &str, schema: Value) -> Value {
    let problem = json!({
        "description": "A problem",
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    });
    json!({
        status: {"description": "The answer", "content": {"application/json": {"schema": schema}}},
        "4XX": problem, "5XX": problem,
    })
}

fn operation(id: &str, summary: &str, tag: &str, parameters: &[Value], status: &str, schema: Value) -> Value {
    json!({
        "operationId": id, "summary": summary, "tags": [tag], "parameters": parameters,
        "responses": answers(status, schema),
    })
}

fn with_body(mut operation: Value, media_type: &str, schema: Value) -> Value {
    operation["requestBody"] = json!({"required": true, "content": {media_type: {"schema": schema}}});
    operation
}

fn general() -> Map<String, Value> {
    let any = || json!({"type": "object"});
    let get = |id: &str, summary: &str, parameters: &[Value]| json!({"get": operation(id, summary, "general", parameters, "200", any())});
    let kind = || parameter("path", "kind", text(), "plural.group");
    let builtin = || parameter("query", "builtin", json!({"type": "boolean"}), "Built-in kinds too");
    let audit: Vec<Value> = ["kind", "namespace", "name", "user"]
        .iter()
        .map(|name| parameter("query", name, text(), ""))
        .collect();
    let mut paths = Map::new();
    paths.insert("/v1/me".into(), get("me", "Who the caller is", &[]));
    paths.insert("/v1/overview".into(), get("overview", "How all instances are", &[]));
    paths.insert("/v1/operator".into(), get("operator", "Queues, reconciles and errors of operators", &[]));
    paths.insert("/v1/audit".into(), get("audit", "Who did what", &audit));
    paths.insert("/v1/kinds".into(), get("kinds", "The kinds of the cluster", &[builtin()]));
    paths.insert("/v1/kinds/{kind}".into(), get("kind", "A kind, with its schema", &[kind()]));
    let place = [kind(), parameter("query", "namespace", text(), ""), parameter("query", "name", text(), "")];
    paths.insert("/v1/kinds/{kind}/access".into(), get("access", "What the caller may do", &place));
    paths
}

fn common_schemas() -> Map<String, Value> {
    let schemas = json!({
        "Problem": {
            "type": "object", "required": ["status", "reason", "detail", "causes"],
            "properties": {
                "type": {"type": "string"}, "title": {"type": "string"}, "status": {"type": "integer"},
                "reason": {"type": "string"}, "detail": {"type": "string"}, "requestId": {"type": "string"},
                "causes": {"type": "array", "items": {"type": "object", "properties": {
                    "field": {"type": "string"}, "reason": {"type": "string"}, "message": {"type": "string"},
                }}},
            },
        },
        "Health": {
            "type": "object", "required": ["status", "reason", "message"],
            "properties": {
                "status": {"enum": ["ready", "progressing", "failing", "paused", "unknown"]},
                "reason": {"type": "string"}, "message": {"type": "string"}, "since": {"type": ["string", "null"]},
            },
        },
    });
    match schemas {
        Value::Object(schemas) => schemas,
        _ => Map::new(),
    }
}

fn add(kind: &Kind, paths: &mut Map<String, Value>, schemas: &mut Map<String, Value>) {
    let name = kind.name();
    let title = format!("{}.{}.{}", kind.group, kind.version, kind.kind).trim_start_matches('.').to_owned();
    let reference = json!({"$ref": format!("#/components/schemas/{title}")});
    schemas
        .insert(title.clone(), kind.schema().cloned().map_or_else(|| json!({"type": "object"}), converted));
    let item = json!({"type": "object", "properties": {
        "object": reference, "health": {"$ref": "#/components/schemas/Health"}, "cells": {"type": "array"},
    }});
    let items = json!({"type": "object", "properties": {
        "items": {"type": "array", "items": item}, "continue": {"type": ["string", "null"]},
        "remaining": {"type": ["integer", "null"]}, "resourceVersion": {"type": "string"},
    }});
    let namespace = || parameter("path", "namespace", text(), "");
    let selection = [
        parameter("query", "labelSelector", text(), ""),
        parameter("query", "fieldSelector", text(), ""),
        parameter(
            "query",
            "filter",
            json!({"type": "array", "items": text()}),
            "Conditions, of which all must hold",
        ),
        parameter("query", "sort", text(), "Paths of fields, - before one that descends"),
        parameter("query", "limit", json!({"type": "integer", "minimum": 1, "maximum": 5000}), ""),
        parameter("query", "continue", text(), "Where the page before ended"),
        parameter("query", "fields", text(), "Paths of the fields to answer with"),
    ];
    let write = || {
        vec![
            parameter(
                "query",
                "dryRun",
                json!({"type": "boolean"}),
                "Answers with the difference, and changes nothing",
            ),
            parameter("query", "wait", json!({"enum": ["ready"]}), "Answers when it is ready"),
            parameter("query", "timeout", text(), "How long to wait, such as 60s"),
            parameter("header", "Idempotency-Key", text(), "Makes the request once"),
        ]
    };
    let tag = kind.kind.as_str();
    let id = |verb: &str| format!("{verb}-{name}");
    let list = |id: &str, place: &[Value]| {
        operation(
            id,
            &format!("Lists {}", kind.plural),
            tag,
            &[place, &selection[..]].concat(),
            "200",
            items.clone(),
        )
    };
    let create = |id: &str, place: &[Value]| {
        let operation = operation(
            id,
            &format!("Creates a {tag}"),
            tag,
            &[place, &write()[..]].concat(),
            "201",
            reference.clone(),
        );
        with_body(operation, "application/json", reference.clone())
    };
    let base = format!("/v1/kinds/{name}");
    paths.insert(
        format!("{base}/instances"),
        json!({"get": list(&id("list-all"), &[]), "post": create(&id("create-any"), &[])}),
    );
    let mut place = Vec::new();
    let mut folder = base.clone();
    if kind.namespaced {
        place.push(namespace());
        folder = format!("{base}/namespaces/{{namespace}}");
        let (list, create) = (list(&id("list"), &place), create(&id("create"), &place));
        paths.insert(format!("{folder}/instances"), json!({"get": list, "post": create}));
    }
    place.push(parameter("path", "name", text(), ""));
    let one = format!("{folder}/instances/{{name}}");
    let mut changing = [&place[..], &write()[..]].concat();
    changing.push(parameter("header", "If-Match", text(), "The ETag that the caller has seen"));
    let change = |id: &str, verb: &str| {
        operation(id, &format!("{verb} a {tag}"), tag, &changing, "200", reference.clone())
    };
    paths.insert(
        one.clone(),
        json!({
            "get": operation(&id("get"), &format!("Gets a {tag}"), tag, &place, "200", reference.clone()),
            "put": with_body(change(&id("replace"), "Replaces"), "application/json", reference.clone()),
            "patch": with_body(change(&id("patch"), "Patches"), "application/merge-patch+json", json!({"type": "object"})),
            "delete": change(&id("delete"), "Deletes"),
        }),
    );
    for (part, summary) in [
        ("status", "Its health and conditions"),
        ("events", "What happened to it"),
        ("tree", "What belongs to it"),
        ("history", "Its revisions"),
        ("actions", "What can be done with it"),
    ] {
        let get = operation(&id(part), summary, tag, &place, "200", json!({"type": "object"}));
        paths.insert(format!("{one}/{part}"), json!({"get": get}));
    }
    for action in actions::documents(&actions::of(kind, None)) {
        let action_name = action["name"].as_str().unwrap_or_default();
        let operation = operation(
            &id(action_name),
            action["title"].as_str().unwrap_or_default(),
            tag,
            &changing,
            "200",
            reference.clone(),
        );
        let body = match &action["input"] {
            Value::Null => json!({"type": "object"}),
            input => {
                json!({"type": "object", "properties": {"value": converted(input.clone())}, "required": ["value"]})
            }
        };
        paths.insert(
            format!("{one}/actions/{action_name}"),
            json!({"post": with_body(operation, "application/json", body)}),
        );
    }
}

/// A definition's schema, which is OpenAPI 3.0's, in the words of 3.1.
fn converted(mut schema: Value) -> Value {
    convert(&mut schema);
    schema
}

fn convert(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else { return };
    if members.remove("nullable") == Some(Value::Bool(true))
        && let Some(Value::String(name)) = members.get("type").cloned()
    {
        members.insert("type".into(), json!([name, "null"]));
    }
    if members.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        members.remove("anyOf");
        members.insert("type".into(), json!(["integer", "string"]));
    }
    for (limit, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        if members.remove(exclusive) == Some(Value::Bool(true))
            && let Some(value) = members.remove(limit)
        {
            members.insert(exclusive.into(), value);
        }
    }
    for (name, inner) in members.iter_mut() {
        match (name.as_str(), inner) {
            ("properties", Value::Object(properties)) => properties.values_mut().for_each(convert),
            ("items" | "additionalProperties" | "not", inner) => convert(inner),
            ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => schemas.iter_mut().for_each(convert),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_said_in_the_words_of_three_one() {
        let schema = json!({"properties": {
            "a": {"type": "string", "nullable": true},
            "b": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "c": {"type": "array", "items": {"type": "integer", "minimum": 1, "exclusiveMinimum": true}},
        }});
        let schema = converted(schema);
        assert_eq!(schema["properties"]["a"]["type"], json!(["string", "null"]));
        assert_eq!(schema["properties"]["b"]["type"], json!(["integer", "string"]));
        assert_eq!(schema["properties"]["c"]["items"], json!({"type": "integer", "exclusiveMinimum": 1}));
    }
}
