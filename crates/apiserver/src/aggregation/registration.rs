//! APIServices of local group versions: built-in ones from the start, custom ones while served.

use std::{collections::BTreeSet, sync::LazyLock};

use serde_json::json;
use steersman_api::{
    environment::EnvironmentExt as _,
    store::{Draft, Template},
};

use super::{
    RESOURCE,
    priority::{BUILT_IN, CUSTOM},
};
use crate::core::Core;

/// The label of APIServices that the server manages.
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
/// Created when the server starts.
const ON_START: &str = "onstart";
/// Kept in sync while the group version is served.
const ALWAYS: &str = "true";

/// Placeholder of the uid in a template.
const UID: &str = "00000000-0000-0000-0000-000000000000";
/// Placeholder of the time in a template.
const TIME: &str = "2000-01-01T00:00:00Z";

static TEMPLATES: LazyLock<Vec<(String, Template)>> = LazyLock::new(|| {
    BUILT_IN
        .iter()
        .filter_map(|(group, version, of_group, of_version)| {
            let name = format!("{version}.{group}");
            Some((name, template(group, version, (*of_group, *of_version), ON_START)?))
        })
        .collect()
});

/// Builds a stored APIService with gaps for uid and time: server start copies bytes and parses nothing.
fn template(group: &str, version: &str, priorities: (i64, i64), managed: &str) -> Option<Template> {
    let mut spec = json!({
        "groupPriorityMinimum": priorities.0,
        "version": version,
        "versionPriority": priorities.1,
    });
    let mut fields = json!({"f:groupPriorityMinimum": {}, "f:version": {}, "f:versionPriority": {}});
    if !group.is_empty() {
        spec["group"] = group.into();
        fields["f:group"] = json!({});
    }
    let label = format!("f:{MANAGED}");
    let object = json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {
            "creationTimestamp": TIME,
            "labels": {MANAGED: managed},
            "managedFields": [{
                "apiVersion": "apiregistration.k8s.io/v1",
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:metadata": {"f:labels": {".": {}, label: {}}}, "f:spec": fields},
                "manager": "kube-apiserver",
                "operation": "Update",
                "time": TIME,
            }],
            "name": format!("{version}.{group}"),
            "uid": UID,
        },
        "spec": spec,
        "status": {"conditions": [{
            "lastTransitionTime": TIME,
            "message": "Local APIServices are always available",
            "reason": "Local",
            "status": "True",
            "type": "Available",
        }]},
    });
    Template::new(&object.to_string(), [(MANAGED, managed)].into_iter().collect(), &[UID, TIME])
}

fn fill(core: &Core, template: &Template) -> Draft {
    template.fill(&[&core.environment.uid(), &core.environment.now_string()])
}

/// Creates missing APIServices of built-in groups.
pub(crate) fn populate(core: &Core) {
    for (name, template) in TEMPLATES.iter() {
        // An existing one is left unchanged.
        let _ = core.store.create(RESOURCE, name, fill(core, template));
    }
}

/// Creates APIServices of served custom groups, and deletes those of groups no longer served.
pub(crate) fn register_custom(core: &Core) {
    let catalog = core.catalog();
    let mut wanted = BTreeSet::new();
    for (group, served) in catalog.custom_groups() {
        for version in &served.versions {
            let name = format!("{}.{group}", version.name);
            if core.store.get(RESOURCE, &name).is_none()
                && let Some(template) = template(group, &version.name, CUSTOM, ALWAYS)
            {
                let _ = core.store.create(RESOURCE, &name, fill(core, &template));
            }
            wanted.insert(name);
        }
    }
    for entry in core.store.snapshot(RESOURCE, "", None).entries {
        if entry.labels().get(MANAGED) == Some(ALWAYS) && !wanted.contains(entry.key()) {
            let _ = core.store.delete(RESOURCE, entry.key(), entry.revision());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Server;

    #[test]
    fn built_in_groups_have_their_services_at_rest() {
        let server = Server::default();
        let catalog = server.catalog();
        let names: BTreeSet<String> = catalog
            .groups()
            .filter(|(group, _)| *group != "apiregistration.k8s.io")
            .flat_map(|(group, served)| served.versions.iter().map(move |v| format!("{}.{group}", v.name)))
            .collect();
        let stored = server.store().snapshot(RESOURCE, "", None).entries;
        assert_eq!(stored.iter().map(|entry| entry.key().to_owned()).collect::<BTreeSet<_>>(), names);
        for entry in stored {
            let value = entry.value();
            let copy = Server::builder().bootstrap(false).build();
            let written = Draft::new(&value, Vec::new()).unwrap();
            let written = copy.store().create(RESOURCE, entry.key(), written).unwrap();
            assert_eq!(String::from_utf8_lossy(&entry.bytes()), String::from_utf8_lossy(&written.bytes()));
            assert_eq!(entry.labels().get(MANAGED), Some(ON_START));
            assert_ne!(value["metadata"]["uid"], UID);
        }
    }
}
