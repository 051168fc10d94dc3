//! ControllerRevisions: the template history of StatefulSets and DaemonSets.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::{
    api::{apps::v1::ControllerRevision, core::v1::PodTemplateSpec},
    apimachinery::pkg::runtime::RawExtension,
};
use kube::{ResourceExt as _, api::ObjectMeta};
use serde_json::{Value, json};

use super::pods;
use crate::control_loop::{ControlLoop, Kind, is_already_exists};

/// Pod label with the hash of the revision.
pub(super) const LABEL: &str = "controller-revision-hash";

/// A stored revision.
pub(super) struct Revision {
    pub(super) name: String,
    /// Its hash, from the label.
    pub(super) hash: String,
}

/// Stores a template as the newest revision of `owner`. `label` holds the revision's hash.
///
/// A revision with the same template and another name is reused: another controller manager wrote it.
pub(super) async fn sync_revision<K: Kind>(
    control: &mut ControlLoop,
    owner: &K,
    template: &PodTemplateSpec,
    label: &str,
) -> kube::Result<Revision> {
    let uid = owner.uid().unwrap_or_default();
    let hash = pods::hash(template, 0);
    let name = format!("{}-{hash}", owner.name_any());
    let own = control.caches.controller_revisions.controlled_by(&uid);
    let own: Vec<Arc<ControllerRevision>> = own.filter(|r| !pods::is_deleting(&***r)).cloned().collect();
    let newest = own.iter().max_by_key(|r| (r.revision, r.name_any() == name));
    if newest.is_some_and(|newest| newest.name_any() == name) {
        return Ok(Revision { name, hash });
    }
    // Through JSON text, whose serializer exists already: instantiating another one for pods takes seconds of build time.
    let mut patch: Value =
        serde_json::from_slice(&serde_json::to_vec(template).map_err(kube::Error::SerdeError)?)
            .map_err(kube::Error::SerdeError)?;
    patch["$patch"] = "replace".into();
    let data = Some(RawExtension(json!({"spec": {"template": patch}})));
    let (same, others): (Vec<_>, Vec<_>) = own.iter().partition(|r| r.data == data);
    let next = others.iter().map(|r| r.revision).max().unwrap_or_default().saturating_add(1);
    if let Some(found) = same.into_iter().max_by_key(|r| r.revision) {
        if found.revision < next {
            // Rollback to an old template: its revision becomes the newest again.
            let mut again = ControllerRevision::clone(found);
            again.revision = next;
            control.update(&again).await?;
        }
        let hash = found.labels().get(label).cloned().unwrap_or_else(|| found.name_any());
        return Ok(Revision { name: found.name_any(), hash });
    }
    let mut labels = template.metadata.clone().and_then(|m| m.labels).unwrap_or_default();
    labels.insert(label.to_owned(), hash.clone());
    let made = ControllerRevision {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: owner.namespace(),
            labels: Some(labels),
            owner_references: Some(vec![pods::reference(owner)]),
            ..ObjectMeta::default()
        },
        data,
        revision: next,
    };
    match control.create(&made).await {
        Err(error) if !is_already_exists(&error) => Err(error),
        _ => Ok(Revision { name, hash }),
    }
}

/// Deletes the oldest unused revisions, down to `limit`.
pub(super) async fn truncate_history<K: Kind>(
    control: &mut ControlLoop,
    owner: &K,
    used: &BTreeSet<String>,
    limit: i32,
) -> kube::Result<()> {
    let uid = owner.uid().unwrap_or_default();
    let mut idle: Vec<Arc<ControllerRevision>> = control
        .caches
        .controller_revisions
        .controlled_by(&uid)
        .filter(|r| !used.contains(&r.name_any()) && !pods::is_deleting(&***r))
        .cloned()
        .collect();
    idle.sort_by_key(|r| r.revision);
    let surplus = idle.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
    for revision in idle.iter().take(surplus) {
        control.delete(&**revision, None).await?;
    }
    Ok(())
}
