//! Deployments: a ReplicaSet per revision, and the rollout from one to the next.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet, ReplicaSetSpec,
};
use kube::{ResourceExt as _, api::ObjectMeta};

use super::{
    pods,
    replicaset::message,
    rollout::{self, size, wanted},
};
use crate::control_loop::{ControlLoop, Controller, NewEvent, is_already_exists};

const NAME: &str = "deployment-controller";

pub(super) async fn reconcile(control: &mut ControlLoop, namespace: &str, name: &str) -> kube::Result<()> {
    let Some(deployment) = control.caches.deployments.get(namespace, name) else { return Ok(()) };
    let Some(spec) = &deployment.spec else { return Ok(()) };
    let sets: Vec<Arc<ReplicaSet>> = pods::claim(control, &*deployment, &spec.selector).await?;
    let mut rollout = Rollout { deployment: Deployment::clone(&deployment), sets };
    if pods::is_deleting(&*deployment) {
        return rollout.report(control).await;
    }
    rollout.update_paused_condition(control).await?;
    if spec.paused == Some(true) {
        rollout.new_set(control, false).await?;
        rollout.scale_evenly(control).await?;
        return rollout.report(control).await;
    }
    if rollout.was_scaled() {
        rollout.new_set(control, false).await?;
        rollout.scale_evenly(control).await?;
        return rollout.report(control).await;
    }
    if rollout::is_rolling(&deployment) {
        rollout.roll(control).await
    } else {
        rollout.recreate(control).await
    }
}

/// A deployment with its ReplicaSets, kept current during a reconcile.
struct Rollout {
    deployment: Deployment,
    sets: Vec<Arc<ReplicaSet>>,
}

impl Rollout {
    fn new_one(&self) -> Option<Arc<ReplicaSet>> {
        rollout::find_new(&self.deployment, &self.sets)
    }

    fn old_ones(&self) -> Vec<Arc<ReplicaSet>> {
        let new = self.new_one().and_then(|s| s.uid());
        let mut old: Vec<_> = self.sets.iter().filter(|s| s.uid() != new).cloned().collect();
        old.sort_by_key(|s| (rollout::created(s), s.name_any()));
        old
    }

    fn replace(&mut self, set: ReplicaSet) {
        let uid = set.uid();
        self.sets.retain(|s| s.uid() != uid);
        self.sets.push(Arc::new(set));
    }

    fn condition(&self, type_: &str) -> Option<&DeploymentCondition> {
        self.deployment.status.as_ref()?.conditions.as_ref()?.iter().find(|c| c.type_ == type_)
    }

    /// Whether the deployment was scaled since its ReplicaSets were last annotated.
    fn was_scaled(&self) -> bool {
        let wanted = wanted(&self.deployment).to_string();
        self.sets
            .iter()
            .filter(|s| size(s) > 0)
            .any(|s| s.annotations().get(rollout::DESIRED).is_some_and(|d| *d != wanted))
    }

    /// Updates the `Progressing` condition when the deployment is paused or resumed.
    async fn update_paused_condition(&mut self, control: &mut ControlLoop) -> kube::Result<()> {
        let spec = self.deployment.spec.clone().unwrap_or_default();
        if spec.progress_deadline_seconds.is_none_or(|d| d == i32::MAX) {
            return Ok(());
        }
        let reason = self.condition("Progressing").and_then(|c| c.reason.clone());
        if reason.as_deref() == Some("ProgressDeadlineExceeded") {
            return Ok(());
        }
        let paused = spec.paused == Some(true);
        let marked = reason.as_deref() == Some("DeploymentPaused");
        let (reason, message) = match (paused, marked) {
            (true, false) => ("DeploymentPaused", "Deployment is paused"),
            (false, true) => ("DeploymentResumed", "Deployment is resumed"),
            _ => return Ok(()),
        };
        let condition = self.make(control, "Progressing", "Unknown", reason, message.to_owned());
        let mut status = self.deployment.status.clone().unwrap_or_default();
        set_condition(&mut status, condition);
        self.write_status(control, status).await
    }

