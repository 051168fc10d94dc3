//! Reconcile of one object: settings, release, dependents, status.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::Value;
use steersman::{Action, Context, Error as RuntimeError, Kind};
use steersman_chart::{Chart, Values};
use steersman_release::{
    Confinement, CrdPolicy, Error as ReleaseError, Kinds, Redactor, Release, RenderLimits,
    Status as ReleaseStatus, UninstallOptions,
};
use tokio::time::Instant;

use crate::chart::ChartSource;
use crate::controller::{After, Before, MapValues, NameRelease, NamespacedName, Observe, Phase, Refusal};
use crate::dependents::{Dependents, DependentsStatus};
use crate::key::KeyStore;
use crate::overrides;
use crate::retry::{DeployFailure, FailedDeploys};
use crate::settings::Settings;
use crate::status::{
    DELETE_FAILED, DEPLOYED, INITIALIZED, IRRECONCILABLE, MOVING, PAUSE_ANNOTATION, PAUSED, PRUNED, READY,
    RECONCILE_ERROR, RECORD_GONE, Status, UNINSTALL_ERROR, UNINSTALL_SUCCESSFUL, WORKLOADS_NOT_READY,
    WORKLOADS_READY,
};
use crate::watches::Ignore;

/// Requeue interval while workloads are not ready: their pods are not watched.
const UNREADY_REQUEUE: Duration = Duration::from_secs(10);
/// Requeue interval while a release is being uninstalled.
const REMOVAL_REQUEUE: Duration = Duration::from_secs(2);
/// Interval of retries to delete objects that an upgrade could not delete.
const PRUNE_RETRY: Duration = Duration::from_secs(30);
/// Minimum interval between checks that the record of a release exists.
const RECORD_CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// Maintains a release of one chart for each object of a kind.
pub(crate) struct Reconciler {
    pub(crate) kind: Kind,
    pub(crate) chart: ChartSource,
    /// Discovery cache, created with the client of the first context.
    pub(crate) kinds: OnceLock<Kinds>,
    /// Signing key of release records.
    pub(crate) keys: Arc<KeyStore>,
    /// Confinement of releases to their namespace, if enabled.
    pub(crate) confinement: Option<Confinement>,
    pub(crate) overrides: BTreeMap<String, String>,
    pub(crate) suppress_overrides: bool,
    pub(crate) watch_dependents: bool,
    pub(crate) period: Option<Duration>,
    pub(crate) ignore: Vec<Ignore>,
    pub(crate) crds: Option<CrdPolicy>,
    pub(crate) history_max: usize,
    pub(crate) render: RenderLimits,
    pub(crate) map_values: Option<MapValues>,
    pub(crate) before: Option<Before>,
    pub(crate) after: Option<After>,
    pub(crate) name_release: Option<NameRelease>,
    pub(crate) observe: Option<Observe>,
    /// Cached states by uid. All of them can be rebuilt.
    pub(crate) states: Mutex<HashMap<String, Arc<ReleaseState>>>,
    /// Backoff of failed deployments.
    pub(crate) failed_deploys: FailedDeploys,
}

/// Cached state of a deployed release.
pub(crate) struct ReleaseState {
    /// Fingerprint of everything that the release was made from.
    pub(crate) fingerprint: u64,
    pub(crate) dependents: Dependents,
    /// Redacts the values of the release's Secrets.
    redactor: Redactor,
    /// The name of the object that holds the record.
    record: String,
    /// When the record was last seen.
    seen: Mutex<Instant>,
    /// The release, as long as objects of it could not be deleted.
    leftovers: tokio::sync::Mutex<Option<Release>>,
}

/// Everything that a release is made from.
pub(crate) struct DesiredRelease {
    pub(crate) location: NamespacedName,
    pub(crate) chart: Chart,
    pub(crate) values: Values,
    pub(crate) settings: Settings,
    fingerprint: u64,
}

/// Why a reconcile failed.
pub(crate) enum ReconcileError {
    /// A retry cannot help until something changes, unless the refusal is transient.
    Refused(Refusal),
    /// A release failed.
    Release(DeployFailure),
    /// Something else failed.
    Other(String),
}

impl ReconcileError {
    /// Redacts the values of a release's Secrets.
    fn redacted(self, redactor: &Redactor) -> Self {
        let redact = |message: String| redactor.redact(&message).into_owned();
        match self {
            Self::Refused(refusal) => {
                let message = redact(refusal.message);
                Self::Refused(Refusal { message, ..refusal })
            }
            Self::Release(DeployFailure { reason, message }) => {
                Self::Release(DeployFailure { reason, message: redact(message) })
            }
            Self::Other(message) => Self::Other(redact(message)),
        }
    }
}

