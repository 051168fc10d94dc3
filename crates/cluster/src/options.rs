//! What a cluster does, and how.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::pki::Authority;

/// A part of the simulated workloads. Each can be left out, for instance so that the real program takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Part {
    /// Deletes what lost its owners, and carries out foreground deletion and orphaning.
    GarbageCollection,
    /// Empties namespaces that are deleted.
    Namespaces,
    /// Makes the `default` service account and the `kube-root-ca.crt` of each namespace.
    ServiceAccounts,
    /// Gathers the rules of cluster roles such as `admin` from others.
    ClusterRoles,
    /// Keeps nodes with their conditions and leases.
    Nodes,
    /// Puts pods onto nodes.
    Scheduler,
    /// Takes pods through their phases.
    Pods,
    /// Rolls deployments out.
    Deployments,
    /// Keeps the pods of replica sets.
    ReplicaSets,
    /// Keeps the pods of stateful sets.
    StatefulSets,
    /// Keeps the endpoints of services.
    Endpoints,
    /// Runs jobs.
    Jobs,
    /// Starts jobs on time.
    CronJobs,
    /// Keeps the pods of replication controllers.
    ReplicationControllers,
    /// Keeps a pod of each daemon set on each node.
    DaemonSets,
    /// Makes a default storage class, and binds claims to volumes.
    Volumes,
    /// Counts which pods may be disrupted.
    DisruptionBudgets,
    /// Scales the targets of autoscalers.
    Autoscalers,
    /// Counts what quotas limit.
    Quotas,
    /// Signs certificates for requests that are approved.
    Certificates,
    /// Says which generation of a validating admission policy has been looked at.
    AdmissionPolicies,
    /// Writes events.
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

/// What the workloads go by.
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
    /// The authority that signs certificates, and whose own `kube-root-ca.crt` shows.
    pub(crate) authority: Arc<Authority>,
}

impl Options {
    pub(crate) fn has(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }
}