    /// Returns the ReplicaSet of the current template, creating it if `make` is set. Updates the revisions.
    async fn new_set(
        &mut self,
        control: &mut ControlLoop,
        make: bool,
    ) -> kube::Result<Option<Arc<ReplicaSet>>> {
        let newest =
            self.old_ones().iter().map(|s| rollout::revision(s.annotations())).max().unwrap_or_default();
        if let Some(found) = self.new_one() {
            let mut set = ReplicaSet::clone(&found);
            let mut changed = rollout::set_revision(&mut set, newest + 1);
            changed |= rollout::copy_annotations(&self.deployment, &mut set);
            let wait = self.deployment.spec.as_ref().and_then(|s| s.min_ready_seconds);
            if let Some(spec) = &mut set.spec
                && spec.min_ready_seconds.unwrap_or_default() != wait.unwrap_or_default()
            {
                spec.min_ready_seconds = wait;
                changed = true;
            }
            if changed {
                set = control.update(&set).await?;
                self.replace(set.clone());
            }
            let revision = rollout::revision(set.annotations());
            if self.condition("Progressing").is_none() {
                let message = format!("Found new replica set {:?}", set.name_any());
                self.progress(control, "FoundNewReplicaSet", message).await?;
            }
            self.mark_revision(control, revision).await?;
            return Ok(Some(Arc::new(set)));
        }
        if !make {
            return Ok(None);
        }
        let made = self.make_set(control, newest + 1).await?;
        Ok(made)
    }

    async fn make_set(
        &mut self,
        control: &mut ControlLoop,
        revision: i64,
    ) -> kube::Result<Option<Arc<ReplicaSet>>> {
        let spec = self.deployment.spec.clone().unwrap_or_default();
        let collisions = self.deployment.status.as_ref().and_then(|s| s.collision_count).unwrap_or_default();
        let hash = pods::hash(&spec.template, collisions);
        let mut template = spec.template.clone();
        let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
        labels.insert(rollout::HASH.to_owned(), hash.clone());
        let labels = labels.clone();
        let mut selector = spec.selector.clone();
        selector.match_labels.get_or_insert_default().insert(rollout::HASH.to_owned(), hash.clone());
        let mut set = ReplicaSet {
            metadata: ObjectMeta {
                name: Some(format!("{}-{hash}", self.deployment.name_any())),
                namespace: self.deployment.namespace(),
                labels: Some(labels),
                owner_references: Some(vec![pods::reference(&self.deployment)]),
                ..ObjectMeta::default()
            },
            spec: Some(ReplicaSetSpec {
                replicas: Some(0),
                min_ready_seconds: spec.min_ready_seconds,
                selector,
                template: Some(template),
            }),
            status: None,
        };
        let count = {
            let mut all = self.sets.clone();
            all.push(Arc::new(set.clone()));
            rollout::new_size(&self.deployment, &all, &set)
        };
        if let Some(spec) = &mut set.spec {
            spec.replicas = Some(count);
        }
        rollout::copy_annotations(&self.deployment, &mut set);
        rollout::set_revision(&mut set, revision);
        self.note_sizes(&mut set);
        let made = match control.create(&set).await {
            Ok(made) => made,
            Err(error) if is_already_exists(&error) => {
                // Either another template has the same hash, or the existing set is not cached yet.
                let mut status = self.deployment.status.clone().unwrap_or_default();
                let namespace = self.deployment.namespace().unwrap_or_default();
                let foreign = control.caches.replica_sets.get(&namespace, &set.name_any()).is_some_and(|s| {
                    crate::control_loop::controller_uid(&*s) != self.deployment.uid().unwrap_or_default()
                });
                if foreign {
                    status.collision_count = Some(collisions + 1);
                    self.write_status(control, status).await?;
                }
                return Err(error);
            }
            Err(error) => {
                let what =
                    format!("Failed to create new replica set {:?}: {}", set.name_any(), message(&error));
                let condition =
                    self.make(control, "Progressing", "False", "ReplicaSetCreateError", what.clone());
                let mut status = self.deployment.status.clone().unwrap_or_default();
                set_condition(&mut status, condition);
                self.write_status(control, status).await?;
                control
                    .record_event(
                        &self.deployment,
                        NewEvent {
                            component: NAME,
                            warning: true,
                            reason: "ReplicaSetCreateError",
                            message: &what,
                        },
                    )
                    .await;
                return Err(error);
            }
        };
        self.sets.push(Arc::new(made.clone()));
        if count > 0 {
            let what = format!("Scaled up replica set {} from 0 to {count}", made.name_any());
            control
                .record_event(
                    &self.deployment,
                    NewEvent { component: NAME, warning: false, reason: "ScalingReplicaSet", message: &what },
                )
                .await;
        }
        let what = format!("Created new replica set {:?}", made.name_any());
        self.progress(control, "NewReplicaSetCreated", what).await?;
        self.mark_revision(control, revision).await?;
        Ok(Some(Arc::new(made)))
    }

