//! Install and upgrade of an object's release.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use steersman::Context;
use steersman_release::{
    Error as ReleaseError, HistoryMax, Kinds, Object, Options, Recover, Redactor, Release, Releases,
    Revision, RollbackOptions, Status as ReleaseStatus, UninstallOptions, WriteMode, set_metadata,
};

use crate::controller::{NamespacedName, Phase};
use crate::reconcile::{DesiredRelease, ReconcileError, Reconciler};
use crate::release_name::OWNER_UID;
use crate::retry::DeployFailure;
use crate::settings::Settings;
use crate::status::{
    DEPLOYED, INSTALL_ERROR, INSTALL_SUCCESSFUL, OVERRIDE_VALUES_IN_USE, Status, UPGRADE_ERROR,
    UPGRADE_SUCCESSFUL,
};

/// Label on every object of a chart, by which dependents are watched.
pub(crate) const CHART_LABEL: &str = "helm.sdk.operatorframework.io/chart";
/// Annotations that name the owner where an owner reference cannot.
pub(crate) const OWNER: &str = "operator-sdk/primary-resource";
pub(crate) const OWNER_KIND: &str = "operator-sdk/primary-resource-type";

impl Reconciler {
    /// Returns the client for releases at an object's location, which acts on the object's behalf.
    pub(crate) async fn releases(
        &self,
        object: &DynamicObject,
        context: &Context,
        location: &NamespacedName,
        settings: &Settings,
    ) -> Result<Releases, ReconcileError> {
        let key = self
            .keys
            .key(&context.client())
            .await
            .map_err(|error| ReconcileError::Other(error.to_string()))?;
        let reference = context.owner_reference();
        let owners =
            if Self::is_other_namespace(object, location) { Vec::new() } else { vec![reference.clone()] };
        let mark = self.mark(object, reference);
        let mode = if settings.upgrade_force { WriteMode::Replace } else { WriteMode::ServerSide };
        let kinds = self.kinds.get_or_init(|| Kinds::new(context.client()));
        let releases = Releases::with_kinds(context.client(), &location.namespace, kinds.clone())
            // Only the leader runs this: no other process works on the release.
            .recover(Recover::Always)
            .verified_by(key, self.subject(object))
            .foreign_if(self.is_foreign(object))
            .write_mode(mode)
            .owned_by(owners)
            .decorated(mark);
        Ok(match &self.confinement {
            Some(confinement) => releases.confined(confinement.clone()),
            None => releases,
        })
    }

    /// Returns the subject of record signatures. It includes the object's uid, so that a successor of the same name
    /// differs.
    fn subject(&self, object: &DynamicObject) -> String {
        let resource = self.kind.resource();
        let namespace = object.namespace().unwrap_or_default();
        let uid = object.uid().unwrap_or_default();
        format!("{}/{}/{namespace}/{}/{uid}", resource.group, resource.kind, object.name_any())
    }

