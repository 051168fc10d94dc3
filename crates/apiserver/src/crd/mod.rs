//! Custom resource definitions: validation, names, catalog entries and the strategy of their objects.

mod conversion;
mod definitions;
mod strategy;
mod version;

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError},
};

use serde_json::{Value, json};
use steersman_api::resource::{EmptyObject, Verb};

use conversion::Converter;
pub(crate) use definitions::Definitions;
use steersman_api::{
    environment::EnvironmentExt as _,
    object,
    status::{ApiError, ApiResult},
    store::{Draft, Entry},
};
pub(crate) use version::compare_versions;

use crate::{
    aggregation,
    catalog::{Catalog, Group, Resource, Subresource, Version, api_version},
    conditions,
    core::Core,
};

/// The storage name of definitions.
pub(crate) const RESOURCE: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// The finalizer of a definition that still has objects.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Reconciles a definition: its conditions, the served resources, and its deletion.
pub(crate) fn reconcile(core: &Arc<Core>, name: &str) {
    if let Some(entry) = core.store.get(RESOURCE, name) {
        let definition = entry.value();
        if object::is_deleting(&definition) {
            finish(core, &entry, &definition);
        } else {
            accept(core, &entry, definition);
        }
    }
    rebuild(core);
    aggregation::register_custom(core);
}

/// Sets the accepted names and conditions of a definition.
fn accept(core: &Arc<Core>, entry: &Entry, mut definition: Value) {
    let now = core.environment.now_string();
    let (names, conflict) = accepted_names(core, &definition);
    let approval = steersman_structural::definition::approval_condition(&definition);
    let old = definition.clone();
    let status = object::child(&mut definition, "status");
    let before = Value::Object(status.clone());
    status.insert("acceptedNames".into(), names);
    let (accepted, reason, message) = match &conflict {
        None => ("True", "NoConflicts", "no conflicts found".to_owned()),
        Some((reason, message)) => ("False", *reason, message.clone()),
    };
    conditions::set(status, "NamesAccepted", accepted, reason, &message, &now);
    let established = status
        .get("conditions")
        .and_then(Value::as_array)
        .is_some_and(|c| c.iter().any(|c| c["type"] == "Established" && c["status"] == "True"));
    if conflict.is_none() && !established {
        let message = "the initial names have been accepted";
        conditions::set(status, "Established", "True", "InitialNamesAccepted", message, &now);
    } else if !established {
        conditions::set(status, "Established", "False", "NotAccepted", "not all names are accepted", &now);
    }
    if let Some((value, reason, message)) = approval {
        conditions::set(status, "KubernetesAPIApprovalPolicyConformant", value, reason, &message, &now);
    }
    if Value::Object(status.clone()) != before {
        write_status(core, entry, &old, definition);
    }
}

/// Stores the new status of a definition.
fn write_status(core: &Arc<Core>, entry: &Entry, old: &Value, next: Value) {
    let catalog = core.catalog();
    if let Some(resource) = catalog.find_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition") {
        conditions::store(core, resource, entry, old, next);
    }
}

/// Returns the accepted names: those not used by other definitions of the group; and the last conflict.
fn accepted_names(core: &Core, definition: &Value) -> (Value, Option<(&'static str, String)>) {
    let own = object::name(definition);
    let wanted = &definition["spec"]["names"];
    let mut names = definition["status"]["acceptedNames"].clone();
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|v| Some(v.as_str()?.to_owned())).collect()
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (mut resources, mut kinds) = (Vec::new(), Vec::new());
    for entry in core.store.snapshot(RESOURCE, "", None).entries {
        let other = entry.value();
        let taken = &other["status"]["acceptedNames"];
        if entry.key() == own || other["spec"]["group"] != definition["spec"]["group"] {
            continue;
        }
        resources.extend([text(&taken["plural"]), text(&taken["singular"])]);
        resources.extend(texts(&taken["shortNames"]));
        kinds.extend([text(&taken["kind"]), text(&taken["listKind"])]);
    }
    let mut conflict = None;
    for (key, used, reason) in [
        ("plural", &resources, "PluralConflict"),
        ("singular", &resources, "SingularConflict"),
        ("shortNames", &resources, "ShortNamesConflict"),
        ("kind", &kinds, "KindConflict"),
        ("listKind", &kinds, "ListKindConflict"),
    ] {
        let given = match &wanted[key] {
            Value::Array(_) => texts(&wanted[key]),
            value => vec![text(value)],
        };
        let mut taken: Vec<String> = given
            .iter()
            .filter(|name| !name.is_empty() && used.contains(name))
            .map(|name| format!("{} is already in use", steersman_api::status::quote(name)))
            .collect();
        if taken.is_empty() {
            let names = object::ensure(&mut names);
            match wanted.get(key) {
                Some(value) => names.insert(key.into(), value.clone()),
                None => names.remove(key),
            };
        } else {
            let message = match taken.len() {
                1 => taken.remove(0),
                _ => format!("[{}]", taken.join(", ")),
            };
            conflict = Some((reason, message));
        }
    }
    let names_map = object::ensure(&mut names);
    match wanted.get("categories") {
        Some(value) => names_map.insert("categories".into(), value.clone()),
        None => names_map.remove("categories"),
    };
    (names, conflict)
}

