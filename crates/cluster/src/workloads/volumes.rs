//! PersistentVolumeClaims and PersistentVolumes: binds each claim to a matching volume, or provisions one.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::{
        core::v1::{
            CSIPersistentVolumeSource, HostPathVolumeSource, ObjectReference, PersistentVolume,
            PersistentVolumeClaim, PersistentVolumeClaimStatus, PersistentVolumeSpec, PersistentVolumeStatus,
            Pod,
        },
        storage::v1::StorageClass,
    },
    apimachinery::pkg::api::resource,
};
use kube::{ResourceExt as _, api::ObjectMeta};
use steersman_formats::quantity::Quantity;

use super::pods;
use crate::control_loop::{ControlLoop, Controller, NewEvent, is_already_exists};

const NAME: &str = "persistentvolume-controller";
const PROVISIONER: &str = "cluster.steersman.dev/simulated";
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
const OLD_STORAGE_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";

/// Creates the default StorageClass, unless there is a StorageClass already.
pub(super) async fn make_class(control: &mut ControlLoop) -> kube::Result<()> {
    if control.caches.storage_classes.all().next().is_some() {
        return Ok(());
    }
    let class = StorageClass {
        metadata: ObjectMeta {
            name: Some("standard".to_owned()),
            annotations: Some(BTreeMap::from([(DEFAULT_CLASS.to_owned(), "true".to_owned())])),
            ..ObjectMeta::default()
        },
        provisioner: PROVISIONER.to_owned(),
        reclaim_policy: Some("Delete".to_owned()),
        volume_binding_mode: Some("Immediate".to_owned()),
        allow_volume_expansion: Some(true),
        ..StorageClass::default()
    };
    match control.create(&class).await {
        Err(error) if !is_already_exists(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Returns the default StorageClass: the newest of those annotated as default.
fn default_class(control: &ControlLoop) -> Option<String> {
    let marked = |c: &&Arc<StorageClass>| c.annotations().get(DEFAULT_CLASS).is_some_and(|v| v == "true");
    let age = |c: &&Arc<StorageClass>| c.metadata.creation_timestamp.as_ref().map(|t| t.0);
    control.caches.storage_classes.all().filter(marked).max_by_key(age).map(|c| c.name_any())
}

fn storage(amounts: Option<&BTreeMap<String, resource::Quantity>>) -> Option<Quantity> {
    amounts?.get("storage").and_then(|q| Quantity::parse(&q.0))
}

fn asked(claim: &PersistentVolumeClaim) -> Quantity {
    let resources = claim.spec.as_ref().and_then(|s| s.resources.as_ref());
    storage(resources.and_then(|r| r.requests.as_ref())).unwrap_or(Quantity::ZERO)
}

fn claimed_by<'a>(
    volume: &'a PersistentVolume,
    claim: &PersistentVolumeClaim,
) -> Option<&'a ObjectReference> {
    let reference = volume.spec.as_ref()?.claim_ref.as_ref()?;
    let same = reference.name == claim.metadata.name
        && reference.namespace == claim.metadata.namespace
        && reference
            .uid
            .as_ref()
            .is_none_or(|uid| uid.is_empty() || Some(uid) == claim.metadata.uid.as_ref());
    same.then_some(reference)
}

pub(super) async fn reconcile_claim(
    control: &mut ControlLoop,
    namespace: &str,
    name: &str,
) -> kube::Result<()> {
    let Some(claim) = control.caches.claims.get(namespace, name) else { return Ok(()) };
    if pods::is_deleting(&*claim) {
        return release_claim(control, &claim).await;
    }
    let mut claim = PersistentVolumeClaim::clone(&claim);
    let spec = claim.spec.clone().unwrap_or_default();
    if spec.storage_class_name.is_none()
        && spec.volume_name.is_none()
        && let Some(class) = default_class(control)
    {
        claim.spec.get_or_insert_default().storage_class_name = Some(class);
        claim = control.update(&claim).await?;
    }
    if claim.annotations().contains_key(BIND_COMPLETED) {
        return check_bound(control, claim).await;
    }
    if let Some(volume) = choose(control, &claim) {
        return bind(control, claim, &volume).await;
    }
    if claim.spec.as_ref().is_some_and(|s| s.volume_name.as_ref().is_some_and(|n| !n.is_empty())) {
        return set_claim_phase(control, claim, "Pending").await;
    }
    provision(control, claim).await
}

/// Returns a volume for a claim: one that names the claim or is named by it, or the smallest free one that fits.
fn choose(control: &ControlLoop, claim: &PersistentVolumeClaim) -> Option<Arc<PersistentVolume>> {
    let spec = claim.spec.clone().unwrap_or_default();
    let volumes = || control.caches.volumes.all().filter(|v| !pods::is_deleting(&***v));
    if let Some(name) = spec.volume_name.as_deref().filter(|n| !n.is_empty()) {
        let named = control.caches.volumes.get("", name)?;
        let taken = named.spec.as_ref().is_some_and(|s| s.claim_ref.is_some());
        return (!taken || claimed_by(&named, claim).is_some()).then_some(named);
    }
    if let Some(meant) = volumes().find(|v| claimed_by(v, claim).is_some()) {
        return Some(Arc::clone(meant));
    }
    let wanted = asked(claim);
    let class = spec.storage_class_name.as_deref().unwrap_or_default();
    let fits = |volume: &&Arc<PersistentVolume>| {
        let Some(own) = &volume.spec else { return false };
        let modes = own.access_modes.as_deref().unwrap_or_default();
        let mode = |m: &Option<String>| m.clone().unwrap_or_else(|| "Filesystem".to_owned());
        own.claim_ref.is_none()
            && own.storage_class_name.as_deref().unwrap_or_default() == class
            && mode(&own.volume_mode) == mode(&spec.volume_mode)
            && spec.access_modes.iter().flatten().all(|m| modes.contains(m))
            && storage(own.capacity.as_ref()).is_some_and(|size| size >= wanted)
            && spec.selector.as_ref().is_none_or(|s| pods::selects(s, volume.labels()))
    };
    let size = |v: &&Arc<PersistentVolume>| storage(v.spec.as_ref().and_then(|s| s.capacity.as_ref()));
    volumes().filter(fits).min_by_key(|v| (size(v), v.name_any())).cloned()
}

async fn bind(
    control: &mut ControlLoop,
    mut claim: PersistentVolumeClaim,
    volume: &PersistentVolume,
) -> kube::Result<()> {
    let mut volume = volume.clone();
    if claimed_by(&volume, &claim).is_none_or(|r| r.uid.is_none()) {
        let own = volume.spec.get_or_insert_default();
        if own.claim_ref.is_none() {
            volume.annotations_mut().insert(BOUND_BY_CONTROLLER.to_owned(), "yes".to_owned());
        }
        volume.spec.get_or_insert_default().claim_ref = Some(reference(&claim));
        volume = control.update(&volume).await?;
    }
    set_volume_phase(control, &mut volume, "Bound").await?;
    let spec = claim.spec.get_or_insert_default();
    if spec.volume_name.as_deref() != Some(&volume.name_any()) {
        spec.volume_name = Some(volume.name_any());
        claim.annotations_mut().insert(BOUND_BY_CONTROLLER.to_owned(), "yes".to_owned());
    }
    claim.annotations_mut().insert(BIND_COMPLETED.to_owned(), "yes".to_owned());
    let claim = control.update(&claim).await?;
    check_bound(control, claim).await
}

/// Updates the status of a bound claim, including its capacity. Without its volume it is `Lost`.
async fn check_bound(control: &mut ControlLoop, mut claim: PersistentVolumeClaim) -> kube::Result<()> {
    let name = claim.spec.as_ref().and_then(|s| s.volume_name.clone()).unwrap_or_default();
    let Some(volume) = control.caches.volumes.get("", &name) else {
        return set_claim_phase(control, claim, "Lost").await;
    };
    let own = volume.spec.clone().unwrap_or_default();
    let mut volume = PersistentVolume::clone(&volume);
    // Expansion changes only the sizes of both, since there is no data to move.
    if storage(own.capacity.as_ref()).is_some_and(|size| size < asked(&claim)) {
        let capacity = volume.spec.get_or_insert_default().capacity.get_or_insert_default();
        capacity.insert("storage".to_owned(), resource::Quantity(asked(&claim).to_string()));
        volume = control.update(&volume).await?;
    }
    let status = PersistentVolumeClaimStatus {
        phase: Some("Bound".to_owned()),
        access_modes: own.access_modes,
        capacity: volume.spec.as_ref().and_then(|s| s.capacity.clone()),
        ..PersistentVolumeClaimStatus::default()
    };
    if claim.status.as_ref() == Some(&status) {
        return Ok(());
    }
    claim.status = Some(status);
    let claim = control.update_status(&claim).await?;
    wake_pods(control, &claim);
    Ok(())
}

async fn set_claim_phase(
    control: &mut ControlLoop,
    mut claim: PersistentVolumeClaim,
    phase: &str,
) -> kube::Result<()> {
    let status = claim.status.get_or_insert_default();
    if status.phase.as_deref() == Some(phase) {
        return Ok(());
    }
    status.phase = Some(phase.to_owned());
    control.update_status(&claim).await.map(drop)
}

fn reference(claim: &PersistentVolumeClaim) -> ObjectReference {
    ObjectReference {
        kind: Some("PersistentVolumeClaim".to_owned()),
        api_version: Some("v1".to_owned()),
        name: claim.metadata.name.clone(),
        namespace: claim.namespace(),
        uid: claim.uid(),
        resource_version: claim.resource_version(),
        field_path: None,
    }
}

/// Provisions a volume for a claim, if its StorageClass has a provisioner.
async fn provision(control: &mut ControlLoop, mut claim: PersistentVolumeClaim) -> kube::Result<()> {
    let spec = claim.spec.clone().unwrap_or_default();
    let name = spec.storage_class_name.clone().unwrap_or_default();
    let class = control.caches.storage_classes.get("", &name);
    let Some(class) = class.filter(|c| c.provisioner != "kubernetes.io/no-provisioner") else {
        let message = if name.is_empty() || control.caches.storage_classes.get("", &name).is_some() {
            "no persistent volumes available for this claim and no storage class is set".to_owned()
        } else {
            format!("storageclass.storage.k8s.io \"{name}\" not found")
        };
        let (warning, reason) =
            if name.is_empty() { (false, "FailedBinding") } else { (true, "ProvisioningFailed") };
        if claim.status.as_ref().is_none_or(|s| s.phase.as_deref() != Some("Pending")) || !name.is_empty() {
            control
                .record_event(&claim, NewEvent { component: NAME, warning, reason, message: &message })
                .await;
        }
        return set_claim_phase(control, claim, "Pending").await;
    };
    let waits = class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer");
    if waits && users(control, &claim).is_empty() {
        let message = "waiting for first consumer to be created before binding";
        let event = NewEvent { component: NAME, warning: false, reason: "WaitForFirstConsumer", message };
        control.record_event(&claim, event).await;
        return set_claim_phase(control, claim, "Pending").await;
    }
    for key in [STORAGE_PROVISIONER, OLD_STORAGE_PROVISIONER] {
        claim.annotations_mut().insert(key.to_owned(), class.provisioner.clone());
    }
    let claim = control.update(&claim).await?;
    let simulated = class.provisioner == PROVISIONER;
    let name = format!("pvc-{}", claim.uid().unwrap_or_default());
    let volume = PersistentVolume {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            annotations: Some(BTreeMap::from([(PROVISIONED_BY.to_owned(), class.provisioner.clone())])),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            access_modes: spec.access_modes.clone(),
            capacity: spec.resources.and_then(|r| r.requests),
            claim_ref: Some(reference(&claim)),
            persistent_volume_reclaim_policy: class.reclaim_policy.clone(),
            storage_class_name: Some(class.name_any()),
            volume_mode: spec.volume_mode.clone(),
            mount_options: class.mount_options.clone(),
            host_path: simulated
                .then(|| HostPathVolumeSource { path: format!("/var/simulated/{name}"), type_: None }),
            csi: (!simulated).then(|| CSIPersistentVolumeSource {
                driver: class.provisioner.clone(),
                volume_handle: name.clone(),
                ..CSIPersistentVolumeSource::default()
            }),
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    };
    let volume = match control.create(&volume).await {
        Ok(made) => made,
        Err(error) if is_already_exists(&error) => return Ok(()),
        Err(error) => return Err(error),
    };
    let message = format!("Successfully provisioned volume {name}");
    control
        .record_event(
            &claim,
            NewEvent { component: NAME, warning: false, reason: "ProvisioningSucceeded", message: &message },
        )
        .await;
    bind(control, claim, &volume).await
}

/// Returns the pods that use a claim.
fn users(control: &ControlLoop, claim: &PersistentVolumeClaim) -> Vec<Arc<Pod>> {
    let namespace = claim.namespace().unwrap_or_default();
    let name = claim.name_any();
    control.caches.pods.within(&namespace).filter(|pod| claims_of(pod).any(|c| c == name)).cloned().collect()
}

/// Returns the names of the claims that a pod uses.
pub(super) fn claims_of(pod: &Pod) -> impl Iterator<Item = &str> {
    let volumes = pod.spec.iter().flat_map(|s| s.volumes.iter().flatten());
    volumes.filter_map(|v| Some(v.persistent_volume_claim.as_ref()?.claim_name.as_str()))
}

fn wake_pods(control: &mut ControlLoop, claim: &PersistentVolumeClaim) {
    for pod in users(control, claim) {
        control.push(Controller::Pod, &pod.namespace().unwrap_or_default(), &pod.name_any());
    }
}

/// Removes the protection finalizer of a deleted claim once no pod uses it.
async fn release_claim(control: &mut ControlLoop, claim: &PersistentVolumeClaim) -> kube::Result<()> {
    let used = users(control, claim).iter().any(|pod| !pods::is_terminal(pod));
    if used || !claim.finalizers().iter().any(|f| f == CLAIM_PROTECTION) {
        return Ok(());
    }
    let mut free = claim.clone();
    free.finalizers_mut().retain(|f| f != CLAIM_PROTECTION);
    control.update(&free).await.map(drop)
}

pub(super) async fn reconcile_volume(control: &mut ControlLoop, name: &str) -> kube::Result<()> {
    let Some(found) = control.caches.volumes.get("", name) else { return Ok(()) };
    let mut volume = PersistentVolume::clone(&found);
    let spec = volume.spec.clone().unwrap_or_default();
    let claim = spec.claim_ref.as_ref().and_then(|r| {
        let claim = control.caches.claims.get(r.namespace.as_deref()?, r.name.as_deref()?)?;
        (r.uid.is_none() || r.uid == claim.uid()).then_some(claim)
    });
    let reserved_only = spec.claim_ref.as_ref().is_some_and(|r| r.uid.is_none());
    let phase = match (&spec.claim_ref, &claim) {
        (None, _) => "Available",
        (Some(_), Some(claim)) if claim.annotations().contains_key(BIND_COMPLETED) => "Bound",
        (Some(_), None) if !reserved_only => "Released",
        (Some(_), _) if reserved_only => "Available",
        (Some(_), _) => return Ok(()),
    };
    if pods::is_deleting(&volume) {
        if phase != "Bound" && volume.finalizers().iter().any(|f| f == VOLUME_PROTECTION) {
            volume.finalizers_mut().retain(|f| f != VOLUME_PROTECTION);
            control.update(&volume).await?;
        }
        return Ok(());
    }
    set_volume_phase(control, &mut volume, phase).await?;
    if phase == "Released" && spec.persistent_volume_reclaim_policy.as_deref() == Some("Delete") {
        return control.delete(&volume, None).await;
    }
    if phase == "Available" {
        wake_claims(control, &spec);
    }
    Ok(())
}

/// Enqueues unbound claims with the StorageClass of a volume that became available.
fn wake_claims(control: &mut ControlLoop, spec: &PersistentVolumeSpec) {
    let class = spec.storage_class_name.as_deref().unwrap_or_default();
    let waiting: Vec<(String, String)> = control
        .caches
        .claims
        .all()
        .filter(|c| !c.annotations().contains_key(BIND_COMPLETED))
        .filter(|c| {
            c.spec.as_ref().and_then(|s| s.storage_class_name.as_deref()).unwrap_or_default() == class
        })
        .map(|c| (c.namespace().unwrap_or_default(), c.name_any()))
        .collect();
    for (namespace, name) in waiting {
        control.push(Controller::Claim, &namespace, &name);
    }
}

async fn set_volume_phase(
    control: &mut ControlLoop,
    volume: &mut PersistentVolume,
    phase: &str,
) -> kube::Result<()> {
    if volume.status.as_ref().and_then(|s| s.phase.as_deref()) == Some(phase) {
        return Ok(());
    }
    volume.status = Some(PersistentVolumeStatus {
        phase: Some(phase.to_owned()),
        last_phase_transition_time: Some(control.time()),
        ..volume.status.clone().unwrap_or_default()
    });
    *volume = control.update_status(&*volume).await?;
    Ok(())
}
