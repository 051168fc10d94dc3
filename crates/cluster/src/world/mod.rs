//! The control loop: one task that watches every kind, keeps what it saw in caches, and lets the controllers look at
//! what changed, one object at a time.
//!
//! **Invariant:** controllers read from the caches and write through the client alone. What they wrote is in the caches
//! before the next one looks, so nobody acts on a picture older than their own deeds.
//!
//! **Invariant:** objects are looked at in the order in which their changes were seen. There is no other task and no
//! randomness, so a run on a paused clock with a seed repeats.

mod cache;
mod events;
mod graph;
mod kinds;
mod queue;
mod watch;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt as _, StreamExt as _, stream::SelectAll};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    Client, ResourceExt as _,
    api::{DeleteParams, PostParams, Preconditions},
    core::PartialObjectMeta,
};
use steersman_apiserver::{Environment, Server};
use tokio::sync::{Notify, watch as signal};

pub(crate) use cache::{controller_uid, name_of};
pub(crate) use events::Notice;
pub(crate) use graph::{FOREGROUND, Graph, Node as GraphNode, ORPHAN, ResourceInfo, qualified};
pub(crate) use kinds::{Caches, Kind};
pub(crate) use queue::Key;
pub(crate) use watch::ROOT_CERTIFICATE;

use self::{queue::Queue, watch::Changes};
use crate::{
    options::{Options, Part},
    workloads,
};

/// Who looks at a key.
pub(crate) use self::duty::Duty;

mod duty {
    /// A controller's work.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub(crate) enum Duty {
        /// Finds out what is served.
        Discovery,
        /// The garbage collector.
        Collect,
        Namespace,
        Accounts,
        ClusterRoles,
        Node,
        Lease,
        Pod,
        ReplicaSet,
        Deployment,
        StatefulSet,
        Service,
        Endpoints,
        Job,
        ReplicationController,
        DaemonSet,
        CronJob,
        Class,
        Claim,
        Volume,
        Budget,
        Autoscaler,
        Quota,
    }
}

/// The name under which controllers write.
pub(crate) const MANAGER: &str = "kube-controller-manager";

/// Everything that controllers see and use.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) options: Arc<Options>,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) caches: Caches,
    pub(crate) graph: Graph,
    /// What is served, by qualified name.
    pub(crate) resources: BTreeMap<String, Arc<ResourceInfo>>,
    pub(crate) kubelet: workloads::Kubelet,
    pub(crate) places: workloads::Places,
    pub(crate) evictions: workloads::Evictions,
    queue: Queue,
    told: events::Told,
    changes: SelectAll<Changes>,
    /// Watches that have not told everything yet.
    unsynced: usize,
    /// Names of resources in watches, shared by the graph's nodes.
    followed: HashMap<String, Arc<str>>,
}

/// How a cluster speaks to its control loop.
#[derive(Debug, Clone)]
pub(crate) struct Pulse {
    /// Wakes the loop.
    pub(crate) wake: Arc<Notify>,
    /// The revision up to which everything has been dealt with.
    pub(crate) settled: signal::Sender<u64>,
}

impl World {
    pub(crate) fn new(client: Client, options: Arc<Options>, environment: Arc<dyn Environment>) -> Self {
        Self {
            client,
            options,
            environment,
            caches: Caches::default(),
            graph: Graph::default(),
            resources: BTreeMap::new(),
            kubelet: workloads::Kubelet::default(),
            places: workloads::Places::default(),
            evictions: workloads::Evictions::default(),
            queue: Queue::default(),
            told: events::Told::default(),
            changes: SelectAll::new(),
            unsynced: 0,
            followed: HashMap::new(),
        }
    }

    /// Works until it is dropped.
    pub(crate) async fn run(mut self, server: Server, pulse: Pulse) {
        self.follow_kinds();
        self.push(Duty::Discovery, "", "");
        workloads::start(&mut self);
        let mut calm = false;
        loop {
            let revision = server.store().revision();
            while let Some(Some(change)) = self.changes.next().now_or_never() {
                change(&mut self);
                calm = false;
            }
            self.queue.fire();
            if let Some(key) = self.next_key() {
                self.look(key).await;
                calm = false;
                continue;
            }
            // A stream may pretend to have nothing when this task has had its share of the thread: ask twice.
            if !calm {
                calm = true;
                tokio::task::yield_now().await;
                continue;
            }
            calm = false;
            if self.unsynced == 0 {
                pulse.settled.send_replace(revision);
            }
            let timer = self.queue.next_timer();
            tokio::select! {
                biased;
                Some(change) = self.changes.next() => change(&mut self),
                () = pulse.wake.notified() => {}
                () = sleep_until(timer) => {}
            }
        }
    }

    /// Nothing but discovery is done before every watch has told what there is: a controller that believed that
    /// there are no pods would make them again.
    fn next_key(&mut self) -> Option<Key> {
        if self.unsynced == 0 {
            return self.queue.pop();
        }
        None
    }

    async fn look(&mut self, key: Key) {
        match workloads::look(self, &key).await {
            Ok(()) => self.queue.succeeded(&key),
            Err(error) => {
                tracing::debug!(?key, %error, "will be tried again");
                self.queue.retry(key);
            }
        }
    }

    /// The current time.
    pub(crate) fn now(&self) -> Timestamp {
        self.environment.now()
    }

    /// The current time as the API writes it: whole seconds.
    pub(crate) fn time(&self) -> Time {
        whole(self.now())
    }