/// Deletes the objects of a terminating definition, and then the definition.
fn finish(core: &Arc<Core>, entry: &Entry, definition: &Value) {
    let storage = definition["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let now = core.environment.now_string();
    for object in core.store.snapshot(&storage, "", None).entries {
        let value = object.value();
        if object::finalizers(&value).is_empty() {
            let _ = core.store.delete(&storage, object.key(), object.revision());
        } else if !object::is_deleting(&value) {
            let mut marked = value;
            let generation = object::generation(&marked) + 1;
            let metadata = object::metadata(&mut marked);
            metadata.insert("deletionTimestamp".into(), now.clone().into());
            metadata.insert("deletionGracePeriodSeconds".into(), 0.into());
            metadata.insert("generation".into(), generation.into());
            if let Ok(draft) = Draft::new(&marked, Vec::new()) {
                let _ = core.store.update(&storage, object.key(), object.revision(), draft);
            }
        }
    }
    if core.store.count(&storage) > 0 {
        let mut next = definition.clone();
        let message = "CustomResource deletion is in progress";
        let status = object::child(&mut next, "status");
        conditions::set(status, "Terminating", "True", "InstanceDeletionInProgress", message, &now);
        write_status(core, entry, definition, next);
        return;
    }
    let others: Vec<&str> = object::finalizers(definition).into_iter().filter(|f| *f != CLEANUP).collect();
    if others.is_empty() {
        let _ = core.store.delete(RESOURCE, entry.key(), entry.revision());
        core.store.end_watches(&storage);
    } else {
        let mut next = definition.clone();
        object::metadata(&mut next).insert("finalizers".into(), json!(others));
        if let Ok(draft) = Draft::new(&next, Vec::new()) {
            let _ = core.store.update(RESOURCE, entry.key(), entry.revision(), draft);
        }
    }
}

/// Marks a definition as terminating, with a finalizer that keeps it until its objects are deleted.
pub(crate) fn mark_terminating(object: &mut Value, now: &str) {
    if object::is_deleting(object) {
        return;
    }
    let metadata = object::metadata(object);
    metadata.insert("deletionTimestamp".into(), now.into());
    let list = metadata.entry("finalizers").or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut()
        && !list.iter().any(|f| f == CLEANUP)
    {
        list.push(CLEANUP.into());
    }
    let status = object::child(object, "status");
    conditions::set(
        status,
        "Terminating",
        "True",
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        now,
    );
}

/// Reconciles after a write: the written definition, or a terminating one that lost its last object.
pub(crate) fn after_write(core: &Arc<Core>, resource: &Resource, object_name: &str) {
    if *resource.storage == *RESOURCE {
        reconcile(core, object_name);
        return;
    }
    if !resource.custom || core.store.count(&resource.storage) > 0 {
        return;
    }
    let name = resource.qualified();
    let waiting = core.store.get(RESOURCE, &name).is_some_and(|definition| definition.is_deleting());
    if waiting {
        reconcile(core, &name);
    }
}

/// Rebuilds the catalog from the stored definitions.
pub(crate) fn rebuild(core: &Core) {
    let mut served = core.definitions.served.lock().unwrap_or_else(PoisonError::into_inner);
    let mut next = BTreeMap::new();
    for entry in core.store.snapshot(RESOURCE, "", None).entries {
        let definition = entry.value();
        let established = definition["status"]["conditions"]
            .as_array()
            .is_some_and(|c| c.iter().any(|c| c["type"] == "Established" && c["status"] == "True"));
        if !established {
            continue;
        }
        let generation = object::generation(&definition);
        let resources = match served.get(entry.key()) {
            Some((known, resources)) if *known == generation => resources.clone(),
            previous => {
                // A changed definition closes watches, so that clients see objects in their new form.
                if previous.is_some() {
                    core.store.end_watches(entry.key());
                }
                resources(core, &definition, entry.revision())
            }
        };
        next.insert(entry.key().to_owned(), (generation, resources));
    }
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for resource in next.values().flat_map(|(_, resources)| resources) {
        if Catalog::is_builtin_group(&resource.group) {
            continue;
        }
        let group = groups.entry(resource.group.clone()).or_default();
        match group.versions.iter_mut().find(|v| v.name == resource.version) {
            Some(version) => version.resources.push(Arc::clone(resource)),
            None => group
                .versions
                .push(Version { name: resource.version.clone(), resources: vec![Arc::clone(resource)] }),
        }
    }
    for group in groups.values_mut() {
        group.versions.sort_by(|a, b| compare_versions(&b.name, &a.name));
    }
    *served = next;
    // Under the lock, so that the last of concurrent rebuilds sees the latest state.
    core.set_catalog(Catalog::new(groups, core.aggregator.versions()));
}

/// Returns the served resources of a definition, one per version.
/// `since` is the revision of its current form.
fn resources(core: &Core, definition: &Value, since: u64) -> Vec<Arc<Resource>> {
    let spec = &definition["spec"];
    let names = &definition["status"]["acceptedNames"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|v| Some(v.as_str()?.to_owned())).collect()
    };
    let group = text(&spec["group"]);
    let converter = Converter::new(core, definition);
    let strategy = Arc::new(strategy::Custom::new(definition, since, converter));
    let versions = spec["versions"].as_array();
    let storage = versions
        .into_iter()
        .flatten()
        .find(|v| v["storage"] == true)
        .map(|v| text(&v["name"]))
        .unwrap_or_default();
    versions
        .into_iter()
        .flatten()
        .filter(|v| v["served"] == true)
        .map(|version| {
            let name = text(&version["name"]);
            let mut subresources = Vec::new();
            let verbs = || vec![Verb::Get, Verb::Patch, Verb::Update];
            if version["subresources"]["status"].is_object() {
                subresources.push(Subresource {
                    name: "status".into(),
                    kind: text(&names["kind"]),
                    group: group.clone(),
                    version: name.clone(),
                    verbs: verbs(),
                });
            }
            if version["subresources"]["scale"].is_object() {
                subresources.push(Subresource {
                    name: "scale".into(),
                    kind: "Scale".into(),
                    group: "autoscaling".into(),
                    version: "v1".into(),
                    verbs: verbs(),
                });
            }
            Arc::new(Resource {
                group: group.clone(),
                plural: text(&names["plural"]),
                singular: text(&names["singular"]),
                kind: text(&names["kind"]),
                list_kind: text(&names["listKind"]),
                short_names: texts(&names["shortNames"]),
                categories: texts(&names["categories"]),
                namespaced: spec["scope"] == "Namespaced",
                verbs: vec![
                    Verb::Delete,
                    Verb::DeleteCollection,
                    Verb::Get,
                    Verb::List,
                    Verb::Patch,
                    Verb::Create,
                    Verb::Update,
                    Verb::Watch,
                ],
                subresources,
                storage_version: storage.clone(),
                storage_api_version: api_version(&group, &storage),
                storage: format!("{}.{group}", text(&names["plural"])).into(),
                custom: true,
                strategy: Arc::clone(&strategy) as Arc<dyn steersman_api::strategy::Strategy>,
                empty: EmptyObject::default(),
                version: name,
            })
        })
        .collect()
}

/// Rejects new objects of a terminating definition.
pub(crate) fn check_not_terminating(core: &Core, resource: &Resource, name: &str) -> ApiResult<()> {
    let terminating = resource.custom
        && core.store.get(RESOURCE, &resource.qualified()).is_some_and(|definition| definition.is_deleting());
    if terminating {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(ApiError::forbidden(&resource.group, &resource.plural, name, why));
    }
    Ok(())
}
