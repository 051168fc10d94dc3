//! Fetches discovery and OpenAPI documents from the servers behind APIServices.

use serde_json::{Map, Value, json};
use steersman_api::object;

use super::{
    Documents, OldDocument, Remote,
    proxy::{Fetched, fetch},
};
use crate::core::Core;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
const JSON: &str = "application/json";

/// Fetches all documents of a server; `None` if discovery fails.
pub(super) async fn fetch_all(core: &Core, remote: &Remote) -> Option<Documents> {
    let resources = fetch_resources(core, remote).await?;
    let (v2, v3) =
        tokio::join!(fetch(core, remote, "/openapi/v2", JSON), fetch(core, remote, "/openapi/v3", JSON),);
    let path = remote.path();
    let openapi_v3 = parse(v3).and_then(|index| {
        let url = &index["paths"][path.trim_start_matches('/')]["serverRelativeURL"];
        url.as_str().map(str::to_owned)
    });
    let openapi_v2 = parse(v2).map(|document| part(document, &format!("{path}/")));
    Some(Documents { resources, is_current: true, openapi_v2, openapi_v3 })
}

fn parse(answer: Result<Fetched, String>) -> Option<Value> {
    let answer = answer.ok().filter(|answer| answer.status.is_success())?;
    serde_json::from_slice(&answer.body).ok()
}

/// Fetches resources by aggregated discovery, or as an `APIResourceList` if that is unsupported.
async fn fetch_resources(core: &Core, remote: &Remote) -> Option<Vec<Value>> {
    let aggregated = fetch(core, remote, "/apis", AGGREGATED).await;
    if let Ok(answer) = aggregated
        && answer.media_type.contains("as=APIGroupDiscoveryList")
    {
        return Some(resources(&parse(Ok(answer))?, remote));
    }
    let list = parse(fetch(core, remote, &remote.path(), JSON).await)?;
    Some(from_list(&list))
}

/// Returns the resources of a group version in an aggregated discovery document.
fn resources(document: &Value, remote: &Remote) -> Vec<Value> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let groups = list(&document["items"]);
    let Some(group) = groups.iter().find(|group| object::name(group) == remote.group) else {
        return Vec::new();
    };
    let versions = list(&group["versions"]);
    let version = versions.iter().find(|version| version["version"] == remote.version.as_str());
    let mut resources = version.map(|version| list(&version["resources"])).unwrap_or_default();
    for resource in &mut resources {
        name_kind(resource);
        let subresources = resource.get_mut("subresources").and_then(Value::as_array_mut);
        for sub in subresources.into_iter().flatten() {
            name_kind(sub);
        }
    }
    resources
}

/// Ensures the response kind is set, since clients rely on it.
fn name_kind(resource: &mut Value) {
    if !resource["responseKind"].is_object() {
        resource["responseKind"] = json!({"group": "", "version": "", "kind": ""});
    }
}

/// Converts an `APIResourceList` to aggregated discovery format.
fn from_list(list: &Value) -> Vec<Value> {
    let mut resources: Vec<Value> = Vec::new();
    for item in list["resources"].as_array().into_iter().flatten() {
        let text = |key: &str| item[key].as_str().unwrap_or_default();
        let kind = json!({"group": text("group"), "version": text("version"), "kind": text("kind")});
        match text("name").split_once('/') {
            None => {
                let mut resource = json!({
                    "resource": text("name"),
                    "responseKind": kind,
                    "scope": if item["namespaced"] == true { "Namespaced" } else { "Cluster" },
                    "singularResource": text("singularName"),
                    "verbs": item["verbs"],
                });
                for key in ["shortNames", "categories"] {
                    if item[key].is_array() {
                        resource[key] = item[key].clone();
                    }
                }
                resources.push(resource);
            }
            Some((parent, name)) => {
                let sub = json!({"subresource": name, "responseKind": kind, "verbs": item["verbs"]});
                if let Some(parent) = resources.iter_mut().find(|r| r["resource"] == parent) {
                    let subs = object::ensure(parent).entry("subresources").or_insert_with(|| json!([]));
                    if let Some(subs) = subs.as_array_mut() {
                        subs.push(sub);
                    }
                }
            }
        }
    }
    resources
}

