//! The built-in resources, read from the data file once per process.

use std::sync::{Arc, LazyLock};

use serde::Deserialize;

use crate::{
    group_version::api_version,
    resource::{EmptyObject, Group, Resource, Subresource, Version},
    strategy::Builtin,
};

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
    verbs: Vec<String>,
}

/// All built-in groups in discovery order.
pub fn groups() -> &'static [(String, Group)] {
    static GROUPS: LazyLock<Vec<(String, Group)>> = LazyLock::new(load);
    &GROUPS
}

fn load() -> Vec<(String, Group)> {
    // The file is part of the program; a test parses it.
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
    // Events of both groups are the same objects, kept in the core group's form.
    let (storage_group, storage_version) = match (group, data.name.as_str()) {
        ("events.k8s.io", "events") => ("", "v1"),
        ("autoscaling", "horizontalpodautoscalers") => ("autoscaling", "v2"),
        _ => (group, version),
    };
    let storage: Arc<str> = if storage_group.is_empty() {
        data.name.as_str().into()
    } else {
        format!("{}.{storage_group}", data.name).into()
    };
    let strategy = Arc::new(Builtin::new(group, &data.name, &data.kind));
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
}
