//! What is done for one object.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::Value;
use steersman::{Action, Context, Error as RuntimeError, Kind};
use steersman_chart::{Chart, Values};
use steersman_release::{CrdPolicy, Error as ReleaseError, Kinds, Release, RenderLimits, UninstallOptions};

use crate::chart::ChartSource;
use crate::controller::{After, Before, Locate, MapValues, Observe, Phase, Place, Refusal};
use crate::dependents::Dependents;
use crate::overrides;
use crate::settings::Settings;
use crate::status::{DEPLOYED, INITIALIZED, IRRECONCILABLE, PAUSED, READY, RELEASE_FAILED, Status};
use crate::watches::Ignore;

/// How often an object is looked at while its workloads are not ready: what their pods lack is seen by nobody else.
const UNREADY_LOOK: Duration = Duration::from_secs(10);
/// How often an object is looked at whose release is being taken down.
const REMOVAL_LOOK: Duration = Duration::from_secs(2);

/// Keeps a release of one chart for each object of a kind.
pub(crate) struct Reconciler {
    pub(crate) kind: Kind,
    pub(crate) chart: ChartSource,
    /// What the cluster serves, asked through the first context that comes along.
    pub(crate) kinds: OnceLock<Kinds>,
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
    pub(crate) locate: Option<Locate>,
    pub(crate) observe: Option<Observe>,
    /// What was found out about objects, by their identities. All of it can be found out again.
    pub(crate) known: Mutex<HashMap<String, Arc<Known>>>,
}

/// What is known of an object whose release is as it should be.
pub(crate) struct Known {
    /// Of everything that the release was made from.
    pub(crate) fingerprint: u64,
    pub(crate) dependents: Dependents,
}

/// Everything that a release is made from.
pub(crate) struct Wanted {
    pub(crate) place: Place,
    pub(crate) chart: Chart,
    pub(crate) values: Values,
    pub(crate) settings: Settings,
    fingerprint: u64,
}

