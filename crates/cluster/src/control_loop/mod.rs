//! The control loop: one task that watches every kind, caches the objects, and reconciles the changed ones, one at a time.
//!
//! **Invariant:** controllers read from the caches and write only through the client. Their writes are in the caches before
//! the next reconcile, so no controller acts on state older than its own writes.
//!
//! **Invariant:** items are reconciled in the order in which their changes were observed. There is no other task and no
//! randomness, so a run with a seed on a paused clock is repeatable.
//!
//! **Invariant:** no object delays the others. One reconcile makes at most [`BURST`] writes, and the rest is done after the
//! other items. A slow request is awaited outside the loop, while its object is held back. A panic is caught and counted,
//! and its object retried.

mod actor;
mod cache;
mod clock;
mod controller;
mod deletion;
mod events;
mod graph;
mod handle;
mod kinds;
mod log;
mod queue;
mod requests;
mod run;
mod saved;
mod watch;

use std::{
    any::Any,
    collections::{BTreeMap, HashMap},
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use futures::{
    future::BoxFuture,
    stream::{FuturesUnordered, SelectAll},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    Client, ResourceExt as _,
    api::{DeleteParams, PostParams, Preconditions},
    core::{PartialObjectMeta, Request, request},
};
use steersman_api::environment::{Environment, SteppedEnvironment};
use steersman_apiserver::Server;

pub(crate) use actor::Actor;
pub(crate) use cache::{Cache, controller_uid, name_of};
pub(crate) use clock::{Clock, ClockChange};
pub(crate) use controller::Controller;
pub(crate) use deletion::Deletion;
pub(crate) use events::NewEvent;
pub(crate) use graph::{FOREGROUND, Graph, Node as GraphNode, ORPHAN, ResourceInfo, qualified};
pub(crate) use handle::LoopHandle;
pub(crate) use kinds::{Caches, Kind};
pub(crate) use queue::WorkItem;
pub(crate) use run::run;
pub(crate) use saved::SavedLoop;
pub(crate) use watch::{ACCOUNT_NAME, ROOT_CERTIFICATE};

use self::{
    queue::Queue,
    requests::{LateAnswer, Requests},
    watch::Changes,
};
use crate::{
    options::{Options, Part},
    user_service::UserService,
    workloads::{Autoscalers, Evictions, Kubelet, NodeCapacity},
};

/// The controllers' field manager.
pub(crate) const MANAGER: &str = "kube-controller-manager";

/// Writes per reconcile: `burstReplicas` of the real ReplicaSet controller, and the limit of the Job controller.
pub(crate) const BURST: usize = 500;
/// Unscheduled pods in a namespace from which on controllers create no more pods there.
const MAX_UNSCHEDULED: usize = 500;
/// State of the current reconcile.
#[derive(Debug, Default)]
struct ReconcileState {
    writes: usize,
    /// Whether work is left over that exceeds the limit of one reconcile.
    again: bool,
    /// Number of unscheduled pods, if too many to create more.
    unscheduled: Option<usize>,
}

/// The outcome of a late request, with the item that it was made for.
type LateOutcome = (WorkItem, Result<Option<LateAnswer>, Box<dyn Any + Send>>);

/// A write request, or why it could not be built.
type WriteRequest = Result<http::Request<Vec<u8>>, request::Error>;

/// State and API that controllers share.
pub(crate) struct ControlLoop {
    pub(crate) client: Client,
    server: Server,
    /// For watches, which are not part of a reconcile.
    watch_client: Client,
    requests: Requests,
    /// The actor of the current reconcile.
    actor: Actor,
    state: ReconcileState,
    /// Requests that are still pending after their time limit.
    late: FuturesUnordered<BoxFuture<'static, LateOutcome>>,
    /// Responses to late requests, for the next reconcile of their objects.
    late_answers: HashMap<WorkItem, LateAnswer>,
    panics: Arc<AtomicU64>,
    pub(crate) options: Arc<Options>,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) clock: Clock,
    pub(crate) caches: Caches,
    pub(crate) graph: Graph,
    /// The served resources, by qualified name.
    pub(crate) resources: BTreeMap<String, Arc<ResourceInfo>>,
    pub(crate) kubelet: Kubelet,
    pub(crate) capacity: NodeCapacity,
    pub(crate) evictions: Evictions,
    pub(crate) autoscalers: Autoscalers,
    queue: Queue,
    events: events::EventCorrelator,
    changes: SelectAll<Changes>,
    /// Number of watches that have not synced yet.
    unsynced: usize,
    /// Names of the watched resources, shared by the graph's nodes.
    watched: HashMap<String, Arc<str>>,
}

