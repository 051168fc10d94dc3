//! Installation of a release.

use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use steersman_chart::{Chart, HookEvent, Rendered, Values};

use crate::deploy::{DeployOutcome, FailedDeploy, Operation, Prepared};
use crate::error::{Error, Result};
use crate::hooks;
use crate::object;
use crate::record::{ChartRecord, Info, Release, Status};
use crate::releases::{CrdPolicy, Options, Releases, check_name, next_version};
use crate::storage::{self, Revision};
use crate::uninstall::UninstallOptions;

const OPERATION: Operation = Operation {
    before: HookEvent::PreInstall,
    after: HookEvent::PostInstall,
    hook_failed: |event, error| format!("failed {}: {error}", event.as_str()),
    name: "install",
    title: "Release",
    // The objects of a failed install are left for the next one, or for `atomic` to uninstall.
    cleans_up: false,
};

impl Releases {
    /// Installs a chart as a release. An interrupted install of that name is recovered.
    ///
    /// # Errors
    /// Fails if the name is in use, the chart does not render, or the API server refuses an object. Once a revision
    /// is recorded, a failure is [`Error::Failed`] and the record is marked as failed.
    pub fn install<'a>(
        &'a self,
        name: &'a str,
        chart: &'a Chart,
        values: &'a Values,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Release>> {
        Box::pin(async move {
            check_name(name)?;
            if storage::has_system_labels(&options.labels) {
                return Err(Error::SystemLabels);
            }
            let mut revisions = Vec::new();
            let mut this = self.clone();
            if options.dry_run.is_none() {
                revisions = self.storage.revisions(name).await?;
                this = self.recovered(&mut revisions).await?;
                check_available(&revisions, options.replace || this.recovering)?;
            }
            this.install_over(name, chart, values, options, revisions).await
        })
    }

    /// Installs over revisions that failed or were uninstalled.
    async fn install_over(
        &self,
        name: &str,
        chart: &Chart,
        values: &Values,
        options: &Options,
        revisions: Vec<Revision>,
    ) -> Result<Release> {
        let crds = options.crds.unwrap_or(CrdPolicy::Create);
        if options.dry_run.is_none() && crds != CrdPolicy::Skip {
            let all = chart.crds(values)?;
            self.definitions(&all, crds).await?;
        }
        let capabilities = self.kinds.capabilities().await?;
        let version = next_version(&revisions)?;
        let described = steersman_chart::Release {
            name: name.to_owned(),
            namespace: self.namespace.clone(),
            revision: 1,
            is_upgrade: false,
        };
        let output = self.render(chart, values, described.clone(), capabilities.clone(), options).await?;
        let mut rendered = output.rendered;
        rendered.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        let mut release = self.installation(name, version, chart, values, &rendered, options)?;
        let mut plan = self.plan(&release, &revisions).await?;
        let mut adopted = None;
        if options.adopt_existing && revisions.is_empty() && plan.has_owned(&release) {
            if output.random {
                let again = self.render(chart, values, described, capabilities, options).await?.rendered;
                self.keep_live_random(&mut rendered, &again, name).await?;
                release = self.installation(name, version, chart, values, &rendered, options)?;
                plan = self.plan(&release, &revisions).await?;
            }
            adopted = Some(Options { disable_hooks: true, ..options.clone() });
        }
        let options = adopted.as_ref().unwrap_or(options);
        if !options.take_ownership {
            self.check_ownership("install", &release, &plan)?;
        }
        if options.dry_run.is_some() {
            release.info.description = "Dry run complete".into();
            return Ok(release);
        }
        if options.create_namespace {
            self.create_namespace().await?;
        }
        if let Some(last) = revisions.last().filter(|last| last.status != Status::Failed) {
            let description = "superseded by new release";
            self.storage.set_status(name, last.version, Status::Superseded, description).await?;
        }
        let done = if adopted.is_some() { "Adopted: the records were missing" } else { "Install complete" };
        let description = options.description.clone().unwrap_or_else(|| done.into());
        match self.deploy(Prepared { release, plan, revisions }, &OPERATION, options, description).await? {
            DeployOutcome::Deployed(release) => Ok(*release),
            DeployOutcome::Failed(failed) if options.atomic => {
                let message = self.undo_install(&failed, options).await;
                Err(failed.into_error(Some(message)))
            }
            DeployOutcome::Failed(failed) => Err(failed.into_error(None)),
        }
    }

    /// Returns the first revision of a release, rendered and not yet recorded.
    fn installation(
        &self,
        name: &str,
        version: i64,
        chart: &Chart,
        values: &Values,
        rendered: &Rendered,
        options: &Options,
    ) -> Result<Release> {
        let now = Timestamp::now();
        Ok(Release {
            name: name.to_owned(),
            namespace: self.namespace.clone(),
            info: Info {
                first_deployed: Some(now),
                last_deployed: Some(now),
                status: Status::PendingInstall,
                description: "Initial install underway".into(),
                notes: rendered.notes.clone(),
                ..Info::default()
            },
            chart: ChartRecord::new(chart, values)?,
            config: table(values),
            manifest: post_rendered(rendered, options)?,
            hooks: rendered.hooks.iter().map(hooks::record).collect(),
            version,
            labels: options.labels.clone(),
            ..Release::default()
        })
    }

    /// Uninstalls a failed install, and returns the message to report.
    async fn undo_install(&self, failed: &FailedDeploy, options: &Options) -> String {
        let FailedDeploy { release, error, .. } = failed;
        let uninstall = UninstallOptions {
            disable_hooks: options.disable_hooks,
            timeout: options.timeout,
            ..UninstallOptions::default()
        };
        match Box::pin(self.uninstall(&release.name, &uninstall)).await {
            Ok(_) => format!(
                "release {} failed, and has been uninstalled due to atomic being set: {error}",
                release.name
            ),
            Err(second) => format!(
                "an error occurred while uninstalling the release. original install error: {error}: {second}"
            ),
        }
    }

    async fn create_namespace(&self) -> Result<()> {
        let namespace = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": { "name": self.namespace, "labels": { "name": self.namespace } },
        });
        let namespace = object::resolve(namespace, "", &self.kinds).await?;
        match self.writer().create(&namespace).await {
            Err(error) if error.status_code() != Some(409) => Err(error),
            _ => Ok(()),
        }
    }
}

/// Returns the manifest after post-rendering.
pub(crate) fn post_rendered(rendered: &Rendered, options: &Options) -> Result<String> {
    let manifest = rendered.manifest(false);
    match &options.post_render {
        Some(post_render) => post_render(&manifest).map_err(Error::PostRender),
        None => Ok(manifest),
    }
}

/// Checks that the name is available.
fn check_available(revisions: &[Revision], replace: bool) -> Result<()> {
    match revisions.last().map(|last| last.status) {
        None => Ok(()),
        Some(Status::Uninstalled | Status::Failed) if replace => Ok(()),
        Some(_) => Err(Error::NameInUse),
    }
}

/// Returns values in their recorded form.
pub(crate) fn table(values: &Values) -> Map<String, Value> {
    match values.to_json() {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
