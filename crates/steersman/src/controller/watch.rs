//! Watches of a controller, and which of its objects a change affects.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use prometheus_client::metrics::counter::Counter;

use crate::{
    cache::{Change, Selection, Snapshot},
    kind::{Key, Kind, Object},
    metrics::Metrics,
};

/// Whether a change from one state to another triggers a reconcile.
pub(crate) type Predicate = Arc<dyn Fn(&Snapshot, &Snapshot) -> bool + Send + Sync>;
pub(crate) type Mapper = Arc<dyn Fn(&Snapshot) -> Vec<Key> + Send + Sync>;

/// A watch of objects other than the controller's own kind.
///
/// ```
/// use std::sync::Arc;
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use steersman::{Action, Context, Controller, Watch, predicate};
///
/// async fn reconcile(map: Arc<ConfigMap>, ctx: Context) -> steersman::Result<Action> {
///     // A change of this secret brings this object back, and no other one.
///     let _password = ctx.get::<Secret>("password").await?;
///     Ok(Action::await_change())
/// }
/// let secrets = Watch::read::<Secret>().labels("for=maps").when(predicate::version_changed);
/// let controller = Controller::of_existing::<ConfigMap>(reconcile).watch(secrets);
/// ```
#[derive(Clone)]
#[must_use]
pub struct Watch {
    pub(crate) kind: Kind,
    pub(crate) selection: Selection,
    pub(crate) relation: Relation,
    pub(crate) predicate: Option<Predicate>,
    pub(crate) optional: bool,
}

#[derive(Clone)]
pub(crate) enum Relation {
    /// The controller's own kind.
    Primary,
    /// Objects that the controller's objects own.
    Owned,
    /// A function maps a change to objects. The name distinguishes functions.
    Mapped(&'static str, Mapper),
    /// A change triggers the objects whose reconcilers read it.
    Read,
}

impl Relation {
    fn name(&self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Owned => "owned",
            Self::Mapped(name, _) => name,
            Self::Read => "read",
        }
    }
}

impl Watch {
    fn new(kind: Kind, relation: Relation) -> Self {
        Self { kind, selection: Selection::default(), relation, predicate: None, optional: false }
    }

    pub(crate) fn primary(kind: Kind) -> Self {
        Self::new(kind, Relation::Primary)
    }

    /// Watches objects that the controller's own objects control: a change triggers the owner.
    ///
    /// ```
    /// use k8s_openapi::api::apps::v1::Deployment;
    /// use steersman::{Watch, predicate};
    ///
    /// let watch = Watch::owned::<Deployment>().when(predicate::generation_changed);
    /// ```
    pub fn owned<K: Object>() -> Self {
        Self::owned_kind(Kind::of::<K>())
    }

    /// As [`Watch::owned`], for a kind that is known at run time.
    pub fn owned_kind(kind: Kind) -> Self {
        Self::new(kind, Relation::Owned)
    }

    /// Watches objects that reconcilers read: a change triggers those whose last reconcile read the object. A
    /// [`get`](crate::Objects::get) reads the object of that name, even if it does not exist; a
    /// [`list`](crate::Objects::list), [`by_index`](crate::Objects::by_index) or [`owned`](crate::Objects::owned) reads
    /// every object that it returns, and those that it would return after the change.
    pub fn read<K: Object>() -> Self {
        Self::read_kind(Kind::of::<K>())
    }

    /// As [`Watch::read`], for a kind that is known at run time.
    pub fn read_kind(kind: Kind) -> Self {
        Self::new(kind, Relation::Read)
    }

    /// Watches objects, with a function that maps a change to the objects to reconcile. It is called with the state
    /// before a change and with the state after it. Its name distinguishes it from other functions on the same kind.
    pub fn mapped<K: Object>(
        name: &'static str,
        map: impl Fn(&K) -> Vec<Key> + Send + Sync + 'static,
    ) -> Self {
        let kind = Kind::of::<K>();
        Self::mapped_kind(kind, name, move |snapshot| match snapshot.parse::<K>() {
            Ok(object) => map(&object),
            Err(error) => {
                tracing::warn!(%error, "cannot decode a changed object to map it");
                Vec::new()
            }
        })
    }

