//! The roles and bindings that every cluster starts with.
//!
//! They are kept in the form in which they rest in the store, with gaps for what differs between clusters, so that starting a
//! server copies bytes and parses nothing.

use std::sync::LazyLock;

use serde::Deserialize;

use super::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, Rbac, index::Index};
use crate::{
    environment::EnvironmentExt as _,
    server::Core,
    store::{Draft, Template},
};

/// Stands for the uid in the data file.
const UID: &str = "00000000-0000-0000-0000-000000000000";
/// Stands for the time in the data file.
const TIME: &str = "2000-01-01T00:00:00Z";

struct Object {
    storage: &'static str,
    key: String,
    template: Template,
}

#[derive(Deserialize)]
struct Head {
    kind: String,
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    labels: std::collections::BTreeMap<String, String>,
}

/// The objects, and what an index of nothing else holds.
static OBJECTS: LazyLock<(Vec<Object>, Index)> = LazyLock::new(|| {
    let (mut objects, mut index) = (Vec::new(), Index::default());
    for line in include_str!("../../../data/rbac.jsonl").lines() {
        // The file is part of the program; a test reads it.
        let Ok(Head { kind, metadata }) = serde_json::from_str(line) else { continue };
        let key = crate::object::key(&metadata.namespace, &metadata.name);
        let storage = match kind.as_str() {
            "Role" => ROLES,
            "ClusterRole" => CLUSTER_ROLES,
            "RoleBinding" => ROLE_BINDINGS,
            _ => CLUSTER_ROLE_BINDINGS,
        };
        if kind.ends_with("Binding") {
            if let Ok(binding) = serde_json::from_str(line) {
                index.put_binding(&key, binding);
            }
        } else if let Ok(role) = serde_json::from_str(line) {
            index.put_role(&key, role);
        }
        let labels = metadata.labels.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        if let Some(template) = Template::new(line, labels, &[UID, TIME]) {
            objects.push(Object { storage, key, template });
        }
    }
    (objects, index)
});

/// Makes the roles and bindings that are missing.
pub(crate) fn populate(core: &Core) {
    let (objects, index) = &*OBJECTS;
    let now = core.environment.now_string();
    let tables = [ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS];
    let fresh = tables.iter().all(|table| core.store.count(table) == 0);
    for object in objects {
        let draft: Draft = object.template.fill(&[&core.environment.uid(), &now]);
        // One that is there already is left as it is.
        let _ = core.store.create(object.storage, &object.key, draft);
    }
    if fresh {
        core.rbac.start_from(index.clone());
    } else {
        core.rbac.learn_all(&core.store);
    }
}

impl Rbac {
    fn start_from(&self, index: Index) {
        *self.index.write().unwrap_or_else(std::sync::PoisonError::into_inner) = index;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Server;

    #[test]
    fn every_line_is_an_object_at_rest() {
        let (objects, _) = &*OBJECTS;
        assert_eq!(objects.len(), include_str!("../../../data/rbac.jsonl").lines().count());
        assert_eq!(objects.len(), 133);
        let server = Server::default();
        for object in objects {
            let entry = server.store().get(object.storage, &object.key).unwrap();
            let value = entry.value();
            let written = Draft::new(&value, Vec::new()).unwrap();
            assert_eq!(
                String::from_utf8_lossy(entry.bytes()),
                String::from_utf8_lossy(written.bytes()),
                "{}",
                object.key
            );
            assert_eq!(value["metadata"]["resourceVersion"], entry.revision().to_string());
            assert_ne!(value["metadata"]["uid"], UID);
            assert!(!String::from_utf8_lossy(entry.bytes()).contains(TIME));
        }
    }
}
