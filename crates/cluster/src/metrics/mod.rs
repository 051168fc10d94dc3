//! The resource metrics API, `metrics.k8s.io`, as metrics-server serves it: the usage of simulated pods and nodes.

mod documents;
mod install;
mod output;
mod server;
mod usage;

pub(crate) use install::install;
pub(crate) use server::MetricsServer;

/// The API group.
const GROUP: &str = "metrics.k8s.io";
/// The API version.
const VERSION: &str = "v1beta1";
/// Namespace of the service in front of it.
const NAMESPACE: &str = "kube-system";
/// Name of the service in front of it.
const NAME: &str = "metrics-server";