    async fn progress(
        &mut self,
        control: &mut ControlLoop,
        reason: &str,
        message: String,
    ) -> kube::Result<()> {
        let deadline = self.deployment.spec.as_ref().and_then(|s| s.progress_deadline_seconds);
        if deadline.is_none_or(|d| d == i32::MAX) {
            return Ok(());
        }
        let condition = self.make(control, "Progressing", "True", reason, message);
        let mut status = self.deployment.status.clone().unwrap_or_default();
        set_condition(&mut status, condition);
        self.write_status(control, status).await
    }

    async fn mark_revision(&mut self, control: &mut ControlLoop, revision: i64) -> kube::Result<()> {
        let text = revision.to_string();
        if self.deployment.annotations().get(rollout::REVISION) == Some(&text) {
            return Ok(());
        }
        self.deployment.annotations_mut().insert(rollout::REVISION.to_owned(), text);
        // Written through the status, so that setting the revision does not increment the generation.
        self.deployment = control.update_status(&self.deployment).await?;
        Ok(())
    }

    fn note_sizes(&self, set: &mut ReplicaSet) -> bool {
        let total = wanted(&self.deployment);
        let changed = rollout::annotate(set, rollout::DESIRED, i64::from(total));
        rollout::annotate(
            set,
            rollout::MAXIMUM,
            i64::from(total) + i64::from(rollout::bounds(&self.deployment).0),
        ) || changed
    }

    /// Scales a ReplicaSet.
    async fn scale(&mut self, control: &mut ControlLoop, set: &ReplicaSet, count: i32) -> kube::Result<()> {
        let (mut changed, before) = (set.clone(), size(set));
        let noted = self.note_sizes(&mut changed);
        if before == count && !noted {
            return Ok(());
        }
        if let Some(spec) = &mut changed.spec {
            spec.replicas = Some(count);
        }
        let written = control.update(&changed).await?;
        self.replace(written);
        if before != count {
            let way = if count > before { "up" } else { "down" };
            let what = format!("Scaled {way} replica set {} from {before} to {count}", set.name_any());
            control
                .record_event(
                    &self.deployment,
                    NewEvent { component: NAME, warning: false, reason: "ScalingReplicaSet", message: &what },
                )
                .await;
        }
        Ok(())
    }

