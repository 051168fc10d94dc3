//! The users that controllers act as, as admission and audit see them.

use steersman_api::user::User;

use super::Controller;

/// A component of the control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Actor {
    /// The controller manager itself, which opens the watches.
    ControllerManager,
    /// A controller with its own service account in `kube-system`.
    Account(&'static str),
    Scheduler,
    /// The kubelet of a node.
    Kubelet(String),
}

impl Actor {
    /// Returns the user of its requests.
    pub(crate) fn user(&self) -> User {
        match self {
            Self::ControllerManager => User::named("system:kube-controller-manager", []),
            Self::Account(name) => User::service_account("kube-system", name),
            Self::Scheduler => User::named("system:kube-scheduler", []),
            Self::Kubelet(node) => User::named(&format!("system:node:{node}"), ["system:nodes"]),
        }
    }

    /// Returns its field manager.
    pub(crate) fn manager(&self) -> &'static str {
        match self {
            Self::ControllerManager | Self::Account(_) => super::MANAGER,
            Self::Scheduler => "kube-scheduler",
            Self::Kubelet(_) => "kubelet",
        }
    }

    /// Returns the actor that starts the reconcile of an item.
    pub(super) fn of(controller: Controller, name: &str) -> Self {
        Self::Account(match controller {
            Controller::Discovery | Controller::Class | Controller::TokenSecret => {
                return Self::ControllerManager;
            }
            Controller::Node | Controller::Lease => return Self::Kubelet(name.to_owned()),
            // Other actors have their turn before it, within the same reconcile.
            Controller::Pod => return Self::Scheduler,
            Controller::Collect => "generic-garbage-collector",
            Controller::Namespace => "namespace-controller",
            Controller::Accounts => "service-account-controller",
            Controller::ClusterRoles => "clusterrole-aggregation-controller",
            Controller::ReplicaSet => "replicaset-controller",
            Controller::Deployment => "deployment-controller",
            Controller::StatefulSet => "statefulset-controller",
            Controller::Service => "endpointslice-controller",
            Controller::Endpoints => "endpointslicemirroring-controller",
            Controller::Job => "job-controller",
            Controller::ReplicationController => "replication-controller",
            Controller::DaemonSet => "daemon-set-controller",
            Controller::CronJob => "cronjob-controller",
            Controller::Claim | Controller::Volume => "persistent-volume-binder",
            Controller::Budget => "disruption-controller",
            Controller::Autoscaler => "horizontal-pod-autoscaler",
            Controller::Certificate => "certificate-controller",
            Controller::AdmissionPolicy => "validatingadmissionpolicy-status-controller",
            Controller::Quota => "resourcequota-controller",
        })
    }
}
