//! Uninstall of a release.

use std::collections::HashSet;

use futures::future::BoxFuture;
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use kube::api::PropagationPolicy;
use serde_json::json;
use steersman_chart::{HookEvent, UNINSTALL_ORDER, sort_by_kind};

use crate::error::{Error, Result};
use crate::object::Object;
use crate::progress::Progress;
use crate::record::{Release, Status};
use crate::releases::{Releases, Timeout, check_name};
use crate::storage::Revision;
use crate::wait;
use crate::write::Writer;

/// Maximum number of concurrent deletions of one kind.
const DELETES: usize = 8;

/// Options of an uninstall.
#[derive(Clone, Debug, Default)]
pub struct UninstallOptions {
    /// Keep the history. False by default.
    pub keep_history: bool,
    /// Wait until the objects are gone. False by default.
    pub wait: bool,
    /// Timeout of each hook, and of waiting. Five minutes by default.
    pub timeout: Timeout,
    /// Run no hooks. False by default.
    pub disable_hooks: bool,
    /// Write nothing. False by default.
    pub dry_run: bool,
    /// Description of the kept record. Helm's wording by default.
    pub description: Option<String>,
    /// Propagation policy of the deletions. Background by default.
    pub cascade: Cascade,
    /// The release as it would be rendered now, in place of a record that does not verify or is missing. Its hooks
    /// run, and its objects are deleted. Without it no hooks run for such a record. None by default.
    pub rendered: Option<Box<Release>>,
}

/// Propagation policy of a deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cascade {
    /// Dependents are deleted after the object.
    #[default]
    Background,
    /// Dependents are deleted before the object.
    Foreground,
    /// Dependents are kept.
    Orphan,
}

/// Result of an uninstall.
#[derive(Clone, Debug)]
pub struct Uninstalled {
    /// The last revision, before the uninstall.
    pub release: Release,
    /// Objects kept by their resource policy, as `[Kind] name`.
    pub kept: Vec<String>,
}

