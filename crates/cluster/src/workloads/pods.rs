//! Helpers on pods, shared by several controllers.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Pod, PodCondition, PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference},
};
use kube::{
    ResourceExt as _,
    api::ObjectMeta,
    core::{Selector, SelectorExt as _},
};
use serde::Serialize;

pub(super) use super::phase::{is_active, is_deleting, is_terminal, phase};
use crate::control_loop::{ControlLoop, Kind, NewEvent, controller_uid};

/// Returns when the pod became ready, if it is ready.
pub(super) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_deref()?;
    let ready = conditions.iter().find(|c| c.type_ == "Ready" && c.status == "True")?;
    Some(ready.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |t| t.0))
}

pub(super) fn is_ready(pod: &Pod) -> bool {
    ready_since(pod).is_some()
}

/// Returns how long until a pod has been ready for `seconds`. `None` if it is not ready.
pub(super) fn until_available(pod: &Pod, seconds: i32, now: Timestamp) -> Option<Duration> {
    let since = ready_since(pod)?;
    if seconds <= 0 {
        return Some(Duration::ZERO);
    }
    let due = since.as_second().saturating_add(i64::from(seconds));
    let due = Timestamp::from_second(due).unwrap_or(Timestamp::MAX);
    Some(Duration::try_from(due.duration_since(now)).unwrap_or(Duration::ZERO))
}

pub(super) fn is_available(pod: &Pod, seconds: i32, now: Timestamp) -> bool {
    until_available(pod, seconds, now).is_some_and(|d| d.is_zero())
}

/// Whether labels match a selector. An invalid or empty selector matches nothing.
pub(super) fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let empty = selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty);
    !empty && Selector::try_from(selector.clone()).is_ok_and(|s| s.matches(labels))
}

/// Returns the controller owner reference to `owner`.
pub(super) fn reference<K: Kind>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.name_any(),
        uid: owner.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Returns the objects controlled by `owner`, after releasing and adopting.
///
/// Objects that the selector no longer matches are released, and matching objects without a controller are adopted.
pub(super) async fn claim<O: Kind, K: Kind>(
    control: &mut ControlLoop,
    owner: &O,
    selector: &LabelSelector,
) -> kube::Result<Vec<Arc<K>>> {
    let namespace = owner.namespace().unwrap_or_default();
    let uid = owner.uid().unwrap_or_default();
    let controlled: Vec<Arc<K>> = K::cache(&control.caches).controlled_by(&uid).cloned().collect();
    let mut mine = Vec::with_capacity(controlled.len());
    for object in controlled {
        if selects(selector, object.labels()) {
            mine.push(object);
        } else if !is_deleting(owner) && !control.is_spent() {
            let mut released = K::clone(&object);
            released.owner_references_mut().retain(|o| o.uid != uid);
            control.update(&released).await?;
        }
    }
    if is_deleting(owner) {
        return Ok(mine);
    }
    let free: Vec<Arc<K>> = K::cache(&control.caches)
        .controlled_by("")
        .filter(|o| o.namespace().as_deref() == Some(&namespace) && !is_deleting(&***o))
        .filter(|o| selects(selector, o.labels()))
        .cloned()
        .collect();
    for object in free {
        if control.is_spent() {
            break;
        }
        let mut adopted = K::clone(&object);
        adopted.owner_references_mut().push(reference(owner));
        mine.push(Arc::new(control.update(&adopted).await?));
    }
    mine.sort_by_key(|o| o.name_any());
    debug_assert!(mine.iter().all(|o| controller_uid(&**o) == uid));
    Ok(mine)
}

/// Records an event on an owner that creates no more pods because too many are unscheduled.
pub(super) async fn record_held_back<K: Kind>(
    control: &mut ControlLoop,
    owner: &K,
    component: &'static str,
) -> kube::Result<()> {
    if let Some(waiting) = control.held_back() {
        let message = format!("Not creating more pods: {waiting} pods of the namespace are unscheduled");
        control
            .record_event(
                owner,
                NewEvent { component, warning: true, reason: "FailedCreate", message: &message },
            )
            .await;
    }
    Ok(())
}

/// Deletes a pod after adding the condition `DisruptionTarget`, which tells its owner why it ended.
pub(super) async fn disrupt(
    control: &mut ControlLoop,
    pod: &Pod,
    reason: &str,
    message: String,
) -> kube::Result<()> {
    let mut marked = pod.clone();
    let now = control.time();
    let conditions = marked.status.get_or_insert_default().conditions.get_or_insert_default();
    conditions.retain(|c| c.type_ != "DisruptionTarget");
    conditions.push(PodCondition {
        type_: "DisruptionTarget".to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: Some(now),
        observed_generation: pod.metadata.generation,
        ..PodCondition::default()
    });
    let marked = control.update_status(&marked).await?;
    control.delete(&marked, None).await
}

/// Returns a pod made from a template.
pub(super) fn from_template<K: Kind>(owner: &K, template: &PodTemplateSpec, metadata: ObjectMeta) -> Pod {
    let given = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            namespace: owner.namespace(),
            labels: given.labels,
            annotations: given.annotations,
            finalizers: given.finalizers,
            owner_references: Some(vec![reference(owner)]),
            ..metadata
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// Returns metadata with the `generateName` of an owner's pods.
pub(super) fn generated(owner: &str) -> ObjectMeta {
    ObjectMeta { generate_name: Some(format!("{owner}-")), ..ObjectMeta::default() }
}

/// Sorts pods by the order of deletion on scale-down.
pub(super) fn sort_for_deletion(pods: &mut [Arc<Pod>]) {
    pods.sort_by_key(|pod| {
        let assigned = pod.spec.as_ref().is_some_and(|s| s.node_name.is_some());
        let rank = match phase(pod) {
            "Pending" => 0,
            "Unknown" => 1,
            _ => 2,
        };
        let cost: i64 = pod
            .annotations()
            .get("controller.kubernetes.io/pod-deletion-cost")
            .and_then(|v| v.parse().ok())
            .unwrap_or_default();
        let created = pod.metadata.creation_timestamp.as_ref().map(|t| t.0);
        (assigned, rank, is_ready(pod), cost, Reverse(ready_since(pod)), Reverse(created), pod.name_any())
    });
}

/// Returns a short hash of an object, without vowels, so that it spells no words.
pub(super) fn hash(value: &impl Serialize, collisions: i32) -> String {
    // FNV-1a: stable over versions and platforms, which the standard library's hasher is not.
    let mut hash: u32 = 0x811c_9dc5;
    let text = serde_json::to_vec(value).unwrap_or_default();
    for byte in text.into_iter().chain(collisions.to_be_bytes()) {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    hash.to_string().bytes().map(|b| char::from(LETTERS[usize::from(b) % LETTERS.len()])).collect()
}
