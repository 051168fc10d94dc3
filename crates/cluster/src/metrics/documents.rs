//! Discovery and OpenAPI of the metrics API.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::{GROUP, VERSION};

/// A resource of the metrics API.
pub(super) struct Served {
    pub(super) plural: &'static str,
    pub(super) kind: &'static str,
    pub(super) namespaced: bool,
    /// Name of the resource in error messages.
    pub(super) subject: &'static str,
}

pub(super) const NODES: Served =
    Served { plural: "nodes", kind: "NodeMetrics", namespaced: false, subject: "nodemetrics" };
pub(super) const PODS: Served =
    Served { plural: "pods", kind: "PodMetrics", namespaced: true, subject: "podmetrics" };
const ALL: [&Served; 2] = [&NODES, &PODS];

pub(super) const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// Path of the OpenAPI v3 document.
pub(super) const OPENAPI_V3: &str = "/openapi/v3/apis/metrics.k8s.io/v1beta1";

fn group_version() -> String {
    format!("{GROUP}/{VERSION}")
}

/// Returns the APIGroup served at `/apis/metrics.k8s.io`.
pub(super) fn group() -> Value {
    let version = json!({"groupVersion": group_version(), "version": VERSION});
    json!({
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": GROUP,
        "versions": [version],
        "preferredVersion": version,
    })
}

/// Returns the APIGroupList served at `/apis`.
pub(super) fn groups() -> Value {
    let mut group = group();
    if let Some(group) = group.as_object_mut() {
        group.retain(|key, _| !matches!(key.as_str(), "kind" | "apiVersion"));
    }
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]})
}

/// Returns the resources in the format of aggregated discovery.
pub(super) fn aggregated() -> Value {
    let resource = |served: &&Served| {
        json!({
            "resource": served.plural,
            "responseKind": {"group": GROUP, "version": VERSION, "kind": served.kind},
            "scope": if served.namespaced { "Namespaced" } else { "Cluster" },
            "singularResource": "",
            "verbs": ["get", "list"],
        })
    };
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [{
            "metadata": {"name": GROUP, "creationTimestamp": null},
            "versions": [{
                "version": VERSION,
                "resources": ALL.iter().map(resource).collect::<Vec<_>>(),
                "freshness": "Current",
            }],
        }],
    })
}

/// Returns the APIResourceList served at `/apis/metrics.k8s.io/v1beta1`.
pub(super) fn resources() -> Value {
    let resource = |served: &&Served| {
        json!({
            "name": served.plural,
            "singularName": "",
            "namespaced": served.namespaced,
            "kind": served.kind,
            "verbs": ["get", "list"],
        })
    };
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version(),
        "resources": ALL.iter().map(resource).collect::<Vec<_>>(),
    })
}

/// Returns the index of OpenAPI v3 documents.
pub(super) fn openapi_v3_index() -> Value {
    json!({"paths": {format!("apis/{GROUP}/{VERSION}"): {"serverRelativeURL": OPENAPI_V3}}})
}

/// The OpenAPI v2 document. It is merged into the API server's, which already has the schemas of metadata.
pub(super) static OPENAPI_V2_DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    json!({
        "swagger": "2.0",
        "info": {"title": "metrics-server", "version": VERSION},
        "paths": paths("#/definitions/", |schema| json!({"schema": schema}), |name| {
            json!({"in": "path", "name": name, "required": true, "type": "string", "uniqueItems": true})
        }, |name| json!({"in": "query", "name": name, "type": "string", "uniqueItems": true})),
        "definitions": schemas("#/definitions/"),
    })
    .to_string()
});

/// The OpenAPI v3 document.
pub(super) static OPENAPI_V3_DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    let text = json!({"type": "string", "uniqueItems": true});
    let prefix = "#/components/schemas/";
    let mut schemas = schemas(prefix);
    schemas.extend(metadata_schemas(prefix));
    json!({
        "openapi": "3.0.0",
        "info": {"title": "metrics-server", "version": VERSION},
        "paths": paths(
            prefix,
            |schema| json!({"content": {"application/json": {"schema": schema}}}),
            |name| json!({"in": "path", "name": name, "required": true, "schema": text}),
            |name| json!({"in": "query", "name": name, "schema": text}),
        ),
        "components": {"schemas": schemas},
    })
    .to_string()
});

/// Returns the operations by path. OpenAPI v2 and v3 differ in where the body and the parameters are.
fn paths(
    prefix: &str,
    body: impl Fn(Value) -> Value,
    in_path: impl Fn(&str) -> Value,
    in_query: impl Fn(&str) -> Value,
) -> Value {
    let mut paths = Map::new();
    let base = format!("/apis/{GROUP}/{VERSION}");
    let mut add = |path: String, served: &Served, verb: &str, parameters: &[&str]| {
        let list = if verb == "list" { "List" } else { "" };
        let mut answer = body(json!({"$ref": format!("{prefix}{PACKAGE}{}{list}", served.kind)}));
        answer["description"] = "OK".into();
        let queries = if verb == "list" { ["fieldSelector", "labelSelector"].as_slice() } else { &[] };
        let all: Vec<Value> =
            parameters.iter().map(|p| in_path(p)).chain(queries.iter().map(|q| in_query(q))).collect();
        let scope = if parameters.contains(&"namespace") { "Namespaced" } else { "" };
        let everywhere = if served.namespaced && scope.is_empty() { "ForAllNamespaces" } else { "" };
        let operation = json!({
            "operationId": format!("{verb}MetricsV1beta1{scope}{}{everywhere}", served.kind),
            "parameters": all,
            "responses": {"200": answer},
            "tags": ["metrics_v1beta1"],
            "x-kubernetes-action": verb,
            "x-kubernetes-group-version-kind": {"group": GROUP, "version": VERSION, "kind": served.kind},
        });
        paths.insert(path, json!({"get": operation}));
    };
    add(format!("{base}/nodes"), &NODES, "list", &[]);
    add(format!("{base}/nodes/{{name}}"), &NODES, "get", &["name"]);
    add(format!("{base}/pods"), &PODS, "list", &[]);
    add(format!("{base}/namespaces/{{namespace}}/pods"), &PODS, "list", &["namespace"]);
    add(format!("{base}/namespaces/{{namespace}}/pods/{{name}}"), &PODS, "get", &["name", "namespace"]);
    Value::Object(paths)
}