impl Releases {
    /// Uninstalls a release. An interrupted uninstall is completed.
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
    /// use steersman_release::{Options, Releases, UninstallOptions};
    ///
    /// let releases = Releases::new(client, "default");
    /// releases.install("hello", &chart, &values, &Options::default()).await?;
    /// let removed = releases.uninstall("hello", &UninstallOptions::default()).await?;
    /// assert!(removed.kept.is_empty() && releases.revisions("hello").await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if there is no such release, if a hook fails, or if the API server refuses a deletion.
    pub fn uninstall<'a>(
        &'a self,
        name: &'a str,
        options: &'a UninstallOptions,
    ) -> BoxFuture<'a, Result<Uninstalled>> {
        Box::pin(async move {
            check_name(name)?;
            if options.dry_run {
                return Ok(Uninstalled { release: self.get(name, None).await?, kept: Vec::new() });
            }
            let mut revisions = self.storage.revisions(name).await?;
            let mut this = self.recovered(&mut revisions).await?;
            if revisions.is_empty() {
                let rendered =
                    options.rendered.as_ref().ok_or_else(|| Error::NotFound { name: name.to_owned() })?;
                revisions = this.record_again(name, rendered).await?;
            }
            let last = revisions.last().ok_or_else(|| Error::NotFound { name: name.to_owned() })?;
            let mut release = this.storage.get(name, last.version).await?;
            match release.info.status {
                Status::Uninstalled if release.unverified => {
                    // Objects of the release may exist nevertheless.
                    let prior_releases = this.prior_releases_and_rendered(&revisions, options).await?;
                    let (_, kept) = this.delete_objects(name, &prior_releases, options).await?;
                    this.delete_records(&revisions).await?;
                    return Ok(Uninstalled { release, kept });
                }
                Status::Uninstalled if options.keep_history => {
                    return Err(Error::AlreadyDeleted(name.to_owned()));
                }
                Status::Uninstalled => {
                    this.delete_records(&revisions).await?;
                    return Ok(Uninstalled { release, kept: Vec::new() });
                }
                Status::Uninstalling => this.recovering = true,
                _ => {}
            }
            let prior_releases = this.prior_releases_and_rendered(&revisions, options).await?;
            if release.unverified {
                release.hooks =
                    options.rendered.as_ref().map_or_else(Vec::new, |rendered| rendered.hooks.clone());
            }
            release.info.status = Status::Uninstalling;
            release.info.deleted = Some(Timestamp::now());
            release.info.description = "Deletion in progress (or silently failed)".into();
            this.storage.update(&release).await?;
            let timeout = options.timeout.0;
            if !options.disable_hooks {
                this.run_hooks(&mut release, HookEvent::PreDelete, timeout, |_| true).await?;
                this.storage.update(&release).await?;
            }

            let (deleted, kept) = this.delete_objects(name, &prior_releases, options).await?;
            let mut errors = Vec::new();
            if options.wait
                && let Err(error) = wait::until_gone(&this.writer(), &deleted, timeout).await
            {
                errors.push(error.to_string());
            }
            if !options.disable_hooks
                && let Err(error) =
                    this.run_hooks(&mut release, HookEvent::PostDelete, timeout, |_| true).await
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
                this.delete_records(&revisions).await?;
            }
            if errors.is_empty() { Ok(Uninstalled { release, kept }) } else { Err(Error::Uninstall(errors)) }
        })
    }

    /// Stores a record for a release without records, so that an interrupted uninstall can be resumed. Nothing is
    /// stored for a release without objects in the cluster: it was never installed.
    async fn record_again(&self, name: &str, rendered: &Release) -> Result<Vec<Revision>> {
        let mut release = Release { version: 1, ..rendered.clone() };
        let plan = self.plan(&release, &[]).await?;
        if release.name != name || !plan.has_owned(&release) {
            return Ok(Vec::new());
        }
        release.info.status = Status::Uninstalling;
        self.storage.create(&release).await?;
        self.storage.revisions(name).await
    }

    /// Returns the releases whose objects are deleted: the earlier revisions, and the newly rendered one.
    async fn prior_releases_and_rendered(
        &self,
        revisions: &[Revision],
        options: &UninstallOptions,
    ) -> Result<Vec<Release>> {
        let mut prior_releases = self.prior_releases(revisions).await?;
        if let Some(rendered) = options.rendered.as_ref() {
            prior_releases.push(Release::clone(rendered));
        }
        Ok(prior_releases)
    }

    /// Deletes the objects of releases, kind by kind. Returns those deleted, and the names of those kept.
    async fn delete_objects(
        &self,
        name: &str,
        prior_releases: &[Release],
        options: &UninstallOptions,
    ) -> Result<(Vec<Object>, Vec<String>)> {
        let mut listed = Vec::new();
        for release in prior_releases {
            listed.extend(self.undeleted(release).await?);
            listed.extend(self.listed(release).await?);
        }
        let (mut objects, mut seen) = (Vec::new(), HashSet::new());
        // The latest revision of an object counts.
        for object in listed.into_iter().rev() {
            if seen.insert(object.id.clone()) {
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
        let (mut deleted, mut failure) = (Vec::new(), None);
        for batch in objects.chunk_by(|a, b| a.id.kind == b.id.kind) {
            let deletes: Vec<_> =
                batch.iter().map(|object| self.delete_owned(writer, name, object, policy())).collect();
            let results: Vec<_> = stream::iter(deletes).buffered(DELETES).collect().await;
            for (object, result) in batch.iter().zip(results) {
                match result {
                    Ok(false) => {}
                    Ok(true) => {
                        self.reporter.report(&Progress::Deleted { id: object.id.clone() });
                        deleted.push(object.clone());
                    }
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
        }
        match failure {
            None => Ok((deleted, kept)),
            Some(error) => Err(error),
        }
    }

    /// Deletes an object that the release owns. Returns `false` if it does not own it, or it does not exist.
    async fn delete_owned(
        &self,
        writer: &Writer,
        release: &str,
        object: &Object,
        policy: PropagationPolicy,
    ) -> Result<bool> {
        let Some(live) = writer.live(object).await? else { return Ok(false) };
        if !self.may_delete(&json!(live), release) {
            tracing::warn!(object = %object.id, release, "not deleted: it does not carry the release's ownership");
            return Ok(false);
        }
        writer.delete_seen(object, &live, policy).await
    }

    /// Deletes records, the last one last. So an interrupted uninstall is found and completed by the next one.
    async fn delete_records(&self, revisions: &[Revision]) -> Result<()> {
        for revision in revisions {
            self.storage.delete(&revision.name, revision.version).await?;
        }
        Ok(())
    }
}
