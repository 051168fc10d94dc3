//! The controllers of a cluster.

/// A controller, as part of a work item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::enum_variant_names, reason = "a ReplicationController is a kind")]
pub(crate) enum Controller {
    /// Discovers the served resources.
    Discovery,
    /// The garbage collector.
    Collect,
    Namespace,
    Accounts,
    /// Populates the token Secrets of service accounts.
    TokenSecret,
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
    Certificate,
    AdmissionPolicy,
    Quota,
}