/// Returns the paths with a prefix, and the definitions they refer to.
fn part(document: Value, prefix: &str) -> OldDocument {
    let Value::Object(mut document) = document else { return OldDocument::default() };
    let mut take = |key: &str| match document.remove(key) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    };
    let (mut paths, mut all) = (take("paths"), take("definitions"));
    paths.retain(|path, _| path.starts_with(prefix));
    let mut todo = Vec::new();
    paths.values().for_each(|path| references(path, &mut todo));
    let mut definitions = Map::new();
    while let Some(name) = todo.pop() {
        if let Some(definition) = all.remove(&name) {
            references(&definition, &mut todo);
            definitions.insert(name, definition);
        }
    }
    OldDocument { paths, definitions }
}

/// Collects the names of the definitions that a node refers to.
fn references(node: &Value, found: &mut Vec<String>) {
    match node {
        Value::Object(map) => {
            let target = map.get("$ref").and_then(Value::as_str);
            found.extend(target.and_then(|t| t.strip_prefix("#/definitions/")).map(str::to_owned));
            map.values().for_each(|value| references(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_lists_become_aggregated_ones() {
        let list = json!({"resources": [
            {"name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder", "verbs": ["get"], "shortNames": ["fl"]},
            {"name": "flunders/status", "singularName": "", "namespaced": true, "kind": "Flunder", "verbs": ["update"]},
        ]});
        let kind = json!({"group": "", "version": "", "kind": "Flunder"});
        assert_eq!(
            from_list(&list),
            [json!({
                "resource": "flunders", "responseKind": kind, "scope": "Namespaced", "singularResource": "flunder",
                "verbs": ["get"], "shortNames": ["fl"],
                "subresources": [{"subresource": "status", "responseKind": kind, "verbs": ["update"]}],
            })]
        );
    }

    #[test]
    fn aggregated_resources_get_a_kind_and_nothing_else() {
        let resource = |more: Value| {
            let mut resource = json!({"resource": "pods", "scope": "Namespaced", "verbs": ["get"]});
            for (key, value) in more.as_object().unwrap() {
                resource[key] = value.clone();
            }
            resource
        };
        let kind = json!({"group": "", "version": "", "kind": ""});
        let remote = Remote::new(&json!({
            "metadata": {"name": "v1.example.org"},
            "spec": {"group": "example.org", "version": "v1", "service": {"name": "s", "namespace": "n"}},
        }));
        let document = |resource: Value| {
            let version = json!({"version": "v1", "resources": [resource]});
            json!({"items": [{"metadata": {"name": "example.org"}, "versions": [version]}]})
        };
        let remote = remote.unwrap();
        let plain = document(resource(json!({})));
        assert_eq!(resources(&plain, &remote), [resource(json!({"responseKind": kind}))]);
        let sub = document(resource(json!({"subresources": [{"subresource": "status"}]})));
        let subresources = json!([{"subresource": "status", "responseKind": kind}]);
        let expected = resource(json!({"responseKind": kind, "subresources": subresources}));
        assert_eq!(resources(&sub, &remote), [expected]);
    }

    #[test]
    fn of_a_document_only_the_part_of_the_group_version_is_taken() {
        let refer = |name: &str| json!({"$ref": format!("#/definitions/{name}")});
        let document = json!({
            "paths": {"/apis/g/v1/a": {"get": refer("A")}, "/apis/g/v1beta1/b": {"get": refer("B")}, "/version": {}},
            "definitions": {"A": {"properties": {"x": refer("C")}}, "B": {}, "C": {"items": refer("A")}},
        });
        let part = part(document, "/apis/g/v1/");
        assert_eq!(part.paths.keys().collect::<Vec<_>>(), ["/apis/g/v1/a"]);
        assert_eq!(part.definitions.keys().collect::<Vec<_>>(), ["A", "C"]);
    }
}
