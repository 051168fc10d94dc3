//! Common steps of install, upgrade and rollback: writes, pruning, hooks, waiting, and failures.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{StreamExt as _, stream};
use kube::api::{DynamicObject, PropagationPolicy};
use serde_json::{Value, json};
use steersman_chart::{Capabilities, HookEvent, Values};

use crate::error::{Error, Result, code};
use crate::object::{self, Object, ObjectId};
use crate::ownership::ownership_errors;
use crate::progress::Progress;
use crate::record::{Release, Status};
use crate::releases::{CrdPolicy, Options, Releases};
use crate::render::{self, Request};
use crate::storage::Revision;
use crate::wait;
use crate::write::{Outcome, WriteMode, Writer};

/// Maximum number of concurrent writes of one kind.
const WRITES: usize = 8;
/// Timeout for CRDs to be established.
const ESTABLISH: Duration = Duration::from_secs(60);

/// Planned changes to the cluster.
pub(crate) struct Plan {
    /// The desired objects, in install order.
    pub(crate) targets: Vec<Object>,
    /// Their live states.
    pub(crate) live: Vec<Option<DynamicObject>>,
    /// The objects of earlier revisions, the latest last.
    pub(crate) originals: Vec<Object>,
    /// Identities of the objects that verified records list.
    pub(crate) recorded: HashSet<ObjectId>,
}

impl Plan {
    /// Whether an object of the release exists with the release's ownership metadata.
    pub(crate) fn has_owned(&self, release: &Release) -> bool {
        let owned = |live: &DynamicObject| {
            ownership_errors(&json!(live), &release.name, &release.namespace).is_empty()
        };
        self.live.iter().flatten().any(owned)
    }
}

/// How install, upgrade and rollback differ in carrying out a plan.
pub(crate) struct Operation {
    pub(crate) before: HookEvent,
    pub(crate) after: HookEvent,
    /// Helm's wording of a failed hook.
    pub(crate) hook_failed: fn(HookEvent, &Error) -> String,
    /// Helm's name of the operation in errors.
    pub(crate) name: &'static str,
    /// First word of a failed revision's description.
    pub(crate) title: &'static str,
    /// Whether a failed operation may delete the objects that it created, if the options request it.
    pub(crate) cleans_up: bool,
}

/// A revision that is ready to be deployed.
pub(crate) struct Prepared {
    pub(crate) release: Release,
    pub(crate) plan: Plan,
    /// The revisions before it, oldest first.
    pub(crate) revisions: Vec<Revision>,
}

/// Outcome of a deploy: the revision is recorded as deployed or failed.
#[must_use]
pub(crate) enum DeployOutcome {
    Deployed(Box<Release>),
    Failed(Box<FailedDeploy>),
}

/// A revision that failed, and is recorded as such.
pub(crate) struct FailedDeploy {
    pub(crate) release: Release,
    pub(crate) error: Error,
    /// The revisions before it, oldest first.
    pub(crate) revisions: Vec<Revision>,
    /// Objects that it had created.
    created: Vec<Object>,
    /// The error message, including the outcome of the cleanup.
    message: String,
}

impl FailedDeploy {
    /// Converts to an error; `undone` is the message if the revision was undone.
    pub(crate) fn into_error(self, undone: Option<String>) -> Error {
        Error::Failed {
            message: undone.unwrap_or(self.message),
            release: Box::new(self.release),
            source: Box::new(self.error),
        }
    }
}

impl Releases {
    /// Renders a chart for this cluster.
    pub(crate) async fn render(
        &self,
        chart: &steersman_chart::Chart,
        values: &Values,
        release: steersman_chart::Release,
        capabilities: Capabilities,
        options: &Options,
    ) -> Result<render::RenderOutput> {
        let lookup = !matches!(options.dry_run, Some(crate::DryRun::Client));
        let request = Request {
            chart: chart.clone(),
            values: values.clone(),
            options: render::options(release, capabilities, options),
            timeout: options.render.timeout,
            lookup,
            enable_dns: options.enable_dns,
        };
        let confined = self.confinement.as_ref().map(|confinement| (confinement, self.namespace.as_str()));
        render::render(request, &self.client, &self.kinds, confined).await
    }

