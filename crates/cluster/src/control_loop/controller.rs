//! The controllers of a cluster.

/// A controller's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::enum_variant_names, reason = "a ReplicationController is a kind")]
pub(crate) enum Controller {
    /// Finds out what is served.
    Discovery,
    /// The garbage collector.
    Collect,
    Namespace,
    Accounts,
    /// Fills Secrets that are to hold the token of a service account.
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
