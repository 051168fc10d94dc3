//! Dependents, the objects of a release: watches, drift correction and readiness.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use serde_json::{Value, json};
use steersman::{Context, Key, Kind, Snapshot, Watch};
use steersman_release::{
    Kind as ReleaseKind, Object, ObjectId, Outcome, Readiness, Releases, covers, pod_failure, readiness,
};

use crate::deploy::{CHART_LABEL, OWNER, OWNER_KIND};
use crate::reconcile::{DesiredRelease, ReconcileError, Reconciler, ReleaseState};
use crate::status::{DRIFT_CORRECTED, WATCH_FAILED};

/// Maximum number of objects that are named in a condition.
const NAMED: usize = 3;

/// Whether the objects of a release are ready, with a message for the condition.
#[must_use]
pub(crate) enum DependentsStatus {
    Ready(String),
    NotReady(String),
}

/// The dependents of one release.
pub(crate) struct Dependents {
    objects: Vec<Dependent>,
    chart: String,
    /// Whether watches of their kinds were requested.
    watch_requested: AtomicBool,
}

struct Dependent {
    kind: Kind,
    release_kind: ReleaseKind,
    id: ObjectId,
    /// The desired object as JSON, which takes less memory: there may be thousands.
    desired: Box<[u8]>,
    /// The resourceVersion that is known to be as desired; 0 if none is.
    good: AtomicU64,
    /// Whether its kind is watched.
    watched: AtomicBool,
}

impl Dependents {
    pub(crate) fn new(objects: &[Object], chart: String) -> Self {
        let objects = objects
            .iter()
            .map(|object| Dependent {
                kind: Kind::dynamic(object.kind.resource.clone(), object.kind.namespaced),
                release_kind: object.kind.clone(),
                id: object.id.clone(),
                desired: object.content.to_string().into_bytes().into(),
                good: AtomicU64::new(0),
                watched: AtomicBool::new(false),
            })
            .collect();
        Self { objects, chart, watch_requested: AtomicBool::new(false) }
    }
}

impl Dependent {
    fn object(&self) -> Object {
        let content = serde_json::from_slice(&self.desired).unwrap_or_default();
        Object { kind: self.release_kind.clone(), id: self.id.clone(), content }
    }
}

fn version(object: &DynamicObject) -> u64 {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or(0)
}

impl Reconciler {
    /// Corrects drift of the dependents and collects their readiness. `fresh` means that they were written a moment
    /// ago, and that caches may lack them.
    pub(crate) async fn check_dependents(
        &self,
        object: &DynamicObject,
        context: &Context,
        desired: &DesiredRelease,
        state: &ReleaseState,
        fresh: bool,
    ) -> Result<DependentsStatus, ReconcileError> {
        let dependents = &state.dependents;
        if self.watch_dependents && !dependents.watch_requested.swap(true, Ordering::Relaxed) {
            self.watch_all(context, dependents).await;
        }
        let mut releases = None;
        let mut lacking = Vec::new();
        for dependent in &dependents.objects {
            let live = self.live(context, dependent).await?;
            if live.is_none() && fresh {
                lacking.push((dependent, "it was just created".to_owned()));
                continue;
            }
            let good = dependent.good.load(Ordering::Relaxed);
            let live = match live {
                Some(live) if good != 0 && version(&live) <= good => live,
                live => {
                    let target = dependent.object();
                    let ignored = self.ignored(&target.id);
                    let fits =
                        live.as_ref().is_some_and(|live| covers(&json!(live), &target.content, &ignored));
                    match live.filter(|_| fits) {
                        Some(live) => live,
                        None => {
                            let releases = match &releases {
                                Some(releases) => releases,
                                None => releases.insert(
                                    self.releases(object, context, &desired.location, &desired.settings)
                                        .await?,
                                ),
                            };
                            self.correct_drift(context, releases, dependent, &ignored).await?
                        }
                    }
                }
            };
            dependent.good.store(version(&live).max(good), Ordering::Relaxed);
            match readiness(&typed(&live, dependent), true) {
                Readiness::Ready => {}
                Readiness::Waiting(what) | Readiness::Failed(what) => lacking.push((dependent, what)),
            }
        }
        if lacking.is_empty() {
            let message = format!("all {} objects are ready", dependents.objects.len());
            return Ok(DependentsStatus::Ready(message));
        }
        Ok(DependentsStatus::NotReady(self.describe(context, &lacking).await))
    }

