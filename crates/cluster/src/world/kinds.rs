//! The kinds that controllers know as types, and whom a change of one concerns.

use std::fmt;

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, Deployment, ReplicaSet, StatefulSet},
    batch::v1::Job,
    core::v1::{Namespace, Node, Pod, Service, ServiceAccount},
    discovery::v1::EndpointSlice,
};
use kube::{Api, Client, Resource};
use serde::{Serialize, de::DeserializeOwned};

use super::{Duty, World, cache::Cache};

/// A kind with a cache.
pub(crate) trait Kind:
    Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + fmt::Debug + Send + Sync + 'static
{
    /// Where its objects are known.
    fn cache(caches: &Caches) -> &Cache<Self>;
    /// The same, to change.
    fn cache_mut(caches: &mut Caches) -> &mut Cache<Self>;
    /// The door to its objects in a namespace.
    fn api(client: &Client, namespace: &str) -> Api<Self>;
    /// Tells whom it concerns that `old` became `new`.
    fn changed(world: &mut World, old: Option<&Self>, new: Option<&Self>);
}

macro_rules! scoped {
    (namespaced, $client:expr, $namespace:expr) => {
        Api::namespaced($client.clone(), $namespace)
    };
    (cluster, $client:expr, $namespace:expr) => {{
        let _ = $namespace;
        Api::all($client.clone())
    }};
}

macro_rules! kinds {
    ($($field:ident: $kind:ty, $scope:ident;)*) => {
        /// One cache per kind.
        #[derive(Debug, Default)]
        pub(crate) struct Caches {
            $(pub(crate) $field: Cache<$kind>,)*
        }

        $(impl Kind for $kind {
            fn cache(caches: &Caches) -> &Cache<Self> {
                &caches.$field
            }

            fn cache_mut(caches: &mut Caches) -> &mut Cache<Self> {
                &mut caches.$field
            }

            fn api(client: &Client, namespace: &str) -> Api<Self> {
                scoped!($scope, client, namespace)
            }

            fn changed(world: &mut World, old: Option<&Self>, new: Option<&Self>) {
                routes::$field(world, old, new);
            }
        })*

        impl World {
            /// Watches every kind with a cache.
            pub(super) fn follow_kinds(&mut self) {
                $(self.follow::<$kind>();)*
            }
        }
    };
}

kinds! {
    namespaces: Namespace, cluster;
    service_accounts: ServiceAccount, namespaced;
    nodes: Node, cluster;
    pods: Pod, namespaced;
    replica_sets: ReplicaSet, namespaced;
    deployments: Deployment, namespaced;
    services: Service, namespaced;
    endpoint_slices: EndpointSlice, namespaced;
    jobs: Job, namespaced;
    stateful_sets: StatefulSet, namespaced;
    controller_revisions: ControllerRevision, namespaced;
}

/// Whom changes concern, per kind.
mod routes {
    use kube::ResourceExt as _;

    use super::{
        ControllerRevision, Deployment, Duty, EndpointSlice, Job, Namespace, Node, Pod, ReplicaSet, Resource,
        Service, ServiceAccount, StatefulSet, World,
    };

    fn own<K: Resource>(world: &mut World, duty: Duty, old: Option<&K>, new: Option<&K>) {
        if let Some(object) = new.or(old) {
            world.push(duty, &object.namespace().unwrap_or_default(), &object.name_any());
        }
    }

    /// Wakes whoever controls the object, or whoever might adopt it.
    fn owners<K: Resource>(world: &mut World, object: &K) {
        let namespace = object.namespace().unwrap_or_default();
        let controller = object.meta().owner_references.iter().flatten().find(|o| o.controller == Some(true));
        let Some(owner) = controller else { return };
        let duty = match owner.kind.as_str() {
            "ReplicaSet" => Duty::ReplicaSet,
            "Deployment" => Duty::Deployment,
            "Service" => Duty::Service,
            "Job" => Duty::Job,
            "StatefulSet" => Duty::StatefulSet,
            _ => return,
        };
        world.push(duty, &namespace, &owner.name);
    }

    fn is_orphan<K: Resource>(object: &K) -> bool {
        !object.meta().owner_references.iter().flatten().any(|o| o.controller == Some(true))
    }

    pub(super) fn namespaces(world: &mut World, old: Option<&Namespace>, new: Option<&Namespace>) {
        own(world, Duty::Namespace, old, new);
        own(world, Duty::Accounts, old, new);
    }