    /// As [`Watch::mapped`], for a kind that is known at run time.
    pub fn mapped_kind(
        kind: Kind,
        name: &'static str,
        map: impl Fn(&Snapshot) -> Vec<Key> + Send + Sync + 'static,
    ) -> Self {
        Self::new(kind, Relation::Mapped(name, Arc::new(map)))
    }

    /// Selects objects by label, in the syntax of `kubectl --selector`. Others are neither cached nor seen, unless
    /// another watch of the kind selects them: reads see everything that the controller's watches select.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.selection.labels = Some(selector.into());
        self
    }

    /// Selects objects by field, in the syntax of `kubectl --field-selector`.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.selection.fields = Some(selector.into());
        self
    }

    /// Watches metadata only, so that the cache takes a fraction of the memory. [`crate::Context::metadata`] reads it. For
    /// kinds with many or large objects, if only labels, owners or existence matter. The controller is triggered by its own
    /// writes, too.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use steersman::Watch;
    ///
    /// let watch = Watch::owned::<Pod>().metadata_only();
    /// ```
    pub fn metadata_only(mut self) -> Self {
        self.selection.metadata = true;
        self
    }

    /// Filters updates by a predicate. Creation, the start of a deletion and its end always pass, as does an object
    /// recreated under the same name. See [`crate::predicate`].
    pub fn when(mut self, predicate: impl Fn(&Snapshot, &Snapshot) -> bool + Send + Sync + 'static) -> Self {
        self.predicate = Some(Arc::new(predicate));
        self
    }

    /// Does not wait for this watch, for kinds that the cluster may not serve yet. Every object is reconciled when
    /// the kind appears.
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// Whether it watches whole objects that the controller's objects control.
    pub(crate) fn is_owned_full(&self) -> bool {
        matches!(self.relation, Relation::Owned) && !self.selection.metadata
    }

    /// Whether two watches are equivalent.
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.selection == other.selection
            && self.relation.name() == other.relation.name()
    }

    /// Whether a change passes the predicate.
    pub(crate) fn passes(&self, change: &Change<'_>, guard: &PanicGuard) -> bool {
        let (Some(predicate), Some(old), Some(new)) = (&self.predicate, change.old, change.new) else {
            return true;
        };
        // A change must not be lost, even if the user's predicate panics.
        let predicate = |old, new| guard.run("a predicate", || predicate(old, new)).unwrap_or(true);
        let deleting = |snapshot: &Snapshot| snapshot.meta().is_ok_and(|meta| meta.deleting());
        let uid = |snapshot: &Snapshot| snapshot.meta().map(|meta| meta.uid.to_string()).unwrap_or_default();
        predicate(old, new) || deleting(old) != deleting(new) || uid(old) != uid(new)
    }

    /// Returns the objects of `owner` that a state maps to.
    pub(crate) fn affected(&self, owner: &Kind, state: &Snapshot, guard: &PanicGuard) -> Vec<Key> {
        match &self.relation {
            Relation::Primary => state.meta().map(|meta| vec![meta.key()]).unwrap_or_default(),
            Relation::Owned => controller_key(owner, state).into_iter().collect(),
            Relation::Mapped(name, map) => guard.run(name, || map(state)).unwrap_or_default(),
            Relation::Read => Vec::new(),
        }
    }
}

/// Catches, logs and counts panics of user functions outside a reconcile. Those are mappers, predicates and indexes;
/// a panic must not end the watch that calls them. Cheap to clone.
#[derive(Clone)]
pub(crate) struct PanicGuard {
    controller: Arc<str>,
    panics: Counter,
}

impl PanicGuard {
    pub(crate) fn new(controller: Arc<str>, metrics: &Metrics) -> Self {
        Self { panics: metrics.panics_of(&controller), controller }
    }

    /// Runs a function. `None`: it panicked.
    pub(crate) fn run<T>(&self, function: &str, work: impl FnOnce() -> T) -> Option<T> {
        let result = catch_unwind(AssertUnwindSafe(work));
        if result.is_err() {
            self.report(function);
        }
        result.ok()
    }

    pub(crate) fn report(&self, function: &str) {
        self.panics.inc();
        tracing::error!(controller = %self.controller, function, "a function of the controller panicked");
    }
}

