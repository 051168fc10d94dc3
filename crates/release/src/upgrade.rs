//! Upgrade of a release.

use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;
use steersman_chart::{Chart, HookEvent, Values};

use crate::deploy::{DeployOutcome, FailedDeploy, Operation, Prepared};
use crate::error::{Error, Result};
use crate::hooks;
use crate::install::{post_rendered, table};
use crate::random;
use crate::record::{ChartRecord, Info, Release, Status, coalesce};
use crate::releases::{CrdPolicy, Options, Releases, ValuesPolicy, check_name, next_version};
use crate::rollback::RollbackOptions;
use crate::storage::{self, Revision};

const OPERATION: Operation = Operation {
    before: HookEvent::PreUpgrade,
    after: HookEvent::PostUpgrade,
    hook_failed: |event, error| format!("{} hooks failed: {error}", event.as_str()),
    name: "upgrade",
    title: "Upgrade",
    cleans_up: true,
};

/// A revision that is not yet recorded.
pub(crate) struct NextRevision {
    pub(crate) release: Release,
    /// Warnings, to be logged only if it is deployed. One that is only compared may be rendered again and again.
    warnings: Vec<String>,
}

impl Releases {
    /// Upgrades a release to a chart and values. An interrupted operation on it is recovered.
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
    /// use steersman_release::{Options, Releases};
    ///
    /// let releases = Releases::new(client, "default");
    /// releases.install("hello", &chart, &values, &Options::default()).await?;
    /// values.set("text=two")?;
    /// let release = releases.upgrade("hello", &chart, &values, &Options { wait: true, ..Options::default() }).await?;
    /// assert_eq!(release.version, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if there is no such release, the chart does not render, or the API server refuses an object. Once a revision
    /// is recorded, a failure is [`Error::Failed`] and the record is marked as failed.
    pub fn upgrade<'a>(
        &'a self,
        name: &'a str,
        chart: &'a Chart,
        values: &'a Values,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Release>> {
        Box::pin(async move {
            let mut revisions = self.upgradable(name).await?;
            let this =
                if options.dry_run.is_none() { self.recovered(&mut revisions).await? } else { self.clone() };
            if options.dry_run.is_none() {
                let crds = options.crds.unwrap_or(CrdPolicy::Skip);
                if crds != CrdPolicy::Skip {
                    this.definitions(&chart.crds(values)?, crds).await?;
                }
            }
            let prepared = this.prepare_upgrade(name, chart, values, options, revisions).await?;
            this.make_upgrade(prepared, options).await
        })
    }

    pub(crate) async fn upgradable(&self, name: &str) -> Result<Vec<Revision>> {
        check_name(name)?;
        let revisions = self.storage.revisions(name).await?;
        if revisions.is_empty() {
            return Err(Error::NotDeployed { name: name.to_owned() });
        }
        Ok(revisions)
    }

    /// Renders the new revision, and plans it from the live objects.
    pub(crate) async fn prepare_upgrade(
        &self,
        name: &str,
        chart: &Chart,
        values: &Values,
        options: &Options,
        revisions: Vec<Revision>,
    ) -> Result<Prepared> {
        if storage::has_system_labels(&options.labels) {
            return Err(Error::SystemLabels);
        }
        let missing = || Error::NotDeployed { name: name.to_owned() };
        let last = revisions.last().ok_or_else(missing)?;
        let deployed = revisions.iter().rfind(|revision| revision.status == Status::Deployed);
        let current = match (deployed, last.status) {
            (Some(deployed), _) => deployed,
            (None, Status::Failed | Status::Superseded) => last,
            // Only a dry run gets here with a pending revision.
            (None, status) if status.is_pending() => last,
            (None, _) => return Err(missing()),
        };
        let current = self.storage.get(name, current.version).await?;
        let (chart, values) = self.chosen_values(chart, values, &current, options.values)?;
        let version = next_version(&revisions)?;
        let NextRevision { mut release, warnings } =
            self.next_revision(&current, version, &chart, &values, options).await?;
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        release.info.last_deployed = Some(Timestamp::now());
        release.labels = merged_labels(&self.storage.get(name, last.version).await?, options);
        let plan = self.plan(&release, &revisions).await?;
        Ok(Prepared { release, plan, revisions })
    }

    /// Returns the revision after `current`, rendered and not yet recorded.
    pub(crate) async fn next_revision(
        &self,
        current: &Release,
        version: i64,
        chart: &Chart,
        values: &Values,
        options: &Options,
    ) -> Result<NextRevision> {
        let described = steersman_chart::Release {
            name: current.name.clone(),
            namespace: self.namespace.clone(),
            revision: version,
            is_upgrade: true,
        };
        let capabilities = self.kinds.capabilities().await?;
        let output = self.render(chart, values, described.clone(), capabilities.clone(), options).await?;
        let mut rendered = output.rendered;
        if options.keep_random && output.random {
            let again = self.render(chart, values, described, capabilities, options).await?;
            if current.unverified {
                self.keep_live_random(&mut rendered, &again.rendered, &current.name).await?;
            } else {
                random::keep(&mut rendered, &again.rendered, current)?;
            }
        }
        let manifest = post_rendered(&rendered, options)?;
        let release = Release {
            name: current.name.clone(),
            namespace: self.namespace.clone(),
            info: Info {
                first_deployed: current.info.first_deployed,
                status: Status::PendingUpgrade,
                description: "Preparing upgrade".into(),
                notes: rendered.notes.clone(),
                ..Info::default()
            },
            chart: ChartRecord::new(chart, values)?,
            config: table(values),
            manifest,
            hooks: rendered.hooks.iter().map(hooks::record).collect(),
            version,
            ..Release::default()
        };
        Ok(NextRevision { release, warnings: rendered.warnings })
    }

    async fn make_upgrade(&self, mut prepared: Prepared, options: &Options) -> Result<Release> {
        if !options.take_ownership {
            self.check_ownership("update", &prepared.release, &prepared.plan)?;
        }
        if options.dry_run.is_some() {
            prepared.release.info.description =
                options.description.clone().unwrap_or_else(|| "Dry run complete".into());
            return Ok(prepared.release);
        }
        self.remove_least_recent(&prepared.revisions, options.history_max.0).await?;
        let description = options.description.clone().unwrap_or_else(|| "Upgrade complete".into());
        match self.deploy(prepared, &OPERATION, options, description).await? {
            DeployOutcome::Deployed(release) => Ok(*release),
            DeployOutcome::Failed(failed) if options.atomic => {
                let message = self.undo_upgrade(&failed, options).await;
                Err(failed.into_error(Some(message)))
            }
            DeployOutcome::Failed(failed) => Err(failed.into_error(None)),
        }
    }

    /// Rolls back to the last successful revision, and returns the message to report.
    async fn undo_upgrade(&self, failed: &FailedDeploy, options: &Options) -> String {
        let FailedDeploy { release, error, revisions, .. } = failed;
        let good = |revision: &&Revision| matches!(revision.status, Status::Deployed | Status::Superseded);
        let Some(good) = revisions.iter().rfind(good) else {
            return format!(
                "unable to find a previously successful release when attempting to rollback. original upgrade error: \
                 {error}"
            );
        };
        let rollback = RollbackOptions {
            revision: Some(good.version),
            wait: true,
            wait_for_jobs: options.wait_for_jobs,
            disable_hooks: options.disable_hooks,
            timeout: options.timeout,
            history_max: options.history_max,
            ..RollbackOptions::default()
        };
        match Box::pin(self.rollback(&release.name, &rollback)).await {
            Ok(_) => {
                format!(
                    "release {} failed, and has been rolled back due to atomic being set: {error}",
                    release.name
                )
            }
            Err(second) => format!(
                "an error occurred while rolling back the release. original upgrade error: {error}: {second}"
            ),
        }
    }

    /// Returns the chart and values to render, by the policy.
    fn chosen_values(
        &self,
        chart: &Chart,
        values: &Values,
        current: &Release,
        policy: ValuesPolicy,
    ) -> Result<(Chart, Values)> {
        let over_last = || {
            let mut merged = table(values);
            coalesce(&mut merged, &current.config);
            Values::from_json(Value::Object(merged))
        };
        Ok(match policy {
            ValuesPolicy::Reset => (chart.clone(), values.clone()),
            ValuesPolicy::Reuse => {
                let defaults = Values::from_json(Value::Object(current.computed_values()));
                (chart.with_values(defaults), over_last())
            }
            ValuesPolicy::ResetThenReuse => (chart.clone(), over_last()),
            ValuesPolicy::Given if values.0.is_empty() && !current.config.is_empty() => {
                (chart.clone(), Values::from_json(Value::Object(current.config.clone())))
            }
            ValuesPolicy::Given => (chart.clone(), values.clone()),
        })
    }
}

fn merged_labels(last: &Release, options: &Options) -> std::collections::BTreeMap<String, String> {
    let mut labels = last.labels.clone();
    labels.extend(options.labels.clone());
    labels.retain(|_, value| value != "null");
    labels
}