    /// Returns the annotations that name the object as owner: namespace and name, and kind.
    fn owner_annotations(&self, object: &DynamicObject) -> (String, String) {
        let resource = self.kind.resource();
        let owner = format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any());
        (owner, format!("{}.{}", resource.kind, resource.group))
    }

    /// Returns a predicate for live objects that have the release's metadata but belong to another owner.
    fn is_foreign(&self, object: &DynamicObject) -> impl Fn(&Value) -> bool + Send + Sync + 'static {
        let (kind, name) = (self.kind.clone(), object.name_any());
        let (owner, owner_kind) = self.owner_annotations(object);
        move |live: &Value| {
            let references = live.pointer("/metadata/ownerReferences").and_then(Value::as_array);
            let controller =
                references.into_iter().flatten().find(|one| one.get("controller") == Some(&json!(true)));
            if let Some(controller) = controller {
                let text = |key: &str| controller.get(key).and_then(Value::as_str).unwrap_or_default();
                return !kind.matches(text("apiVersion"), text("kind")) || text("name") != name;
            }
            let annotations = live.pointer("/metadata/annotations");
            let annotation = |key: &str| annotations.and_then(|all| all.get(key)).and_then(Value::as_str);
            annotation(OWNER)
                .is_some_and(|other| other != owner || annotation(OWNER_KIND) != Some(owner_kind.as_str()))
        }
    }

    /// Adds owner references to released objects, or annotations where those are not allowed.
    fn mark(
        &self,
        object: &DynamicObject,
        reference: OwnerReference,
    ) -> impl Fn(&mut Object) + Send + Sync + 'static {
        let chart = self.chart.name();
        let namespace = object.namespace();
        let (owner, owner_kind) = self.owner_annotations(object);
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

    pub(crate) fn options(&self, object: &DynamicObject, settings: &Settings) -> Options {
        let mut labels = BTreeMap::new();
        if let (true, Some(uid)) = (self.name_release.is_some(), object.uid()) {
            labels.insert(OWNER_UID.to_owned(), uid);
        }
        Options {
            labels,
            crds: self.crds,
            keep_random: true,
            history_max: HistoryMax(self.history_max),
            render: self.render,
            disable_hooks: settings.install_disable_hooks,
            description: settings.install_description.clone(),
            ..Options::default()
        }
    }

    /// Installs, upgrades or adopts the release. Returns the deployed revision, and whether it is new.
    pub(crate) async fn deploy(
        &self,
        object: &Arc<DynamicObject>,
        context: &Context,
        desired: &DesiredRelease,
        status: &mut Status,
    ) -> Result<(Release, bool), ReconcileError> {
        let releases = self.releases(object, context, &desired.location, &desired.settings).await?;
        let name = &desired.location.name;
        let mut revisions = releases.revisions(name).await?;
        if revisions.last().is_some_and(|last| last.status == ReleaseStatus::Uninstalling) {
            let rendered = self.rendered(object, &releases, desired).await;
            releases.uninstall(name, &UninstallOptions { rendered, ..UninstallOptions::default() }).await?;
            revisions.clear();
        }
        let deployed = revisions.iter().rfind(|revision| revision.status == ReleaseStatus::Deployed);
        let Some(deployed) = deployed else {
            return Ok((self.install(object, context, desired, status, &releases).await?, true));
        };
        let current = releases.get(name, Some(deployed.version)).await?;
        if !self.is_ours(object, context, &desired.settings, &desired.location, &current).await? {
            return Err(ReconcileError::Other(format!(
                "duplicate release name: found existing release with name {name:?} for chart {:?}",
                current.chart.name()
            )));
        }
        let is_last = revisions.last() == Some(deployed);
        let options = self.options(object, &desired.settings);
        let candidate = releases
            .candidate(&current, &desired.chart, &desired.values, &options)
            .await
            .map_err(|error| failed(UPGRADE_ERROR, error.to_string()))?;
        let is_same = if current.unverified {
            // A list that does not parse is not the desired one.
            !candidate.objects_differ(&current).unwrap_or(true)
        } else {
            !candidate.differs(&current)?
        };
        if is_last && is_same {
            let current = if current.unverified {
                let adopted = releases.adopt(&current, candidate, &options).await;
                adopted.map_err(|error| failed(UPGRADE_ERROR, error.to_string()))?
            } else {
                current
            };
            let reason = if is_install(&current) { INSTALL_SUCCESSFUL } else { UPGRADE_SUCCESSFUL };
            let other_namespace = Self::is_other_namespace(object, &desired.location);
            self.record_deployed(status, context, &current, reason, other_namespace);
            return Ok((current, false));
        }
        Ok((self.upgrade(object, context, desired, status, &releases, &revisions).await?, true))
    }

    /// Renders the release as of now, in place of what an unverified or missing record lacks. `None` if that fails.
    pub(crate) async fn rendered(
        &self,
        object: &DynamicObject,
        releases: &Releases,
        desired: &DesiredRelease,
    ) -> Option<Box<Release>> {
        let nothing = Release {
            name: desired.location.name.clone(),
            namespace: desired.location.namespace.clone(),
            unverified: true,
            ..Release::default()
        };
        let options = self.options(object, &desired.settings);
        match releases.candidate(&nothing, &desired.chart, &desired.values, &options).await {
            Ok(release) => Some(Box::new(release)),
            Err(error) => {
                tracing::warn!(%error, release = nothing.name, "cannot render the release: skipping hooks");
                None
            }
        }
    }

    /// Uninstalls releases of the object under former names. Returns whether they are gone.
    pub(crate) async fn uninstall_moved(
        &self,
        object: &Arc<DynamicObject>,
        context: &Context,
        desired: &DesiredRelease,
        status: &mut Status,
    ) -> Result<bool, ReconcileError> {
        let releases =
            self.other_releases(object, context, &desired.settings, Some(&desired.location)).await?;
        if releases.is_empty() {
            return Ok(true);
        }
        let mut gone = true;
        for location in &releases {
            gone &= self.uninstall(object, context, location, &desired.settings, None).await?;
        }
        status.unset_deployed();
        status.unset(DEPLOYED);
        status.forget_history();
        status.write(context).await?;
        Ok(gone)
    }

    async fn install(
        &self,
        object: &Arc<DynamicObject>,
        context: &Context,
        desired: &DesiredRelease,
        status: &mut Status,
        releases: &Releases,
    ) -> Result<Release, ReconcileError> {
        if let Some(before) = &self.before {
            before(Phase::Install, Arc::clone(object), context.clone()).await?;
        }
        let name = &desired.location.name;
        let options =
            Options { replace: true, adopt_existing: true, ..self.options(object, &desired.settings) };
        let release = match releases.install(name, &desired.chart, &desired.values, &options).await {
            Ok(release) => release,
            Err(ReleaseError::Failed { message, release, .. }) => {
                let redactor = Redactor::new(&release);
                self.warn_overrides(context, &redactor);
                status.unset_deployed();
                let options = UninstallOptions { rendered: Some(release), ..UninstallOptions::default() };
                let removed = releases.uninstall(name, &options).await;
                let message = match removed {
                    Ok(_) => message,
                    Err(error) => format!("{message}; failed to uninstall what was installed: {error}"),
                };
                let message = redactor.redact(&message).into_owned();
                return Err(failed(INSTALL_ERROR, message));
            }
            Err(error) => return Err(failed(INSTALL_ERROR, error.to_string())),
        };
        self.warn_overrides(context, &Redactor::new(&release));
        tracing::info!(release = name, revision = release.version, "installed");
        context.event(INSTALL_SUCCESSFUL, format!("installed release {name}, revision {}", release.version));
        self.record_deployed(
            status,
            context,
            &release,
            INSTALL_SUCCESSFUL,
            Self::is_other_namespace(object, &desired.location),
        );
        self.run_after(Phase::Install, object, context, &release).await?;
        Ok(release)
    }

    async fn upgrade(
        &self,
        object: &Arc<DynamicObject>,
        context: &Context,
        desired: &DesiredRelease,
        status: &mut Status,
        releases: &Releases,
        revisions: &[Revision],
    ) -> Result<Release, ReconcileError> {
        if let Some(before) = &self.before {
            before(Phase::Upgrade, Arc::clone(object), context.clone()).await?;
        }
        let name = &desired.location.name;
        let options = Options {
            disable_hooks: desired.settings.upgrade_disable_hooks,
            description: desired.settings.upgrade_description.clone(),
            values: steersman_release::ValuesPolicy::Reset,
            ..self.options(object, &desired.settings)
        };
        let release = match releases.upgrade(name, &desired.chart, &desired.values, &options).await {
            Ok(release) => release,
            Err(ReleaseError::Failed { message, release, .. }) => {
                let redactor = Redactor::new(&release);
                self.warn_overrides(context, &redactor);
                status.record_revision(&release, &redactor);
                let message =
                    self.roll_back(&release, message, releases, revisions, status, &desired.settings).await;
                let message = redactor.redact(&message).into_owned();
                return Err(failed(UPGRADE_ERROR, message));
            }
            Err(error) => return Err(failed(UPGRADE_ERROR, error.to_string())),
        };
        self.warn_overrides(context, &Redactor::new(&release));
        tracing::info!(release = name, revision = release.version, "upgraded");
        context.event(UPGRADE_SUCCESSFUL, format!("upgraded release {name} to revision {}", release.version));
        self.record_deployed(
            status,
            context,
            &release,
            UPGRADE_SUCCESSFUL,
            Self::is_other_namespace(object, &desired.location),
        );
        self.run_after(Phase::Upgrade, object, context, &release).await?;
        Ok(release)
    }

    /// Rolls back to the revision that was deployed, and returns the message to report.
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
                status.record_revision(&release, &Redactor::new(&release));
                format!(
                    "{message}; revision {} was rolled back to revision {}, which is running",
                    failed.version, good.version
                )
            }
            Err(error) => format!("{message}; rolling back to revision {} failed: {error}", good.version),
        }
    }

    /// Records an event for each override value, without values that end up in Secrets.
    fn warn_overrides(&self, context: &Context, redactor: &Redactor) {
        for (key, value) in &self.overrides {
            let value = if self.suppress_overrides { "****".into() } else { redactor.redact(value) };
            let note = format!("Chart value {key:?} overridden to {value:?} by operator's watches.yaml");
            context.warn(OVERRIDE_VALUES_IN_USE, note);
        }
    }

    async fn run_after(
        &self,
        phase: Phase,
        object: &Arc<DynamicObject>,
        context: &Context,
        release: &Release,
    ) -> Result<(), ReconcileError> {
        if let Some(after) = &self.after {
            after(phase, Arc::clone(object), Arc::new(release.clone()), context.clone()).await?;
        }
        Ok(())
    }
}

