//! Injects faults at rest: restarts, changes by other clients, and failures of the cluster.

use std::{sync::Arc, time::Duration};

use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};

use super::Run;
use crate::{definition, edit, fault::Fault, network::Process, oracle::Objects, timeline::Actor, user};

/// Size of a clock jump.
const JUMP: Duration = Duration::from_secs(3600);
/// Annotations that make a pod's containers crash, or a node fail.
const FAIL: &str = "cluster.steersman.dev/fail";
const LOST: &str = "cluster.steersman.dev/lost";

impl Run<'_> {
    /// Injects the faults at rest after a step, and records the state after them.
    pub(super) async fn rest(&mut self, at: u32) -> Result<(), String> {
        let plan = self.plan;
        for fault in plan.faults.iter().filter(|fault| fault.at_rest() == Some(at)) {
            let (revision, writes, faults) =
                (self.revision(), self.network.counts().1, self.network.faults());
            if self.inject(fault).await {
                self.settle(Some(at)).await?;
                // An operator that crashed meanwhile has no further step to wait for.
                self.recover(at).await?;
            }
            // An operator whose read fails at startup may report that in a write.
            let is_alone = self.network.faults() == faults + 1;
            if matches!(fault, Fault::Restart(_)) && is_alone && self.network.counts().1 > writes {
                let changes = self.tables().changes(&self.cluster, revision);
                let texts = changes.into_iter().map(|change| format!("{} {}", change.verb, change.key));
                self.at_restart.extend(texts);
            }
        }
        let objects = self.objects();
        if plan.faults.is_empty() {
            let possible = self.possible(at, &objects).await;
            self.possible.extend(possible);
        }
        self.states.push(Some(Arc::new(objects)));
        self.rested_at.push(self.revision());
        self.network.record_rest(at).await;
        Ok(())
    }

    fn revision(&self) -> u64 {
        self.cluster.server().store().latest()
    }

    /// Injects a fault, and returns whether it had a target.
    async fn inject(&mut self, fault: &Fault) -> bool {
        match fault {
            Fault::Restart(_) => {
                self.network.injected(fault);
                for replica in &self.replicas {
                    replica.with_process(Process::kill);
                }
            }
            Fault::DeletedOutside(_, object) => {
                self.network.injected(fault);
                let before = self.revision();
                user::delete_key(&self.cluster, object).await;
                self.by_user.push((before, self.revision()));
            }
            Fault::EditedOutside(_, object) => {
                let Some(live) = self.objects().remove(object) else { return false };
                let Some(edit) = self.edit_of(object, &live).await else { return false };
                self.network.injected(fault);
                self.network.note(Actor::Fault, edit.to_string(), true);
                let before = self.revision();
                user::edit_key(&self.cluster, object, &edit, false).await;
                self.by_user.push((before, self.revision()));
            }
            Fault::PodFailed(_) => {
                let pods = self.running_pods().await;
                if pods.is_empty() {
                    return false;
                }
                self.network.injected(fault);
                self.annotate_pods(&pods, FAIL, Some("crash-loop")).await;
                tokio::time::sleep(self.settings.timing.delay).await;
                self.annotate_pods(&pods, FAIL, None).await;
            }
            Fault::NodeLost(_) => {
                let Some(node) = self.first_node().await else { return false };
                self.network.injected(fault);
                annotate(&self.nodes(), &node, LOST, Some("true")).await;
                tokio::time::sleep(self.settings.timing.node_loss).await;
                annotate(&self.nodes(), &node, LOST, None).await;
            }
            Fault::ClockJump(_) => {
                self.network.injected(fault);
                self.cluster.advance(JUMP);
            }
            Fault::VersionChanged(_) => {
                let definitions = self.definitions_in_use(&self.objects());
                if definitions.is_empty() {
                    return false;
                }
                self.network.injected(fault);
                let before = self.revision();
                for definition in &definitions {
                    self.add_version(definition).await;
                }
                self.by_user.push((before, self.revision()));
            }
            _ => return false,
        }
        true
    }

    /// Returns the faults at rest that have a target, of the kinds to try.
    ///
    /// They include all objects: which of them are the operator's is only known when the run is over.
    async fn possible(&self, at: u32, objects: &Objects) -> Vec<Fault> {
        let is_tried = |kind: &str| self.settings.tried.contains(kind);
        let mut possible = vec![Fault::Restart(at), Fault::ClockJump(at)];
        if is_tried("version-changed") && !self.definitions_in_use(objects).is_empty() {
            possible.push(Fault::VersionChanged(at));
        }
        if is_tried("pod-failed") && !self.running_pods().await.is_empty() {
            possible.push(Fault::PodFailed(at));
        }
        if is_tried("node-lost") && self.first_node().await.is_some() {
            possible.push(Fault::NodeLost(at));
        }
        for (key, live) in objects {
            if is_tried("edited-outside") && self.edit_of(key, live).await.is_some() {
                possible.push(Fault::EditedOutside(at, key.clone()));
            }
            possible.push(Fault::DeletedOutside(at, key.clone()));
        }
        possible
    }

    /// Returns the first edit of an object that the API server accepts.
    async fn edit_of(&self, key: &str, live: &Value) -> Option<edit::Edit> {
        let sent = self.network.sent(key)?.object();
        let is_allowed = |edit: &edit::Edit| {
            self.settings.allowed_edits.iter().any(|(kind, pointer)| {
                *pointer == edit.pointer && kind.as_ref().is_none_or(|kind| live["kind"] == kind.as_str())
            })
        };
        for edit in edit::candidates(&sent, live).into_iter().filter(|edit| !is_allowed(edit)) {
            if user::edit_key(&self.cluster, key, &edit, true).await {
                return Some(edit);
            }
        }
        None
    }

    /// Returns the running pods with restartPolicy Always.
    async fn running_pods(&self) -> Vec<DynamicObject> {
        if !self.settings.workloads {
            return Vec::new();
        }
        let pods: Api<DynamicObject> = Api::all_with(self.cluster.client(), &core("Pod"));
        let all = pods.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
        let is_running = |pod: &DynamicObject| {
            pod.metadata.deletion_timestamp.is_none()
                && pod.data["status"]["phase"] == "Running"
                && pod.data["spec"]["restartPolicy"] == "Always"
        };
        all.into_iter().filter(is_running).collect()
    }

    async fn annotate_pods(&self, pods: &[DynamicObject], name: &str, value: Option<&str>) {
        for pod in pods {
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            let api = Api::namespaced_with(self.cluster.client(), namespace, &core("Pod"));
            annotate(&api, pod.metadata.name.as_deref().unwrap_or_default(), name, value).await;
        }
    }

    fn nodes(&self) -> Api<DynamicObject> {
        Api::all_with(self.cluster.client(), &core("Node"))
    }

    async fn first_node(&self) -> Option<String> {
        let nodes = self.nodes().list(&ListParams::default()).await.ok()?;
        nodes.items.into_iter().find_map(|node| node.metadata.name)
    }

    /// Returns the definitions of existing objects, except those with a conversion webhook.
    ///
    /// The operator's webhooks are not served.
    fn definitions_in_use(&self, objects: &Objects) -> Vec<Value> {
        let is_used = |definition: &Value| {
            let resource = format!("{}/", definition["metadata"]["name"].as_str().unwrap_or_default());
            objects.keys().any(|key| key.starts_with(&resource))
        };
        let mut definitions = self.tables().definitions(&self.cluster);
        definitions.retain(|one| is_used(one) && one["spec"]["conversion"]["strategy"] != "Webhook");
        definitions
    }

    /// Adds a version to a definition and makes it the storage version.
    async fn add_version(&mut self, definition: &Value) {
        let Some(name) = definition["metadata"]["name"].as_str() else { return };
        let Some(versions) = definition::with_next_version(&definition["spec"]["versions"]) else { return };
        let key = format!("customresourcedefinitions.apiextensions.k8s.io/{name}");
        user::patch_key(&self.cluster, &key, &json!({"spec": {"versions": versions}})).await;
        // The change is the simulation's, so the operator is not judged by it.
        self.redefined.insert(key);
    }
}

/// Sets an annotation of an object, or removes it.
async fn annotate(api: &Api<DynamicObject>, object: &str, name: &str, value: Option<&str>) {
    let patch = Patch::Merge(json!({"metadata": {"annotations": {name: value}}}));
    // It may be deleted by now.
    let _ = api.patch(object, &PatchParams::default(), &patch).await;
}

fn core(kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", kind))
}
