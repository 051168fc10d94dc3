//! The templates that a stateful set or a daemon set has had, kept as objects.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::{
    api::{apps::v1::ControllerRevision, core::v1::PodTemplateSpec},
    apimachinery::pkg::runtime::RawExtension,
};
use kube::{ResourceExt as _, api::ObjectMeta};
use serde_json::json;

use super::pods;
use crate::world::{Kind, World, exists_already};

/// The label by which pods tell their revision.
pub(super) const LABEL: &str = "controller-revision-hash";

/// Keeps a template as the newest revision of `owner` and gives its name. `label` is where the revision itself tells
/// its hash. A revision of another name with the same template will do: somebody else wrote it.
pub(super) async fn keep<K: Kind>(
    world: &mut World,
    owner: &K,
    template: &PodTemplateSpec,
    label: &str,
) -> kube::Result<String> {
    let uid = owner.uid().unwrap_or_default();
    let hash = pods::hash(template, 0);
    let name = format!("{}-{hash}", owner.name_any());
    let newest =
        world.caches.controller_revisions.controlled_by(&uid).map(|r| r.revision).max().unwrap_or_default();
    let mut patch = json!(template);
    patch["$patch"] = "replace".into();
    let data = Some(RawExtension(json!({"spec": {"template": patch}})));
    let namespace = owner.namespace().unwrap_or_default();
    let found = world.caches.controller_revisions.get(&namespace, &name).or_else(|| {
        let same = world.caches.controller_revisions.controlled_by(&uid);
        same.filter(|r| r.data == data && !pods::is_deleting(&***r)).max_by_key(|r| r.revision).cloned()
    });
    if let Some(found) = found {
        if found.revision < newest {
            // An old template is back: it is the newest again.
            let mut again = ControllerRevision::clone(&found);
            again.revision = newest + 1;
            world.update(&again).await?;
        }
        return Ok(name);
    }
    let mut labels = template.metadata.clone().and_then(|m| m.labels).unwrap_or_default();
    labels.insert(label.to_owned(), hash);
    let made = ControllerRevision {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: owner.namespace(),
            labels: Some(labels),
            owner_references: Some(vec![pods::reference(owner)]),
            ..ObjectMeta::default()
        },
        data,
        revision: newest + 1,
    };
    match world.create(&made).await {
        Err(error) if !exists_already(&error) => Err(error),
        _ => Ok(name),
    }
}

/// Deletes the oldest revisions that nobody uses, down to `limit`.
pub(super) async fn trim<K: Kind>(
    world: &mut World,
    owner: &K,
    used: &BTreeSet<String>,
    limit: i32,
) -> kube::Result<()> {
    let uid = owner.uid().unwrap_or_default();
    let mut idle: Vec<Arc<ControllerRevision>> = world
        .caches
        .controller_revisions
        .controlled_by(&uid)
        .filter(|r| !used.contains(&r.name_any()) && !pods::is_deleting(&***r))
        .cloned()
        .collect();
    idle.sort_by_key(|r| r.revision);
    let surplus = idle.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
    for revision in idle.iter().take(surplus) {
        world.delete(&**revision, None).await?;
    }
    Ok(())
}