    /// Returns the objects of a release, with ownership metadata.
    pub(crate) async fn targets(&self, release: &Release) -> Result<Vec<Object>> {
        let mut targets = object::parse(&release.manifest, &self.namespace, &self.kinds).await?;
        for target in &mut targets {
            self.check_confined(target)?;
            target.set_ownership(&release.name, &self.namespace);
            self.decorate(target);
        }
        Ok(targets)
    }

    /// Refuses an object that a confined release may not have.
    pub(crate) fn check_confined(&self, object: &Object) -> Result<()> {
        match &self.confinement {
            Some(confinement) => confinement.check(object, &self.namespace),
            None => Ok(()),
        }
    }

    /// Plans a revision from the objects of earlier ones and the live objects.
    pub(crate) async fn plan(&self, release: &Release, revisions: &[Revision]) -> Result<Plan> {
        let targets = self.targets(release).await?;
        let live = self.live(&targets).await?;
        let (mut originals, mut recorded) = (Vec::new(), HashSet::new());
        for earlier in self.prior_releases(revisions).await? {
            let listed = self.listed(&earlier).await?;
            if !earlier.unverified {
                recorded.extend(listed.iter().map(|object| object.id.clone()));
            }
            originals.extend(listed);
            originals.extend(self.undeleted(&earlier).await?);
        }
        Ok(Plan { targets, live, originals, recorded })
    }

    /// Returns the objects of a release as they are written: with ownership metadata, and decorated.
    ///
    /// # Errors
    /// Fails if the manifest does not parse, or the cluster does not serve a kind.
    pub fn objects<'a>(&'a self, release: &'a Release) -> BoxFuture<'a, Result<Vec<Object>>> {
        Box::pin(async move { self.targets(release).await })
    }

    /// Writes an object of a release again, to correct drift. Returns the outcome and the live object.
    ///
    /// # Errors
    /// Fails if the API server refuses it.
    pub fn enforce<'a>(&'a self, object: &'a Object) -> BoxFuture<'a, Result<(Outcome, DynamicObject)>> {
        Box::pin(async move {
            let writer = self.writer();
            let live = writer.live(object).await?;
            let written = writer.write(object, Some(&object.content), live).await;
            let Err(Error::Object { source, .. }) = &written else { return written };
            if code(source) != Some(422) {
                return written;
            }
            // A merge keeps list items that others added, which may conflict with the desired ones: two ports of one name.
            match writer.overwrite(object).await {
                Ok(now) => Ok((Outcome::Changed, now)),
                Err(_) => written,
            }
        })
    }

    /// Checks that existing objects may be adopted.
    pub(crate) fn check_ownership(
        &self,
        operation: &'static str,
        release: &Release,
        plan: &Plan,
    ) -> Result<()> {
        for (target, live) in plan.targets.iter().zip(&plan.live) {
            let Some(live) = live else { continue };
            if plan.recorded.contains(&target.id) {
                continue;
            }
            let reasons = ownership_errors(&json!(live), &release.name, &release.namespace);
            if !reasons.is_empty() {
                let reason = format!("invalid ownership metadata; {}", reasons.join("; "));
                return Err(Error::InvalidOwnership { operation, object: target.title(), reason });
            }
        }
        Ok(())
    }

