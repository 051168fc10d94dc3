//! Installing a release.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use steersman_chart::{Chart, HookEvent, Values};

use crate::deploy::{Broken, Operation, Prepared};
use crate::error::{Error, Result};
use crate::hooks;
use crate::object;
use crate::record::{ChartRecord, Info, Release, Status};
use crate::releases::{CrdPolicy, Options, Releases, check_name};
use crate::storage::{self, Revision};
use crate::uninstall::UninstallOptions;

const OPERATION: Operation = Operation {
    before: HookEvent::PreInstall,
    after: HookEvent::PostInstall,
    hook_failed: |event, error| format!("failed {}: {error}", event.as_str()),
    name: "install",
    title: "Release",
    // Objects that an install made are left for the next one, or for `atomic` to uninstall.
    cleans_up: false,
};

impl Releases {
    /// Installs a chart under a name. An install of that name that broke off is taken up.
    ///
    /// # Errors
    /// Fails if the name is taken, the chart does not render, or the cluster refuses an object. Once a revision is
    /// recorded, a failure is [`Error::Failed`] and the record says so.
    pub async fn install(
        &self,
        name: &str,
        chart: &Chart,
        values: &Values,
        options: &Options,
    ) -> Result<Release> {
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
    }

    /// Installs over what is left of revisions that failed or were uninstalled.
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
        let version = revisions.last().map_or(1, |last| last.version + 1);
        let described = steersman_chart::Release {
            name: name.to_owned(),
            namespace: self.namespace.clone(),
            revision: 1,
            is_upgrade: false,
        };
        let rendered = self.render(chart, values, described, capabilities, options).await?.rendered;
        rendered.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        let mut manifest = rendered.manifest(false);
        if let Some(post_render) = &options.post_render {
            manifest = post_render(&manifest).map_err(Error::PostRender)?;
        }
        let now = Timestamp::now();
        let mut release = Release {
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
            manifest,
            hooks: rendered.hooks.iter().map(hooks::record).collect(),
            version,
            labels: options.labels.clone(),
        };

        let plan = self.plan(&release, &revisions).await?;
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
            let mut last = self.storage.get(name, last.version).await?;
            last.info.status = Status::Superseded;
            last.info.description = "superseded by new release".into();
            self.storage.update(&last).await?;
        }
        let description = options.description.clone().unwrap_or_else(|| "Install complete".into());
        match self.deploy(Prepared { release, plan, revisions }, &OPERATION, options, description).await? {
            Ok(release) => Ok(release),
            Err(broken) if options.atomic => {
                let message = self.undo_install(&broken, options).await;
                Err(broken.into_error(Some(message)))
            }
            Err(broken) => Err(broken.into_error(None)),
        }
    }

    /// Uninstalls what failed, and says what came of it.
    async fn undo_install(&self, broken: &Broken, options: &Options) -> String {
        let Broken { release, error, .. } = broken;
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

/// Whether the name can be taken.
fn check_available(revisions: &[Revision], replace: bool) -> Result<()> {
    match revisions.last().map(|last| last.status) {
        None => Ok(()),
        Some(Status::Uninstalled | Status::Failed) if replace => Ok(()),
        Some(_) => Err(Error::NameInUse),
    }
}

/// Values as they are recorded.
pub(crate) fn table(values: &Values) -> Map<String, Value> {
    match values.to_json() {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
