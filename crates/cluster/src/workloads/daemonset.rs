//! DaemonSets: a pod on every eligible node.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, DaemonSetStatus},
        core::v1::{
            Affinity, Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodTemplateSpec,
            Toleration,
        },
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::ResourceExt as _;

use super::{node, pods, replicaset::message, revisions, rollout::resolve, scheduler};
use crate::control_loop::{ControlLoop, Controller, NewEvent};

const NAME: &str = "daemonset-controller";
const GENERATION: &str = "deprecated.daemonset.template.generation";
/// Pod label with the value of [`GENERATION`].
const POD_GENERATION: &str = "pod-template-generation";

pub(super) async fn reconcile(control: &mut ControlLoop, namespace: &str, name: &str) -> kube::Result<()> {
    let Some(set) = control.caches.daemon_sets.get(namespace, name) else { return Ok(()) };
    let spec = set.spec.clone().unwrap_or_default();
    let own: Vec<Arc<Pod>> = pods::claim(control, &*set, &spec.selector).await?;
    if pods::is_deleting(&*set) {
        return Ok(());
    }
    let uid = set.uid().unwrap_or_default();
    let revision = revisions::sync_revision(control, &*set, &spec.template, revisions::LABEL).await?;
    let sync = DaemonSetSync { set, hash: revision.hash };
    let failure = sync.update_pods(control, &own).await.err();
    sync.update_status(control).await?;
    let hashes: BTreeSet<&String> = own.iter().filter_map(|p| p.labels().get(revisions::LABEL)).collect();
    let kept = control.caches.controller_revisions.controlled_by(&uid);
    let used = kept.filter(|r| r.labels().get(revisions::LABEL).is_some_and(|hash| hashes.contains(hash)));
    let used = used.map(|r| r.name_any()).chain([revision.name]).collect();
    revisions::truncate_history(control, &*sync.set, &used, spec.revision_history_limit.unwrap_or(10))
        .await?;
    failure.map_or(Ok(()), Err)
}

struct DaemonSetSync {
    set: Arc<DaemonSet>,
    hash: String,
}

/// Returns the node that a pod is bound to, or is pinned to by node affinity.
fn node_of(pod: &Pod) -> Option<&str> {
    let spec = pod.spec.as_ref()?;
    if let Some(node) = spec.node_name.as_deref() {
        return Some(node);
    }
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let terms = &affinity.required_during_scheduling_ignored_during_execution.as_ref()?.node_selector_terms;
    let field = terms.first()?.match_fields.as_ref()?.first()?;
    field.values.as_ref()?.first().map(String::as_str)
}

impl DaemonSetSync {
    /// Whether a pod is of the current template, by revision hash or by generation.
    ///
    /// The hash differs if the template's revision has another name than when the pod was created.
    fn is_new(&self, pod: &Pod) -> bool {
        let generation = self.set.annotations().get(GENERATION);
        pod.labels().get(revisions::LABEL) == Some(&self.hash)
            || (generation.is_some() && pod.labels().get(POD_GENERATION) == generation)
    }

    fn wait(&self) -> i32 {
        self.set.spec.as_ref().and_then(|s| s.min_ready_seconds).unwrap_or_default()
    }

    /// Returns whether a node should run a pod, and whether an existing pod may continue to run there.
    fn node_should_run(&self, node: &Node) -> (bool, bool) {
        let template = self.set.spec.clone().unwrap_or_default().template;
        let mut pod = Pod { spec: template.spec, ..Pod::default() };
        add_tolerations(&mut pod);
        let chosen = scheduler::matches_selector(node, &pod);
        let runs = chosen && scheduler::tolerates(node, &pod, &["NoSchedule", "NoExecute"]);
        let stays = chosen && scheduler::tolerates(node, &pod, &["NoExecute"]);
        (runs && !node::is_lost(node), stays)
    }