    /// Records a revision, executes its plan, and records the outcome. The revision is then deployed, with earlier ones
    /// superseded, or failed.
    pub(crate) async fn deploy(
        &self,
        prepared: Prepared,
        operation: &Operation,
        options: &Options,
        description: String,
    ) -> Result<DeployOutcome> {
        let Prepared { mut release, plan, revisions } = prepared;
        self.storage.create(&release).await?;
        let locked = release.clone();
        let mut created = Vec::new();
        let work = self.execute(&mut release, plan, operation, options, &mut created);
        let Err(error) = self.storage.with_heartbeat(&locked, Box::pin(work)).await else {
            release.info.status = Status::Deployed;
            release.info.description = description;
            self.storage.update(&release).await?;
            self.supersede(&revisions, release.version).await?;
            return Ok(DeployOutcome::Deployed(Box::new(release)));
        };
        release.info.status = Status::Failed;
        release.info.description = format!("{} {:?} failed: {error}", operation.title, release.name);
        // The first error is the one to return; a record that stays pending is recovered by the next operation.
        if let Err(error) = self.storage.update(&release).await {
            tracing::warn!(%error, "cannot record that the release failed");
        }
        let mut failed = FailedDeploy { message: error.to_string(), release, error, revisions, created };
        if options.cleanup_on_fail && operation.cleans_up {
            self.clean_up(&mut failed, operation.name).await;
        }
        Ok(DeployOutcome::Failed(Box::new(failed)))
    }

    /// Deletes what a failed revision created.
    async fn clean_up(&self, failed: &mut FailedDeploy, operation: &str) {
        if let Err(second) = self.remove(&failed.created).await {
            failed.message = format!(
                "an error occurred while cleaning up resources. original {operation} error: {}: unable to cleanup \
                 resources: {second}",
                failed.error
            );
        }
    }

    /// Runs the hooks before, writes and prunes, waits, and runs the hooks after. Created objects are added to
    /// `created` even on failure.
    async fn execute(
        &self,
        release: &mut Release,
        plan: Plan,
        operation: &Operation,
        options: &Options,
        created: &mut Vec<Object>,
    ) -> Result<()> {
        let timeout = options.timeout.0;
        let failed =
            |event: HookEvent| move |error: Error| Error::Hook((operation.hook_failed)(event, &error));
        if !options.disable_hooks {
            self.run_hooks(release, operation.before, timeout, |_| true)
                .await
                .map_err(failed(operation.before))?;
        }
        let Plan { targets, live, originals, recorded } = plan;
        self.write_all(&targets, live, (&originals, &recorded), created).await?;
        release.undeleted = self.prune(&release.name, &originals, &targets).await;
        if options.wait || options.atomic {
            let writer = self.writer();
            wait::until_ready(&writer, &targets, options.wait_for_jobs, timeout, &self.reporter).await?;
        }
        if !options.disable_hooks {
            self.run_hooks(release, operation.after, timeout, |_| true)
                .await
                .map_err(failed(operation.after))?;
        }
        Ok(())
    }

    /// Writes objects kind by kind; objects of one kind concurrently.
    async fn write_all(
        &self,
        targets: &[Object],
        live: Vec<Option<DynamicObject>>,
        (originals, recorded): (&[Object], &HashSet<ObjectId>),
        created: &mut Vec<Object>,
    ) -> Result<()> {
        let writer = &self.writer();
        let before = originals.iter().filter(|object| recorded.contains(&object.id));
        let before: HashMap<&ObjectId, &Value> = before.map(|object| (&object.id, &object.content)).collect();
        let mut live = live.into_iter();
        for batch in targets.chunk_by(|a, b| a.id.kind == b.id.kind) {
            let writes: Vec<_> = batch
                .iter()
                .map(|target| writer.write(target, before.get(&target.id).copied(), live.next().flatten()))
                .collect();
            let results: Vec<_> = stream::iter(writes).buffered(WRITES).collect().await;
            let mut failures = Vec::new();
            for (target, result) in batch.iter().zip(results) {
                match result {
                    Ok((outcome, _)) => {
                        if outcome == Outcome::Created {
                            created.push(target.clone());
                        }
                        self.reporter.report(&Progress::Written { id: target.id.clone(), outcome });
                    }
                    Err(error) => failures.push(error),
                }
            }
            if let Some(error) = failures.into_iter().next() {
                return Err(error);
            }
            if batch.iter().any(|target| target.id.kind == "CustomResourceDefinition") {
                self.kinds.invalidate().await;
            }
        }
        Ok(())
    }