    /// Scales the ReplicaSets proportionally to a changed number of replicas, without advancing the rollout.
    async fn scale_evenly(&mut self, control: &mut ControlLoop) -> kube::Result<()> {
        let active: Vec<_> = self.sets.iter().filter(|s| size(s) > 0).cloned().collect();
        let single = match active.len() {
            0 => self.new_one().or_else(|| self.old_ones().last().cloned()),
            1 => active.first().cloned(),
            _ => None,
        };
        if let Some(set) = single {
            return self.scale(control, &set, wanted(&self.deployment)).await;
        }
        if let Some(new) = self.new_one().filter(|n| self.is_saturated(n)) {
            for set in active.iter().filter(|s| s.uid() != new.uid()) {
                self.scale(control, set, 0).await?;
            }
            return Ok(());
        }
        if rollout::is_rolling(&self.deployment) {
            for (set, count) in rollout::shares(&self.deployment, &active) {
                self.scale(control, &set, count).await?;
            }
        }
        Ok(())
    }

    fn is_saturated(&self, set: &ReplicaSet) -> bool {
        let total = wanted(&self.deployment);
        let desired = set.annotations().get(rollout::DESIRED).and_then(|v| v.parse::<i32>().ok());
        size(set) == total && desired == Some(total) && rollout::available(set) == total
    }

    async fn roll(&mut self, control: &mut ControlLoop) -> kube::Result<()> {
        let Some(new) = self.new_set(control, true).await? else { return Ok(()) };
        let before = size(&new);
        let total = wanted(&self.deployment);
        let target =
            if before > total { total } else { rollout::new_size(&self.deployment, &self.sets, &new) };
        if target != before {
            self.scale(control, &new, target).await?;
            return self.report(control).await;
        }
        if self.shrink_old(control).await? {
            return self.report(control).await;
        }
        if self.is_complete() {
            self.clean_up(control).await?;
        }
        self.report(control).await
    }

    /// Scales down old ReplicaSets as far as availability allows. Returns whether it did.
    async fn shrink_old(&mut self, control: &mut ControlLoop) -> kube::Result<bool> {
        let old = self.old_ones();
        if rollout::total_size(&old) == 0 {
            return Ok(false);
        }
        let Some(new) = self.new_one() else { return Ok(false) };
        let minimum = wanted(&self.deployment) - rollout::max_unavailable(&self.deployment);
        let missing = size(&new).saturating_sub(rollout::available(&new));
        let mut spare = rollout::total_size(&self.sets).saturating_sub(minimum).saturating_sub(missing);
        if spare <= 0 {
            return Ok(false);
        }
        let mut did = false;
        // Unavailable replicas can be removed without reducing availability.
        for set in &old {
            let sick = size(set).saturating_sub(rollout::available(set));
            if spare <= 0 || size(set) == 0 || sick <= 0 {
                continue;
            }
            let less = sick.min(spare);
            self.scale(control, set, size(set) - less).await?;
            spare -= less;
            did = true;
        }
        let available = self.sets.iter().map(|s| rollout::available(s)).fold(0, i32::saturating_add);
        let mut spare = available.saturating_sub(minimum);
        for set in self.old_ones() {
            if spare <= 0 {
                break;
            }
            if size(&set) == 0 {
                continue;
            }
            let less = size(&set).min(spare);
            self.scale(control, &set, size(&set) - less).await?;
            spare -= less;
            did = true;
        }
        Ok(did)
    }

    async fn recreate(&mut self, control: &mut ControlLoop) -> kube::Result<()> {
        self.new_set(control, false).await?;
        let mut stopped = false;
        for set in self.old_ones() {
            if size(&set) > 0 {
                self.scale(control, &set, 0).await?;
                stopped = true;
            }
        }
        if stopped || self.old_pods_run(control) {
            return self.report(control).await;
        }
        if let Some(new) = self.new_set(control, true).await? {
            self.scale(control, &new, wanted(&self.deployment)).await?;
        }
        if self.is_complete() {
            self.clean_up(control).await?;
        }
        self.report(control).await
    }