    /// Returns the live object: from the cache if its kind is watched, else from the API server.
    async fn live(
        &self,
        context: &Context,
        dependent: &Dependent,
    ) -> Result<Option<DynamicObject>, ReconcileError> {
        let objects = context.objects_of(&dependent.kind).namespace(&dependent.id.namespace);
        let objects = if dependent.watched.load(Ordering::Relaxed) { objects } else { objects.live() };
        Ok(objects.get(&dependent.id.name).await?)
    }

    /// Watches the kinds of the dependents. A kind that may not be watched is read from the API server each time.
    async fn watch_all(&self, context: &Context, dependents: &Dependents) {
        let owner = self.kind.clone();
        for dependent in &dependents.objects {
            let owner = owner.clone();
            let watch = Watch::mapped_kind(dependent.kind.clone(), "release", move |snapshot| {
                owners(&owner, snapshot)
            })
            .labels(format!("{CHART_LABEL}={}", dependents.chart));
            match context.watch(watch).await {
                Ok(()) => dependent.watched.store(true, Ordering::Relaxed),
                Err(error) => {
                    tracing::warn!(%error, kind = %dependent.kind, "cannot watch released objects");
                    context.warn(WATCH_FAILED, format!("cannot watch {}: {error}", dependent.kind));
                }
            }
        }
    }

    /// Writes an object again that another writer changed or deleted.
    async fn correct_drift(
        &self,
        context: &Context,
        releases: &Releases,
        dependent: &Dependent,
        ignored: &[String],
    ) -> Result<DynamicObject, ReconcileError> {
        let mut target = dependent.object();
        if !ignored.is_empty() {
            // Live: the values of other writers must not be older than this, as those of a cache may be.
            let objects = context.objects_of(&dependent.kind).namespace(&dependent.id.namespace).live();
            if let Some(live) = objects.get(&dependent.id.name).await? {
                keep(&mut target.content, &json!(live), ignored);
            }
        }
        let (outcome, live) = releases.enforce(&target).await?;
        let what = match outcome {
            Outcome::Created => "deleted",
            Outcome::Changed => "changed",
            Outcome::Unchanged => return Ok(live),
        };
        tracing::info!(object = %target.id, "restored an object that was {what}");
        context.event(DRIFT_CORRECTED, format!("{} was {what} by others and has been restored", target.id));
        Ok(live)
    }

    fn ignored(&self, id: &ObjectId) -> Vec<String> {
        let concerns = |kind: &Option<String>, name: &Option<String>| {
            kind.as_ref().is_none_or(|kind| *kind == id.kind)
                && name.as_ref().is_none_or(|name| *name == id.name)
        };
        let rules = self.ignore.iter().filter(|rule| concerns(&rule.kind, &rule.name));
        rules.flat_map(|rule| rule.paths.iter().cloned()).collect()
    }

    /// Describes what objects lack, and why their pods fail.
    async fn describe(&self, context: &Context, lacking: &[(&Dependent, String)]) -> String {
        let mut parts = Vec::new();
        for (dependent, what) in lacking.iter().take(NAMED) {
            let mut text = format!("{}/{}: {what}", dependent.id.kind, dependent.id.name);
            if let Some(error) = self.pod_failure(context, dependent).await {
                text.push_str(&format!(" ({error})"));
            }
            parts.push(text);
        }
        if lacking.len() > NAMED {
            parts.push(format!("and {} more", lacking.len() - NAMED));
        }
        parts.join("; ")
    }

    async fn pod_failure(&self, context: &Context, dependent: &Dependent) -> Option<String> {
        if !matches!(
            dependent.id.kind.as_str(),
            "Deployment" | "StatefulSet" | "DaemonSet" | "Job" | "ReplicaSet"
        ) {
            return None;
        }
        let desired: Value = serde_json::from_slice(&dependent.desired).ok()?;
        let labels = desired.pointer("/spec/template/metadata/labels")?.as_object()?;
        let labels: Vec<String> =
            labels.iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?))).collect();
        // Dynamic objects: decoding `Pod` would be compiled into this crate for a few of its fields.
        let kind = ApiResource::erase::<Pod>(&());
        let pods: Api<DynamicObject> = Api::namespaced_with(context.client(), &dependent.id.namespace, &kind);
        let found = pods.list(&ListParams::default().labels(&labels.join(",")).limit(20)).await.ok()?;
        found
            .items
            .iter()
            .find_map(|pod| pod_failure(&pod.data).map(|error| format!("Pod/{}: {error}", pod.name_any())))
    }
}

fn typed(live: &DynamicObject, dependent: &Dependent) -> Value {
    let mut content = json!(live);
    let resource = dependent.kind.resource();
    content["apiVersion"] = json!(resource.api_version);
    content["kind"] = json!(resource.kind);
    content
}

