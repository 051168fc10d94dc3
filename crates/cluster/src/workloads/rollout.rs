//! Calculations of a rollout: which ReplicaSet has which revision, and how many replicas each may have.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet},
        core::v1::PodTemplateSpec,
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::ResourceExt as _;

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
pub(super) const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MAXIMUM: &str = "deployment.kubernetes.io/max-replicas";
pub(super) const HASH: &str = "pod-template-hash";
/// Annotations that are not copied between a deployment and its ReplicaSets.
const KEPT_APART: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED,
    MAXIMUM,
    "deprecated.deployment.rollback.to",
];

pub(super) fn wanted(deployment: &Deployment) -> i32 {
    deployment.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1)
}

pub(super) fn size(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1)
}

pub(super) fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|s| s.available_replicas).unwrap_or_default()
}

/// Returns the total size of ReplicaSets.
pub(super) fn total_size(sets: &[Arc<ReplicaSet>]) -> i32 {
    sets.iter().map(|set| size(set)).fold(0, i32::saturating_add)
}

pub(super) fn present(set: &ReplicaSet) -> i32 {
    set.status.as_ref().map_or(0, |s| s.replicas)
}

pub(super) fn is_rolling(deployment: &Deployment) -> bool {
    let strategy =
        deployment.spec.as_ref().and_then(|s| s.strategy.as_ref()).and_then(|s| s.type_.as_deref());
    strategy != Some("Recreate")
}

/// Resolves a number, or a percentage of `total` rounded up or down.
pub(super) fn resolve(value: Option<&IntOrString>, total: i32, up: bool) -> i32 {
    match value {
        Some(IntOrString::Int(n)) => *n,
        Some(IntOrString::String(text)) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or_default();
            let product = percent * i64::from(total);
            let share = if up { (product + 99) / 100 } else { product / 100 };
            i32::try_from(share).unwrap_or(i32::MAX)
        }
        None => 0,
    }
}

/// Returns `maxSurge` and `maxUnavailable`. With both at zero the rollout could not move: then one may be unavailable.
pub(super) fn bounds(deployment: &Deployment) -> (i32, i32) {
    if !is_rolling(deployment) {
        return (0, 0);
    }
    let rolling =
        deployment.spec.as_ref().and_then(|s| s.strategy.as_ref()).and_then(|s| s.rolling_update.as_ref());
    let total = wanted(deployment);
    let surge = resolve(rolling.and_then(|r| r.max_surge.as_ref()), total, true);
    let unavailable = resolve(rolling.and_then(|r| r.max_unavailable.as_ref()), total, false);
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable.min(total)) }
}

pub(super) fn max_unavailable(deployment: &Deployment) -> i32 {
    if wanted(deployment) == 0 { 0 } else { bounds(deployment).1 }
}

/// Returns a template without its pod-template-hash label.
pub(super) fn without_hash(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    if let Some(labels) = template.metadata.as_mut().and_then(|m| m.labels.as_mut()) {
        labels.remove(HASH);
    }
    template
}

/// Returns the ReplicaSet of the deployment's current template: the oldest if there are several.
pub(super) fn find_new(deployment: &Deployment, sets: &[Arc<ReplicaSet>]) -> Option<Arc<ReplicaSet>> {
    let template = without_hash(&deployment.spec.as_ref()?.template);
    let same = |set: &&Arc<ReplicaSet>| {
        let own = set.spec.as_ref().and_then(|s| s.template.as_ref());
        own.is_some_and(|own| without_hash(own) == template)
    };
    sets.iter().filter(same).min_by_key(|s| (created(s), s.name_any())).cloned()
}

pub(super) fn created(set: &ReplicaSet) -> Option<jiff::Timestamp> {
    set.metadata.creation_timestamp.as_ref().map(|t| t.0)
}

pub(super) fn revision(annotations: &BTreeMap<String, String>) -> i64 {
    annotations.get(REVISION).and_then(|v| v.parse().ok()).unwrap_or_default()
}

/// Copies the deployment's annotations to a ReplicaSet. Returns whether that changed anything.
pub(super) fn copy_annotations(deployment: &Deployment, set: &mut ReplicaSet) -> bool {
    let mut changed = false;
    for (key, value) in deployment.annotations() {
        if KEPT_APART.contains(&key.as_str()) || set.annotations().get(key) == Some(value) {
            continue;
        }
        set.annotations_mut().insert(key.clone(), value.clone());
        changed = true;
    }
    changed
}