    fn old_pods_run(&self, control: &ControlLoop) -> bool {
        self.old_ones()
            .iter()
            .filter_map(|s| s.uid())
            .any(|uid| control.caches.pods.controlled_by(&uid).any(|p| !pods::is_terminal(p)))
    }

    fn is_complete(&self) -> bool {
        let status = self.calculate();
        let total = wanted(&self.deployment);
        status.updated_replicas.unwrap_or_default() == total
            && status.replicas.unwrap_or_default() == total
            && status.available_replicas.unwrap_or_default() == total
            && self.new_one().is_some()
    }

    /// Deletes old ReplicaSets beyond `revisionHistoryLimit`.
    async fn clean_up(&mut self, control: &mut ControlLoop) -> kube::Result<()> {
        let Some(limit) = self.deployment.spec.as_ref().and_then(|s| s.revision_history_limit) else {
            return Ok(());
        };
        let mut old: Vec<_> = self.old_ones().into_iter().filter(|s| !pods::is_deleting(&**s)).collect();
        old.sort_by_key(|s| (rollout::revision(s.annotations()), rollout::created(s)));
        let surplus = old.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
        for set in old.into_iter().take(surplus) {
            let idle = rollout::present(&set) == 0
                && size(&set) == 0
                && set.status.as_ref().and_then(|s| s.observed_generation) >= set.metadata.generation;
            if idle {
                control.delete(&*set, None).await?;
                self.sets.retain(|s| s.uid() != set.uid());
            }
        }
        Ok(())
    }

    fn calculate(&self) -> DeploymentStatus {
        let sum =
            |of: &dyn Fn(&ReplicaSet) -> i32| self.sets.iter().map(|s| of(s)).fold(0, i32::saturating_add);
        let total = sum(&rollout::present);
        let available = sum(&rollout::available);
        let nonzero = |n: i32| (n != 0).then_some(n);
        let old = self.deployment.status.clone().unwrap_or_default();
        DeploymentStatus {
            observed_generation: self.deployment.metadata.generation,
            replicas: nonzero(total),
            updated_replicas: nonzero(self.new_one().map_or(0, |s| rollout::present(&s))),
            ready_replicas: nonzero(sum(&|s| {
                s.status.as_ref().and_then(|s| s.ready_replicas).unwrap_or_default()
            })),
            available_replicas: nonzero(available),
            unavailable_replicas: nonzero(sum(&size).saturating_sub(available).max(0)),
            terminating_replicas: Some(sum(&|s| {
                s.status.as_ref().and_then(|s| s.terminating_replicas).unwrap_or_default()
            })),
            collision_count: old.collision_count,
            conditions: old.conditions,
        }
    }

