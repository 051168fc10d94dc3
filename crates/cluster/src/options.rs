//! Options of the simulated workloads.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::pki::Authority;

/// A part of the simulated workloads. Each can be disabled, for instance to run the real program instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Part {
    /// Deletes objects whose owners are gone, and carries out foreground deletion and orphaning.
    GarbageCollection,
    /// Deletes the content of terminating namespaces.
    Namespaces,
    /// Creates the `default` ServiceAccount and the `kube-root-ca.crt` ConfigMap of each namespace.
    ServiceAccounts,
    /// Aggregates the rules of other ClusterRoles into `admin` and the like.
    ClusterRoles,
    /// Creates the nodes, and keeps their conditions and leases up to date.
    Nodes,
    /// Binds pods to nodes.
    Scheduler,
    /// Takes pods through their phases, as the kubelet does.
    Pods,
    /// Rolls out Deployments.
    Deployments,
    /// Keeps the pods of ReplicaSets.
    ReplicaSets,
    /// Keeps the pods of StatefulSets.
    StatefulSets,
    /// Keeps the EndpointSlices and Endpoints of Services.
    Endpoints,
    /// Runs Jobs.
    Jobs,
    /// Creates the Jobs of CronJobs on schedule.
    CronJobs,
    /// Keeps the pods of ReplicationControllers.
    ReplicationControllers,
    /// Keeps a pod of each DaemonSet on each eligible node.
    DaemonSets,
    /// Creates a default StorageClass, and binds and provisions PersistentVolumes.
    Volumes,
    /// Computes the allowed disruptions of PodDisruptionBudgets.
    DisruptionBudgets,
    /// Scales the targets of HorizontalPodAutoscalers.
    Autoscalers,
    /// Keeps the status of ResourceQuotas up to date.
    Quotas,
    /// Signs approved CertificateSigningRequests.
    Certificates,
    /// Keeps the `observedGeneration` of ValidatingAdmissionPolicies up to date.
    AdmissionPolicies,
    /// Records events.
    Events,
}

impl Part {
    /// Every part.
    pub const ALL: [Self; 22] = [
        Self::GarbageCollection,
        Self::Namespaces,
        Self::ServiceAccounts,
        Self::ClusterRoles,
        Self::Nodes,
        Self::Scheduler,
        Self::Pods,
        Self::Deployments,
        Self::ReplicaSets,
        Self::StatefulSets,
        Self::Endpoints,
        Self::Jobs,
        Self::CronJobs,
        Self::ReplicationControllers,
        Self::DaemonSets,
        Self::Volumes,
        Self::DisruptionBudgets,
        Self::Autoscalers,
        Self::Quotas,
        Self::Certificates,
        Self::AdmissionPolicies,
        Self::Events,
    ];
}

/// The options of the workloads.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) parts: BTreeSet<Part>,
    pub(crate) nodes: usize,
    /// Whether kubelets renew the leases of their nodes.
    pub(crate) heartbeats: bool,
    pub(crate) pod_start_delay: Duration,
    pub(crate) pod_run_time: Duration,
    pub(crate) pod_stop_delay: Duration,
    /// Images that cannot be pulled.
    pub(crate) missing_images: BTreeSet<String>,
    /// The authority that signs certificates. Its own certificate is published in `kube-root-ca.crt`.
    pub(crate) authority: Arc<Authority>,
}

impl Options {
    pub(crate) fn has(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }
}
