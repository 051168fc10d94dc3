//! The built-in resources, loaded from the data file once per process.

use std::sync::{Arc, LazyLock};

use serde::Deserialize;

use steersman_api::{
    group_version::{api_version, qualified},
    resource::{EmptyObject, Group, Resource, Subresource, Verb, Version},
};

use crate::{kind, strategy::Builtin};

#[derive(Deserialize)]
struct GroupData {
    group: String,
    versions: Vec<VersionData>,
}

#[derive(Deserialize)]
struct VersionData {
    version: String,
    resources: Vec<ResourceData>,
}

#[derive(Deserialize)]
struct ResourceData {
    name: String,
    kind: String,
    #[serde(default)]
    singular: String,
    #[serde(default)]
    short: Vec<String>,
    #[serde(default)]
    categories: Vec<String>,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    response: Option<String>,
    verbs: Vec<Verb>,
}

/// Returns all built-in groups in discovery order.
pub fn groups() -> &'static [(String, Group)] {
    static GROUPS: LazyLock<Vec<(String, Group)>> = LazyLock::new(load);
    &GROUPS
}

fn load() -> Vec<(String, Group)> {
    // The file is compiled in; a test checks that it parses.
    let data: Vec<GroupData> =
        serde_json::from_str(include_str!("../data/resources.json")).unwrap_or_default();
    data.into_iter()
        .map(|group| {
            let versions = group.versions.into_iter().map(|v| version(&group.group, v)).collect();
            (group.group, Group { versions })
        })
        .collect()
}

fn version(group: &str, data: VersionData) -> Version {
    let mut resources: Vec<Resource> = Vec::new();
    for item in data.resources {
        match item.name.split_once('/') {
            None => resources.push(resource(group, &data.version, item)),
            Some((parent, name)) => {
                let (sub_group, sub_version) = item
                    .response
                    .as_deref()
                    .and_then(|r| r.split_once('/'))
                    .unwrap_or((group, &data.version));
                let sub = Subresource {
                    name: name.to_owned(),
                    kind: item.kind,
                    group: sub_group.to_owned(),
                    version: sub_version.to_owned(),
                    verbs: item.verbs,
                };
                if let Some(parent) = resources.iter_mut().find(|r| r.plural == parent) {
                    parent.subresources.push(sub);
                }
            }
        }
    }
    Version { name: data.version, resources: resources.into_iter().map(Arc::new).collect() }
}

fn resource(group: &str, version: &str, data: ResourceData) -> Resource {
    let kind = kind(group, &data.name);
    let stored = kind.stored.as_ref().map(|stored| (stored.group, stored.version));
    let (storage_group, storage_version) = stored.unwrap_or((group, version));
    let storage = qualified(&data.name, storage_group).into();
    let strategy = Arc::new(Builtin::new(group, &data.kind, kind));
    Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        list_kind: format!("{}List", data.kind),
        plural: data.name,
        singular: data.singular,
        kind: data.kind,
        short_names: data.short,
        categories: data.categories,
        namespaced: data.namespaced,
        verbs: data.verbs,
        subresources: Vec::new(),
        storage_version: storage_version.to_owned(),
        storage_api_version: api_version(storage_group, storage_version),
        storage,
        custom: false,
        strategy,
        empty: EmptyObject::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_file_parses() {
        let all: Vec<_> = groups().iter().flat_map(|(_, g)| &g.versions).flat_map(|v| &v.resources).collect();
        let subresources: usize = all.iter().map(|r| r.subresources.len()).sum();
        assert_eq!((groups().len(), all.len(), subresources), (21, 68, 45));
    }

    #[test]
    fn every_described_kind_is_served() {
        for kind in crate::KINDS.iter().copied().flatten() {
            let mut served = groups().iter().filter(|(name, _)| name == kind.group);
            let found = served
                .any(|(_, g)| g.versions.iter().flat_map(|v| &v.resources).any(|r| r.plural == kind.plural));
            assert!(found, "{} {}", kind.group, kind.plural);
        }
    }
}