/// Configuration of a control loop.
pub(crate) struct LoopConfig {
    /// The API server, called as the controllers' user.
    pub(crate) server: UserService,
    pub(crate) options: Arc<Options>,
    pub(crate) clock: Arc<SteppedEnvironment>,
    /// The state that the first loop continues from. Default: it lists everything.
    pub(crate) saved: Option<Arc<SavedLoop>>,
}

impl ControlLoop {
    fn new(config: &LoopConfig, server: Server, panics: Arc<AtomicU64>) -> Self {
        let requests = Requests::new(config.server.inner());
        Self {
            client: Client::new(requests.clone(), "default"),
            server,
            watch_client: Client::new(config.server.clone(), "default"),
            requests,
            actor: Actor::ControllerManager,
            state: ReconcileState::default(),
            late: FuturesUnordered::new(),
            late_answers: HashMap::new(),
            panics,
            options: Arc::clone(&config.options),
            environment: Arc::<SteppedEnvironment>::clone(&config.clock),
            clock: Clock::new(Arc::clone(&config.clock)),
            caches: Caches::default(),
            graph: Graph::default(),
            resources: BTreeMap::new(),
            kubelet: Kubelet::default(),
            capacity: NodeCapacity::default(),
            evictions: Evictions::default(),
            autoscalers: Autoscalers::default(),
            queue: Queue::new(Clock::new(Arc::clone(&config.clock))),
            events: events::EventCorrelator::default(),
            changes: SelectAll::new(),
            unsynced: 0,
            watched: HashMap::new(),
        }
    }

    /// Continues the current reconcile as another component of the control plane.
    pub(crate) fn act_as(&mut self, actor: Actor) {
        self.requests.act_as(actor.user());
        self.actor = actor;
    }

    /// Returns the parameters of writes, with the actor's field manager.
    pub(crate) fn params(&self) -> PostParams {
        PostParams { field_manager: Some(self.actor.manager().to_owned()), ..PostParams::default() }
    }

    /// Counts a write of this reconcile that was not made through [`ControlLoop`].
    pub(crate) fn spend(&mut self) {
        self.state.writes += 1;
    }

    /// Whether this reconcile has reached its limit of writes. The rest is then done after the other items.
    pub(crate) fn is_spent(&mut self) -> bool {
        let spent = self.state.writes >= BURST;
        self.state.again |= spent;
        spent
    }

    /// Whether a controller must not create more pods now.
    ///
    /// Either the reconcile is spent, or too many pods of the namespace are unscheduled: the object is then enqueued when
    /// one is bound.
    pub(crate) fn should_hold_back_pods(&mut self, namespace: &str) -> bool {
        let unscheduled = self.capacity.unscheduled(namespace);
        if unscheduled >= MAX_UNSCHEDULED {
            self.state.unscheduled = Some(unscheduled);
            return true;
        }
        self.is_spent()
    }

    /// Returns how many pods are unscheduled, if that is why no more are created.
    pub(crate) fn held_back(&self) -> Option<usize> {
        self.state.unscheduled
    }

    /// Returns the current time.
    pub(crate) fn now(&self) -> Timestamp {
        self.environment.now()
    }

    /// Returns the current time in the API's precision: whole seconds.
    pub(crate) fn time(&self) -> Time {
        whole(self.now())
    }

    /// Enqueues an object.
    pub(crate) fn push(&mut self, controller: Controller, namespace: &str, name: &str) {
        self.queue.push(WorkItem::new(controller, namespace, name));
    }

    /// Enqueues an object after `delay`.
    pub(crate) fn push_after(
        &mut self,
        controller: Controller,
        namespace: &str,
        name: &str,
        delay: Duration,
    ) {
        self.queue.push_after(WorkItem::new(controller, namespace, name), delay);
    }

    /// Creates an object.
    pub(crate) async fn create<K: Kind>(&mut self, object: &K) -> kube::Result<K> {
        let namespace = object.namespace().unwrap_or_default();
        self.spend();
        let request = self.request_to::<K>(&namespace).create(&self.params(), encode(object)?);
        self.write(request).await
    }

    /// Replaces an object that was read before.
    pub(crate) async fn update<K: Kind>(&mut self, object: &K) -> kube::Result<K> {
        let namespace = object.namespace().unwrap_or_default();
        self.spend();
        let name = object.name_any();
        let request = self.request_to::<K>(&namespace).replace(&name, &self.params(), encode(object)?);
        self.write(request).await
    }

    /// Replaces the status of an object that was read before.
    pub(crate) async fn update_status<K: Kind>(&mut self, object: &K) -> kube::Result<K> {
        let namespace = object.namespace().unwrap_or_default();
        self.spend();
        let (name, params) = (object.name_any(), self.params());
        let request = self.request_to::<K>(&namespace);
        let request = request.replace_subresource("status", &name, &params, encode(object)?);
        self.write(request).await
    }

