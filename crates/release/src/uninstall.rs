//! Uninstalling a release.

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use kube::api::PropagationPolicy;
use steersman_chart::{HookEvent, UNINSTALL_ORDER, sort_by_kind};

use crate::error::{Error, Result};
use crate::object::Object;
use crate::progress::Progress;
use crate::record::{Release, Status};
use crate::releases::{Releases, Timeout, check_name};
use crate::storage::Revision;
use crate::wait;

/// How many objects of one kind are deleted at once.
const DELETES: usize = 8;

/// How to uninstall.
#[derive(Clone, Debug, Default)]
pub struct UninstallOptions {
    /// Keep the history. False by default.
    pub keep_history: bool,
    /// Wait until the objects are gone. False by default.
    pub wait: bool,
    /// How long each hook, and waiting, may take. Five minutes by default.
    pub timeout: Timeout,
    /// Run no hooks. False by default.
    pub disable_hooks: bool,
    /// Write nothing. False by default.
    pub dry_run: bool,
    /// What the kept record's description says. Helm's words by default.
    pub description: Option<String>,
    /// What becomes of the objects' own dependents. They go in the background by default.
    pub cascade: Cascade,
}

/// What becomes of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cascade {
    /// They go after it.
    #[default]
    Background,
    /// They go before it.
    Foreground,
    /// They stay.
    Orphan,
}

/// What an uninstall did.
#[derive(Clone, Debug)]
pub struct Uninstalled {
    /// The last revision, as it was.
    pub release: Release,
    /// Objects that stay because the chart says so, as `[Kind] name`.
    pub kept: Vec<String>,
}

impl Releases {
    /// Uninstalls a release. One that broke off is taken up.
    ///
    /// # Errors
    /// Fails if there is no such release, a hook fails, or the cluster refuses to delete something.
    pub async fn uninstall(&self, name: &str, options: &UninstallOptions) -> Result<Uninstalled> {
        check_name(name)?;
        if options.dry_run {
            return Ok(Uninstalled { release: self.get(name, None).await?, kept: Vec::new() });
        }
        let mut revisions = self.storage.revisions(name).await?;
        let mut this = self.recovered(&mut revisions).await?;
        let last = revisions.last().ok_or_else(|| Error::NotFound { name: name.to_owned() })?;
        let mut release = this.storage.get(name, last.version).await?;
        match release.info.status {
            Status::Uninstalled if options.keep_history => {
                return Err(Error::AlreadyDeleted(name.to_owned()));
            }
            Status::Uninstalled => {
                this.forget_all(&revisions).await?;
                return Ok(Uninstalled { release, kept: Vec::new() });
            }
            Status::Uninstalling => this.recovering = true,
            _ => {}
        }
        let leavings = this.leavings(&revisions).await?;
        release.info.status = Status::Uninstalling;
        release.info.deleted = Some(Timestamp::now());
        release.info.description = "Deletion in progress (or silently failed)".into();
        this.storage.update(&release).await?;
        let timeout = options.timeout.0;
        if !options.disable_hooks {
            this.run_hooks(&mut release, HookEvent::PreDelete, timeout, |_| true).await?;
            this.storage.update(&release).await?;
        }

        let (deleted, kept) = this.delete_objects(&leavings, options).await?;
        let mut errors = Vec::new();
        if options.wait
            && let Err(error) = wait::until_gone(&this.writer(), &deleted, timeout).await
        {
            errors.push(error.to_string());
        }
        if !options.disable_hooks
            && let Err(error) = this.run_hooks(&mut release, HookEvent::PostDelete, timeout, |_| true).await
        {
            errors.push(error.to_string());
        }
        release.info.status = Status::Uninstalled;
        release.info.description =
            options.description.clone().unwrap_or_else(|| "Uninstallation complete".into());
        if options.keep_history {
            this.storage.update(&release).await?;
            this.supersede(&revisions, release.version).await?;
        } else {
            this.forget_all(&revisions).await?;
        }
        if errors.is_empty() { Ok(Uninstalled { release, kept }) } else { Err(Error::Uninstall(errors)) }
    }

    /// Deletes what the release left in the cluster, kind by kind.
    async fn delete_objects(
        &self,
        leavings: &[Release],
        options: &UninstallOptions,
    ) -> Result<(Vec<Object>, Vec<String>)> {
        let mut objects = Vec::new();
        // What the latest revision says of an object counts.
        for object in self.originals(leavings).await?.into_iter().rev() {
            if !objects.iter().any(|known: &Object| known.id == object.id) {
                objects.push(object);
            }
        }
        objects.reverse();
        sort_by_kind(&mut objects, UNINSTALL_ORDER, |object| &object.id.kind);
        let (kept, objects): (Vec<Object>, Vec<Object>) = objects.into_iter().partition(Object::is_kept);
        let kept = kept.iter().map(|object| format!("[{}] {}", object.id.kind, object.id.name)).collect();
        let policy = || match options.cascade {
            Cascade::Background => PropagationPolicy::Background,
            Cascade::Foreground => PropagationPolicy::Foreground,
            Cascade::Orphan => PropagationPolicy::Orphan,
        };
        let writer = &self.writer();
        let mut failure = None;
        for batch in objects.chunk_by(|a, b| a.id.kind == b.id.kind) {
            let deletes: Vec<_> = batch.iter().map(|object| writer.delete(object, policy())).collect();
            let results: Vec<_> = stream::iter(deletes).buffered(DELETES).collect().await;
            for (object, result) in batch.iter().zip(results) {
                match result {
                    Ok(_) => self.reporter.say(&Progress::Deleted { id: object.id.clone() }),
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
        }
        match failure {
            None => Ok((objects, kept)),
            Some(error) => Err(error),
        }
    }

    /// Forgets revisions, the last one last: until then the release is found by whoever takes this up.
    async fn forget_all(&self, revisions: &[Revision]) -> Result<()> {
        for revision in revisions {
            self.storage.delete(&revision.name, revision.version).await?;
        }
        Ok(())
    }
}