/// Returns the objects of `owner` that a released object names as its owner.
fn owners(owner: &Kind, snapshot: &Snapshot) -> Vec<Key> {
    let Ok(meta) = snapshot.meta() else { return Vec::new() };
    if let Some(reference) = meta.controller()
        && owner.matches(&reference.api_version, &reference.kind)
    {
        let namespace = owner.namespaced().then_some(&*meta.namespace);
        return vec![Key::new(namespace, &reference.name)];
    }
    let annotation = |name: &str| {
        meta.annotations.iter().find(|(key, _)| &***key == name).map(|(_, value)| value.to_string())
    };
    let resource = owner.resource();
    if annotation(OWNER_KIND) != Some(format!("{}.{}", resource.kind, resource.group)) {
        return Vec::new();
    }
    let Some(location) = annotation(OWNER) else { return Vec::new() };
    match location.split_once('/') {
        Some((namespace, name)) => vec![Key::new(Some(namespace).filter(|_| owner.namespaced()), name)],
        None => Vec::new(),
    }
}

/// Copies fields from the live object, since an apply that omits an own field removes it. Fields that are not desired are
/// left alone.
fn keep(content: &mut Value, live: &Value, pointers: &[String]) {
    for pointer in pointers {
        match (content.pointer_mut(pointer), live.pointer(pointer)) {
            (Some(desired), Some(value)) => *desired = value.clone(),
            (Some(_), None) => remove(content, pointer),
            (None, _) => {}
        }
    }
}

/// Removes the field at a JSON pointer.
fn remove(content: &mut Value, pointer: &str) {
    let Some((parent, key)) = pointer.rsplit_once('/') else { return };
    let key = key.replace("~1", "/").replace("~0", "~");
    if let Some(map) = content.pointer_mut(parent).and_then(Value::as_object_mut) {
        map.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_fields_are_those_of_the_live_object() {
        let wanted = json!({"spec": {"replicas": 2, "image": "new", "gone": 1}});
        let live = json!({"spec": {"replicas": 5, "image": "old", "other": 1}});
        let pointers = ["/spec/replicas", "/spec/gone", "/spec/other"].map(str::to_owned);
        let mut kept = wanted.clone();
        keep(&mut kept, &live, &pointers);
        assert_eq!(kept, json!({"spec": {"replicas": 5, "image": "new"}}));
    }

    #[test]
    fn what_is_not_there_is_not_kept() {
        let mut wanted = json!({"data": {"a/b": 1, "c~d": 2, "list": [1, 2]}});
        let pointers = ["/data/a~1b", "/data/c~0d", "/data/none", "nowhere"].map(str::to_owned);
        keep(&mut wanted, &json!({"data": {"none": 3}}), &pointers);
        assert_eq!(wanted, json!({"data": {"list": [1, 2]}}));
        // Only fields of objects are removed.
        remove(&mut wanted, "/data/list/0");
        assert_eq!(wanted, json!({"data": {"list": [1, 2]}}));
    }

    #[test]
    fn versions_are_numbers() {
        let object = |version: Value| {
            let metadata = json!({"name": "a", "resourceVersion": version});
            serde_json::from_value::<DynamicObject>(json!({"metadata": metadata})).unwrap()
        };
        assert_eq!(version(&object(json!("42"))), 42);
        assert_eq!(version(&object(json!("odd"))), 0);
        assert_eq!(version(&object(json!(null))), 0);
    }

    #[test]
    fn what_is_ignored_follows_kind_and_name() {
        let mut reconciler = crate::deploy::tests::reconciler();
        let rule = |kind: Option<&str>, name: Option<&str>, path: &str| crate::watches::Ignore {
            kind: kind.map(str::to_owned),
            name: name.map(str::to_owned),
            paths: vec![path.to_owned()],
        };
        reconciler.ignore = vec![
            rule(None, None, "/all"),
            rule(Some("A"), None, "/kind"),
            rule(None, Some("a"), "/name"),
            rule(Some("A"), Some("a"), "/both"),
        ];
        let ignored = |kind: &str, name: &str| {
            let id = ObjectId {
                group: String::new(),
                kind: kind.into(),
                namespace: "lab".into(),
                name: name.into(),
            };
            reconciler.ignored(&id)
        };
        assert_eq!(ignored("A", "a"), ["/all", "/kind", "/name", "/both"]);
        assert_eq!(ignored("A", "b"), ["/all", "/kind"]);
        assert_eq!(ignored("B", "a"), ["/all", "/name"]);
        assert_eq!(ignored("B", "b"), ["/all"]);
    }
}
