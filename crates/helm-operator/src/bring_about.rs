//! Installing and upgrading the release of an object.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use steersman::Context;
use steersman_release::{
    Error as ReleaseError, HistoryMax, Kinds, Object, Options, Recover, Release, Releases, Revision,
    RollbackOptions, Status as ReleaseStatus, UninstallOptions, WriteMode, set_metadata,
};

use crate::controller::{Phase, Place};
use crate::reconcile::{Reconciler, Trouble, Wanted};
use crate::settings::Settings;
use crate::status::{DEPLOYED, Status};

/// The label on everything that comes from a chart, by which dependents are watched.
pub(crate) const CHART_LABEL: &str = "helm.sdk.operatorframework.io/chart";
/// How an object names its owner where an owner reference cannot.
pub(crate) const OWNER: &str = "operator-sdk/primary-resource";
pub(crate) const OWNER_KIND: &str = "operator-sdk/primary-resource-type";

impl Reconciler {
    /// The releases at an object's place, written on the object's behalf.
    pub(crate) fn releases(
        &self,
        object: &DynamicObject,
        context: &Context,
        place: &Place,
        settings: &Settings,
    ) -> Releases {
        let reference = context.owner_reference();
        let owners = if Self::is_elsewhere(object, place) { Vec::new() } else { vec![reference.clone()] };
        let mark = self.mark(object, reference);
        let mode = if settings.upgrade_force { WriteMode::Replace } else { WriteMode::ServerSide };
        let kinds = self.kinds.get_or_init(|| Kinds::new(context.client()));
        Releases::with_kinds(context.client(), &place.namespace, kinds.clone())
            // Whoever runs this is the leader: nobody else works on the release.
            .recover(Recover::Always)
            .write_mode(mode)
            .owned_by(owners)
            .decorated(mark)
    }