impl From<Refusal> for ReconcileError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<ReleaseError> for ReconcileError {
    fn from(error: ReleaseError) -> Self {
        Self::Other(error.to_string())
    }
}

impl From<RuntimeError> for ReconcileError {
    fn from(error: RuntimeError) -> Self {
        Self::Other(error.to_string())
    }
}

impl Reconciler {
    pub(crate) async fn reconcile(
        &self,
        object: Arc<DynamicObject>,
        context: Context,
    ) -> Result<Action, RuntimeError> {
        let mut status = Status::read(&object);
        let settings = match Settings::of(&object) {
            Ok(settings) => settings,
            Err(message) => {
                status.set(&context, IRRECONCILABLE, true, RECONCILE_ERROR, message.clone());
                status.write(&context).await?;
                return Err(RuntimeError::terminal(message));
            }
        };
        if settings.paused {
            status.set(&context, PAUSED, true, PAUSE_ANNOTATION, "the object is paused by its annotation");
            status.write(&context).await?;
            return Ok(Action::await_change());
        }
        status.unset(PAUSED);
        let period = settings.period.map_or(self.period, effective_period);
        let result = self.sync(&object, &context, settings, &mut status).await;
        // The status write failed: the next reconcile rebuilds what it lacks.
        let forget = |_: &_| self.drop_state(&object.uid().unwrap_or_default());
        match result {
            Ok(action) => {
                status.write(&context).await.inspect_err(forget)?;
                Ok(match period {
                    Some(period) => action.or_sooner(Action::requeue(period)),
                    None => action,
                })
            }
            Err(error) => {
                let error = Self::report(error, &context, &mut status);
                status.write(&context).await.inspect_err(forget)?;
                Err(error)
            }
        }
    }

    /// Adds the error to the status, and returns the runtime's error, which decides about retries.
    fn report(error: ReconcileError, context: &Context, status: &mut Status) -> RuntimeError {
        match error {
            ReconcileError::Refused(Refusal { reason, message, is_transient }) => {
                status.set(context, IRRECONCILABLE, true, &reason, message.clone());
                status.set(context, READY, false, &reason, message.clone());
                match is_transient {
                    true => RuntimeError::other(message),
                    false => RuntimeError::terminal(message),
                }
            }
            ReconcileError::Release(failure) => {
                status.set_release_failed(context, &failure);
                RuntimeError::other(failure.message)
            }
            ReconcileError::Other(message) => {
                status.set(context, IRRECONCILABLE, true, RECONCILE_ERROR, message.clone());
                RuntimeError::other(message)
            }
        }
    }

    async fn sync(
        &self,
        object: &Arc<DynamicObject>,
        context: &Context,
        settings: Settings,
        status: &mut Status,
    ) -> Result<Action, ReconcileError> {
        let desired = self.desired(object, context, settings).await?;
        let uid = object.uid().unwrap_or_default();
        let mut state = self.cached_state(&uid).filter(|state| state.fingerprint == desired.fingerprint);
        if let Some(cached) = &state
            && !self.is_recorded(context, &desired.location, cached).await?
        {
            let record = &cached.record;
            context.warn(RECORD_GONE, format!("{record} was deleted: the release is adopted again"));
            state = None;
        }
        let (state, fresh) = match state {
            Some(state) => (state, false),
            None => {
                self.drop_state(&uid);
                if let Some((left, failure)) = self.failed_deploys.waiting(object, desired.fingerprint) {
                    status.set_release_failed(context, &failure);
                    return Ok(Action::requeue(left));
                }
                if !status.is_true(INITIALIZED) {
                    status.set(context, INITIALIZED, true, "", "");
                    status.write(context).await?;
                }
                if !self.uninstall_moved(object, context, &desired, status).await? {
                    let message = "the release is being uninstalled at its former location";
                    status.set(context, READY, false, MOVING, message);
                    status.unset_errors();
                    return Ok(Action::requeue(REMOVAL_REQUEUE));
                }
                let deployed = self.deploy(object, context, &desired, status).await;
                if let Err(ReconcileError::Release(failure)) = &deployed {
                    self.failed_deploys.insert(object, desired.fingerprint, failure.clone());
                }
                let (release, made) = deployed?;
                self.failed_deploys.remove(&uid);
                let state = Arc::new(self.observe_release(object, context, &desired, release).await?);
                self.cache_state(&uid, Arc::clone(&state));
                (state, made)
            }
        };
        let kept = self.sync_state(object, context, &desired, &state, fresh, status).await;
        let action = kept.map_err(|error| error.redacted(&state.redactor))?;
        status.unset_errors();
        Ok(action)
    }

