//! Maps kinds to resources without a cluster's discovery.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;
use steersman_chart::{Chart, split};

use crate::names;

/// The built-in kinds: group, kind, and whether it is namespaced.
const BUILT_IN: &str = include_str!("../../data/kinds.tsv");

/// A resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) plural: String,
    pub(crate) namespaced: bool,
}

/// Maps kinds to resources: the built-in ones, and those that a chart defines.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    defined: HashMap<(String, String), Served>,
}

static SCOPES: LazyLock<HashMap<(&str, &str), bool>> = LazyLock::new(|| {
    let row = |line: &'static str| {
        let mut columns = line.split('\t');
        Some(((columns.next()?, columns.next()?), columns.next()? == "true"))
    };
    BUILT_IN.lines().filter_map(row).collect()
});

impl Kinds {
    /// Collects the kinds defined in the `crds/` of a chart and its subcharts.
    pub(crate) fn of_chart(chart: &Chart) -> Self {
        let mut kinds = Self::default();
        for file in chart.all_files().iter().filter(|file| file.name.split('/').any(|part| part == "crds")) {
            let text = file.data.to_str_lossy();
            for document in split(&text).into_iter().filter_map(|text| steersman_yaml::from_str(text).ok()) {
                kinds.define(&document);
            }
        }
        kinds
    }

    /// Whether charts define kinds in `crds/`.
    pub(crate) fn has_definitions(&self) -> bool {
        !self.defined.is_empty()
    }

    /// Adds the kind of a definition; other objects are ignored.
    pub(crate) fn define(&mut self, object: &Value) {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        if text("/kind").as_deref() != Some("CustomResourceDefinition") {
            return;
        }
        let (Some(group), Some(kind)) = (text("/spec/group"), text("/spec/names/kind")) else { return };
        let plural = text("/spec/names/plural").unwrap_or_else(|| names::guess_resource(&kind));
        let namespaced = text("/spec/scope").as_deref() != Some("Cluster");
        self.defined.insert((group, kind), Served { plural, namespaced });
    }

    /// Returns the resource of a kind; unknown kinds are guessed as Kubernetes does.
    pub(crate) fn find(&self, group: &str, kind: &str) -> Served {
        if let Some(found) = self.defined.get(&(group.to_owned(), kind.to_owned())) {
            return found.clone();
        }
        // Removed groups, such as extensions, had kinds that are in other groups now.
        let namespaced = SCOPES.get(&(group, kind)).copied().or_else(|| scope_of(kind));
        Served { plural: names::guess_resource(kind), namespaced: namespaced.unwrap_or(true) }
    }
}

/// Whether a kind is built in and cluster-scoped.
pub(crate) fn is_cluster_scoped(group: &str, kind: &str) -> bool {
    SCOPES.get(&(group, kind)) == Some(&false)
}

fn scope_of(kind: &str) -> Option<bool> {
    SCOPES.iter().find(|((_, known), _)| *known == kind).map(|(_, namespaced)| *namespaced)
}

/// Returns the group of a built-in kind. For Event it is `events.k8s.io`, as in newer manifests.
pub(crate) fn group_of(kind: &str) -> Option<&'static str> {
    SCOPES.keys().filter(|(_, known)| *known == kind).map(|(group, _)| *group).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_are_those_of_the_embedded_api_server() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../kinds/data/resources.json");
        let groups: Vec<Value> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap();
        let mut rows = Vec::new();
        for group in &groups {
            for resource in list(group, "versions").iter().flat_map(|version| list(version, "resources")) {
                if !resource["name"].as_str().unwrap().contains('/') {
                    let (group, kind) =
                        (group["group"].as_str().unwrap(), resource["kind"].as_str().unwrap());
                    let namespaced = resource["namespaced"].as_bool().unwrap_or(false);
                    rows.push(format!("{group}\t{kind}\t{namespaced}\n"));
                }
            }
        }
        rows.sort();
        rows.dedup();
        assert_eq!(rows.concat(), BUILT_IN);
    }

    #[test]
    fn kinds_are_found_or_guessed() {
        let mut kinds = Kinds::default();
        kinds.define(&serde_json::json!({"kind": "CustomResourceDefinition", "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"kind": "Proxy", "plural": "proxys"}}}));
        let found = |group: &str, kind: &str| {
            let Served { plural, namespaced } = kinds.find(group, kind);
            (plural, namespaced)
        };
        assert_eq!(found("apps", "Deployment"), ("deployments".into(), true));
        assert_eq!(found("", "Namespace"), ("namespaces".into(), false));
        assert_eq!(found("extensions", "Ingress"), ("ingresses".into(), true));
        assert_eq!(found("example.com", "Proxy"), ("proxys".into(), false));
        assert_eq!(found("other.example.com", "Proxy"), ("proxies".into(), true));
        assert_eq!((group_of("Deployment"), group_of("Nonsense")), (Some("apps"), None));
    }
}
