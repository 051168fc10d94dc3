//! Discovery documents: the aggregated form (v2) and the older lists.

use std::collections::BTreeMap;
use std::sync::Mutex;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Catalog, Group, Lazy, Resource, Verb, Version, api_version};
use crate::openapi::Form;

/// Documents of one catalog, each made when first asked for.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    core: Lazy,
    groups: Lazy,
    /// OpenAPI documents by path and form.
    pub(crate) openapi: Mutex<BTreeMap<(String, Form), Bytes>>,
}

impl Catalog {
    /// The aggregated document of `/api` or `/apis`.
    pub(crate) fn aggregated(&self, core: bool) -> Bytes {
        let lazy = if core { &self.documents.core } else { &self.documents.groups };
        lazy.get(|| {
            let items: Vec<Value> = self
                .groups()
                .filter(|(name, _)| name.is_empty() == core)
                .map(|(name, group)| aggregated_group(name, group))
                .collect();
            json!({
                "kind": "APIGroupDiscoveryList",
                "apiVersion": "apidiscovery.k8s.io/v2",
                "metadata": {},
                "items": items,
            })
        })
    }

    /// The older `/apis`.
    pub(crate) fn group_list(&self) -> Value {
        let groups: Vec<Value> =
            self.groups().filter(|(name, _)| !name.is_empty()).map(|(n, g)| group_value(n, g)).collect();
        json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
    }

    /// `/apis/GROUP`.
    pub(crate) fn group_document(&self, name: &str) -> Option<Value> {
        let mut value = group_value(name, self.group(name).filter(|_| !name.is_empty())?);
        value["kind"] = "APIGroup".into();
        value["apiVersion"] = "v1".into();
        Some(value)
    }

    /// `/api/v1` and `/apis/GROUP/VERSION`.
    pub(crate) fn resource_list(&self, group: &str, version: &str) -> Option<Value> {
        let found = self.group(group)?.versions.iter().find(|v| v.name == version)?;
        let mut resources = Vec::new();
        for resource in &found.resources {
            resources.push(legacy_resource(resource));
            for sub in &resource.subresources {
                let mut value = json!({
                    "name": format!("{}/{}", resource.plural, sub.name),
                    "singularName": "",
                    "namespaced": resource.namespaced,
                    "kind": sub.kind,
                    "verbs": sub.verbs,
                });
                if (sub.group.as_str(), sub.version.as_str()) != (group, version) {
                    value["group"] = sub.group.as_str().into();
                    value["version"] = sub.version.as_str().into();
                }
                resources.push(value);
            }
        }
        let mut document = json!({
            "kind": "APIResourceList",
            "groupVersion": api_version(group, version),
            "resources": resources,
        });
        // The core group's list is the older of the two and carries no apiVersion.
        if !group.is_empty() {
            document["apiVersion"] = "v1".into();
        }
        Some(document)
    }
}

fn group_value(name: &str, group: &Group) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|v| json!({"groupVersion": api_version(name, &v.name), "version": v.name}))
        .collect();
    json!({"name": name, "preferredVersion": versions.first(), "versions": versions})
}

fn legacy_resource(resource: &Resource) -> Value {
    let mut value = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        value["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        value["categories"] = json!(resource.categories);
    }
    // What is made up on the spot is not stored.
    if resource.verbs.contains(&Verb::List) && resource.plural != "componentstatuses" {
        value["storageVersionHash"] = storage_version_hash(resource).into();
    }
    value
}

fn aggregated_group(name: &str, group: &Group) -> Value {
    let versions: Vec<Value> = group.versions.iter().map(|v| aggregated_version(name, v)).collect();
    let metadata = if name.is_empty() { json!({}) } else { json!({"name": name}) };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_version(group: &str, version: &Version) -> Value {
    let resources: Vec<Value> = version.resources.iter().map(|r| aggregated_resource(group, r)).collect();
    json!({"version": version.name, "resources": resources, "freshness": "Current"})
}

fn aggregated_resource(group: &str, resource: &Resource) -> Value {
    let mut value = json!({
        "resource": resource.plural,
        "responseKind": kind_of(resource, group, &resource.version, &resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        value["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        value["categories"] = json!(resource.categories);
    }
    if !resource.subresources.is_empty() {
        value["subresources"] = resource
            .subresources
            .iter()
            .map(|sub| {
                json!({
                    "subresource": sub.name,
                    "responseKind": kind_of(resource, &sub.group, &sub.version, &sub.kind),
                    "verbs": sub.verbs,
                })
            })
            .collect();
    }
    value
}

/// Built-in resources leave out what is the same as where they are found.
fn kind_of(resource: &Resource, group: &str, version: &str, kind: &str) -> Value {
    if !resource.custom && (group, version) == (resource.group.as_str(), resource.version.as_str()) {
        return json!({"group": "", "version": "", "kind": kind});
    }
    json!({"group": group, "version": version, "kind": kind})
}

/// Tells clients when the stored form changes.
fn storage_version_hash(resource: &Resource) -> String {
    use base64::Engine as _;
    use sha2::Digest as _;
    let (group, version) = super::split_api_version(&resource.storage_api_version);
    let hash = sha2::Sha256::digest(format!("{group}/{version}/{}", resource.kind));
    base64::engine::general_purpose::STANDARD.encode(hash.get(..8).unwrap_or_default())
}