    /// Deletes objects, after a failed upgrade for instance.
    async fn remove(&self, objects: &[Object]) -> Result<()> {
        let writer = self.writer();
        for object in objects.iter().rev() {
            writer.delete(object, PropagationPolicy::Background).await?;
            self.reporter.report(&Progress::Deleted { id: object.id.clone() });
        }
        Ok(())
    }

    /// Installs the CRDs of a chart's `crds/` by the policy, and waits until they are established.
    pub(crate) async fn definitions(&self, crds: &[steersman_chart::Crd], policy: CrdPolicy) -> Result<()> {
        if policy == CrdPolicy::Skip {
            return Ok(());
        }
        let writer = Writer { mode: WriteMode::ServerSide, ..self.writer() };
        let mut touched = Vec::new();
        for crd in crds {
            let text = crd.data.to_str_lossy();
            let failed =
                |error: Error| Error::Manifest(format!("failed to install CRD {}: {error}", crd.path));
            for definition in object::parse(&text, &self.namespace, &self.kinds).await.map_err(failed)? {
                let live = writer.live(&definition).await.map_err(failed)?;
                let outcome = match (live, policy) {
                    (Some(_), CrdPolicy::Create | CrdPolicy::Skip) => Outcome::Unchanged,
                    (live, _) => writer.write(&definition, None, live).await.map_err(failed)?.0,
                };
                self.reporter.report(&Progress::Definition { name: definition.id.name.clone(), outcome });
                touched.push(definition);
            }
        }
        if touched.is_empty() {
            return Ok(());
        }
        wait::until_ready(&writer, &touched, false, ESTABLISH, &self.reporter).await?;
        self.kinds.invalidate().await;
        Ok(())
    }

    /// Returns the records of revisions that may have left objects behind, oldest first. Those are the last deployed
    /// one, and all after it that are neither deployed nor uninstalled.
    pub(crate) async fn prior_releases(&self, revisions: &[Revision]) -> Result<Vec<Release>> {
        let since = revisions.iter().rposition(|revision| revision.status == Status::Deployed);
        let since = since.or_else(|| {
            // Nothing is deployed: use the revisions after the last uninstall.
            let gone = revisions.iter().rposition(|revision| revision.status == Status::Uninstalled);
            gone.map(|index| index + 1)
        });
        let chosen: Vec<Revision> = revisions.iter().skip(since.unwrap_or(0)).cloned().collect();
        self.storage.get_all(&chosen).await
    }

    /// Deletes the oldest revisions, so that with one more there are at most `max`. The deployed one is kept.
    pub(crate) async fn remove_least_recent(&self, revisions: &[Revision], max: usize) -> Result<()> {
        if max == 0 || revisions.len() < max {
            return Ok(());
        }
        let deployed = revisions.iter().rfind(|revision| revision.status == Status::Deployed);
        let old = revisions.iter().filter(|revision| Some(*revision) != deployed);
        for revision in old.take(revisions.len() + 1 - max) {
            self.storage.delete(&revision.name, revision.version).await?;
        }
        Ok(())
    }

    /// Marks all deployed revisions but one as superseded.
    pub(crate) async fn supersede(&self, revisions: &[Revision], but: i64) -> Result<()> {
        let deployed = revisions
            .iter()
            .filter(|revision| revision.status == Status::Deployed && revision.version != but);
        for revision in deployed {
            match self.storage.set_status(&revision.name, revision.version, Status::Superseded, "").await {
                // Deleted in the meantime by the history limit.
                Ok(()) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