    /// Has an object looked at.
    pub(crate) fn push(&mut self, duty: Duty, namespace: &str, name: &str) {
        self.queue.push(Key::new(duty, namespace, name));
    }

    /// Has an object looked at when `delay` has passed.
    pub(crate) fn push_after(&mut self, duty: Duty, namespace: &str, name: &str, delay: Duration) {
        self.queue.push_after(Key::new(duty, namespace, name), delay);
    }

    /// Creates an object.
    pub(crate) async fn create<K: Kind>(&mut self, object: &K) -> kube::Result<K> {
        let namespace = object.namespace().unwrap_or_default();
        let made = K::api(&self.client, &namespace).create(&params(), object).await?;
        self.know(made.clone());
        Ok(made)
    }

    /// Writes an object that was read before.
    pub(crate) async fn update<K: Kind>(&mut self, object: &K) -> kube::Result<K> {
        let namespace = object.namespace().unwrap_or_default();
        let made = K::api(&self.client, &namespace).replace(&object.name_any(), &params(), object).await?;
        self.know(made.clone());
        Ok(made)
    }

    /// Writes the status of an object that was read before.
    pub(crate) async fn update_status<K: Kind>(&mut self, object: &K) -> kube::Result<K> {
        let namespace = object.namespace().unwrap_or_default();
        let api = K::api(&self.client, &namespace);
        let made = api.replace_status(&object.name_any(), &params(), object).await?;
        self.know(made.clone());
        Ok(made)
    }

    /// Deletes an object, at once with a `grace` of zero. That it is gone already is no failure.
    pub(crate) async fn delete<K: Kind>(&mut self, object: &K, grace: Option<u32>) -> kube::Result<()> {
        let name = name_of(object);
        let options = DeleteParams {
            grace_period_seconds: grace,
            preconditions: Some(Preconditions { uid: object.uid(), resource_version: None }),
            propagation_policy: Some(kube::api::PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        match K::api(&self.client, &name.0).delete(&name.1, &options).await {
            Ok(answer) => {
                // Some kinds answer with their last state where others say that they are gone.
                let waiting = answer.left().filter(|left| {
                    let meta = left.meta();
                    meta.finalizers.as_ref().is_some_and(|f| !f.is_empty())
                        || meta.deletion_grace_period_seconds.is_some_and(|g| g > 0)
                });
                match waiting {
                    Some(waiting) => self.know(waiting),
                    None => self.forget::<K>(&name, object.uid().as_deref(), false),
                }
                Ok(())
            }
            Err(error) if is_missing(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Takes an object into the caches and tells whom it concerns.
    pub(crate) fn know<K: Kind>(&mut self, mut object: K) {
        // Nobody here asks who wrote which field, and it is the larger half of many objects.
        object.meta_mut().managed_fields = None;
        // What is older than what is known, or gone, must not come back to the graph either: nobody would take it out again.
        if let Some((old, new)) = K::cache_mut(&mut self.caches).put(object) {
            let resource = self.followed_name(&qualified(&K::group(&()), &K::plural(&())));
            let dirty = self.graph.put(&resource, new.meta());
            self.collect(dirty);
            self.count(new.meta().namespace.as_deref());
            K::changed(self, old.as_deref(), Some(&*new));
        }
    }

    /// Drops an object from the caches and tells whom it concerns.
    fn forget<K: Kind>(&mut self, name: &(String, String), uid: Option<&str>, seen: bool) {
        if let Some(old) = K::cache_mut(&mut self.caches).remove(name, uid, seen) {
            if let Some(uid) = &old.meta().uid {
                let dirty = self.graph.remove(uid);
                self.collect(dirty);
            }
            self.count(old.meta().namespace.as_deref());
            K::changed(self, Some(&*old), None);
        }
    }

    /// Takes in what is known of an object without a cache of its kind.
    fn know_meta<K>(&mut self, resource: &Arc<str>, object: &PartialObjectMeta<K>) {
        let dirty = self.graph.put(resource, &object.metadata);
        self.collect(dirty);
        self.count(object.metadata.namespace.as_deref());
    }

    /// Has the quotas of a namespace looked at in which something changed.
    fn count(&mut self, namespace: Option<&str>) {
        let Some(namespace) = namespace else { return };
        let quotas: Vec<String> = self.caches.quotas.within(namespace).map(|q| q.name_any()).collect();
        for name in quotas {
            self.push(Duty::Quota, namespace, &name);
        }
    }

    /// Has the garbage collector look at objects.
    pub(crate) fn collect(&mut self, uids: Vec<String>) {
        for uid in uids {
            self.push(Duty::Collect, "", &uid);
        }
    }

    fn followed_name(&mut self, qualified: &str) -> Arc<str> {
        if let Some(name) = self.followed.get(qualified) {
            return Arc::clone(name);
        }
        let name: Arc<str> = qualified.into();
        self.followed.insert(qualified.to_owned(), Arc::clone(&name));
        name
    }

    /// Whether a part is switched on.
    pub(crate) fn has(&self, part: Part) -> bool {
        self.options.has(part)
    }
}

fn params() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}

/// A moment as the API writes it: whole seconds.
pub(crate) fn whole(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

/// Whether the API says that there is no such object.
pub(crate) fn is_missing(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Whether the API says that there is such an object already.
pub(crate) fn exists_already(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.reason == "AlreadyExists")
}

async fn sleep_until(timer: Option<tokio::time::Instant>) {
    match timer {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
