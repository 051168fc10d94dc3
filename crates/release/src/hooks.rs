//! Hooks: objects that are created at certain events of a release.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, LogParams, PropagationPolicy};
use serde_json::Value;
use steersman_chart::{Hook as Rendered, HookEvent};

use crate::error::{Error, Result};
use crate::object::{self, Object, pods};
use crate::progress::Progress;
use crate::record::{Hook, HookExecution, Release};
use crate::releases::Releases;
use crate::wait;

const BEFORE_CREATION: &str = "before-hook-creation";
const SUCCEEDED: &str = "hook-succeeded";
const FAILED: &str = "hook-failed";

/// Returns a rendered hook in its recorded form.
pub(crate) fn record(hook: &Rendered) -> Hook {
    Hook {
        name: hook.manifest.name.clone(),
        kind: hook.manifest.kind.clone(),
        path: hook.manifest.path.clone(),
        manifest: hook.manifest.content.clone(),
        events: hook.events.iter().map(|event| event.as_str().to_owned()).collect(),
        last_run: HookExecution::default(),
        weight: hook.weight,
        delete_policies: hook.delete_policies.clone(),
        output_log_policies: hook.output_log_policies.clone(),
    }
}

impl Releases {
    /// Runs the hooks of an event one after the other, by weight and name. `chosen` filters them.
    pub(crate) async fn run_hooks(
        &self,
        release: &mut Release,
        event: HookEvent,
        timeout: Duration,
        chosen: impl Fn(&Hook) -> bool,
    ) -> Result<()> {
        let runs = |hook: &Hook| hook.events.iter().any(|name| name == event.as_str()) && chosen(hook);
        let mut order: Vec<usize> = Vec::new();
        for (index, hook) in release.hooks.iter_mut().enumerate() {
            if runs(hook) {
                if hook.delete_policies.is_empty() {
                    hook.delete_policies.push(BEFORE_CREATION.into());
                }
                order.push(index);
            }
        }
        let rank = |index: &usize| release.hooks.get(*index).map(|hook| (hook.weight, hook.name.clone()));
        order.sort_by_key(rank);

        let mut done: Vec<usize> = Vec::new();
        for index in order {
            let Err(error) = self.run_hook(release, index, event, timeout).await else {
                done.push(index);
                continue;
            };
            self.finish_hook(release, index, FAILED, timeout).await;
            for earlier in &done {
                self.delete_hook(release, *earlier, SUCCEEDED, timeout).await?;
            }
            return Err(error);
        }
        for index in done.iter().rev() {
            self.show_logs(release, *index, SUCCEEDED).await;
            self.delete_hook(release, *index, SUCCEEDED, timeout).await?;
        }
        Ok(())
    }

    async fn run_hook(
        &self,
        release: &mut Release,
        index: usize,
        event: HookEvent,
        timeout: Duration,
    ) -> Result<()> {
        self.delete_hook(release, index, BEFORE_CREATION, timeout).await?;
        let Some(hook) = release.hooks.get(index) else { return Ok(()) };
        let objects = self.hook_objects(hook).await?;
        let path = hook.path.clone();
        self.reporter
            .report(&Progress::Hook { event: event.as_str(), hook: format!("{}/{}", hook.kind, hook.name) });

        set_run(release, index, |run| {
            *run = HookExecution {
                started_at: Some(Timestamp::now()),
                completed_at: None,
                phase: "Running".into(),
            };
        });
        self.storage.update(release).await?;

        let ran = self.create_and_wait(&objects, timeout).await;
        let phase = if ran.is_ok() { "Succeeded" } else { "Failed" };
        set_run(release, index, |run| {
            run.completed_at = Some(Timestamp::now());
            run.phase = phase.into();
        });
        ran.map_err(|error| match error {
            error @ (Error::Hook(_) | Error::Timeout { .. }) => error,
            error => Error::Hook(format!("warning: Hook {} {path} failed: {error}", event.as_str())),
        })
    }