const PACKAGE: &str = "io.k8s.metrics.pkg.apis.metrics.v1beta1.";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";

fn schemas(prefix: &str) -> Map<String, Value> {
    let refer = |name: &str| json!({"$ref": format!("{prefix}{name}")});
    let text = |description: &str| json!({"type": "string", "description": description});
    let usage = json!({
        "type": "object",
        "description": "The memory usage is the memory working set.",
        "additionalProperties": refer(QUANTITY),
    });
    let mut all = Map::new();
    for served in ALL {
        let kind = served.kind;
        let gvk = |kind: &str| json!([{"group": GROUP, "version": VERSION, "kind": kind}]);
        let mut object = json!({
            "type": "object",
            "description": format!("{kind} sets resource usage metrics of a {}.", served.plural.trim_end_matches('s')),
            "required": ["timestamp", "window"],
            "properties": {
                "apiVersion": text("Version of the schema of this object."),
                "kind": text("Kind of this object."),
                "metadata": refer(&format!("{META}ObjectMeta")),
                "timestamp": refer(&format!("{META}Time")),
                "window": refer(&format!("{META}Duration")),
            },
            "x-kubernetes-group-version-kind": gvk(kind),
        });
        let (field, schema) = if served.namespaced {
            let containers = json!({
                "type": "array",
                "description": "Metrics for all containers are collected within the same time window.",
                "items": refer(&format!("{PACKAGE}ContainerMetrics")),
                "x-kubernetes-list-type": "atomic",
            });
            ("containers", containers)
        } else {
            ("usage", usage.clone())
        };
        object["properties"][field] = schema;
        if let Some(required) = object["required"].as_array_mut() {
            required.push(field.into());
        }
        let list = json!({
            "type": "object",
            "description": format!("{kind}List is a list of {kind}."),
            "required": ["items"],
            "properties": {
                "apiVersion": text("Version of the schema of this object."),
                "kind": text("Kind of this object."),
                "metadata": refer(&format!("{META}ListMeta")),
                "items": {"type": "array", "items": refer(&format!("{PACKAGE}{kind}"))},
            },
            "x-kubernetes-group-version-kind": gvk(&format!("{kind}List")),
        });
        all.insert(format!("{PACKAGE}{kind}"), object);
        all.insert(format!("{PACKAGE}{kind}List"), list);
    }
    let container = json!({
        "type": "object",
        "description": "ContainerMetrics sets resource usage metrics of a container.",
        "required": ["name", "usage"],
        "properties": {
            "name": text("Container name corresponding to the one from pod.spec.containers."),
            "usage": usage,
        },
    });
    all.insert(format!("{PACKAGE}ContainerMetrics"), container);
    all.insert(
        format!("{META}Duration"),
        json!({"type": "string", "description": "A duration such as 10s."}),
    );
    all
}

/// Returns the schemas of metadata, as far as metrics use it: common to all API servers.
fn metadata_schemas(prefix: &str) -> [(String, Value); 4] {
    let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let object_meta = json!({
        "type": "object",
        "description": "Metadata of the object that was measured.",
        "properties": {
            "creationTimestamp": {"$ref": format!("{prefix}{META}Time")},
            "labels": map,
            "name": {"type": "string"},
            "namespace": {"type": "string"},
        },
    });
    let quantity = json!({"type": "string", "description": "An amount such as 100m or 64Mi."});
    [
        (format!("{META}ObjectMeta"), object_meta),
        (format!("{META}ListMeta"), json!({"type": "object", "description": "Metadata of a list."})),
        (format!("{META}Time"), json!({"type": "string", "format": "date-time"})),
        (QUANTITY.to_owned(), quantity),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collects the `$ref`s of a document.
    fn references(node: &Value, found: &mut Vec<String>) {
        match node {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                map.values().for_each(|value| references(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn openapi_documents_refer_to_what_is_there() {
        let server: Vec<String> = metadata_schemas("").into_iter().map(|(name, _)| name).collect();
        for text in [&*OPENAPI_V2_DOCUMENT, &*OPENAPI_V3_DOCUMENT] {
            let document: Value = serde_json::from_str(text).unwrap();
            let mut found = Vec::new();
            references(&document, &mut found);
            assert!(found.len() > 10);
            for reference in found {
                let pointer = reference.trim_start_matches('#');
                let in_server = pointer
                    .strip_prefix("/definitions/")
                    .is_some_and(|name| server.iter().any(|known| known == name));
                assert!(in_server || document.pointer(pointer).is_some(), "{reference}");
            }
        }
    }
}