fn failed(reason: &'static str, message: String) -> ReconcileError {
    ReconcileError::Release(DeployFailure { reason, message })
}

/// Whether a revision was installed rather than upgraded to. After a failed install its number is not 1.
fn is_install(release: &Release) -> bool {
    let info = &release.info;
    release.version == 1 || (info.first_deployed.is_some() && info.first_deployed == info.last_deployed)
}

#[cfg(test)]
pub(crate) mod tests {
    use kube::api::ApiResource;
    use steersman::Kind;
    use steersman_chart::{Chart, File};

    use super::*;
    use crate::controller::ReleaseController;

    /// Returns a reconciler for shops, with a chart of that name.
    pub(crate) fn reconciler() -> Reconciler {
        let resource = ApiResource {
            group: "example.com".into(),
            version: "v1".into(),
            api_version: "example.com/v1".into(),
            kind: "Shop".into(),
            plural: "shops".into(),
        };
        let chart =
            Chart::from_files([File::new("Chart.yaml", "{apiVersion: v2, name: shop, version: 1.0.0}")]);
        ReleaseController::new(Kind::dynamic(resource, true), chart.unwrap()).reconciler
    }

    fn shop(namespace: Option<&str>) -> DynamicObject {
        let metadata = json!({ "name": "corner", "namespace": namespace, "uid": "u-1" });
        serde_json::from_value(
            json!({ "apiVersion": "example.com/v1", "kind": "Shop", "metadata": metadata }),
        )
        .unwrap()
    }

