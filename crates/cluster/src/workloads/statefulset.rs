//! StatefulSets: pods with stable names, created and replaced in order.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::{
    apps::v1::{StatefulSet, StatefulSetStatus},
    core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume},
};
use kube::{Api, ResourceExt as _, api::ObjectMeta};

use super::{pods, replicaset::message, revisions};
use crate::control_loop::{ControlLoop, Controller, NewEvent, is_already_exists};

const NAME: &str = "statefulset-controller";

pub(super) async fn reconcile(control: &mut ControlLoop, namespace: &str, name: &str) -> kube::Result<()> {
    let Some(set) = control.caches.stateful_sets.get(namespace, name) else { return Ok(()) };
    let spec = set.spec.clone().unwrap_or_default();
    let own: Vec<Arc<Pod>> = pods::claim(control, &*set, &spec.selector).await?;
    if pods::is_deleting(&*set) {
        return Ok(());
    }
    let update =
        revisions::sync_revision(control, &*set, &spec.template, "controller.kubernetes.io/hash").await?.name;
    let status = set.status.clone().unwrap_or_default();
    let is_kept = |name: &String| control.caches.controller_revisions.get(namespace, name).is_some();
    let current = status.current_revision.clone().filter(is_kept).unwrap_or_else(|| update.clone());
    let sync = StatefulSetSync { set, update, current };
    let failure = sync.update_pods(control, &own).await.err();
    sync.update_status(control, status).await?;
    let pods = own.iter().filter_map(|p| p.labels().get(revisions::LABEL).cloned());
    let used = pods.chain([sync.update.clone(), sync.current.clone()]).collect();
    revisions::truncate_history(control, &*sync.set, &used, spec.revision_history_limit.unwrap_or(10))
        .await?;
    failure.map_or(Ok(()), Err)
}

struct StatefulSetSync {
    set: Arc<StatefulSet>,
    update: String,
    current: String,
}

impl StatefulSetSync {
    fn ordinal(&self, pod: &Pod) -> Option<i32> {
        pod.name_any().strip_prefix(&format!("{}-", self.set.name_any()))?.parse().ok()
    }