    async fn create_and_wait(&self, objects: &[Object], timeout: Duration) -> Result<()> {
        let writer = self.writer();
        for object in objects {
            let mut created = writer.create(object).await;
            // An interrupted run leaves its object behind.
            if self.recovering && created.as_ref().is_err_and(|error| error.status_code() == Some(409)) {
                writer.delete(object, PropagationPolicy::Background).await?;
                wait::until_gone(&writer, std::slice::from_ref(object), timeout).await?;
                created = writer.create(object).await;
            }
            created?;
        }
        wait::until_done(&writer, objects, timeout).await
    }

    async fn finish_hook(&self, release: &Release, index: usize, policy: &str, timeout: Duration) {
        self.show_logs(release, index, policy).await;
        // The failure of the hook itself is the one to report.
        if let Err(error) = self.delete_hook(release, index, policy, timeout).await {
            tracing::warn!(%error, "cannot delete a failed hook");
        }
    }

    async fn hook_objects(&self, hook: &Hook) -> Result<Vec<Object>> {
        let mut objects =
            object::parse(&hook.manifest, &self.namespace, &self.kinds).await.map_err(|error| {
                Error::Hook(format!("unable to build kubernetes object for hook {}: {error}", hook.path))
            })?;
        for object in &mut objects {
            self.check_confined(object)?;
            self.decorate(object);
        }
        Ok(objects)
    }

    /// Deletes a hook's object if its delete policy applies now, and waits until it is gone.
    async fn delete_hook(
        &self,
        release: &Release,
        index: usize,
        policy: &str,
        timeout: Duration,
    ) -> Result<()> {
        let Some(hook) = release.hooks.get(index) else { return Ok(()) };
        // Deleting a CRD would delete all its objects: as in Helm, that never happens.
        if hook.kind == "CustomResourceDefinition" || !hook.delete_policies.iter().any(|own| own == policy) {
            return Ok(());
        }
        let objects = self.hook_objects(hook).await?;
        let writer = self.writer();
        for object in &objects {
            writer.delete(object, PropagationPolicy::Background).await?;
        }
        wait::until_gone(&writer, &objects, timeout).await
    }

    async fn show_logs(&self, release: &Release, index: usize, policy: &str) {
        let Some(hook) = release.hooks.get(index) else { return };
        if !hook.output_log_policies.iter().any(|own| own == policy) {
            return;
        }
        if let Err(error) = self.collect_logs(hook).await {
            tracing::warn!(%error, hook = hook.name, "cannot read the logs of a hook");
        }
    }

    /// Reports the logs of a hook's containers.
    pub(crate) async fn collect_logs(&self, hook: &Hook) -> Result<()> {
        let selected = match hook.kind.as_str() {
            "Job" => ListParams::default().labels(&format!("job-name={}", hook.name)),
            "Pod" => ListParams::default().fields(&format!("metadata.name={}", hook.name)),
            _ => return Ok(()),
        };
        let objects = self.hook_objects(hook).await?;
        let namespace = objects.first().map_or(self.namespace.as_str(), |object| &object.id.namespace);
        let found = pods(self.client.clone(), namespace).list(&selected).await;
        let logs: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        for pod in found.map_err(Error::kube("cannot list the pods of a hook"))? {
            let name = pod.name_any();
            let containers = pod.data.pointer("/spec/containers").and_then(Value::as_array);
            let names =
                containers.into_iter().flatten().filter_map(|container| container.get("name")?.as_str());
            for container in names.map(str::to_owned) {
                let params = LogParams { container: Some(container.clone()), ..LogParams::default() };
                let text = logs.logs(&name, &params).await.map_err(Error::kube("cannot read logs"))?;
                self.reporter.report(&Progress::Log { pod: name.clone(), container, text });
            }
        }
        Ok(())
    }
}

fn set_run(release: &mut Release, index: usize, change: impl FnOnce(&mut HookExecution)) {
    if let Some(hook) = release.hooks.get_mut(index) {
        change(&mut hook.last_run);
    }
}