    pub(super) fn service_accounts(
        world: &mut World,
        old: Option<&ServiceAccount>,
        new: Option<&ServiceAccount>,
    ) {
        if let (Some(account), None) = (old, new) {
            world.push(Duty::Accounts, "", &account.namespace().unwrap_or_default());
        }
    }

    pub(super) fn nodes(world: &mut World, old: Option<&Node>, new: Option<&Node>) {
        own(world, Duty::Node, old, new);
        let waiting: Vec<_> = world
            .caches
            .pods
            .all()
            .filter(|p| p.spec.as_ref().is_some_and(|s| s.node_name.is_none()))
            .map(|p| (p.namespace().unwrap_or_default(), p.name_any()))
            .collect();
        for (namespace, name) in waiting {
            world.push(Duty::Pod, &namespace, &name);
        }
    }

    pub(super) fn pods(world: &mut World, old: Option<&Pod>, new: Option<&Pod>) {
        own(world, Duty::Pod, old, new);
        for pod in [old, new].into_iter().flatten() {
            owners(world, pod);
            services_of(world, pod);
        }
        if let Some(pod) = new.filter(|p| is_orphan(*p)) {
            let namespace = pod.namespace().unwrap_or_default();
            let sets: Vec<String> =
                world.caches.replica_sets.within(&namespace).map(|s| s.name_any()).collect();
            for name in sets {
                world.push(Duty::ReplicaSet, &namespace, &name);
            }
        }
    }

    /// Wakes the services that lead to a pod.
    fn services_of(world: &mut World, pod: &Pod) {
        let namespace = pod.namespace().unwrap_or_default();
        let leads = |service: &Service| {
            let selector = service.spec.as_ref().and_then(|s| s.selector.as_ref());
            selector.is_some_and(|s| !s.is_empty() && s.iter().all(|(k, v)| pod.labels().get(k) == Some(v)))
        };
        let names: Vec<String> =
            world.caches.services.within(&namespace).filter(|s| leads(s)).map(|s| s.name_any()).collect();
        for name in names {
            world.push(Duty::Service, &namespace, &name);
        }
    }

    pub(super) fn stateful_sets(world: &mut World, old: Option<&StatefulSet>, new: Option<&StatefulSet>) {
        own(world, Duty::StatefulSet, old, new);
    }

    pub(super) fn controller_revisions(
        world: &mut World,
        old: Option<&ControllerRevision>,
        new: Option<&ControllerRevision>,
    ) {
        if let (Some(revision), None) = (old, new) {
            owners(world, revision);
        }
    }

    pub(super) fn services(world: &mut World, old: Option<&Service>, new: Option<&Service>) {
        own(world, Duty::Service, old, new);
    }

    pub(super) fn endpoint_slices(
        world: &mut World,
        old: Option<&EndpointSlice>,
        new: Option<&EndpointSlice>,
    ) {
        if let Some(slice) = new.or(old) {
            owners(world, slice);
        }
    }

    pub(super) fn jobs(world: &mut World, old: Option<&Job>, new: Option<&Job>) {
        own(world, Duty::Job, old, new);
        // Pods wait for their job to count them, which one that goes no longer does.
        if new.is_none_or(|job| job.meta().deletion_timestamp.is_some()) {
            let uid = old.or(new).and_then(kube::ResourceExt::uid).unwrap_or_default();
            let pods: Vec<_> = world
                .caches
                .pods
                .controlled_by(&uid)
                .map(|p| (p.namespace().unwrap_or_default(), p.name_any()))
                .collect();
            for (namespace, name) in pods {
                world.push(Duty::Pod, &namespace, &name);
            }
        }
    }

    pub(super) fn replica_sets(world: &mut World, old: Option<&ReplicaSet>, new: Option<&ReplicaSet>) {
        own(world, Duty::ReplicaSet, old, new);
        for set in [old, new].into_iter().flatten() {
            owners(world, set);
        }
        if let Some(set) = new.filter(|s| is_orphan(*s)) {
            let namespace = set.namespace().unwrap_or_default();
            let names: Vec<String> =
                world.caches.deployments.within(&namespace).map(|d| d.name_any()).collect();
            for name in names {
                world.push(Duty::Deployment, &namespace, &name);
            }
        }
    }

    pub(super) fn deployments(world: &mut World, old: Option<&Deployment>, new: Option<&Deployment>) {
        own(world, Duty::Deployment, old, new);
    }
}