    #[test]
    fn an_object_belongs_to_the_owner_that_it_names() {
        let is_foreign = reconciler().is_foreign(&shop(Some("lab")));
        let owned = |api_version: &str, kind: &str, name: &str, controller: bool| {
            let reference =
                json!({ "apiVersion": api_version, "kind": kind, "name": name, "controller": controller });
            json!({ "metadata": { "ownerReferences": [reference] } })
        };
        for own in [
            json!({}),
            json!({ "metadata": { "annotations": { "x": "y" } } }),
            owned("example.com/v1", "Shop", "corner", true),
            owned("example.com/v2", "Shop", "corner", true),
            // A reference that is not the controller's does not count.
            owned("example.com/v1", "Shop", "other", false),
        ] {
            assert!(!is_foreign(&own), "{own}");
        }
        for other in [
            owned("example.com/v1", "Shop", "other", true),
            owned("example.com/v1", "Mall", "corner", true),
            owned("example.org/v1", "Shop", "corner", true),
        ] {
            assert!(is_foreign(&other), "{other}");
        }
        let annotated = |owner: Option<&str>, kind: Option<&str>| json!({ "metadata": { "annotations": { OWNER: owner, OWNER_KIND: kind } } });
        assert!(!is_foreign(&annotated(Some("lab/corner"), Some("Shop.example.com"))));
        assert!(!is_foreign(&annotated(None, Some("Mall.example.com"))));
        assert!(is_foreign(&annotated(Some("lab/other"), Some("Shop.example.com"))));
        assert!(is_foreign(&annotated(Some("lab/corner"), Some("Mall.example.com"))));
        assert!(is_foreign(&annotated(Some("lab/corner"), None)));
    }