    /// Collects the state of a deployed release.
    async fn observe_release(
        &self,
        object: &Arc<DynamicObject>,
        context: &Context,
        desired: &DesiredRelease,
        release: Release,
    ) -> Result<ReleaseState, ReconcileError> {
        let releases = self.releases(object, context, &desired.location, &desired.settings).await?;
        let objects = releases.objects(&release).await?;
        Ok(ReleaseState {
            fingerprint: desired.fingerprint,
            dependents: Dependents::new(&objects, self.chart.name()),
            redactor: Redactor::new(&release),
            record: release.key(),
            seen: Mutex::new(Instant::now()),
            leftovers: tokio::sync::Mutex::new(Some(release).filter(|release| !release.undeleted.is_empty())),
        })
    }

    /// Checks the dependents of a deployed release and deletes leftovers of earlier revisions.
    async fn sync_state(
        &self,
        object: &Arc<DynamicObject>,
        context: &Context,
        desired: &DesiredRelease,
        state: &ReleaseState,
        fresh: bool,
        status: &mut Status,
    ) -> Result<Action, ReconcileError> {
        let pruned = self.delete_leftovers(object, context, desired, state, status).await?;
        let ready = self.check_dependents(object, context, desired, state, fresh).await?;
        if let Some(observe) = &self.observe {
            for condition in observe(Arc::clone(object), context.clone()).await? {
                status.put(condition);
            }
        }
        let action = match ready {
            DependentsStatus::Ready(message) => {
                status.set(context, READY, true, WORKLOADS_READY, message);
                Action::await_change()
            }
            DependentsStatus::NotReady(message) => {
                let message = state.redactor.redact(&message).into_owned();
                status.set(context, READY, false, WORKLOADS_NOT_READY, message);
                Action::requeue(UNREADY_REQUEUE)
            }
        };
        Ok(if pruned { action } else { action.or_sooner(Action::requeue(PRUNE_RETRY)) })
    }

    /// Deletes objects that an upgrade could not delete. Returns whether none are left.
    async fn delete_leftovers(
        &self,
        object: &Arc<DynamicObject>,
        context: &Context,
        desired: &DesiredRelease,
        state: &ReleaseState,
        status: &mut Status,
    ) -> Result<bool, ReconcileError> {
        let mut leftovers = state.leftovers.lock().await;
        let Some(release) = leftovers.as_mut() else {
            status.unset(PRUNED);
            return Ok(true);
        };
        let releases = self.releases(object, context, &desired.location, &desired.settings).await?;
        releases.delete_leftovers(release).await?;
        if release.undeleted.is_empty() {
            *leftovers = None;
            status.unset(PRUNED);
            return Ok(true);
        }
        let left: Vec<String> = release.undeleted.iter().map(ToString::to_string).collect();
        let message = format!("no longer part of the release, but still in the cluster: {}", left.join("; "));
        status.set(context, PRUNED, false, DELETE_FAILED, state.redactor.redact(&message));
        Ok(false)
    }

    /// Whether the record of a release exists. Checked at intervals: records are not watched.
    async fn is_recorded(
        &self,
        context: &Context,
        location: &NamespacedName,
        state: &ReleaseState,
    ) -> Result<bool, ReconcileError> {
        if state.seen.lock().unwrap_or_else(PoisonError::into_inner).elapsed() < RECORD_CHECK_INTERVAL {
            return Ok(true);
        }
        let records: kube::Api<Secret> = kube::Api::namespaced(context.client(), &location.namespace);
        let found = records.get_metadata_opt(&state.record).await;
        let found = found.map_err(|error| ReconcileError::Other(error.to_string()))?;
        *state.seen.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        Ok(found.is_some())
    }

    async fn desired(
        &self,
        object: &Arc<DynamicObject>,
        context: &Context,
        settings: Settings,
    ) -> Result<DesiredRelease, ReconcileError> {
        let location = self.release_name(object)?;
        let (chart, version) =
            self.chart.current().map_err(|error| ReconcileError::Other(error.to_string()))?;
        let spec = object.data.get("spec").cloned().unwrap_or(Value::Null);
        let mut values = Values::from_json(spec);
        if let Some(map) = &self.map_values {
            values = map(Arc::clone(object), values, context.clone()).await?;
        }
        overrides::apply(&mut values, &self.overrides)
            .map_err(|error| ReconcileError::Other(error.to_string()))?;
        let mut hasher = DefaultHasher::new();
        values.to_json().to_string().hash(&mut hasher);
        (version, &location.name, &location.namespace).hash(&mut hasher);
        Ok(DesiredRelease { location, chart, values, settings, fingerprint: hasher.finish() })
    }

