//! Rolling a release back.

use jiff::Timestamp;
use steersman_chart::HookEvent;

use crate::deploy::{Moments, Plan};
use crate::error::{Error, Result};
use crate::record::{HookExecution, Info, Release, Status};
use crate::releases::{HistoryMax, Options, Releases, Timeout, check_name};

const MOMENTS: Moments = Moments {
    before: HookEvent::PreRollback,
    after: HookEvent::PostRollback,
    hook_failed: |_, error| error.to_string(),
};

/// How to roll back.
#[derive(Clone, Debug, Default)]
pub struct RollbackOptions {
    /// The revision to go back to. The one before the last by default.
    pub revision: Option<i64>,
    /// Wait until the objects are ready. False by default.
    pub wait: bool,
    /// Wait until jobs have ended too. False by default.
    pub wait_for_jobs: bool,
    /// How long each hook, and waiting, may take. Five minutes by default.
    pub timeout: Timeout,
    /// Run no hooks. False by default.
    pub disable_hooks: bool,
    /// Write nothing. False by default.
    pub dry_run: bool,
    /// Delete what was created if it fails. False by default.
    pub cleanup_on_fail: bool,
    /// How many revisions are kept; 0 keeps all. Ten by default.
    pub history_max: HistoryMax,
}

impl Releases {
    /// Makes an earlier revision the current one again, as a new revision. An operation that broke off is taken up.
    ///
    /// # Errors
    /// Fails if there is no such revision, or the cluster refuses an object.
    pub async fn rollback(&self, name: &str, options: &RollbackOptions) -> Result<Release> {
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
        let current = this.storage.get(name, last.version).await?;
        let mut hooks = earlier.hooks;
        hooks.iter_mut().for_each(|hook| hook.last_run = HookExecution::default());
        let mut release = Release {
            name: name.to_owned(),
            namespace: current.namespace.clone(),
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
            version: last.version + 1,
            labels: earlier.labels,
            manifest: earlier.manifest,
            hooks,
        };
        if options.dry_run {
            return Ok(release);
        }
        let targets = this.targets(&release).await?;
        let live = this.live(&targets).await?;
        let originals = this.originals(&this.leavings(&revisions).await?).await?;
        this.forget_oldest(&revisions, options.history_max.0).await?;
        this.storage.create(&release).await?;

        let deploy = Options {
            wait: options.wait,
            wait_for_jobs: options.wait_for_jobs,
            timeout: options.timeout,
            disable_hooks: options.disable_hooks,
            ..Options::default()
        };
        let vouched = release.clone();
        let mut created = Vec::new();
        let plan = Plan { targets, live, originals };
        let work = this.carry_out(&mut release, plan, &MOMENTS, &deploy, &mut created);
        let done = this.storage.while_alive(&vouched, Box::pin(work)).await;
        let Err(error) = done else {
            release.info.status = Status::Deployed;
            this.storage.update(&release).await?;
            this.supersede(&revisions, release.version).await?;
            return Ok(release);
        };
        release.info.status = Status::Failed;
        release.info.description = format!("Rollback {name:?} failed: {error}");
        if let Err(error) = this.storage.update(&release).await {
            tracing::warn!(%error, "cannot record that the rollback failed");
        }
        let mut message = error.to_string();
        if options.cleanup_on_fail
            && let Err(second) = this.remove(&created).await
        {
            message = format!(
                "an error occurred while cleaning up resources. original rollback error: {error}: unable to cleanup \
                 resources: {second}"
            );
        }
        Err(Error::Failed { message, release: Box::new(release), source: Box::new(error) })
    }
}