    async fn update_pods(&self, control: &mut ControlLoop, own: &[Arc<Pod>]) -> kube::Result<()> {
        let spec = self.set.spec.clone().unwrap_or_default();
        let first = spec.ordinals.as_ref().and_then(|o| o.start).unwrap_or_default();
        let end = first.saturating_add(spec.replicas.unwrap_or(1));
        let parallel = spec.pod_management_policy.as_deref() == Some("Parallel");
        let wait = spec.min_ready_seconds.unwrap_or_default();
        let numbered: BTreeMap<i32, Arc<Pod>> =
            own.iter().filter_map(|p| Some((self.ordinal(p)?, Arc::clone(p)))).collect();
        let now = control.now();
        for number in first..end {
            match numbered.get(&number) {
                Some(pod) if pods::is_terminal(pod) && !pods::is_deleting(&**pod) => {
                    control.delete(&**pod, None).await?;
                    return Ok(());
                }
                Some(pod) => {
                    if !parallel && (pods::is_deleting(&**pod) || !pods::is_available(pod, wait, now)) {
                        return Ok(());
                    }
                }
                None => {
                    if control.should_hold_back_pods(&self.set.namespace().unwrap_or_default()) {
                        return pods::record_held_back(control, &*self.set, NAME).await;
                    }
                    self.create_pod(control, number).await?;
                    if !parallel {
                        return Ok(());
                    }
                }
            }
        }
        let surplus = numbered.iter().rev().filter(|(n, _)| !(first..end).contains(*n));
        for (_, pod) in surplus {
            if control.is_spent() {
                return Ok(());
            }
            if !pods::is_deleting(&**pod) {
                self.delete_pod(control, pod).await?;
            }
            if !parallel {
                return Ok(());
            }
        }
        let strategy = spec.update_strategy.unwrap_or_default();
        if strategy.type_.as_deref() == Some("OnDelete") {
            return Ok(());
        }
        let partition = strategy.rolling_update.and_then(|r| r.partition).unwrap_or_default();
        let from = first.saturating_add(partition.max(0));
        for (_, pod) in numbered.range(from..end.max(from)).rev() {
            if pods::is_deleting(&**pod) {
                return Ok(());
            }
            if pod.labels().get(revisions::LABEL) != Some(&self.update) {
                return self.delete_pod(control, pod).await;
            }
            if !pods::is_available(pod, wait, now) {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn delete_pod(&self, control: &mut ControlLoop, pod: &Pod) -> kube::Result<()> {
        control.delete(pod, None).await?;
        let what = format!("delete Pod {} in StatefulSet {} successful", pod.name_any(), self.set.name_any());
        control
            .record_event(
                &*self.set,
                NewEvent { component: NAME, warning: false, reason: "SuccessfulDelete", message: &what },
            )
            .await;
        Ok(())
    }

    /// Returns the template and the revision of a pod: below the partition the current ones, else the updated ones.
    fn template(&self, control: &ControlLoop, number: i32) -> (PodTemplateSpec, String) {
        let spec = self.set.spec.clone().unwrap_or_default();
        let first = spec.ordinals.as_ref().and_then(|o| o.start).unwrap_or_default();
        let partition = spec.update_strategy.and_then(|s| s.rolling_update).and_then(|r| r.partition);
        if number < first.saturating_add(partition.unwrap_or_default()) && self.current != self.update {
            let namespace = self.set.namespace().unwrap_or_default();
            let kept = control.caches.controller_revisions.get(&namespace, &self.current);
            // Parsed from a string, as templates are elsewhere: parsing a `Value` would compile the deserializer once more.
            let old = kept.and_then(|r| Some(r.data.as_ref()?.0["spec"]["template"].to_string()));
            if let Some(old) = old.and_then(|template| serde_json::from_str(&template).ok()) {
                return (old, self.current.clone());
            }
        }
        (spec.template, self.update.clone())
    }

    async fn create_pod(&self, control: &mut ControlLoop, number: i32) -> kube::Result<()> {
        let spec = self.set.spec.clone().unwrap_or_default();
        let name = format!("{}-{number}", self.set.name_any());
        let (template, revision) = self.template(control, number);
        let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
        let mut pod = pods::from_template(&*self.set, &template, metadata);
        for (key, value) in [
            (revisions::LABEL, revision),
            ("statefulset.kubernetes.io/pod-name", name.clone()),
            ("apps.kubernetes.io/pod-index", number.to_string()),
        ] {
            pod.labels_mut().insert(key.to_owned(), value);
        }
        for claim in spec.volume_claim_templates.iter().flatten() {
            let claim_name = format!("{}-{name}", claim.name_any());
            self.create_claim(control, claim, &claim_name).await?;
            if let Some(spec) = &mut pod.spec {
                let volumes = spec.volumes.get_or_insert_default();
                volumes.retain(|v| v.name != claim.name_any());
                volumes.push(Volume {
                    name: claim.name_any(),
                    persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                        claim_name,
                        read_only: None,
                    }),
                    ..Volume::default()
                });
            }
        }
        if let Some(inner) = &mut pod.spec {
            inner.hostname = Some(name.clone());
            inner.subdomain = spec.service_name.clone().filter(|s| !s.is_empty());
        }
        match control.create(&pod).await {
            Ok(_) => {
                let what = format!("create Pod {name} in StatefulSet {} successful", self.set.name_any());
                let event =
                    NewEvent { component: NAME, warning: false, reason: "SuccessfulCreate", message: &what };
                control.record_event(&*self.set, event).await;
                Ok(())
            }
            Err(error) => {
                let why = message(&error);
                let what =
                    format!("create Pod {name} in StatefulSet {} failed error: {why}", self.set.name_any());
                let event =
                    NewEvent { component: NAME, warning: true, reason: "FailedCreate", message: &what };
                control.record_event(&*self.set, event).await;
                Err(error)
            }
        }
    }

    async fn create_claim(
        &self,
        control: &mut ControlLoop,
        template: &PersistentVolumeClaim,
        name: &str,
    ) -> kube::Result<()> {
        let namespace = self.set.namespace().unwrap_or_default();
        let mut labels = template.labels().clone();
        let selector = self.set.spec.as_ref().and_then(|s| s.selector.match_labels.clone());
        labels.extend(selector.unwrap_or_default());
        let claim = PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(namespace.clone()),
                labels: Some(labels),
                annotations: template.metadata.annotations.clone(),
                ..ObjectMeta::default()
            },
            spec: template.spec.clone(),
            status: None,
        };
        let api: Api<PersistentVolumeClaim> = Api::namespaced(control.client.clone(), &namespace);
        let params = control.params();
        match api.create(&params, &claim).await {
            Err(error) if is_already_exists(&error) => Ok(()),
            other => other.map(drop),
        }
    }

    async fn update_status(&self, control: &mut ControlLoop, old: StatefulSetStatus) -> kube::Result<()> {
        let spec = self.set.spec.clone().unwrap_or_default();
        let uid = self.set.uid().unwrap_or_default();
        let now = control.now();
        let wait = spec.min_ready_seconds.unwrap_or_default();
        let own: Vec<Arc<Pod>> = control.caches.pods.controlled_by(&uid).cloned().collect();
        let count = |test: &dyn Fn(&Pod) -> bool| {
            i32::try_from(own.iter().filter(|p| test(p)).count()).unwrap_or(i32::MAX)
        };
        let nonzero = |n: i32| (n != 0).then_some(n);
        let of = |revision: &str| {
            count(&|p| {
                !pods::is_deleting(p) && p.labels().get(revisions::LABEL).is_some_and(|r| r == revision)
            })
        };
        let mut status = StatefulSetStatus {
            observed_generation: self.set.metadata.generation,
            replicas: count(&|_| true),
            ready_replicas: nonzero(count(&pods::is_ready)),
            available_replicas: Some(count(&|p| pods::is_available(p, wait, now))),
            current_replicas: nonzero(of(&self.current)),
            updated_replicas: nonzero(of(&self.update)),
            current_revision: Some(self.current.clone()),
            update_revision: Some(self.update.clone()),
            collision_count: Some(old.collision_count.unwrap_or_default()),
            conditions: old.conditions.clone(),
        };
        let total = spec.replicas.unwrap_or(1);
        let rolled = status.updated_replicas.unwrap_or_default() == total
            && status.replicas == total
            && status.ready_replicas.unwrap_or_default() == total;
        if rolled {
            status.current_revision = Some(self.update.clone());
            status.current_replicas = status.updated_replicas;
        }
        let due =
            own.iter().filter_map(|p| pods::until_available(p, wait, now)).filter(|d| !d.is_zero()).min();
        if let Some(due) = due {
            let namespace = self.set.namespace().unwrap_or_default();
            control.push_after(Controller::StatefulSet, &namespace, &self.set.name_any(), due);
        }
        if status == old {
            return Ok(());
        }
        let mut changed = StatefulSet::clone(&self.set);
        changed.status = Some(status);
        control.update_status(&changed).await.map(drop)
    }
}