    fn make(
        &self,
        control: &ControlLoop,
        type_: &str,
        status: &str,
        reason: &str,
        message: String,
    ) -> DeploymentCondition {
        DeploymentCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_update_time: Some(control.time()),
            last_transition_time: Some(control.time()),
        }
    }

    /// Updates the status of the deployment.
    async fn report(&mut self, control: &mut ControlLoop) -> kube::Result<()> {
        let mut status = self.calculate();
        let minimum = wanted(&self.deployment) - rollout::max_unavailable(&self.deployment);
        let enough = status.available_replicas.unwrap_or_default() >= minimum;
        set_condition(
            &mut status,
            if enough {
                self.make(
                    control,
                    "Available",
                    "True",
                    "MinimumReplicasAvailable",
                    "Deployment has minimum availability.".to_owned(),
                )
            } else {
                self.make(
                    control,
                    "Available",
                    "False",
                    "MinimumReplicasUnavailable",
                    "Deployment does not have minimum availability.".to_owned(),
                )
            },
        );
        let paused = self.deployment.spec.as_ref().is_some_and(|s| s.paused == Some(true));
        if !paused && !pods::is_deleting(&self.deployment) {
            self.judge_progress(control, &mut status);
        }
        self.write_status(control, status).await
    }

    fn judge_progress(&self, control: &mut ControlLoop, status: &mut DeploymentStatus) {
        let Some(deadline) = self.deployment.spec.as_ref().and_then(|s| s.progress_deadline_seconds) else {
            return;
        };
        if deadline == i32::MAX {
            return;
        }
        let current = self.condition("Progressing").cloned();
        let settled = status.replicas == status.updated_replicas
            && current.as_ref().is_some_and(|c| c.reason.as_deref() == Some("NewReplicaSetAvailable"));
        if settled {
            return;
        }
        let subject = match self.new_one() {
            Some(new) => format!("ReplicaSet {:?}", new.name_any()),
            None => format!("Deployment {:?}", self.deployment.name_any()),
        };
        let old = self.deployment.status.clone().unwrap_or_default();
        let number = |n: Option<i32>| n.unwrap_or_default();
        let moved = number(status.updated_replicas) > number(old.updated_replicas)
            || (number(status.replicas) - number(status.updated_replicas))
                < (number(old.replicas) - number(old.updated_replicas))
            || number(status.ready_replicas) > number(old.ready_replicas)
            || number(status.available_replicas) > number(old.available_replicas);
        if self.is_complete() {
            let what = format!("{subject} has successfully progressed.");
            set_condition(status, self.make(control, "Progressing", "True", "NewReplicaSetAvailable", what));
        } else if moved {
            let what = format!("{subject} is progressing.");
            let mut condition = self.make(control, "Progressing", "True", "ReplicaSetUpdated", what);
            if let Some(current) = &current {
                if current.status == "True" {
                    condition.last_transition_time.clone_from(&current.last_transition_time);
                }
                status.conditions.get_or_insert_default().retain(|c| c.type_ != "Progressing");
            }
            set_condition(status, condition);
        } else if let Some(current) = current {
            self.judge_deadline(control, status, &current, deadline, &subject);
        }
    }

    /// Fails a rollout without progress once its deadline has passed, or reconciles again at the deadline.
    fn judge_deadline(
        &self,
        control: &mut ControlLoop,
        status: &mut DeploymentStatus,
        current: &DeploymentCondition,
        deadline: i32,
        subject: &str,
    ) {
        if current.reason.as_deref() == Some("ProgressDeadlineExceeded") {
            return;
        }
        let Some(since) = &current.last_update_time else { return };
        let due = since.0.as_second().saturating_add(i64::from(deadline));
        let left = due.saturating_sub(control.now().as_second());
        if left <= 0 && current.status == "True" {
            let what = format!("{subject} has timed out progressing.");
            set_condition(
                status,
                self.make(control, "Progressing", "False", "ProgressDeadlineExceeded", what),
            );
            return;
        }
        let delay = Duration::from_secs(u64::try_from(left).unwrap_or_default().max(1));
        let namespace = self.deployment.namespace().unwrap_or_default();
        control.push_after(Controller::Deployment, &namespace, &self.deployment.name_any(), delay);
    }

    async fn write_status(
        &mut self,
        control: &mut ControlLoop,
        status: DeploymentStatus,
    ) -> kube::Result<()> {
        if self.deployment.status.as_ref() == Some(&status) {
            return Ok(());
        }
        self.deployment.status = Some(status);
        self.deployment = control.update_status(&self.deployment).await?;
        Ok(())
    }
}

/// Sets a condition unless it has the same status and reason already.
fn set_condition(status: &mut DeploymentStatus, mut condition: DeploymentCondition) {
    let conditions = status.conditions.get_or_insert_default();
    if let Some(current) = conditions.iter().find(|c| c.type_ == condition.type_) {
        if current.status == condition.status && current.reason == condition.reason {
            return;
        }
        if current.status == condition.status {
            condition.last_transition_time.clone_from(&current.last_transition_time);
        }
    }
    conditions.retain(|c| c.type_ != condition.type_);
    conditions.push(condition);
}