    #[test]
    fn released_objects_name_their_owner_as_they_can() {
        let reference = OwnerReference { name: "corner".into(), ..OwnerReference::default() };
        let marked = |namespace: Option<&str>, place: &str, policy: &str| {
            let annotations = json!({ "helm.sh/resource-policy": policy });
            let content = json!({ "metadata": { "name": "a", "annotations": annotations } });
            let resource = ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
            let kind = steersman_release::Kind { resource, namespaced: true };
            let id = steersman_release::ObjectId {
                group: String::new(),
                kind: "ConfigMap".into(),
                namespace: place.into(),
                name: "a".into(),
            };
            let mut object = Object { kind, id, content };
            reconciler().mark(&shop(namespace), reference.clone())(&mut object);
            assert_eq!(object.content["metadata"]["labels"][CHART_LABEL], "shop");
            let metadata = &object.content["metadata"];
            let owner = metadata["ownerReferences"].get(0).map(|owner| owner["name"].clone());
            (
                owner,
                metadata["annotations"].get(OWNER).cloned(),
                metadata["annotations"].get(OWNER_KIND).cloned(),
            )
        };
        let by_reference = (Some(json!("corner")), None, None);
        let by_annotations = |owner: &str| (None, Some(json!(owner)), Some(json!("Shop.example.com")));
        assert_eq!(marked(Some("lab"), "lab", ""), by_reference);
        assert_eq!(marked(None, "lab", ""), by_reference);
        assert_eq!(marked(Some("lab"), "den", ""), by_annotations("lab/corner"));
        assert_eq!(marked(Some("lab"), "lab", "keep"), by_annotations("lab/corner"));
        assert_eq!(marked(None, "lab", "keep"), by_annotations("/corner"));
    }

    #[test]
    fn a_signature_is_for_one_object() {
        assert_eq!(reconciler().subject(&shop(Some("lab"))), "example.com/Shop/lab/corner/u-1");
        assert_eq!(reconciler().subject(&shop(None)), "example.com/Shop//corner/u-1");
    }

    #[test]
    fn options_are_those_of_the_controller_and_the_object() {
        let mut reconciler = reconciler();
        reconciler.crds = Some(steersman_release::CrdPolicy::Skip);
        reconciler.history_max = 3;
        let settings = Settings {
            install_disable_hooks: true,
            install_description: Some("opened".into()),
            ..Settings::default()
        };
        let options = reconciler.options(&shop(Some("lab")), &settings);
        assert!(options.keep_random && options.disable_hooks && options.labels.is_empty());
        assert_eq!(
            (options.crds, options.history_max),
            (Some(steersman_release::CrdPolicy::Skip), HistoryMax(3))
        );
        assert_eq!(options.description.as_deref(), Some("opened"));
        // Releases that may move are found by a label.
        reconciler.name_release =
            Some(Arc::new(|_| Ok(NamespacedName { name: "a".into(), namespace: "b".into() })));
        let labels = reconciler.options(&shop(Some("lab")), &settings).labels;
        assert_eq!(labels, BTreeMap::from([(OWNER_UID.to_owned(), "u-1".to_owned())]));
    }

    #[test]
    fn a_release_is_where_its_object_is() {
        let place =
            |name: &str, namespace: &str| NamespacedName { name: name.into(), namespace: namespace.into() };
        assert_eq!(reconciler().release_name(&shop(Some("lab"))).unwrap(), place("corner", "lab"));
        assert_eq!(reconciler().release_name(&shop(None)).unwrap(), place("corner", "default"));
        assert!(!Reconciler::is_other_namespace(&shop(Some("lab")), &place("x", "lab")));
        assert!(Reconciler::is_other_namespace(&shop(Some("lab")), &place("corner", "den")));
        assert!(Reconciler::is_other_namespace(&shop(None), &place("corner", "default")));
    }
}
