//! OpenAPI: an index and one document per group version for v3, a single document for v2.

mod binary;
mod form;
mod merge;
mod v2;
mod words;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use steersman_api::schema::{self, PREFIX, reference};

pub(crate) use form::Form;

use crate::catalog::{Catalog, Resource, Verb, api_version};

/// Returns the document at a path below `/openapi`. Only v2 supports encodings other than JSON.
pub(crate) fn document(catalog: &Catalog, path: &str, form: Form) -> Option<Bytes> {
    let path = path.trim_matches('/');
    let mut cache = catalog.documents().openapi.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let key = (path.to_owned(), form);
    if let Some(bytes) = cache.get(&key) {
        return Some(bytes.clone());
    }
    let value = match path.split_once('/') {
        None if path == "v2" => v2::document(catalog),
        None if path == "v3" => index(catalog),
        Some(("v3", path)) => group_version(catalog, path)?,
        _ => return None,
    };
    let bytes: Bytes = match form {
        Form::Protobuf if path == "v2" => binary::encode(&value).into(),
        _ => value.to_string().into(),
    };
    cache.insert(key, bytes.clone());
    Some(bytes)
}

fn group_versions(catalog: &Catalog) -> Vec<(String, String, String)> {
    catalog
        .groups()
        .flat_map(|(group, g)| {
            g.versions.iter().map(move |v| {
                let path = if group.is_empty() {
                    format!("api/{}", v.name)
                } else {
                    format!("apis/{}", api_version(group, &v.name))
                };
                (path, group.to_owned(), v.name.clone())
            })
        })
        .collect()
}

/// Returns the ETag of a document.
pub(crate) fn tag(document: &[u8]) -> String {
    let mut hash = Fingerprint::default();
    hash.feed(document);
    format!("\"{:016X}\"", hash.0)
}