    pub(crate) async fn clean_up(
        &self,
        object: Arc<DynamicObject>,
        context: Context,
    ) -> Result<Action, RuntimeError> {
        let mut status = Status::read(&object);
        // An invalid annotation must not keep an object from being deleted.
        let settings = Settings::of(&object).unwrap_or_default();
        let uid = object.uid().unwrap_or_default();
        self.drop_state(&uid);
        self.failed_deploys.remove(&uid);
        let done = self.uninstall_all(&object, &context, &settings).await;
        match done {
            Ok(true) => {
                self.drop_legacy_finalizer(&object, &context).await?;
                Ok(Action::await_change())
            }
            Ok(false) => Ok(Action::requeue(REMOVAL_REQUEUE)),
            Err(ReconcileError::Other(message)) => {
                let failure = DeployFailure { reason: UNINSTALL_ERROR, message };
                status.set_release_failed(&context, &failure);
                status.write(&context).await?;
                Err(RuntimeError::other(failure.message))
            }
            Err(error) => {
                let error = Self::report(error, &context, &mut status);
                status.write(&context).await?;
                Err(error)
            }
        }
    }

    /// Uninstalls every release of an object. Returns whether they are gone, as far as the settings require.
    async fn uninstall_all(
        &self,
        object: &Arc<DynamicObject>,
        context: &Context,
        settings: &Settings,
    ) -> Result<bool, ReconcileError> {
        // An object without a valid location now may have had one.
        let location = self.release_name(object).ok();
        let mut gone = true;
        for other in self.other_releases(object, context, settings, location.as_ref()).await? {
            gone &= self.uninstall(object, context, &other, settings, None).await?;
        }
        let Some(location) = location else { return Ok(gone) };
        // Invalid values must not keep an object from being deleted.
        let desired = self.desired(object, context, settings.clone()).await.ok();
        Ok(self.uninstall(object, context, &location, settings, desired.as_ref()).await? && gone)
    }

    /// Uninstalls a release. Returns whether it is gone, as far as the settings require. `desired` is used to render it
    /// if its record does not verify or is missing.
    pub(crate) async fn uninstall(
        &self,
        object: &Arc<DynamicObject>,
        context: &Context,
        location: &NamespacedName,
        settings: &Settings,
        desired: Option<&DesiredRelease>,
    ) -> Result<bool, ReconcileError> {
        let releases = self.releases(object, context, location, settings).await?;
        let last = match releases.get(&location.name, None).await {
            Ok(last) => Some(last),
            Err(ReleaseError::NotFound { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        if let Some(last) = &last
            && !self.is_ours(object, context, settings, location, last).await?
        {
            // A release of the same name that belongs to another owner is left alone.
            return Ok(true);
        }
        let mut rendered = None;
        if let (None | Some(Release { unverified: true, .. }), Some(desired)) = (&last, desired) {
            rendered = self.rendered(object, &releases, desired).await;
        }
        let release = match (last, rendered.as_deref()) {
            (Some(last), _) => last,
            // Its record was deleted, or it was never installed.
            (None, Some(rendered)) if !releases.remaining(rendered).await?.is_empty() => rendered.clone(),
            (None, _) => return Ok(true),
        };
        if let Some(before) = &self.before {
            before(Phase::Uninstall, Arc::clone(object), context.clone()).await?;
        }
        let mut options = UninstallOptions {
            keep_history: settings.uninstall_wait,
            disable_hooks: settings.uninstall_disable_hooks,
            description: settings.uninstall_description.clone(),
            rendered,
            ..UninstallOptions::default()
        };
        let is_down = release.info.status == ReleaseStatus::Uninstalled;
        if !is_down || (release.unverified && !settings.uninstall_wait) {
            releases.uninstall(&location.name, &options).await?;
        }
        if settings.uninstall_wait {
            // The record is kept until none of its objects is left.
            if !releases.remaining(&release).await?.is_empty() {
                return Ok(false);
            }
            options.keep_history = false;
            releases.uninstall(&location.name, &options).await?;
        }
        context.event(UNINSTALL_SUCCESSFUL, format!("uninstalled release {}", location.name));
        if let Some(after) = &self.after {
            after(Phase::Uninstall, Arc::clone(object), Arc::new(release), context.clone()).await?;
        }
        Ok(true)
    }

    /// Removes the finalizer of older operator versions.
    async fn drop_legacy_finalizer(
        &self,
        object: &DynamicObject,
        context: &Context,
    ) -> Result<(), RuntimeError> {
        const LEGACY: &str = "uninstall-helm-release";
        if !object.finalizers().iter().any(|name| name == LEGACY) {
            return Ok(());
        }
        let resource = self.kind.resource();
        let api: kube::Api<DynamicObject> = match object.namespace() {
            Some(namespace) => kube::Api::namespaced_with(context.client(), &namespace, resource),
            None => kube::Api::all_with(context.client(), resource),
        };
        let Some(live) = api.get_opt(&object.name_any()).await? else { return Ok(()) };
        let left: Vec<&String> = live.finalizers().iter().filter(|name| *name != LEGACY).collect();
        let patch = serde_json::json!({
            "metadata": { "finalizers": left, "resourceVersion": live.resource_version() },
        });
        let params = kube::api::PatchParams::default();
        api.patch_metadata(&object.name_any(), &params, &kube::api::Patch::Merge(patch)).await?;
        Ok(())
    }

    fn cached_state(&self, uid: &str) -> Option<Arc<ReleaseState>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner).get(uid).map(Arc::clone)
    }

    fn cache_state(&self, uid: &str, state: Arc<ReleaseState>) {
        self.states.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.to_owned(), state);
    }