    fn request_to<K: Kind>(&self, namespace: &str) -> Request {
        Request::new(K::api(&self.client, namespace).resource_url())
    }

    /// Sends a write request and caches the response.
    async fn write<K: Kind>(&mut self, request: WriteRequest) -> kube::Result<K> {
        let request = request.map_err(kube::Error::BuildRequest)?;
        let answer = self.client.request_text(request).await?;
        let made: K = serde_json::from_str(&answer).map_err(kube::Error::SerdeError)?;
        self.put_object(made.clone());
        Ok(made)
    }

    /// Deletes an object, immediately with a `grace` of zero. Succeeds if it is already gone.
    pub(crate) async fn delete<K: Kind>(&mut self, object: &K, grace: Option<u32>) -> kube::Result<()> {
        let name = name_of(object);
        let options = DeleteParams {
            grace_period_seconds: grace,
            preconditions: Some(Preconditions { uid: object.uid(), resource_version: None }),
            propagation_policy: Some(kube::api::PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        self.spend();
        let api = K::api(&self.client, &name.0);
        match Deletion::of(&self.client, api.resource_url(), &name.1, &options).await {
            Ok(Deletion::Pending(answer)) => {
                let pending: K = serde_json::from_str(&answer).map_err(kube::Error::SerdeError)?;
                self.put_object(pending);
            }
            Ok(Deletion::Gone) => self.remove_object::<K>(&name, object.uid().as_deref(), false),
            Err(error) if is_not_found(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Stores an object in the caches and enqueues what the change affects.
    pub(crate) fn put_object<K: Kind>(&mut self, mut object: K) {
        // No controller reads managedFields, which is more than half of many objects.
        object.meta_mut().managed_fields = None;
        // An older or deleted object must not return to the graph either: nothing would ever remove it.
        if let Some((old, new)) = K::cache_mut(&mut self.caches).put(object) {
            let resource = self.watched_name(&qualified(&K::group(&()), &K::plural(&())));
            let dirty = self.graph.put(&resource, new.meta());
            self.enqueue_garbage(dirty);
            self.enqueue_quotas(new.meta().namespace.as_deref());
            K::changed(self, old.as_deref(), Some(&*new));
        }
    }

    /// Removes an object from the caches and enqueues what the change affects.
    fn remove_object<K: Kind>(&mut self, name: &(String, String), uid: Option<&str>, seen: bool) {
        if let Some(old) = K::cache_mut(&mut self.caches).remove(name, uid, seen) {
            if let Some(uid) = &old.meta().uid {
                let dirty = self.graph.remove(uid);
                self.enqueue_garbage(dirty);
            }
            self.enqueue_quotas(old.meta().namespace.as_deref());
            K::changed(self, Some(&*old), None);
        }
    }

    /// Records the ownership of an object whose kind has no cache.
    fn put_metadata<K>(&mut self, resource: &Arc<str>, object: &PartialObjectMeta<K>) {
        let dirty = self.graph.put(resource, &object.metadata);
        self.enqueue_garbage(dirty);
        self.enqueue_quotas(object.metadata.namespace.as_deref());
    }

    /// Enqueues the quotas of a namespace in which something changed.
    fn enqueue_quotas(&mut self, namespace: Option<&str>) {
        let Some(namespace) = namespace else { return };
        let quotas: Vec<String> = self.caches.quotas.within(namespace).map(|q| q.name_any()).collect();
        for name in quotas {
            self.push(Controller::Quota, namespace, &name);
        }
    }

    /// Enqueues objects for the garbage collector.
    pub(crate) fn enqueue_garbage(&mut self, uids: Vec<String>) {
        for uid in uids {
            self.push(Controller::Collect, "", &uid);
        }
    }

    fn watched_name(&mut self, qualified: &str) -> Arc<str> {
        if let Some(name) = self.watched.get(qualified) {
            return Arc::clone(name);
        }
        let name: Arc<str> = qualified.into();
        self.watched.insert(qualified.to_owned(), Arc::clone(&name));
        name
    }

    /// Whether a part of the workloads is enabled.
    pub(crate) fn has(&self, part: Part) -> bool {
        self.options.has(part)
    }
}

/// Truncates a time to the API's precision: whole seconds.
pub(crate) fn whole(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

fn encode<K: Kind>(object: &K) -> kube::Result<Vec<u8>> {
    serde_json::to_vec(object).map_err(kube::Error::SerdeError)
}

/// Whether the API answered 404.
pub(crate) fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Whether the API answered `AlreadyExists`.
pub(crate) fn is_already_exists(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.reason == "AlreadyExists")
}