/// FNV-1a: stable across versions and platforms, unlike the standard library's hasher.
struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    fn feed(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 = (self.0 ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

fn index(catalog: &Catalog) -> Value {
    let mut paths = Map::new();
    for (path, group, version) in group_versions(catalog) {
        let hash = fingerprint(catalog, &group, &version);
        paths.insert(
            path.clone(),
            json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash:016X}")}),
        );
    }
    for remote in catalog.remote() {
        let path = format!("apis/{}/{}", remote.group, remote.version);
        match &remote.documents.openapi_v3 {
            Some(url) => paths.insert(path, json!({"serverRelativeURL": url})),
            None => paths.remove(&path),
        };
    }
    json!({"paths": paths})
}

/// Returns the hash in the index for a group version such as `apis/apps/v1`, by which clients cache.
pub(crate) fn hash(catalog: &Catalog, path: &str) -> Option<String> {
    let (_, group, version) = group_versions(catalog).into_iter().find(|(known, _, _)| known == path)?;
    Some(format!("{:016X}", fingerprint(catalog, &group, &version)))
}

/// Returns a fingerprint that changes with the document, for caching.
fn fingerprint(catalog: &Catalog, group: &str, version: &str) -> u64 {
    let mut hash = Fingerprint::default();
    hash.feed(group.as_bytes());
    hash.feed(version.as_bytes());
    for resource in catalog.resources().filter(|r| r.custom && r.group == group && r.version == version) {
        hash.feed(resource.plural.as_bytes());
        if let Some(document) = resource.strategy.openapi(&resource.version) {
            hash.feed(document.to_string().as_bytes());
        }
    }
    hash.0
}

fn group_version(catalog: &Catalog, path: &str) -> Option<Value> {
    let (_, group, version) = group_versions(catalog).into_iter().find(|(p, _, _)| p == path)?;
    let mut schemas = Map::new();
    let mut paths = Map::new();
    let found = catalog.group(&group)?.versions.iter().find(|v| v.name == version)?;
    for resource in &found.resources {
        let definition = match resource.strategy.openapi(&resource.version) {
            Some(document) => custom_schemas(resource, &document, &mut schemas),
            None => match definition_of(resource) {
                Some(name) => {
                    collect(name, &mut schemas);
                    collect(&format!("{name}List"), &mut schemas);
                    name.to_owned()
                }
                None => continue,
            },
        };
        add_paths(path, resource, &definition, &mut paths);
    }
    collect("io.k8s.apimachinery.pkg.apis.meta.v1.Status", &mut schemas);
    collect("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions", &mut schemas);
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": crate::KUBERNETES_VERSION},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

fn definition_of(resource: &Resource) -> Option<&'static str> {
    schema::definition_name(&resource.group, &resource.version, &resource.kind)
}

/// Adds a built-in definition and everything it references.
fn collect(name: &str, schemas: &mut Map<String, Value>) {
    let mut todo = vec![name.to_owned()];
    while let Some(name) = todo.pop() {
        if schemas.contains_key(&name) {
            continue;
        }
        let Some(raw) = schema::definitions().get(&name) else { continue };
        references(raw, &mut todo);
        let mut schema = raw.clone();
        words::describe(&name, &mut schema);
        schemas.insert(name, schema);
    }
}

/// Collects the names that a schema references.
fn references(node: &Value, found: &mut Vec<String>) {
    match node {
        Value::Object(map) => {
            if let Some(name) = reference(node) {
                found.push(name.to_owned());
            }
            map.values().for_each(|v| references(v, found));
        }
        Value::Array(list) => list.iter().for_each(|v| references(v, found)),
        _ => {}
    }
}

/// Returns the definition name of a custom resource: reversed group, version and kind.
fn custom_name(resource: &Resource) -> String {
    let group: Vec<&str> = resource.group.split('.').rev().collect();
    format!("{}.{}.{}", group.join("."), resource.version, resource.kind)
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

fn custom_schemas(resource: &Resource, document: &Value, schemas: &mut Map<String, Value>) -> String {
    let name = custom_name(resource);
    let gvk = json!([{"group": resource.group, "version": resource.version, "kind": resource.kind}]);
    let mut schema = document.clone();
    schema["x-kubernetes-group-version-kind"] = gvk;
    let said = |field: &str| words::of_every_kind(field).unwrap_or_default();
    let text = |field: &str| json!({"type": "string", "description": said(field)});
    let properties = steersman_api::object::child(&mut schema, "properties");
    for field in ["apiVersion", "kind"] {
        properties.insert(field.into(), text(field));
    }
    properties.insert(
        "metadata".into(),
        json!({
            "description": said("metadata"),
            "allOf": [{"$ref": format!("{PREFIX}{META}ObjectMeta")}],
        }),
    );
    schemas.insert(name.clone(), schema);
    let list = json!({
        "type": "object",
        "required": ["items"],
        "description": format!("{} is a list of {}", resource.list_kind, resource.kind),
        "properties": {
            "apiVersion": text("apiVersion"),
            "kind": text("kind"),
            "metadata": {"allOf": [{"$ref": format!("{PREFIX}{META}ListMeta")}]},
            "items": {"type": "array", "items": {"allOf": [{"$ref": format!("{PREFIX}{name}")}]}},
        },
        "x-kubernetes-group-version-kind": [
            {"group": resource.group, "version": resource.version, "kind": resource.list_kind},
        ],
    });
    schemas.insert(format!("{name}List"), list);
    collect(&format!("{META}ObjectMeta"), schemas);
    collect(&format!("{META}ListMeta"), schemas);
    name
}

/// Adds the operations that clients look up: the kind at a path and its parameters.
fn add_paths(base: &str, resource: &Resource, definition: &str, paths: &mut Map<String, Value>) {
    let gvk = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
    let root = if resource.namespaced {
        format!("/{base}/namespaces/{{namespace}}/{}", resource.plural)
    } else {
        format!("/{base}/{}", resource.plural)
    };
    let has = |verb: Verb| resource.verbs.contains(&verb);
    let refer = |name: &str| json!({"$ref": format!("{PREFIX}{name}")});
    let answer = |name: &str| json!({"200": {"description": "OK", "content": {"application/json": {"schema": refer(name)}}}});
    let operation = |action: &str, result: &str, parameters: &[&str]| {
        json!({
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": gvk,
            "parameters": parameters.iter().map(|p| parameter(p)).collect::<Vec<_>>(),
            "responses": answer(result),
        })
    };
    let writes = ["dryRun", "fieldManager", "fieldValidation"];
    let list = format!("{definition}List");
    let mut collection = Map::new();
    if has(Verb::List) {
        collection
            .insert("get".into(), operation("list", &list, &["labelSelector", "fieldSelector", "limit"]));
    }
    if has(Verb::Create) {
        let mut post = operation("post", definition, &writes);
        post["requestBody"] = json!({"content": {"application/json": {"schema": refer(definition)}}});
        collection.insert("post".into(), post);
    }
    let mut item = Map::new();
    for (verb, method, action) in [
        (Verb::Get, "get", "get"),
        (Verb::Update, "put", "put"),
        (Verb::Patch, "patch", "patch"),
        (Verb::Delete, "delete", "delete"),
    ] {
        if has(verb) {
            let parameters: &[&str] = match verb {
                Verb::Get => &[],
                Verb::Patch => &["dryRun", "fieldManager", "fieldValidation", "force"],
                Verb::Delete => &["dryRun", "gracePeriodSeconds", "propagationPolicy"],
                _ => &writes,
            };
            item.insert(method.into(), operation(action, definition, parameters));
        }
    }
    if !collection.is_empty() {
        paths.insert(root.clone(), Value::Object(collection.clone()));
        if resource.namespaced && has(Verb::List) {
            collection.remove("post");
            paths.insert(format!("/{base}/{}", resource.plural), Value::Object(collection));
        }
    }
    if !item.is_empty() {
        paths.insert(format!("{root}/{{name}}"), Value::Object(item));
    }
}

fn parameter(name: &str) -> Value {
    json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}})
}