    pub(crate) fn drop_state(&self, uid: &str) {
        self.states.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    /// Records a deployed release in the status.
    pub(crate) fn record_deployed(
        &self,
        status: &mut Status,
        context: &Context,
        release: &Release,
        reason: &str,
        other_namespace: bool,
    ) {
        let redactor = Redactor::new(release);
        status.set(context, DEPLOYED, true, reason, redactor.redact(&release.info.notes));
        status.set_deployed(release, &redactor, other_namespace);
        status.record_revision(release, &redactor);
    }
}

/// Returns the effective resync period: at least one second; none for zero, as in operator-sdk.
pub(crate) fn effective_period(period: Duration) -> Option<Duration> {
    const SHORTEST: Duration = Duration::from_secs(1);
    (!period.is_zero()).then(|| period.max(SHORTEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_at_least_a_second_or_none() {
        let seconds = Duration::from_secs;
        assert_eq!(effective_period(Duration::ZERO), None);
        assert_eq!(effective_period(Duration::from_nanos(1)), Some(seconds(1)));
        assert_eq!(effective_period(seconds(1)), Some(seconds(1)));
        assert_eq!(effective_period(seconds(90)), Some(seconds(90)));
    }

    #[test]
    fn errors_are_told_without_secrets() {
        let manifest = "{apiVersion: v1, kind: Secret, stringData: {a: hunter22}}";
        let redactor = Redactor::new(&Release { manifest: manifest.into(), ..Release::default() });
        let refusal = Refusal::new("Reason", "it is hunter22").transient();
        let ReconcileError::Refused(told) = ReconcileError::from(refusal).redacted(&redactor) else {
            panic!()
        };
        assert_eq!(told, Refusal::new("Reason", "it is REDACTED").transient());
        let failed = ReconcileError::Release(DeployFailure { reason: "Failed", message: "hunter22!".into() });
        let ReconcileError::Release(failure) = failed.redacted(&redactor) else { panic!() };
        assert_eq!((failure.reason, failure.message.as_str()), ("Failed", "REDACTED!"));
        let other = ReconcileError::from(RuntimeError::other("hunter22 again"));
        let ReconcileError::Other(message) = other.redacted(&redactor) else { panic!() };
        assert_eq!(message, "REDACTED again");
        let ReconcileError::Other(message) = ReconcileError::from(ReleaseError::NameInUse) else { panic!() };
        assert_eq!(message, "cannot re-use a name that is still in use");
    }

    #[test]
    fn a_refusal_is_for_good_unless_it_is_transient() {
        let refusal = Refusal::new("Reason", "message");
        assert_eq!((refusal.reason.as_str(), refusal.to_string().as_str()), ("Reason", "message"));
        assert!(!refusal.is_transient && refusal.clone().transient().is_transient);
        assert_eq!(refusal.clone().transient().message, refusal.message);
    }
}