/// Why an object is not as it should be.
pub(crate) enum Trouble {
    /// Trying again cannot help until something changes.
    Refused(Refusal),
    /// A release failed; the reason is operator-sdk's.
    Release { reason: &'static str, message: String },
    /// Something else failed.
    Other(String),
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<ReleaseError> for Trouble {
    fn from(error: ReleaseError) -> Self {
        Self::Other(error.to_string())
    }
}

impl From<RuntimeError> for Trouble {
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
                status.set(&context, IRRECONCILABLE, true, "ReconcileError", message.clone());
                status.write(&context).await?;
                return Err(RuntimeError::terminal(message));
            }
        };
        if settings.paused {
            status.set(
                &context,
                PAUSED,
                true,
                "PauseReconcileAnnotationTrue",
                "the object is paused by its annotation",
            );
            status.write(&context).await?;
            return Ok(Action::await_change());
        }
        status.unset(PAUSED);
        let period = settings.period.or(self.period);
        match self.keep(&object, &context, settings, &mut status).await {
            Ok(action) => {
                status.unset(IRRECONCILABLE);
                status.unset(RELEASE_FAILED);
                status.write(&context).await?;
                Ok(match period {
                    Some(period) => action.or_sooner(Action::requeue(period)),
                    None => action,
                })
            }
            Err(trouble) => self.report(trouble, &context, status).await,
        }
    }

    /// Says what is wrong in the status, and lets the runtime decide when to try again.
    async fn report(
        &self,
        trouble: Trouble,
        context: &Context,
        mut status: Status,
    ) -> Result<Action, RuntimeError> {
        let error = match trouble {
            Trouble::Refused(Refusal { reason, message }) => {
                status.set(context, IRRECONCILABLE, true, &reason, message.clone());
                status.set(context, READY, false, &reason, message.clone());
                RuntimeError::terminal(message)
            }
            Trouble::Release { reason, message } => {
                status.set(context, RELEASE_FAILED, true, reason, message.clone());
                status.set(context, READY, false, reason, message.clone());
                RuntimeError::other(message)
            }
            Trouble::Other(message) => {
                status.set(context, IRRECONCILABLE, true, "ReconcileError", message.clone());
                RuntimeError::other(message)
            }
        };
        status.write(context).await?;
        Err(error)
    }

    async fn keep(
        &self,
        object: &Arc<DynamicObject>,
        context: &Context,
        settings: Settings,
        status: &mut Status,
    ) -> Result<Action, Trouble> {
        let wanted = self.wanted(object, context, settings).await?;
        let uid = object.uid().unwrap_or_default();
        let known = self.remembered(&uid).filter(|known| known.fingerprint == wanted.fingerprint);
        let (known, fresh) = match known {
            Some(known) => (known, false),
            None => {
                self.forget(&uid);
                if !status.is_true(INITIALIZED) {
                    status.set(context, INITIALIZED, true, "", "");
                    status.write(context).await?;
                }
                let (release, made) = self.bring_about(object, context, &wanted, status).await?;
                let releases = self.releases(object, context, &wanted.place, &wanted.settings);
                let objects = releases.objects(&release).await?;
                let dependents = Dependents::new(&objects, self.chart.name());
                let known = Arc::new(Known { fingerprint: wanted.fingerprint, dependents });
                self.remember(&uid, Arc::clone(&known));
                (known, made)
            }
        };
        let ready = self.attend(object, context, &wanted, &known, fresh).await?;
        if let Some(observe) = &self.observe {
            for condition in observe(Arc::clone(object), context.clone()).await? {
                status.put(condition);
            }
        }
        Ok(match ready {
            Ok(message) => {
                status.set(context, READY, true, "WorkloadsReady", message);
                Action::await_change()
            }
            Err(message) => {
                status.set(context, READY, false, "WorkloadsNotReady", message);
                Action::requeue(UNREADY_LOOK)
            }
        })
    }

    async fn wanted(
        &self,
        object: &Arc<DynamicObject>,
        context: &Context,
        settings: Settings,
    ) -> Result<Wanted, Trouble> {
        let place = self.place(object)?;
        let (chart, version) = self.chart.current().map_err(|error| Trouble::Other(error.to_string()))?;
        let spec = object.data.get("spec").cloned().unwrap_or(Value::Null);
        let mut values = Values::from_json(spec);
        if let Some(map) = &self.map_values {
            values = map(Arc::clone(object), values, context.clone()).await?;
        }
        overrides::lay_over(&mut values, &self.overrides)
            .map_err(|error| Trouble::Other(error.to_string()))?;
        let mut hasher = DefaultHasher::new();
        values.to_json().to_string().hash(&mut hasher);
        (version, &place.name, &place.namespace).hash(&mut hasher);
        Ok(Wanted { place, chart, values, settings, fingerprint: hasher.finish() })
    }

    pub(crate) fn place(&self, object: &DynamicObject) -> Result<Place, Refusal> {
        match &self.locate {
            Some(locate) => locate(object),
            None => Ok(Place {
                name: object.name_any(),
                namespace: object.namespace().unwrap_or_else(|| "default".into()),
            }),
        }
    }

    /// Whether a release is elsewhere than its object.
    pub(crate) fn is_elsewhere(object: &DynamicObject, place: &Place) -> bool {
        object.namespace().as_deref() != Some(&place.namespace)
    }

    pub(crate) async fn clean_up(
        &self,
        object: Arc<DynamicObject>,
        context: Context,
    ) -> Result<Action, RuntimeError> {
        let mut status = Status::read(&object);
        // An annotation that makes no sense must not keep an object from going.
        let settings = Settings::of(&object).unwrap_or_default();
        self.forget(&object.uid().unwrap_or_default());
        let done = match self.last_place(&object, &status) {
            Some(place) => self.take_down(&object, &context, &place, &settings).await,
            None => Ok(true),
        };
        match done {
            Ok(true) => {
                self.drop_legacy_finalizer(&object, &context).await?;
                Ok(Action::await_change())
            }
            Ok(false) => Ok(Action::requeue(REMOVAL_LOOK)),
            Err(Trouble::Other(message)) => {
                status.set(&context, RELEASE_FAILED, true, "UninstallError", message.clone());
                status.set(&context, READY, false, "UninstallError", message.clone());
                status.write(&context).await?;
                Err(RuntimeError::other(message))
            }
            Err(trouble) => self.report(trouble, &context, status).await,
        }
    }

    /// Where the release is that has to go: where it was deployed last, or else where it would be.
    fn last_place(&self, object: &DynamicObject, status: &Status) -> Option<Place> {
        match status.deployed() {
            Some((name, namespace)) => {
                let own = || object.namespace().unwrap_or_else(|| "default".into());
                Some(Place { name, namespace: namespace.unwrap_or_else(own) })
            }
            // What has no place has no release either.
            None => self.place(object).ok(),
        }
    }

    /// Uninstalls a release; says whether all of it is gone as far as it has to be.
    pub(crate) async fn take_down(
        &self,
        object: &Arc<DynamicObject>,
        context: &Context,
        place: &Place,
        settings: &Settings,
    ) -> Result<bool, Trouble> {
        let releases = self.releases(object, context, place, settings);
        let last = match releases.get(&place.name, None).await {
            Ok(last) => last,
            Err(ReleaseError::NotFound { .. }) => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        if !last.is_of(&self.chart.name()) {
            // Somebody else's release of the same name is not ours to take down.
            return Ok(true);
        }
        if let Some(before) = &self.before {
            before(Phase::Uninstall, Arc::clone(object), context.clone()).await?;
        }
        let mut options = UninstallOptions {
            keep_history: settings.uninstall_wait,
            disable_hooks: settings.uninstall_disable_hooks,
            description: settings.uninstall_description.clone(),
            ..UninstallOptions::default()
        };
        if last.info.status != steersman_release::Status::Uninstalled {
            releases.uninstall(&place.name, &options).await?;
        }
        if settings.uninstall_wait {
            // The record stays until nothing of what it names is left.
            if self.is_left(&releases, &last, context).await? {
                return Ok(false);
            }
            options.keep_history = false;
            releases.uninstall(&place.name, &options).await?;
        }
        context.event("UninstallSuccessful", format!("uninstalled release {}", place.name));
        if let Some(after) = &self.after {
            after(Phase::Uninstall, Arc::clone(object), Arc::new(last), context.clone()).await?;
        }
        Ok(true)
    }

    async fn is_left(
        &self,
        releases: &steersman_release::Releases,
        release: &Release,
        context: &Context,
    ) -> Result<bool, Trouble> {
        let objects =
            steersman_release::parse_known(&release.manifest, &release.namespace, releases.kinds()).await?;
        for object in objects.iter().filter(|object| !object.is_kept()) {
            let found = object.api(&context.client()).get_opt(&object.id.name).await;
            if found.map_err(|error| Trouble::Other(error.to_string()))?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Older operators promised the same under another name.
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

    fn remembered(&self, uid: &str) -> Option<Arc<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(uid).map(Arc::clone)
    }

    fn remember(&self, uid: &str, known: Arc<Known>) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.to_owned(), known);
    }

    pub(crate) fn forget(&self, uid: &str) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    /// Tells of a release that was made.
    pub(crate) fn deployed(
        &self,
        status: &mut Status,
        context: &Context,
        release: &Release,
        reason: &str,
        elsewhere: bool,
    ) {
        status.set(context, DEPLOYED, true, reason, release.info.notes.clone());
        status.set_deployed(release, elsewhere);
        status.tell(release);
    }
}
