//! The kinds that controllers know as types, and whom a change of one concerns.

use std::fmt;

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet},
    autoscaling::v2::HorizontalPodAutoscaler,
    batch::v1::{CronJob, Job},
    core::v1::{
        Endpoints, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController,
        ResourceQuota, Service, ServiceAccount,
    },
    discovery::v1::EndpointSlice,
    policy::v1::PodDisruptionBudget,
    storage::v1::StorageClass,
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
    endpoints: Endpoints, namespaced;
    jobs: Job, namespaced;
    stateful_sets: StatefulSet, namespaced;
    controller_revisions: ControllerRevision, namespaced;
    replication_controllers: ReplicationController, namespaced;
    daemon_sets: DaemonSet, namespaced;
    cron_jobs: CronJob, namespaced;
    storage_classes: StorageClass, cluster;
    volumes: PersistentVolume, cluster;
    claims: PersistentVolumeClaim, namespaced;
    budgets: PodDisruptionBudget, namespaced;
    autoscalers: HorizontalPodAutoscaler, namespaced;
    quotas: ResourceQuota, namespaced;
}

/// Whom changes concern, per kind.
mod routes {
    use kube::ResourceExt as _;

    use super::{
        ControllerRevision, CronJob, DaemonSet, Deployment, Duty, EndpointSlice, Endpoints,
        HorizontalPodAutoscaler, Job, Kind, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
        PodDisruptionBudget, ReplicaSet, ReplicationController, Resource, ResourceQuota, Service,
        ServiceAccount, StatefulSet, StorageClass, World,
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
            "Endpoints" => Duty::Endpoints,
            "Job" => Duty::Job,
            "StatefulSet" => Duty::StatefulSet,
            "ReplicationController" => Duty::ReplicationController,
            "DaemonSet" => Duty::DaemonSet,
            "CronJob" => Duty::CronJob,
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
        let taints =
            |node: Option<&Node>| node.and_then(|n| n.spec.as_ref()?.taints.clone()).unwrap_or_default();
        let name = new.or(old).map(kube::ResourceExt::name_any).filter(|_| taints(old) != taints(new));
        let waiting: Vec<_> = world
            .caches
            .pods
            .all()
            .filter(|p| match p.spec.as_ref().and_then(|s| s.node_name.as_ref()) {
                Some(node) => Some(node) == name.as_ref(),
                None => true,
            })
            .map(|p| (p.namespace().unwrap_or_default(), p.name_any()))
            .collect();
        for (namespace, name) in waiting {
            world.push(Duty::Pod, &namespace, &name);
        }
        let daemons =
            world.caches.daemon_sets.all().map(|d| (d.namespace().unwrap_or_default(), d.name_any()));
        for (namespace, name) in daemons.collect::<Vec<_>>() {
            world.push(Duty::DaemonSet, &namespace, &name);
        }
    }

    /// Has every object of a kind in a namespace looked at.
    fn all_within<K: Kind>(world: &mut World, duty: Duty, namespace: &str) {
        let names: Vec<String> = K::cache(&world.caches).within(namespace).map(|o| o.name_any()).collect();
        for name in names {
            world.push(duty, namespace, &name);
        }
    }

    pub(super) fn pods(world: &mut World, old: Option<&Pod>, new: Option<&Pod>) {
        own(world, Duty::Pod, old, new);
        crate::workloads::settle(world, old, new);
        for pod in [old, new].into_iter().flatten() {
            owners(world, pod);
            services_of(world, pod);
        }
        let Some(pod) = new.or(old) else { return };
        let namespace = pod.namespace().unwrap_or_default();
        all_within::<PodDisruptionBudget>(world, Duty::Budget, &namespace);
        if new.is_some_and(is_orphan) {
            all_within::<ReplicaSet>(world, Duty::ReplicaSet, &namespace);
            all_within::<ReplicationController>(world, Duty::ReplicationController, &namespace);
            all_within::<StatefulSet>(world, Duty::StatefulSet, &namespace);
            all_within::<DaemonSet>(world, Duty::DaemonSet, &namespace);
            all_within::<Job>(world, Duty::Job, &namespace);
        }
        let claims: Vec<String> = pod
            .spec
            .iter()
            .flat_map(|s| s.volumes.iter().flatten())
            .filter_map(|v| Some(v.persistent_volume_claim.as_ref()?.claim_name.clone()))
            .collect();
        for claim in claims {
            world.push(Duty::Claim, &namespace, &claim);
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
        own(world, Duty::Endpoints, old, new);
    }

    pub(super) fn endpoints(world: &mut World, old: Option<&Endpoints>, new: Option<&Endpoints>) {
        own(world, Duty::Endpoints, old, new);
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
        for job in [old, new].into_iter().flatten() {
            owners(world, job);
        }
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
    pub(super) fn replication_controllers(
        world: &mut World,
        old: Option<&ReplicationController>,
        new: Option<&ReplicationController>,
    ) {
        own(world, Duty::ReplicationController, old, new);
    }

    pub(super) fn daemon_sets(world: &mut World, old: Option<&DaemonSet>, new: Option<&DaemonSet>) {
        own(world, Duty::DaemonSet, old, new);
    }

    pub(super) fn cron_jobs(world: &mut World, old: Option<&CronJob>, new: Option<&CronJob>) {
        own(world, Duty::CronJob, old, new);
    }

    pub(super) fn storage_classes(world: &mut World, old: Option<&StorageClass>, new: Option<&StorageClass>) {
        if old.is_some() == new.is_some() {
            return;
        }
        let waiting: Vec<_> = world
            .caches
            .claims
            .all()
            .filter(|c| c.status.as_ref().is_none_or(|s| s.phase.as_deref() != Some("Bound")))
            .map(|c| (c.namespace().unwrap_or_default(), c.name_any()))
            .collect();
        for (namespace, name) in waiting {
            world.push(Duty::Claim, &namespace, &name);
        }
    }

    pub(super) fn volumes(world: &mut World, old: Option<&PersistentVolume>, new: Option<&PersistentVolume>) {
        own(world, Duty::Volume, old, new);
        let Some(volume) = new.or(old) else { return };
        if let Some(claim) = volume.spec.as_ref().and_then(|s| s.claim_ref.clone()) {
            world.push(Duty::Claim, &claim.namespace.unwrap_or_default(), &claim.name.unwrap_or_default());
        }
    }

    pub(super) fn claims(
        world: &mut World,
        old: Option<&PersistentVolumeClaim>,
        new: Option<&PersistentVolumeClaim>,
    ) {
        own(world, Duty::Claim, old, new);
        let names = [old, new].into_iter().flatten();
        for name in names.filter_map(|c| c.spec.as_ref()?.volume_name.clone()) {
            world.push(Duty::Volume, "", &name);
        }
    }

    pub(super) fn budgets(
        world: &mut World,
        old: Option<&PodDisruptionBudget>,
        new: Option<&PodDisruptionBudget>,
    ) {
        own(world, Duty::Budget, old, new);
    }

    pub(super) fn autoscalers(
        world: &mut World,
        old: Option<&HorizontalPodAutoscaler>,
        new: Option<&HorizontalPodAutoscaler>,
    ) {
        own(world, Duty::Autoscaler, old, new);
    }

    pub(super) fn quotas(world: &mut World, old: Option<&ResourceQuota>, new: Option<&ResourceQuota>) {
        own(world, Duty::Quota, old, new);
    }
}
