//! Rollback of a release.

use futures::future::BoxFuture;
use jiff::Timestamp;
use steersman_chart::HookEvent;

use crate::deploy::{DeployOutcome, Operation, Prepared};
use crate::error::{Error, Result};
use crate::record::{HookExecution, Info, Release, Status};
use crate::releases::{HistoryMax, Options, Releases, Timeout, check_name, next_version};

const OPERATION: Operation = Operation {
    before: HookEvent::PreRollback,
    after: HookEvent::PostRollback,
    hook_failed: |_, error| error.to_string(),
    name: "rollback",
    title: "Rollback",
    cleans_up: true,
};

/// Options of a rollback.
#[derive(Clone, Debug, Default)]
pub struct RollbackOptions {
    /// The revision to roll back to. The previous one by default.
    pub revision: Option<i64>,
    /// Wait until the objects are ready. False by default.
    pub wait: bool,
    /// Wait until Jobs have completed too. False by default.
    pub wait_for_jobs: bool,
    /// Timeout of each hook, and of waiting. Five minutes by default.
    pub timeout: Timeout,
    /// Run no hooks. False by default.
    pub disable_hooks: bool,
    /// Write nothing. False by default.
    pub dry_run: bool,
    /// Delete the objects that a failed rollback created. False by default.
    pub cleanup_on_fail: bool,
    /// Maximum number of revisions to keep; 0 keeps all. Ten by default.
    pub history_max: HistoryMax,
}

impl Releases {
    /// Rolls back to an earlier revision, as a new revision. An interrupted operation is recovered.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use steersman_chart::{Chart, File, Values};
    /// # let chart = Chart::from_files([
    /// #     File::new("Chart.yaml", "{apiVersion: v2, name: hello, version: 0.1.0}"),
    /// #     File::new("templates/config.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: hello}, data: {text: {{ .Values.text | quote }}}}"),
    /// # ])?;
    /// # let cluster = steersman_cluster::Cluster::start().await?;
    /// # let client = cluster.client();
    /// # let mut values = Values::new();
    /// # values.set("text=one")?;
    /// use steersman_release::{Options, Releases, RollbackOptions};
    ///
    /// let releases = Releases::new(client, "default");
    /// releases.install("hello", &chart, &values, &Options::default()).await?;
    /// values.set("text=two")?;
    /// releases.upgrade("hello", &chart, &values, &Options::default()).await?;
    /// let options = RollbackOptions { revision: Some(1), ..RollbackOptions::default() };
    /// assert_eq!(releases.rollback("hello", &options).await?.version, 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if there is no such revision, or if the API server refuses an object.
    pub fn rollback<'a>(
        &'a self,
        name: &'a str,
        options: &'a RollbackOptions,
    ) -> BoxFuture<'a, Result<Release>> {
        Box::pin(async move {
            check_name(name)?;
            if options.revision.is_some_and(|revision| revision < 0) {
                return Err(Error::InvalidRevision);
            }
            let mut revisions = self.storage.revisions(name).await?;
            let this = if options.dry_run { self.clone() } else { self.recovered(&mut revisions).await? };
            let last = revisions.last().ok_or_else(|| Error::NotFound { name: name.to_owned() })?;
            let wanted = options.revision.filter(|revision| *revision > 0).unwrap_or(last.version - 1);
            if !revisions.iter().any(|revision| revision.version == wanted) {
                return Err(Error::NoSuchRevision(wanted));
            }
            let earlier = this.storage.get(name, wanted).await?;
            if earlier.unverified {
                return Err(Error::Unverified(wanted));
            }
            let current = this.storage.get(name, last.version).await?;
            let mut hooks = earlier.hooks;
            hooks.iter_mut().for_each(|hook| hook.last_run = HookExecution::default());
            let release = Release {
                name: name.to_owned(),
                namespace: self.namespace.clone(),
                chart: earlier.chart,
                config: earlier.config,
                info: Info {
                    first_deployed: current.info.first_deployed,
                    last_deployed: Some(Timestamp::now()),
                    status: Status::PendingRollback,
                    notes: earlier.info.notes,
                    description: format!("Rollback to {wanted}"),
                    ..Info::default()
                },
                version: next_version(&revisions)?,
                labels: earlier.labels,
                manifest: earlier.manifest,
                hooks,
                ..Release::default()
            };
            if options.dry_run {
                return Ok(release);
            }
            let plan = this.plan(&release, &revisions).await?;
            this.remove_least_recent(&revisions, options.history_max.0).await?;
            let deploy = Options {
                wait: options.wait,
                wait_for_jobs: options.wait_for_jobs,
                timeout: options.timeout,
                disable_hooks: options.disable_hooks,
                cleanup_on_fail: options.cleanup_on_fail,
                ..Options::default()
            };
            let description = release.info.description.clone();
            let prepared = Prepared { release, plan, revisions };
            match this.deploy(prepared, &OPERATION, &deploy, description).await? {
                DeployOutcome::Deployed(release) => Ok(*release),
                DeployOutcome::Failed(failed) => Err(failed.into_error(None)),
            }
        })
    }
}