/// Sets an annotation. Returns whether that changed anything.
pub(super) fn annotate(set: &mut ReplicaSet, key: &str, value: i64) -> bool {
    let value = value.to_string();
    if set.annotations().get(key) == Some(&value) {
        return false;
    }
    set.annotations_mut().insert(key.to_owned(), value);
    true
}

/// Sets the revision of a ReplicaSet, and appends its former one to the revision history.
pub(super) fn set_revision(set: &mut ReplicaSet, new: i64) -> bool {
    let old = set.annotations().get(REVISION).cloned();
    let number = old.as_deref().and_then(|v| v.parse::<i64>().ok()).unwrap_or_default();
    if number >= new {
        return false;
    }
    set.annotations_mut().insert(REVISION.to_owned(), new.to_string());
    if let Some(old) = old.filter(|v| !v.is_empty()) {
        let history = set.annotations().get(REVISION_HISTORY).cloned().unwrap_or_default();
        let history = if history.is_empty() { old } else { format!("{history},{old}") };
        set.annotations_mut().insert(REVISION_HISTORY.to_owned(), history);
    }
    true
}

/// Returns the size of the new ReplicaSet in the next step.
pub(super) fn new_size(deployment: &Deployment, all: &[Arc<ReplicaSet>], new: &ReplicaSet) -> i32 {
    if !is_rolling(deployment) {
        return wanted(deployment);
    }
    let total = total_size(all);
    let limit = wanted(deployment).saturating_add(bounds(deployment).0);
    if total >= limit {
        return size(new);
    }
    size(new).saturating_add((limit - total).min(wanted(deployment).saturating_sub(size(new))))
}

/// Divides a change of replicas during a rollout among the ReplicaSets of a deployment.
///
/// Each gets a share in proportion to its size, the largest first. The first gets the rounding remainder.
pub(super) fn shares(deployment: &Deployment, active: &[Arc<ReplicaSet>]) -> Vec<(Arc<ReplicaSet>, i32)> {
    let total = total_size(active);
    let most = wanted(deployment).saturating_add(bounds(deployment).0);
    let allowed = if wanted(deployment) > 0 { most } else { 0 };
    let mut to_add = allowed - total;
    let mut sets: Vec<Arc<ReplicaSet>> = active.to_vec();
    // Among ReplicaSets of equal size, scaling up favours the newest, scaling down the oldest.
    if to_add > 0 {
        sets.sort_by_key(|s| (std::cmp::Reverse(size(s)), std::cmp::Reverse(created(s)), s.name_any()));
    } else {
        sets.sort_by_key(|s| (std::cmp::Reverse(size(s)), created(s), s.name_any()));
    }
    let mut result = Vec::with_capacity(sets.len());
    let mut added = 0;
    let original = to_add;
    for set in sets {
        let share = if original == 0 { 0 } else { proportion(&set, deployment, original, added) };
        added = i32::saturating_add(added, share);
        let next = size(&set).saturating_add(share);
        result.push((set, next));
    }
    to_add = to_add.saturating_sub(added);
    if let Some(first) = result.first_mut() {
        first.1 = first.1.saturating_add(to_add).max(0);
    }
    result
}

fn proportion(set: &ReplicaSet, deployment: &Deployment, to_add: i32, added: i32) -> i32 {
    if size(set) == 0 || to_add == 0 || to_add == added {
        return 0;
    }
    let former: i32 = set
        .annotations()
        .get(MAXIMUM)
        .and_then(|v| v.parse().ok())
        .or_else(|| deployment.status.as_ref().and_then(|s| s.replicas))
        .filter(|n| *n > 0)
        .unwrap_or_else(|| wanted(deployment).max(1));
    let most = wanted(deployment).saturating_add(bounds(deployment).0);
    let target = f64::from(size(set)) * f64::from(most) / f64::from(former);
    #[expect(clippy::cast_possible_truncation, reason = "a count that is too large becomes the largest")]
    let share = (target.round() as i32).saturating_sub(size(set));
    let left = to_add.saturating_sub(added);
    if to_add > 0 { share.min(left) } else { share.max(left) }
}
