//! The kinds that have a cache, and which items a change of their objects enqueues.

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

use super::{ControlLoop, Controller, cache::Cache};

/// A kind with a cache.
pub(crate) trait Kind:
    Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + fmt::Debug + Send + Sync + 'static
{
    /// Returns the cache of the kind.
    fn cache(caches: &Caches) -> &Cache<Self>;
    /// Returns the cache of the kind, mutably.
    fn cache_mut(caches: &mut Caches) -> &mut Cache<Self>;
    /// Returns the API of the kind in a namespace.
    fn api(client: &Client, namespace: &str) -> Api<Self>;
    /// Enqueues the items that a change from `old` to `new` affects.
    fn changed(control: &mut ControlLoop, old: Option<&Self>, new: Option<&Self>);
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
        #[derive(Debug, Clone, Default)]
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

            fn changed(control: &mut ControlLoop, old: Option<&Self>, new: Option<&Self>) {
                routes::$field(control, old, new);
            }
        })*

        impl ControlLoop {
            /// Watches every kind with a cache. With `known`, the caches are current up to that revision.
            pub(super) fn watch_kinds(&mut self, known: Option<u64>) {
                $(self.watch::<$kind>(known);)*
            }
        }

        /// Returns group, version and plural of every kind with a cache.
        #[cfg(test)]
        pub(super) fn cached_kinds() -> Vec<[String; 3]> {
            vec![$([<$kind>::group(&()), <$kind>::version(&()), <$kind>::plural(&())].map(String::from)),*]
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

/// Per kind, which items a change enqueues.
mod routes {
    use kube::ResourceExt as _;

    use super::{
        ControlLoop, Controller, ControllerRevision, CronJob, DaemonSet, Deployment, EndpointSlice,
        Endpoints, HorizontalPodAutoscaler, Job, Kind, Namespace, Node, PersistentVolume,
        PersistentVolumeClaim, Pod, PodDisruptionBudget, ReplicaSet, ReplicationController, Resource,
        ResourceQuota, Service, ServiceAccount, StatefulSet, StorageClass,
    };

    fn own<K: Resource>(control: &mut ControlLoop, controller: Controller, old: Option<&K>, new: Option<&K>) {
        if let Some(object) = new.or(old) {
            control.push(controller, &object.namespace().unwrap_or_default(), &object.name_any());
        }
    }

    /// Enqueues the controlling owner of the object.
    fn owners<K: Resource>(control: &mut ControlLoop, object: &K) {
        let namespace = object.namespace().unwrap_or_default();
        let controller = object.meta().owner_references.iter().flatten().find(|o| o.controller == Some(true));
        let Some(owner) = controller else { return };
        let controller = match owner.kind.as_str() {
            "ReplicaSet" => Controller::ReplicaSet,
            "Deployment" => Controller::Deployment,
            "Service" => Controller::Service,
            "Endpoints" => Controller::Endpoints,
            "Job" => Controller::Job,
            "StatefulSet" => Controller::StatefulSet,
            "ReplicationController" => Controller::ReplicationController,
            "DaemonSet" => Controller::DaemonSet,
            "CronJob" => Controller::CronJob,
            _ => return,
        };
        control.push(controller, &namespace, &owner.name);
    }

    fn is_orphan<K: Resource>(object: &K) -> bool {
        !object.meta().owner_references.iter().flatten().any(|o| o.controller == Some(true))
    }

    pub(super) fn namespaces(control: &mut ControlLoop, old: Option<&Namespace>, new: Option<&Namespace>) {
        own(control, Controller::Namespace, old, new);
        own(control, Controller::Accounts, old, new);
    }

    pub(super) fn service_accounts(
        control: &mut ControlLoop,
        old: Option<&ServiceAccount>,
        new: Option<&ServiceAccount>,
    ) {
        if let (Some(account), None) = (old, new) {
            let namespace = account.namespace().unwrap_or_default();
            control.push(Controller::Accounts, "", &namespace);
            control.push(Controller::TokenSecret, &namespace, "");
        }
    }

    pub(super) fn nodes(control: &mut ControlLoop, old: Option<&Node>, new: Option<&Node>) {
        own(control, Controller::Node, old, new);
        let taints =
            |node: Option<&Node>| node.and_then(|n| n.spec.as_ref()?.taints.clone()).unwrap_or_default();
        let name = new.or(old).map(kube::ResourceExt::name_any).filter(|_| taints(old) != taints(new));
        let waiting: Vec<_> = control
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
            control.push(Controller::Pod, &namespace, &name);
        }
        let daemons =
            control.caches.daemon_sets.all().map(|d| (d.namespace().unwrap_or_default(), d.name_any()));
        for (namespace, name) in daemons.collect::<Vec<_>>() {
            control.push(Controller::DaemonSet, &namespace, &name);
        }
    }

    /// Enqueues every object of a kind in a namespace.
    fn all_within<K: Kind>(control: &mut ControlLoop, controller: Controller, namespace: &str) {
        let names: Vec<String> = K::cache(&control.caches).within(namespace).map(|o| o.name_any()).collect();
        for name in names {
            control.push(controller, namespace, &name);
        }
    }

    pub(super) fn pods(control: &mut ControlLoop, old: Option<&Pod>, new: Option<&Pod>) {
        own(control, Controller::Pod, old, new);
        for item in control.capacity.pod_changed(old, new) {
            control.push(item.controller, &item.namespace, &item.name);
        }
        let uid = |pod: Option<&Pod>| pod.and_then(kube::ResourceExt::uid);
        if let Some(gone) = uid(old).filter(|gone| Some(gone) != uid(new).as_ref()) {
            control.evictions.forget(&gone);
            control.kubelet.forget(&gone);
        }
        for pod in [old, new].into_iter().flatten() {
            owners(control, pod);
            services_of(control, pod);
        }
        let Some(pod) = new.or(old) else { return };
        let namespace = pod.namespace().unwrap_or_default();
        all_within::<PodDisruptionBudget>(control, Controller::Budget, &namespace);
        if new.is_some_and(is_orphan) {
            all_within::<ReplicaSet>(control, Controller::ReplicaSet, &namespace);
            all_within::<ReplicationController>(control, Controller::ReplicationController, &namespace);
            all_within::<StatefulSet>(control, Controller::StatefulSet, &namespace);
            all_within::<DaemonSet>(control, Controller::DaemonSet, &namespace);
            all_within::<Job>(control, Controller::Job, &namespace);
        }
        let claims: Vec<String> = pod
            .spec
            .iter()
            .flat_map(|s| s.volumes.iter().flatten())
            .filter_map(|v| Some(v.persistent_volume_claim.as_ref()?.claim_name.clone()))
            .collect();
        for claim in claims {
            control.push(Controller::Claim, &namespace, &claim);
        }
    }

    /// Enqueues the services that select a pod.
    fn services_of(control: &mut ControlLoop, pod: &Pod) {
        let namespace = pod.namespace().unwrap_or_default();
        let leads = |service: &Service| {
            let selector = service.spec.as_ref().and_then(|s| s.selector.as_ref());
            selector.is_some_and(|s| !s.is_empty() && s.iter().all(|(k, v)| pod.labels().get(k) == Some(v)))
        };
        let names: Vec<String> =
            control.caches.services.within(&namespace).filter(|s| leads(s)).map(|s| s.name_any()).collect();
        for name in names {
            control.push(Controller::Service, &namespace, &name);
        }
    }

    pub(super) fn stateful_sets(
        control: &mut ControlLoop,
        old: Option<&StatefulSet>,
        new: Option<&StatefulSet>,
    ) {
        own(control, Controller::StatefulSet, old, new);
    }

    pub(super) fn controller_revisions(
        control: &mut ControlLoop,
        old: Option<&ControllerRevision>,
        new: Option<&ControllerRevision>,
    ) {
        if let (Some(revision), None) = (old, new) {
            owners(control, revision);
        }
    }

    pub(super) fn services(control: &mut ControlLoop, old: Option<&Service>, new: Option<&Service>) {
        own(control, Controller::Service, old, new);
        own(control, Controller::Endpoints, old, new);
    }

    pub(super) fn endpoints(control: &mut ControlLoop, old: Option<&Endpoints>, new: Option<&Endpoints>) {
        own(control, Controller::Endpoints, old, new);
    }

    pub(super) fn endpoint_slices(
        control: &mut ControlLoop,
        old: Option<&EndpointSlice>,
        new: Option<&EndpointSlice>,
    ) {
        if let Some(slice) = new.or(old) {
            owners(control, slice);
        }
    }

    pub(super) fn jobs(control: &mut ControlLoop, old: Option<&Job>, new: Option<&Job>) {
        own(control, Controller::Job, old, new);
        for job in [old, new].into_iter().flatten() {
            owners(control, job);
        }
        // The tracking finalizer of a pod waits for its Job to count it, which a deleted Job no longer does.
        if new.is_none_or(|job| job.meta().deletion_timestamp.is_some()) {
            let uid = old.or(new).and_then(kube::ResourceExt::uid).unwrap_or_default();
            let pods: Vec<_> = control
                .caches
                .pods
                .controlled_by(&uid)
                .map(|p| (p.namespace().unwrap_or_default(), p.name_any()))
                .collect();
            for (namespace, name) in pods {
                control.push(Controller::Pod, &namespace, &name);
            }
        }
    }

    pub(super) fn replica_sets(
        control: &mut ControlLoop,
        old: Option<&ReplicaSet>,
        new: Option<&ReplicaSet>,
    ) {
        own(control, Controller::ReplicaSet, old, new);
        for set in [old, new].into_iter().flatten() {
            owners(control, set);
        }
        if let Some(set) = new.filter(|s| is_orphan(*s)) {
            let namespace = set.namespace().unwrap_or_default();
            let names: Vec<String> =
                control.caches.deployments.within(&namespace).map(|d| d.name_any()).collect();
            for name in names {
                control.push(Controller::Deployment, &namespace, &name);
            }
        }
    }

    pub(super) fn deployments(control: &mut ControlLoop, old: Option<&Deployment>, new: Option<&Deployment>) {
        own(control, Controller::Deployment, old, new);
    }
    pub(super) fn replication_controllers(
        control: &mut ControlLoop,
        old: Option<&ReplicationController>,
        new: Option<&ReplicationController>,
    ) {
        own(control, Controller::ReplicationController, old, new);
    }

    pub(super) fn daemon_sets(control: &mut ControlLoop, old: Option<&DaemonSet>, new: Option<&DaemonSet>) {
        own(control, Controller::DaemonSet, old, new);
    }

    pub(super) fn cron_jobs(control: &mut ControlLoop, old: Option<&CronJob>, new: Option<&CronJob>) {
        own(control, Controller::CronJob, old, new);
    }

    pub(super) fn storage_classes(
        control: &mut ControlLoop,
        old: Option<&StorageClass>,
        new: Option<&StorageClass>,
    ) {
        if old.is_some() == new.is_some() {
            return;
        }
        let waiting: Vec<_> = control
            .caches
            .claims
            .all()
            .filter(|c| c.status.as_ref().is_none_or(|s| s.phase.as_deref() != Some("Bound")))
            .map(|c| (c.namespace().unwrap_or_default(), c.name_any()))
            .collect();
        for (namespace, name) in waiting {
            control.push(Controller::Claim, &namespace, &name);
        }
    }

    pub(super) fn volumes(
        control: &mut ControlLoop,
        old: Option<&PersistentVolume>,
        new: Option<&PersistentVolume>,
    ) {
        own(control, Controller::Volume, old, new);
        let Some(volume) = new.or(old) else { return };
        if let Some(claim) = volume.spec.as_ref().and_then(|s| s.claim_ref.clone()) {
            control.push(
                Controller::Claim,
                &claim.namespace.unwrap_or_default(),
                &claim.name.unwrap_or_default(),
            );
        }
    }

    pub(super) fn claims(
        control: &mut ControlLoop,
        old: Option<&PersistentVolumeClaim>,
        new: Option<&PersistentVolumeClaim>,
    ) {
        own(control, Controller::Claim, old, new);
        let names = [old, new].into_iter().flatten();
        for name in names.filter_map(|c| c.spec.as_ref()?.volume_name.clone()) {
            control.push(Controller::Volume, "", &name);
        }
    }

    pub(super) fn budgets(
        control: &mut ControlLoop,
        old: Option<&PodDisruptionBudget>,
        new: Option<&PodDisruptionBudget>,
    ) {
        own(control, Controller::Budget, old, new);
    }

    pub(super) fn autoscalers(
        control: &mut ControlLoop,
        old: Option<&HorizontalPodAutoscaler>,
        new: Option<&HorizontalPodAutoscaler>,
    ) {
        // The controller's own status writes are no reason to reconcile again.
        if let (Some(old), Some(new)) = (old, new)
            && (&old.spec, &old.metadata.deletion_timestamp) == (&new.spec, &new.metadata.deletion_timestamp)
        {
            return;
        }
        if let Some(scaler) = new.or(old) {
            control.autoscalers.hasten(&scaler.namespace().unwrap_or_default(), &scaler.name_any());
        }
        own(control, Controller::Autoscaler, old, new);
    }

    pub(super) fn quotas(
        control: &mut ControlLoop,
        old: Option<&ResourceQuota>,
        new: Option<&ResourceQuota>,
    ) {
        own(control, Controller::Quota, old, new);
    }
}
