//! Metrics in the formats that clients request: objects, lists, metadata and tables.

use serde_json::{Value, json};
use steersman_api::{
    http::{Meta, Options, Output, no_such_form},
    status::{ApiError, ApiResult, quote},
};
use steersman_formats::quantity;

use super::{GROUP, VERSION, documents::Served, usage::Usage};

/// Returns usage as a resource list.
pub(super) fn usage_list(usage: Usage) -> Value {
    json!({"cpu": quantity::show(usage.cpu, false), "memory": quantity::show(usage.memory, true)})
}

fn with_kind(mut item: Value, api_version: &str, kind: &str) -> Value {
    item["kind"] = kind.into();
    item["apiVersion"] = api_version.into();
    item
}

fn api_version() -> String {
    format!("{GROUP}/{VERSION}")
}

/// Returns one object in the requested format.
pub(super) fn one_as(output: Output, served: &Served, item: Value, options: &Options) -> ApiResult<Value> {
    match output {
        Output::Object => Ok(with_kind(item, &api_version(), served.kind)),
        Output::Table(meta) => table(meta, served, vec![item], options),
        Output::Metadata(meta) => Ok(partial(&item, meta)),
        Output::MetadataList(_) => Err(no_such_form()),
    }
}

/// Returns a list in the requested format.
pub(super) fn list_as(
    output: Output,
    served: &Served,
    items: Vec<Value>,
    options: &Options,
) -> ApiResult<Value> {
    match output {
        Output::Object => Ok(json!({
            "kind": format!("{}List", served.kind),
            "apiVersion": api_version(),
            "metadata": {},
            "items": items,
        })),
        Output::Table(meta) => table(meta, served, items, options),
        Output::MetadataList(meta) => Ok(json!({
            "kind": "PartialObjectMetadataList",
            "apiVersion": meta.api_version(),
            "metadata": {},
            "items": items.iter().map(|item| partial(item, meta)).collect::<Vec<_>>(),
        })),
        Output::Metadata(_) => Err(no_such_form()),
    }
}

fn partial(item: &Value, meta: Meta) -> Value {
    with_kind(json!({"metadata": item["metadata"]}), meta.api_version(), "PartialObjectMetadata")
}

/// Returns a table with metrics-server's columns. Without rows it has no columns, as with metrics-server.
fn table(meta: Meta, served: &Served, items: Vec<Value>, options: &Options) -> ApiResult<Value> {
    let column = |name: &str, format: &str, description: &str| json!({"name": name, "type": "string", "format": format, "description": description, "priority": 0});
    let columns = [
        column("Name", "name", "Name of the resource"),
        column("cpu", "quantity", ""),
        column("memory", "quantity", ""),
        column("Window", "duration", ""),
    ];
    let include = options.include_object.as_str();
    if !matches!(include, "" | "None" | "Metadata" | "Object") {
        return Err(ApiError::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', \
             'None', or empty",
            quote(include)
        )));
    }
    let rows: Vec<Value> = items
        .into_iter()
        .map(|item| {
            let usage = total(&item);
            let cells = json!([item["metadata"]["name"], usage["cpu"], usage["memory"], item["window"]]);
            let object = match include {
                "None" => Value::Null,
                "Object" => with_kind(item, &api_version(), served.kind),
                _ => partial(&item, meta),
            };
            json!({"cells": cells, "object": object})
        })
        .collect();
    let columns = if rows.is_empty() { Value::Null } else { json!(columns) };
    Ok(json!({
        "kind": "Table",
        "apiVersion": meta.api_version(),
        "metadata": {},
        "columnDefinitions": columns,
        "rows": rows,
    }))
}

/// Returns the total usage of a pod or a node.
fn total(item: &Value) -> Value {
    if item["usage"].is_object() {
        return item["usage"].clone();
    }
    let nanos =
        |container: &Value, name: &str| quantity::nanos(container["usage"][name].as_str().unwrap_or("0"));
    let containers = item["containers"].as_array().into_iter().flatten();
    let sum = containers.fold(Usage::default(), |sum, container| {
        sum.plus(Usage { cpu: nanos(container, "cpu"), memory: nanos(container, "memory") })
    });
    usage_list(sum)
}
