//! Discovery documents: the aggregated format (v2) and the legacy lists.

use std::collections::BTreeMap;
use std::sync::Mutex;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Catalog, Lazy, Resource, Verb, Version, api_version};
use crate::{
    aggregation::{RemoteVersion, group_priority, version_priority},
    crd::compare_versions,
    openapi::Form,
};

/// The documents of a catalog, each built on first use.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    core: Lazy,
    groups: Lazy,
    /// OpenAPI documents by path and encoding.
    pub(crate) openapi: Mutex<BTreeMap<(String, Form), Bytes>>,
}

/// A group in discovery.
struct ListedGroup<'a> {
    name: &'a str,
    versions: Vec<ListedVersion<'a>>,
}

/// A group version in discovery.
enum ListedVersion<'a> {
    Own(&'a Version),
    /// Served by an extension API server.
    Remote(&'a RemoteVersion),
}

impl ListedVersion<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Own(version) => &version.name,
            Self::Remote(version) => &version.version,
        }
    }
}

impl Catalog {
    /// Returns all groups and their versions, highest priority first.
    fn listed(&self) -> Vec<ListedGroup<'_>> {
        let own = self.groups().map(|(name, group)| ListedGroup {
            name,
            versions: group.versions.iter().map(ListedVersion::Own).collect(),
        });
        let mut groups: Vec<ListedGroup<'_>> = own.collect();
        if self.remote.is_empty() {
            return groups;
        }
        for remote in &self.remote {
            let version = ListedVersion::Remote(remote);
            match groups.iter_mut().find(|group| group.name == remote.group) {
                Some(group) => {
                    group.versions.retain(|own| own.name() != remote.version);
                    group.versions.push(version);
                }
                None => groups.push(ListedGroup { name: &remote.group, versions: vec![version] }),
            }
        }
        for group in &mut groups {
            let name = group.name;
            let priority = |version: &ListedVersion<'_>| match version {
                ListedVersion::Own(version) => version_priority(name, &version.name),
                ListedVersion::Remote(remote) => remote.version_priority,
            };
            group.versions.sort_by(|a, b| {
                priority(b).cmp(&priority(a)).then_with(|| compare_versions(b.name(), a.name()))
            });
        }
        let priority = |group: &ListedGroup<'_>| {
            let versions = group.versions.iter().map(|version| match version {
                ListedVersion::Own(_) => group_priority(group.name),
                ListedVersion::Remote(remote) => remote.group_priority,
            });
            versions.max().unwrap_or_default()
        };
        groups.sort_by(|a, b| priority(b).cmp(&priority(a)).then_with(|| a.name.cmp(b.name)));
        groups
    }

    /// Returns the aggregated document of `/api` or `/apis`.
    pub(crate) fn aggregated(&self, core: bool) -> Bytes {
        let lazy = if core { &self.documents.core } else { &self.documents.groups };
        lazy.get(|| {
            let groups = self.listed();
            let items: Vec<Value> =
                groups.iter().filter(|group| group.name.is_empty() == core).map(aggregated_group).collect();
            json!({
                "kind": "APIGroupDiscoveryList",
                "apiVersion": "apidiscovery.k8s.io/v2",
                "metadata": {},
                "items": items,
            })
        })
    }

    /// Returns the legacy document of `/apis`.
    pub(crate) fn group_list(&self) -> Value {
        let groups = self.listed();
        let groups: Vec<Value> =
            groups.iter().filter(|group| !group.name.is_empty()).map(group_value).collect();
        json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
    }

    /// Returns the document of `/apis/GROUP`.
    pub(crate) fn group_document(&self, name: &str) -> Option<Value> {
        let groups = self.listed();
        let mut value = group_value(groups.iter().find(|group| group.name == name && !name.is_empty())?);
        value["kind"] = "APIGroup".into();
        value["apiVersion"] = "v1".into();
        Some(value)
    }

    /// Returns the document of `/api/v1` or `/apis/GROUP/VERSION`.
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
        // The core group's list predates `apiVersion` and does not have it.
        if !group.is_empty() {
            document["apiVersion"] = "v1".into();
        }
        Some(document)
    }
}

fn group_value(group: &ListedGroup<'_>) -> Value {
    let name = group.name;
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|v| json!({"groupVersion": api_version(name, v.name()), "version": v.name()}))
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
    // Resources computed on request have no storage version.
    if resource.verbs.contains(&Verb::List) && resource.plural != "componentstatuses" {
        value["storageVersionHash"] = storage_version_hash(resource).into();
    }
    value
}

fn aggregated_group(group: &ListedGroup<'_>) -> Value {
    let name = group.name;
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| match version {
            ListedVersion::Own(version) => aggregated_version(name, version),
            ListedVersion::Remote(remote) => remote_version(remote),
        })
        .collect();
    let metadata = if name.is_empty() { json!({}) } else { json!({"name": name}) };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_version(group: &str, version: &Version) -> Value {
    let resources: Vec<Value> = version.resources.iter().map(|r| aggregated_resource(group, r)).collect();
    json!({"version": version.name, "resources": resources, "freshness": "Current"})
}

/// Returns the last known resources of an extension server; none before its first response.
fn remote_version(remote: &RemoteVersion) -> Value {
    let documents = &remote.documents;
    let freshness = if documents.is_current { "Current" } else { "Stale" };
    let mut version = json!({"version": remote.version, "freshness": freshness});
    if !documents.resources.is_empty() {
        version["resources"] = documents.resources.clone().into();
    }
    version
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

/// Built-in resources omit group and version if they equal those of the list.
fn kind_of(resource: &Resource, group: &str, version: &str, kind: &str) -> Value {
    if !resource.custom && (group, version) == (resource.group.as_str(), resource.version.as_str()) {
        return json!({"group": "", "version": "", "kind": kind});
    }
    json!({"group": group, "version": version, "kind": kind})
}

/// Returns a hash by which clients detect changes of the storage version.
fn storage_version_hash(resource: &Resource) -> String {
    use base64::Engine as _;
    use sha2::Digest as _;
    let (group, version) = super::split_api_version(&resource.storage_api_version);
    let hash = sha2::Sha256::digest(format!("{group}/{version}/{}", resource.kind));
    base64::engine::general_purpose::STANDARD.encode(hash.get(..8).unwrap_or_default())
}