    async fn update_pods(&self, control: &mut ControlLoop, own: &[Arc<Pod>]) -> kube::Result<()> {
        let nodes: Vec<Arc<Node>> = control.caches.nodes.all().cloned().collect();
        let mut by_node: BTreeMap<&str, Vec<Arc<Pod>>> = BTreeMap::new();
        for pod in own {
            by_node.entry(node_of(pod).unwrap_or_default()).or_default().push(Arc::clone(pod));
        }
        for node in &nodes {
            if control.is_spent() {
                return Ok(());
            }
            let name = node.name_any();
            let pods = by_node.get(name.as_str()).map(Vec::as_slice).unwrap_or_default();
            let (runs, stays) = self.node_should_run(node);
            self.sync_node(control, &name, pods, runs, stays).await?;
        }
        let strategy = self.set.spec.clone().unwrap_or_default().update_strategy.unwrap_or_default();
        if strategy.type_.as_deref() == Some("OnDelete") {
            return Ok(());
        }
        let wanted: Vec<&Arc<Node>> = nodes.iter().filter(|n| self.node_should_run(n).0).collect();
        let total = i32::try_from(wanted.len()).unwrap_or(i32::MAX);
        let rolling = strategy.rolling_update.unwrap_or_default();
        let default = IntOrString::Int(1);
        let surge = resolve(rolling.max_surge.as_ref(), total, true);
        let absent = resolve(Some(rolling.max_unavailable.as_ref().unwrap_or(&default)), total, true);
        let own: Vec<Arc<Pod>> =
            control.caches.pods.controlled_by(&self.set.uid().unwrap_or_default()).cloned().collect();
        let on = |node: &str| -> Vec<Arc<Pod>> {
            own.iter().filter(|p| node_of(p) == Some(node) && pods::is_active(p)).cloned().collect()
        };
        let now = control.now();
        let available = |pod: &Pod| pods::is_available(pod, self.wait(), now);
        if surge > 0 {
            return self.surge_update(control, &wanted, surge, &on, &available).await;
        }
        let missing = wanted.iter().filter(|n| !on(&n.name_any()).iter().any(|p| available(p))).count();
        let mut left = absent.max(1) - i32::try_from(missing).unwrap_or(i32::MAX);
        for node in &wanted {
            let old = on(&node.name_any()).into_iter().find(|p| !self.is_new(p));
            let Some(old) = old else { continue };
            // Replacing an unavailable pod costs no availability.
            if available(&old) {
                if left <= 0 {
                    continue;
                }
                left -= 1;
            }
            self.delete_pod(control, &old).await?;
        }
        Ok(())
    }

    /// Updates with surge: new pods run beside the old ones until they are available.
    async fn surge_update(
        &self,
        control: &mut ControlLoop,
        wanted: &[&Arc<Node>],
        surge: i32,
        on: &(impl Fn(&str) -> Vec<Arc<Pod>> + Sync),
        available: &(impl Fn(&Pod) -> bool + Sync),
    ) -> kube::Result<()> {
        let (mut doubled, mut waiting) = (0, Vec::new());
        for node in wanted {
            let name = node.name_any();
            let (new, old): (Vec<_>, Vec<_>) = on(&name).into_iter().partition(|p| self.is_new(p));
            match (new.first(), old.first()) {
                (Some(new), Some(old)) if available(new) => self.delete_pod(control, old).await?,
                (Some(_), Some(_)) => doubled += 1,
                (None, Some(old)) if !available(old) => self.delete_pod(control, old).await?,
                (None, Some(_)) => waiting.push(name),
                (_, None) => {}
            }
        }
        for name in waiting.iter().take(usize::try_from(surge - doubled).unwrap_or_default()) {
            self.create_pod(control, name).await?;
        }
        Ok(())
    }

    /// Creates the pod of a node, or deletes surplus pods there.
    async fn sync_node(
        &self,
        control: &mut ControlLoop,
        node: &str,
        pods: &[Arc<Pod>],
        runs: bool,
        stays: bool,
    ) -> kube::Result<()> {
        let mut kept = Vec::new();
        for pod in pods.iter().filter(|p| !pods::is_deleting(&***p)) {
            if pods::is_terminal(pod) {
                let what = format!(
                    "Found failed daemon pod {}/{} on node {node}, will try to kill it",
                    pod.namespace().unwrap_or_default(),
                    pod.name_any()
                );
                self.record_event(control, true, "FailedDaemonPod", &what).await;
                self.delete_pod(control, pod).await?;
            } else if stays {
                kept.push(Arc::clone(pod));
            } else {
                self.delete_pod(control, pod).await?;
            }
        }
        // Among several pods of one revision, the oldest is kept.
        kept.sort_by_key(|p| (p.metadata.creation_timestamp.as_ref().map(|t| t.0), p.name_any()));
        for same in [true, false] {
            let of_kind: Vec<_> = kept.iter().filter(|p| self.is_new(p) == same).skip(1).cloned().collect();
            for pod in of_kind {
                self.delete_pod(control, &pod).await?;
            }
        }
        if runs && pods.is_empty() { self.create_pod(control, node).await } else { Ok(()) }
    }