/// Returns the object of a kind that is the controller of another one.
pub(crate) fn controller_key(owner: &Kind, state: &Snapshot) -> Option<Key> {
    let meta = state.meta().ok()?;
    let reference =
        meta.controller().filter(|reference| owner.matches(&reference.api_version, &reference.kind))?;
    let namespace = owner.namespaced().then_some(&*meta.namespace);
    Some(Key::new(namespace, &reference.name))
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.relation.name(), self.kind)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use serde_json::{Value, json};

    use super::*;
    use crate::cache::Incoming;

    fn snapshot(metadata: Value) -> Snapshot {
        let incoming: Incoming = serde_json::from_value(json!({"metadata": metadata})).unwrap();
        incoming.snapshot("test", Arc::from)
    }

    #[test]
    fn watches_are_the_same_if_they_hear_of_the_same() {
        let mapped = |name: &'static str| Watch::mapped_kind(Kind::of::<ConfigMap>(), name, |_| Vec::new());
        assert!(mapped("a").same(&mapped("a")) && !mapped("a").same(&mapped("b")));
        let owned = Watch::owned::<ConfigMap>;
        assert!(
            owned().same(&owned()) && !owned().same(&mapped("a")) && !owned().same(&Watch::owned::<Secret>())
        );
        assert!(!owned().same(&owned().labels("a=b")) && !owned().same(&owned().metadata_only()));
        assert!(!owned().same(&owned().fields("metadata.name=a")));
        assert!(!Watch::primary(Kind::of::<ConfigMap>()).same(&owned()));
        assert_eq!(format!("{:?}", owned()), "owned configmaps");
        assert_eq!(format!("{:?}", mapped("a")), "a configmaps");
        assert!(
            owned().is_owned_full()
                && !owned().metadata_only().is_owned_full()
                && !mapped("a").is_owned_full()
        );
    }

    #[test]
    fn predicates_are_asked_about_changes_alone() {
        let guard = PanicGuard::new("test".into(), &Metrics::new());
        let watch = Watch::owned::<ConfigMap>().when(|_, _| false);
        let key = Key::namespaced("lab", "a");
        let passes = |watch: &Watch, old: Option<&Snapshot>, new: Option<&Snapshot>| {
            watch.passes(&Change { key: &key, old, new, listed: false, author: None }, &guard)
        };
        let one = snapshot(json!({"name": "a", "uid": "1"}));
        let deleting =
            snapshot(json!({"name": "a", "uid": "1", "deletionTimestamp": "2026-01-01T00:00:00Z"}));
        let other = snapshot(json!({"name": "a", "uid": "2"}));
        assert!(!passes(&watch, Some(&one), Some(&one)));
        assert!(passes(&watch, None, Some(&one)) && passes(&watch, Some(&one), None));
        assert!(passes(&watch, Some(&one), Some(&deleting)), "its deletion was asked for");
        assert!(passes(&watch, Some(&one), Some(&other)), "it is another one");
        assert!(passes(&Watch::owned::<ConfigMap>(), Some(&one), Some(&one)));
        assert!(passes(&Watch::owned::<ConfigMap>().when(|_, _| true), Some(&one), Some(&one)));
        let broken = Watch::owned::<ConfigMap>().when(|_, _| panic!("as asked"));
        assert!(passes(&broken, Some(&one), Some(&one)), "a change is not lost");
        assert_eq!(guard.panics.get(), 1);
    }

    #[test]
    fn an_object_is_controlled_by_one_of_the_right_kind() {
        let owned = |kind: &str, controller: bool| {
            let owner = json!({"apiVersion": "v1", "kind": kind, "name": "owner", "uid": "1", "controller": controller});
            snapshot(json!({"name": "a", "namespace": "lab", "ownerReferences": [owner]}))
        };
        let secrets = Kind::of::<Secret>();
        assert_eq!(controller_key(&secrets, &owned("Secret", true)), Some(Key::namespaced("lab", "owner")));
        assert_eq!(controller_key(&secrets, &owned("Secret", false)), None);
        assert_eq!(controller_key(&secrets, &owned("Pod", true)), None);
        let nodes = Kind::of::<k8s_openapi::api::core::v1::Node>();
        assert_eq!(controller_key(&nodes, &owned("Node", true)), Some(Key::cluster("owner")));
    }
}