    /// Says of each released object whose it is.
    fn mark(
        &self,
        object: &DynamicObject,
        reference: OwnerReference,
    ) -> impl Fn(&mut Object) + Send + Sync + 'static {
        let chart = self.chart.name();
        let namespace = object.namespace();
        let owner = match &namespace {
            Some(namespace) => format!("{namespace}/{}", object.name_any()),
            None => format!("/{}", object.name_any()),
        };
        let resource = self.kind.resource();
        let owner_kind = format!("{}.{}", resource.kind, resource.group);
        let reference = json!(reference);
        move |released: &mut Object| {
            set_metadata(&mut released.content, "labels", &[(CHART_LABEL, &chart)]);
            let same_namespace = namespace.as_ref().is_none_or(|own| *own == released.id.namespace);
            if same_namespace && !released.is_kept() {
                if let Some(metadata) = released.content.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.insert("ownerReferences".into(), json!([reference]));
                }
            } else {
                set_metadata(
                    &mut released.content,
                    "annotations",
                    &[(OWNER, &owner), (OWNER_KIND, &owner_kind)],
                );
            }
        }
    }

    fn options(&self, settings: &Settings) -> Options {
        Options {
            crds: self.crds,
            keep_random: true,
            history_max: HistoryMax(self.history_max),
            render: self.render,
            disable_hooks: settings.install_disable_hooks,
            description: settings.install_description.clone(),
            ..Options::default()
        }
    }

    /// Makes the release what it should be. Says which revision that is, and whether it was made just now.
    pub(crate) async fn bring_about(
        &self,
        object: &Arc<DynamicObject>,
        context: &Context,
        wanted: &Wanted,
        status: &mut Status,
    ) -> Result<(Release, bool), Trouble> {
        self.leave_old_place(object, context, wanted, status).await?;
        let releases = self.releases(object, context, &wanted.place, &wanted.settings);
        let name = &wanted.place.name;
        let mut revisions = releases.revisions(name).await?;
        if revisions.last().is_some_and(|last| last.status == ReleaseStatus::Uninstalling) {
            releases.uninstall(name, &UninstallOptions::default()).await?;
            revisions.clear();
        }
        let deployed = revisions.iter().rfind(|revision| revision.status == ReleaseStatus::Deployed);
        let Some(deployed) = deployed else {
            return Ok((self.install(object, context, wanted, status, &releases).await?, true));
        };
        let current = releases.get(name, Some(deployed.version)).await?;
        if !current.is_of(&self.chart.name()) {
            return Err(Trouble::Other(format!(
                "duplicate release name: found existing release with name {name:?} for chart {:?}",
                current.chart.name()
            )));
        }
        let is_last = revisions.last() == Some(deployed);
        let options = self.options(&wanted.settings);
        let candidate = releases
            .candidate(&current, &wanted.chart, &wanted.values, &options)
            .await
            .map_err(|error| Trouble::Release { reason: "UpgradeError", message: error.to_string() })?;
        if is_last && !candidate.differs(&current)? {
            if !status.is_true(DEPLOYED) || status.deployed().is_none() {
                let reason = if current.version == 1 { "InstallSuccessful" } else { "UpgradeSuccessful" };
                let elsewhere = Self::is_elsewhere(object, &wanted.place);
                self.deployed(status, context, &current, reason, elsewhere);
            }
            return Ok((current, false));
        }
        Ok((self.upgrade(object, context, wanted, status, &releases, &revisions).await?, true))
    }

    /// A release whose place changed is taken down where it was.
    async fn leave_old_place(
        &self,
        object: &Arc<DynamicObject>,
        context: &Context,
        wanted: &Wanted,
        status: &mut Status,
    ) -> Result<(), Trouble> {
        let Some((name, namespace)) = status.deployed() else { return Ok(()) };
        let own = || object.namespace().unwrap_or_else(|| "default".into());
        let old = Place { name, namespace: namespace.unwrap_or_else(own) };
        if old == wanted.place {
            return Ok(());
        }
        self.take_down(object, context, &old, &wanted.settings).await?;
        status.unset_deployed();
        status.unset(DEPLOYED);
        status.forget_history();
        status.write(context).await?;
        Ok(())
    }

    async fn install(
        &self,
        object: &Arc<DynamicObject>,
        context: &Context,
        wanted: &Wanted,
        status: &mut Status,
        releases: &Releases,
    ) -> Result<Release, Trouble> {
        if let Some(before) = &self.before {
            before(Phase::Install, Arc::clone(object), context.clone()).await?;
        }
        self.tell_overrides(context);
        let name = &wanted.place.name;
        let options = Options { replace: true, ..self.options(&wanted.settings) };
        let release = match releases.install(name, &wanted.chart, &wanted.values, &options).await {
            Ok(release) => release,
            Err(ReleaseError::Failed { message, .. }) => {
                status.unset_deployed();
                let removed = releases.uninstall(name, &UninstallOptions::default()).await;
                let message = match removed {
                    Ok(_) => message,
                    Err(error) => format!("{message}; what was installed could not be removed: {error}"),
                };
                return Err(Trouble::Release { reason: "InstallError", message });
            }
            Err(error) => {
                return Err(Trouble::Release { reason: "InstallError", message: error.to_string() });
            }
        };
        tracing::info!(release = name, revision = release.version, "installed");
        context.event("InstallSuccessful", format!("installed release {name}, revision {}", release.version));
        self.deployed(
            status,
            context,
            &release,
            "InstallSuccessful",
            Self::is_elsewhere(object, &wanted.place),
        );
        self.tell_after(Phase::Install, object, context, &release).await?;
        Ok(release)
    }

    async fn upgrade(
        &self,
        object: &Arc<DynamicObject>,
        context: &Context,
        wanted: &Wanted,
        status: &mut Status,
        releases: &Releases,
        revisions: &[Revision],
    ) -> Result<Release, Trouble> {
        if let Some(before) = &self.before {
            before(Phase::Upgrade, Arc::clone(object), context.clone()).await?;
        }
        self.tell_overrides(context);
        let name = &wanted.place.name;
        let options = Options {
            disable_hooks: wanted.settings.upgrade_disable_hooks,
            description: wanted.settings.upgrade_description.clone(),
            values: steersman_release::ValuesPolicy::Reset,
            ..self.options(&wanted.settings)
        };
        let release = match releases.upgrade(name, &wanted.chart, &wanted.values, &options).await {
            Ok(release) => release,
            Err(ReleaseError::Failed { message, release, .. }) => {
                status.tell(&release);
                let message =
                    self.roll_back(&release, message, releases, revisions, status, &wanted.settings).await;
                return Err(Trouble::Release { reason: "UpgradeError", message });
            }
            Err(error) => {
                return Err(Trouble::Release { reason: "UpgradeError", message: error.to_string() });
            }
        };
        tracing::info!(release = name, revision = release.version, "upgraded");
        context
            .event("UpgradeSuccessful", format!("upgraded release {name} to revision {}", release.version));
        self.deployed(
            status,
            context,
            &release,
            "UpgradeSuccessful",
            Self::is_elsewhere(object, &wanted.place),
        );
        self.tell_after(Phase::Upgrade, object, context, &release).await?;
        Ok(release)
    }

    /// Goes back to the revision that was deployed, and says what came of it.
    async fn roll_back(
        &self,
        failed: &Release,
        message: String,
        releases: &Releases,
        revisions: &[Revision],
        status: &mut Status,
        settings: &Settings,
    ) -> String {
        let good = revisions.iter().rfind(|revision| revision.status == ReleaseStatus::Deployed);
        let Some(good) = good else { return message };
        let releases = if settings.rollback_force {
            releases.clone().write_mode(WriteMode::Replace)
        } else {
            releases.clone()
        };
        let options = RollbackOptions {
            revision: Some(good.version),
            history_max: HistoryMax(self.history_max),
            ..RollbackOptions::default()
        };
        match releases.rollback(&failed.name, &options).await {
            Ok(release) => {
                status.tell(&release);
                format!(
                    "{message}; revision {} was rolled back to revision {}, which is running",
                    failed.version, good.version
                )
            }
            Err(error) => format!("{message}; rolling back to revision {} failed: {error}", good.version),
        }
    }

    fn tell_overrides(&self, context: &Context) {
        for (key, value) in &self.overrides {
            let value = if self.suppress_overrides { "****" } else { value };
            let note = format!("Chart value {key:?} overridden to {value:?} by operator's watches.yaml");
            context.warn("OverrideValuesInUse", note);
        }
    }

    async fn tell_after(
        &self,
        phase: Phase,
        object: &Arc<DynamicObject>,
        context: &Context,
        release: &Release,
    ) -> Result<(), Trouble> {
        if let Some(after) = &self.after {
            after(phase, Arc::clone(object), Arc::new(release.clone()), context.clone()).await?;
        }
        Ok(())
    }
}