    async fn create_pod(&self, control: &mut ControlLoop, node: &str) -> kube::Result<()> {
        let template: PodTemplateSpec = self.set.spec.clone().unwrap_or_default().template;
        let mut pod = pods::from_template(&*self.set, &template, pods::generated(&self.set.name_any()));
        pod.labels_mut().insert(revisions::LABEL.to_owned(), self.hash.clone());
        let generation = self.set.annotations().get(GENERATION).cloned();
        let generation = generation.unwrap_or_else(|| self.set.metadata.generation.unwrap_or(1).to_string());
        pod.labels_mut().insert(POD_GENERATION.to_owned(), generation);
        add_tolerations(&mut pod);
        if let Some(spec) = &mut pod.spec {
            let affinity = spec.affinity.get_or_insert_with(Affinity::default);
            let node_affinity = affinity.node_affinity.get_or_insert_default();
            node_affinity.required_during_scheduling_ignored_during_execution = Some(NodeSelector {
                node_selector_terms: vec![NodeSelectorTerm {
                    match_fields: Some(vec![NodeSelectorRequirement {
                        key: "metadata.name".to_owned(),
                        operator: "In".to_owned(),
                        values: Some(vec![node.to_owned()]),
                    }]),
                    match_expressions: None,
                }],
            });
        }
        match control.create(&pod).await {
            Ok(made) => {
                let what = format!("Created pod: {}", made.name_any());
                self.record_event(control, false, "SuccessfulCreate", &what).await;
                Ok(())
            }
            Err(error) => {
                let what = format!("Error creating: {}", message(&error));
                self.record_event(control, true, "FailedCreate", &what).await;
                Err(error)
            }
        }
    }

    async fn delete_pod(&self, control: &mut ControlLoop, pod: &Pod) -> kube::Result<()> {
        control.delete(pod, None).await?;
        self.record_event(control, false, "SuccessfulDelete", &format!("Deleted pod: {}", pod.name_any()))
            .await;
        Ok(())
    }

    async fn record_event(
        &self,
        control: &mut ControlLoop,
        warning: bool,
        reason: &'static str,
        message: &str,
    ) {
        control.record_event(&*self.set, NewEvent { component: NAME, warning, reason, message }).await;
    }

    async fn update_status(&self, control: &mut ControlLoop) -> kube::Result<()> {
        let now = control.now();
        let own: Vec<Arc<Pod>> =
            control.caches.pods.controlled_by(&self.set.uid().unwrap_or_default()).cloned().collect();
        let mut status = DaemonSetStatus {
            observed_generation: self.set.metadata.generation,
            collision_count: self.set.status.as_ref().and_then(|s| s.collision_count),
            conditions: self.set.status.as_ref().and_then(|s| s.conditions.clone()),
            ..DaemonSetStatus::default()
        };
        let (mut available, mut updated) = (0, 0);
        for node in control.caches.nodes.all() {
            let (runs, _) = self.node_should_run(node);
            let name = node.name_any();
            let here = |p: &&Arc<Pod>| node_of(p) == Some(&name) && pods::is_active(p);
            let pods: Vec<&Arc<Pod>> = own.iter().filter(here).collect();
            status.desired_number_scheduled += i32::from(runs);
            if pods.is_empty() {
                continue;
            }
            if !runs {
                status.number_misscheduled += 1;
                continue;
            }
            status.current_number_scheduled += 1;
            status.number_ready += i32::from(pods.iter().any(|p| pods::is_ready(p)));
            available += i32::from(pods.iter().any(|p| pods::is_available(p, self.wait(), now)));
            updated += i32::from(pods.iter().any(|p| self.is_new(p)));
        }
        let nonzero = |n: i32| (n != 0).then_some(n);
        status.number_available = nonzero(available);
        status.updated_number_scheduled = nonzero(updated);
        status.number_unavailable = nonzero(status.desired_number_scheduled - available);
        let due = own.iter().filter_map(|p| pods::until_available(p, self.wait(), now));
        if let Some(due) = due.filter(|d| !d.is_zero()).min() {
            let namespace = self.set.namespace().unwrap_or_default();
            control.push_after(Controller::DaemonSet, &namespace, &self.set.name_any(), due);
        }
        if self.set.status.as_ref() == Some(&status) {
            return Ok(());
        }
        let mut changed = DaemonSet::clone(&self.set);
        changed.status = Some(status);
        control.update_status(&changed).await.map(drop)
    }
}

/// Adds the default tolerations of daemon pods, which stay on nodes with problems.
fn add_tolerations(pod: &mut Pod) {
    let Some(spec) = &mut pod.spec else { return };
    let host = spec.host_network == Some(true);
    let tolerations = spec.tolerations.get_or_insert_default();
    for (key, effect) in [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
        ("network-unavailable", "NoSchedule"),
    ] {
        if key == "network-unavailable" && !host {
            continue;
        }
        let toleration = Toleration {
            key: Some(format!("node.kubernetes.io/{key}")),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        };
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
}
